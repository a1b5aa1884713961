package validators

import "testing"

func TestFeatures(t *testing.T) {
	runCases(t, featureRules(), OnSpec, []ruleCase{
		{name: "none", spec: `{}`},
		{name: "empty", spec: `{"domain":{"features":{"hyperv":{}}}}`},
		{name: "passed through", spec: `{"domain":{"features":{"hypervPassthrough":{"enabled":true}}}}`},
		{name: "a dependency that is met", spec: `{"domain":{"features":{"hyperv":{"synic":{"enabled":true},"vpindex":{"enabled":true}}}}}`},
		{name: "a dependency of what is off", spec: `{"domain":{"features":{"hyperv":{"synic":{"enabled":false},"vpindex":{"enabled":false}}}}}`},
		{
			name: "dependencies that are switched off",
			spec: `{"domain":{"features":{"hyperv":{"ipi":{"enabled":true},"tlbflush":{"enabled":true},"synictimer":{"enabled":true},"synic":{"enabled":true},"vpindex":{"enabled":false}}}}}`,
			want: []string{
				`hyperv-dependency: spec.domain.features.hyperv.ipi: Invalid value: "enabled": ipi needs vpindex, which is not enabled`,
				`hyperv-dependency: spec.domain.features.hyperv.synic: Invalid value: "enabled": synic needs vpindex, which is not enabled`,
				`hyperv-dependency: spec.domain.features.hyperv.tlbflush: Invalid value: "enabled": tlbflush needs vpindex, which is not enabled`,
			},
		},
		{
			name: "a dependency that is absent",
			spec: `{"domain":{"features":{"hyperv":{"synictimer":{"enabled":true}}}}}`,
			want: []string{`hyperv-dependency: spec.domain.features.hyperv.synictimer: Invalid value: "enabled": synictimer needs synic, which is not enabled`},
		},
		{name: "evmcs with vmx", spec: `{"domain":{"cpu":{"features":[{"name":"vmx","policy":"require"}]},"features":{"hyperv":{"evmcs":{"enabled":true},"vapic":{"enabled":true}}}}}`},
		{name: "evmcs that is off", spec: `{"domain":{"features":{"hyperv":{"evmcs":{"enabled":false}}}}}`},
		{
			name: "evmcs only",
			spec: `{"domain":{"features":{"hyperv":{"evmcs":{"enabled":true},"vapic":{"enabled":false}}}}}`,
			want: []string{
				`hyperv-evmcs-vmx: spec.domain.cpu.features: Required value: features.hyperv.evmcs needs the CPU feature vmx`,
				`hyperv-dependency: spec.domain.features.hyperv.evmcs: Invalid value: "enabled": evmcs needs vapic, which is not enabled`,
			},
		},
		{
			name: "evmcs with vmx forbidden",
			spec: `{"domain":{"cpu":{"features":[{"name":"pcid"},{"name":"vmx","policy":"forbid"}]},"features":{"hyperv":{"evmcs":{"enabled":true},"vapic":{"enabled":true}}}}}`,
			want: []string{`hyperv-evmcs-vmx-overwritten: spec.domain.cpu.features[1].policy: Invalid value: "forbid": KubeVirt replaces this policy, because features.hyperv.evmcs needs vmx`},
		},
		{
			name: "evmcs with vmx forbidden and vapic off",
			spec: `{"domain":{"cpu":{"features":[{"name":"vmx","policy":"forbid"}]},"features":{"hyperv":{"evmcs":{"enabled":true},"vapic":{"enabled":false}}}}}`,
			want: []string{
				`hyperv-evmcs-vmx: spec.domain.cpu.features[0].policy: Invalid value: "forbid": features.hyperv.evmcs needs another policy of vmx`,
				`hyperv-dependency: spec.domain.features.hyperv.evmcs: Invalid value: "enabled": evmcs needs vapic, which is not enabled`,
			},
		},
		{
			name: "chosen and passed through",
			spec: `{"domain":{"features":{"hyperv":{},"hypervPassthrough":{"enabled":false}}}}`,
			want: []string{`hyperv-passthrough-alone: spec.domain.features.hyperv: Invalid value: features.hypervPassthrough is also set, and enables all enlightenments of the host`},
		},
	})
}
