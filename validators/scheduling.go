package validators

import (
	"fmt"
	"slices"

	k8sv1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// schedulingRules are Kubernetes' own for what ends up in the VM's pod. KubeVirt checks affinity and spread
// when a VM is admitted, with causes of the type Invalid throughout; the rest it leaves to the pod.
func schedulingRules() Table {
	return Scoped(OnSpec,
		nodeTermsExistRule,
		nodeExpressionsRule,
		nodeFieldsRule,
		affinityWeightsRule,
		podTopologyKeysRule,
		podSelectorsRule,
		podNamespacesRule,
		spreadSkewRule,
		spreadTopologyKeyRule,
		spreadActionRule,
		spreadUniqueRule,
		spreadSelectorRule,
		spreadMinDomainsRule,
		nodeSelectorLabelsRule,
		tolerationsRule,
	)
}

const (
	requiredTerms  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferredTerms = "preferredDuringSchedulingIgnoredDuringExecution"

	nodeOperators  = "must be In, NotIn, Exists, DoesNotExist, Gt or Lt"
	labelOperators = "must be In, NotIn, Exists or DoesNotExist"

	maxWeight = 100
)

// eachNodeTerm adds what is wrong with the terms of the node affinity.
func eachNodeTerm(s *Subject, add func(*field.Path, *k8sv1.NodeSelectorTerm, *Errors), found *Errors) {
	if s.Spec.Affinity == nil || s.Spec.Affinity.NodeAffinity == nil {
		return
	}
	affinity, path := s.Spec.Affinity.NodeAffinity, s.Path.Child("affinity", "nodeAffinity")
	if required := affinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		eachElement(path.Child(requiredTerms, "nodeSelectorTerms"), required.NodeSelectorTerms, add, found)
	}
	eachElement(path.Child(preferredTerms), affinity.PreferredDuringSchedulingIgnoredDuringExecution,
		func(path *field.Path, preferred *k8sv1.PreferredSchedulingTerm, found *Errors) {
			add(path.Child("preference"), &preferred.Preference, found)
		}, found)
}

// eachPodTerm adds what is wrong with the terms of the pod affinity and of the pod anti-affinity.
func eachPodTerm(s *Subject, add func(*field.Path, *k8sv1.PodAffinityTerm, *Errors), found *Errors) {
	eachPodAffinity(s, func(path *field.Path, required []k8sv1.PodAffinityTerm, preferred []k8sv1.WeightedPodAffinityTerm, found *Errors) {
		eachElement(path.Child(requiredTerms), required, add, found)
		eachElement(path.Child(preferredTerms), preferred,
			func(path *field.Path, weighted *k8sv1.WeightedPodAffinityTerm, found *Errors) {
				add(path.Child("podAffinityTerm"), &weighted.PodAffinityTerm, found)
			}, found)
	}, found)
}

// eachPodAffinity adds what is wrong with the pod affinity and the pod anti-affinity.
func eachPodAffinity(s *Subject, add func(*field.Path, []k8sv1.PodAffinityTerm, []k8sv1.WeightedPodAffinityTerm, *Errors), found *Errors) {
	if s.Spec.Affinity == nil {
		return
	}
	path := s.Path.Child("affinity")
	if a := s.Spec.Affinity.PodAffinity; a != nil {
		add(path.Child("podAffinity"), a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, found)
	}
	if a := s.Spec.Affinity.PodAntiAffinity; a != nil {
		add(path.Child("podAntiAffinity"), a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, found)
	}
}

var nodeTermsExistRule = Rule{
	ID:     "scheduling-node-terms",
	Title:  "A required node affinity has a term",
	Remedy: "Add a node selector term, or remove the required node affinity.",
	Check:  nodeTermsExist,
}

func nodeTermsExist(s *Subject, found *Errors) {
	if s.Spec.Affinity == nil || s.Spec.Affinity.NodeAffinity == nil {
		return
	}
	required := s.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) > 0 {
		return
	}
	found.Add(field.Invalid(s.Path.Child("affinity", "nodeAffinity", requiredTerms, "nodeSelectorTerms"), []string{},
		"must have a term: without one, no node matches"))
}

var nodeExpressionsRule = Rule{
	ID:     "scheduling-node-expressions",
	Title:  "Node affinity matches labels with a key, an operator and its values",
	Remedy: "Give In and NotIn values, Gt and Lt one value, Exists and DoesNotExist none.",
	Check:  nodeExpressions,
}

func nodeExpressions(s *Subject, found *Errors) {
	eachNodeTerm(s, func(path *field.Path, term *k8sv1.NodeSelectorTerm, found *Errors) {
		eachElement(path.Child("matchExpressions"), term.MatchExpressions, nodeExpression, found)
	}, found)
}

func nodeExpression(path *field.Path, e *k8sv1.NodeSelectorRequirement, found *Errors) {
	switch e.Operator {
	case k8sv1.NodeSelectorOpGt, k8sv1.NodeSelectorOpLt:
		if len(e.Values) != 1 {
			found.Add(field.Invalid(path.Child("values"), shownValues(e.Values), fmt.Sprintf("operator %s takes exactly one value, not %d", e.Operator, len(e.Values))))
		}
	default:
		operatorFaults(path, string(e.Operator), e.Values, nodeOperators, found)
	}
	if !isLabelKey(e.Key) {
		found.Add(field.Invalid(path.Child("key"), e.Key, mustBeLabelKey))
	}
}

// operatorFaults adds those of an operator that looks for a label, and of the number of its values. The operators
// that there are say what it must be.
func operatorFaults(path *field.Path, operator string, values []string, operators string, found *Errors) {
	switch metav1.LabelSelectorOperator(operator) {
	case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn:
		if len(values) == 0 {
			found.Add(field.Invalid(path.Child("values"), shownValues(values), fmt.Sprintf("operator %s needs at least one value", operator)))
		}
	case metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist:
		if len(values) > 0 {
			found.Add(field.Invalid(path.Child("values"), shownValues(values), fmt.Sprintf("operator %s takes no values", operator)))
		}
	default:
		found.Add(field.Invalid(path.Child("operator"), operator, operators))
	}
}

// mostShownValues is how many values of a list are shown one by one.
const mostShownValues = 10

// shownValues is a list as it is shown: an absent one is empty, the order says nothing, and of a long one there
// is only its length.
func shownValues(values []string) any {
	if len(values) > mostShownValues {
		return fmt.Sprintf("%d values", len(values))
	}
	shown := make([]string, 0, len(values))
	for _, value := range values {
		shown = append(shown, shortened(value))
	}
	slices.Sort(shown)
	return shown
}

var nodeFieldsRule = Rule{
	ID:     "scheduling-node-fields",
	Title:  "Node affinity matches only the field metadata.name",
	Remedy: "Match metadata.name In or NotIn the name of one node.",
	Check:  nodeFields,
}

func nodeFields(s *Subject, found *Errors) {
	eachNodeTerm(s, func(path *field.Path, term *k8sv1.NodeSelectorTerm, found *Errors) {
		eachElement(path.Child("matchFields"), term.MatchFields, nodeField, found)
	}, found)
}

func nodeField(path *field.Path, f *k8sv1.NodeSelectorRequirement, found *Errors) {
	switch f.Operator {
	case k8sv1.NodeSelectorOpIn, k8sv1.NodeSelectorOpNotIn:
		if len(f.Values) != 1 {
			found.Add(field.Invalid(path.Child("values"), shownValues(f.Values), fmt.Sprintf("a field is compared with exactly one value, not %d", len(f.Values))))
		}
	default:
		found.Add(field.Invalid(path.Child("operator"), string(f.Operator), "must be In or NotIn for a field of a node"))
	}
	if f.Key != metav1.ObjectNameField {
		found.Add(field.Invalid(path.Child("key"), f.Key, "must be metadata.name: nodes have no other field to match"))
		return
	}
	for i := range found.Each(len(f.Values)) {
		name := f.Values[i]
		if len(validation.IsDNS1123Subdomain(name)) != 0 {
			found.Add(field.Invalid(path.Child("values").Index(i), name,
				"must be the name of a node: lowercase letters, digits, '-' and '.', with a letter or digit at either end"))
		}
	}
}

var affinityWeightsRule = Rule{
	ID:     "scheduling-affinity-weights",
	Title:  "The weight of a preference is from 1 to 100",
	Remedy: "Use a weight from 1 to 100.",
	Check:  affinityWeights,
}

func affinityWeights(s *Subject, found *Errors) {
	if s.Spec.Affinity != nil && s.Spec.Affinity.NodeAffinity != nil {
		terms := s.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		eachElement(s.Path.Child("affinity", "nodeAffinity", preferredTerms), terms, func(path *field.Path, term *k8sv1.PreferredSchedulingTerm, found *Errors) {
			weightFault(path, term.Weight, found)
		}, found)
	}
	eachPodAffinity(s, func(path *field.Path, _ []k8sv1.PodAffinityTerm, preferred []k8sv1.WeightedPodAffinityTerm, found *Errors) {
		eachElement(path.Child(preferredTerms), preferred, func(path *field.Path, term *k8sv1.WeightedPodAffinityTerm, found *Errors) {
			weightFault(path, term.Weight, found)
		}, found)
	}, found)
}

func weightFault(path *field.Path, weight int32, found *Errors) {
	if weight >= 1 && weight <= maxWeight {
		return
	}
	found.Add(field.Invalid(path.Child("weight"), weight, "must be from 1 to 100"))
}

var podTopologyKeysRule = Rule{
	ID:     "scheduling-pod-topology-key",
	Title:  "Pod affinity names a topology key",
	Remedy: "Name a label of nodes, such as kubernetes.io/hostname.",
	Check:  podTopologyKeys,
}

func podTopologyKeys(s *Subject, found *Errors) {
	eachPodTerm(s, func(path *field.Path, term *k8sv1.PodAffinityTerm, found *Errors) {
		topologyKeyFault(path, term.TopologyKey, found)
	}, found)
}

func topologyKeyFault(path *field.Path, key string, found *Errors) {
	switch {
	case key == "":
		found.Add(field.Invalid(path.Child("topologyKey"), key, "must be the key of a node label"))
	case !isLabelKey(key):
		found.Add(field.Invalid(path.Child("topologyKey"), key, mustBeLabelKey))
	}
}

var podSelectorsRule = Rule{
	ID:     "scheduling-pod-selectors",
	Title:  "Pod affinity selects by labels that can exist",
	Remedy: "Correct the label selector.",
	Check:  podSelectors,
}

func podSelectors(s *Subject, found *Errors) {
	eachPodTerm(s, func(path *field.Path, term *k8sv1.PodAffinityTerm, found *Errors) {
		selectorFaults(path.Child("labelSelector"), term.LabelSelector, found)
		selectorFaults(path.Child("namespaceSelector"), term.NamespaceSelector, found)
	}, found)
}

// selectorFaults adds those of a label selector.
func selectorFaults(path *field.Path, selector *metav1.LabelSelector, found *Errors) {
	if selector == nil {
		return
	}
	labelFaults(path.Child("matchLabels"), selector.MatchLabels, "", found)
	eachElement(path.Child("matchExpressions"), selector.MatchExpressions, labelExpression, found)
}

func labelExpression(path *field.Path, e *metav1.LabelSelectorRequirement, found *Errors) {
	operatorFaults(path, string(e.Operator), e.Values, labelOperators, found)
	if !isLabelKey(e.Key) {
		found.Add(field.Invalid(path.Child("key"), e.Key, mustBeLabelKey))
	}
	for i := range found.Each(len(e.Values)) {
		value := e.Values[i]
		if !isLabelValue(value) {
			found.Add(field.Invalid(path.Child("values").Index(i), value, mustBeLabelValue))
		}
	}
}

var podNamespacesRule = Rule{
	ID:     "scheduling-pod-namespaces",
	Title:  "Pod affinity names namespaces that can exist",
	Remedy: "Use at most 63 lowercase letters, digits and '-', with a letter or digit at either end.",
	Check:  podNamespaces,
}

func podNamespaces(s *Subject, found *Errors) {
	eachPodTerm(s, func(path *field.Path, term *k8sv1.PodAffinityTerm, found *Errors) {
		for i := range found.Each(len(term.Namespaces)) {
			namespace := term.Namespaces[i]
			if len(validation.IsDNS1123Label(namespace)) != 0 {
				found.Add(field.Invalid(path.Child("namespaces").Index(i), namespace, mustBeDNSLabel))
			}
		}
	}, found)
}

// eachSpread adds what is wrong with the topology spread constraints.
func eachSpread(s *Subject, add func(*field.Path, *k8sv1.TopologySpreadConstraint, *Errors), found *Errors) {
	if len(s.Spec.TopologySpreadConstraints) == 0 {
		return
	}
	eachElement(spreadsPath(s), s.Spec.TopologySpreadConstraints, add, found)
}

func spreadsPath(s *Subject) *field.Path { return s.Path.Child("topologySpreadConstraints") }

var spreadSkewRule = Rule{
	ID:     "scheduling-spread-skew",
	Title:  "A topology spread allows a skew of at least 1",
	Remedy: "Raise maxSkew.",
	Check:  spreadSkew,
}

func spreadSkew(s *Subject, found *Errors) {
	eachSpread(s, func(path *field.Path, spread *k8sv1.TopologySpreadConstraint, found *Errors) {
		if spread.MaxSkew < 1 {
			found.Add(field.Invalid(path.Child("maxSkew"), spread.MaxSkew, "must be at least 1"))
		}
	}, found)
}

var spreadTopologyKeyRule = Rule{
	ID:     "scheduling-spread-topology-key",
	Title:  "A topology spread names a topology key",
	Remedy: "Name a label of nodes, such as topology.kubernetes.io/zone.",
	Check:  spreadTopologyKey,
}

func spreadTopologyKey(s *Subject, found *Errors) {
	eachSpread(s, func(path *field.Path, spread *k8sv1.TopologySpreadConstraint, found *Errors) {
		topologyKeyFault(path, spread.TopologyKey, found)
	}, found)
}

var spreadActionRule = Rule{
	ID:     "scheduling-spread-action",
	Title:  "A topology spread has a known action",
	Remedy: "Correct whenUnsatisfiable.",
	Check:  spreadAction,
}

func spreadAction(s *Subject, found *Errors) {
	eachSpread(s, func(path *field.Path, spread *k8sv1.TopologySpreadConstraint, found *Errors) {
		switch spread.WhenUnsatisfiable {
		case k8sv1.DoNotSchedule, k8sv1.ScheduleAnyway:
			return
		}
		found.Add(field.Invalid(path.Child("whenUnsatisfiable"), string(spread.WhenUnsatisfiable), "must be DoNotSchedule or ScheduleAnyway"))
	}, found)
}

var spreadUniqueRule = Rule{
	ID:     "scheduling-spread-unique",
	Title:  "There is one topology spread for each key and action",
	Remedy: "Remove or merge the repeated constraint.",
	Check:  spreadUnique,
}

// spreadUnique reports each constraint that a later one repeats.
func spreadUnique(s *Subject, found *Errors) {
	type pair struct {
		key    string
		action k8sv1.UnsatisfiableConstraintAction
	}
	spreads := s.Spec.TopologySpreadConstraints
	if len(spreads) < 2 {
		return
	}
	later := make(map[pair]int, len(spreads))
	for checked := range found.Each(len(spreads)) {
		i := len(spreads) - 1 - checked
		this := pair{spreads[i].TopologyKey, spreads[i].WhenUnsatisfiable}
		if repeated, ok := later[this]; ok {
			found.Add(field.Invalid(spreadsPath(s).Index(i), fmt.Sprintf("%s, %s", this.key, this.action),
				fmt.Sprintf("topologySpreadConstraints[%d] has the same topologyKey and whenUnsatisfiable", repeated)))
		}
		later[this] = i
	}
}

var spreadSelectorRule = Rule{
	ID:     "scheduling-spread-selector",
	Title:  "A topology spread selects by labels that can exist",
	Remedy: "Correct the label selector.",
	Check:  spreadSelector,
}

func spreadSelector(s *Subject, found *Errors) {
	eachSpread(s, func(path *field.Path, spread *k8sv1.TopologySpreadConstraint, found *Errors) {
		selectorFaults(path.Child("labelSelector"), spread.LabelSelector, found)
	}, found)
}

var spreadMinDomainsRule = Rule{
	ID:       "scheduling-spread-min-domains",
	Title:    "The minDomains of a topology spread are possible",
	Remedy:   "Set minDomains to 1 or more and whenUnsatisfiable to DoNotSchedule, or remove minDomains.",
	Severity: Warn,
	Check:    spreadMinDomains,
}

func spreadMinDomains(s *Subject, found *Errors) {
	eachSpread(s, func(path *field.Path, spread *k8sv1.TopologySpreadConstraint, found *Errors) {
		switch {
		case spread.MinDomains == nil:
		case *spread.MinDomains < 1:
			found.Add(field.Invalid(path.Child("minDomains"), *spread.MinDomains, "must be at least 1"+podRejected))
		case spread.WhenUnsatisfiable != k8sv1.DoNotSchedule:
			found.Add(field.Invalid(path.Child("minDomains"), *spread.MinDomains, "is only for whenUnsatisfiable: DoNotSchedule"+podRejected))
		}
	}, found)
}

var nodeSelectorLabelsRule = Rule{
	ID:       "scheduling-node-selector",
	Title:    "The node selector names labels that can exist",
	Remedy:   "Correct the label in nodeSelector.",
	Severity: Warn,
	Check:    nodeSelectorLabels,
}

func nodeSelectorLabels(s *Subject, found *Errors) {
	if len(s.Spec.NodeSelector) == 0 {
		return
	}
	labelFaults(s.Path.Child("nodeSelector"), s.Spec.NodeSelector, podRejected, found)
}

var tolerationsRule = Rule{
	ID:       "scheduling-tolerations",
	Title:    "Tolerations are those that pods accept",
	Remedy:   "Correct the key, the operator or the value of the toleration.",
	Severity: Warn,
	Check:    tolerations,
}

func tolerations(s *Subject, found *Errors) {
	if len(s.Spec.Tolerations) == 0 {
		return
	}
	eachElement(s.Path.Child("tolerations"), s.Spec.Tolerations, tolerationFaults, found)
}

func tolerationFaults(path *field.Path, t *k8sv1.Toleration, found *Errors) {
	add := func(name string, value any, detail string) {
		found.Add(field.Invalid(path.Child(name), value, detail+podRejected))
	}
	switch {
	case t.Key != "" && !isLabelKey(t.Key):
		add("key", t.Key, mustBeLabelKey)
	case t.Key == "" && t.Operator != k8sv1.TolerationOpExists:
		add("operator", string(t.Operator), "must be Exists when there is no key")
	}
	switch t.Operator {
	case k8sv1.TolerationOpEqual, "":
		if !isLabelValue(t.Value) {
			add("value", t.Value, mustBeLabelValue)
		}
	case k8sv1.TolerationOpExists:
		if t.Value != "" {
			add("value", t.Value, "must be empty with the operator Exists")
		}
	case k8sv1.TolerationOpLt, k8sv1.TolerationOpGt: // whether these are known depends on the cluster
	}
	if t.TolerationSeconds != nil && t.Effect != k8sv1.TaintEffectNoExecute {
		add("tolerationSeconds", *t.TolerationSeconds, "is only for the effect NoExecute")
	}
}
