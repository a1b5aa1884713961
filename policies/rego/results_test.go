package rego

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// TestResults holds that results answers as OPA's own cache, for paths of all kinds, and after it was used before.
func TestResults(t *testing.T) {
	terms := []*ast.Term{ast.StringTerm("a"), ast.StringTerm("b"), ast.VarTerm("a"), ast.IntNumberTerm(1), ast.ArrayTerm(ast.StringTerm("a")), ast.BooleanTerm(true)}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test that can be repeated
		kept, reference := newResults(), topdown.NewVirtualCache()
		depth := 1
		path := func() ast.Ref {
			made := ast.Ref{ast.VarTerm("data")}
			for range 1 + random.IntN(shortPath+1) {
				made = append(made, terms[random.IntN(2+random.IntN(len(terms)-1))])
			}
			return made
		}
		for step := range 200 {
			switch at := path(); random.IntN(8) {
			case 0:
				kept.Push()
				reference.Push()
				depth++
			case 1:
				if depth > 1 {
					kept.Pop()
					reference.Pop()
					depth--
				}
			case 2, 3, 4:
				if known, undefined := reference.Get(at); known != nil || undefined { // the evaluator puts no result twice
					continue
				}
				var value *ast.Term
				if random.IntN(3) > 0 {
					value = ast.StringTerm(fmt.Sprint(step))
				}
				kept.Put(at, value)
				reference.Put(at, value)
				at[len(at)-1] = ast.StringTerm("changed") // as the evaluator does with its paths
			default:
				value, undefined := kept.Get(at)
				wanted, wantUndefined := reference.Get(at)
				if value != wanted || undefined != wantUndefined {
					t.Fatalf("seed %d, step %d, %v: %v, %v; want %v, %v", seed, step, at, value, undefined, wanted, wantUndefined)
				}
			}
			if got, want := sortedPaths(kept.Keys()), sortedPaths(reference.Keys()); !slices.Equal(got, want) {
				t.Fatalf("seed %d, step %d: %v, want %v", seed, step, got, want)
			}
		}
		kept.release()
	}
}

func sortedPaths(paths []ast.Ref) []string {
	made := make([]string, 0, len(paths))
	for _, path := range paths {
		made = append(made, path.String())
	}
	slices.Sort(made)
	return made
}
