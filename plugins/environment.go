package plugins

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	v1 "kubevirt.io/api/core/v1"
)

// container is the namespace in which names of types are looked up: Domain is libvirtxml.Domain.
const container = "libvirtxml"

// The types of the variables and of a hook's result.
const (
	domainType   = "libvirtxml.Domain"
	instanceType = "v1.VirtualMachineInstance"
)

// The variables of expressions.
const (
	variableInstance = "vmi"
	variableDomain   = "domainSpec"
)

// costLimit is KubeVirt's limit of each evaluation.
const costLimit = 10_000_000

// The versions of the libraries that KubeVirt 1.9 has with its version of cel-go.
const (
	stringsVersion = 4
	mathVersion    = 2
	listsVersion   = 3
)

// domainEnvironment compiles conditions of Plugins and of domain hooks, and expressions of hooks, as virt-launcher does.
var domainEnvironment = sync.OnceValue(func() *cel.Env {
	base := newEnvironment(ext.NativeTypes(reflect.TypeFor[*v1.VirtualMachineInstance]()), cel.Container(container))
	env, err := base.Extend(
		cel.CustomTypeProvider(&provider{Provider: base.CELTypeProvider(), types: schema()}),
		cel.Variable(variableInstance, cel.ObjectType(instanceType)),
		cel.Variable(variableDomain, cel.ObjectType(domainType)),
	)
	if err != nil {
		panic(fmt.Sprintf("the environment of domain hooks: %v", err)) // its parts are constants
	}
	return env
})

// nodeEnvironment compiles conditions of Plugins and of node hooks, as virt-handler does.
var nodeEnvironment = sync.OnceValue(func() *cel.Env {
	return newEnvironment(
		ext.NativeTypes(reflect.TypeFor[*v1.VirtualMachineInstance](), ext.ParseStructTag("json")),
		ext.Strings(ext.StringsVersion(stringsVersion)),
		ext.Math(ext.MathVersion(mathVersion)),
		ext.Lists(ext.ListsVersion(listsVersion)),
		cel.Variable(variableInstance, cel.ObjectType(instanceType)),
		cel.CrossTypeNumericComparisons(true),
	)
})

func newEnvironment(options ...cel.EnvOption) *cel.Env {
	env, err := cel.NewEnv(options...)
	if err != nil {
		panic(fmt.Sprintf("an environment of plugins: %v", err)) // its parts are constants
	}
	return env
}

// provider has the types of libvirtxml besides those of the instance. What an expression makes is sparse.
type provider struct {
	types.Provider
	types map[string]*structType
}

func (p *provider) find(name string) (*structType, bool) {
	if name == xmlName {
		return p.types[xmlName], true
	}
	if len(name) <= len(container) || name[:len(container)+1] != container+"." {
		return nil, false
	}
	t, found := p.types[name[len(container)+1:]]
	return t, found
}

// FindIdent implements types.Provider.
func (p *provider) FindIdent(name string) (ref.Val, bool) {
	if _, found := p.find(name); found {
		return types.NewObjectType(name), true
	}
	return p.Provider.FindIdent(name)
}

// FindStructType implements types.Provider.
func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if _, found := p.find(name); found {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldNames implements types.Provider.
func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	t, found := p.find(name)
	if !found {
		return p.Provider.FindStructFieldNames(name)
	}
	var names []string
	for _, f := range t.fields {
		names = append(names, f.name)
	}
	return names, true
}

// FindStructFieldType implements types.Provider.
func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if t, found := p.find(name); found {
		f, exists := t.byName[field]
		if !exists {
			return nil, false
		}
		return &types.FieldType{Type: typeOf(f), IsSet: isSet(field, nil), GetFrom: getFrom(field, nil)}, true
	}
	native, found := p.Provider.FindStructFieldType(name, field)
	if !found {
		return nil, false
	}
	return &types.FieldType{Type: native.Type, IsSet: isSet(field, native), GetFrom: getFrom(field, native)}, true
}

// isSet tests a field of an object, or of a value of another kind.
func isSet(field string, native *types.FieldType) func(any) bool {
	return func(value any) bool {
		if o, is := value.(*object); is {
			_, set := o.fields[field]
			return set
		}
		return native != nil && native.IsSet(value)
	}
}

func getFrom(field string, native *types.FieldType) func(any) (any, error) {
	return func(value any) (any, error) {
		if o, is := value.(*object); is {
			return o.field(field)
		}
		if native == nil {
			return nil, fmt.Errorf("no such field: %s", field)
		}
		return native.GetFrom(value)
	}
}

func typeOf(f *fieldType) *types.Type {
	t := types.StringType
	switch f.kind {
	case kindInt:
		t = types.IntType
	case kindUint:
		t = types.UintType
	case kindStruct:
		t = types.NewObjectType(qualifiedName(f.structName))
	}
	if f.list {
		return types.NewListType(t)
	}
	return t
}

// NewValue implements types.Provider.
func (p *provider) NewValue(name string, fields map[string]ref.Val) ref.Val {
	o := &object{typeName: name, sparse: true, fields: fields}
	if t, found := p.find(name); found {
		o.typ = t
	}
	return o
}
