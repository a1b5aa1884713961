package rego

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/domain"
	"github.com/virtward/virtward/fieldpath"
)

// Documents are the names that a module may read below input, each with the Go type that its fields are checked
// against; nil for one whose shape is not known before it comes.
func Documents() map[string]reflect.Type {
	return map[string]reflect.Type{
		"object":          nil, // by the kinds that a policy is for; see Compile
		"oldObject":       nil,
		"vm":              reflect.TypeFor[effectiveVM](),
		"request":         nil,
		"params":          nil,
		"namespaceObject": reflect.TypeFor[namespace](),
		"platform":        nil,
		"provenance":      nil,
		"instancetype":    reflect.TypeFor[instancetypev1beta1.VirtualMachineInstancetypeSpec](),
		"preference":      reflect.TypeFor[instancetypev1beta1.VirtualMachinePreferenceSpec](),
		"rollout":         reflect.TypeFor[rollout](),
		"references":      reflect.TypeFor[cel.References](),
		"requester":       reflect.TypeFor[string](),
		"pod":             reflect.TypeFor[launcherPod](),
		"domain":          reflect.TypeFor[domain.Domain](),

		"migrationTargets": reflect.TypeFor[int64](),
	}
}

// effectiveVM is what there is of a VirtualMachineInstance before it runs.
type effectiveVM struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec v1.VirtualMachineInstanceSpec `json:"spec"`
}

// launcherPod is the pod that KubeVirt makes of a virtual machine.
type launcherPod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec corev1.PodSpec `json:"spec"`
}

// rollout is what an update of a running VM changes.
type rollout struct {
	Restart   []string `json:"restart"`
	Migration []string `json:"migration"`
	Never     []string `json:"never"`
	Unknown   bool     `json:"unknown"`
}

// namespace is what a policy may know of one.
type namespace struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

// kinds are the types of object and oldObject in a policy for one kind.
func kinds() map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for _, m := range apikinds.MachineKinds((*apikinds.Machine).Native) {
		types[m.Kind] = m.Type
	}
	types[apikinds.Plugins.Kind] = reflect.TypeFor[pluginv1alpha1.Plugin]()
	return types
}

// documentNames are the names in the order of their bits in a documentSet.
var documentNames = sync.OnceValue(func() []string {
	var names []string
	for name := range Documents() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
})

// fieldNames are the names of the fields that documents have by their types, each with its term.
var fieldNames = sync.OnceValue(func() map[string]*ast.Term {
	found := map[string]*ast.Term{}
	seen := map[reflect.Type]bool{}
	var add func(reflect.Type)
	add = func(t reflect.Type) {
		for t != nil && slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, t.Kind()) {
			t = t.Elem()
		}
		if t == nil || t.Kind() != reflect.Struct || seen[t] {
			return
		}
		seen[t] = true
		fields := fieldpath.FieldsOf(t)
		for i := range fields {
			if found[fields[i].Name] == nil {
				found[fields[i].Name] = ast.InternedTerm(fields[i].Name)
			}
			add(fields[i].Type)
		}
	}
	for _, t := range Documents() {
		add(t)
	}
	return found
})

// documentSet has one bit for each document that a module reads.
type documentSet uint32

// documentsIn are the documents that a module reads; all of them if it reads input as a whole, or by a name that
// it computes. Previews are computed for modules that have their names somewhere.
func documentsIn(module *ast.Module) documentSet {
	all := documentSet(1)<<len(documentNames()) - 1
	for i, name := range documentNames() {
		if slices.Contains(cel.PreviewNames(), name) && !names(module, name) {
			all &^= 1 << i
		}
	}
	var set documentSet
	ast.WalkRefs(module, func(ref ast.Ref) bool {
		if !ref[0].Equal(ast.InputRootDocument) {
			return false
		}
		if len(ref) == 1 {
			set = all
			return false
		}
		name, constant := ref[1].Value.(ast.String)
		if !constant {
			set = all
		} else if i, known := slices.BinarySearch(documentNames(), string(name)); known {
			set |= 1 << i
		}
		return false
	})
	return set
}

// names reports whether a module has a name outside of paths that begin with a document.
func names(module *ast.Module, name string) (found bool) {
	ast.WalkTerms(module, func(term *ast.Term) bool {
		switch v := term.Value.(type) {
		case ast.Ref:
			return len(v) > 1 && v[0].Equal(ast.InputRootDocument)
		case ast.String:
			found = found || string(v) == name
		}
		return false
	})
	return found
}

// fieldsRead returns the fields of a document that a module reads, sorted; all reports that it may read every one.
func fieldsRead(module *ast.Module, document string) (fields []string, all bool) {
	ast.WalkRefs(module, func(ref ast.Ref) bool {
		if !ref[0].Equal(ast.InputRootDocument) {
			return false
		}
		if len(ref) == 1 {
			all = true
			return false
		}
		name, constant := ref[1].Value.(ast.String)
		switch {
		case constant && string(name) != document:
			return false
		case !constant || len(ref) == 2:
			all = true
			return false
		}
		if field, constant := ref[2].Value.(ast.String); constant {
			fields = append(fields, string(field))
		} else {
			all = true
		}
		return false
	})
	slices.Sort(fields)
	return slices.Compact(fields), all
}

// schemas tell the compiler the type of input in a policy for the kinds.
func schemas(module *ast.Module, of []string) *ast.SchemaSet {
	documents := Documents()
	if len(of) == 1 {
		documents["object"] = kinds()[of[0]]
		documents["oldObject"] = documents["object"]
	}
	b := &schemaBuilder{mentioned: mentionedIn(module), definitions: map[string]any{}}
	properties := map[string]any{}
	for name, t := range documents {
		properties[name] = map[string]any{}
		if t != nil {
			properties[name] = b.property(name, t)
		}
	}
	set := ast.NewSchemaSet()
	set.Put(ast.SchemaRootRef, any(map[string]any{
		"type": "object", "properties": properties, "additionalProperties": false, "definitions": b.definitions,
	}))
	return set
}

// mentionedIn are the strings in a module, among which are all fields that it names.
func mentionedIn(module *ast.Module) map[string]bool {
	mentioned := map[string]bool{}
	ast.WalkTerms(module, func(term *ast.Term) bool {
		if s, ok := term.Value.(ast.String); ok {
			mentioned[string(s)] = true
		}
		return false
	})
	return mentioned
}

// schemaBuilder makes JSON schemas of what Go types are encoded as, as far as the compiler uses them: what fields
// there are, and whether a value is a string, a number, a boolean, a list or an object. What is below a field that a
// module does not name is left open: KubeVirt's whole schema takes ten times as long to compile as the module.
type schemaBuilder struct {
	mentioned   map[string]bool
	definitions map[string]any
}

func (b *schemaBuilder) property(name string, t reflect.Type) map[string]any {
	if !b.mentioned[name] {
		return map[string]any{}
	}
	return b.schema(t)
}

func (b *schemaBuilder) schema(t reflect.Type) map[string]any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case encodedAsText(t):
		return map[string]any{"type": "string"}
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()):
		return map[string]any{}
	}
	switch t.Kind() {
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string"} // in base64
		}
		return map[string]any{"type": "array", "items": b.schema(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object"}
	case reflect.Struct:
		return b.structure(t)
	}
	return map[string]any{}
}

// encodedAsText reports whether a type writes itself as a string.
func encodedAsText(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[resource.Quantity](), reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.Duration]():
		return true
	}
	return false
}

// structure refers to a definition, of which there is one for each struct: types refer to themselves.
func (b *schemaBuilder) structure(t reflect.Type) map[string]any {
	name := strings.NewReplacer("/", "_", ".", "_").Replace(t.PkgPath() + "." + t.Name())
	reference := map[string]any{"$ref": "#/definitions/" + name}
	if _, known := b.definitions[name]; known {
		return reference
	}
	b.definitions[name] = nil
	properties := map[string]any{}
	b.addFields(t, properties)
	definition := map[string]any{"type": "object"}
	if len(properties) > 0 {
		definition["properties"], definition["additionalProperties"] = properties, false
	}
	b.definitions[name] = definition
	return reference
}

func (b *schemaBuilder) addFields(t reflect.Type, properties map[string]any) {
	fields := fieldpath.FieldsOf(t)
	for i := range fields {
		f := &fields[i]
		if t != reflect.TypeFor[metav1.ObjectMeta]() || f.Name != "managedFields" { // left out of every document
			properties[f.Name] = b.property(f.Name, f.Type)
		}
	}
}
