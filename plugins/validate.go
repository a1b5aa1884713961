package plugins

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"
)

// Validate returns why a Plugin cannot work, and warnings about it, by the rules of one Plugin. A Plugin whose expressions are longer
// than 16 KiB together is not compiled: that is an error.
func Validate(p *pluginv1alpha1.Plugin) (denied field.ErrorList, warnings []string) {
	if denied = bounded(p); len(denied) > 0 {
		return denied, nil
	}
	if expressionBytes(p) > maxAdmitted {
		return field.ErrorList{field.TooLong(specPath, "", maxAdmitted)}, nil
	}
	for _, problem := range Lint([]*pluginv1alpha1.Plugin{p}) {
		if problem.Warning {
			warnings = append(warnings, problem.Field+": "+problem.Message)
			continue
		}
		denied = append(denied, &field.Error{Type: field.ErrorTypeInvalid, Field: problem.Field, BadValue: field.OmitValueType{}, Detail: problem.Message})
	}
	return denied, warnings
}

func expressionBytes(p *pluginv1alpha1.Plugin) int {
	size := len(p.Spec.Condition)
	for i := range p.Spec.DomainHooks {
		h := &p.Spec.DomainHooks[i]
		size += len(h.Condition)
		if h.CEL != nil {
			size += len(h.CEL.Expression)
		}
	}
	for i := range p.Spec.NodeHooks {
		size += len(p.Spec.NodeHooks[i].Condition)
	}
	return size
}
