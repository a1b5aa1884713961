package validators

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	podWillBeRejected = `; KubeVirt accepts this, but the VM's pod will be rejected`
	labelKey          = `must be at most 63 letters, digits, '-', '_' and '.', with a letter or digit at either end, after an optional DNS subdomain and '/'`
	labelValue        = `must be empty or at most 63 letters, digits, '-', '_' and '.', with a letter or digit at either end`
)

func TestScheduling(t *testing.T) {
	const (
		node     = `spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]`
		pod      = `spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]`
		anti     = `spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]`
		hostname = `"topologyKey":"kubernetes.io/hostname"`
	)
	nodeTerm := func(term string) string {
		return `{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` + term + `]}}}}`
	}
	podTerm := func(term string) string {
		return `{"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[` + term + `]}}}`
	}
	spread := func(constraints string) string { return `{"topologySpreadConstraints":[` + constraints + `]}` }
	runCases(t, schedulingRules(), OnSpec, []ruleCase{
		{name: "none", spec: `{}`},
		{name: "empty", spec: `{"affinity":{"nodeAffinity":{},"podAffinity":{},"podAntiAffinity":{}},"topologySpreadConstraints":[]}`},
		{
			name: "a required node affinity without terms", spec: nodeTerm(``),
			want: []string{`scheduling-node-terms: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Invalid value: []: must have a term: without one, no node matches`},
		},
		{name: "expressions that fit their operators", spec: nodeTerm(`{"matchExpressions":[
			{"key":"a","operator":"In","values":["1","2"]},{"key":"a","operator":"NotIn","values":["1"]},{"key":"example.com/a","operator":"Exists"},
			{"key":"a","operator":"DoesNotExist"},{"key":"a","operator":"Gt","values":["1"]},{"key":"a","operator":"Lt","values":["1"]}]}`)},
		{
			name: "expressions that do not",
			spec: nodeTerm(`{"matchExpressions":[{"key":"a b","operator":"In"},{"key":"a","operator":"Exists","values":["1"]},{"key":"a","operator":"Gt"},{"key":"a","operator":"Equals"}]}`),
			want: []string{
				`scheduling-node-expressions: ` + node + `.matchExpressions[0].key: Invalid value: "a b": ` + labelKey,
				`scheduling-node-expressions: ` + node + `.matchExpressions[0].values: Invalid value: []: operator In needs at least one value`,
				`scheduling-node-expressions: ` + node + `.matchExpressions[1].values: Invalid value: ["1"]: operator Exists takes no values`,
				`scheduling-node-expressions: ` + node + `.matchExpressions[2].values: Invalid value: []: operator Gt takes exactly one value, not 0`,
				`scheduling-node-expressions: ` + node + `.matchExpressions[3].operator: Invalid value: "Equals": must be In, NotIn, Exists, DoesNotExist, Gt or Lt`,
			},
		},
		{name: "one node", spec: nodeTerm(`{"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["node-1.example"]}]}`)},
		{
			name: "fields that nodes do not have",
			spec: nodeTerm(`{"matchFields":[{"key":"metadata.namespace","operator":"In","values":["n"]},{"key":"metadata.name","operator":"Exists"},{"key":"metadata.name","operator":"In","values":["a","Node_1"]}]}`),
			want: []string{
				`scheduling-node-fields: ` + node + `.matchFields[0].key: Invalid value: "metadata.namespace": must be metadata.name: nodes have no other field to match`,
				`scheduling-node-fields: ` + node + `.matchFields[1].operator: Invalid value: "Exists": must be In or NotIn for a field of a node`,
				`scheduling-node-fields: ` + node + `.matchFields[2].values: Invalid value: ["Node_1","a"]: a field is compared with exactly one value, not 2`,
				`scheduling-node-fields: ` + node + `.matchFields[2].values[1]: Invalid value: "Node_1": must be the name of a node: lowercase letters, digits, '-' and '.', with a letter or digit at either end`,
			},
		},
		{name: "weights at their bounds", spec: `{"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{}},{"weight":100,"preference":{}}]}}}`},
		{
			name: "weights beyond them",
			spec: `{"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":-1,"preference":{"matchExpressions":[{"key":"a","operator":"NotIn"}]}}]},` +
				`"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":101,"podAffinityTerm":{` + hostname + `}}]}}}`,
			want: []string{
				`scheduling-node-expressions: spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values: Invalid value: []: operator NotIn needs at least one value`,
				`scheduling-affinity-weights: spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: -1: must be from 1 to 100`,
				`scheduling-affinity-weights: ` + anti + `.weight: Invalid value: 101: must be from 1 to 100`,
			},
		},
		{name: "pod affinity", spec: podTerm(`{` + hostname + `,"namespaces":["a"],"labelSelector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"a","operator":"In","values":["b"]},{"key":"a","operator":"Exists"}]}}`)},
		{
			name: "pod affinity without a topology key", spec: podTerm(`{},{"topologyKey":"a b"}`),
			want: []string{
				`scheduling-pod-topology-key: ` + pod + `.topologyKey: Invalid value: "": must be the key of a node label`,
				`scheduling-pod-topology-key: spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[1].topologyKey: Invalid value: "a b": ` + labelKey,
			},
		},
		{
			name: "pod affinity with selectors that match nothing",
			spec: podTerm(`{` + hostname + `,"labelSelector":{"matchLabels":{"c d":"e","a":"b c"},"matchExpressions":[{"key":"a","operator":"Is"},{"key":"a b","operator":"In"},{"key":"a","operator":"Exists","values":["b c"]}]},"namespaceSelector":{"matchLabels":{"":"x"}}}`),
			want: []string{
				`scheduling-pod-selectors: ` + pod + `.labelSelector.matchExpressions[0].operator: Invalid value: "Is": must be In, NotIn, Exists or DoesNotExist`,
				`scheduling-pod-selectors: ` + pod + `.labelSelector.matchExpressions[1].key: Invalid value: "a b": ` + labelKey,
				`scheduling-pod-selectors: ` + pod + `.labelSelector.matchExpressions[1].values: Invalid value: []: operator In needs at least one value`,
				`scheduling-pod-selectors: ` + pod + `.labelSelector.matchExpressions[2].values: Invalid value: ["b c"]: operator Exists takes no values`,
				`scheduling-pod-selectors: ` + pod + `.labelSelector.matchExpressions[2].values[0]: Invalid value: "b c": ` + labelValue,
				`scheduling-pod-selectors: ` + pod + `.labelSelector.matchLabels: Invalid value: "b c": the value of "a" ` + labelValue,
				`scheduling-pod-selectors: ` + pod + `.labelSelector.matchLabels: Invalid value: "c d": a key ` + labelKey,
				`scheduling-pod-selectors: ` + pod + `.namespaceSelector.matchLabels: Invalid value: "": a key ` + labelKey,
			},
		},
		{
			name: "pod affinity with a namespace that cannot exist", spec: podTerm(`{` + hostname + `,"namespaces":["a","Bad_NS"]}`),
			want: []string{`scheduling-pod-namespaces: ` + pod + `.namespaces[1]: Invalid value: "Bad_NS": is not a DNS label`},
		},
		{name: "spreads", spec: spread(`{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule","minDomains":2},{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway"}`)},
		{
			name: "a spread with everything wrong", spec: spread(`{"labelSelector":{"matchExpressions":[{"key":"a","operator":"Nope"}]}}`),
			want: []string{
				`scheduling-spread-selector: spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator: Invalid value: "Nope": must be In, NotIn, Exists or DoesNotExist`,
				`scheduling-spread-skew: spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be at least 1`,
				`scheduling-spread-topology-key: spec.topologySpreadConstraints[0].topologyKey: Invalid value: "": must be the key of a node label`,
				`scheduling-spread-action: spec.topologySpreadConstraints[0].whenUnsatisfiable: Invalid value: "": must be DoNotSchedule or ScheduleAnyway`,
			},
		},
		{
			name: "spreads that repeat each other",
			spec: spread(`{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"DoNotSchedule"},{"maxSkew":2,"topologyKey":"a","whenUnsatisfiable":"DoNotSchedule"},{"maxSkew":3,"topologyKey":"a","whenUnsatisfiable":"DoNotSchedule"}`),
			want: []string{
				`scheduling-spread-unique: spec.topologySpreadConstraints[0]: Invalid value: "a, DoNotSchedule": topologySpreadConstraints[1] has the same topologyKey and whenUnsatisfiable`,
				`scheduling-spread-unique: spec.topologySpreadConstraints[1]: Invalid value: "a, DoNotSchedule": topologySpreadConstraints[2] has the same topologyKey and whenUnsatisfiable`,
			},
		},
		{
			name: "domains that nothing waits for",
			spec: spread(`{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"ScheduleAnyway","minDomains":2},{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"DoNotSchedule","minDomains":0}`),
			want: []string{
				`scheduling-spread-min-domains: spec.topologySpreadConstraints[0].minDomains: Invalid value: 2: is only for whenUnsatisfiable: DoNotSchedule` + podWillBeRejected,
				`scheduling-spread-min-domains: spec.topologySpreadConstraints[1].minDomains: Invalid value: 0: must be at least 1` + podWillBeRejected,
			},
		},
		{name: "a node selector and tolerations", spec: `{"nodeSelector":{"example.com/a":"b"},"tolerations":[{"operator":"Exists"},{"key":"a","value":"b"},{"key":"a","operator":"Exists","effect":"NoExecute","tolerationSeconds":5}]}`},
		{
			name: "a node selector for labels that cannot exist", spec: `{"nodeSelector":{"a b":"c","d":"e f"}}`,
			want: []string{
				`scheduling-node-selector: spec.nodeSelector: Invalid value: "a b": a key ` + labelKey + podWillBeRejected,
				`scheduling-node-selector: spec.nodeSelector: Invalid value: "e f": the value of "d" ` + labelValue + podWillBeRejected,
			},
		},
		{
			name: "tolerations that pods reject",
			spec: `{"tolerations":[{"key":"a b","operator":"Exists","value":"x"},{"value":"x y"},{"key":"a","operator":"Is","effect":"Never","tolerationSeconds":5}]}`,
			want: []string{
				`scheduling-tolerations: spec.tolerations[0].key: Invalid value: "a b": ` + labelKey + podWillBeRejected,
				`scheduling-tolerations: spec.tolerations[0].value: Invalid value: "x": must be empty with the operator Exists` + podWillBeRejected,
				`scheduling-tolerations: spec.tolerations[1].operator: Invalid value: "": must be Exists when there is no key` + podWillBeRejected,
				`scheduling-tolerations: spec.tolerations[1].value: Invalid value: "x y": ` + labelValue + podWillBeRejected,
				`scheduling-tolerations: spec.tolerations[2].tolerationSeconds: Invalid value: 5: is only for the effect NoExecute` + podWillBeRejected,
			},
		},
	})
}

// TestPodRulesWarn: what KubeVirt accepts is not rejected, whatever becomes of its pod.
func TestPodRulesWarn(t *testing.T) {
	want := []string{
		"probes-pod-timing", "probes-pod-port",
		"scheduling-spread-min-domains", "scheduling-node-selector", "scheduling-tolerations",
		"metadata-template-valid",
	}
	var got []string
	for _, table := range []Table{probeRules(), schedulingRules(), metadataRules()} {
		for i := range table {
			if table[i].Severity == Warn {
				got = append(got, table[i].ID)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules that warn (-want +got):\n%s", diff)
	}
}
