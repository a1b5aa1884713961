package validators

import "testing"

func TestMachine(t *testing.T) {
	runCases(t, machineRules(), OnSpec, []ruleCase{
		{name: "none", spec: `{}`},
		{name: "no type", spec: `{"architecture":"amd64","domain":{"machine":{"type":""}}}`},
		{name: "q35", spec: `{"architecture":"amd64","domain":{"machine":{"type":"pc-q35-9.0"}}}`},
		{name: "virt", spec: `{"architecture":"arm64","domain":{"machine":{"type":"virt-8.2"}}}`},
		{name: "s390-ccw-virtio", spec: `{"architecture":"s390x","domain":{"machine":{"type":"s390-ccw-virtio-rhel9.4.0"}}}`},
		{
			name: "a type of another architecture",
			spec: `{"architecture":"s390x","domain":{"machine":{"type":"q35"}}}`,
			want: []string{`machine-type-emulated: spec.domain.machine.type: Invalid value: "q35": the cluster allows machine types of the form s390-ccw-virtio* on s390x`},
		},
		{
			name: "a pattern is of the whole",
			spec: `{"domain":{"machine":{"type":"xq35"}}}`,
			want: []string{`machine-type-emulated: spec.domain.machine.type: Invalid value: "xq35": the cluster allows machine types of the form q35*, pc-q35* on amd64`},
		},
		{
			name:          "a pattern of the cluster",
			configuration: `{"emulatedMachines":["foo-[0-9]"]}`,
			spec:          `{"domain":{"machine":{"type":"foo-1"}}}`,
		},
		{
			name:          "a broken pattern allows nothing",
			configuration: `{"emulatedMachines":["["]}`,
			spec:          `{"domain":{"machine":{"type":"["}}}`,
			want:          []string{`machine-type-emulated: spec.domain.machine.type: Invalid value: "[": the cluster allows machine types of the form [ on amd64`},
		},
		{
			name: "an architecture without KubeVirt",
			spec: `{"architecture":"riscv64"}`,
			want: []string{`architecture-supported: spec.architecture: Invalid value: "riscv64": KubeVirt does not support this architecture`},
		},
	})
}
