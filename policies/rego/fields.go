package rego

import "github.com/open-policy-agent/opa/v1/ast"

// Fields are the fields of documents that modules can read. Other fields need no conversion: no module sees that they are missing.
type Fields struct {
	// all reports that every field can be read, and of has the fields of those that can be read in part.
	all bool
	of  map[string]*Fields
}

// FieldsOf returns the fields that one of some modules can read.
func FieldsOf(modules ...*Module) *Fields {
	union := &Fields{}
	for _, m := range modules {
		union.merge(m.fields)
	}
	return union
}

// fieldsOfInput returns the fields of input that a module can read: of each reference, everything below its longest constant part.
func fieldsOfInput(module *ast.Module) *Fields {
	read := &Fields{}
	ast.WalkRefs(module, func(ref ast.Ref) bool {
		if ref[0].Equal(ast.InputRootDocument) {
			read.add(ref[1:])
		}
		return false
	})
	return read
}

func (f *Fields) add(path ast.Ref) {
	if len(path) > 0 {
		if name, constant := path[0].Value.(ast.String); constant {
			f.field(string(name)).add(path[1:])
			return
		}
	}
	f.all = true
}

// field returns a field that can be read.
func (f *Fields) field(name string) *Fields {
	if f.of == nil {
		f.of = map[string]*Fields{}
	}
	if f.of[name] == nil {
		f.of[name] = &Fields{}
	}
	return f.of[name]
}

func (f *Fields) merge(other *Fields) {
	f.all = f.all || other.all
	for name, below := range other.of {
		f.field(name).merge(below)
	}
}

// below returns the fields of a field: nil if all of them can be read. read is false if none can be read.
func (f *Fields) below(name string) (below *Fields, read bool) {
	if f == nil || f.all {
		return nil, true
	}
	below, read = f.of[name]
	return below, read
}
