package rego

import (
	"cmp"
	"hash/maphash"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// literalValue is a value in the text of a module: a number, a text, a boolean, null, or a list, a set or an object of them. A part that has a
// name or a call has no value.
type literalValue struct {
	// kind is a bracket for a list or an object, and 0 for a boolean or null.
	kind byte
	at   int
	// hash is what OPA makes of the value: the hash of a list or an object is the sum of those of its parts. Mark tells different values apart;
	// no author can compute it.
	hash int
	mark uint64
	// load is how many short values take as long to compare.
	load int
	// variable reports that there is no value, and unhashed that its hash is not known.
	variable, unhashed bool
}

// The kinds of literal values besides the brackets of lists and objects.
const (
	aNumber     = '0'
	aText       = '"'
	aSetLiteral = 's'
)

// exactLoad and loadOfDigit are for a number of more than exactDigits, which OPA compares as a fraction of large integers. A pair of values of
// loadOfPair counts as two short pairs.
const (
	exactLoad   = 64
	loadOfDigit = 2
	loadOfPair  = 8
)

var markSeed = maphash.MakeSeed()

func markOf(word string) uint64 { return maphash.String(markSeed, word) }

// add adds a part.
func (c *literalValue) add(part literalValue) {
	const odd = 0x9e3779b97f4a7c15
	c.kind = part.kind
	c.hash += part.hash
	c.mark = bits.RotateLeft64((c.mark^part.mark)*odd, 29)
	c.load = min(c.load+part.load+1, tooHeavy)
	c.variable, c.unhashed = c.variable || part.variable, c.unhashed || part.unhashed
}

// hashed reports whether the hash of the value is known.
func (c literalValue) hashed() bool { return !c.variable && !c.unhashed }

// group returns the value as alikePairs counts it: all values without a known hash may have the same one.
func (c literalValue) group() literalValue {
	if c.unhashed {
		c.kind, c.hash = 0, 0
	}
	return c
}

// weight is how many pairs of short values take as long as one with this value.
func (c literalValue) weight() int { return 1 + c.load/loadOfPair }

// textAt is the text that begins at a place of a module.
func textAt(module string, at int) literalValue {
	text, ok := literalAt(module, at)
	return literalValue{kind: aText, hash: ast.String(text).Hash(), mark: markOf(text), variable: !ok}
}

// numberOf is a number.
func numberOf(word string) literalValue {
	c := literalValue{kind: aNumber, hash: ast.Number(word).Hash(), mark: markOf(word)}
	mantissa, exponent, scientific := strings.Cut(strings.ToLower(strings.TrimPrefix(word, "-")), "e")
	digits := strings.TrimLeft(strings.Replace(mantissa, ".", "", 1), "0")
	if len(digits) > exactDigits || scientific {
		powers, _ := strconv.Atoi(exponent)
		c.load = exactLoad + times(len(digits)+max(powers, -powers), loadOfDigit)
	}
	return c
}

// differentHashes returns the first one of each hash.
func differentHashes(values []literalValue) []literalValue {
	slices.SortFunc(values, func(a, b literalValue) int { return cmp.Compare(a.hash, b.hash) })
	return slices.CompactFunc(values, func(a, b literalValue) bool { return a.hash == b.hash })
}

// alikePairs are the pairs of constants with one hash that are compared at most, and the place of the first one of the largest group.
func alikePairs(constants []literalValue) (pairs, at int) {
	slices.SortFunc(constants, func(a, b literalValue) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.hash, b.hash), cmp.Compare(a.mark, b.mark), cmp.Compare(a.at, b.at))
	})
	largest := 0
	for len(constants) > 0 {
		first, size := constants[0], 1
		for size < len(constants) && constants[size].kind == first.kind && constants[size].hash == first.hash {
			size++
		}
		n, earliest := pairsInGroup(constants[:size])
		if pairs = min(pairs+n, tooHeavy); n > largest {
			largest, at = n, earliest
		}
		constants = constants[size:]
	}
	return pairs, at
}

// pairsInGroup are the pairs of constants with one hash, and the place of the first one. Equal ones follow each other: each is compared with
// each different one.
func pairsInGroup(group []literalValue) (pairs, at int) {
	var different, weight, weightOfDifferent int
	at = group[0].at
	for i, one := range group {
		at = min(at, one.at)
		weight = min(weight+one.weight(), tooHeavy)
		if i == 0 || one.mark != group[i-1].mark {
			different++
			weightOfDifferent = min(weightOfDifferent+one.weight(), tooHeavy)
		}
	}
	if different == 1 {
		return 0, at
	}
	return (times(different, weight) + times(len(group), weightOfDifferent)) / 2, at
}

// elementHash is the hash of an element. Plain elements with one hash are equal.
type elementHash struct {
	hash  int
	plain bool
}

// displaced is how many elements the parser finds at the places of others, if it makes a set of elements.
func displaced(elements []elementHash) int {
	slices.SortFunc(elements, func(a, b elementHash) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(rank(a), rank(b)))
	})
	total, waiting := 0, displacement{}
	for i, e := range elements {
		if i == 0 || e != elements[i-1] || !e.plain {
			total = min(total+waiting.next(e.hash), tooHeavy)
		}
	}
	return total
}

// rank puts plain elements before others with the same hash.
func rank(e elementHash) int {
	if e.plain {
		return 0
	}
	return 1
}
