package validators_test

import "testing"

func TestIOThreadRules(t *testing.T) {
	runSpecTests(t, "iothreads", map[string]specTest{
		"none":                    {spec: `domain: {}`},
		"shared":                  {spec: `domain: {ioThreadsPolicy: shared}`},
		"auto":                    {spec: `domain: {ioThreadsPolicy: auto}`},
		"a pool":                  {spec: `domain: {ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 1}}`},
		"a pool that is not used": {spec: `domain: {ioThreads: {supplementalPoolThreadCount: 0}}`},
		"a policy that does not exist": {
			spec: `domain: {ioThreadsPolicy: Auto}`,
			want: []string{`iothreads-policy: spec.domain.ioThreadsPolicy: Invalid value: "Auto": must be shared, auto or supplementalPool`},
		},
		"a pool of unknown size": {
			spec: `domain: {ioThreadsPolicy: supplementalPool, ioThreads: {}}`,
			want: []string{`iothreads-pool-size: spec.domain.ioThreads.supplementalPoolThreadCount: Invalid value: must be set, because ioThreadsPolicy is supplementalPool`},
		},
		"an empty pool": {
			spec: `domain: {ioThreadsPolicy: supplementalPool, ioThreads: {supplementalPoolThreadCount: 0}}`,
			want: []string{`iothreads-pool-size: spec.domain.ioThreads.supplementalPoolThreadCount: Invalid value: 0: must be at least 1, because ioThreadsPolicy is supplementalPool`},
		},
	})
}
