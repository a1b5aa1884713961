package fields

import (
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sschema "k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/schemas"
)

// Catalogue describes the fields of kinds. It is safe for concurrent use.
type Catalogue struct{ embedded *schemas.Embedded }

// New returns the fields of a minor version of KubeVirt.
func New(minor string) *Catalogue { return &Catalogue{embedded: schemas.Of(minor)} }

// Field is a field of a kind.
type Field struct {
	*schemas.Field

	// Doc is its documentation; empty without one.
	Doc string
}

// Find returns a field of a kind by its path. It returns false for an unknown one.
func (c *Catalogue) Find(kind k8sschema.GroupVersionKind, path string) (*Field, bool) {
	steps := fieldpath.Split(path)
	if kind.Kind == apikinds.VirtualMachineTemplate && len(steps) >= 2 && steps[0] == "spec" && steps[1] == "virtualMachine" {
		kind, steps = v1.VirtualMachineGroupVersionKind, steps[2:]
	}
	t := typeOf(kind)
	if i := slices.Index(steps, "metadata"); i >= 0 && i < len(steps)-1 || slices.Equal(steps, []string{"metadata"}) {
		return ofType(reflect.TypeFor[metav1.ObjectMeta](), steps[i+1:])
	}
	schema, err := c.embedded.For(kind)
	if err != nil || schema == nil {
		return ofType(t, steps)
	}
	found, ok := schema.Field(steps)
	if !ok {
		return nil, false
	}
	f := &Field{Field: found, Doc: found.Description}
	if f.Doc == "" && t != nil {
		f.Doc = docOf(t, steps)
	}
	return f, true
}

// OfVariable returns a field of a variable of CEL. It returns false for a variable whose fields are not known.
func OfVariable(name string, steps []string) (*Field, bool) {
	of := map[string]reflect.Type{
		"vm": reflect.TypeFor[v1.VirtualMachineInstance](), "object": reflect.TypeFor[v1.VirtualMachine](), "oldObject": reflect.TypeFor[v1.VirtualMachine](),
	}[name]
	if of != nil {
		return ofType(of, steps)
	}
	typeName, names, ok := cel.Below(name, steps)
	if !ok {
		return nil, false
	}
	return &Field{Field: &schemas.Field{Type: typeName, List: typeName == "list", Fields: names}}, true
}

// typeOf returns the Go type of a kind of KubeVirt, or that of suites; nil for others.
func typeOf(kind k8sschema.GroupVersionKind) reflect.Type {
	switch kind.Kind {
	case apikinds.VirtualMachine:
		return reflect.TypeFor[v1.VirtualMachine]()
	case apikinds.VirtualMachineInstance:
		return reflect.TypeFor[v1.VirtualMachineInstance]()
	case apikinds.VirtualMachineInstanceReplicaSet:
		return reflect.TypeFor[v1.VirtualMachineInstanceReplicaSet]()
	case apikinds.VirtualMachinePool:
		return reflect.TypeFor[poolv1beta1.VirtualMachinePool]()
	case policytest.Kind:
		return reflect.TypeFor[policytest.Spec]()
	}
	if of := references.TypeOf(kind.GroupKind()); of != nil {
		return reflect.TypeOf(of)
	}
	return nil
}

// ofType returns a field of a Go type.
func ofType(t reflect.Type, steps []string) (*Field, bool) {
	doc := ""
	if t != nil {
		doc = docOf(t, steps)
	}
	for _, step := range steps {
		if t == nil {
			return nil, false
		}
		t = fieldpath.Below(t, step)
	}
	if t == nil {
		return nil, false
	}
	f := &Field{Field: &schemas.Field{Type: "object"}, Doc: doc}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch kind := t.Kind(); {
	case kind == reflect.Slice:
		f.Type, f.List = "list", true
		if !fieldpath.Opaque(t.Elem()) {
			f.Fields = fieldpath.NamesOf(t.Elem())
		}
	case fieldpath.Opaque(t) || kind == reflect.String:
		f.Type = "string"
	case kind == reflect.Struct:
		f.Fields = fieldpath.NamesOf(t)
	case kind == reflect.Map:
		f.Type = "map"
	case kind == reflect.Bool:
		f.Type, f.Enum = "boolean", []string{"true", "false"}
	case kind != reflect.Interface:
		f.Type = "integer"
	}
	return f, true
}

// documented are the types whose documentation is generated from their comments.
type documented interface{ SwaggerDoc() map[string]string }

// docOf returns the documentation of a field of a Go type.
func docOf(t reflect.Type, steps []string) string {
	for i, step := range steps {
		if i == len(steps)-1 {
			if doc := docIn(t, step); doc != "" {
				return doc
			}
		}
		if t = fieldpath.Below(t, step); t == nil {
			return ""
		}
	}
	return plain(docsOf(t)[""])
}

func docIn(t reflect.Type, name string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if doc := docsOf(t)[name]; doc != "" {
		return plain(doc)
	}
	if t.Kind() != reflect.Struct {
		return ""
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous {
			if doc := docIn(f.Type, name); doc != "" {
				return doc
			}
		}
	}
	return ""
}

func docsOf(t reflect.Type) map[string]string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if d, ok := reflect.TypeAssert[documented](reflect.New(t)); ok {
		return d.SwaggerDoc()
	}
	return nil
}

// plain returns documentation without the marks of generators.
func plain(doc string) string {
	lines := slices.DeleteFunc(strings.Split(doc, "\n"), func(l string) bool { return strings.HasPrefix(strings.TrimSpace(l), "+") })
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
