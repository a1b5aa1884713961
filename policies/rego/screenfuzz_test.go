package rego

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// FuzzScreen holds that generated modules have the same violations, costs and errors with and without a screen, for generated documents.
// The text of a value decides whether deny holds, so that a screen which computes another value is found.
func FuzzScreen(f *testing.F) {
	for i := range 20 {
		f.Add([]byte(strconv.Itoa(i)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		g := &oddGenerator{moduleGenerator: &moduleGenerator{rand.New(newChoices(data))}} //nolint:gosec // the same modules each time
		module, text := g.compiled()
		if module == nil {
			t.Skip()
		}
		for range 5 {
			object := g.document(3)
			holdSame(t, module, object, g.document(1))
			if t.Failed() {
				t.Fatalf("%s\n%s", object, text)
			}
		}
	})
}

// unusualModules are valid modules, without their package, that few authors would write.
func unusualModules() []string {
	return []string{
		"default f(_) := 3\nf(x) := 1 if x == input.object.b\ndeny contains s if { some v in input.object.list; s := sprintf(\"%v\", [f(v)]) }",
		"f(x) := false if x\nf(x) := true if not x\ndeny contains s if { some v in input.object.list; not f(v); s := sprintf(\"%v\",[v]) }",
		"f(1) := \"one\"\nf(\"a\") := \"a\"\nf([x, _]) := x\nf(null) := \"null\"\nf({\"a\": y}) := y\ndeny contains s if { some v in input.object.list; s := sprintf(\"%v\",[f(v)]) }",
		"f(x, y) := z if { z := [y, x] }\ng(x) := f(x, x)\ndeny contains s if { some v in input.object.list; [p, q] := g(v); s := sprintf(\"%v%v\",[p,q]) }",
		"r := input.object.a.b.c\ndeny contains s if { not r; s := \"x\" }",
		"r := input.object.a[_]\ndeny contains s if { s := sprintf(\"%v\",[r]) }",
		"r if input.object.a\nelse := false if input.object.b\ndeny contains s if { not r; s := \"n\" }",
		"deny contains s if { every k, v in input.object.list { v; k != 1 }; s := \"x\" }",
		"deny contains s if { every v in input.object.list { every w in input.object.list { v == w } }; s := \"x\" }",
		"deny contains s if { not every_ok; s := \"x\" }\nevery_ok if { every v in input.object.list { not v } }",
		"deny contains s if { some i, j; input.object.list[i] == input.object.list[j]; i != j; s := sprintf(\"%v%v\",[i,j]) }",
		"deny contains s if { x := input.object.a; y := input.object.b; x = y; s := \"x\" }",
		"deny contains s if { input.object.a in input.object.list; s := \"x\" }",
		"deny contains s if { some k; input.object[k] == 1; s := k }",
		"deny contains s if { some k; k2 := input.object.b; input.object.a[k2] = k; s := sprintf(\"%v\", [k]) }",
		"deny contains s if { some k; input.object[k][k][k]; s := k }",
		"deny contains s if { {x | some x in input.object.list} == {1, 2}; s := \"x\" }",
		"deny contains s if { count({x | some x in input.object.list}) < count(input.object.list); s := \"x\" }",
		"c contains x if some x in input.object.list\nc contains input.object.a\ndeny contains s if { some x in c; not x in input.object.list; s := sprintf(\"%v\",[x]) }",
		"c[x] := y if some y, x in input.object.list\ndeny contains s if { s := sprintf(\"%v\", [c]) }",
		"c[x] contains y if some y, x in input.object.list\ndeny contains s if { some k, v in c; s := sprintf(\"%v%v\", [k, v]) }",
		"c.a.b := 1 if input.object.a\nc.a.c := 2\nc.d contains 1\ndeny contains s if { s := sprintf(\"%v\",[c]) }\nwarn contains s if { s := sprintf(\"%v\",[c.a[_]]) }",
		"deny contains s if { x := input.object.list[_]; y := x with input.object as {}; s := sprintf(\"%v\",[y]) }",
		"r := input.object.b\ndeny contains s if { r == 1 with input.object.b as 1; s := \"w\" }\nwarn contains s if { s := sprintf(\"%v\", [r]) }",
		"r contains x if { some x in input.object.list; not q[x] }\nq contains 1\nq contains \"a\"\ndeny contains s if { some s in r }",
		"deny contains s if { s := [x | some x in input.object.list; is_string(x)][0] }",
		"deny contains s if { o := {x: y | some y, x in input.object.list}; s := sprintf(\"%v\", [o]) }",
		"deny contains s if { walk(input.object, [p, v]); v == 1; s := sprintf(\"%v\", [p]) }",
		"deny contains s if { a := input.object.a; [x, y] := a[_]; s := sprintf(\"%v-%v\", [x, y]) }",
		"deny contains s if { object.get(input.object, [\"a\", \"b\"], false); s := \"x\" }\nwarn contains s if { s := sprintf(\"%v\", [object.get(input.object, \"zz\", input.object.list[0])]) }",
		"deny contains s if { false == input.object.b; s := \"f\" }\nwarn contains s if { input.object.b == null; s := \"n\" }",
		"deny contains s if { not input.object.a.b.c.d.e; input.object.a; s := \"f\" }",
		"deny contains s if { x := {\"k\": input.object.a}; x.k; s := sprintf(\"%v\", [x[_]]) }",
		"deny contains s if { [x, x] = input.object.a[_]; s := sprintf(\"%v\", [x]) }",
		"deny contains s if { x := input.object.list; x[\"0\"]; s := \"s\" }\nwarn contains s if { x := input.object.list; s := sprintf(\"%v\", [x[1.0]]) }",
		"deny contains s if { x := input.object.list; s := sprintf(\"%v\", [x[input.object.b]]) }",
		"deny contains s if { some x in input.object.list; some y in input.object.list; x < y; s := sprintf(\"%v<%v\", [x, y]) }",
		"deny contains s if { 1 / input.object.a; s := \"d\" }\nwarn contains s if { some x in input.object.list; 1 / (x - 1) > 0; s := \"d\" }",
		"deny contains s if { some x in input.object.list; to_number(x) > 0; s := \"d\" }",
		"deny contains s if { print(input.object.a); input.object.a == 1; s := \"d\" }",
		"deny contains s if { count(deny2) == 0; s := \"none\" }\ndeny2 contains 1 if input.object.a == 1",
		"deny contains s if { x := input; s := sprintf(\"%v\", [x.object.b]) }",
		"deny contains s if { x := data.p.r; s := sprintf(\"%v\", [x]) }\nr := 1 if input.object.a",
		"deny contains s if { x := data.p[\"r\"].z; s := sprintf(\"%v\", [x]) }\nr := {\"z\": v} if v := input.object.a",
		"r := x if { x := input.object.list[_]; x == 2 }\nr := 2 if input.object.a\ndeny contains s if { s := sprintf(\"%v\", [r]) }",
		"deny contains s if { y := [z | z := input.object.list[_]; z != input.object.a]; s := concat(\",\", [sprintf(\"%v\", [q]) | some q in y]) }",
		"a if { some v in input.object.list; b(v) }\nb(x) := y if { some y in input.object.list; y == x }\ndeny contains \"q\" if not a",
		"a := 1 if { b == 2 } else := 2 if { b == 1 } else := 3\nb := 1 if input.object.a == 1\nb := 2 if input.object.b == 2\ndeny contains s if s := sprintf(\"%v\", [a])",
		"deny contains s if { not {x | some x in input.object.list} - {1} == {2}; s := \"x\" }",
		"deny contains s if { some x in [1, 2]; not input.object.list[x]; s := sprintf(\"%d\", [x]) }",
		"deny contains s if { x = [y, z]; y = input.object.a; z = input.object.b; s := sprintf(\"%v\", [x]) }",
		"deny contains s if { x := [y | y := [z | z := input.object.list[_]][_]]; s := sprintf(\"%v\", [x]) }",
		"p[x] if { x := input.object.a }\ndeny contains s if { some k, v in p; s := sprintf(\"%v%v\", [k, v]) }",
		"p[x][y] := 1 if { some x, y in input.object.list }\ndeny contains s if { some k, v in p; s := sprintf(\"%v%v\", [k, v]) }",
		"f(x) if { x }\ndeny contains s if { not f(input.object.b); input.object.a; s := \"n\" }",
		"deny contains s if { x := {1: \"a\", \"1\": \"b\", true: \"c\", null: \"d\", [1]: \"e\"}; s := x[input.object.b] }\nwarn contains s if { x := {1: \"a\", true: \"c\", null: \"d\", [1, 2]: \"e\"}; some k in input.object.list; s := x[k] }",
		"deny contains s if { x := {[1, 2]: \"e\", [1]: \"q\"}; some k in input.object.a; s := x[k] }",
		"st := {[1, 2], [\"x\", null], 1}\ndeny contains s if { some k in input.object.a; st[k]; s := sprintf(\"%v\",[k]) }\nwarn contains s if { some k in input.object.a; k == st[_]; s := \"w\" }",
		"deny contains s if { {\"a\": x, \"b\": 2} = input.object.list[_]; s := sprintf(\"%v\", [x]) }",
		"deny contains s if { x := input.object.list; y := x; z := y[i]; i > 0; s := sprintf(\"%v\", [z]) }",
		"deny contains $\"{input.object.a}-{input.object.zz}\" if input.object.b == 1",
		"deny contains s if { some x in input.object.list; y := [z | input.object.list[z] == x]; s := sprintf(\"%v\", [y]) }",
		"c contains x if some x in input.object.list\nc contains [1, 2]\ndeny contains s if { some x in input.object.a; c[x]; s := sprintf(\"%v\", [x]) }",
		"c[x] := y if { some y, x in input.object.list }\ndeny contains s if { some x in input.object.a; s := sprintf(\"%v\", [c[x]]) }",
		"deny contains s if { every x in input.object.list { x == input.object.list[_] }; s := \"x\" }",
		"r := true if { input.object.b == 1 }\nr := true if { input.object.a == \"x\" }\ndeny contains \"x\" if { r == false }\nwarn contains \"y\" if r",
	}
}

// unusualDocuments are values of object for them.
func unusualDocuments() []string {
	return []string{
		`{}`,
		`{"a":null}`,
		`{"a":"x","b":1}`,
		`{"a":{"b":{"c":1}},"list":[1,2,3],"b":false}`,
		`{"a":[],"list":{"x":1,"y":false}}`,
		`{"a":[[1,2],[1,2.0],["x",null]],"list":["a","b","a"]}`,
		`{"a":1,"b":1.0,"list":[1,1.0,2]}`,
		`{"a":{"1":2},"b":"1","list":[{"a":1,"b":2},{"a":1.0,"b":2}]}`,
		`{"a":true,"b":true,"list":[true,false,null]}`,
		`{"a":"é","b":"e\u0301","list":["\u0000",""]}`,
		`{"a":{"a":{"a":1}},"b":"a","list":[[1,[2,[3]]]]}`,
	}
}

// TestScreenOfUnusualModules holds that these have the same violations, costs and errors with and without a screen.
func TestScreenOfUnusualModules(t *testing.T) {
	for _, text := range unusualModules() {
		module := mustCompile(t, "package p\n"+text)
		for _, object := range unusualDocuments() {
			holdSame(t, module, object, "{}")
			if t.Failed() {
				t.Fatalf("%s\n%s", object, text)
			}
		}
	}
}

// holdSame compares evaluations with and without a screen for a document, and for each text that deny may want.
func holdSame(t *testing.T, module *Module, object, other string) {
	t.Helper()
	if !json.Valid([]byte(object)) {
		t.Fatalf("the document is no JSON: %s", object)
	}
	documents := map[string]any{"object": json.RawMessage(object), "oldObject": json.RawMessage(other), "params": map[string]any{}}
	in := input(t, documents)
	sameWithout(t, module, in, Limits{})
	found, spent, _ := unscreened(module).Measure(in, Limits{})
	sameWithout(t, module, in, Limits{Steps: max(1, spent.Steps-1)})
	wants := []string{"nothing"}
	for i := range min(3, len(found)) {
		wants = append(wants, found[i].Message)
	}
	for _, want := range wants {
		in := in.With("params", map[string]any{"want": want})
		sameWithout(t, module, in, Limits{})
		if module.screen != nil {
			module.screen.left.Store(0)
		}
		if found, _, err := unscreened(module).Measure(in, Limits{}); (err != nil || len(found) > 0) && screened(t, module, in) {
			t.Errorf("the screen decides that nothing holds with %q: %v, %v", want, found, err)
		}
	}
}

// choices are the random numbers of a generator, of which a fuzzer may choose the first ones.
type choices struct {
	data []byte
	more *rand.PCG
}

func newChoices(data []byte) *choices {
	sum := fnv.New64a()
	_, _ = sum.Write(data)
	return &choices{data, rand.NewPCG(sum.Sum64(), 1)}
}

// Uint64 implements rand.Source.
func (c *choices) Uint64() uint64 {
	if len(c.data) < 16 {
		return c.more.Uint64()
	}
	next := binary.LittleEndian.Uint64(c.data)
	c.data = c.data[8:]
	return next
}

// oddGenerator writes modules and documents with unusual values.
type oddGenerator struct {
	*moduleGenerator

	// variables are those that have a value, and count is how many there were.
	variables []string
	count     int
	// from is the first rule that may be referred to.
	from int
}

const oddRules = 3

// compiled writes a module, and writes the lines again that the compiler rejects, such as for their types. It returns nil if that does
// not help.
func (g *oddGenerator) compiled() (*Module, string) {
	rules := g.rules()
	lines := []string{"package generated"}
	for _, write := range rules {
		lines = append(lines, write())
	}
	for range 40 {
		text := strings.Join(lines, "\n")
		module, problems := Compile("generated.rego", text)
		if module != nil {
			return module, text
		}
		for _, p := range problems {
			if at := p.Line - 2; at >= 0 && at < len(rules) {
				lines[at+1] = rules[at]()
			}
		}
	}
	return nil, ""
}

// rules are functions that write a line each.
func (g *oddGenerator) rules() []func() string {
	var rules []func() string
	rule := func(i int, write func() string) {
		rules = append(rules, func() string {
			g.from, g.variables = i, nil
			return write()
		})
	}
	for i := range 1 + g.IntN(2) {
		rule(0, func() string {
			body := g.statements(1+g.IntN(3), 1+g.IntN(2))
			return fmt.Sprintf("%s contains s%d if { %s; s%d := json.marshal(%s); object.get(input.params, \"want\", s%d) == s%d }", g.pick("deny", "deny", "warn"), i, body, i, g.shown(), i, i)
		})
	}
	for i := range oddRules {
		n := strconv.Itoa(i)
		for range 1 + g.IntN(2) {
			rule(i+1, func() string {
				body := g.statements(1+g.IntN(3), 1+g.IntN(2))
				return "r" + n + " := " + g.value(1) + " if { " + body + " }"
			})
		}
		rule(i+1, func() string {
			body := func() string { return g.inner(func() string { return g.statements(1, 1) }) }
			return g.pick("", "default r"+n+" := "+g.literal(), "r"+n+" := "+g.literal()+" if { "+body()+" } else := "+g.literal()+" if { "+body()+" } else := "+g.literal())
		})
		form := g.IntN(3)
		for range 1 + g.IntN(2) {
			rule(i+1, func() string {
				body := g.statements(1+g.IntN(2), 1)
				switch form {
				case 0:
					return "c" + n + " contains " + g.value(1) + " if { " + body + " }"
				case 1:
					return "c" + n + "[" + g.name() + "] := " + g.value(1) + " if { " + body + " }"
				}
				if value := g.value(1); g.IntN(2) == 0 {
					return "c" + n + " := [" + value + " | " + body + "]"
				} else {
					return "c" + n + " := {" + value + " | " + body + "}"
				}
			})
			if form == 2 {
				break
			}
		}
		part := g.IntN(4)
		for range 1 + g.IntN(2) {
			rule(i+1, func() string {
				body := g.statements(1+g.IntN(2), 1)
				head := "d" + n + g.pick(".a", ".b", `["x y"]`, "[1]")
				switch part {
				case 1:
					head = "d" + n + "[" + g.name() + "].a"
				case 2:
					return "d" + n + g.pick(".a", ".b") + " contains " + g.value(1) + " if { " + body + " }"
				case 3:
					return "d" + n + "[" + g.name() + "] contains " + g.value(1) + " if { " + body + " }"
				}
				return head + " := " + g.value(1) + " if { " + body + " }"
			})
		}
		for range 1 + g.IntN(2) {
			rule(i+1, func() string {
				arg, pattern := "x", "x"
				switch g.IntN(6) {
				case 0:
					pattern, arg = "[x, y]", "y"
				case 1:
					pattern, arg = g.literal(), "input.object.a"
				}
				g.variables = append(g.variables, arg)
				body := "_ = " + arg + "; " + g.statements(1+g.IntN(2), 1)
				if pattern == "[x, y]" {
					body = "_ = x; " + body
				}
				made := "f" + n + "(" + pattern + ") := " + g.value(1) + " if { " + body + " }"
				if g.IntN(4) == 0 {
					made += " else := " + g.literal()
				}
				return made
			})
		}
		rule(i+1, func() string { return g.pick("", "", "default f"+n+"(_) := "+g.literal()) })
	}
	return rules
}

// shown writes a value whose text shows what is computed, and in which order.
func (g *oddGenerator) shown() string {
	n := strconv.Itoa(g.IntN(oddRules))
	listed := func(domain string) string { return "[[k, v] | some k, v in " + domain + "]" }
	switch g.IntN(6) {
	case 0:
		return g.value(2)
	case 1:
		return listed(g.domain(2))
	case 2:
		return listed(g.pick("r", "c") + n)
	case 3:
		return "[" + strings.Join(g.variables, ", ") + "]"
	case 4:
		return "[r" + n + ", r" + n + "]"
	}
	return "[f" + n + "(" + g.value(1) + "), c" + n + ", " + listed("f"+n+"("+g.name()+")") + "]"
}

func (g *oddGenerator) fresh() string {
	g.count++
	return "v" + strconv.Itoa(g.count)
}

// name is a variable that has a value, or a literal.
func (g *oddGenerator) name() string {
	if len(g.variables) == 0 || g.IntN(8) == 0 {
		return g.pick(g.literal(), "input.object.a", "input.object.b", "input.object.list", "input.oldObject")
	}
	return g.pick(g.variables...)
}

func (g *oddGenerator) statements(count, depth int) string {
	made := make([]string, 0, count)
	for range count {
		made = append(made, g.statement(depth))
	}
	return strings.Join(made, "; ")
}

// inner writes statements whose variables have no value after them.
func (g *oddGenerator) inner(write func() string) string {
	known := len(g.variables)
	text := write()
	g.variables = g.variables[:known:known]
	return text
}

func (g *oddGenerator) statement(depth int) string {
	one := func() string { return g.value(depth) }
	switch g.IntN(19) {
	case 14:
		set, k := g.pick("c"+strconv.Itoa(min(g.from, oddRules-1)), "{1, 1.0, 2}", g.domain(depth)), g.fresh()
		want := g.name()
		g.variables = append(g.variables, k)
		return "some " + k + "; " + want + " = " + set + "[" + k + "]; _ = " + k
	case 15:
		return g.inner(func() string {
			return g.pick("", "not ") + one() + " with " + g.pick("input.object.a", "input.object.list", "input.object", "input.oldObject") + " as " + g.value(depth-1)
		})
	case 16:
		k, v, n := g.fresh(), g.fresh(), strconv.Itoa(g.from+g.IntN(max(1, oddRules-g.from)))
		if g.from >= oddRules {
			return one()
		}
		g.variables = append(g.variables, k, v)
		return "some " + k + "; " + v + " = " + g.pick("d"+n+"["+k+"]", "d"+n+"["+k+"].a", "d"+n+"["+k+"]["+k+"]", "c"+n+"["+k+"].a", "r"+n+"["+k+"]") + "; _ = " + v + "; _ = " + k
	case 17:
		return g.inner(func() string { return "not { " + g.statements(1+g.IntN(2), depth-1) + " }" })
	case 0:
		return g.pick("input.object.a", "input.object.b", g.ref(), one())
	case 1:
		return g.inner(func() string { return "not " + g.pick("input.object.a", "input.object.b", one()) })
	case 2, 3:
		value, v := one(), g.fresh()
		g.variables = append(g.variables, v)
		return v + g.pick(" := ", " := ", " = ") + value + "; _ = " + v
	case 4:
		return one() + g.pick(" == ", " != ", " < ", " <= ", " > ", " >= ") + one()
	case 5, 6, 7:
		domain, v := g.domain(depth), g.fresh()
		g.variables = append(g.variables, v)
		return "some " + v + " in " + domain + "; _ = " + v
	case 8, 9:
		domain, k, v := g.domain(depth), g.fresh(), g.fresh()
		g.variables = append(g.variables, k, v)
		return "some " + k + ", " + v + " in " + domain + "; _ = " + k + "; _ = " + v
	case 10:
		domain := g.domain(depth)
		return g.inner(func() string {
			k, v := g.fresh(), g.fresh()
			g.variables = append(g.variables, k, v)
			return "every " + k + ", " + v + " in " + domain + " { _ = " + k + "; _ = " + v + "; " + g.statements(1+g.IntN(2), depth-1) + " }"
		})
	case 11:
		value, a, b := one(), g.fresh(), g.fresh()
		g.variables = append(g.variables, a, b)
		return g.pick("["+a+", "+b+"]", "[["+a+", "+b+"], _]", "["+a+", ["+b+", 1]]", `{"a": `+a+`, "b": `+b+`}`) + " = " + value + "; _ = " + a + "; _ = " + b
	case 12:
		value, k := g.ref(), g.fresh()
		g.variables = append(g.variables, k)
		return "some " + k + "; " + value + "[" + k + "]" + g.pick("", "", " == "+g.name(), " = "+g.name(), ".a", "["+k+"]", "[_]", " = "+k) + "; _ = " + k
	case 13:
		return g.inner(func() string { return "not " + one() + g.pick(" == ", " = ", " in ", " < ") + g.name() })
	}
	return one() + g.pick(" in ", " = ") + one()
}

func (g *oddGenerator) ref() string {
	root := g.pick("input.object", "input.object", "input.oldObject", "input.object.list")
	if len(g.variables) > 0 && g.IntN(2) == 0 {
		root = g.pick(g.variables...)
	}
	for range g.IntN(3) {
		root += g.pick(".a", ".b", ".list", `["1"]`, "[0]", "[1]", `[""]`, `["é"]`)
	}
	if len(g.variables) > 0 && g.IntN(4) == 0 {
		root += "[" + g.pick(g.variables...) + "]"
	}
	return root
}

// domain writes what probably has elements.
func (g *oddGenerator) domain(depth int) string {
	one := func() string { return g.value(depth - 1) }
	switch g.IntN(5) {
	case 0:
		return g.value(depth)
	case 1:
		return g.pick("{"+one()+", "+one()+"}", "["+one()+", "+one()+"]", `{"a": `+one()+", "+one()+": "+one()+"}")
	case 2:
		if g.from < oddRules {
			return g.pick("c", "c", "r") + strconv.Itoa(g.from+g.IntN(oddRules-g.from))
		}
	}
	return g.ref()
}

func (g *oddGenerator) value(depth int) string {
	if depth <= 0 {
		return g.pick(g.literal(), g.ref(), g.ref(), g.name(), g.name())
	}
	one := func() string { return g.value(depth - 1) }
	rule := strconv.Itoa(g.from + g.IntN(max(1, oddRules-g.from)))
	if g.from >= oddRules && g.IntN(2) == 0 {
		return g.ref()
	}
	switch n := g.IntN(20); {
	case n < 4 && g.from < oddRules:
		return g.pick("r"+rule, "r"+rule, "c"+rule, "c"+rule, "c"+rule+"["+g.name()+"]", "r"+rule+".a", "r"+rule+"[0]", "d"+rule, "d"+rule+".a", "d"+rule+"["+g.name()+"]")
	case n < 7 && g.from < oddRules:
		return "f" + rule + "(" + one() + ")"
	case n < 9:
		return g.ref()
	case n < 10:
		return g.literal()
	case n < 11:
		return "[" + one() + ", " + one() + "]"
	case n < 12:
		return "{" + one() + ", " + one() + "}"
	case n < 13:
		return "{" + g.pick(`"a"`, one()) + ": " + one() + ", " + g.pick(`"b"`, one()) + ": " + one() + "}"
	case n < 15:
		return g.inner(func() string {
			body := g.statements(1+g.IntN(2), depth-1)
			switch g.IntN(3) {
			case 0:
				return "[" + g.name() + " | " + body + "]"
			case 1:
				return "{" + g.name() + " | " + body + "}"
			}
			return "{" + g.name() + ": " + g.name() + " | " + body + "}"
		})
	case n < 16:
		return g.name()
	}
	switch g.IntN(24) {
	case 0:
		return "count(" + one() + ")"
	case 1:
		return "to_number(" + one() + ")"
	case 2:
		return `sprintf("%v", [` + one() + "])"
	case 3:
		return "object.get(" + one() + ", " + g.pick(one(), `"a"`, `["a", "b"]`, "[0]", "[]") + ", " + one() + ")"
	case 4:
		return "type_name(" + one() + ")"
	case 5:
		return "json.unmarshal(" + one() + ")"
	case 6:
		return one() + g.pick(" + ", " - ", " * ", " / ", " % ", " | ", " & ") + one()
	case 7:
		return "sort(" + one() + ")"
	case 8:
		return g.pick("max", "min", "sum", "object.keys", "abs", "array.reverse", "is_null", "is_array", "upper", "json.is_valid") + "(" + one() + ")"
	case 9:
		return "(" + one() + g.pick(" in ", " < ", " == ", " != ") + one() + ")"
	case 10:
		return "array.concat(" + one() + ", " + one() + ")"
	case 11:
		return "object.union(" + one() + ", " + one() + ")"
	case 12:
		return "split(" + one() + ", " + g.pick(`""`, `"."`, one()) + ")"
	case 13:
		return "concat(" + g.pick(`","`, one()) + ", " + one() + ")"
	case 14:
		return "numbers.range(0, " + g.pick("0", "2", one()) + ")"
	case 15:
		return "regex.match(" + g.pick(`"^a"`, one()) + ", " + one() + ")"
	case 16:
		return "glob.match(" + g.pick(`"*"`, `"a*"`) + ", [], " + one() + ")"
	case 17:
		return "units.parse(" + one() + ")"
	case 18:
		return "array.slice(" + one() + ", 0, " + g.pick("1", one()) + ")"
	case 19:
		return `$"{` + g.name() + `}-{` + g.ref() + `}"`
	case 20:
		return "json.marshal(" + one() + ")"
	case 21:
		return "object.remove(" + one() + ", " + one() + ")"
	case 22:
		return "contains(" + one() + ", " + g.pick(`""`, `"a"`) + ")"
	}
	return "object.subset(" + one() + ", " + one() + ")"
}

func (g *oddGenerator) number() string {
	return g.pick("0", "1", "2", "1.0", "1e0", "10e-1", "0.1", "2.0", "9007199254740992", "9007199254740993", "9007199254740993.0", "100000000000000000000", "18446744073709551616", "1e30")
}

func (g *oddGenerator) text() string {
	return g.pick(`""`, `"a"`, `"b"`, `"1"`, `"1.0"`, `"é"`, `"e\u0301"`, `"a.b"`, `"true"`, `"8Gi"`, `"[1, 1.0]"`, `"{\"a\": 1}"`, `"null"`, `"x\u0000"`, `"1e0"`, `"list"`)
}

// literal writes a value of Rego.
func (g *oddGenerator) literal() string {
	return g.pick(g.number(), g.number(), g.text(), g.text(), "null", "true", "false", "[]", "{}", "set()", "[1, 2]", "{1, 2}", `{"a": 1}`, `{"a": {"b": [1, 1.0]}}`, "{1: 2, true: 3}", `{"1", 1, null, [1]}`, `[[1, "a"], [1.0, "b"]]`)
}

// document writes JSON.
func (g *oddGenerator) document(depth int) string {
	if depth <= 0 {
		return g.pick(g.number(), g.number(), g.text(), g.text(), "null", "true", "false", "[]", "{}", "-0", "-1")
	}
	parts := make([]string, 0, 4)
	switch {
	case depth == 3 || g.IntN(3) == 0:
		names := []string{`"a"`, `"b"`, `"list"`, `"1"`, `""`, `"é"`}
		g.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names[:1+g.IntN(5)] {
			parts = append(parts, name+": "+g.document(depth-1-g.IntN(2)))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case g.IntN(2) == 0:
		for range g.IntN(4) {
			parts = append(parts, g.document(depth-1))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return g.document(0)
}
