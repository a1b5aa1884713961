package effective

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/validators"
)

// trace names the layer behind each finding's value, and moves a finding whose value comes from the
// instancetype or the preference to the field through which its author chose that. It removes findings of rules that are only
// about what the author wrote.
func (v *Verdict) trace(in *Input) {
	if len(v.Findings) == 0 || len(v.Changes) == 0 {
		return
	}
	asWritten := sync.OnceValue(in.asWritten) // large, and seldom needed
	for i := range v.Findings {
		f := &v.Findings[i]
		if f.Layer != "" { // a value at run time, which nothing set
			continue
		}
		layer, below := v.layerOf(f.Error.Field, asWritten)
		s := v.chosen(layer, in)
		if s == nil && below && has(asWritten(), f.Error.Field) {
			continue // the author wrote an empty object
		}
		if f.Layer = layer; s != nil {
			s.move(f)
		}
	}
	v.Findings = slices.DeleteFunc(v.Findings, func(f validators.Finding) bool { return f.OnlyWritten && f.Layer != "" })
}

// source is an object that the author of a VM chose, and that determines fields of the spec.
type source struct {
	// at is the field through which it was chosen.
	at       *field.Path
	describe string
	// behind is the object's field that determines one of the spec.
	behind func(path string) string
	// remedy is what its author can do about the value of a field: a format of the path.
	remedy string
}

// chosen is the object behind a layer; nil if the layer is none.
func (v *Verdict) chosen(layer string, in *Input) *source {
	switch {
	case in.VM == nil || layer == "":
		return nil
	case in.Instancetype != nil && layer == in.Instancetype.Layer():
		matcher := in.VM.Spec.Instancetype
		return &source{chosenBy("instancetype", matcher != nil && matcher.Name != ""), in.Instancetype.Describe(), in.Instancetype.FieldBehind, "Choose another instancetype: it determines FIELD."}
	case in.Preference != nil && layer == in.Preference.Layer():
		matcher := in.VM.Spec.Preference
		return &source{chosenBy("preference", matcher != nil && matcher.Name != ""), in.Preference.Describe(), in.Preference.FieldBehind, "Choose another preference, or set a supported value in the VM."}
	}
	return nil
}

func chosenBy(matcher string, named bool) *field.Path {
	if named {
		return field.NewPath("spec", matcher, "name")
	}
	return field.NewPath("spec", matcher, "inferFromVolume")
}

func (s *source) move(f *validators.Finding) {
	moved := *f.Error
	moved.Field = s.at.String()
	path := strings.TrimPrefix(f.Error.Field, templateSpec+".")
	f.Source = fmt.Sprintf("%s sets %s by its %s", s.describe, path, s.behind(path))
	if f.Remedy == "" || !strings.HasPrefix(f.Rule, policies.RulePrefix) { // the admin knows better what to do
		f.Remedy = strings.ReplaceAll(s.remedy, "FIELD", path)
	}
	f.Effective, f.Error = f.Error.Field, &moved
}

// layerOf is the layer that wrote the value at a path last or, if the author wrote nothing there or an empty object, the first
// one that wrote something below it: those after it only filled what it had left; empty for what the author wrote. below
// reports the second case.
func (v *Verdict) layerOf(path string, written func() map[string]any) (layer string, below bool) {
	first := ""
	dotted := dottedPath(path)
	for i := len(v.Changes) - 1; i >= 0; i-- {
		c := &v.Changes[i]
		changed := dottedPath(c.Path)
		if fieldpath.Within(dotted, changed) {
			return c.Layer, false
		}
		if fieldpath.Within(changed, dotted) {
			first = c.Layer
		}
	}
	if first != "" && !holds(written(), path) {
		return first, true
	}
	return "", false
}

// dottedPath is a path with keys as fields: rules write requests.cpu, and layers requests[cpu].
func dottedPath(path string) string {
	if !strings.Contains(path, "[") {
		return path
	}
	return strings.Join(fieldpath.Split(path), ".")
}

// written is an object without its type; nil if it has no such form.
func written(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) map[string]any {
	var object any = vm
	if vm == nil {
		object = vmi
	}
	return fieldsOf(object)
}

// asWritten is the object as its author wrote it, as far as that is known.
func (in *Input) asWritten() map[string]any {
	document := map[string]any{}
	if len(in.Raw) > 0 && sigsjson.UnmarshalCaseSensitivePreserveInts(in.Raw, &document) == nil {
		return document
	}
	return written(in.VM, in.VMI)
}

// has reports whether there is a value at a path.
func has(object map[string]any, path string) bool {
	at, _ := fieldpath.Get(object, fieldpath.Split(path))
	return at != nil
}

// holds reports whether there is more than an empty object at a path.
func holds(object map[string]any, path string) bool {
	at, _ := fieldpath.Get(object, fieldpath.Split(path))
	switch value := at.(type) {
	case nil:
		return false
	case map[string]any:
		return len(value) > 0
	}
	return true
}

// findUnset marks the findings that quote the zero value of a field that the author did not write.
func (v *Verdict) findUnset(in *Input) {
	if len(v.Findings) == 0 {
		return
	}
	asWritten := sync.OnceValue(in.asWritten)
	for i := range v.Findings {
		f := &v.Findings[i]
		if f.Source != "" || !isZero(f.Error.BadValue) {
			continue
		}
		at, _ := fieldpath.Get(asWritten(), fieldpath.Split(f.Error.Field))
		f.Unset = at == nil || at == ""
	}
}

// isZero reports whether the value of an error is that of a field that is not set.
func isZero(value any) bool {
	switch known := value.(type) {
	case nil:
		return true
	case field.OmitValueType:
		return false
	case string:
		return known == "" || known == "0" // a quantity
	}
	of := reflect.ValueOf(value)
	return of.IsZero() || of.Kind() == reflect.Slice && of.Len() == 0
}
