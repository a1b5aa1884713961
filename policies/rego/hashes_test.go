package rego

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// The constants of the hash, which is xxhash of 64 bits.
const (
	prime1 uint64 = 11400714785074694791
	prime2 uint64 = 14029467366897019727
	prime3 uint64 = 1609587929392839161
	prime4 uint64 = 9650029242287828579
	prime5 uint64 = 2870177450012600261
)

// textsWithHashes returns different texts of 16 ASCII characters without those of except. The hash of text i is hash(i). All steps of the
// hash can be inverted: for each first half, one second half has the hash.
func textsWithHashes(n int, except string, hash func(i int) int) []string {
	texts := make([]string, 0, n)
	for half := 0; len(texts) < n; half++ {
		text := []byte(fmt.Sprintf("t%07d", half))
		text = binary.LittleEndian.AppendUint64(text, secondHalf(binary.LittleEndian.Uint64(text), uint64(hash(len(texts))))) //nolint:gosec // the same bits
		ascii := !slices.ContainsFunc(text, func(b byte) bool { return b >= 0x80 })
		if ascii && !strings.ContainsAny(string(text), except) {
			texts = append(texts, string(text))
		}
	}
	return texts
}

// secondHalf returns the last eight bytes of a text of 16 bytes with a hash.
func secondHalf(first, hash uint64) uint64 {
	hash ^= hash >> 32
	hash *= inverse(prime3)
	hash ^= hash>>29 ^ hash>>58
	hash *= inverse(prime2)
	hash ^= hash >> 33
	state := bits.RotateLeft64((prime5+16)^bits.RotateLeft64(first*prime2, 31)*prime1, 27)*prime1 + prime4
	round := bits.RotateLeft64((hash-prime4)*inverse(prime1), -27) ^ state
	return bits.RotateLeft64(round*inverse(prime1), -31) * inverse(prime2)
}

// inverse returns the number whose product with an odd number is one.
func inverse(odd uint64) uint64 {
	made := odd
	for range 5 {
		made *= 2 - odd*made
	}
	return made
}

// The hashes of texts in tests: all the same, each one more than the one before, and far from each other.
func sameHash(int) int   { return math.MaxInt / 3 }
func nextHash(i int) int { return math.MaxInt/3>>groupBits<<groupBits + i }
func farHash(i int) int  { return math.MaxInt/3 + i<<(groupBits+1) }

// TestTextsWithHashes holds that the texts of these tests have the hashes that they should have.
func TestTextsWithHashes(t *testing.T) {
	for name, hash := range map[string]func(int) int{"the same": sameHash, "next to each other": nextHash, "far": farHash} {
		for i, text := range textsWithHashes(20, "", hash) {
			if got := ast.String(text).Hash(); got != hash(i) {
				t.Errorf("%s: the hash of %q is %x, want %x", name, text, got, hash(i))
			}
		}
	}
}

// ordinary are texts that no author has computed.
func ordinary(n int) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf("disk-%d", i)
	}
	return texts
}

// nearness are texts, and whether their hashes are too near.
type nearness struct {
	texts []string
	near  bool
}

func nearnesses() map[string]nearness {
	integer := func(n int) func(int) int { return func(int) int { return n } }
	return map[string]nearness{
		"one hash":                 {textsWithHashes(2, "", sameHash), true},
		"many with one hash":       {textsWithHashes(5000, "", sameHash), true},
		"more than a group":        {textsWithHashes(mostNear+1, "", nextHash), true},
		"a group":                  {textsWithHashes(mostNear, "", nextHash), false},
		"hashes of integers":       {textsWithHashes(1, "", integer(1000)), true},
		"hashes of negative ones":  {textsWithHashes(1, "", integer(-1)), true},
		"hashes above integers":    {textsWithHashes(1, "", integer(lowGroups<<groupBits)), false},
		"many groups":              {textsWithHashes(5000, "", farHash), false},
		"ordinary texts":           {ordinary(10_000), false},
		"an ordinary text, often":  {slices.Repeat([]string{"a"}, 10_000), false},
		"ordinary ones among them": {slices.Concat(ordinary(1000), textsWithHashes(2, "", sameHash)), true},
	}
}

// placesOfTexts are the places of a document where texts can be.
func placesOfTexts() map[string]func(texts []string) any {
	return map[string]func(texts []string) any{
		"values": func(texts []string) any { return map[string]any{"list": texts} },
		"names": func(texts []string) any {
			made := map[string]int{}
			for _, text := range texts {
				made[text] = 1
			}
			return map[string]any{"annotations": made}
		},
		"values and names": func(texts []string) any {
			made := map[string]string{}
			for i := 1; i < len(texts); i += 2 {
				made[texts[i-1]] = texts[i]
			}
			return []any{made, texts[len(texts)-1]}
		},
		"escapes": func(texts []string) any {
			var made []json.RawMessage
			for _, text := range texts {
				var escaped strings.Builder
				for _, b := range []byte(text) {
					fmt.Fprintf(&escaped, "\\u%04x", b)
				}
				made = append(made, json.RawMessage(`"`+escaped.String()+`"`))
			}
			return made
		},
		"beside bytes that are no text": func(texts []string) any {
			data, _ := json.Marshal(texts)
			return json.RawMessage(`["` + "\xff" + `",` + string(data) + "]")
		},
	}
}

// TestNearTextsOfDocuments holds that a document has no texts that the evaluator would compare with each other in each step.
func TestNearTextsOfDocuments(t *testing.T) {
	module := mustCompile(t, head+`deny contains "a" if input.params == 1`)
	all := nearnesses()
	for place, document := range placesOfTexts() {
		for name, c := range all {
			t.Run(place+"/"+name, func(t *testing.T) {
				_, err := module.Eval(input(t, map[string]any{"params": document(c.texts)}), Limits{})
				if got := err != nil && strings.Contains(err.Error(), "never happens by chance: change"); got != c.near || err != nil && !got {
					t.Errorf("they are too near: %v, want %v: %v", got, c.near, err)
				}
			})
		}
	}
	if Convert(textsWithHashes(2, "", sameHash)) != nil {
		t.Error("a document that is converted once has texts with one hash")
	}
}

// TestNearTextsAndFieldNames holds that a text with the hash of a field of the document is rejected.
func TestNearTextsAndFieldNames(t *testing.T) {
	text := textsWithHashes(1, "", func(int) int { return ast.String("annotations").Hash() })[0]
	made := convert(map[string]any{"annotations": map[string]string{text: "x"}}, MaxDocumentBytes, nil)
	if made.err == nil {
		t.Error("a name of an annotation has the hash of the field")
	}
}

// TestNearLiterals holds that a module has no texts and names that the parser, the compiler or the evaluator would compare with each other.
func TestNearLiterals(t *testing.T) {
	quoted := func(text string) string { data, _ := json.Marshal(text); return string(data) }
	escaped := func(text string) string {
		var made strings.Builder
		for _, b := range []byte(text) {
			fmt.Fprintf(&made, "\\u%04x", b)
		}
		return `"` + made.String() + `"`
	}
	raw := func(text string) string { return "`" + text + "`" }
	all := nearnesses()
	for form, write := range map[string]func(string) string{"quoted": quoted, "escaped": escaped, "raw": raw} {
		for name, c := range all {
			t.Run(form+"/"+name, func(t *testing.T) {
				var module strings.Builder
				module.WriteString(head + "# \" and ` in a comment, and \\\"\ndeny contains \"a\" if input.requester == \"\\\"\"\n")
				for i := 0; i < len(c.texts); i += maxElements / 2 {
					fmt.Fprintf(&module, "s%d := {", i)
					for _, text := range c.texts[i:min(i+maxElements/2, len(c.texts))] {
						if form == "raw" && strings.ContainsAny(text, "`") {
							t.Skip("no raw text")
						}
						module.WriteString(write(text) + ", ")
					}
					module.WriteString("}\n")
				}
				if module.Len() > MaxModuleBytes || strings.Count(module.String(), "\n") > MaxModuleLines {
					t.Skip("too long")
				}
				got := nearLiterals(module.String())
				if (len(got) > 0) != c.near {
					t.Fatalf("%+v, want too near: %v", got, c.near)
				}
				if _, problems := Compile("policy", module.String()); len(got) > 0 && (len(problems) != 1 || problems[0] != got[0] || got[0].Line < 4) {
					t.Errorf("%+v, want %+v", problems, got)
				}
			})
		}
	}
	t.Run("names", func(t *testing.T) {
		names := namesWithOneHash()
		if got := nearLiterals(head + "deny contains \"a\" if input.params." + names[0] + " == input.params." + names[1]); len(got) != 1 {
			t.Errorf("%q: %+v", names[:2], got)
		}
	})
}

// namesWithOneHash returns a few texts of letters, digits and underscores with one hash.
func namesWithOneHash() []string {
	return slices.DeleteFunc(textsWithHashes(10_000, "", sameHash), func(text string) bool {
		return slices.ContainsFunc([]byte(text), func(b byte) bool { return !inName(b) })
	})
}

// TestNearTextsOfAddresses holds that the parts of addresses are texts of functions.
func TestNearTextsOfAddresses(t *testing.T) {
	module := mustCompile(t, head+`deny contains "a" if { some x in input.params; virtward.url(x).query == "" }`)
	for _, names := range [][]string{namesWithOneHash()[:2], {"one", "two"}} {
		var urls []string
		for _, name := range names {
			urls = append(urls, "https://example.com/?"+name)
		}
		_, err := module.Eval(input(t, map[string]any{"params": urls}), Limits{})
		if limit := (*LimitError)(nil); errors.As(err, &limit) != (names[0] != "one") {
			t.Errorf("%q: %v", urls, err)
		}
	}
}

// TestNearTextsOfFunctions holds that functions make no texts that the evaluator would compare with each other.
func TestNearTextsOfFunctions(t *testing.T) {
	const except = controls + "|{}"
	sixteen := []string{"sixteen letters.", "sixteen letters,", "sixteen letters:"}
	all := map[string]nearness{
		"one hash":          {textsWithHashes(2, except, sameHash), true},
		"more than a group": {textsWithHashes(mostNear+1, except, nextHash), true},
		"a group":           {textsWithHashes(mostNear, except, nextHash), false},
		"an integer":        {append(textsWithHashes(1, except, func(int) int { return 1000 }), sixteen...), true},
		"ordinary texts":    {sixteen, false},
	}
	for function, body := range map[string]string{
		"split":            `some x in split(input.params, "|")`,
		"split_n":          `some x in strings.split_n(input.params, "|", 10000)`,
		"json.unmarshal":   `some x in json.unmarshal(sprintf("[\"%s\"]", [replace(input.params, "|", "\",\"")]))`,
		"names":            `some x, _ in json.unmarshal(sprintf("{\"%s\":1}", [replace(input.params, "|", "\":1,\"")]))`,
		"regex.split":      `some x in regex.split("[|]", input.params)`,
		"substring":        `some i in numbers.range(0, ceil(count(input.params) / 17) - 1); x := substring(input.params, i * 17, 16)`,
		"template strings": `some i in numbers.range(0, ceil(count(input.params) / 17) - 1); x := $"{substring(input.params, i * 17, 8)}{substring(input.params, (i * 17) + 8, 8)}"`,
		"concat":           `some i in numbers.range(0, ceil(count(input.params) / 17) - 1); x := concat("", [substring(input.params, i * 17, 8), substring(input.params, (i * 17) + 8, 8)])`,
	} {
		module := mustCompile(t, head+"s contains x if { "+body+" }\ndeny contains \"a\" if count(s) < 0")
		for name, c := range all {
			t.Run(function+"/"+name, func(t *testing.T) {
				in := input(t, map[string]any{"params": strings.Join(c.texts, "|")})
				for _, m := range []*Module{module, module.Unscreened()} {
					_, _, err := m.Measure(in, Limits{Steps: math.MaxInt / 2, Bytes: math.MaxInt / 2})
					var limit *LimitError
					if near := errors.As(err, &limit) && strings.Contains(limit.Limit, "almost the same hash"); near != c.near || err != nil && !near {
						t.Errorf("they are too near: %v, want %v: %v", near, c.near, err)
					}
				}
			})
		}
	}
}

// TestTextsAmongIntegers holds that no text is searched for among many integers of a set.
func TestTextsAmongIntegers(t *testing.T) {
	const first, few, many = 1 << 40, 100, 300
	text := textsWithHashes(1, controls, func(int) int { return first })[0]
	literal, _ := json.Marshal(text)
	before := textsWithHashes(1, controls, func(int) int { return first>>groupBits<<groupBits - 1 })[0]
	numbers := func(count int) string { return fmt.Sprintf("some i in numbers.range(%d, %d)", first, first+count) }
	literals := func(count int) string {
		var set strings.Builder
		for i := range count {
			fmt.Fprintf(&set, "%d, ", first+i)
		}
		return "{" + set.String() + strconv.Itoa(first) + "}"
	}
	search := func(count int, searched string) string {
		return "[1 | s := " + literals(count) + " | {input.params}; x := " + searched + "; s[x]]"
	}
	for name, c := range map[string]struct {
		body, text string
		near       bool
	}{
		"of a document":                {"{x | " + numbers(many) + "; some x in [i, input.params]}", text, true},
		"in the group before":          {"{x | " + numbers(many) + "; some x in [i, input.params]}", before, true},
		"of the module":                {"{x | " + numbers(many) + "; some x in [i, " + string(literal) + "]}", "", true},
		"of a function":                {"{x | " + numbers(many) + "; some x in [i, concat(input.params, [\"t\", \"\"])]}", text[1:], true},
		"of a function, later":         {"{x | s := {i | " + numbers(many) + "}; count(s) > 0; x := concat(input.params, [\"t\", \"\"])}", text[1:], true},
		"with another hash":            {"{x | " + numbers(many) + "; some x in [i, input.params]}", text[1:], false},
		"of a document, few integers":  {"{x | " + numbers(few) + "; some x in [i, input.params]}", text, false},
		"of a function, few integers":  {"{x | " + numbers(few) + "; some x in [i, concat(input.params, [\"t\", \"\"])]}", text[1:], false},
		"of a document, literals":      {search(many, "input.params"), text, true},
		"before a group of literals":   {search(many, "input.params"), before, true},
		"of the module, literals":      {search(many, string(literal)), "", true},
		"of a function, literals":      {search(many, "concat(input.params, [\"t\", \"\"])"), text[1:], true},
		"few literals":                 {search(few, "input.params"), text, false},
		"literals and integers":        {"[1 | s := {i | " + numbers(few) + "}; x := (" + literals(few) + " | s)[_]; x == input.params]", text, true},
		"of a document, other numbers": {"{x | some i in numbers.range(1000, 1300); some x in [i, input.params]}", text, false},
	} {
		t.Run(name, func(t *testing.T) {
			module := mustCompile(t, head+"deny contains \"a\" if count("+c.body+") < 0")
			for _, m := range []*Module{module, module.Unscreened()} {
				_, err := m.Eval(input(t, map[string]any{"params": c.text}), Limits{})
				if limit := (*LimitError)(nil); errors.As(err, &limit) != c.near || err != nil && !c.near {
					t.Errorf("they are too near: %v: %v", c.near, err)
				}
			}
		})
	}
}

// controls are characters that JSON and Rego escape.
const controls = "\"\\\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f"

// TestTextsOfFunctionsTakeMemory holds that the texts of functions are charged for being counted.
func TestTextsOfFunctionsTakeMemory(t *testing.T) {
	module := mustCompile(t, head+`deny contains "a" if { x := split(input.params, "|"); count(x) < 0 }`)
	bytes := func(texts []string) int {
		_, spent, err := module.Measure(input(t, map[string]any{"params": strings.Join(texts, "|")}), Limits{Steps: math.MaxInt / 2, Bytes: math.MaxInt / 2})
		if err != nil {
			t.Fatal(err)
		}
		return spent.Bytes
	}
	same := slices.Repeat([]string{"disk-0000"}, 5000)
	different := slices.Clone(same)
	for i := range different {
		different[i] = fmt.Sprintf("disk-%04d", i)
	}
	if got, want := bytes(different)-bytes(same), (len(different)-fewTexts)*perText; got != want {
		t.Errorf("different texts cost %d bytes more, want %d", got, want)
	}
}

// TestTextsOfOneCall holds that a function that compares its texts before they are counted can make only so many in an evaluation, because
// each costs steps. The evaluator compares each with all others if they have one hash, which takes about a nanosecond for a pair.
func TestTextsOfOneCall(t *testing.T) {
	const count, perStep = 1000, 20_000 // pairs
	texts := textsWithHashes(count, controls+"/~&=+%;", sameHash)
	paths, members := make([]*ast.Term, count), make([]string, count)
	for i, text := range texts {
		paths[i], members[i] = ast.StringTerm("/"+text), `"`+text+`":1`
	}
	object := "{" + strings.Join(members, ",") + "}"
	for name, operands := range map[string][]*ast.Term{
		"json.filter":            {ast.ObjectTerm(), ast.ArrayTerm(paths...)},
		"json.remove":            {ast.ObjectTerm(), ast.ArrayTerm(paths...)},
		"json.unmarshal":         {ast.StringTerm(object)},
		"yaml.unmarshal":         {ast.StringTerm(object)},
		"urlquery.decode_object": {ast.StringTerm(strings.Join(texts, "&"))},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBudget(Limits{Steps: math.MaxInt / 2, Bytes: math.MaxInt / 2}, extent{})
			for next := func() (charge, error) { return guards()[name](operands) }; next != nil; {
				c, err := next()
				if err != nil || !b.charge(c) {
					t.Fatal(err, b.exceeded)
				}
				next = c.then
			}
			most := defaultSteps * count / b.steps
			t.Logf("%d texts cost %d steps: at most %d in an evaluation", count, b.steps, most)
			if pairs := most / 2 * most / defaultSteps; pairs > perStep {
				t.Errorf("%d texts compare %d pairs in a step, want at most %d", most, pairs, perStep)
			}
		})
	}
}

// TestGivenTexts holds that functions whose texts are not counted return only texts that are in their arguments.
func TestGivenTexts(t *testing.T) {
	arguments := hostile()
	for _, name := range pure() {
		if makesTexts(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			draw := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same ones each time
			results := 0
			for range 300 {
				var operands []*ast.Term
				given := map[string]bool{}
				for _, of := range ast.BuiltinMap[name].Decl.FuncArgs().Args {
					fitting := slices.DeleteFunc(slices.Clone(arguments), func(term *ast.Term) bool { return !fits(term, of) || weight(term) > 20_000 })
					operands = append(operands, fitting[draw.IntN(len(fitting))])
					textsIn(operands[len(operands)-1], given)
				}
				if cost, err := guards()[name](operands); err != nil || max(cost.keeps, cost.takes) > 1<<20 {
					continue
				}
				_ = topdown.GetBuiltin(name)(topdown.BuiltinContext{Context: t.Context()}, operands, func(result *ast.Term) error {
					results++
					made := map[string]bool{}
					textsIn(result, made)
					for text := range made {
						if !given[text] {
							t.Errorf("%.300v: it returns %.100q", operands, text)
						}
					}
					return nil
				})
			}
			if results == 0 {
				t.Error("no arguments were right: the test says nothing about this function")
			}
		})
	}
}

// textsIn notes all texts of a value.
func textsIn(term *ast.Term, into map[string]bool) {
	ast.WalkTerms(term, func(t *ast.Term) bool {
		if text, ok := t.Value.(ast.String); ok {
			into[string(text)] = true
		}
		return false
	})
}
