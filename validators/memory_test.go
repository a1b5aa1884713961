package validators

import "testing"

func TestMemoryRules(t *testing.T) {
	runCases(t, memoryRules(), OnSpec|OnVMI, []ruleCase{
		{name: "the guest's memory", spec: `domain: {memory: {guest: 1Gi}}`},
		{name: "a request", spec: `domain: {resources: {requests: {memory: 1M}}}`},
		{name: "hugepages only", spec: `domain: {memory: {hugepages: {pageSize: 1Gi}}}`},
		{name: "a request of hugepages", spec: `domain: {memory: {guest: 1Gi, hugepages: {pageSize: 1Gi}}, resources: {requests: {memory: 2Gi}}}`},
		{name: "a guest of hugepages", spec: `domain: {memory: {guest: 2Gi, hugepages: {pageSize: 1Gi}}}`},
		{name: "a request of the limit", spec: `domain: {resources: {requests: {memory: 1Gi}, limits: {memory: 1024Mi}}}`},
		{name: "the largest quantity", spec: `domain: {memory: {guest: 9E}, resources: {requests: {memory: 9E}, limits: {memory: 9E}}}`},
		{
			name: "none",
			spec: `domain: {}`,
			want: []string{`memory-amount: spec.domain.memory: Required value: the VM requests no memory`},
		},
		{
			name: "none, in a memory",
			spec: `domain: {memory: {}, resources: {requests: {memory: 0}}}`,
			want: []string{`memory-amount: spec.domain.memory: Required value: the VM requests no memory`},
		},
		{
			name: "negative",
			spec: `domain: {memory: {guest: 1Gi}, resources: {requests: {memory: -2Mi}, limits: {memory: -1Mi}}}`,
			want: []string{
				`memory-limit-not-negative: spec.domain.resources.limits.memory: Invalid value: "-1Mi": must not be negative`,
				`memory-request-least: spec.domain.resources.requests.memory: Invalid value: "-2Mi": must not be negative`,
			},
		},
		{
			name: "too little",
			spec: `domain: {resources: {requests: {memory: 999k}}}`,
			want: []string{`memory-request-least: spec.domain.resources.requests.memory: Invalid value: "999k": must be at least 1M`},
		},
		{
			name: "a request above the limit",
			spec: `domain: {resources: {requests: {memory: 513Mi}, limits: {memory: 512Mi}}}`,
			want: []string{`memory-request-within-limit: spec.domain.resources.requests.memory: Invalid value: "513Mi": exceeds the limit of 512Mi`},
		},
		{
			name: "a guest above the limit, live",
			spec: `domain: {memory: {guest: 128Mi}, resources: {limits: {memory: 127Mi}}}`,
		},
		{
			name:          "a guest above the limit",
			configuration: `vmRolloutStrategy: Stage`,
			spec:          `domain: {memory: {guest: 128Mi}, resources: {limits: {memory: 127Mi}}}`,
			want:          []string{`memory-guest-within-limit: spec.domain.memory.guest: Invalid value: "128Mi": exceeds the memory limit of 127Mi`},
		},
		{name: "a guest of the limit", configuration: `vmRolloutStrategy: Stage`, spec: `domain: {memory: {guest: 128Mi}, resources: {limits: {memory: 128Mi}}}`},
		{name: "a guest without a limit", configuration: `vmRolloutStrategy: Stage`, spec: `domain: {memory: {guest: 128Mi}}`},
		{
			name: "hugepages without a size",
			spec: `domain: {memory: {guest: 128Mi, hugepages: {}}}`,
			want: []string{`memory-hugepages-size: spec.domain.memory.hugepages.pageSize: Invalid value: "": is not an amount of memory above zero`},
		},
		{
			name: "hugepages of no unit",
			spec: `domain: {memory: {guest: 128Mi, hugepages: {pageSize: 2Mib}}}`,
			want: []string{`memory-hugepages-size: spec.domain.memory.hugepages.pageSize: Invalid value: "2Mib": is not an amount of memory above zero`},
		},
		{
			name: "hugepages of zero",
			spec: `domain: {memory: {guest: 128Mi, hugepages: {pageSize: "0"}}}`,
			want: []string{`memory-hugepages-size: spec.domain.memory.hugepages.pageSize: Invalid value: "0": is not an amount of memory above zero`},
		},
		{
			name: "hugepages below zero",
			spec: `domain: {memory: {guest: 128Mi, hugepages: {pageSize: -2Mi}}}`,
			want: []string{`memory-hugepages-size: spec.domain.memory.hugepages.pageSize: Invalid value: "-2Mi": is not an amount of memory above zero`},
		},
		{
			name: "hugepages beyond measure",
			spec: `domain: {memory: {guest: 128Mi, hugepages: {pageSize: 1e999999999}}}`,
			want: []string{`memory-hugepages-size: spec.domain.memory.hugepages.pageSize: Invalid value: "1e999999999": is not an amount of memory above zero`},
		},
		{
			name: "less than a hugepage",
			spec: `domain: {memory: {guest: 1Mi, hugepages: {pageSize: 2Mi}}}`,
			want: []string{`memory-hugepages-multiple: spec.domain.resources.requests.memory: Invalid value: "1Mi": the memory is less than one hugepage of 2Mi`},
		},
		{
			name: "hugepages and a half",
			spec: `domain: {memory: {guest: 1Gi, hugepages: {pageSize: 1Gi}}, resources: {requests: {memory: 1536Mi}}}`,
			want: []string{`memory-hugepages-multiple: spec.domain.resources.requests.memory: Invalid value: "1536Mi": the memory is not a multiple of the hugepages' size of 1Gi`},
		},
		{
			name:          "a reserved overhead",
			configuration: `developerConfiguration: {featureGates: [ReservedOverheadMemlock]}`,
			spec:          `domain: {memory: {guest: 128Mi, reservedOverhead: {addedOverhead: 100Mi}}}`,
		},
		{
			name: "a reserved overhead, its gate closed",
			spec: `domain: {memory: {guest: 128Mi, reservedOverhead: {memLock: Required}}}`,
			want: []string{`memory-reserved-overhead-gate: spec.domain.memory.reservedOverhead: Invalid value: a reserved overhead needs KubeVirt's feature gate ReservedOverheadMemlock, which is off in this cluster`},
		},
	})
}
