package rego

import (
	"github.com/open-policy-agent/opa/v1/ast"
)

// holdsNone reports whether the evaluator would look at no rule of deny and warn: it passes by those whose index says that the
// input lacks what they need. The query is then not made, but its steps are charged.
func (m *Module) holdsNone(in *ast.Term, b *budget) (bool, error) {
	for _, index := range m.indexes {
		if index == nil {
			return false, nil
		}
		found, err := index.Lookup(inputOnly{in})
		if err != nil {
			return false, err
		}
		candidates := len(found.Rules) > 0 || found.Default != nil
		ast.IndexResultPool.Put(found)
		if candidates {
			return false, nil
		}
	}
	for range len(m.query) + 1 { // one for each expression, and one for the end
		if b.Cancelled() {
			return false, nil
		}
	}
	return true, nil
}

// indexesOf returns the indexes of the sets that a query asks for.
func indexesOf(query ast.Body, compiler *ast.Compiler) []ast.RuleIndex {
	indexes := make([]ast.RuleIndex, 0, len(query))
	for _, expr := range query {
		path, _ := expr.Operand(1).Value.(ast.Ref)
		indexes = append(indexes, compiler.RuleIndex(path))
	}
	return indexes
}

// inputOnly resolves fields of input. What else an index asks for is unknown, so that it keeps the rules that depend on it.
type inputOnly struct{ input *ast.Term }

// Resolve implements ast.ValueResolver.
func (r inputOnly) Resolve(ref ast.Ref) (ast.Value, error) {
	if !ref[0].Equal(ast.InputRootDocument) {
		return nil, ast.UnknownValueErr{}
	}
	if value, err := r.input.Value.Find(ref[1:]); err == nil {
		return value, nil
	}
	return nil, nil // a field that there is none of
}
