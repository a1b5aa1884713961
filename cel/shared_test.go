package cel

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func sharedScope(t *testing.T, e *Environment, o ScopeOptions) *Scope {
	t.Helper()
	s, issues := e.Scope(o)
	if s == nil {
		t.Fatal(issues)
	}
	return s
}

func sharedProgram(t *testing.T, s *Scope, expression string, want Result) *Program {
	t.Helper()
	p, issues := s.Compile(expression, want)
	if p == nil {
		t.Fatal(issues)
	}
	return p
}

// TestShared: equal expressions of policies with equal options are compiled once.
func TestShared(t *testing.T) {
	e, err := NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	integer := &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"max": {Type: "integer"}}}
	options := ScopeOptions{Kinds: []string{"VirtualMachine", "VirtualMachineInstance"}, Params: integer, Variables: []Expression{{"limit", "params.max + 1"}}}
	three, five := options, options
	three.Values, five.Values = map[string]any{"max": int64(3)}, map[string]any{"max": int64(5)}
	a, b := sharedScope(t, e, three), sharedScope(t, e, five)
	const expression = "variables.limit == 4"
	p, q := sharedProgram(t, a, expression, Bool), sharedProgram(t, b, expression, Bool)
	if p != q {
		t.Error("equal expressions are compiled twice")
	}
	for scope, want := range map[*Scope]bool{a: true, b: false} {
		if got, err := q.Eval(scope.Activation(&Documents{}), NewBudget()); err != nil || got != want {
			t.Errorf("%v, %v, want %v: the values of policies are not shared", got, err, want)
		}
	}
	if sharedProgram(t, a, expression, Any) == p {
		t.Error("a program for another result is shared")
	}
	other := options
	other.Variables = []Expression{{"limit", "params.max + 2"}}
	if sharedProgram(t, sharedScope(t, e, other), expression, Bool) == p {
		t.Error("a program with other variables is shared")
	}
	if named := sharedProgram(t, a, "params.max + 1", Any); named.name != "" || named == a.variables[0] {
		t.Error("an expression is the variable with the same expression")
	}
	if _, issues := b.Compile("vm.spec.nope == 1", Bool); len(issues) == 0 {
		t.Error("an expression with an error is compiled")
	}
	_, issues := a.Compile("object.spec.running == true", Bool)
	_, again := b.Compile("object.spec.running == true", Bool)
	if len(issues) == 0 || fmt.Sprint(issues) != fmt.Sprint(again) {
		t.Errorf("the advice is %v, and then %v", issues, again)
	}
	if got := p.Observe(a.Activation(&Documents{})); len(got) == 0 {
		t.Error("a shared program has no parts")
	}
}

// TestViewsAreMadeAgain: scopes keep compiling when their views are released, with their variables.
func TestViewsAreMadeAgain(t *testing.T) {
	e, err := NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	options := func(i int) ScopeOptions {
		return ScopeOptions{Kinds: []string{"VirtualMachine"}, Variables: []Expression{{"number", fmt.Sprint(i)}}}
	}
	first := sharedScope(t, e, options(0))
	for i := range 2 * maxViews {
		sharedScope(t, e, options(i+1))
	}
	if _, kept := e.views.Get(first.key); kept {
		t.Fatal("the views are not released")
	}
	sharedProgram(t, first, "variables.number == 0", Bool)
	if _, issues := first.Compile("variables.number == 'text'", Bool); len(issues) == 0 {
		t.Error("the type of a variable is not known any more")
	}
}

// TestSharedIsForgotten: what no policy has takes no memory.
func TestSharedIsForgotten(t *testing.T) {
	e, err := NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	kept := sharedScope(t, e, ScopeOptions{Kinds: []string{"VirtualMachine"}})
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			sharedProgram(t, kept, fmt.Sprintf("vm.metadata.name == '%d'", i%10), Bool)
			sharedScope(t, e, ScopeOptions{Variables: []Expression{{"a", fmt.Sprint(i % 10)}}})
		})
	}
	all.Wait()
	sizes := func() (programs, scopes int) {
		kept.programs.mutex.Lock()
		defer kept.programs.mutex.Unlock()
		e.scopes.mutex.Lock()
		defer e.scopes.mutex.Unlock()
		return len(kept.programs.values) + len(kept.programs.issues), len(e.scopes.values) + len(e.scopes.issues)
	}
	for range 200 {
		runtime.GC()
		if programs, scopes := sizes(); programs == 0 && scopes <= 2 {
			runtime.KeepAlive(kept)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	programs, scopes := sizes()
	t.Errorf("%d programs and %d scopes are not forgotten", programs, scopes)
	runtime.KeepAlive(kept)
}
