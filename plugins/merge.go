package plugins

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// merge sets the fields that a sparse object names, in the object of the domain: objects are merged, lists are replaced, and
// null clears.
func merge(into, sparse *object) error {
	if into.raw != nil || into.typ.unsupported != "" {
		return &UnpreviewableError{Name: into.typeName, Reason: into.typ.unsupported}
	}
	for _, name := range sortedKeys(sparse.fields) {
		f, exists := into.typ.byName[name]
		if !exists {
			return fmt.Errorf("%s has no field %s", into.typeName, name)
		}
		if reason := f.notPreviewed(); reason != "" {
			return &UnpreviewableError{Name: into.typeName + "." + name, Reason: reason}
		}
		if err := mergeField(into, f, sparse.fields[name]); err != nil {
			return err
		}
	}
	return nil
}

func sortedKeys(fields map[string]ref.Val) []string {
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func mergeField(into *object, f *fieldType, v ref.Val) error {
	o, isObject := v.(*object)
	switch {
	case v == nil || v == types.NullValue:
		delete(into.fields, f.name)
		return nil
	case isObject && o.sparse && (f.kind != kindStruct || f.list):
		return fmt.Errorf("%s.%s takes no %s: virt-launcher would panic", into.typeName, f.name, o.typeName)
	case isObject && o.sparse:
		target, is := into.fields[f.name].(*object)
		if !is {
			target = newObject(structOf(f))
		}
		if err := merge(target, o); err != nil {
			return err
		}
		into.set(f, target)
		return nil
	case f.list:
		return replaceList(into, f, v)
	}
	converted, err := convert(f, v)
	if err != nil {
		return fmt.Errorf("%s.%s: %w", into.typeName, f.name, err)
	}
	into.set(f, converted)
	return nil
}

func replaceList(into *object, f *fieldType, v ref.Val) error {
	iterable, is := v.(traits.Iterable)
	if !is {
		return fmt.Errorf("%s.%s takes a list, and not a %s", into.typeName, f.name, v.Type().TypeName())
	}
	var all []ref.Val
	for it := iterable.Iterator(); it.HasNext() == types.True; {
		item := it.Next()
		if o, isObject := item.(*object); isObject && o.sparse && f.kind == kindStruct {
			made := newObject(structOf(f))
			if err := merge(made, o); err != nil {
				return err
			}
			item = made
		}
		converted, err := convert(f, item)
		if err != nil {
			return fmt.Errorf("%s.%s[%d]: %w", into.typeName, f.name, len(all), err)
		}
		all = append(all, converted)
	}
	into.fields[f.name] = listOf(all)
	return nil
}

// convert checks that a value has the type of a field. The compiler does, except for values without a type.
func convert(f *fieldType, v ref.Val) (ref.Val, error) {
	ok := false
	switch value := v.(type) {
	case types.String:
		ok = f.kind == kindString
	case types.Int:
		ok = f.kind == kindInt
	case types.Uint:
		ok = f.kind == kindUint
	case *object:
		ok = f.kind == kindStruct && value.typ == structOf(f)
	}
	if !ok {
		return nil, fmt.Errorf("a value of the type %s cannot be converted", v.Type().TypeName())
	}
	return v, nil
}

// The list of devices has its first IOMMU in a field of its own too.
const (
	deviceListType = "DomainDeviceList"
	iommuList      = "IOMMUs"
	oneIOMMU       = "IOMMU"
)

// alignIOMMU does what libvirtxml does before it writes a domain: the field IOMMU must be the first of the list, or fills an
// empty one. An error says that no domain can be written any more.
func alignIOMMU(o *object) error {
	devices, is := o.fields["Devices"].(*object)
	if !is {
		return nil
	}
	one, is := devices.fields[oneIOMMU].(*object)
	if !is {
		return nil
	}
	list := items(devices.get(devices.typ.byName[iommuList]))
	if len(list) == 0 {
		devices.fields[iommuList] = listOf([]ref.Val{one})
		return nil
	}
	if first, is := list[0].(*object); !is || !first.equal(one) {
		return errors.New("libvirtxml cannot write the domain: a hook can replace the list IOMMUs only if its first item stays as it is")
	}
	return nil
}
