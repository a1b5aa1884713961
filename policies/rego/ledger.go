package rego

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// ledger has the values that an evaluation looks for among the elements of sets, the keys of objects and the arguments of functions, and
// adds to them. The evaluator finds such a value by its hash, and compares it with all others that have the same hash. In a set, it also
// compares it with those that follow without a gap. The hash of a list is the sum of the hashes of its elements, so that many lists can
// have one hash. The ledger has the values of all sets and objects together, so that no search compares more than it charges.
//
// Texts and plain integers are not in it, because their hashes differ: see hashedTexts. Booleans and null are not either, because there are
// three of them. But a search for one of these also compares what it finds from its hash on. So what is in the ledger can make every step
// cost more: see nearPerStep and displacesIntegers.
type ledger struct {
	slots map[int]entry
	// groups is how many values there are in each group of hashes, and most is the largest number of them.
	groups map[int]int
	most   int
	// total is what comparing a value with all others takes, in bytes.
	total int
	// near reports that the hashes of two values are the same or follow each other, so that the charge depends on the order of the searches.
	near bool
}

// entry is a value, and what comparing it takes, in bytes.
type entry struct {
	value *ast.Term
	takes int
}

// small are the bytes that a search compares in the step that it is a part of.
const small = 2 << 10

// fewIntegers are so many that a search compares with them in its step.
const fewIntegers = 128

// What a search compares with plain integers, which are counted only: how many in a step.
const (
	integersPerStep = 16 // with another number
	besidePerStep   = 64 // with a list
)

// nearPerStep are so many values of near hashes that each step costs one more, because it can search for a text or an integer among them.
const nearPerStep = 512

// lastInteger is the last hash of an integer of exactDigits, with those of the values that follow it.
const lastInteger = 2_000_000_000_000_000

// keyKind is how a value is found by its hash.
type keyKind uint8

const (
	// ownHash is a text.
	ownHash keyKind = iota
	// ownValue is an integer whose hash is its value.
	ownValue
	// zeroOrOne is a boolean or null, whose hash is that of an integer.
	zeroOrOne
	// sharedInteger is a number that may have the hash of another one.
	sharedInteger
	// sharedSum is a list, a set or an object.
	sharedSum
)

func kindOf(key *ast.Term) keyKind {
	switch v := key.Value.(type) {
	case ast.Number:
		if len(v) > exactDigits || strings.ContainsAny(string(v), ".eE") {
			return sharedInteger
		}
		return ownValue
	case ast.Boolean, ast.Null:
		return zeroOrOne
	case *ast.Array, ast.Object, ast.Set:
		return sharedSum
	}
	return ownHash
}

// finds charges for a search for a value. It reports whether that is within bounds.
func (b *budget) finds(key *ast.Term) bool {
	kind, takes := sizeOf(key)
	return b.findsSized(key, kind, takes)
}

// sizeOf is the kind of a value, and what comparing it takes, in bytes: nothing for one that no search compares.
func sizeOf(key *ast.Term) (kind keyKind, takes int) {
	kind = kindOf(key)
	if kind >= sharedInteger {
		takes = comparing(key, kind)
	}
	return kind, takes
}

// findsSized is finds for a value of a kind that takes so many bytes to compare.
func (b *budget) findsSized(key *ast.Term, kind keyKind, takes int) bool {
	switch kind {
	case ownHash:
		return b.exceeded == ""
	case ownValue:
		b.countsInteger()
		return b.findsInteger(key)
	case zeroOrOne:
		b.displacesIntegers(key)
		return b.exceeded == ""
	case sharedInteger, sharedSum:
	}
	if kind == sharedSum && !b.compares(takes) || !b.work(b.besideIntegers(key, kind)) {
		return false // before it is compared with anything
	}
	if b.keys == nil {
		b.keys = &ledger{slots: map[int]entry{}, groups: map[int]int{}}
	}
	b.displacesIntegers(key)
	most := b.keys.most
	within := b.compares(b.keys.search(key, takes))
	b.step += b.keys.most/nearPerStep - most/nearPerStep
	return within
}

// countsInteger notes a plain integer. Among integers, it is found at once. Beside other values, an integer can be far from its hash.
func (b *budget) countsInteger() {
	b.integers++
	if b.mixed && b.integers%nearPerStep == 0 {
		b.step++
	}
}

// displacesIntegers notes a value that is no plain integer, but can have the hash of one: a step that searches for it can compare all
// integers. In a set, the integer follows it then, and so a step that searches for the integer can compare all others.
func (b *budget) displacesIntegers(key *ast.Term) {
	if hash := key.Hash(); !b.mixed && hash <= lastInteger && hash >= -lastInteger {
		b.mixed = true
		b.step += b.integers / nearPerStep
	}
}

// findsInteger notes the group of an integer. It reports whether its hash is far from those of texts, or there are few integers beside it.
func (b *budget) findsInteger(key *ast.Term) bool {
	if !besideTexts(key) {
		return b.exceeded == ""
	}
	if b.hashed == nil {
		b.hashed = newHashedTexts()
	}
	group, integers := groupOf(key.Hash()), b.hashed.integers
	integers[group]++
	switch {
	case integers[group] == 1 && len(integers) > fewTexts:
		b.charge(charge{keeps: perText})
	case b.integersIn(group) == fewIntegers && (b.textIn(group) || b.textIn(group-1)):
		b.nearHashes()
	}
	return b.exceeded == ""
}

// besideTexts reports whether a plain integer is so large that its group may have texts.
func besideTexts(integer *ast.Term) bool {
	const digits = 7 // of the least integer outside of the groups that no text is in
	number, _ := integer.Value.(ast.Number)
	return len(number) >= digits
}

// textIn reports whether a document, the module or a result of a function has a text whose hash is in a group.
func (b *budget) textIn(group int) bool {
	return b.low != nil && slices.Contains(*b.low, group) || b.hashed != nil && slices.Contains(b.hashed.low, group)
}

// compares charges for comparing so many bytes in a step that is counted already.
func (b *budget) compares(bytes int) bool {
	if bytes < small {
		return b.exceeded == ""
	}
	return b.work(bytes / comparedPerStep)
}

// findsPath charges for a search for each part of a path. Results are found by the hash of a whole path, so that booleans cost nothing.
func (b *budget) findsPath(path ast.Ref) bool {
	for _, part := range path {
		switch v := part.Value.(type) {
		case ast.String, ast.Var, ast.Boolean, ast.Null:
		case interface{ CopyNonGround() ast.Ref }: // the values after a part of a path that has none
			if !b.findsPath(v.CopyNonGround()) {
				return false
			}
		default:
			if !b.finds(part) {
				return false
			}
		}
	}
	return b.exceeded == ""
}

// comparing is what comparing a value takes, in bytes.
func comparing(key *ast.Term, kind keyKind) int {
	if kind == sharedSum {
		return weight(key)
	}
	number, _ := key.Value.(ast.Number)
	digits := magnitude(string(number))
	if digits <= exactDigits {
		return perNumber
	}
	return perNumber + times(perDigit, digits)
}

// What comparing a number takes that is no plain integer, in bytes: most for one whose digits a float does not have.
const (
	perNumber = 64
	perDigit  = 128
)

// besideIntegers are the steps of comparing a value with all integers whose hashes may be next to its own.
func (b *budget) besideIntegers(key *ast.Term, kind keyKind) int {
	if b.integers < fewIntegers {
		return 0
	}
	if hash := key.Hash(); hash > lastInteger || hash < -lastInteger {
		return 0
	}
	if kind == sharedSum {
		return b.integers / besidePerStep
	}
	return b.integers / integersPerStep
}

// search returns what comparing a value with all others near its hash takes, in bytes, and adds it.
func (l *ledger) search(key *ast.Term, takes int) int {
	hash := key.Hash()
	total, known := 0, false
	slot := hash
	for ; ; slot++ {
		other, taken := l.slots[slot]
		if !taken || total > maxWeight {
			break
		}
		if !known && identicalKeys(other.value, key) {
			known = true
			continue
		}
		total += min(takes, other.takes)
	}
	if !known {
		_, before := l.slots[hash-1]
		_, after := l.slots[hash+1]
		l.near = l.near || before || after || slot != hash
		l.slots[slot] = entry{key, takes}
		group := groupOf(hash)
		l.groups[group]++
		l.most = max(l.most, l.groups[group])
		l.total = min(l.total+takes, tooHeavy)
	}
	return total
}

// identicalKeys reports whether two values are the same. Numbers that are written in different ways count as two.
func identicalKeys(a, b *ast.Term) bool {
	if x, ok := a.Value.(ast.Number); ok {
		y, ok := b.Value.(ast.Number)
		return ok && x == y
	}
	return a.Equal(b)
}

// ordered reports whether what was charged may depend on the order of the evaluation.
func (b *budget) ordered() bool {
	return b.inOrder || b.keys != nil && (b.keys.near && b.keys.total >= small || b.integers >= fewIntegers)
}
