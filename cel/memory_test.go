package cel

import (
	"strings"
	"testing"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/isolated"
)

// TestEveryFunctionIsCharged fails when the environment has a function that is in no table: what makes
// something large belongs into makes, all others into small.
func TestEveryFunctionIsCharged(t *testing.T) {
	e, err := NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	functions := e.base.Functions()
	for name := range functions {
		_, large := makes[name]
		if large == small[name] {
			t.Errorf("%s: it makes much: %t, and it is small: %t", name, large, small[name])
		}
	}
	for name := range makes {
		if functions[name] == nil {
			t.Errorf("the environment has no function %s", name)
		}
	}
	for name := range small {
		if functions[name] == nil {
			t.Errorf("the environment has no function %s", name)
		}
	}
}

// TestWhatExpressionsTake evaluates what makes as much as it can of a text of 1.5 MB, and holds the memory that is taken
// against the limit.
func TestWhatExpressionsTake(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	e, err := NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	s, issues := e.Scope(ScopeOptions{Kinds: []string{apikinds.VirtualMachineInstance}, Variables: []Expression{
		{"text", "vm.metadata.annotations['a']"},
		{"list", "lists.range(20000).map(i, [i, i, i, i, i, i, i, i])"},
		{"half", "lists.range(5000).map(i, string(i))"},
		{"again", "lists.range(5000).map(i, variables.half[i] + 'x')"},
	}})
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	const most = 3*MemoryLimit + 1<<20
	for _, expression := range []string{
		"variables.text.split('').size() > 0", "variables.text.split(',').size() > 0", "variables.text.split(',', 5000).size() > 0",
		"lists.range(1000).all(i, variables.text.charAt(i) != 'x')", "lists.range(1000).all(i, variables.text.indexOf('x', i) < 0)", "lists.range(1000).all(i, variables.text.lastIndexOf('x') < 0)",
		"lists.range(1000).all(i, variables.text.substring(i) != 'x')", "lists.range(1000).all(i, variables.text.upperAscii() != 'x')", "lists.range(1000).all(i, variables.text.lowerAscii() != 'x')",
		"lists.range(1000).all(i, (variables.text + 'x') != 'x')", "lists.range(1000).all(i, strings.quote(variables.text) != 'x')",
		"lists.range(1000).all(i, bytes(variables.text).size() > 0)", "lists.range(1000).all(i, variables.text.replace('a', 'bb') != 'x')", "lists.range(1000).all(i, '%s'.format([variables.text]) != 'x')",
		"lists.range(1000).all(i, [variables.text, variables.text].join(',') != 'x')", "lists.range(1000).all(i, variables.text.findAll('a').size() > 0)", "variables.text.findAll('a').size() > 0", "variables.text.findAll('(a|,)').size() > 0",
		"lists.range(1000).all(i, !isURL(variables.text))", "lists.range(1000).all(i, !isSemver(variables.text))", "lists.range(1000).all(i, !isQuantity(variables.text))", "lists.range(1000).all(i, !isIP(variables.text))", "lists.range(1000).all(i, !isCIDR(variables.text))", "lists.range(1000).exists(i, int(variables.text) > 0)", "lists.range(1000).exists(i, duration(variables.text) > duration('1s'))", "lists.range(1000).exists(i, ip(variables.text).family() == 4)",
		"lists.range(900000).size() > 0", "lists.range(100).map(i, lists.range(100)).size() > 0", "lists.range(100).map(i, lists.range(10000)).size() > 0", "variables.list.size() > 0", "variables.half.size() + variables.again.size() > 0",
		"lists.range(40000).map(i, {'a': i, 'b': i, 'c': i}).size() > 0", "lists.range(20000).transformMap(i, v, i).size() > 0", "lists.range(20000).map(i, [i]).flatten().size() > 0",
		"lists.range(20000).sort().size() > 0", "lists.range(1000).distinct().size() > 0", "lists.range(100).all(j, lists.range(1000).slice(0, 900).size() > 0)", "lists.range(100).all(j, lists.range(1000).reverse().size() > 0)", "lists.range(100).all(j, lists.range(1000).sortBy(x, -x).size() > 0)",
		"lists.range(20000).map(i, string(i) + ' and ' + string(i)).size() > 0",
	} {
		t.Run(expression, func(t *testing.T) {
			p, issues := s.Compile(expression, Bool)
			if p == nil {
				t.Fatal(issues)
			}
			vmi := build.VMI("db").Obj()
			vmi.Annotations = map[string]string{"a": strings.Repeat("a,", 750_000)}
			budget := NewBudget()
			before := isolated.Allocated()
			_, err := p.Eval(s.Activation(&Documents{VM: vmi}), budget)
			took := isolated.Allocated() - before
			t.Logf("%d bytes, charged %d, %v", took, MemoryLimit-budget.Memory(), err)
			if took > most {
				t.Errorf("it takes %d bytes", took)
			}
		})
	}
}
