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

// visitNodeTerms shows all terms of the node affinity.
func visitNodeTerms(s *Subject, visit func(*field.Path, *k8sv1.NodeSelectorTerm)) {
	if s.Spec.Affinity == nil || s.Spec.Affinity.NodeAffinity == nil {
		return
	}
	affinity, path := s.Spec.Affinity.NodeAffinity, s.Path.Child("affinity", "nodeAffinity")
	if required := affinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		for i := range required.NodeSelectorTerms {
			visit(path.Child(requiredTerms, "nodeSelectorTerms").Index(i), &required.NodeSelectorTerms[i])
		}
	}
	for i := range affinity.PreferredDuringSchedulingIgnoredDuringExecution {
		visit(path.Child(preferredTerms).Index(i).Child("preference"), &affinity.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference)
	}
}

// visitPodTerms shows all terms of the pod affinity and of the pod anti-affinity.
func visitPodTerms(s *Subject, visit func(*field.Path, *k8sv1.PodAffinityTerm)) {
	visitPodAffinities(s, func(path *field.Path, required []k8sv1.PodAffinityTerm, preferred []k8sv1.WeightedPodAffinityTerm) {
		for i := range required {
			visit(path.Child(requiredTerms).Index(i), &required[i])
		}
		for i := range preferred {
			visit(path.Child(preferredTerms).Index(i).Child("podAffinityTerm"), &preferred[i].PodAffinityTerm)
		}
	})
}

func visitPodAffinities(s *Subject, visit func(*field.Path, []k8sv1.PodAffinityTerm, []k8sv1.WeightedPodAffinityTerm)) {
	if s.Spec.Affinity == nil {
		return
	}
	path := s.Path.Child("affinity")
	if a := s.Spec.Affinity.PodAffinity; a != nil {
		visit(path.Child("podAffinity"), a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := s.Spec.Affinity.PodAntiAffinity; a != nil {
		visit(path.Child("podAntiAffinity"), a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
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

func nodeExpressions(s *Subject) (errs field.ErrorList) {
	visitNodeTerms(s, func(path *field.Path, term *k8sv1.NodeSelectorTerm) {
		for i := range term.MatchExpressions {
			errs = append(errs, nodeExpression(path.Child("matchExpressions").Index(i), &term.MatchExpressions[i])...)
		}
	})
	return errs
}

func nodeExpression(path *field.Path, e *k8sv1.NodeSelectorRequirement) (errs field.ErrorList) {
	switch e.Operator {
	case k8sv1.NodeSelectorOpGt, k8sv1.NodeSelectorOpLt:
		if len(e.Values) != 1 {
			errs = append(errs, field.Invalid(path.Child("values"), shownValues(e.Values), fmt.Sprintf("operator %s takes exactly one value, not %d", e.Operator, len(e.Values))))
		}
	default:
		errs = append(errs, operatorFaults(path, string(e.Operator), e.Values, nodeOperators)...)
	}
	if !isLabelKey(e.Key) {
		errs = append(errs, field.Invalid(path.Child("key"), e.Key, mustBeLabelKey))
	}
	return errs
}

// operatorFaults are those of an operator that looks for a label, and of the number of its values. The operators
// that there are say what it must be.
func operatorFaults(path *field.Path, operator string, values []string, operators string) field.ErrorList {
	switch metav1.LabelSelectorOperator(operator) {
	case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn:
		if len(values) == 0 {
			return field.ErrorList{field.Invalid(path.Child("values"), shownValues(values), fmt.Sprintf("operator %s needs at least one value", operator))}
		}
	case metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist:
		if len(values) > 0 {
			return field.ErrorList{field.Invalid(path.Child("values"), values, fmt.Sprintf("operator %s takes no values", operator))}
		}
	default:
		return field.ErrorList{field.Invalid(path.Child("operator"), operator, operators)}
	}
	return nil
}

// shownValues is a list as it is shown: an absent one is empty.
func shownValues(values []string) []string {
	if values == nil {
		return []string{}
	}
	return values
}

func nodeFields(s *Subject) (errs field.ErrorList) {
	visitNodeTerms(s, func(path *field.Path, term *k8sv1.NodeSelectorTerm) {
		for i := range term.MatchFields {
			errs = append(errs, nodeField(path.Child("matchFields").Index(i), &term.MatchFields[i])...)
		}
	})
	return errs
}

func nodeField(path *field.Path, f *k8sv1.NodeSelectorRequirement) (errs field.ErrorList) {
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
		if len(validation.IsDNS1123Subdomain(name)) != 0 {
			errs = append(errs, field.Invalid(path.Child("values").Index(i), name,
				"must be the name of a node: lowercase letters, digits, '-' and '.', with a letter or digit at either end"))
		}
	}
	return errs
}

func affinityWeights(s *Subject) (errs field.ErrorList) {
	check := func(path *field.Path, i int, weight int32) {
		if weight < 1 || weight > maxWeight {
			errs = append(errs, field.Invalid(path.Child(preferredTerms).Index(i).Child("weight"), weight, "must be from 1 to 100"))
		}
	}
	if s.Spec.Affinity != nil && s.Spec.Affinity.NodeAffinity != nil {
		path := s.Path.Child("affinity", "nodeAffinity")
		for i := range s.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			check(path, i, s.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[i].Weight)
		}
	}
	visitPodAffinities(s, func(path *field.Path, _ []k8sv1.PodAffinityTerm, preferred []k8sv1.WeightedPodAffinityTerm) {
		for i := range preferred {
			check(path, i, preferred[i].Weight)
		}
	})
	return errs
}

func podTopologyKeys(s *Subject) (errs field.ErrorList) {
	visitPodTerms(s, func(path *field.Path, term *k8sv1.PodAffinityTerm) {
		errs = append(errs, topologyKeyFault(path, term.TopologyKey)...)
	})
	return errs
}

func topologyKeyFault(path *field.Path, key string) field.ErrorList {
	switch {
	case key == "":
		return field.ErrorList{field.Invalid(path.Child("topologyKey"), key, "must name the label of nodes that tells the topology, such as kubernetes.io/hostname")}
	case !isLabelKey(key):
		return field.ErrorList{field.Invalid(path.Child("topologyKey"), key, mustBeLabelKey)}
	}
	return nil
}

func podSelectors(s *Subject) (errs field.ErrorList) {
	visitPodTerms(s, func(path *field.Path, term *k8sv1.PodAffinityTerm) {
		errs = append(errs, selectorFaults(path.Child("labelSelector"), term.LabelSelector)...)
		errs = append(errs, selectorFaults(path.Child("namespaceSelector"), term.NamespaceSelector)...)
	})
	return errs
}

// selectorFaults are those of a label selector.
func selectorFaults(path *field.Path, selector *metav1.LabelSelector) field.ErrorList {
	if selector == nil {
		return nil
	}
	errs := labelFaults(path.Child("matchLabels"), selector.MatchLabels, "")
	for i := range selector.MatchExpressions {
		errs = append(errs, labelExpression(path.Child("matchExpressions").Index(i), &selector.MatchExpressions[i])...)
	}
	return errs
}

func labelExpression(path *field.Path, e *metav1.LabelSelectorRequirement) field.ErrorList {
	errs := operatorFaults(path, string(e.Operator), e.Values, labelOperators)
	if !isLabelKey(e.Key) {
		errs = append(errs, field.Invalid(path.Child("key"), e.Key, mustBeLabelKey))
	}
	for i, value := range e.Values {
		if !isLabelValue(value) {
			errs = append(errs, field.Invalid(path.Child("values").Index(i), value, mustBeLabelValue))
		}
	}
	return errs
}

func podNamespaces(s *Subject) (errs field.ErrorList) {
	visitPodTerms(s, func(path *field.Path, term *k8sv1.PodAffinityTerm) {
		for i, namespace := range term.Namespaces {
			if len(validation.IsDNS1123Label(namespace)) != 0 {
				errs = append(errs, field.Invalid(path.Child("namespaces").Index(i), namespace, mustBeDNSLabel))
			}
		}
	})
	return errs
}

// visitSpreads shows the topology spread constraints.
func visitSpreads(s *Subject, visit func(*field.Path, *k8sv1.TopologySpreadConstraint)) {
	for i := range s.Spec.TopologySpreadConstraints {
		visit(s.Path.Child("topologySpreadConstraints").Index(i), &s.Spec.TopologySpreadConstraints[i])
	}
}

func spreadSkew(s *Subject) (errs field.ErrorList) {
	visitSpreads(s, func(path *field.Path, spread *k8sv1.TopologySpreadConstraint) {
		if spread.MaxSkew < 1 {
			errs = append(errs, field.Invalid(path.Child("maxSkew"), spread.MaxSkew, "must be at least 1"))
		}
	})
	return errs
}

func spreadTopologyKey(s *Subject) (errs field.ErrorList) {
	visitSpreads(s, func(path *field.Path, spread *k8sv1.TopologySpreadConstraint) {
		errs = append(errs, topologyKeyFault(path, spread.TopologyKey)...)
	})
	return errs
}

func spreadAction(s *Subject) (errs field.ErrorList) {
	visitSpreads(s, func(path *field.Path, spread *k8sv1.TopologySpreadConstraint) {
		switch spread.WhenUnsatisfiable {
		case k8sv1.DoNotSchedule, k8sv1.ScheduleAnyway:
		default:
			errs = append(errs, field.Invalid(path.Child("whenUnsatisfiable"), string(spread.WhenUnsatisfiable), "must be DoNotSchedule or ScheduleAnyway"))
		}
	})
	return errs
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
		if repeated, ok := later[this]; ok {
			errs = append(errs, field.Invalid(s.Path.Child("topologySpreadConstraints").Index(i), fmt.Sprintf("%s, %s", this.key, this.action),
				fmt.Sprintf("topologySpreadConstraints[%d] has the same topologyKey and whenUnsatisfiable", repeated)))
		}
		later[this] = i
	}
	slices.Reverse(errs)
	return errs
}

func spreadSelector(s *Subject) (errs field.ErrorList) {
	visitSpreads(s, func(path *field.Path, spread *k8sv1.TopologySpreadConstraint) {
		errs = append(errs, selectorFaults(path.Child("labelSelector"), spread.LabelSelector)...)
	})
	return errs
}

func spreadMinDomains(s *Subject) (errs field.ErrorList) {
	visitSpreads(s, func(path *field.Path, spread *k8sv1.TopologySpreadConstraint) {
		switch {
		case spread.MinDomains == nil:
		case *spread.MinDomains < 1:
			errs = append(errs, field.Invalid(path.Child("minDomains"), *spread.MinDomains, "must be at least 1"+podRefused))
		case spread.WhenUnsatisfiable != k8sv1.DoNotSchedule:
			errs = append(errs, field.Invalid(path.Child("minDomains"), *spread.MinDomains, "is only for whenUnsatisfiable: DoNotSchedule"+podRefused))
		}
	})
	return errs
}

func nodeSelectorLabels(s *Subject) field.ErrorList {
	if len(s.Spec.NodeSelector) == 0 {
		return nil
	}
	return labelFaults(s.Path.Child("nodeSelector"), s.Spec.NodeSelector, podRefused)
}

func tolerations(s *Subject) (errs field.ErrorList) {
	for i := range s.Spec.Tolerations {
		errs = append(errs, tolerationFaults(s.Path.Child("tolerations").Index(i), &s.Spec.Tolerations[i])...)
	}
	return errs
}

func tolerationFaults(path *field.Path, t *k8sv1.Toleration) (errs field.ErrorList) {
	add := func(name string, value any, detail string) {
		errs = append(errs, field.Invalid(path.Child(name), value, detail+podRefused))
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
