package templates

import (
	"os"
	"strings"
	"testing"
)

// TestWire holds the aggregated API to virt-template's: at most three of a hundred cases may be other.
func TestWire(t *testing.T) {
	data, err := os.ReadFile("../testdata/templates/wire.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	cases, err := ReadWire(data)
	if err != nil {
		t.Fatal(err)
	}
	wire, err := NewWire()
	if err != nil {
		t.Fatal(err)
	}
	var results []Result
	for i := range cases {
		results = append(results, wire.Run(&cases[i]))
	}
	var out strings.Builder
	Write(&out, results)
	t.Log(out.String())
	if s := Summarize(results); s.Total() < 100 || 100*s.Other > 3*s.Total() {
		t.Errorf("%d of %d cases are other", s.Other, s.Total())
	}
}
