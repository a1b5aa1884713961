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
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/fieldpath"
)

// A policy names a field of vm or of the object. Its findings name the field of the object, which its author knows. The
// first field below spec distinguishes the two: no name is in both.

// kind describes a kind of objects that policies are evaluated on.
type kind struct {
	name policyv1alpha1.PolicyKind
	// vm is the path of the metadata and the spec of the effective VM in the object, and machine the path of the
	// VirtualMachine if it is not the object itself.
	vm, machine string
	// object is the Go type; nil if there is none.
	object reflect.Type
	// plain reports whether the object has no virtual machine.
	plain bool
	// fields are the names below spec that belong to the object, not to the effective VM.
	fields []string
}

// evaluated returns the kinds that policies are evaluated on.
func evaluated() []kind {
	machines := apikinds.MachineKinds(func(m *apikinds.Machine) bool { return m.Policies })
	kinds := make([]kind, 0, len(machines)+1)
	for i := range machines {
		m := &machines[i]
		k := kind{name: policyv1alpha1.PolicyKind(m.Kind), vm: m.EffectiveVM()}
		if m.Makes == apikinds.VirtualMachine {
			k.machine = m.Template
		}
		if m.Makes != "" {
			k.fields = fieldpath.NamesOf(m.Spec())
		}
		if !m.Parameters {
			k.object = m.Type
		}
		kinds = append(kinds, k)
	}
	return append(kinds, kind{name: policyv1alpha1.PolicyPlugin, plain: true, object: reflect.TypeFor[pluginv1alpha1.Plugin]()})
}

// place is the position of a field.
type place struct {
	// path is the path in the object.
	path string
	// inVM is the path in the effective VM; empty for a field of the object.
	inVM string
}

// place finds a field. The path can begin with vm. or object. to select one of them.
func (k *kind) place(path string) place {
	if rest, ok := strings.CutPrefix(path, "object."); ok {
		return place{path: rest}
	}
	if k.plain {
		return place{path: path}
	}
	if rest, ok := strings.CutPrefix(path, "vm."); ok {
		return k.ofVM(rest)
	}
	first := ""
	if steps := fieldpath.Split(path); len(steps) > 1 && steps[0] == "spec" {
		first = steps[1]
	}
	switch {
	case first == "" || slices.Contains(k.fields, first): // the object's spec or metadata, or one of its own fields
		return place{path: path}
	case k.machine != "" && slices.Contains(fieldpath.NamesOf(reflect.TypeFor[v1.VirtualMachineSpec]()), first):
		return k.ofMachine(path)
	}
	return k.ofVM(path)
}

// ofMachine places a field of the VirtualMachine in a template.
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

// known returns why the kind has no such field; empty if it has. A template has no known fields outside of its virtual
// machine.
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

// effective returns the path in the effective VM of a field of the object's template.
func (k *kind) effective(p place) string {
	if p.inVM != "" || k.vm == "" {
		return p.inVM
	}
	if rest, ok := strings.CutPrefix(p.path, k.vm+"."); ok {
		return rest
	}
	return ""
}

// unknownField returns which step of a path the type does not have; empty if it has all.
func unknownField(t reflect.Type, path string) string {
	before := ""
	for _, step := range fieldpath.Split(path) {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() == reflect.Interface {
			return ""
		}
		if fieldpath.Opaque(t) {
			return fmt.Sprintf("%s has no fields", before)
		}
		switch t.Kind() {
		case reflect.Struct:
			f, ok := fieldpath.FieldOf(t, step)
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

// plain returns a value without its Go type.
func plain(v reflect.Value) (any, bool) {
	if !v.CanInterface() {
		return nil, false
	}
	if !fieldpath.Opaque(v.Type()) {
		switch v.Kind() {
		case reflect.String:
			return v.String(), true
		case reflect.Bool:
			return v.Bool(), true
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			return v.Int(), true
		case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			return int64(v.Uint()), true //nolint:gosec // for messages only; no field of the API is near the bound
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

// sum returns a hash for a value that is too long for a message.
func sum(value []byte) string {
	hash := sha256.Sum256(value)
	return hex.EncodeToString(hash[:8])
}
