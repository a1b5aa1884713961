package validators

import "testing"

func TestNetworkRules(t *testing.T) {
	runCases(t, networkRules().area("network"), OnSpec|OnVMI, []ruleCase{
		{
			name: "none",
			spec: `domain: {}`,
		},
		{
			name: "pod and multus",
			spec: `networks: [{name: a, pod: {}}, {name: b, multus: {networkName: nad}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: a, masquerade: {}}, {name: b, bridge: {}}]}}`,
		},
		{
			name: "a multus default",
			spec: `networks: [{name: a, multus: {networkName: nad, default: true}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: a, bridge: {}}]}}`,
		},
		{
			name: "a resource claim",
			spec: `networks: [{name: a, resourceClaim: {claimName: c, requestName: r}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: a, sriov: {}}]}}`,
		},
		{
			name: "one name twice",
			spec: `networks: [{name: a, multus: {networkName: x}}, {name: a, multus: {networkName: z}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: a, bridge: {}}]}}`,
			want: []string{
				`network-names-unique: spec.networks[1].name: Duplicate value: "a": networks[0] already has this name`,
			},
		},
		{
			name: "sources",
			spec: `networks: [{name: a}, {name: b, pod: {}, multus: {networkName: x}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: a, bridge: {}}, {name: b, bridge: {}}]}}`,
			want: []string{
				`network-source: spec.networks[0]: Required value: network "a" has 0 sources`,
				`network-source: spec.networks[1]: Required value: network "b" has 2 sources`,
			},
		},
		{
			name: "multus without a name",
			spec: `networks: [{name: a, multus: {networkName: ""}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: a, bridge: {}}]}}`,
			want: []string{
				`network-multus-name: spec.networks[0]: Required value: network "a" has no multus.networkName`,
			},
		},
		{
			name: "two pod networks",
			spec: `networks: [{name: a, pod: {}}, {name: b, pod: {}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: a, masquerade: {}}, {name: b, masquerade: {}}]}}`,
			want: []string{
				`network-single-pod: spec.networks: Duplicate value: "pod": "a" and "b" are both the pod network`,
			},
		},
		{
			name: "two defaults",
			spec: `networks: [{name: a, multus: {networkName: x, default: true}}, {name: b, multus: {networkName: z, default: true}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: a, bridge: {}}, {name: b, bridge: {}}]}}`,
			want: []string{
				`network-single-default: spec.networks: Invalid value: "b": "a" is already the multus default`,
			},
		},
		{
			name: "pod and multus default",
			spec: `networks: [{name: a, pod: {}}, {name: b, multus: {networkName: z, default: true}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: a, masquerade: {}}, {name: b, bridge: {}}]}}`,
			want: []string{
				`network-pod-or-default: spec.networks: Invalid value: "b": the multus default replaces the pod network, which is "a"`,
			},
		},
		{
			name: "no interface",
			spec: `networks: [{name: a, pod: {}}, {name: b, multus: {networkName: z}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: a, masquerade: {}}]}}`,
			want: []string{
				`network-has-interface: spec.networks[1].name: Required value: network "b" has no interface`,
			},
		},
	})
}
