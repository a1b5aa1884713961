package rego

import (
	"slices"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// fewResults are so many that a result is looked for among all others, and shortPath is how long their paths may be.
const (
	fewResults = 8
	shortPath  = 6
)

// results keeps what rules result in while a module is evaluated. Most modules have a few rules without arguments, whose
// results are in a list. All others are in OPA's own cache, which is a map for each element of a path.
type results struct {
	frames []frame
	// budget pays for the searches; nil if nothing is counted.
	budget *budget
}

// frame has the results for one state of the documents.
type frame struct {
	few   [fewResults]result
	count int
	// others are the results that are not in few; nil for none.
	others topdown.VirtualCache
}

// result is what the rule at a path results in.
type result struct {
	path      [shortPath]*ast.Term
	length    int
	value     *ast.Term
	undefined bool
}

func (r *result) ref() ast.Ref { return r.path[:r.length] }

var resultsPool = sync.Pool{New: func() any { return &results{frames: make([]frame, 1, 2)} }}

// newResults returns an empty cache, which release returns to the others.
func newResults() *results {
	r, _ := resultsPool.Get().(*results)
	return r
}

func (r *results) release() {
	clear(r.frames)
	r.frames, r.budget = r.frames[:1], nil
	resultsPool.Put(r)
}

func (r *results) top() *frame { return &r.frames[len(r.frames)-1] }

// Push implements topdown.VirtualCache.
func (r *results) Push() { r.frames = append(r.frames, frame{}) }

// Pop implements topdown.VirtualCache.
func (r *results) Pop() {
	*r.top() = frame{}
	r.frames = r.frames[:len(r.frames)-1]
}

// Get implements topdown.VirtualCache. The evaluator calls it before it evaluates a rule, with all values by which it looks for a part of
// the result.
func (r *results) Get(path ast.Ref) (value *ast.Term, undefined bool) {
	if r.budget != nil && !r.budget.findsPath(path) {
		return nil, false
	}
	f := r.top()
	if known := f.find(path); known != nil {
		if known.undefined {
			return nil, true
		}
		return known.value, false
	}
	if f.others == nil {
		return nil, false
	}
	return f.others.Get(path)
}

// Put implements topdown.VirtualCache.
func (r *results) Put(path ast.Ref, value *ast.Term) {
	f := r.top()
	known := f.find(path)
	if known == nil && f.count < fewResults && plain(path) {
		known = &f.few[f.count]
		known.length = copy(known.path[:], path) // the evaluator changes its own
		f.count++
	}
	switch {
	case known == nil:
		if f.others == nil {
			f.others = topdown.NewVirtualCache()
		}
		f.others.Put(path, value)
	case value == nil:
		known.undefined = true
	default:
		known.value = value
	}
}

// Keys implements topdown.VirtualCache.
func (r *results) Keys() []ast.Ref {
	f := r.top()
	var paths []ast.Ref
	for i := range f.few[:f.count] {
		if f.few[i].value != nil {
			paths = append(paths, slices.Clone(f.few[i].ref()))
		}
	}
	if f.others != nil {
		paths = append(paths, f.others.Keys()...)
	}
	return paths
}

// find returns the result at a path, if it is one of the few.
func (f *frame) find(path ast.Ref) *result {
	for i := range f.few[:f.count] {
		if same(f.few[i].ref(), path) {
			return &f.few[i]
		}
	}
	return nil
}

// same compares from the end: the paths of one module begin alike.
func same(known, path ast.Ref) bool {
	if len(known) != len(path) {
		return false
	}
	for i := len(path) - 1; i >= 0; i-- {
		if !known[i].Equal(path[i]) {
			return false
		}
	}
	return true
}

// plain reports whether a path is short, and has names only, which take no time to compare.
func plain(path ast.Ref) bool {
	if len(path) > shortPath {
		return false
	}
	for _, part := range path {
		switch part.Value.(type) {
		case ast.Var, ast.String:
		default:
			return false
		}
	}
	return true
}

// noBase is the cache of the data of an evaluator that has none.
type noBase struct{}

// Get implements topdown.BaseCache.
func (noBase) Get(ast.Ref) ast.Value { return nil }

// Put implements topdown.BaseCache.
func (noBase) Put(ast.Ref, ast.Value) {}
