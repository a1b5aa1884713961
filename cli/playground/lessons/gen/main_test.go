package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/cli/playground/lessons"
)

// The page is up to date.
func TestGenerated(t *testing.T) {
	t.Parallel()
	committed, err := os.ReadFile("../../../../docs/lessons.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(committed), page(lessons.All())); diff != "" {
		t.Errorf("run make generate (-committed +generated):\n%s", diff)
	}
}
