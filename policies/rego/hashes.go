package rego

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/texts"
)

// hashedTexts are different texts by their hashes. The evaluator finds a text in a set or an object by its hash, and compares it with all
// others that have the same hash. In a set, it also compares it with those that follow without a gap. The hash has no seed, so that authors
// of modules and of documents can compute thousands of texts with one hash, and texts with the hashes of integers.
//
// Texts with near hashes are rejected, because they do not occur by chance. An object has at most 30,000 texts: decode.MaxMembers with
// their names. The probability that two of them have one hash is 30,000² / 2⁶⁵, which is 2e-11. That one of 2⁴³ groups has more than
// mostNear is below 1e-140, and that one text is among the integers of four groups is 1.4e-8.
type hashedTexts struct {
	// slots are a power of two. Those of a group follow each other, except for slots that other groups have taken.
	slots []hashedText
	texts []string
	// low are the groups of the texts whose hashes may be those of integers.
	low []int
	// integers is how many integers there were in each group.
	integers map[int]int
	// factor is random, so that no author can compute which slot a group has.
	factor uint64
	// element and member add the texts of a part of a value, and near are those that were too near. They are made once.
	element func(*ast.Term) bool
	member  func(key, value *ast.Term) bool
	near    *nearTexts
}

// hashedText is a text by its number. Its hash is zero for none. It has no pointer, so that slots are cleared fast.
type hashedText struct {
	hash, text int
}

const (
	// groupBits are the bits of hashes by which the hashes of a group differ. A set has fewer elements than such a group has hashes.
	groupBits = 21
	// mostNear are the different texts that a group can have.
	mostNear = 16
	// lowGroups are those of most integers, above and below zero, in which there is no text.
	lowGroups = 2
	// mostInteger is above all integers of exactDigits.
	mostInteger = 1_000_000_000_000_000
	// leastSlots and keptSlots are those of a hashedTexts that is used again.
	leastSlots, keptSlots = 512, 1024
	// fewTexts are those that a hashedTexts has without growing, and perText are the bytes for each other one.
	fewTexts = leastSlots / 4 * 3
	perText  = 64
)

// nearTexts are two texts with near hashes. There is no other one if the hash is near those of integers.
type nearTexts struct{ text, other string }

func (n *nearTexts) Error() string {
	const shown = 64
	if n.other == "" {
		return fmt.Sprintf("the text %q has the hash of an integer, which never happens by chance: change the text", texts.Shorten(n.text, shown))
	}
	return fmt.Sprintf("the hashes of the texts %q and %q are too near, which never happens by chance: change one of the texts",
		texts.Shorten(n.text, shown), texts.Shorten(n.other, shown))
}

var hashedTextsPool = sync.Pool{New: func() any {
	h := &hashedTexts{slots: make([]hashedText, leastSlots), integers: map[int]int{}, factor: maphash.String(maphash.MakeSeed(), "") | 1}
	h.element = func(element *ast.Term) bool { return h.addWithin(element.Value) }
	h.member = func(key, value *ast.Term) bool { return h.addWithin(key.Value) || h.addWithin(value.Value) }
	return h
}}

// newHashedTexts returns a hashedTexts without texts, which release returns to the others.
func newHashedTexts() *hashedTexts {
	h, _ := hashedTextsPool.Get().(*hashedTexts)
	return h
}

func (h *hashedTexts) release() {
	if len(h.slots) > keptSlots || len(h.integers) > keptSlots {
		return
	}
	clear(h.integers)
	if len(h.texts) > 0 {
		clear(h.slots)
		clear(h.texts)
		h.texts, h.low = h.texts[:0], h.low[:0]
	}
	hashedTextsPool.Put(h)
}

// add adds a text. It returns the texts whose hashes are too near; nil for none.
func (h *hashedTexts) add(text string) *nearTexts {
	hash := ast.String(text).Hash()
	group := groupOf(hash)
	if group >= -lowGroups && group < lowGroups {
		return &nearTexts{text: text}
	}
	near := 0
	i := h.slotOf(group)
	for ; h.slots[i].hash != 0; i = h.after(i) {
		switch other := &h.slots[i]; {
		case other.hash == hash && h.texts[other.text] == text:
			return nil
		case other.hash == hash:
			return &nearTexts{text, h.texts[other.text]}
		case groupOf(other.hash) == group:
			if near++; near >= mostNear {
				return &nearTexts{text, h.texts[other.text]}
			}
		}
	}
	h.slots[i] = hashedText{hash, len(h.texts)}
	h.texts = append(h.texts, text)
	if hash > -mostInteger && hash < mostInteger {
		h.low = append(h.low, group)
	}
	if len(h.texts) > len(h.slots)/4*3 {
		h.grow()
	}
	return nil
}

func groupOf(hash int) int { return hash >> groupBits }

// slotOf returns the first slot that a group may have.
func (h *hashedTexts) slotOf(group int) int {
	slot := uint64(group) * h.factor >> (bits.LeadingZeros64(uint64(len(h.slots))) + 1) //nolint:gosec // any number will do
	return int(slot)                                                                    //nolint:gosec // smaller than the slots
}

func (h *hashedTexts) after(slot int) int { return (slot + 1) & (len(h.slots) - 1) }

func (h *hashedTexts) grow() {
	before := h.slots
	h.slots = make([]hashedText, 2*len(before))
	for _, one := range before {
		if one.hash == 0 {
			continue
		}
		i := h.slotOf(groupOf(one.hash))
		for h.slots[i].hash != 0 {
			i = h.after(i)
		}
		h.slots[i] = one
	}
}

// lowGroups returns a copy of low; nil for none.
func (h *hashedTexts) lowGroups() *[]int {
	if len(h.low) == 0 {
		return nil
	}
	groups := slices.Clone(h.low)
	return &groups
}

// joinGroups returns two lists in one.
func joinGroups(a, b *[]int) *[]int {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	groups := slices.Concat(*a, *b)
	return &groups
}

// addAll adds all texts of a value, those of its keys included. It returns the texts whose hashes are too near; nil for none.
func (h *hashedTexts) addAll(value ast.Value) *nearTexts {
	if text, ok := value.(ast.String); ok {
		return h.add(string(text))
	}
	h.near = nil
	h.addWithin(value)
	return h.near
}

// addWithin adds all texts of a value, up to those that are too near. It reports whether there are such texts.
func (h *hashedTexts) addWithin(value ast.Value) bool {
	if text, ok := value.(ast.String); ok {
		h.near = h.add(string(text))
	} else {
		until(value, h.element, h.member)
	}
	return h.near != nil
}

// nearLiterals rejects a module that has texts or names with near hashes. It reads the text of the module, because the parser makes sets of
// literals. So it also reads what is between two literals or in a comment.
func nearLiterals(module string) []diagnostics.Problem {
	h := newHashedTexts()
	defer h.release()
	return h.addLiterals(module)
}

// lowLiterals are the groups of the texts of a module whose hashes may be those of integers.
func lowLiterals(module string) *[]int {
	h := newHashedTexts()
	defer h.release()
	h.addLiterals(module)
	return h.lowGroups()
}

// addLiterals adds the texts of a module.
func (h *hashedTexts) addLiterals(module string) []diagnostics.Problem {
	for i := range len(module) {
		text, ok := literalAt(module, i)
		if !ok {
			continue
		}
		if near := h.add(text); near != nil {
			return []diagnostics.Problem{problemAt(module, i, near.Error())}
		}
	}
	return nil
}

// problemAt is a problem at a place of a module that is not parsed yet.
func problemAt(module string, at int, message string) diagnostics.Problem {
	return diagnostics.Problem{Line: strings.Count(module[:at], "\n") + 1, Column: at - strings.LastIndexByte(module[:at], '\n'), Message: message}
}

// literalAt returns the text or the name that may begin at a place of a module.
func literalAt(module string, at int) (text string, ok bool) {
	before := byte(' ')
	if at > 0 {
		before = module[at-1]
	}
	rest := module[at+1:]
	switch b := module[at]; {
	case b == '`':
		text, _, ok = strings.Cut(rest, "`")
		return text, ok
	case b == '"':
		end := len(rest)
		if before != '\\' { // a backslash is never in front of a text
			end = decode.ClosingQuote(rest, 0)
		}
		if end == len(rest) {
			return "", false
		}
		if text = rest[:end]; strings.IndexByte(text, '\\') < 0 {
			return text, true
		}
		return text, json.Unmarshal([]byte(module[at:at+end+2]), &text) == nil
	case inName(b) && !inName(before):
		end := at
		for end < len(module) && inName(module[end]) {
			end++
		}
		return module[at:end], true
	}
	return "", false
}

// inName reports whether a byte can be a part of a name.
func inName(b byte) bool {
	return b == '_' || b|' ' >= 'a' && b|' ' <= 'z' || b >= '0' && b <= '9' || b >= utf8.RuneSelf
}
