package instancetypes_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/conformance"
	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/provenance"
)

// TestEveryExpandedFieldHasAnOrigin expands every recorded case, and asks of each change which field of the
// instancetype or the preference is behind it. That field must exist there, and be set.
func TestEveryExpandedFieldHasAnOrigin(t *testing.T) {
	file, err := os.Open(filepath.Join("..", "conformance", "testdata", "instancetype.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cases, err := conformance.ReadInstancetypeCases(file)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, c := range cases {
		in, pref := &instancetypes.Instancetype{Name: "it"}, &instancetypes.Preference{Name: "pf"}
		vm := &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{Template: &v1.VirtualMachineInstanceTemplateSpec{Spec: *c.VMI.DeepCopy()}}}
		target := instancetypes.TemplateOf(vm)
		if c.Preference != nil {
			pref.Spec = *c.Preference
		}
		rec := provenance.NewRecorder("")
		if c.Instancetype == nil {
			instancetypes.Expand(target, nil, pref, rec)
		} else {
			in.Spec = *c.Instancetype
			instancetypes.Expand(target, in, pref, rec)
		}
		for _, change := range rec.Changes() {
			if strings.Contains(change.Path, "annotations[") {
				continue // part of the metadata, not of the spec
			}
			behind, spec := in.FieldBehind(change.Path), reflect.ValueOf(in.Spec)
			if change.Layer == pref.Layer() {
				behind, spec = pref.FieldBehind(change.Path), reflect.ValueOf(pref.Spec)
			}
			checked++
			if value, ok := at(spec, strings.Split(behind, ".")[1:]); !ok || behind == "spec" || value.IsZero() && behind != "spec.cpu.guest" { // 0 is recorded too
				t.Errorf("%s: %s, filled by %s, is said to come from %q, which is not set there", c.ID, change.Path, change.Layer, behind)
			}
		}
	}
	if checked < 500 {
		t.Errorf("only %d changes were checked", checked)
	}
}

// at finds a value by the names of its fields in JSON.
func at(value reflect.Value, names []string) (reflect.Value, bool) {
	for _, name := range names {
		for value.Kind() == reflect.Pointer {
			value = value.Elem()
		}
		if value.Kind() != reflect.Struct {
			return value, false
		}
		found := false
		for i := range value.NumField() {
			if tag, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ","); tag == name {
				value, found = value.Field(i), true
				break
			}
		}
		if !found {
			return value, false
		}
	}
	return value, true
}
