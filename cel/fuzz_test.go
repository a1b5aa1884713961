package cel_test

import (
	"testing"
	"time"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cel"
)

// FuzzCompile: no text makes the compiler panic or take long; what compiles runs, and ends.
func FuzzCompile(f *testing.F) {
	for _, expression := range []string{
		"vm.spec.domain.cpu.cores <= 4", "object.metadata.labels.all(k, v, k != v)", "has(object.spec.template)", "[1].map(x, [x, x])",
		"'%.9f'.format([1.0])", "lists.range(9).distinct()", "quantity('1e9').add(2)", "vm.spec.volumes.filter(v, has(v.containerDisk))[0].name",
		"object == oldObject || vm in [vm]", "'a'.matches('(a*)*$')", "optional.of(vm).?spec.?domain", "variables.x", "{'a': vm}['a'].spec", "\xff(((",
	} {
		f.Add(expression)
	}
	s := scope(f, cel.ScopeOptions{Kinds: []string{apikinds.VirtualMachine, apikinds.VirtualMachineInstance}, Variables: []cel.Expression{{Name: "x", Expression: "vm.spec.domain"}}})
	d := documents()
	f.Fuzz(func(t *testing.T, expression string) {
		begin := time.Now()
		p, issues := s.Compile(expression, cel.Any)
		for _, issue := range issues {
			if issue.Message == "" || issue.Line < 0 || issue.Column < 0 {
				t.Errorf("an issue that says nothing: %#v", issue)
			}
		}
		if p != nil {
			p.EstimatedCost()
			_, _ = p.Eval(s.Activation(d), cel.NewBudget())
		} else if len(issues) == 0 {
			t.Error("neither a program nor an issue")
		}
		if took := time.Since(begin); took > slow {
			t.Errorf("it took %s", took)
		}
	})
}

// FuzzEval: an expression about any recorded object has a result or an error, the same each time.
func FuzzEval(f *testing.F) {
	objects := recorded(f)
	for i, expression := range []string{
		"object.spec.domain.devices.disks.map(d, d.name)", "object.spec.template.spec.volumes.all(v, has(v.containerDisk) || has(v.dataVolume))",
		"object.metadata.labels", "object == object", "object.spec", "dyn(object).map(k, k)", "has(object.spec.template.spec.domain.cpu.cores)",
	} {
		f.Add(expression, i*37)
	}
	s := scope(f, cel.ScopeOptions{})
	f.Fuzz(func(t *testing.T, expression string, which int) {
		p, _ := s.Compile(expression, cel.String)
		if p == nil {
			return
		}
		object := objects[uint(which)%uint(len(objects))]
		first, err := p.Eval(s.Activation(&cel.Documents{Object: object}), cel.NewBudget())
		again, errAgain := p.Eval(s.Activation(&cel.Documents{Object: object}), cel.NewBudget())
		if first != again || (err == nil) != (errAgain == nil) {
			t.Errorf("%v, %v, and then %v, %v", first, err, again, errAgain)
		}
	})
}
