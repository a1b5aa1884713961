package rego

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/cover"

	"github.com/virtward/virtward/diagnostics"
)

const observed = `package test

# A comment.
limit := 8

deny contains msg if {
	input.params.cores > limit
	print("cores", input.params.cores)
	msg := sprintf("%d cores", [input.params.cores])
}

deny contains "no name" if {
	input.params.name == ""
	count(input.params.other) > 0
}

big if input.params.cores > 100

warn contains "big" if big
`

func TestTrace(t *testing.T) {
	module := mustCompile(t, observed)
	trace := &Trace{}
	got, err := module.EvalWith(input(t, map[string]any{"params": map[string]any{"cores": 16}}), Limits{}, nil, trace)
	if diff := cmp.Diff([]diagnostics.Violation{{Message: "16 cores"}}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	text := trace.String()
	for _, want := range []string{"test.rego:6", "Enter data.test.deny", "sprintf(\"%d cores\"", "Fail", "line 8 prints: cores 16\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the trace lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, guardPrefix) {
		t.Errorf("the trace names functions by their guarded names:\n%s", text)
	}
}

// TestTraceIsBounded traces what takes all the steps that there are.
func TestTraceIsBounded(t *testing.T) {
	module := mustCompile(t, head+`deny contains "a" if { some a in numbers.range(1, 999); some b in numbers.range(1, 999); print(a, b); a + b == 0 }`)
	trace := &Trace{}
	start := time.Now()
	_, err := module.EvalWith(input(t, nil), Limits{}, nil, trace)
	if err == nil || err.Error() != "the Rego of test.rego was stopped: it takes more than 4194304 bytes of memory" {
		t.Error(err)
	}
	text := trace.String()
	if took := time.Since(start); took > patience {
		t.Errorf("it took %s", took)
	}
	if len(text) > maxTrace+100 || !strings.HasSuffix(text, "\nand more: the trace is too long\n") {
		t.Errorf("a trace of %d bytes ends with %q", len(text), text[max(0, len(text)-100):])
	}
	if lines := strings.Count(text, " prints: "); lines > maxPrints {
		t.Errorf("it prints %d times", lines)
	}
}

// TestObservingChangesNothing gives a module so few steps that it would not end if the observers took some.
func TestObservingChangesNothing(t *testing.T) {
	module := mustCompile(t, observed)
	in := input(t, map[string]any{"params": map[string]any{"cores": 16}})
	for steps := 1; steps < 40; steps++ {
		want, fails := module.Eval(in, Limits{Steps: steps})
		got, err := module.EvalWith(in, Limits{Steps: steps}, cover.New(), &Trace{})
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (fails == nil) {
			t.Errorf("with %d steps: %s %v, %v", steps, diff, fails, err)
		}
	}
}

func TestNothingIsPrinted(t *testing.T) {
	if trace := (&Trace{}).String(); trace != "" {
		t.Errorf("an empty trace is %q", trace)
	}
}
