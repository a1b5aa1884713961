package convert

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// regoConstant is a value that follows from the parameters. It is not defined if a parameter is missing.
type regoConstant struct {
	value   any
	defined bool
}

// never reports whether a body is never true with the parameters: it reads one that is missing, or an element of an empty one. A template
// about images has no effect if its parameters name no image.
func (p *regoPods) never(body ast.Body) bool {
	locals := map[ast.Var]regoConstant{}
	for _, e := range body {
		if e.Negated || len(e.With) > 0 {
			continue
		}
		switch terms := e.Terms.(type) {
		case *ast.Term:
			if p.undefined(terms, locals) {
				return true
			}
		case *ast.SomeDecl:
			for _, symbol := range terms.Symbols {
				if call, ok := symbol.Value.(ast.Call); ok && p.noElement(call[len(call)-1], locals) {
					return true
				}
			}
		case []*ast.Term: // a function of what is not defined is not defined
			if slices.ContainsFunc(terms[1:], func(term *ast.Term) bool { return p.undefined(term, locals) }) {
				return true
			}
			if !e.IsAssignment() {
				continue
			}
			if name, ok := e.Operand(0).Value.(ast.Var); ok {
				if is, known := p.constant(e.Operand(1), locals); known {
					locals[name] = is
				}
			}
		}
	}
	return false
}

// undefined reports whether a term has no value: it reads a parameter that is missing, or an element of an empty one.
func (p *regoPods) undefined(term *ast.Term, locals map[ast.Var]regoConstant) bool {
	if is, known := p.constant(term, locals); known {
		return !is.defined
	}
	ref, ok := term.Value.(ast.Ref)
	if !ok {
		return false
	}
	for n := 1; n < len(ref); n++ {
		if _, literal := ref[n].Value.(ast.String); !literal {
			return p.noElement(ast.NewTerm(ref[:n]), locals)
		}
	}
	return false
}

// noElement reports whether a term is a constant without elements.
func (p *regoPods) noElement(term *ast.Term, locals map[ast.Var]regoConstant) bool {
	if ref, ok := term.Value.(ast.Ref); ok && len(ref) == 1 {
		term = ref[0]
	}
	is, known := p.constant(term, locals)
	switch v := is.value.(type) {
	case []any:
		return known && len(v) == 0
	case map[string]any:
		return known && len(v) == 0
	}
	return known && !is.defined
}

// constant returns the value of a term that reads parameters only. It is false if it reads something else.
func (p *regoPods) constant(term *ast.Term, locals map[ast.Var]regoConstant) (regoConstant, bool) {
	switch v := term.Value.(type) {
	case ast.Var:
		is, known := locals[v]
		return is, known
	case ast.Ref:
		return p.constantField(v, locals)
	case ast.Call:
		return p.constantGet(v, locals)
	case ast.String, ast.Number, ast.Boolean, ast.Null, *ast.Array, ast.Object:
		if !term.IsGround() || readsAnything(term) {
			return regoConstant{}, false
		}
		value, err := ast.JSON(term.Value)
		return regoConstant{value, true}, err == nil
	}
	return regoConstant{}, false
}

// readsAnything reports whether a term has references or calls.
func readsAnything(term *ast.Term) (reads bool) {
	ast.WalkTerms(term, func(one *ast.Term) bool {
		switch one.Value.(type) {
		case ast.Ref, ast.Call, *ast.ArrayComprehension, *ast.ObjectComprehension, *ast.SetComprehension:
			reads = true
		}
		return reads
	})
	return reads
}

// constantField returns the parameter of a reference, or a field of a constant.
func (p *regoPods) constantField(ref ast.Ref, locals map[ast.Var]regoConstant) (regoConstant, bool) {
	var of regoConstant
	rest := ref[1:]
	switch name, _ := ref[0].Value.(ast.Var); {
	case name == "input" && len(ref) > 1 && ref[1].Equal(ast.StringTerm("parameters")):
		of, rest = regoConstant{p.parameters(), true}, ref[2:]
	default:
		var known bool
		if of, known = locals[name]; !known {
			return regoConstant{}, false
		}
	}
	for _, step := range rest {
		name, ok := step.Value.(ast.String)
		if !ok {
			return regoConstant{}, false
		}
		fields, _ := of.value.(map[string]any)
		value, found := fields[string(name)]
		if of = (regoConstant{value, found && of.defined}); !found {
			return of, true
		}
	}
	return of, true
}

// parameters are those of the constraint.
func (p *regoPods) parameters() map[string]any {
	if p.given == nil {
		return map[string]any{}
	}
	return p.given
}

// constantGet returns the value of object.get of a constant.
func (p *regoPods) constantGet(call ast.Call, locals map[ast.Var]regoConstant) (regoConstant, bool) {
	if len(call) != 4 || call[0].String() != ast.ObjectGet.Name {
		return regoConstant{}, false
	}
	of, known := p.constant(call[1], locals)
	if !known || !of.defined {
		return of, known
	}
	fields, ok := of.value.(map[string]any)
	for _, key := range keysIn(call[2]) {
		name, isName := key.Value.(ast.String)
		if !isName || !ok {
			return regoConstant{}, false
		}
		value, found := fields[string(name)]
		if !found {
			return p.constant(call[3], locals)
		}
		of = regoConstant{value, true}
		fields, ok = value.(map[string]any)
	}
	return of, true
}
