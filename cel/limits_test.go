package cel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cel"
)

// slow is the most that an expression may take on a busy machine; on an idle one, none takes half a second.
const slow = 30 * time.Second

// Whatever an expression says, it ends soon, and says why it has no result.
func TestNothingRunsLong(t *testing.T) {
	doubled := "[vm]" + strings.Repeat(".map(x, dyn([x, x]))", 60)
	added := "[[1, 2, 3]]" + strings.Repeat(".map(x, x + x)", 60)
	text := "['abcdefghij']" + strings.Repeat(".map(x, x + x)", 13) + "[0]" // 80 KiB
	ranges := "lists.range(1000)"
	for name, c := range map[string]struct {
		expression string
		want       string // part of the error; empty if there is none
	}{
		"a loop in a loop in a loop": {ranges + ".all(a, " + ranges + ".all(b, " + ranges + ".all(c, a + b + c >= 0)))", "too expensive"},
		"a loop that does nothing":   {"lists.range(1000000).all(a, true)", "too expensive"},
		"a range without end":        {"lists.range(9000000000).size()", "too expensive"},
		"maps of maps":               {ranges + ".map(a, " + ranges + ".map(b, {a: b})).size()", "too expensive"},
		"two variables":              {ranges + ".all(i, a, " + ranges + ".all(j, b, i == j || a != b))", "too expensive"},
		"comparing the VM often":     {ranges + ".all(a, " + ranges + ".all(b, vm == vm))", "too expensive"},
		"comparing untyped values":   {ranges + ".all(a, " + ranges + ".all(b, dyn(vm.spec) == dyn(vm.spec)))", "too expensive"},
		"searching the VM often":     {ranges + ".all(a, " + ranges + ".all(b, vm.spec in [vm.spec, vm.spec]))", "too expensive"},
		"equality of 2^60 values":    {doubled + " == " + doubled, "too expensive"},
		"inequality of 2^60 values":  {doubled + " != " + doubled, "too expensive"},
		"membership of 2^60 values":  {doubled + " in [" + doubled + "]", "too expensive"},
		"a set of 2^60 values":       {"sets.contains([" + doubled + "], [" + doubled + "])", "too expensive"},
		"a result of 2^60 values":    {doubled, "more than 10000 values"},
		"a message of 2^60 values":   {"'%s'.format([" + doubled + "])", "too expensive"},
		"a list of 3*2^60 elements":  {added + ".exists(x, x.exists(y, y > 3))", "too expensive"},
		"sorting them":               {added + ".all(x, x.sort().size() > 0)", "too expensive"},
		"reversing them":             {added + ".all(x, x.reverse().size() > 0)", "too expensive"},
		"flattening them":            {added + ".flatten().size()", "too expensive"},
		"adding them up":             {added + ".all(x, x.sum() > 0)", "too expensive"},
		"pairs of two sets":          {"sets.equivalent(lists.range(9000), lists.range(9000))", "too expensive"},
		"distinct":                   {"lists.range(100000).distinct().size()", "too expensive"},
		"a text of gigabytes":        {text + ".replace('a', " + text + ").size()", "too expensive"},
		"text between the letters":   {text + ".replace('', " + text + ").size()", "too expensive"},
		"joined by a long text":      {"lists.range(10000).map(i, 'x').join(" + text + ").size()", "too expensive"},
		"many digits":                {"'%.999999999f'.format([1.0]).size()", "too expensive"},
		"many digits of an exponent": {"'%.999999999e'.format([1.0]).size()", "too expensive"},
		"a growing text":             {"['x']" + strings.Repeat(".map(x, x + x)", 40) + "[0].size()", "too expensive"},
		"the size of a text often":   {ranges + ".all(a, " + ranges + ".all(b, " + text + ".size() > 0))", "too expensive"},
		"a letter of a text often":   {ranges + ".all(a, " + ranges + ".all(b, " + text + ".charAt(0) == 'a'))", "too expensive"},
		"a text looked up often":     {"[" + text + "].all(t, " + ranges + ".all(a, " + ranges + ".all(b, t in {'a': 1} || true)))", "too expensive"},
		"a number of many digits":    {"[" + strings.ReplaceAll(text, "abcdefghij", "1234567890") + "].all(t, " + ranges + ".all(a, " + ranges + ".all(b, double(t) > 0.0)))", "too expensive"},
		"a million of optionals":     {"['x'].map(x, [optional.of(x)])" + strings.Repeat(".map(x, x + x)", 40) + ".all(x, optional.unwrap(x).size() > 0)", "too expensive"},
		"a bad pattern":              {text + ".matches('" + strings.Repeat("(a?){30}", 40) + "')", "compile: [1:1: the regular expressions take"},
		"a bad pattern, computed":    {text + ".matches(vm.metadata.name + '" + strings.Repeat("(a?){30}", 40) + "')", "too expensive"},
		"finding all":                {text + ".findAll('" + strings.Repeat("(a?){30}", 10) + "').size()", "too expensive"},
		"matching often":             {ranges + ".all(a, " + ranges + ".all(b, !'aaaaaaaaaaaaaaaaaaaaaaaaaa'.matches('(a*)*b')))", "too expensive"},
		"a huge exponent":            {"quantity('1e999999999').isGreaterThan(quantity('1'))", "too expensive"},
		"huge exponents added":       {ranges + ".all(a, quantity('1e18').add(quantity('1e-9')).sub(quantity('1e18')).isInteger() || true)", ""},
		"a deep text of parentheses": {strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000), "compile"},
		"a long sum":                 {"1" + strings.Repeat("+1", 7000), "compile"},
		"many long patterns":         {"[" + strings.Repeat("vm.metadata.name.matches('^\\\\pL{900}$'),", 400) + "true].size()", "compile: [1:1: the regular expressions take"},
		"a long name":                {"[" + strings.Repeat("vm.spec."+strings.Repeat("a", 1500)+",", 10) + "1]", "compile"},
		"types of 2^60 types":        {"[1]" + strings.Repeat(".map(a, {a: a})", 60), "compile: [1:1: lists and maps are too deep"},
		"types of entries":           {"{'a': 1}" + strings.Repeat(".transformMap(k, v, {v: v})", 30), "compile: [1:1: lists and maps are too deep"},
		"types of 100 maps":          {"[" + strings.Repeat(strings.Repeat("{'a':", 100)+"1"+strings.Repeat("}", 100)+",", 26) + "1]", "compile: [1:1: lists and maps are too deep"},
		"a long text":                {"'" + strings.Repeat("x", 20000) + "' == ''", "compile"},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			s := scope(t, cel.ScopeOptions{Kinds: []string{apikinds.VirtualMachine}})
			var got string
			p, issues := s.Compile(c.expression, cel.Any)
			if len(issues) > 0 {
				got = fmt.Sprint("compile: ", issues)
			} else if _, err := p.Eval(s.Activation(documents()), cel.NewBudget()); err != nil {
				got = err.Error()
			}
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("the error is %.300q, it should say %q", got, c.want)
			}
			if took := time.Since(begin); took > slow {
				t.Errorf("it took %s", took)
			} else {
				t.Logf("%s, %.150s", took, got)
			}
		})
	}
}

// The types of variables are as bounded as those of one expression.
func TestTypesOfVariablesCannotExplode(t *testing.T) {
	variables := []cel.Expression{{Name: "v0", Expression: "vm.metadata.name"}}
	for i := range 40 {
		variables = append(variables, cel.Expression{Name: fmt.Sprintf("v%d", i+1), Expression: fmt.Sprintf("{variables.v%d: variables.v%d}", i, i)})
	}
	e, err := environment()
	if err != nil {
		t.Fatal(err)
	}
	_, problems := e.Scope(cel.ScopeOptions{Kinds: []string{apikinds.VirtualMachine}, Variables: variables})
	if len(problems) == 0 || !strings.Contains(problems[0].Message, "lists and maps are too deep") {
		t.Errorf("the problems are %.300v", problems)
	}
}

// What expressions make of lists, maps and patterns in practice is not too large.
func TestUsualTypesAndPatternsAreValid(t *testing.T) {
	const label = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
	s := scope(t, cel.ScopeOptions{Kinds: []string{apikinds.VirtualMachine}})
	for _, expression := range []string{
		"vm.metadata.name.matches('^" + label + "([.]" + label + ")*$')",
		"{'a': [{'b': {'c': [{'d': {'e': [1]}}]}}]} != {}",
		"vm.spec.domain.devices.disks.map(d, {d.name: {d.name: {d.name: [d.name]}}}).size() >= 0",
		"[3, 1]" + strings.Repeat(".sortBy(a, -a)", 40) + ".size() == 2",
		"[[1]]" + strings.Repeat(".map(a, a.filter(b, b > 0))", 40) + ".size() == 1",
		"{'a': 1}" + strings.Repeat(".transformMap(k, v, v + 1)", 40) + ".size() == 1",
		"[" + strings.Repeat("[1, 2].map(i, {string(i): i}), ", 100) + "[]].size() > 0",
	} {
		if _, problems := s.Compile(expression, cel.Bool); len(problems) > 0 {
			t.Errorf("%.100s: %v", expression, problems)
		}
	}
}

// Variables that double each other are as bounded as one expression.
func TestVariablesCannotExplode(t *testing.T) {
	variables := []cel.Expression{{Name: "v0", Expression: "['abcdefghij', vm.spec.architecture]"}}
	for i := range 60 {
		variables = append(variables, cel.Expression{
			Name: fmt.Sprintf("v%d", i+1), Expression: fmt.Sprintf("dyn([variables.v%d, variables.v%d])", i, i),
		})
	}
	s := scope(t, cel.ScopeOptions{Kinds: []string{apikinds.VirtualMachine}, Variables: variables})
	begin := time.Now()
	_, err := evaluate(t, s, documents(), "variables.v60 == variables.v60")
	if !errors.Is(err, cel.ErrExpensive) {
		t.Errorf("the error is %v, not that it is too expensive", err)
	}
	if took := time.Since(begin); took > slow {
		t.Errorf("it took %s", took)
	}
}
