package main

import (
	"testing"

	"github.com/virtward/virtward/rollouts"
)

func TestInsert(t *testing.T) {
	rules := []rollouts.Description{
		{ID: "sockets", Fields: "`sockets`", Takes: rollouts.LiveOnMigration, Otherwise: []string{"Restart for fewer", "Blocked during a migration"}},
		{ID: "other", Fields: "Every other field", Takes: rollouts.Restart},
	}
	want := "before\n" + begin +
		"| You change | It takes | Except | Rule |\n|---|---|---|---|\n" +
		"| `sockets` | LiveOnMigration | Restart for fewer; Blocked during a migration | `sockets` |\n" +
		"| Every other field | Restart | – | `other` |\n" + end + "after\n"
	for _, page := range []string{"before\n" + begin + end + "after\n", want} {
		if got, err := insert(page, table(rules)); err != nil || got != want {
			t.Errorf("%v:\n%s", err, got)
		}
	}
	if _, err := insert("no markers", ""); err == nil {
		t.Error("a page without markers has no error")
	}
}
