package cel_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cel"
)

// recorded are the objects of the recorded admission requests, typed.
func recorded(tb testing.TB) []any {
	tb.Helper()
	file, err := os.Open("../conformance/testdata/admission.jsonl")
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	var objects []any
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var c struct {
			Kind   string          `json:"kind"`
			Object json.RawMessage `json:"object"`
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			tb.Fatal(err)
		}
		object := typedObject(c.Kind)
		if object == nil || json.Unmarshal(c.Object, object) != nil {
			continue // a case about an object that does not decode
		}
		objects = append(objects, object)
	}
	if err := lines.Err(); err != nil {
		tb.Fatal(err)
	}
	if len(objects) < 100 {
		tb.Fatalf("only %d recorded objects were read", len(objects))
	}
	return objects
}

func typedObject(kind string) any {
	switch kind {
	case apikinds.VirtualMachine:
		return &v1.VirtualMachine{}
	case apikinds.VirtualMachineInstance:
		return &v1.VirtualMachineInstance{}
	}
	return nil
}

// What an expression reads of a typed object is its JSON, but for what says nothing: null, and structs that are
// empty although no test requires it.
func TestObjectsReadAsTheirJSON(t *testing.T) {
	s := scope(t, cel.ScopeOptions{})
	whole := program(t, s, "object", cel.Any)
	compared := 0
	for _, object := range recorded(t) {
		got, err := whole.Eval(s.Activation(&cel.Documents{Object: object}), cel.NewBudget())
		if err != nil {
			t.Fatal(err)
		}
		want, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(pruned(want, reflect.TypeOf(object)), got); diff != "" {
			t.Fatalf("the object differs (-JSON +expression):\n%s", diff)
		}
		compared++
	}
	t.Logf("%d objects are the same", compared)
}

// pruned is a JSON value without nulls and without the empty structs of a Go type.
func pruned(value any, t reflect.Type) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch value := value.(type) {
	case map[string]any:
		for key, entry := range value {
			inner := elementType(t, key)
			if entry == nil || inner.Kind() == reflect.Struct && reflect.DeepEqual(entry, zero(inner)) {
				delete(value, key)
				continue
			}
			if value[key] = pruned(entry, inner); inner.Kind() == reflect.Struct && reflect.DeepEqual(value[key], map[string]any{}) {
				delete(value, key)
			}
		}
	case []any:
		for i := range value {
			value[i] = pruned(value[i], t.Elem())
		}
	}
	return value
}

// zero is the JSON of an empty struct.
func zero(t reflect.Type) any {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		return "" // which it never is
	}
	value, err := runtime.DefaultUnstructuredConverter.ToUnstructured(reflect.New(t).Interface())
	if err != nil {
		return err
	}
	return any(value)
}

func elementType(t reflect.Type, key string) reflect.Type {
	if t.Kind() == reflect.Struct {
		for _, field := range reflect.VisibleFields(t) {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name == key {
				return field.Type
			}
		}
		return reflect.TypeFor[any]()
	}
	if t.Kind() == reflect.Map {
		return t.Elem()
	}
	return reflect.TypeFor[any]()
}

// walk visits every type that a type consists of, once.
func walk(t reflect.Type, path string, seen map[reflect.Type]string, visit func(reflect.Type, string)) {
	if _, ok := seen[t]; ok {
		return
	}
	seen[t] = path
	visit(t, path)
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		walk(t.Elem(), path, seen, visit)
	case reflect.Struct:
		if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
			return
		}
		for i := range t.NumField() {
			if field := t.Field(i); field.IsExported() {
				walk(field.Type, path+"."+field.Name, seen, visit)
			}
		}
	}
}

// The Go types with a JSON form of their own, and all whose numbers or texts have a kind of their own, read as JSON
// has them. The list is complete: a type that KubeVirt adds makes this test fail until it is read here.
func TestTypesWithAFormOfTheirOwn(t *testing.T) {
	roots := []reflect.Type{
		reflect.TypeFor[v1.VirtualMachine](), reflect.TypeFor[v1.VirtualMachineInstance](),
		reflect.TypeFor[v1.VirtualMachineInstanceReplicaSet](), reflect.TypeFor[poolv1beta1.VirtualMachinePool](),
		reflect.TypeFor[instancetypev1beta1.VirtualMachineInstancetypeSpec](),
		reflect.TypeFor[instancetypev1beta1.VirtualMachinePreferenceSpec](),
	}
	seen := map[reflect.Type]string{}
	var marshalers, odd []string
	for _, root := range roots {
		walk(root, root.Name(), seen, func(typ reflect.Type, _ string) {
			if typ.Kind() != reflect.Pointer && reflect.PointerTo(typ).Implements(reflect.TypeFor[json.Marshaler]()) {
				marshalers = append(marshalers, typ.String())
			}
			switch typ.Kind() {
			case reflect.Interface, reflect.Func, reflect.Chan, reflect.Array, reflect.Complex64, reflect.Complex128:
				odd = append(odd, typ.String())
			}
			if typ.Kind() == reflect.Map && typ.Key().Kind() != reflect.String {
				odd = append(odd, typ.String())
			}
		})
	}
	slices.Sort(marshalers)
	want := []string{"intstr.IntOrString", "resource.Quantity", "v1.Duration", "v1.FieldsV1", "v1.Time"}
	if diff := cmp.Diff(want, slices.Compact(marshalers)); diff != "" {
		t.Errorf("types with a JSON form of their own (-known +found):\n%s", diff)
	}
	if len(odd) > 0 {
		t.Errorf("types that cannot be read: %v", odd)
	}
}

// Every field of the Go types has a type in expressions, and every typed field is one of the Go types.
func TestSchemasFitTheGoTypes(t *testing.T) {
	for kind, typ := range map[string]reflect.Type{
		apikinds.VirtualMachine:                   reflect.TypeFor[v1.VirtualMachine](),
		apikinds.VirtualMachineInstance:           reflect.TypeFor[v1.VirtualMachineInstance](),
		apikinds.VirtualMachinePool:               reflect.TypeFor[poolv1beta1.VirtualMachinePool](),
		apikinds.VirtualMachineInstanceReplicaSet: reflect.TypeFor[v1.VirtualMachineInstanceReplicaSet](),
	} {
		t.Run(kind, func(t *testing.T) {
			s := scope(t, cel.ScopeOptions{Kinds: []string{kind}})
			checked := 0
			fields(typ, "object", nil, func(path string) {
				checked++
				if _, issues := s.Compile(path, cel.Any); len(issues) > 0 {
					t.Errorf("%s: %v", path, issues)
				}
			})
			if checked < 500 {
				t.Errorf("only %d fields were checked", checked)
			}
		})
	}
	s := scope(t, cel.ScopeOptions{})
	for root, typ := range map[string]reflect.Type{
		"vm.spec":      reflect.TypeFor[v1.VirtualMachineInstanceSpec](),
		"vm.metadata":  reflect.TypeFor[metav1.ObjectMeta](),
		"instancetype": reflect.TypeFor[instancetypev1beta1.VirtualMachineInstancetypeSpec](),
		"preference":   reflect.TypeFor[instancetypev1beta1.VirtualMachinePreferenceSpec](),
		"request":      reflect.TypeFor[cel.Request](),
	} {
		fields(typ, root, nil, func(path string) {
			if _, issues := s.Compile(path, cel.Any); len(issues) > 0 {
				t.Errorf("%s: %v", path, issues)
			}
		})
	}
}

// fields visits the expression of every field of a type.
func fields(t reflect.Type, path string, within []reflect.Type, visit func(string)) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()):
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		fields(t.Elem(), path+"[0]", within, visit)
	case t.Kind() == reflect.Map:
		fields(t.Elem(), path+"['x']", within, visit)
	case t.Kind() == reflect.Struct && !slices.Contains(within, t):
		for i := range t.NumField() {
			field := t.Field(i)
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case !field.IsExported() || name == "-":
			case name == "" && (field.Anonymous || strings.Contains(options, "inline")):
				fields(field.Type, path, append(within, t), visit)
			default:
				visit(path + "." + name)
				fields(field.Type, path+"."+name, append(within, t), visit)
			}
		}
	}
}

// The order in which maps and objects are walked is that of their keys.
func TestMapsAreWalkedInOrder(t *testing.T) {
	labels := map[string]string{}
	for i := range 40 {
		labels[fmt.Sprintf("label-%02d", i)] = "x"
	}
	d := documents()
	d.Object.(*v1.VirtualMachine).Labels = labels
	d.Params = map[string]any{"z": 1, "a": 2, "m": 3}
	s := scope(t, cel.ScopeOptions{Kinds: []string{apikinds.VirtualMachine}})
	got, err := evaluate(t, s, d, "object.metadata.labels.map(k, k).isSorted() && params.map(k, k) == ['a', 'm', 'z'] && object.metadata.labels.transformList(k, v, k).isSorted()")
	if err != nil || got != true {
		t.Errorf("%v, %v", got, err)
	}
}
