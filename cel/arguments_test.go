package cel

import (
	"errors"
	"testing"

	"github.com/google/cel-go/common/types"
)

// TestArguments: calls in progress never share a place, not even those that find none, and released places are empty.
func TestArguments(t *testing.T) {
	a := &arguments{}
	var call func(depth int)
	call = func(depth int) {
		values := a.lend(3)
		for i, v := range values {
			if v != nil {
				t.Errorf("at depth %d, place %d has %v", depth, i, v)
			}
			values[i] = types.Int(3*depth + i)
		}
		if depth < len(a.places) {
			call(depth + 1)
			call(depth + 1 + len(a.places))
		}
		for i, v := range values {
			if v != types.Int(3*depth+i) {
				t.Errorf("at depth %d, argument %d became %v", depth, i, v)
			}
		}
		a.release(values)
	}
	call(0)
	if a.used != 0 {
		t.Errorf("%d places are still in use", a.used)
	}
}

// TestArgumentsOfStopped: an expression that is stopped inside a call releases the places of all calls around it.
func TestArgumentsOfStopped(t *testing.T) {
	s, d := costlyScope(t)
	p, issues := s.Compile("'%d'.format([lists.range(9000000000).size()]) == vm.metadata.name", Bool)
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	budget := NewBudget()
	if _, err := p.Eval(s.Activation(d), budget); !errors.Is(err, ErrExpensive) {
		t.Fatalf("the error is %v, it should be %v", err, ErrExpensive)
	}
	if budget.arguments.used != 0 {
		t.Errorf("%d places are still in use", budget.arguments.used)
	}
}
