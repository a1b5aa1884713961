package main

import (
	"os"
	"testing"

	"github.com/virtward/virtward/rollouts"
	"github.com/virtward/virtward/texts/blocks"
)

func TestTable(t *testing.T) {
	rules := []rollouts.Description{
		{ID: "sockets", Fields: "`sockets`", Takes: rollouts.LiveOnMigration, Otherwise: []string{"Restart for fewer", "Blocked during a migration"}},
		{ID: "other", Fields: "Every other field", Takes: rollouts.Restart},
	}
	const want = "| You change | It takes | Except | Rule |\n|---|---|---|---|\n" +
		"| `sockets` | LiveOnMigration | Restart for fewer; Blocked during a migration | `sockets` |\n" +
		"| Every other field | Restart | – | `other` |\n"
	if got := table(rules); got != want {
		t.Errorf("got:\n%s", got)
	}
}

// TestPage: the page has the table.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/rollouts.md")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := blocks.Markdown(string(page), block, table(rollouts.Rules())); err != nil || got != string(page) {
		t.Errorf("docs/rollouts.md is out of date: run go generate ./rollouts (%v)", err)
	}
}
