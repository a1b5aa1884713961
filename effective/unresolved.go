package effective

import (
	"slices"
	"strings"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/validators"
)

// withoutUnresolved removes findings about fields whose values are unknown: the author left them out, and an instancetype or a
// preference that was not found may determine them. A warning reports that it is missing.
func (v *Verdict) withoutUnresolved(in *Input) {
	unresolved := v.VM.Spec.Instancetype != nil && in.Instancetype == nil || v.VM.Spec.Preference != nil && in.Preference == nil
	if !unresolved || len(v.Findings) == 0 {
		return
	}
	author := written(in.VM, nil)
	v.Findings = slices.DeleteFunc(v.Findings, func(f validators.Finding) bool {
		path, ok := strings.CutPrefix(f.Error.Field, templateSpec+".")
		return ok && undetermined(in, v.VM, path) && !holds(author, f.Error.Field) && !v.expanded(in, f.Error.Field)
	})
}

// expanded reports whether the instancetype or the preference that was found determines a field.
func (v *Verdict) expanded(in *Input, path string) bool {
	var layers []string
	if in.Instancetype != nil {
		layers = append(layers, in.Instancetype.Layer())
	}
	if in.Preference != nil {
		layers = append(layers, in.Preference.Layer())
	}
	return slices.ContainsFunc(v.Changes, func(c provenance.Change) bool {
		return slices.Contains(layers, c.Layer) && (fieldpath.Within(c.Path, path) || fieldpath.Within(path, c.Path))
	})
}
