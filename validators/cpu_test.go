package validators_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

// specTest is a spec, under a configuration of KubeVirt, and what the rules of an area say of it.
type specTest struct {
	configuration string
	spec          string
	want          []string
}

// runSpecTests runs the rules for VMIs whose ids begin with the area.
func runSpecTests(t *testing.T, area string, tests map[string]specTest) {
	t.Helper()
	base, err := validators.Base()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			subject := &validators.Subject{
				Facts: factsFrom(t, test.configuration),
				VMI:   &v1.VirtualMachineInstance{},
				Path:  field.NewPath("spec"), MetaPath: field.NewPath("metadata"),
			}
			subject.Spec, subject.Meta = &subject.VMI.Spec, &subject.VMI.ObjectMeta
			if err := yaml.UnmarshalStrict([]byte(test.spec), subject.Spec); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range base.Check(subject, validators.OnSpec|validators.OnVMI) {
				if strings.HasPrefix(f.Rule, area+"-") {
					got = append(got, f.Rule+": "+f.Error.Error())
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func factsFrom(t *testing.T, configuration string) *platform.Facts {
	t.Helper()
	var c map[string]any
	if err := yaml.Unmarshal([]byte(configuration), &c); err != nil {
		t.Fatal(err)
	}
	kv := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"configuration": c}}}
	kv.SetName("kubevirt")
	kv.SetNamespace("kubevirt")
	facts, err := platform.FromKubeVirt(kv, platform.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

func TestCPURules(t *testing.T) {
	runSpecTests(t, "cpu", map[string]specTest{
		"no CPU":                      {spec: `domain: {}`},
		"a request":                   {spec: `domain: {resources: {requests: {cpu: 100m}, limits: {cpu: 2}}}`},
		"a request that is the limit": {spec: `domain: {resources: {requests: {cpu: 2000m}, limits: {cpu: 2}}}`},
		"a request without a limit":   {spec: `domain: {resources: {requests: {cpu: 2}, limits: {cpu: 0}}}`},
		"the largest quantity":        {spec: `domain: {resources: {requests: {cpu: 9E}, limits: {cpu: 9E}}}`},
		"a negative request and limit": {
			spec: `domain: {resources: {requests: {cpu: -1m}, limits: {cpu: -1}}}`,
			want: []string{
				`cpu-limit-not-negative: spec.domain.resources.limits.cpu: Invalid value: "-1": must not be negative`,
				`cpu-request-not-negative: spec.domain.resources.requests.cpu: Invalid value: "-1m": must not be negative`,
			},
		},
		"a request above the limit": {
			spec: `domain: {resources: {requests: {cpu: 2001m}, limits: {cpu: 2}}}`,
			want: []string{`cpu-request-within-limit: spec.domain.resources.requests.cpu: Invalid value: "2001m": exceeds the limit of 2`},
		},
		"as many sockets as can be": {spec: `domain: {cpu: {sockets: 4, maxSockets: 4}}`},
		"sockets without a maximum": {spec: `domain: {cpu: {sockets: 4}}`},
		"more sockets than there can be": {
			spec: `domain: {cpu: {sockets: 6, maxSockets: 5}}`,
			want: []string{`cpu-sockets-within-maximum: spec.domain.cpu.sockets: Invalid value: 6: exceeds the maximum of 5 sockets`},
		},
		"policies of features": {spec: `domain: {cpu: {features: [{name: a}, {name: b, policy: force}, {name: c, policy: require}, {name: d, policy: optional}, {name: e, policy: disable}, {name: f, policy: forbid}]}}`},
		"a policy that does not exist": {
			spec: `domain: {cpu: {features: [{name: a}, {name: apic, policy: Require}]}}`,
			want: []string{`cpu-feature-policies: spec.domain.cpu.features[1].policy: Unsupported value: "Require": supported values: "force", "require", "optional", "disable", "forbid"`},
		},

		"dedicated":                          {spec: `domain: {cpu: {cores: 2, threads: 2, dedicatedCpuPlacement: true}, resources: {requests: {cpu: 4, memory: 1Gi}, limits: {cpu: 4, memory: 1Gi}}}`},
		"dedicated, with a request":          {spec: `domain: {cpu: {dedicatedCpuPlacement: true}, resources: {requests: {cpu: 3, memory: 1Gi}}}`},
		"not dedicated, and anything":        {spec: `domain: {cpu: {threads: 3}, resources: {requests: {cpu: 1200m, memory: 1Gi}, limits: {cpu: 2, memory: 2Gi}}}`},
		"dedicated, with the guest's memory": {spec: `domain: {cpu: {cores: 1, dedicatedCpuPlacement: true}, memory: {guest: 1Gi}}`},
		"dedicated, with hugepages":          {spec: `domain: {cpu: {cores: 1, dedicatedCpuPlacement: true}, memory: {hugepages: {pageSize: 2Mi}}}`},
		"dedicated, with nothing": {
			spec: `domain: {cpu: {dedicatedCpuPlacement: true}}`,
			want: []string{
				`cpu-dedicated-count: spec.domain.cpu.dedicatedCpuPlacement: Invalid value: true: needs a number of CPUs: a topology, a CPU request or a CPU limit`,
				`cpu-dedicated-memory: spec.domain.resources.limits.memory: Invalid value: "0": dedicated CPUs need a guaranteed pod, and so memory.guest, memory.hugepages, or a memory request or limit`,
			},
		},
		"dedicated, with less memory than the limit": {
			spec: `domain: {cpu: {cores: 1, dedicatedCpuPlacement: true}, resources: {requests: {memory: 128Mi}, limits: {memory: 129Mi}}}`,
			want: []string{`cpu-dedicated-memory-guaranteed: spec.domain.resources.requests.memory: Invalid value: "128Mi": must equal the limit of 129Mi, because dedicated CPUs need a guaranteed pod`},
		},
		"dedicated, with a fraction": {
			spec: `domain: {cpu: {dedicatedCpuPlacement: true}, resources: {requests: {cpu: 1200m, memory: 1Gi}, limits: {cpu: 1500m}}}`,
			want: []string{
				`cpu-dedicated-whole: spec.domain.resources.limits.cpu: Invalid value: "1500m": must be a whole number, because the CPUs are dedicated`,
				`cpu-dedicated-whole: spec.domain.resources.requests.cpu: Invalid value: "1200m": must be a whole number, because the CPUs are dedicated`,
			},
		},
		"dedicated, with a request below the limit": {
			spec: `domain: {cpu: {dedicatedCpuPlacement: true}, resources: {requests: {cpu: 2, memory: 1Gi}, limits: {cpu: 4}}}`,
			want: []string{`cpu-dedicated-guaranteed: spec.domain.cpu.dedicatedCpuPlacement: Invalid value: true: needs a CPU request that equals the limit; they are 2 and 4`},
		},
		"dedicated, with a request beside the topology": {
			spec: `domain: {cpu: {cores: 4, dedicatedCpuPlacement: true}, resources: {requests: {cpu: 2, memory: 1Gi}}}`,
			want: []string{`cpu-dedicated-topology: spec.domain.cpu.dedicatedCpuPlacement: Invalid value: true: needs as many CPUs as the topology has: it has 4, the request or limit is 2`},
		},
		"dedicated, with a limit beside a topology beyond measure": {
			spec: `domain: {cpu: {sockets: 4294967295, cores: 4294967295, threads: 2, dedicatedCpuPlacement: true}, resources: {limits: {cpu: 2, memory: 1Gi}}}`,
			want: []string{`cpu-dedicated-topology: spec.domain.cpu.dedicatedCpuPlacement: Invalid value: true: needs as many CPUs as the topology has: it has 9223372036854775807, the request or limit is 2`},
		},
		"dedicated, three threads": {
			spec: `domain: {cpu: {cores: 1, threads: 3, dedicatedCpuPlacement: true}, resources: {requests: {memory: 1Gi}}}`,
			want: []string{`cpu-dedicated-threads: spec.domain.cpu.dedicatedCpuPlacement: Invalid value: true: allows at most 2 threads per core, not 3`},
		},
		"dedicated, two threads, arm64": {
			spec: `{architecture: arm64, domain: {cpu: {cores: 1, threads: 2, dedicatedCpuPlacement: true}, resources: {requests: {memory: 1Gi}}}}`,
			want: []string{`cpu-dedicated-threads-arm64: spec.architecture: Invalid value: "arm64": has one thread per core where CPUs are dedicated, not 2`},
		},
		"dedicated, two threads, s390x": {spec: `{architecture: s390x, domain: {cpu: {cores: 1, threads: 2, dedicatedCpuPlacement: true}, resources: {requests: {memory: 1Gi}}}}`},
		"an isolated emulator thread":   {spec: `domain: {cpu: {cores: 2, isolateEmulatorThread: true, dedicatedCpuPlacement: true}, resources: {requests: {memory: 1Gi}}}`},
		"an isolated emulator thread, not dedicated": {
			spec: `domain: {cpu: {cores: 2, isolateEmulatorThread: true}}`,
			want: []string{`cpu-isolated-emulator-dedicated: spec.domain.cpu.isolateEmulatorThread: Invalid value: true: has no effect without cpu.dedicatedCpuPlacement`},
		},
		"NUMA and realtime": {
			configuration: `developerConfiguration: {disabledFeatureGates: [NUMA]}`,
			spec:          `domain: {cpu: {cores: 2, dedicatedCpuPlacement: true, realtime: {}, numa: {guestMappingPassthrough: {}}}, memory: {hugepages: {pageSize: 2Mi}}, resources: {requests: {memory: 1Gi}}}`,
		},
		"NUMA without a mapping": {spec: `domain: {cpu: {cores: 2, numa: {}}}`},
		"NUMA alone": {
			spec: `domain: {cpu: {cores: 2, numa: {guestMappingPassthrough: {}}}, memory: {}}`,
			want: []string{
				`cpu-numa-dedicated: spec.domain.cpu.numa.guestMappingPassthrough: Invalid value: needs cpu.dedicatedCpuPlacement: only dedicated CPUs stay on their NUMA node`,
				`cpu-numa-hugepages: spec.domain.cpu.numa.guestMappingPassthrough: Invalid value: needs memory.hugepages: only hugepages can be bound to NUMA nodes`,
			},
		},
		"realtime alone": {
			spec: `domain: {cpu: {cores: 2, realtime: {}}}`,
			want: []string{
				`cpu-realtime-dedicated: spec.domain.cpu.dedicatedCpuPlacement: Required value: cpu.realtime needs dedicated CPUs`,
				`cpu-realtime-numa: spec.domain.cpu.numa.guestMappingPassthrough: Required value: cpu.realtime needs the NUMA topology of the host`,
			},
		},
	})
}
