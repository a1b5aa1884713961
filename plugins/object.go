package plugins

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/virtward/virtward/domain"
)

// object is a struct in an expression: one of the domain, or one that the expression makes. The latter is sparse: it has only
// the fields that are named, and KubeVirt cannot compare or read the others.
type object struct {
	// typeName is the qualified name, and typ the type; nil for types that are not of libvirtxml.
	typeName string
	typ      *structType
	sparse   bool
	// fields are the values that are set. Values that are zero, and not pointers, are not set, unless the object is sparse.
	fields map[string]ref.Val
	// raw is the element of a type that cannot be previewed, which is left as it is.
	raw *domain.Element
}

func newObject(t *structType) *object {
	return &object{typeName: qualifiedName(t.name), typ: t, fields: map[string]ref.Val{}}
}

// qualifiedName is the name of a type in expressions.
func qualifiedName(name string) string {
	if name == xmlName {
		return name
	}
	return container + "." + name
}

// get returns the value of a field, as libvirtxml's types have it: a struct that is not there is empty.
func (o *object) get(f *fieldType) ref.Val {
	if v, set := o.fields[f.name]; set {
		return v
	}
	return zero(f)
}

// zero is the value of a field that is not set.
func zero(f *fieldType) ref.Val {
	switch {
	case f.list:
		return listOf(nil)
	case f.kind == kindString:
		return types.String("")
	case f.kind == kindInt:
		return types.Int(0)
	case f.kind == kindUint:
		return types.Uint(0)
	}
	return newObject(structOf(f))
}

// set sets a field. A zero value of a field that is not a pointer is the absence of a value.
func (o *object) set(f *fieldType, v ref.Val) {
	if !f.pointer && !f.list && isZero(v) {
		delete(o.fields, f.name)
		return
	}
	o.fields[f.name] = v
}

func isZero(v ref.Val) bool {
	switch v := v.(type) {
	case types.String:
		return v == ""
	case types.Int:
		return v == 0
	case types.Uint:
		return v == 0
	case *object:
		return len(v.fields) == 0 && v.raw == nil
	}
	return false
}

func listOf(items []ref.Val) traits.Lister {
	return types.NewRefValList(types.DefaultTypeAdapter, items)
}

// items returns the items of a list.
func items(v ref.Val) []ref.Val {
	iterable, is := v.(traits.Iterable)
	if !is {
		return nil
	}
	var all []ref.Val
	for it := iterable.Iterator(); it.HasNext() == types.True; {
		all = append(all, it.Next())
	}
	return all
}

// ConvertToNative implements ref.Val. Nothing converts objects.
func (o *object) ConvertToNative(reflect.Type) (any, error) {
	return nil, fmt.Errorf("a value of the type %s cannot be converted", o.typeName)
}

// ConvertToType implements ref.Val.
func (o *object) ConvertToType(t ref.Type) ref.Val {
	switch {
	case t.TypeName() == o.typeName:
		return o
	case t == types.TypeType:
		return types.NewObjectType(o.typeName)
	}
	return types.NewErr("type conversion error from %s to %s", o.typeName, t.TypeName())
}

// Equal implements ref.Val.
func (o *object) Equal(other ref.Val) ref.Val {
	if o.sparse {
		return types.NewErr("a %s that an expression makes cannot be compared", o.typeName)
	}
	p, is := other.(*object)
	return types.Bool(is && !p.sparse && o.equal(p))
}

func (o *object) equal(p *object) bool {
	if o.typeName != p.typeName || len(o.fields) != len(p.fields) || o.raw != p.raw {
		return false
	}
	for name, v := range o.fields {
		w, set := p.fields[name]
		if !set || !equalValues(v, w) {
			return false
		}
	}
	return true
}

func equalValues(v, w ref.Val) bool {
	switch v := v.(type) {
	case *object:
		x, is := w.(*object)
		return is && v.equal(x)
	case traits.Lister:
		x, is := w.(traits.Lister)
		if !is {
			return false
		}
		a, b := items(v), items(x)
		if len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equalValues(a[i], b[i]) {
				return false
			}
		}
		return true
	}
	return v.Equal(w) == types.True
}

// objectType is the type of an object.
type objectType string

// HasTrait implements ref.Type.
func (objectType) HasTrait(trait int) bool {
	return trait&(traits.FieldTesterType|traits.IndexerType) == trait
}

// TypeName implements ref.Type.
func (t objectType) TypeName() string { return string(t) }

// Type implements ref.Val.
func (o *object) Type() ref.Type { return objectType(o.typeName) }

// Value implements ref.Val.
func (o *object) Value() any { return o }

// Get implements traits.Indexer, for values without a type.
func (o *object) Get(index ref.Val) ref.Val {
	name, is := index.(types.String)
	if !is {
		return types.MaybeNoSuchOverloadErr(index)
	}
	v, err := o.field(string(name))
	if err != nil {
		return types.WrapErr(err)
	}
	return v
}

// IsSet implements traits.FieldTester, for values without a type.
func (o *object) IsSet(index ref.Val) ref.Val {
	name, is := index.(types.String)
	if !is {
		return types.MaybeNoSuchOverloadErr(index)
	}
	_, set := o.fields[string(name)]
	return types.Bool(set)
}

// field returns the value of a field by its name.
func (o *object) field(name string) (ref.Val, error) {
	if o.sparse {
		if v, set := o.fields[name]; set {
			return v, nil
		}
		return nil, fmt.Errorf("the expression reads the field %s of a %s that it made without it", name, o.typeName)
	}
	f, exists := o.typ.byName[name]
	if !exists {
		return nil, fmt.Errorf("no such field: %s", name)
	}
	if reason := f.notPreviewed(); reason != "" {
		return nil, &UnpreviewableError{Name: o.typeName + "." + name, Reason: reason}
	}
	return o.get(f), nil
}

// notPreviewed is why a field cannot be previewed; empty if it can.
func (f *fieldType) notPreviewed() string {
	if f.unsupported == "" && f.kind == kindStruct {
		return structOf(f).unsupported
	}
	return f.unsupported
}

// UnpreviewableError is a part of the domain that an expression names, and that cannot be previewed.
type UnpreviewableError struct {
	// Name is the type or the field, such as libvirtxml.Domain.Metadata, and Reason what it is.
	Name, Reason string
}

// Error implements error.
func (e *UnpreviewableError) Error() string {
	return fmt.Sprintf("%s cannot be previewed: %s", e.Name, e.Reason)
}
