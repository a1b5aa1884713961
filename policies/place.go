package policies

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	v1 "kubevirt.io/api/core/v1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/provenance"
)

// A policy names a field as it stands in vm or in the object, and its findings name it as it stands in the object:
// that is what its author knows. What tells the two apart is the first field below spec; no name is both.

// kind is what a policy has to know of a kind that it evaluates.
type kind struct {
	name policyv1alpha1.PolicyKind
	// vm is where the metadata and the spec of the effective VM stand in the object, and machine, where the
	// VirtualMachine does, if it is not the object itself.
	vm, machine string
	// object is the Go type; nil if there is none.
	object reflect.Type
	// fields are those below spec that are the object's own.
	fields []string
}

// evaluated are the kinds that policies evaluate.
func evaluated() []kind {
	machine := fieldsOf(reflect.TypeFor[v1.VirtualMachineSpec]())
	return []kind{
		{name: policyv1alpha1.PolicyVirtualMachine, vm: "spec.template", object: reflect.TypeFor[v1.VirtualMachine](), fields: machine},
		{name: policyv1alpha1.PolicyVirtualMachineInstance, object: reflect.TypeFor[v1.VirtualMachineInstance]()},
		{
			name: policyv1alpha1.PolicyVirtualMachineTemplate, vm: "spec.virtualMachine.spec.template", machine: "spec.virtualMachine",
			fields: []string{"message", "parameters", "virtualMachine"},
		},
		{
			name: policyv1alpha1.PolicyVirtualMachinePool, vm: "spec.virtualMachineTemplate.spec.template", machine: "spec.virtualMachineTemplate",
			object: reflect.TypeFor[poolv1beta1.VirtualMachinePool](), fields: fieldsOf(reflect.TypeFor[poolv1beta1.VirtualMachinePoolSpec]()),
		},
	}
}

// place is where a field stands.
type place struct {
	// path is that of the object.
	path string
	// inVM is the path in the effective VM, if it is a field of that; empty if it is the object's own.
	inVM string
}

// place finds a field. The path may begin with vm. or object. to say which is meant.
func (k *kind) place(path string) place {
	if rest, ok := strings.CutPrefix(path, "object."); ok {
		return place{path: rest}
	}
	if rest, ok := strings.CutPrefix(path, "vm."); ok {
		return k.ofVM(rest)
	}
	first := ""
	if steps := provenance.Steps(path); len(steps) > 1 && steps[0] == "spec" {
		first = steps[1]
	}
	switch {
	case first == "" || slices.Contains(k.fields, first): // the object's spec or metadata, or a field of its own
		return place{path: path}
	case k.machine != "" && slices.Contains(fieldsOf(reflect.TypeFor[v1.VirtualMachineSpec]()), first):
		return k.ofMachine(path)
	}
	return k.ofVM(path)
}

// ofMachine places a field of the VirtualMachine that a template makes.
func (k *kind) ofMachine(path string) place {
	p := place{path: k.machine + "." + path}
	if rest, ok := strings.CutPrefix(p.path, k.vm+"."); ok {
		p.inVM = rest
	}
	return p
}

func (k *kind) ofVM(path string) place {
	if k.vm == "" {
		return place{path: path, inVM: path}
	}
	return place{path: k.vm + "." + path, inVM: path}
}

// known says why a kind has no such field; an empty string if it has. Of a template nothing is known but the
// virtual machine in it.
func (k *kind) known(path string) string {
	p := k.place(path)
	if inVM := k.effective(p); inVM != "" {
		return unknownField(reflect.TypeFor[v1.VirtualMachineInstance](), inVM)
	}
	if k.object == nil {
		return ""
	}
	return unknownField(k.object, p.path)
}

// effective is the path in the effective VM of a field that stands in the object's template.
func (k *kind) effective(p place) string {
	if p.inVM != "" || k.vm == "" {
		return p.inVM
	}
	if rest, ok := strings.CutPrefix(p.path, k.vm+"."); ok {
		return rest
	}
	return ""
}

// unknownField says which step of a path a type does not have; an empty string if it has them all.
func unknownField(t reflect.Type, path string) string {
	before := ""
	for _, step := range provenance.Steps(path) {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() == reflect.Interface {
			return ""
		}
		if opaque(t) {
			return fmt.Sprintf("%s has no fields", before)
		}
		switch t.Kind() {
		case reflect.Struct:
			f, ok := fieldOf(t, step)
			if !ok {
				return fmt.Sprintf("there is no field %s in %s", step, orObject(before))
			}
			t = f.Type
		case reflect.Slice, reflect.Array:
			if _, err := strconv.ParseUint(step, 10, 31); err != nil {
				return fmt.Sprintf("%s is a list: its elements are %s[0], %s[1] …", before, before, before)
			}
			t = t.Elem()
		case reflect.Map:
			t = t.Elem()
		default:
			return fmt.Sprintf("%s has no fields", before)
		}
		before = joined(before, step)
	}
	return ""
}

func joined(before, step string) string {
	if before == "" {
		return step
	}
	if _, err := strconv.ParseUint(step, 10, 31); err == nil {
		return before + "[" + step + "]"
	}
	return before + "." + step
}

func orObject(path string) string {
	if path == "" {
		return "the object"
	}
	return path
}

// opaque tells types whose JSON is not that of their fields, such as quantities.
func opaque(t reflect.Type) bool {
	marshaler := reflect.TypeFor[json.Marshaler]()
	return t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)
}

// fieldsOf are the names of a type's fields in JSON, sorted.
func fieldsOf(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// fieldOf finds a field by its name in JSON, in what is inlined too.
func fieldOf(t reflect.Type, name string) (reflect.StructField, bool) {
	for f := range t.Fields() {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name && name != "" {
			return f, true
		}
		if inner := f.Type; tag == "" && f.Anonymous {
			for inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() != reflect.Struct {
				continue
			}
			if found, ok := fieldOf(inner, name); ok {
				found.Index = append(slices.Clone(f.Index), found.Index...)
				return found, true
			}
		}
	}
	return reflect.StructField{}, false
}

// valueAt is what stands at a path of an object; ok is false if nothing does. A value that a person would write
// in one word is itself: a string, a number, a boolean. Any other one is in its JSON form.
func valueAt(object any, path string) (value any, ok bool) {
	v := reflect.ValueOf(object)
	for _, step := range provenance.Steps(path) {
		if v = member(indirect(v), step); !v.IsValid() {
			return nil, false
		}
	}
	if v.IsZero() { // left out, as it is in the JSON form: what may be zero and there is behind a pointer
		return nil, false
	}
	if v = indirect(v); !v.IsValid() {
		return nil, false
	}
	return plain(v)
}

func indirect(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

// member is what a step of a path leads to; the zero Value if it leads nowhere.
func member(v reflect.Value, step string) reflect.Value {
	switch v.Kind() {
	case reflect.Struct:
		if f, ok := fieldOf(v.Type(), step); ok {
			found, err := v.FieldByIndexErr(f.Index)
			if err == nil {
				return found
			}
		}
	case reflect.Map:
		if v.Type().Key().Kind() == reflect.String {
			return v.MapIndex(reflect.ValueOf(step).Convert(v.Type().Key()))
		}
	case reflect.Slice, reflect.Array:
		if i, err := strconv.ParseUint(step, 10, 31); err == nil && int(i) < v.Len() {
			return v.Index(int(i))
		}
	}
	return reflect.Value{}
}

// plain is a value without its Go type.
func plain(v reflect.Value) (any, bool) {
	if !v.CanInterface() {
		return nil, false
	}
	if !opaque(v.Type()) {
		switch v.Kind() {
		case reflect.String:
			return v.String(), true
		case reflect.Bool:
			return v.Bool(), true
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			return v.Int(), true
		case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			return int64(v.Uint()), true //nolint:gosec // what is shown; no field of the API is near the bound
		case reflect.Float32, reflect.Float64:
			return v.Float(), true
		}
	}
	data, err := json.Marshal(v.Interface())
	if err != nil {
		return nil, false
	}
	var text string
	if json.Unmarshal(data, &text) == nil {
		return text, true
	}
	return json.RawMessage(data), true
}

// sum stands for a value that is too long to be shown.
func sum(value []byte) string {
	hash := sha256.Sum256(value)
	return hex.EncodeToString(hash[:8])
}
