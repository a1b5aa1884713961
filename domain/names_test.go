package domain

import (
	"reflect"
	"strings"
	"testing"
)

// TestNames compares the names by which policies read a domain with those of the document: see docs/policy-previews.md.
func TestNames(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var check func(reflect.Type)
	check = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || seen[of] {
			return
		}
		seen[of] = true
		names := map[string]bool{}
		for i := range of.NumField() {
			field := of.Field(i)
			in := tagOf(&field)
			want := strings.NewReplacer(":", "_", "-", "_").Replace(in.path[0])
			switch {
			case in.text:
				want = "value"
			case field.Name == "FirmwareInfo":
				want = "firmwareInfo"
			}
			if !in.keep && field.Type.Kind() != reflect.Struct {
				want += ",omitempty"
			}
			if got := field.Tag.Get("json"); got != want {
				t.Errorf("%s.%s has the name %q in policies, want %q", of.Name(), field.Name, got, want)
			}
			if names[want] {
				t.Errorf("%s has two fields %s", of.Name(), want)
			}
			names[want] = true
			check(field.Type)
		}
	}
	check(reflect.TypeFor[Domain]())
	if len(seen) < 100 {
		t.Errorf("%d types", len(seen))
	}
}
