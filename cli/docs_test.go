package cli_test

import (
	"os"
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/clitest"
)

// console is a call in the documentation, and its documented output.
type console struct {
	command string
	prints  []string
}

// consoles returns the indented blocks that begin with a call of this program.
func consoles(t *testing.T, page string) []console {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var found []console
	inside := false
	for line := range strings.Lines(string(text)) {
		line, indented := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "    ")
		command, called := strings.CutPrefix(line, "$ kubectl virtward ")
		switch {
		case !indented:
			inside = false
		case called:
			found, inside = append(found, console{command: command}), true
		case inside:
			last := &found[len(found)-1]
			last.prints = append(last.prints, line)
		}
	}
	return found
}

// TestDocumentation runs the calls of the pages about the CLI on the files of testdata. Their output has the documented
// lines in sequence; a line of ... matches any lines.
func TestDocumentation(t *testing.T) {
	var shown []console
	for page, least := range map[string]int{"../docs/explain.md": 4, "../docs/what-if.md": 2} {
		found := consoles(t, page)
		if len(found) < least {
			t.Fatalf("%s: only %d calls were found", page, len(found))
		}
		shown = append(shown, found...)
	}
	t.Chdir("testdata")
	for _, c := range shown {
		t.Run(c.command, func(t *testing.T) {
			got := clitest.Call(t, "", strings.Fields(c.command)...)
			printed := strings.Split(strings.TrimSuffix(got.Out+got.ErrOut, "\n"), "\n")
			anywhere, at := false, 0
			for _, line := range c.prints {
				if line == "..." {
					anywhere = true
					continue
				}
				for anywhere && at < len(printed) && !same(printed[at], line) {
					at++
				}
				if at == len(printed) || !same(printed[at], line) {
					t.Fatalf("it does not print %q there, but:\n%s", line, strings.Join(printed, "\n"))
				}
				anywhere = false
				at++
			}
			if !anywhere && at < len(printed) {
				t.Errorf("it prints more than is shown: %q", printed[at:])
			}
		})
	}
}

// same compares lines without indentation and without the width of columns, which depends on omitted lines.
func same(a, b string) bool {
	return strings.Join(strings.Fields(a), " ") == strings.Join(strings.Fields(b), " ")
}

// TestTutorial runs the calls of the page about policies that need no cluster.
func TestTutorial(t *testing.T) {
	text, err := os.ReadFile("../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("..")
	want := map[string]string{
		"policy lint examples/policy/memory-limit":                          "1 policy is valid",
		"policy test examples/policy/memory-limit -v":                       "8 passed",
		"audit --with examples/policy/memory-limit/policy.yaml -f examples": "VirtualMachine default/analytics",
		"policy new memory-limit --cel":                                     "memory-limit",
	}
	for command, says := range want {
		if !strings.Contains(string(text), "\n    kubectl virtward "+command+"\n") {
			t.Errorf("the page does not show %q", command)
		}
		if strings.HasPrefix(command, "policy new ") {
			command += " --dir " + t.TempDir()
		}
		got := clitest.Call(t, "", strings.Fields(command)...)
		if !strings.Contains(got.Out+got.ErrOut, says) {
			t.Errorf("%s says nothing of %q:\n%s%s", command, says, got.Out, got.ErrOut)
		}
	}
}
