package rego

import (
	"github.com/open-policy-agent/opa/v1/ast"
)

// ExpressionPart is a part of an expression that has a value of its own.
type ExpressionPart struct {
	Text string
	// Depth counts the parts that this one is in.
	Depth int
}

// Parts returns the calls and the fields of input in an expression, outer ones first; nil if it cannot be parsed.
func Parts(expression string) []ExpressionPart {
	body, err := ast.ParseBodyWithOpts(expression, ast.ParserOptions{RegoVersion: ast.RegoV1, Capabilities: capabilities()})
	if err != nil {
		return nil
	}
	p := &parts{whole: expression, seen: map[string]bool{}}
	for _, e := range body {
		if e.IsCall() {
			p.terms(e.Operands(), 0)
		} else if term, ok := e.Terms.(*ast.Term); ok {
			p.below(term, 0)
		}
	}
	return p.found
}

type parts struct {
	whole string
	seen  map[string]bool
	found []ExpressionPart
}

func (p *parts) terms(all []*ast.Term, depth int) {
	for _, t := range all {
		p.term(t, depth)
	}
}

// term adds a term and what is in it.
func (p *parts) term(t *ast.Term, depth int) {
	switch v := t.Value.(type) {
	case ast.Call:
		p.add(t, depth)
		p.terms(v[1:], depth+1)
	case ast.Ref:
		if len(v) > 1 && v[0].Equal(ast.InputRootDocument) {
			p.add(t, depth)
		}
	case *ast.Array:
		v.Foreach(func(one *ast.Term) { p.term(one, depth) })
	}
}

// below adds what is in a term that is the whole expression.
func (p *parts) below(t *ast.Term, depth int) {
	if call, ok := t.Value.(ast.Call); ok {
		p.terms(call[1:], depth)
	}
}

func (p *parts) add(t *ast.Term, depth int) {
	if t.Location == nil {
		return
	}
	if text := t.String(); text != p.whole && !p.seen[text] {
		p.seen[text] = true
		p.found = append(p.found, ExpressionPart{text, depth})
	}
}
