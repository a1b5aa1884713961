package rego

import (
	"cmp"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// gathering is what putting sets and objects together takes, besides what has the same hash.
var gathering = rate{kept: 16, perStep: 64}

// gathered are the elements of sets and objects that are put together, or looked for.
func gathered(operands []*ast.Term) (charge, error) {
	c := ordered(gathering, operands)
	return withCollisions(c, operands), nil
}

// sortedByValue are values that are put in order.
func sortedByValue(operands []*ast.Term) (charge, error) {
	return ordered(rate{kept: 8, perStep: 64}, operands), nil
}

// ordered is a charge by size, and for comparing long numbers.
func ordered(r rate, operands []*ast.Term) charge {
	size, long := comparedSizes(operands)
	c := r.forSize(size)
	c.work += long
	return c
}

// difference is that of two numbers or of two sets.
func difference(operands []*ast.Term) (charge, error) {
	if _, ok := operands[0].Value.(ast.Number); ok {
		return numbers(operands)
	}
	return gathered(operands)
}

// subset compares all of the second value with the first one at each depth of objects, and at each place of a list.
func subset(operands []*ast.Term) (charge, error) {
	c := ordered(rate{taken: 20, perStep: 64}, operands)
	c.work = min(c.work+times(reachOf(operands[0]), weight(operands[1]))/readPerStep, tooHeavy)
	return withCollisions(c, operands), nil
}

// reachOf is the depth of a value, and the length of its longest list.
func reachOf(term *ast.Term) int {
	depth, longest := 0, 0
	var look func(term *ast.Term, at int)
	look = func(term *ast.Term, at int) {
		depth = max(depth, at)
		switch v := term.Value.(type) {
		case *ast.Array:
			longest = max(longest, v.Len())
		case ast.Object:
			v.Foreach(func(_, value *ast.Term) { look(value, at+1) })
		}
	}
	look(term, 0)
	return depth + longest
}

// reachable answers which nodes of a graph can be reached. OPA looks at the edges of a node again for each edge to it.
func reachable(operands []*ast.Term) (charge, error) {
	graph, ok := operands[0].Value.(ast.Object)
	switch operands[1].Value.(type) {
	case *ast.Array, ast.Set:
	default:
		ok = false
	}
	if !ok {
		return charge{}, nil // the function says what is wrong
	}
	nodes := slices.Clone(operands[:2])
	graph.Foreach(func(_, edges *ast.Term) { nodes = append(nodes, edges) })
	c := ordered(gathering, operands)
	c.then = func() (charge, error) {
		return charge{work: alikeSteps(nodes), then: func() (charge, error) { return charge{}, answer{reachedIn(graph, operands[1])} }}, nil
	}
	return c, nil
}

// reachedIn are the nodes of a graph that can be reached from some.
func reachedIn(graph ast.Object, from *ast.Term) *ast.Term {
	reached, queue := ast.NewSet(), vertices(from)
	for len(queue) > 0 {
		node := queue[0]
		queue = queue[1:]
		if edges := graph.Get(node); edges != nil && !reached.Contains(node) {
			reached.Add(node)
			queue = append(queue, vertices(edges)...)
		}
	}
	return ast.NewTerm(reached)
}

func vertices(term *ast.Term) (all []*ast.Term) {
	switch v := term.Value.(type) {
	case ast.Set:
		return slices.Clone(v.Slice())
	case *ast.Array:
		v.Foreach(func(element *ast.Term) { all = append(all, element) })
	}
	return all
}

// withCollisions adds what comparing elements with the same hash takes. To find out which these are, all are sorted, which is paid for
// before, unless they are small.
func withCollisions(c charge, terms []*ast.Term) charge {
	if c.work > small/64 {
		c.then = func() (charge, error) { return charge{work: alikeSteps(terms)}, nil }
	} else {
		c.work += alikeSteps(terms)
	}
	return c
}

// alikeSteps are the steps of comparing elements with the same hash.
func alikeSteps(terms []*ast.Term) int {
	if bytes := collisions(terms...); bytes >= small {
		return bytes / comparedPerStep
	}
	return 0
}

// collisions is what adding the elements of some values to one set compares besides, in bytes: elements, and keys of objects, are compared with
// all that have the same hash, and in a set also with those that follow, such as integers. Equal elements count once.
func collisions(terms ...*ast.Term) int {
	shared := 0
	eachKey(terms, func(key *ast.Term) {
		if kindOf(key) >= sharedInteger {
			shared++
		}
	})
	if shared == 0 {
		return 0
	}
	var keys []*ast.Term
	eachKey(terms, func(key *ast.Term) {
		if kindOf(key) != ownHash {
			keys = append(keys, key)
		}
	})
	return probed(keys)
}

// eachKey calls a function for the elements of lists, and as eachKeyIn.
func eachKey(terms []*ast.Term, call func(*ast.Term)) {
	for _, term := range terms {
		if list, ok := term.Value.(*ast.Array); ok {
			list.Foreach(func(element *ast.Term) {
				call(element)
				eachKeyIn(element, call)
			})
		}
		eachKeyIn(term, call)
	}
}

// eachKeyIn calls a function for the elements of sets, also of those in sets, and the keys of objects, also of those in objects.
func eachKeyIn(term *ast.Term, call func(*ast.Term)) {
	switch v := term.Value.(type) {
	case ast.Set:
		v.Foreach(func(element *ast.Term) {
			call(element)
			eachKeyIn(element, call)
		})
	case ast.Object:
		v.Foreach(func(key, value *ast.Term) {
			call(key)
			eachKeyIn(value, call)
		})
	}
}

// probed is what adding keys to a set one after the other compares, in bytes.
func probed(keys []*ast.Term) int {
	if len(keys) < 2 {
		return 0
	}
	slices.SortFunc(keys, func(a, b *ast.Term) int {
		if order := cmp.Compare(a.Hash(), b.Hash()); order != 0 {
			return order
		}
		return a.Value.Compare(b.Value)
	})
	keys = slices.CompactFunc(keys, func(a, b *ast.Term) bool { return a.Hash() == b.Hash() && a.Equal(b) })
	largest, probes, waiting := 0, 0, displacement{}
	for _, key := range keys {
		if places := waiting.next(key.Hash()); places > 0 {
			largest, probes = max(largest, comparing(key, kindOf(key))), min(probes+places, tooHeavy)
		}
	}
	return times(probes, largest)
}

// displacement follows the elements of a set in the order of their hashes. An element that finds another one at the place of its hash takes the
// next free place. The sum of how far elements are from their places does not depend on the order in which they are added.
type displacement struct {
	last    int
	waiting uint64
}

// next returns how many places an element is away from that of its hash.
func (d *displacement) next(hash int) int {
	d.waiting -= min(d.waiting, uint64(hash)-uint64(d.last)) //nolint:gosec // the hashes are sorted
	d.last = hash
	d.waiting++
	return int(d.waiting - 1) //nolint:gosec // less than the elements
}
