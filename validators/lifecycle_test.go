package validators

import "testing"

func TestEvictionRules(t *testing.T) {
	const cluster = "; it comes from KubeVirt kubevirt/kubevirt"
	runCases(t, lifecycleRules().area("eviction"), OnSpec|OnVMI, []ruleCase{
		{name: "none", spec: `domain: {}`},
		{name: "the VM's", spec: `{evictionStrategy: LiveMigrateIfPossible, domain: {}}`},
		{name: "the VM's instead of a bad one", configuration: `evictionStrategy: Bad`, spec: `{evictionStrategy: External, domain: {}}`},
		{name: "the cluster's", configuration: `evictionStrategy: LiveMigrate`, spec: `domain: {}`},
		{
			name: "the VM's does not exist",
			spec: `{evictionStrategy: livemigrate, domain: {}}`,
			want: []string{`eviction-strategy: spec.evictionStrategy: Invalid value: "livemigrate": the eviction strategy is unknown: supported values: "None", "LiveMigrate", "LiveMigrateIfPossible", "External"`},
		},
		{
			name:          "the cluster's does not exist",
			configuration: `evictionStrategy: Bad`,
			spec:          `domain: {}`,
			want:          []string{`eviction-strategy: spec.evictionStrategy: Invalid value: "Bad": the eviction strategy is unknown: supported values: "None", "LiveMigrate", "LiveMigrateIfPossible", "External"` + cluster},
		},
	})
}

func TestStartRules(t *testing.T) {
	runCases(t, lifecycleRules().area("start"), OnSpec|OnVMI, []ruleCase{
		{name: "none", spec: `{livenessProbe: {tcpSocket: {port: 80}}, domain: {}}`},
		{name: "paused", spec: `{startStrategy: Paused, domain: {}}`},
		{
			name: "a strategy that does not exist",
			spec: `{startStrategy: Running, livenessProbe: {tcpSocket: {port: 80}}, domain: {}}`,
			want: []string{`start-strategy: spec.startStrategy: Invalid value: "Running": the start strategy is unknown: supported values: "Paused"`},
		},
		{
			name: "paused and probed",
			spec: `{startStrategy: Paused, livenessProbe: {tcpSocket: {port: 80}}, domain: {}}`,
			want: []string{`start-paused-no-liveness-probe: spec.startStrategy: Invalid value: "Paused": conflicts with livenessProbe, which fails while the VM is paused`},
		},
	})
}
