package templates

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/validators"
)

// Previewed is the VirtualMachine of a template, as far as the values are known.
type Previewed struct {
	Rendered

	// Unknown are the paths in the VirtualMachine that depend on required parameters without a value, sorted:
	// spec.instancetype.name. These fields are empty.
	Unknown []string
}

// Preview makes a VirtualMachine of a template with given values, or with none. Required parameters may lack a value: a
// finding warns of each. The result is nil if a finding denies it, or if it cannot be decoded without these values.
func Preview(spec *v1beta1.VirtualMachineTemplateSpec, given map[string]string, random Random) (*Previewed, []validators.Finding) {
	r := &renderer{report: &report{}, options: Options{Random: random}}
	rendered, findings := r.run(spec, given, true)
	if rendered == nil {
		return nil, findings
	}
	for i := range r.unknown {
		r.unknown[i] = strings.TrimPrefix(strings.TrimPrefix(r.unknown[i], virtualMachineAt), ".")
	}
	slices.Sort(r.unknown)
	return &Previewed{*rendered, slices.Compact(r.unknown)}, findings
}

// Samples are values for the required parameters that have none, which the parameters allow: to find out what depends on
// them. ok is false if there are none for a parameter, such as one with a pattern.
func Samples(spec *v1beta1.VirtualMachineTemplateSpec, given map[string]string) (samples map[string]string, ok bool) {
	w := newReferences(spec.Parameters)
	w.walk((&renderer{report: &report{}}).parse(spec.VirtualMachine))
	samples = map[string]string{}
	for i := range spec.Parameters {
		p := &spec.Parameters[i]
		if _, isGiven := given[p.Name]; isGiven || !p.Required || p.Value != "" || p.Generate != "" {
			continue
		}
		value := sampleOf(p, w.numbers[p.Name])
		c := (&resolver{report: &report{}}).constraintOf(i, p)
		if c.check(value) != nil || c.checkPattern(value) != nil {
			return nil, false
		}
		samples[p.Name] = value
	}
	return samples, true
}

// sampleOf is a value of the parameter's type.
func sampleOf(p *v1beta1.Parameter, isNumber bool) string {
	bound := func(q *resource.Quantity, other string) string {
		if q == nil {
			return other
		}
		return q.String()
	}
	switch {
	case len(p.Enum) > 0:
		return p.Enum[0]
	case p.Type == v1beta1.ParameterInteger:
		return bound(p.Minimum, bound(p.Maximum, "1"))
	case p.Type == v1beta1.ParameterQuantity:
		return bound(p.Minimum, bound(p.Maximum, "1Gi"))
	case p.Type == v1beta1.ParameterBoolean:
		return "true"
	case p.Type == v1beta1.ParameterObject:
		return "{}"
	case isNumber:
		return "1"
	}
	return "sample"
}
