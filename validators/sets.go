package validators

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Set is a VirtualMachineInstanceReplicaSet or a VirtualMachinePool around its template.
type Set struct {
	// Template is the path of the template: spec.template or spec.virtualMachineTemplate; Missing that there
	// is none.
	Template *field.Path
	Missing  bool
	// Labels are those of the template.
	Labels map[string]string
	// Selector finds what belongs to the set.
	Selector *metav1.LabelSelector
	// Fixed is the selector of a pool before an update, which may not change; nil where it may.
	Fixed *metav1.LabelSelector
	// MaxUnavailable is a pool's.
	MaxUnavailable *intstr.IntOrString
}

// setRules are about what makes virtual machines from a template. The template itself is checked as what is
// made from it.
func setRules() Table {
	return Scoped(OnSet,
		setTemplateRule,
		setSelectorRule,
		poolSelectorRule,
		poolMaxUnavailableRule,
	)
}

func ofSet(check func(*Set, *Errors)) func(*Subject, *Errors) {
	return func(s *Subject, found *Errors) {
		if s.Set == nil {
			return
		}
		check(s.Set, found)
	}
}

var setTemplateRule = Rule{
	ID:     "set-template-required",
	Title:  "A replica set or pool has a template",
	Remedy: "Describe the virtual machines under spec.template, or under spec.virtualMachineTemplate of a pool.",
	Check:  ofSet(setTemplate),
}

func setTemplate(s *Set, found *Errors) {
	if !s.Missing {
		return
	}
	found.Add(field.Required(s.Template, "there is no template for VMs"))
}

var setSelectorRule = Rule{
	ID:     "set-selector-matches",
	Title:  "The selector of a replica set or pool matches the labels of its template",
	Remedy: "Correct the selector, or the labels of the template.",
	Check:  ofSet(setSelector),
}

func setSelector(s *Set, found *Errors) {
	path := field.NewPath("spec", "selector")
	selector, err := metav1.LabelSelectorAsSelector(s.Selector)
	switch {
	case s.Missing:
	case err != nil:
		found.Add(field.Invalid(path, field.OmitValueType{}, err.Error()))
	case !selector.Matches(labels.Set(s.Labels)):
		found.Add(field.Invalid(path, selector.String(), fmt.Sprintf("does not match the labels in %s.metadata.labels", s.Template)))
	}
}

var poolSelectorRule = Rule{
	ID:     "pool-selector-immutable",
	Title:  "The selector of a pool does not change",
	Remedy: "Create another pool with the new selector.",
	Check:  ofSet(poolSelector),
}

func poolSelector(s *Set, found *Errors) {
	if s.Fixed == nil || equality.Semantic.DeepEqual(s.Selector, s.Fixed) {
		return
	}
	found.Add(field.Invalid(field.NewPath("spec", "selector"), metav1.FormatLabelSelector(s.Selector),
		"cannot change: it was "+metav1.FormatLabelSelector(s.Fixed)))
}

var poolMaxUnavailableRule = Rule{
	ID:     "pool-max-unavailable",
	Title:  "maxUnavailable of a pool is a positive number or a percentage",
	Remedy: "Use a number from 1, or a percentage from 1% to 100%.",
	Check:  ofSet(poolMaxUnavailable),
}

func poolMaxUnavailable(s *Set, found *Errors) {
	path := field.NewPath("spec", "maxUnavailable")
	switch m := s.MaxUnavailable; {
	case m == nil:
	case m.Type == intstr.Int:
		if m.IntVal < 1 {
			found.Add(field.Invalid(path, m.IntVal, "must be at least 1"))
		}
	default:
		number, isPercentage := strings.CutSuffix(m.StrVal, "%")
		if percent, err := strconv.Atoi(number); !isPercentage || err != nil || percent < 1 || percent > 100 {
			found.Add(field.Invalid(path, m.StrVal, "must be a number, or a percentage from 1% to 100%"))
		}
	}
}
