package templates

import (
	"os"
	"strings"
	"testing"
)

// TestEngine holds the engine to virt-template's: at most three of a hundred cases may be other.
func TestEngine(t *testing.T) {
	data, err := os.ReadFile("../testdata/templates/engine.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	cases, err := ReadEngine(data)
	if err != nil {
		t.Fatal(err)
	}
	var results []Result
	for i := range cases {
		results = append(results, RunEngine(&cases[i]))
	}
	var out strings.Builder
	Write(&out, results)
	t.Log(out.String())
	if s := Summarize(results); s.Total() < 370 || 100*s.Other > 3*s.Total() {
		t.Errorf("%d of %d cases are other", s.Other, s.Total())
	}
}
