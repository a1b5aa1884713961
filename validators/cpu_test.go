package validators

import "testing"

func TestCPURules(t *testing.T) {
	runCases(t, cpuRules(), OnSpec|OnVMI, []ruleCase{
		{name: "no CPU", spec: `domain: {}`},
		{name: "a request", spec: `domain: {resources: {requests: {cpu: 100m}, limits: {cpu: 2}}}`},
		{name: "a request that is the limit", spec: `domain: {resources: {requests: {cpu: 2000m}, limits: {cpu: 2}}}`},
		{name: "a request without a limit", spec: `domain: {resources: {requests: {cpu: 2}, limits: {cpu: 0}}}`},
		{name: "the largest quantity", spec: `domain: {resources: {requests: {cpu: 9E}, limits: {cpu: 9E}}}`},
		{
			name: "a negative request and limit",
			spec: `domain: {resources: {requests: {cpu: -1m}, limits: {cpu: -1}}}`,
			want: []string{
				`cpu-limit-not-negative: spec.domain.resources.limits.cpu: Invalid value: "-1": must not be negative`,
				`cpu-request-not-negative: spec.domain.resources.requests.cpu: Invalid value: "-1m": must not be negative`,
			},
		},
		{
			name: "a request above the limit",
			spec: `domain: {resources: {requests: {cpu: 2001m}, limits: {cpu: 2}}}`,
			want: []string{`cpu-request-within-limit: spec.domain.resources.requests.cpu: Invalid value: "2001m": exceeds the limit of 2`},
		},
		{name: "as many sockets as can be", spec: `domain: {cpu: {sockets: 4, maxSockets: 4}}`},
		{name: "sockets without a maximum", spec: `domain: {cpu: {sockets: 4}}`},
		{
			name: "more sockets than there can be",
			spec: `domain: {cpu: {sockets: 6, maxSockets: 5}}`,
			want: []string{`cpu-sockets-within-maximum: spec.domain.cpu.sockets: Invalid value: 6: exceeds the maximum of 5 sockets`},
		},
		{name: "policies of features", spec: `domain: {cpu: {features: [{name: a}, {name: b, policy: force}, {name: c, policy: require}, {name: d, policy: optional}, {name: e, policy: disable}, {name: f, policy: forbid}]}}`},
		{
			name: "a policy that does not exist",
			spec: `domain: {cpu: {features: [{name: a}, {name: apic, policy: Require}]}}`,
			want: []string{`cpu-feature-policies: spec.domain.cpu.features[1].policy: Unsupported value: "Require": supported values: "force", "require", "optional", "disable", "forbid"`},
		},

		{name: "dedicated", spec: `domain: {cpu: {cores: 2, threads: 2, dedicatedCpuPlacement: true}, resources: {requests: {cpu: 4, memory: 1Gi}, limits: {cpu: 4, memory: 1Gi}}}`},
		{name: "dedicated, with a request", spec: `domain: {cpu: {dedicatedCpuPlacement: true}, resources: {requests: {cpu: 3, memory: 1Gi}}}`},
		{name: "not dedicated, and anything", spec: `domain: {cpu: {threads: 3}, resources: {requests: {cpu: 1200m, memory: 1Gi}, limits: {cpu: 2, memory: 2Gi}}}`},
		{name: "dedicated, with the guest's memory", spec: `domain: {cpu: {cores: 1, dedicatedCpuPlacement: true}, memory: {guest: 1Gi}}`},
		{name: "dedicated, with hugepages", spec: `domain: {cpu: {cores: 1, dedicatedCpuPlacement: true}, memory: {hugepages: {pageSize: 2Mi}}}`},
		{
			name: "dedicated, with nothing",
			spec: `domain: {cpu: {dedicatedCpuPlacement: true}}`,
			want: []string{
				`cpu-dedicated-count: spec.domain.cpu.dedicatedCpuPlacement: Invalid value: true: needs a number of CPUs`,
				`cpu-dedicated-memory: spec.domain.resources.limits.memory: Invalid value: "0": dedicated CPUs need a guaranteed pod, which needs an amount of memory`,
			},
		},
		{
			name: "dedicated, with less memory than the limit",
			spec: `domain: {cpu: {cores: 1, dedicatedCpuPlacement: true}, resources: {requests: {memory: 128Mi}, limits: {memory: 129Mi}}}`,
			want: []string{`cpu-dedicated-memory-guaranteed: spec.domain.resources.requests.memory: Invalid value: "128Mi": must equal the limit of 129Mi, because dedicated CPUs need a guaranteed pod`},
		},
		{
			name: "dedicated, with a fraction",
			spec: `domain: {cpu: {dedicatedCpuPlacement: true}, resources: {requests: {cpu: 1200m, memory: 1Gi}, limits: {cpu: 1500m}}}`,
			want: []string{
				`cpu-dedicated-whole: spec.domain.resources.limits.cpu: Invalid value: "1500m": must be a whole number, because the CPUs are dedicated`,
				`cpu-dedicated-whole: spec.domain.resources.requests.cpu: Invalid value: "1200m": must be a whole number, because the CPUs are dedicated`,
			},
		},
		{
			name: "dedicated, with a request below the limit",
			spec: `domain: {cpu: {dedicatedCpuPlacement: true}, resources: {requests: {cpu: 2, memory: 1Gi}, limits: {cpu: 4}}}`,
			want: []string{`cpu-dedicated-guaranteed: spec.domain.cpu.dedicatedCpuPlacement: Invalid value: true: needs a CPU request that equals the limit; they are 2 and 4`},
		},
		{
			name: "dedicated, with a request beside the topology",
			spec: `domain: {cpu: {cores: 4, dedicatedCpuPlacement: true}, resources: {requests: {cpu: 2, memory: 1Gi}}}`,
			want: []string{`cpu-dedicated-topology: spec.domain.cpu.dedicatedCpuPlacement: Invalid value: true: needs as many CPUs as the topology has: it has 4, the request or limit is 2`},
		},
		{
			name: "dedicated, with a limit beside a topology beyond measure",
			spec: `domain: {cpu: {sockets: 4294967295, cores: 4294967295, threads: 2, dedicatedCpuPlacement: true}, resources: {limits: {cpu: 2, memory: 1Gi}}}`,
			want: []string{`cpu-dedicated-topology: spec.domain.cpu.dedicatedCpuPlacement: Invalid value: true: needs as many CPUs as the topology has: it has 9223372036854775807, the request or limit is 2`},
		},
		{
			name: "dedicated, three threads",
			spec: `domain: {cpu: {cores: 1, threads: 3, dedicatedCpuPlacement: true}, resources: {requests: {memory: 1Gi}}}`,
			want: []string{`cpu-dedicated-threads: spec.domain.cpu.dedicatedCpuPlacement: Invalid value: true: allows at most 2 threads per core, not 3`},
		},
		{name: "dedicated, two threads, s390x", spec: `{architecture: s390x, domain: {cpu: {cores: 1, threads: 2, dedicatedCpuPlacement: true}, resources: {requests: {memory: 1Gi}}}}`},
		{name: "an isolated emulator thread", spec: `domain: {cpu: {cores: 2, isolateEmulatorThread: true, dedicatedCpuPlacement: true}, resources: {requests: {memory: 1Gi}}}`},
		{
			name: "an isolated emulator thread, not dedicated",
			spec: `domain: {cpu: {cores: 2, isolateEmulatorThread: true}}`,
			want: []string{`cpu-isolated-emulator-dedicated: spec.domain.cpu.isolateEmulatorThread: Invalid value: true: has no effect without cpu.dedicatedCpuPlacement`},
		},
		{
			name:          "NUMA and realtime",
			configuration: `developerConfiguration: {disabledFeatureGates: [NUMA]}`,
			spec:          `domain: {cpu: {cores: 2, dedicatedCpuPlacement: true, realtime: {}, numa: {guestMappingPassthrough: {}}}, memory: {hugepages: {pageSize: 2Mi}}, resources: {requests: {memory: 1Gi}}}`,
		},
		{name: "NUMA without a mapping", spec: `domain: {cpu: {cores: 2, numa: {}}}`},
		{
			name: "NUMA only",
			spec: `domain: {cpu: {cores: 2, numa: {guestMappingPassthrough: {}}}, memory: {}}`,
			want: []string{
				`cpu-numa-dedicated: spec.domain.cpu.numa.guestMappingPassthrough: Invalid value: needs cpu.dedicatedCpuPlacement: only dedicated CPUs stay on their NUMA node`,
				`cpu-numa-hugepages: spec.domain.cpu.numa.guestMappingPassthrough: Invalid value: needs memory.hugepages: only hugepages can be bound to NUMA nodes`,
			},
		},
		{
			name: "realtime only",
			spec: `domain: {cpu: {cores: 2, realtime: {}}}`,
			want: []string{
				`cpu-realtime-dedicated: spec.domain.cpu.dedicatedCpuPlacement: Required value: cpu.realtime needs dedicated CPUs`,
				`cpu-realtime-numa: spec.domain.cpu.numa.guestMappingPassthrough: Required value: cpu.realtime needs the NUMA topology of the host`,
			},
		},
	})
}
