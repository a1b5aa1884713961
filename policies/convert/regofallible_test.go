package convert_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/convert"
)

// randomTexts returns random texts of a few characters.
func randomTexts(count, length int, characters string) []string {
	random := rand.New(rand.NewPCG(7, 8)) //nolint:gosec // reproducible
	all := make([]string, count)
	for i := range all {
		text := make([]rune, 1+random.IntN(length))
		for j := range text {
			text[j] = []rune(characters)[random.IntN(len([]rune(characters)))]
		}
		all[i] = string(text)
	}
	return all
}

// TestReadNumber compares the form of numbers with what to_number of OPA reads. A number beyond its range has the form, too.
func TestReadNumber(t *testing.T) {
	toNumber, form := topdown.GetBuiltin(ast.ToNumber.Name), regexp.MustCompile(convert.ReadNumber)
	read := 0
	for _, text := range append(randomTexts(100_000, 8, "0017xXpPeE+-._af"),
		"1e100", "1E+200", "0x1p4", "1_000", strings.Repeat("0", 101)+"9", "inf", "NaN", "0b1", "0o7", "0x10", "1__0", " 1", "", "0x_1p4", "1e1_0", "٣") {
		err := toNumber(topdown.BuiltinContext{}, []*ast.Term{ast.StringTerm(text)}, func(*ast.Term) error { return nil })
		if form.MatchString(text) != (err == nil) && !errors.Is(err, strconv.ErrRange) {
			t.Errorf("%q: OPA says %v", text, err)
		}
		if err == nil {
			read++
		}
	}
	if read < 1000 {
		t.Errorf("only %d texts are numbers", read)
	}
}

// TestSpans compares the form of times with what Go reads.
func TestSpans(t *testing.T) {
	form := regexp.MustCompile(convert.SpanPattern)
	const most = "2499999h99999m99999m99999m99999m99999m99999m99999m99999m99999m99999m99999m"
	read := 0
	for _, text := range append(randomTexts(100_000, 7, "0019nuµμmshh.+-"), "1000000h", "2499999.9h", "1000000h0m0s", most, "-"+most,
		"149999999.9m", "8999999999.9s", "8999999999999.9ms", "8999999999999999.9µs", "8999999999999999999ns", "99999h99999h", "0000000001h", "", "h", "3000000h") {
		_, err := time.ParseDuration(text)
		if form.MatchString(text) != (err == nil) {
			t.Errorf("%q: Go says %v", text, err)
		}
		if err == nil {
			read++
		}
	}
	if read < 1000 {
		t.Errorf("only %d texts are times", read)
	}
}

// annotated returns requests for a machine with 3 cores and the annotation n, and what policies read of them.
func annotated(t testing.TB, annotations []string) (requests []map[string]any, documents []*cel.Documents) {
	t.Helper()
	for _, annotation := range annotations {
		_, object := machine(t, map[string]any{
			"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": map[string]any{"name": "a", "namespace": "team-a", "annotations": map[string]any{"n": annotation}},
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"domain": map[string]any{"cpu": map[string]any{"cores": int64(3)}}}}},
		})
		requests = append(requests, map[string]any{
			"operation": "CREATE", "namespace": "team-a", "object": object, "userInfo": map[string]any{"username": "alice", "groups": []any{}},
		})
	}
	return requests, requestsOf(t, requests)
}

// converted returns the result for a template, which is a policy, and the policy in a set.
func (r *regoTemplate) converted(t testing.TB, name string) ([]convert.Result, *policies.Set) {
	t.Helper()
	results := convert.Convert(environment(t), r.objects(t), effective.AlwaysSet())
	if len(results) != 1 || results[0].Policy == nil {
		t.Fatalf("%s: %s", name, printed(t, results))
	}
	compiled, problems := policies.Compile(environment(t), results[0].Policy, nil)
	if compiled == nil {
		t.Fatalf("%s: %v\n%s", name, problems, printed(t, results))
	}
	return results, policies.NewSet("virtward-system", compiled)
}

// TestErrorsOfRego compares converted templates with OPA, which ignores the errors of functions. A policy has each violation of its original;
// it has another one only if a note or the length of a text says so.
func TestErrorsOfRego(t *testing.T) {
	const (
		text  = "n := input.review.object.metadata.annotations.n; "
		cores = "cores := input.review.object.spec.template.spec.domain.cpu.cores; "
	)
	annotations := []string{"", "5", "1e100", "1E+200", "0x1p4", "1_000", "9_", "0x10", strings.Repeat("0", 101) + "9", "1e999", "inf", "a", "abc", "(", "a*", "[", "-1"}
	requests, documents := annotated(t, annotations)
	for _, c := range []struct {
		name, body, rules string
		// noted is the function that has a note; empty for the same violations.
		noted string
	}{
		{"a number", text + "to_number(n) > 4", "", ""},
		{"no number", text + "not to_number(n) > 4", "", ""},
		{"a number in a function", text + "large(n)", "large(x) { to_number(x) > 4 }", ""},
		{"a number in a set", text + "count({x | x := to_number(n)}) == 1", "", ""},
		{"a number in a list", text + "[x | x := to_number(n); x > 4] == []", "", ""},
		{"a number as an argument", text + "to_number(n, y); y > 4", "", ""},
		{"a quotient as an argument", text + cores + "div(cores, count(n), y); y >= 1", "", ""},
		{"a remainder as an argument", text + cores + "rem(cores, count(n), y); y == 0", "", ""},
		{"a part as an argument", text + "substring(n, count(n) - 1, 1, y); y == \"a\"", "", ""},
		{"half of a text", text + "not n / 2 > 1", "", ""},
		{"the remainder of a fraction", text + cores + "x := cores / 2; not x % 2 == 1", "", ""},
		{"a part of half a length", text + cores + "not substring(\"abc\", 0, cores / 2) == \"z\"", "", ""},
		{"a range", cores + "not numbers.range(1, cores / 2)[0] == 2", "", "numbers.range"},
		{"a pattern", text + "regex.match(n, \"b\")", "", "regex.match"},
		{"a replaced pattern", text + "not regex.replace(\"b\", n, \"c\") == \"c\"", "", "regex.replace"},
		{"a glob", text + "glob.match(n, [], \"b\")", "", "glob.match"},
		{"a place", text + "not indexof(\"b\", n) > 1", "", "indexof"},
		{"a formatted text", text + "not format_int(n, 10) == \"1\"", "", "format_int"},
		{"the sum of a text", text + "not sum([n]) == 1", "", "sum"},
		{"the amount of a text", text + "not abs(n) == 1", "", "abs"},
		{"a field of a text", text + "not object.get(n, \"a\", 1) == 2", "", "object.get"},
		{"a text and a number", text + "not n + 1 > 2", "", "plus"},
		{"a name of two variables", text + "count([1 | x := 1; x + 1 > 0]) == 1; x = n; not x + 1 > 2", "", "plus"},
		{"a text times a number", text + "not n * 2 > 2", "", "mul"},
		{"a text less a number", text + "not n - 2 > 2", "", "minus"},
	} {
		template := &regoTemplate{Name: "X", Rego: fmt.Sprintf("package x\nviolation[{\"msg\": \"x\"}] { %s }\n%s\n", c.body, c.rules)}
		results, set := template.converted(t, c.name)
		noted := slices.ContainsFunc(results[0].Notes, func(n convert.Note) bool {
			return c.noted != "" && strings.HasPrefix(n.Message, c.noted+": a value that a function cannot read")
		})
		if noted != (c.noted != "") {
			t.Errorf("%s: the notes are %v", c.name, results[0].Notes)
		}
		original, stricter := template.query(t), 0
		for i, request := range requests {
			want, got := len(original(request)) > 0, len(messagesOf(set, documents[i])) > 0
			long := annotations[i] == "1e999" || len(annotations[i]) > 100
			if want && !got || got != want && !long && c.noted == "" {
				t.Errorf("%s with %q: Gatekeeper %t, here %t\n%s", c.name, annotations[i], want, got, printed(t, results))
			}
			if got && !want {
				stricter++
			}
		}
		if c.noted != "" && stricter == 0 {
			t.Errorf("%s: the note says that there are more violations, and there is none", c.name)
		}
	}
}

// TestNamesOfFunctions compares converted templates with OPA. Their rules have the names of functions, and replace these in their own package
// only.
func TestNamesOfFunctions(t *testing.T) {
	const text = "n := input.review.object.metadata.annotations.n; "
	annotations := []string{"", "5", "x", "abc", "-1"}
	requests, documents := annotated(t, annotations)
	for _, c := range []struct{ name, body, rules, library string }{
		{"to_number", text + "to_number(n) == 7", "to_number(x) = 7 { true }", ""},
		{"div", text + "div(n, 1) == 9", "div(a, b) = 9 { true }", ""},
		{"an operator", text + "count(n) / 1 > 2", "div(a, b) = 9 { true }", ""},
		{"startswith", text + "startswith(n, \"a\")", "startswith(x, y) { x == \"5\" }", ""},
		{"a function that Rego v1 does not have", text + "any(n)", "any(n) { n == \"5\" }", ""},
		{"a function of an older name", text + "re_match(n, 1)", "re_match(n, x) { n == \"5\" }", ""},
		{"a rule", text + "sprintf == n", "sprintf = \"5\" { true }", ""},
		{"a variable", text + "to_number := \"5\"; n == to_number", "", ""},
		{"a part of a guard", text + "substring(n, 0, 1) == \"a\"; floor(1) == 3", "floor(x) = 3 { true }", ""},
		{"a function of a library", text + "data.lib.l.f(n)", "count(x) = 0 { true }", "package lib.l\nf(x) { count(x) == 3 }"},
		{"a guard of a library", text + "data.lib.l.f(n)", "to_number(x) = 0 { true }", "package lib.l\nf(x) { to_number(x) == 5 }"},
		{"the first name of a function", text + "data.lib.l.f(n)", "regex = 1 { true }", "package lib.l\nf(x) { regex.match(\"^x\", x) }"},
		{"a library and its rule", text + "data.lib.is.string == 5; to_number(n) == 5", "", "package lib.is\nstring = 5 { true }"},
	} {
		template := &regoTemplate{Name: "X", Rego: fmt.Sprintf("package x\nviolation[{\"msg\": \"x\"}] { %s }\n%s\n", c.body, c.rules)}
		if c.library != "" {
			template.Libs = []string{c.library}
		}
		results, set := template.converted(t, c.name)
		original, violated := template.query(t), false
		for i, request := range requests {
			want, got := len(original(request)) > 0, len(messagesOf(set, documents[i])) > 0
			if violated = violated || want; got != want {
				t.Errorf("%s with %q: Gatekeeper %t, here %t\n%s", c.name, annotations[i], want, got, printed(t, results))
			}
		}
		if !violated {
			t.Errorf("%s: no request has a violation", c.name)
		}
	}
}

// TestReplacedFunctions leaves templates that replace a function by "with" which has another form in the policy.
func TestReplacedFunctions(t *testing.T) {
	for function, converted := range map[string]bool{"to_number": false, "div": false, "re_match": false, "regex.match": false, "startswith": true} {
		body := "to_number(n) == 5; startswith(n, \"a\") with " + function + " as f"
		template := &regoTemplate{Name: "X", Rego: "package x\nviolation[{\"msg\": \"x\"}] { n := input.review.object.metadata.name; " + body + " }\nf(x) = 5 { true }\nf2(x, y) { true }\n"}
		if function != "to_number" {
			template.Rego = strings.Replace(template.Rego, "as f ", "as f2 ", 1)
		}
		text := printed(t, convert.Convert(environment(t), template.objects(t), effective.AlwaysSet()))
		if left := strings.Contains(text, "it replaces the function "+function+" by \"with\""); left == converted {
			t.Errorf("%s:\n%s", function, text)
		}
	}
}

// TestManyValues: variables with several values each do not multiply what is followed.
func TestManyValues(t *testing.T) {
	body := strings.Repeat("count([1 | v6 := 1; v5 := v6; v4 := v5; v3 := v4; v2 := v3; v1 := v2; v0 := v1; v0 + 1 > 0]) > 0; ", 25)
	template := &regoTemplate{Name: "X", Rego: "package x\nviolation[{\"msg\": \"x\"}] { " + body + "input.review.object.metadata.name == \"a\" }"}
	text := printed(t, convert.Convert(environment(t), template.objects(t), effective.AlwaysSet()))
	if strings.Contains(text, "plus: a value that a function cannot read") {
		t.Error(text)
	}
}
