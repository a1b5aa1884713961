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
	return Table{
		{ID: "scheduling-node-terms", Title: "A required node affinity has a term", Scope: OnSpec, Remedy: "Add a node selector term, or remove the required node affinity.", Check: nodeTermsExist},
		{ID: "scheduling-node-expressions", Title: "Node affinity matches labels with a key, an operator and its values", Scope: OnSpec, Remedy: "Give In and NotIn values, Gt and Lt one value, Exists and DoesNotExist none.", Check: nodeExpressions},
		{ID: "scheduling-node-fields", Title: "Node affinity matches only the field metadata.name", Scope: OnSpec, Remedy: "Match metadata.name In or NotIn the name of one node.", Check: nodeFields},
		{ID: "scheduling-affinity-weights", Title: "A preference weighs 1 to 100", Scope: OnSpec, Remedy: "Set a weight from 1 to 100.", Check: affinityWeights},
		{ID: "scheduling-pod-topology-key", Title: "Pod affinity names a topology key", Scope: OnSpec, Remedy: "Name a label of nodes, such as kubernetes.io/hostname.", Check: podTopologyKeys},
		{ID: "scheduling-pod-selectors", Title: "Pod affinity selects by labels that can exist", Scope: OnSpec, Remedy: "Correct the label selector.", Check: podSelectors},
		{ID: "scheduling-pod-namespaces", Title: "Pod affinity names namespaces that can exist", Scope: OnSpec, Remedy: "Correct the name of the namespace.", Check: podNamespaces},
		{ID: "scheduling-spread-skew", Title: "A topology spread allows a skew of at least 1", Scope: OnSpec, Remedy: "Set maxSkew to 1 or more.", Check: spreadSkew},
		{ID: "scheduling-spread-topology-key", Title: "A topology spread names a topology key", Scope: OnSpec, Remedy: "Name a label of nodes, such as topology.kubernetes.io/zone.", Check: spreadTopologyKey},
		{ID: "scheduling-spread-action", Title: "A topology spread says what to do when it cannot be met", Scope: OnSpec, Remedy: "Set whenUnsatisfiable to DoNotSchedule or ScheduleAnyway.", Check: spreadAction},
		{ID: "scheduling-spread-unique", Title: "There is one topology spread for each key and action", Scope: OnSpec, Remedy: "Remove or merge the repeated constraint.", Check: spreadUnique},
		{ID: "scheduling-spread-selector", Title: "A topology spread selects by labels that can exist", Scope: OnSpec, Remedy: "Correct the label selector.", Check: spreadSelector},
		{ID: "scheduling-spread-min-domains", Title: "A topology spread demands domains that it can wait for", Scope: OnSpec, Severity: Warn, Remedy: "Set minDomains to 1 or more and whenUnsatisfiable to DoNotSchedule, or remove minDomains.", Check: spreadMinDomains},
		{ID: "scheduling-node-selector", Title: "The node selector names labels that can exist", Scope: OnSpec, Severity: Warn, Remedy: "Correct the label in nodeSelector.", Check: nodeSelectorLabels},
		{ID: "scheduling-tolerations", Title: "Tolerations are those that pods accept", Scope: OnSpec, Severity: Warn, Remedy: "Correct the key, operator, value or effect of the toleration.", Check: tolerations},
	}
}

const (
	requiredTerms  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferredTerms = "preferredDuringSchedulingIgnoredDuringExecution"

	nodeOperators  = "must be In, NotIn, Exists, DoesNotExist, Gt or Lt"
	labelOperators = "must be In, NotIn, Exists or DoesNotExist"

	maxWeight = 100
)

// eachNodeTerm adds what is wrong with the terms of the node affinity.
func eachNodeTerm(s *Subject, add func(field.ErrorList, *field.Path, *k8sv1.NodeSelectorTerm) field.ErrorList) (errs field.ErrorList) {
	if s.Spec.Affinity == nil || s.Spec.Affinity.NodeAffinity == nil {
		return nil
	}
	affinity, path := s.Spec.Affinity.NodeAffinity, s.Path.Child("affinity", "nodeAffinity")
	if required := affinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		errs = eachElement(errs, path.Child(requiredTerms, "nodeSelectorTerms"), required.NodeSelectorTerms, add)
	}
	return eachElement(errs, path.Child(preferredTerms), affinity.PreferredDuringSchedulingIgnoredDuringExecution,
		func(errs field.ErrorList, path *field.Path, preferred *k8sv1.PreferredSchedulingTerm) field.ErrorList {
			return add(errs, path.Child("preference"), &preferred.Preference)
		})
}

// eachPodTerm adds what is wrong with the terms of the pod affinity and of the pod anti-affinity.
func eachPodTerm(s *Subject, add func(field.ErrorList, *field.Path, *k8sv1.PodAffinityTerm) field.ErrorList) field.ErrorList {
	return eachPodAffinity(s, nil, func(errs field.ErrorList, path *field.Path, required []k8sv1.PodAffinityTerm, preferred []k8sv1.WeightedPodAffinityTerm) field.ErrorList {
		errs = eachElement(errs, path.Child(requiredTerms), required, add)
		return eachElement(errs, path.Child(preferredTerms), preferred,
			func(errs field.ErrorList, path *field.Path, weighted *k8sv1.WeightedPodAffinityTerm) field.ErrorList {
				return add(errs, path.Child("podAffinityTerm"), &weighted.PodAffinityTerm)
			})
	})
}

// eachPodAffinity adds what is wrong with the pod affinity and the pod anti-affinity.
func eachPodAffinity(s *Subject, errs field.ErrorList, add func(field.ErrorList, *field.Path, []k8sv1.PodAffinityTerm, []k8sv1.WeightedPodAffinityTerm) field.ErrorList) field.ErrorList {
	if s.Spec.Affinity == nil {
		return errs
	}
	path := s.Path.Child("affinity")
	if a := s.Spec.Affinity.PodAffinity; a != nil {
		errs = add(errs, path.Child("podAffinity"), a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := s.Spec.Affinity.PodAntiAffinity; a != nil {
		errs = add(errs, path.Child("podAntiAffinity"), a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return errs
}

func nodeTermsExist(s *Subject) field.ErrorList {
	if s.Spec.Affinity == nil || s.Spec.Affinity.NodeAffinity == nil {
		return nil
	}
	required := s.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(s.Path.Child("affinity", "nodeAffinity", requiredTerms, "nodeSelectorTerms"), []string{},
		"must have a term: without one, no node matches")}
}

func nodeExpressions(s *Subject) field.ErrorList {
	return eachNodeTerm(s, func(errs field.ErrorList, path *field.Path, term *k8sv1.NodeSelectorTerm) field.ErrorList {
		return eachElement(errs, path.Child("matchExpressions"), term.MatchExpressions, nodeExpression)
	})
}

func nodeExpression(errs field.ErrorList, path *field.Path, e *k8sv1.NodeSelectorRequirement) field.ErrorList {
	switch e.Operator {
	case k8sv1.NodeSelectorOpGt, k8sv1.NodeSelectorOpLt:
		if len(e.Values) != 1 {
			errs = append(errs, field.Invalid(path.Child("values"), shownValues(e.Values), fmt.Sprintf("operator %s takes exactly one value, not %d", e.Operator, len(e.Values))))
		}
	default:
		errs = operatorFaults(errs, path, string(e.Operator), e.Values, nodeOperators)
	}
	if !isLabelKey(e.Key) {
		errs = append(errs, field.Invalid(path.Child("key"), e.Key, mustBeLabelKey))
	}
	return errs
}

// operatorFaults adds those of an operator that looks for a label, and of the number of its values. The operators
// that there are say what it must be.
func operatorFaults(errs field.ErrorList, path *field.Path, operator string, values []string, operators string) field.ErrorList {
	switch metav1.LabelSelectorOperator(operator) {
	case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn:
		if len(values) == 0 {
			errs = append(errs, field.Invalid(path.Child("values"), shownValues(values), fmt.Sprintf("operator %s needs at least one value", operator)))
		}
	case metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist:
		if len(values) > 0 {
			errs = append(errs, field.Invalid(path.Child("values"), shownValues(values), fmt.Sprintf("operator %s takes no values", operator)))
		}
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), operator, operators))
	}
	return errs
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

func nodeFields(s *Subject) field.ErrorList {
	return eachNodeTerm(s, func(errs field.ErrorList, path *field.Path, term *k8sv1.NodeSelectorTerm) field.ErrorList {
		return eachElement(errs, path.Child("matchFields"), term.MatchFields, nodeField)
	})
}

func nodeField(errs field.ErrorList, path *field.Path, f *k8sv1.NodeSelectorRequirement) field.ErrorList {
	switch f.Operator {
	case k8sv1.NodeSelectorOpIn, k8sv1.NodeSelectorOpNotIn:
		if len(f.Values) != 1 {
			errs = append(errs, field.Invalid(path.Child("values"), shownValues(f.Values), fmt.Sprintf("a field is compared with exactly one value, not %d", len(f.Values))))
		}
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), string(f.Operator), "must be In or NotIn for a field of a node"))
	}
	if f.Key != metav1.ObjectNameField {
		return append(errs, field.Invalid(path.Child("key"), f.Key, "must be metadata.name: nodes have no other field to match"))
	}
	for i, name := range f.Values {
		if enough(errs) {
			return cutShort(errs, len(f.Values)-i)
		}
		if len(validation.IsDNS1123Subdomain(name)) != 0 {
			errs = append(errs, field.Invalid(path.Child("values").Index(i), name,
				"must be the name of a node: lowercase letters, digits, '-' and '.', with a letter or digit at either end"))
		}
	}
	return errs
}

func affinityWeights(s *Subject) (errs field.ErrorList) {
	if s.Spec.Affinity != nil && s.Spec.Affinity.NodeAffinity != nil {
		terms := s.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		errs = eachElement(errs, s.Path.Child("affinity", "nodeAffinity", preferredTerms), terms, func(errs field.ErrorList, path *field.Path, term *k8sv1.PreferredSchedulingTerm) field.ErrorList {
			return weightFault(errs, path, term.Weight)
		})
	}
	return eachPodAffinity(s, errs, func(errs field.ErrorList, path *field.Path, _ []k8sv1.PodAffinityTerm, preferred []k8sv1.WeightedPodAffinityTerm) field.ErrorList {
		return eachElement(errs, path.Child(preferredTerms), preferred, func(errs field.ErrorList, path *field.Path, term *k8sv1.WeightedPodAffinityTerm) field.ErrorList {
			return weightFault(errs, path, term.Weight)
		})
	})
}

func weightFault(errs field.ErrorList, path *field.Path, weight int32) field.ErrorList {
	if weight >= 1 && weight <= maxWeight {
		return errs
	}
	return append(errs, field.Invalid(path.Child("weight"), weight, "must be from 1 to 100"))
}

func podTopologyKeys(s *Subject) field.ErrorList {
	return eachPodTerm(s, func(errs field.ErrorList, path *field.Path, term *k8sv1.PodAffinityTerm) field.ErrorList {
		return topologyKeyFault(errs, path, term.TopologyKey)
	})
}

func topologyKeyFault(errs field.ErrorList, path *field.Path, key string) field.ErrorList {
	switch {
	case key == "":
		errs = append(errs, field.Invalid(path.Child("topologyKey"), key, "must name the label of nodes that tells the topology, such as kubernetes.io/hostname"))
	case !isLabelKey(key):
		errs = append(errs, field.Invalid(path.Child("topologyKey"), key, mustBeLabelKey))
	}
	return errs
}

func podSelectors(s *Subject) field.ErrorList {
	return eachPodTerm(s, func(errs field.ErrorList, path *field.Path, term *k8sv1.PodAffinityTerm) field.ErrorList {
		errs = selectorFaults(errs, path.Child("labelSelector"), term.LabelSelector)
		return selectorFaults(errs, path.Child("namespaceSelector"), term.NamespaceSelector)
	})
}

// selectorFaults adds those of a label selector.
func selectorFaults(errs field.ErrorList, path *field.Path, selector *metav1.LabelSelector) field.ErrorList {
	if selector == nil {
		return errs
	}
	errs = labelFaults(errs, path.Child("matchLabels"), selector.MatchLabels, "")
	return eachElement(errs, path.Child("matchExpressions"), selector.MatchExpressions, labelExpression)
}

func labelExpression(errs field.ErrorList, path *field.Path, e *metav1.LabelSelectorRequirement) field.ErrorList {
	errs = operatorFaults(errs, path, string(e.Operator), e.Values, labelOperators)
	if !isLabelKey(e.Key) {
		errs = append(errs, field.Invalid(path.Child("key"), e.Key, mustBeLabelKey))
	}
	for i, value := range e.Values {
		if enough(errs) {
			return cutShort(errs, len(e.Values)-i)
		}
		if !isLabelValue(value) {
			errs = append(errs, field.Invalid(path.Child("values").Index(i), value, mustBeLabelValue))
		}
	}
	return errs
}

func podNamespaces(s *Subject) field.ErrorList {
	return eachPodTerm(s, func(errs field.ErrorList, path *field.Path, term *k8sv1.PodAffinityTerm) field.ErrorList {
		for i, namespace := range term.Namespaces {
			if enough(errs) {
				return cutShort(errs, len(term.Namespaces)-i)
			}
			if len(validation.IsDNS1123Label(namespace)) != 0 {
				errs = append(errs, field.Invalid(path.Child("namespaces").Index(i), namespace, mustBeDNSLabel))
			}
		}
		return errs
	})
}

// eachSpread adds what is wrong with the topology spread constraints.
func eachSpread(s *Subject, add func(field.ErrorList, *field.Path, *k8sv1.TopologySpreadConstraint) field.ErrorList) field.ErrorList {
	if len(s.Spec.TopologySpreadConstraints) == 0 {
		return nil
	}
	return eachElement(nil, spreadsPath(s), s.Spec.TopologySpreadConstraints, add)
}

func spreadsPath(s *Subject) *field.Path { return s.Path.Child("topologySpreadConstraints") }

func spreadSkew(s *Subject) field.ErrorList {
	return eachSpread(s, func(errs field.ErrorList, path *field.Path, spread *k8sv1.TopologySpreadConstraint) field.ErrorList {
		if spread.MaxSkew < 1 {
			errs = append(errs, field.Invalid(path.Child("maxSkew"), spread.MaxSkew, "must be at least 1"))
		}
		return errs
	})
}

func spreadTopologyKey(s *Subject) field.ErrorList {
	return eachSpread(s, func(errs field.ErrorList, path *field.Path, spread *k8sv1.TopologySpreadConstraint) field.ErrorList {
		return topologyKeyFault(errs, path, spread.TopologyKey)
	})
}

func spreadAction(s *Subject) field.ErrorList {
	return eachSpread(s, func(errs field.ErrorList, path *field.Path, spread *k8sv1.TopologySpreadConstraint) field.ErrorList {
		switch spread.WhenUnsatisfiable {
		case k8sv1.DoNotSchedule, k8sv1.ScheduleAnyway:
			return errs
		}
		return append(errs, field.Invalid(path.Child("whenUnsatisfiable"), string(spread.WhenUnsatisfiable), "must be DoNotSchedule or ScheduleAnyway"))
	})
}

// spreadUnique reports each constraint that a later one repeats.
func spreadUnique(s *Subject) (errs field.ErrorList) {
	type pair struct {
		key    string
		action k8sv1.UnsatisfiableConstraintAction
	}
	spreads := s.Spec.TopologySpreadConstraints
	if len(spreads) < 2 {
		return nil
	}
	later := make(map[pair]int, len(spreads))
	for i, spread := range slices.Backward(spreads) {
		this := pair{spread.TopologyKey, spread.WhenUnsatisfiable}
		if enough(errs) {
			return cutShort(errs, i+1)
		}
		if repeated, ok := later[this]; ok {
			errs = append(errs, field.Invalid(spreadsPath(s).Index(i), fmt.Sprintf("%s, %s", this.key, this.action),
				fmt.Sprintf("topologySpreadConstraints[%d] has the same topologyKey and whenUnsatisfiable", repeated)))
		}
		later[this] = i
	}
	return errs
}

func spreadSelector(s *Subject) field.ErrorList {
	return eachSpread(s, func(errs field.ErrorList, path *field.Path, spread *k8sv1.TopologySpreadConstraint) field.ErrorList {
		return selectorFaults(errs, path.Child("labelSelector"), spread.LabelSelector)
	})
}

func spreadMinDomains(s *Subject) field.ErrorList {
	return eachSpread(s, func(errs field.ErrorList, path *field.Path, spread *k8sv1.TopologySpreadConstraint) field.ErrorList {
		switch {
		case spread.MinDomains == nil:
		case *spread.MinDomains < 1:
			errs = append(errs, field.Invalid(path.Child("minDomains"), *spread.MinDomains, "must be at least 1"+podRejected))
		case spread.WhenUnsatisfiable != k8sv1.DoNotSchedule:
			errs = append(errs, field.Invalid(path.Child("minDomains"), *spread.MinDomains, "is only for whenUnsatisfiable: DoNotSchedule"+podRejected))
		}
		return errs
	})
}

func nodeSelectorLabels(s *Subject) field.ErrorList {
	if len(s.Spec.NodeSelector) == 0 {
		return nil
	}
	return labelFaults(nil, s.Path.Child("nodeSelector"), s.Spec.NodeSelector, podRejected)
}

func tolerations(s *Subject) field.ErrorList {
	if len(s.Spec.Tolerations) == 0 {
		return nil
	}
	return eachElement(nil, s.Path.Child("tolerations"), s.Spec.Tolerations, tolerationFaults)
}

func tolerationFaults(errs field.ErrorList, path *field.Path, t *k8sv1.Toleration) field.ErrorList {
	add := func(name string, value any, detail string) {
		errs = append(errs, field.Invalid(path.Child(name), value, detail+podRejected))
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
	default:
		add("operator", string(t.Operator), "must be Equal or Exists")
	}
	switch t.Effect {
	case "", k8sv1.TaintEffectNoSchedule, k8sv1.TaintEffectPreferNoSchedule, k8sv1.TaintEffectNoExecute:
	default:
		add("effect", string(t.Effect), "must be NoSchedule, PreferNoSchedule, NoExecute or empty for all of them")
	}
	if t.TolerationSeconds != nil && t.Effect != k8sv1.TaintEffectNoExecute {
		add("tolerationSeconds", *t.TolerationSeconds, "is only for the effect NoExecute")
	}
	return errs
}
