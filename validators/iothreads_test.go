package validators

import "testing"

func TestIOThreadRules(t *testing.T) {
	runCases(t, ioThreadRules(), OnSpec|OnVMI, []ruleCase{
		{name: "none", spec: `domain: {}`},
		{name: "shared", spec: `domain: {ioThreadsPolicy: shared}`},
		{name: "auto", spec: `domain: {ioThreadsPolicy: auto}`},
		{name: "a pool", spec: `domain: {ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 1}}`},
		{name: "a pool that is not used", spec: `domain: {ioThreads: {supplementalPoolThreadCount: 0}}`},
		{
			name: "a policy that does not exist",
			spec: `domain: {ioThreadsPolicy: Auto}`,
			want: []string{`iothreads-policy: spec.domain.ioThreadsPolicy: Invalid value: "Auto": the policy is unknown: supported values: "shared", "auto", "supplementalPool"`},
		},
		{
			name: "a pool of unknown size",
			spec: `domain: {ioThreadsPolicy: supplementalPool, ioThreads: {}}`,
			want: []string{`iothreads-pool-size: spec.domain.ioThreads.supplementalPoolThreadCount: Invalid value: must be set, because ioThreadsPolicy is supplementalPool`},
		},
		{
			name: "an empty pool",
			spec: `domain: {ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 0}}`,
			want: []string{`iothreads-pool-size: spec.domain.ioThreads.supplementalPoolThreadCount: Invalid value: 0: must be at least 1, because ioThreadsPolicy is supplementalPool`},
		},
	})
}
