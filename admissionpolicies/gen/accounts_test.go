package main

import (
	"testing"

	"github.com/virtward/virtward/api/processes"
)

func TestRewriteAccounts(t *testing.T) {
	all := []processes.Process{{Name: "virtward-one", Purpose: "does one thing", When: "always"}, {Name: "virtward-two", Purpose: "does another", When: "with `two`"}}
	const guard = "matches(':virtward-(old|older)$')"
	if got, err := rewriteAccounts(guard, all); err != nil || got != "matches(':virtward-(one|two)$')" {
		t.Errorf("%s, %v", got, err)
	}
	for _, broken := range []string{"", guard + guard} {
		if got, err := rewriteAccounts(broken, all); err == nil {
			t.Errorf("%q became %q", broken, got)
		}
	}
	const want = "| Account | The process | It exists |\n|---|---|---|\n" +
		"| [`virtward-one`](#virtward-one) | does one thing | always |\n| [`virtward-two`](#virtward-two) | does another | with `two` |\n"
	if got := accountTable(all); got != want {
		t.Errorf("got:\n%s", got)
	}
}
