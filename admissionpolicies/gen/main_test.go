package main

import (
	"os"
	"testing"
)

const (
	above = "  variables:\n    - name: security\n      # generated from the rules\n"
	below = "\n    - name: entries\n      expression: \"[]\" # kept\n    - name: others\n"
	empty = `      expression: "[]"`
	two   = "      expression: >-\n        [\n        'a-b',\n        'c'\n        ]"
)

// The expression below the comment is replaced, whatever it is, and nothing else.
func TestRewrite(t *testing.T) {
	for _, c := range []struct {
		name, from, want string
		ids              []string
	}{
		{name: "none, then two", from: empty, ids: []string{"a-b", "c"}, want: two},
		{name: "two again", from: two, ids: []string{"a-b", "c"}, want: two},
		{name: "two, then none", from: two, want: empty},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := rewrite([]byte(above+c.from+below), expression(c.ids))
			if err != nil || string(got) != above+c.want+below {
				t.Errorf("%v\n%s", err, got)
			}
		})
	}
}

func TestRewriteFindsNothing(t *testing.T) {
	const want = "there is no expression below a comment that begins with generated"
	for _, text := range []string{"", "    - name: security\n" + empty + below, above, above + empty} {
		if got, err := rewrite([]byte(text), expression([]string{"a"})); err == nil || err.Error() != want {
			t.Errorf("%q became %q, error %v", text, got, err)
		}
	}
}

// Writing the guards again changes nothing.
func TestGenerated(t *testing.T) {
	for _, g := range guards {
		content, err := os.ReadFile("../" + g.file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := g.rewritten(content)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(content) {
			t.Errorf("%s is out of date; run: go generate ./admissionpolicies", g.file)
		}
	}
	if ids, err := securityRelevant(); err != nil || len(ids) == 0 {
		t.Errorf("%v, %v", ids, err)
	}
}
