package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// boundIndices keeps the indices of rules from reading large values. OPA looks for the rules of a function that may hold at each call, and
// reads all elements of a list for a rule that wants one of them, without a step. Where a value is large, all rules may hold, and the
// expression in the body is charged.
func boundIndices(compiler *ast.Compiler) {
	for _, module := range compiler.Modules {
		for _, rule := range module.Rules {
			node := compiler.RuleTree.Find(rule.Ref().GroundPrefix())
			if node == nil || node.Index == nil || len(rule.Head.Args) == 0 && rule.Ref().IsGround() && rule.Head.RuleKind() == ast.SingleValue {
				continue // it is evaluated once
			}
			if _, done := node.Index.(boundedIndex); !done && slices.ContainsFunc(node.Values, readsElements) {
				node.Index = boundedIndex{node.Index}
			}
		}
	}
}

// readsElements reports whether an index may read more of a value than its hash for a rule.
func readsElements(rule *ast.Rule) bool {
	for ; rule != nil; rule = rule.Else {
		reads := false
		ast.WalkExprs(rule.Body, func(expr *ast.Expr) bool {
			if terms, ok := expr.Terms.([]*ast.Term); ok && !expr.IsEquality() {
				name, _ := builtinName(terms[0].Value.(ast.Ref))
				reads = reads || slices.Contains([]string{"internal.member_2", "internal.member_3", "glob.match"}, name)
			}
			return reads
		})
		ast.WalkRefs(rule.Body, func(ref ast.Ref) bool {
			reads = reads || !ref.IsGround()
			return reads
		})
		if reads {
			return true
		}
	}
	return false
}

// boundedIndex is an index that leaves out large values.
type boundedIndex struct{ ast.RuleIndex }

// Lookup implements ast.RuleIndex.
func (i boundedIndex) Lookup(values ast.ValueResolver) (*ast.IndexResult, error) {
	return i.RuleIndex.Lookup(boundedValues{values})
}

type boundedValues struct{ ast.ValueResolver }

// What an index reads of a value at most.
const (
	indexedElements = 64
	indexedText     = 1 << 10
)

// Resolve implements ast.ValueResolver.
func (v boundedValues) Resolve(ref ast.Ref) (ast.Value, error) {
	value, err := v.ValueResolver.Resolve(ref)
	switch large := value.(type) {
	case ast.String:
		if len(large) > indexedText {
			return nil, ast.UnknownValueErr{}
		}
	case interface{ Len() int }:
		if large.Len() > indexedElements {
			return nil, ast.UnknownValueErr{}
		}
	}
	return value, err
}
