package fieldpath

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type inner struct {
	Own    string `json:"own"`
	Shared int    `json:"shared,omitempty"`
}

type outer struct {
	inner   `json:",inline"`
	Shared  string             `json:"shared"`
	Pointer *inner             `json:"pointer,omitempty"`
	List    []inner            `json:"list"`
	Map     map[string]*inner  `json:"map"`
	Amount  resource.Quantity  `json:"amount"`
	Port    intstr.IntOrString `json:"port"`
	Skipped string             `json:"-"`
	NoTag   string
	private string
}

func TestGet(t *testing.T) {
	var object any
	if err := json.Unmarshal([]byte(`{"spec": {"disks": [{"bus": "sata"}], "none": null}}`), &object); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		path    string
		want    any
		present int
	}{
		{"spec.disks[0].bus", "sata", 4},
		{"spec.none", nil, 2},
		{"spec.none.x", nil, 2},
		{"spec.disks[1].bus", nil, 2},
		{"spec.disks[-1]", nil, 2},
		{"spec.disks.bus", nil, 2},
		{"status", nil, 0},
	} {
		got, present := Get(object, Split(tc.path))
		if diff := cmp.Diff(tc.want, got); diff != "" || present != tc.present {
			t.Errorf("%s: %d steps present, want %d; (-want +got):\n%s", tc.path, present, tc.present, diff)
		}
	}
}

func TestFieldsOf(t *testing.T) {
	want := []string{"amount", "list", "map", "own", "pointer", "port", "shared"}
	for _, of := range []reflect.Type{reflect.TypeFor[outer](), reflect.TypeFor[*outer]()} {
		if diff := cmp.Diff(want, NamesOf(of)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", of, diff)
		}
	}
	if f, ok := FieldOf(reflect.TypeFor[outer](), "shared"); !ok || f.Type.Kind() != reflect.String || f.OmitEmpty {
		t.Errorf("the outer field of two with one name: %+v", f)
	}
	if f, ok := FieldOf(reflect.TypeFor[outer](), "pointer"); !ok || !f.OmitEmpty {
		t.Errorf("omitempty: %+v", f)
	}
	for _, none := range []reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString]()} {
		if names := NamesOf(none); len(names) > 0 {
			t.Errorf("%s: %q", none, names)
		}
	}
}

func TestBelow(t *testing.T) {
	of := reflect.TypeFor[*outer]()
	for path, want := range map[string]string{
		"pointer.own": "string", "list[0].shared": "int", "map[x].own": "string", "own": "string", "amount": "Quantity", "missing": "", "own.x": "",
	} {
		at := of
		for _, step := range Split(path) {
			if at != nil {
				at = Below(at, step)
			}
		}
		if got := name(at); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if !Opaque(reflect.TypeFor[resource.Quantity]()) || !Opaque(reflect.TypeFor[*intstr.IntOrString]()) || Opaque(of) {
		t.Error("only the JSON of quantities and of numbers or texts differs from their fields")
	}
}

func name(t reflect.Type) string {
	if t == nil {
		return ""
	}
	return t.Name()
}

func TestStepValue(t *testing.T) {
	object := &outer{inner: inner{Own: "a"}, List: []inner{{Own: "b"}}, Map: map[string]*inner{"x": {Own: "c"}}, private: "never read"}
	for path, want := range map[string]any{
		"own": "a", "list[0].own": "b", "map[x].own": "c", "list[1].own": nil, "map[y].own": nil, "pointer.own": nil, "NoTag": nil, object.private: nil,
	} {
		at := reflect.ValueOf(object)
		for _, step := range Split(path) {
			at = StepValue(at, step)
		}
		var got any
		if at.IsValid() {
			got = at.Interface()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}
