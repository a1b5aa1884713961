package main

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/api/processes"
)

// TestCommands holds that the program has a command for each process that the chart runs with it, and no other.
func TestCommands(t *testing.T) {
	var want, got []string
	for _, p := range processes.All() {
		if p.Command != "" {
			want = append(want, p.Command)
		}
	}
	for _, command := range commands() {
		got = append(got, command.Name())
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("commands (-table of processes +program):\n%s", diff)
	}
}
