package validators_test

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

// reversed turns every list in a value around.
func reversed(value any) any {
	switch v := value.(type) {
	case map[string]any:
		turned := map[string]any{}
		for key, below := range v {
			turned[key] = reversed(below)
		}
		return turned
	case []any:
		turned := make([]any, len(v))
		for i := range v {
			turned[len(v)-1-i] = reversed(v[i])
		}
		return turned
	}
	return value
}

// TestOrderSaysNothing holds that lists may be written in another order: no finding is a new one then, so that an old
// fault stays a warning at an update.
func TestOrderSaysNothing(t *testing.T) {
	c := newChecker(t)
	gates := []any{"GPUsWithDRA", "HostDevicesWithDRA", "NetworkDevicesWithDRA", "HostDevices"}
	for _, tc := range []struct {
		rule, spec string
		// on and off are feature gates of KubeVirt's.
		on, off []any
	}{
		{rule: "volume-one-service-account", spec: `volumes: [{name: a, serviceAccount: {serviceAccountName: x}}, {name: b, serviceAccount: {serviceAccountName: w}}]`},
		{rule: "volume-one-memory-dump", spec: `volumes: [{name: a, memoryDump: {claimName: x}}, {name: b, memoryDump: {claimName: w}}]`},
		{
			rule: "service-account-volume",
			spec: `{serviceAccountName: x, volumes: [{name: a, serviceAccount: {serviceAccountName: w}}, {name: b, serviceAccount: {serviceAccountName: z}}]}`,
		},
		{
			rule: "filesystem-storage-gate",
			spec: `{domain: {devices: {filesystems: [{name: a, virtiofs: {}}, {name: b, virtiofs: {}}]}}, volumes: [{name: a, dataVolume: {name: a}}, {name: b, dataVolume: {name: b}}]}`,
		},
		{rule: "volume-names-unique", spec: `volumes: [{name: a, containerDisk: {image: x}}, {name: b, containerDisk: {image: w}}, {name: a, containerDisk: {image: z}}]`},
		{
			rule: "hostdevice-one-boot-display", on: gates,
			spec: `domain: {devices: {gpus: [{name: a, deviceName: x, virtualGPUOptions: {display: {}}}, {name: b, deviceName: x, virtualGPUOptions: {display: {}}}, {name: c, deviceName: x, virtualGPUOptions: {display: {}}}]}}`,
		},
		{rule: "hostdevice-gate", off: gates, spec: `domain: {devices: {hostDevices: [{name: a, deviceName: x}, {name: b, deviceName: w}]}}`},
		{
			rule: "boot-order-unique",
			spec: `domain: {devices: {disks: [{name: a, bootOrder: 1}, {name: b, bootOrder: 1}, {name: c, bootOrder: 2}], interfaces: [{name: d, bootOrder: 2}, {name: e, bootOrder: 2}]}}`,
		},
		{rule: "network-single-pod", spec: `networks: [{name: a, pod: {}}, {name: b, pod: {}}]`},
		{rule: "network-single-default", spec: `networks: [{name: a, multus: {networkName: nad, default: true}}, {name: b, multus: {networkName: nad, default: true}}]`},
		{rule: "network-pod-or-default", spec: `networks: [{name: a, pod: {}}, {name: b, multus: {networkName: nad, default: true}}, {name: c, multus: {networkName: nad, default: true}}]`},
		{rule: "network-names-unique", spec: `networks: [{name: a, pod: {}}, {name: b, multus: {networkName: nad}}, {name: a, multus: {networkName: nad}}]`},
		{rule: "dra-device-has-source", on: gates, spec: `domain: {devices: {hostDevices: [{name: a}, {name: b, deviceName: x}, {name: c, deviceName: x}]}}`},
		{rule: "dra-device-one-source", on: gates, spec: `domain: {devices: {hostDevices: [{name: a, deviceName: x, claimName: c, requestName: r}, {name: b, deviceName: x}]}}`},
		{rule: "dra-device-gate", off: gates, spec: `{domain: {devices: {gpus: [{name: a, claimName: c, requestName: r}, {name: b, claimName: c, requestName: s}]}}, resourceClaims: [{name: c, resourceClaimName: x}]}`},
		{rule: "dra-network-gate", off: gates, spec: `{networks: [{name: a, resourceClaim: {claimName: c, requestName: r}}, {name: b, resourceClaim: {claimName: c, requestName: s}}], resourceClaims: [{name: c, resourceClaimName: x}]}`},
		{
			rule: "dra-request-used-once", on: gates,
			spec: `{domain: {devices: {gpus: [{name: a, claimName: c, requestName: r}, {name: b, claimName: c, requestName: r}], hostDevices: [{name: a, claimName: c, requestName: r}]}},
  networks: [{name: b, resourceClaim: {claimName: c, requestName: s}}, {name: a, resourceClaim: {claimName: c, requestName: s}}], resourceClaims: [{name: c, resourceClaimName: x}]}`,
		},
		{rule: "dra-network-binding", on: gates, spec: `{domain: {devices: {interfaces: [{name: a, bridge: {}}, {name: b, sriov: {}}]}}, networks: [{name: a, resourceClaim: {claimName: c, requestName: r}}, {name: b, resourceClaim: {claimName: c, requestName: s}}]}`},
		{
			rule: "dra-network-without-multus", on: gates,
			spec: `networks: [{name: a, resourceClaim: {claimName: c, requestName: r}}, {name: b, resourceClaim: {claimName: c, requestName: s}}, {name: c, multus: {networkName: nad}}, {name: d, multus: {networkName: nad}}]`,
		},
		{
			rule: "scheduling-node-expressions",
			spec: `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Gt, values: ["1", "2"]}, {key: b, operator: Exists, values: ["1", "2"]}]}]}}}`,
		},
		{
			rule: "scheduling-node-fields",
			spec: `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [a, b]}]}]}}}`,
		},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			var spec any
			if err := yaml.Unmarshal([]byte(tc.spec), &spec); err != nil {
				t.Fatal(err)
			}
			before, after := c.verdict(t, spec, tc.on, tc.off), c.verdict(t, reversed(spec), tc.on, tc.off)
			after.Ratchet(before)
			seen := false
			for i := range after.Findings {
				f := &after.Findings[i]
				if f.Rule == tc.rule {
					seen = true
				}
				if f.Severity == validators.Deny {
					t.Errorf("new in another order: %s: %s", f.Error.Field, f.Message())
				}
			}
			if !seen {
				t.Error("there is no finding of the rule")
			}
		})
	}
}

// verdict evaluates a VM of a spec.
func (c *checker) verdict(t *testing.T, spec any, on, off []any) *effective.Verdict {
	t.Helper()
	data, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	vm := &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{RunStrategy: new(v1.RunStrategyHalted), Template: &v1.VirtualMachineInstanceTemplateSpec{}}}
	if err := json.Unmarshal(data, &vm.Spec.Template.Spec); err != nil {
		t.Fatal(err)
	}
	vm.Name = "db"
	facts, err := platform.FromKubeVirt(&unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "kubevirt", "namespace": "kubevirt"},
		"spec":     map[string]any{"configuration": map[string]any{"developerConfiguration": map[string]any{"featureGates": on, "disabledFeatureGates": off}}},
	}}, platform.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	verdict, err := c.pipeline.Decide(effective.Input{VM: vm, Facts: facts})
	if err != nil {
		t.Fatal(err)
	}
	return verdict
}
