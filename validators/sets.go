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
	// Template is where the template stands: spec.template or spec.virtualMachineTemplate; Missing that there
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
	return Table{
		{
			ID: "set-template-required", Title: "A replica set or pool has a template", Scope: OnSet,
			Remedy: "Describe the virtual machines under the field.", Check: ofSet(setTemplate),
		},
		{
			ID: "set-selector-matches", Title: "The selector of a replica set or pool finds what is made from its template", Scope: OnSet,
			Remedy: "Give the template the labels that the selector asks for.", Check: ofSet(setSelector),
		},
		{
			ID: "pool-selector-immutable", Title: "The selector of a pool stays as it was created", Scope: OnSet,
			Remedy: "Make another pool with the new selector.", Check: ofSet(poolSelector),
		},
		{
			ID: "pool-max-unavailable", Title: "maxUnavailable of a pool is a positive number or a percentage", Scope: OnSet,
			Remedy: "Use a number from 1, or a percentage from 1% to 100%.", Check: ofSet(poolMaxUnavailable),
		},
	}
}

func ofSet(check func(*Set) field.ErrorList) func(*Subject) field.ErrorList {
	return func(s *Subject) field.ErrorList {
		if s.Set == nil {
			return nil
		}
		return check(s.Set)
	}
}

func setTemplate(s *Set) field.ErrorList {
	if !s.Missing {
		return nil
	}
	return field.ErrorList{field.Required(s.Template, "there is nothing to make virtual machines from")}
}

func setSelector(s *Set) field.ErrorList {
	path := field.NewPath("spec", "selector")
	selector, err := metav1.LabelSelectorAsSelector(s.Selector)
	switch {
	case s.Missing:
		return nil
	case err != nil:
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	case !selector.Matches(labels.Set(s.Labels)):
		return field.ErrorList{field.Invalid(path, selector.String(), fmt.Sprintf("does not match the labels in %s.metadata.labels", s.Template))}
	}
	return nil
}

func poolSelector(s *Set) field.ErrorList {
	if s.Fixed == nil || equality.Semantic.DeepEqual(s.Selector, s.Fixed) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "selector"), metav1.FormatLabelSelector(s.Selector),
		"cannot change: it was "+metav1.FormatLabelSelector(s.Fixed))}
}

func poolMaxUnavailable(s *Set) field.ErrorList {
	path := field.NewPath("spec", "maxUnavailable")
	switch m := s.MaxUnavailable; {
	case m == nil:
		return nil
	case m.Type == intstr.Int:
		if m.IntVal < 1 {
			return field.ErrorList{field.Invalid(path, m.IntVal, "must be at least 1")}
		}
	default:
		number, isPercentage := strings.CutSuffix(m.StrVal, "%")
		if percent, err := strconv.Atoi(number); !isPercentage || err != nil || percent < 1 || percent > 100 {
			return field.ErrorList{field.Invalid(path, m.StrVal, "must be a number, or a percentage from 1% to 100%")}
		}
	}
	return nil
}
