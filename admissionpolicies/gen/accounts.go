package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/virtward/virtward/api/processes"
)

// ownAccounts is the list of components in the expression that matches Virtward's accounts.
var ownAccounts = regexp.MustCompile(`virtward-\([-a-z|]*\)\$`)

// rewriteAccounts writes the components of all processes into the guard of Virtward's accounts.
func rewriteAccounts(text string, all []processes.Process) (string, error) {
	if len(ownAccounts.FindAllString(text, -1)) != 1 {
		return "", errors.New("there is not one list of accounts")
	}
	components := make([]string, len(all))
	for i := range all {
		components[i] = all[i].Component()
	}
	return ownAccounts.ReplaceAllLiteralString(text, "virtward-("+strings.Join(components, "|")+")$"), nil
}

func accountTable(all []processes.Process) string {
	var b strings.Builder
	b.WriteString("| Account | The process | It exists |\n|---|---|---|\n")
	for _, p := range all {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s |\n", p.Name, p.Name, p.Purpose, p.When)
	}
	return b.String()
}
