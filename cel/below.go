package cel

import (
	"maps"
	"slices"
	"strconv"
	"sync"

	apicel "k8s.io/apiserver/pkg/cel"
)

// declared are the types of the variables that mean the same in every scope, by name.
var declared = sync.OnceValues(func() (map[string]*apicel.DeclType, error) {
	all, err := everywhere(&declarer{named: map[string]*apicel.DeclType{}})
	if err != nil {
		return nil, err
	}
	types := make(map[string]*apicel.DeclType, len(all))
	for _, v := range all {
		types[v.name] = v.declared
	}
	return types, nil
})

// Below returns what can be read below a variable: the name of a type, and the fields of an object, sorted. A step is the name of
// a field, the index of a list, or a key of a map. It returns false for a variable whose type differs between policies, and for
// steps that lead to nothing.
func Below(variable string, steps []string) (typeName string, fields []string, ok bool) {
	types, err := declared()
	if err != nil {
		return "", nil, false
	}
	t := types[variable]
	for _, step := range steps {
		if t = below(t, step); t == nil {
			return "", nil, false
		}
	}
	switch {
	case t == nil:
		return "", nil, false
	case t.IsList():
		return "list", nil, true
	case t.IsMap():
		return "map", nil, true
	case t.IsObject():
		return "object", slices.Sorted(maps.Keys(t.Fields)), true
	}
	return t.TypeName(), nil, true
}

// below returns the type of a field or an element; nil if there is none.
func below(t *apicel.DeclType, step string) *apicel.DeclType {
	switch {
	case t == nil:
		return nil
	case t.IsObject():
		if f, ok := t.Fields[step]; ok {
			return f.Type
		}
		return nil
	case t.IsList():
		if _, err := strconv.ParseUint(step, 10, 32); err != nil {
			return nil
		}
		return t.ElemType
	case t.IsMap():
		return t.ElemType
	}
	return nil
}
