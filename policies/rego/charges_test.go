package rego

import (
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
)

// sizeExample are arguments of a size, and what they are charged.
type sizeExample struct {
	operands           []string
	keeps, takes, work int
}

// examples are some for each class, by the name of its first function: what it is charged, computed from the words of its row.
func examples() map[string][]sizeExample {
	text := func(length int) string { return `"` + strings.Repeat("a", length) + `"` }
	digits := func(length int) string { return strings.Repeat("7", length) }
	const value = 8
	return map[string][]sizeExample{
		"assign": {},
		"object.get": {
			{[]string{`{"a": ` + text(1000) + `}`, `"a"`, "1"}, 0, 0, 0},
			{[]string{`{"a": ` + text(1000) + `}`, `["a", 7, null]`, "1"}, 0, 0, 0},
			{[]string{`{"a": ` + text(1000) + `}`, "0.5", "1"}, 0, 0, (value + value + 1 + value + 1000 + value + 3) / 256},
			{[]string{`{"a": ` + text(1000) + `}`, `["a", ["b"]]`, text(1000)}, 0, 0, (3*value + 1001 + 4*value + 2) / 256},
		},
		"equal": {
			{[]string{text(1000), text(1000)}, 0, 0, (2*value + 2000) / 256},
			{[]string{text(1000), "1"}, 0, 0, 0},
			{[]string{"1", `[` + text(1000) + `]`}, 0, 0, (value + 1 + 2*value + 1000) / 256},
			{[]string{`[` + text(1000) + `]`, "1"}, 0, 0, 0},
			{[]string{digits(640), "1"}, 0, 0, 1 + 640/8},
			{[]string{"1", "[" + digits(40) + ", " + digits(60) + "]"}, 0, 0, (4*value+101)/256 + 1 + 40/8 + 1 + 60/8},
		},
		"plus": {
			{[]string{"1", "2"}, 0, 0, 8},
			{[]string{digits(20), digits(20)}, 0, 0, 8},
			{[]string{digits(40), digits(60)}, 32*(2*value+100) + 64*100, 0, 8 + 100/8 + 100*100/512},
		},
		"bits.lsh":           {{[]string{"1", "640"}, 0, 0, 8 + 10}},
		"numbers.range":      {{[]string{"1", "100"}, 256 * 100, 0, 0}},
		"numbers.range_step": {{[]string{"1", "100", "3"}, 256 * 34, 0, 0}},
		"product":            {{[]string{"[" + digits(500) + ", " + digits(500) + "]"}, 32*(3*value+1000) + 16*1000, 0, (3*value+1000)/1024 + 1000*1000/1024}},
		"sum":                {{[]string{"[" + digits(1000) + "]"}, 0, 32 * (2*value + 1000), (2*value + 1000) / 128}},
		"max":                {{[]string{"[" + digits(400) + ", 1]"}, 0, 0, (3*value+401)/512 + 1 + 400/8}},
		"trim":               {{[]string{text(1000), `"a"`}, 0, 0, (2*value + 1001) / 512}, {[]string{text(70000), `"é"`}, 0, 0, (2*value+70002)/512 + 70000*2/65536}},
		"indexof":            {{[]string{text(1000), `"a"`}, 8 * (2*value + 1001), 0, (2*value + 1001) / 64}, {[]string{text(10000), `"é"`}, 8 * (2*value + 10002), 0, (2*value+10002)/64 + 10000*2/8192}},
		"count":              {{[]string{text(1000)}, 0, 0, (value + 1000) / 512}},
		"json.is_valid":      {{[]string{text(1000)}, 0, 20 * (value + 1000), (value + 1000) / 64}},
		"strings.count":      {{[]string{text(1000), `"a"`}, 8 * (2*value + 1001), 0, (2*value + 1001) / 64}},
		"and": {
			{[]string{"{" + text(1000) + "}", `{"a"}`}, 16 * (4*value + 1001), 0, (4*value + 1001) / 64},
			// Three lists with one hash are compared with each other, 3 pairs, also if they are in different sets. Equal ones are none.
			{[]string{`{["` + strings.Repeat("a", 992) + `", 1, 3], ["` + strings.Repeat("a", 992) + `", 2, 2]}`, `{["` + strings.Repeat("a", 992) + `", 3, 1], ["` + strings.Repeat("a", 992) + `", 2, 2]}`}, 16 * (2*value + 4*(4*value+994)), 0, (2*value+4*(4*value+994))/64 + 3*(4*value+994)/256},
			{[]string{`{["` + strings.Repeat("a", 992) + `", 1, 3], ["` + strings.Repeat("a", 992) + `", 2, 2], ["` + strings.Repeat("a", 992) + `", 3, 1]}`, "set()"}, 16 * (2*value + 3*(4*value+994)), 0, (2*value+3*(4*value+994))/64 + 3*(4*value+994)/256},
		},
		"sort": {{[]string{"[" + digits(400) + ", 1]"}, 8 * (3*value + 401), 0, (3*value+401)/64 + 1 + 400/8}},
		"graph.reachable": {
			{[]string{`{"a": [` + text(1000) + `]}`, `["a"]`}, 16 * (6*value + 1002), 0, (6*value + 1002) / 64},
			// Three lists with one hash are edges, so that they are 3 pairs.
			{[]string{`{"a": [["` + strings.Repeat("a", 992) + `", 1, 3], ["` + strings.Repeat("a", 992) + `", 2, 2]], "b": [["` + strings.Repeat("a", 992) + `", 3, 1]]}`, "[]"}, 16 * (6*value + 2 + 3*(4*value+994)), 0, (6*value+2+3*(4*value+994))/64 + 3*(4*value+994)/256},
		},
		"object.subset": {
			{[]string{text(1000), text(1000)}, 0, 20 * (2*value + 2000), (2*value + 2000) / 64},
			// The list of the first value has 3 elements, at depth 2.
			{[]string{`{"a": {"b": [1, 2, 3]}}`, `{"a": {"b": [` + text(1000) + `]}}`}, 0, 20 * (14*value + 1007), (14*value+1007)/64 + (2+3)*(6*value+1002)/1024},
		},
		"minus": {
			{[]string{"1", "2"}, 0, 0, 8},
			{[]string{"{" + text(1000) + "}", `{"a"}`}, 16 * (4*value + 1001), 0, (4*value + 1001) / 64},
		},
		"json.marshal": {{[]string{text(1000)}, 32 * (value + 1000), 0, (value + 1000) / 64}},
		"json.patch":   {{[]string{"{}", `["a", "b"]`}, 16 * (4*value + 2) * 3, 0, 0}},
		// The list has depth 1, its element 2.
		"json.marshal_with_options": {{[]string{"[1]", `{"a": 1}`}, 16 * ((5*value + 3) + (3*value+2)*(2+3)), 0, 0}},
		"walk":                      {{[]string{"[1]"}, 64*(2*value+1) + 24*(1+2), 0, 0}},
		"split":                     {{[]string{text(1000), `","`}, 192 * (2*value + 1001), 0, 0}},
		"urlquery.decode_object":    {{[]string{text(1000)}, 384 * (value + 1000), 0, (value + 1000) / 1024}},
		"yaml.is_valid": {
			{[]string{text(1000)}, 0, 768 * (value + 1000), 0},
			{[]string{`"a: &a [xyz]\nb: *a\n"`}, 0, 768*(value+18) + 512*2 + 16*3, 0},
		},
		"yaml.unmarshal":    {{[]string{text(1000)}, 768 * (value + 1000), 0, 0}},
		"yaml.marshal":      {{[]string{text(1000)}, 640 * (value + 1000), 0, (value + 1000) / 1024}},
		"concat":            {{[]string{text(10), `["a", "b"]`}, 8*(4*value+12) + 8*10*2, 0, 0}},
		"replace":           {{[]string{text(1000), `"a"`, `"b"`}, 8 * (3*value + 1002), 0, (3*value + 1002) / 1024}, {[]string{text(1000), text(10), text(100)}, 8 * (3*value + 1110 + 101*100), 0, (3*value + 1110 + 101*100) / 1024}, {[]string{`"a"`, text(4096), `""`}, 8 * (3*value + 4097), 0, (3*value+4097)/1024 + 4096*4096/2048}},
		"strings.replace_n": {{[]string{`{"a": ` + text(9) + `}`, text(99)}, 8*100*10 + 512*(3*value+10), 0, 0}},
		"sprintf": {
			{[]string{`"%s"`, "[" + text(1000) + "]"}, 12 * (3*value + 1002), 0, 0},
			{[]string{`"%100d"`, "[1]"}, 12 * (3*value + 6 + 100), 0, 0},
			{[]string{`"%x"`, "[1]"}, 48 * (3*value + 3), 0, 0},
			{[]string{`"%[1]v"`, "[1]"}, 12 * (3*value + 6 + 1 + 2*value + 1), 0, 0},
		},
		"regex.is_valid": {
			{[]string{text(80)}, 0, 2048 * 80, 80},
			{[]string{`"\\pL"`}, 0, 2048 * (3 + 96), 3 + 96},
			// The second range ends with the character 1000.
			{[]string{`"(?i)[a-z][A-Ϩ]"`}, 0, 2048 * 15, 15 + 1000/64},
		},
		"regex.match":          {{[]string{text(80), text(99)}, 0, 2048*80 + 32*80*100, 80/8 + 80*100/64}},
		"regex.template_match": {{[]string{text(80), text(100), `"{"`, `"}"`}, 0, 4096 * 80, 80 + 80*100/64}},
		"regex.replace":        {{[]string{text(99), text(80), text(9)}, 16 * 100 * 10, 2048*80 + 32*80*100, 80/8 + 80*100/64}},
		"regex.split": {
			{[]string{text(80), text(99)}, 192 * (99 + 8), 2048*80 + 32*80*100, 80/8 + 80*100/64},
			{[]string{`"a+|b*"`, text(99)}, 192 * (99 + 8), 2048*5 + 32*5*100, 5 * 100 / 64},
			// It is looked for 1, 2, 4 and 8 matches. There are 5, for which the text is read once more.
			{[]string{`"a+b|bbaa"`, `"bbaabbaabbaabbaabbaa"`}, 192 * (20 + 8), 2048*8 + 32*8*21 + 64*(1+2+4+8), 1 + 8*21/64 + 1 + (1+2+4+8+5)*(8*21/64)},
		},
		"glob.match":    {{[]string{`"a{b,*}"`, `["."]`, text(640)}, 0, 512*(6+2*value+1) + 4*2*640, (6+2*value+1+640)/64 + (6+2*value+1)*640/512}},
		"time.add_date": {{[]string{"1", "2", "3", "4"}, 1 << 10, 0, 8}, {[]string{`[1, "Europe/Berlin"]`, "1", "1", "1"}, 1 << 10, 0, 8 + 150}},
		"time.format":   {{[]string{`[1, "Europe/Berlin"]`}, 8 * (3*value + 14), 0, 150}},
		"time.parse_ns": {{[]string{text(1000), text(1000)}, 0, 32 * (2*value + 2000), (2*value + 2000) / 1024}},
		"time.parse_rfc3339_ns": {
			{[]string{text(1000)}, 0, 32 * (value + 1000), (value + 1000) / 128},
		},
	}
}

// TestChargesAreWhatTheTableSays holds the words of docs/policy-limits.md to the charges: each class has an example whose charge is computed
// from its words.
func TestChargesAreWhatTheTableSays(t *testing.T) {
	all := examples()
	for _, class := range classes() {
		name := class.names[0]
		t.Run(name, func(t *testing.T) {
			found, ok := all[name]
			if !ok {
				t.Fatal("the class has no example")
			}
			if class.guard == nil {
				return
			}
			if len(found) == 0 {
				t.Fatal("the class has no example")
			}
			for _, example := range found {
				operands := make([]*ast.Term, len(example.operands))
				for i, operand := range example.operands {
					operands[i] = ast.MustParseTerm(operand)
				}
				total := charge{}
				for next := func() (charge, error) { return class.guard(operands) }; next != nil; {
					c, err := next()
					if _, known := err.(answer); err != nil && !known { //nolint:errorlint // never wrapped
						t.Fatalf("%v: %v", operands, err)
					}
					total.keeps, total.takes, total.work, next = total.keeps+c.keeps, total.takes+c.takes, total.work+c.work, c.then
				}
				if total.keeps != example.keeps || total.takes != example.takes || total.work != example.work {
					t.Errorf("%.80v: it keeps %d and takes %d bytes, and costs %d steps, want %d, %d and %d", operands, total.keeps, total.takes, total.work, example.keeps, example.takes, example.work)
				}
			}
		})
	}
}
