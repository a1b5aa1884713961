package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/admissionpolicies"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/validators"
)

// named matches a name in a cell of a table.
var named = regexp.MustCompile("`([a-z0-9-]+)`")

// row returns the names in the row of a page that contains a text.
func row(t *testing.T, page, contains string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(content)) {
		if !strings.HasPrefix(line, "|") || !strings.Contains(line, contains) {
			continue
		}
		for _, name := range named.FindAllStringSubmatch(line, -1) {
			names = append(names, name[1])
		}
	}
	slices.Sort(names)
	return names
}

// TestRulesThatAlwaysDeny holds that docs/rule-settings.md quotes the message about rules whose severity cannot be changed, and lists
// them.
func TestRulesThatAlwaysDeny(t *testing.T) {
	rules, err := validators.Base()
	if err != nil {
		t.Fatal(err)
	}
	var fixed []string
	for i := range rules {
		if !validators.Adjustable(rules[i].ID) {
			fixed = append(fixed, rules[i].ID)
		}
	}
	slices.Sort(fixed)
	found := validators.CheckSettings(rules, &policyv1alpha1.RuleSettings{Spec: policyv1alpha1.RuleSettingsSpec{
		Rules: []policyv1alpha1.RuleSetting{{Rule: fixed[0], Severity: policyv1alpha1.Warn}},
	}})
	if len(found) != 1 {
		t.Fatalf("errors %v", found)
	}
	if diff := cmp.Diff(fixed, row(t, "rule-settings.md", "`"+found[0].Detail+"`")); diff != "" {
		t.Errorf("rules (-code +docs/rule-settings.md):\n%s", diff)
	}
}

// TestScopesOfRules holds that docs/rule-lookup.md lists all that a rule can apply to, in order.
func TestScopesOfRules(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "docs", "rule-lookup.md"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, scope := range validators.ScopeNames() {
		names = append(names, "`"+scope.Name+"`")
	}
	if want := "| `appliesTo[]` | " + strings.Join(names, ", ") + " |\n"; !strings.Contains(string(content), want) {
		t.Errorf("docs/rule-lookup.md lacks the row %s", want)
	}
}

// TestGuardsWhileSwitchedOff holds that docs/switching-off.md lists which guards disable keeps, and which it switches off.
func TestGuardsWhileSwitchedOff(t *testing.T) {
	shipped, err := admissionpolicies.Objects()
	if err != nil {
		t.Fatal(err)
	}
	active, off := admissionpolicies.StayActive(), []string(nil)
	for _, guard := range shipped {
		if guard.GetKind() == "ValidatingAdmissionPolicy" && !slices.Contains(active, guard.GetName()) {
			off = append(off, guard.GetName())
		}
	}
	slices.Sort(active)
	slices.Sort(off)
	for state, want := range map[string][]string{"active": active, "off": off} {
		if diff := cmp.Diff(want, row(t, "switching-off.md", "` | "+state+" |\n")); diff != "" {
			t.Errorf("%s guards (-code +docs/switching-off.md):\n%s", state, diff)
		}
	}
}

// subcommands returns the commands that the help of a command lists.
func subcommands(t *testing.T, command ...string) []string {
	t.Helper()
	help := clitest.Call(t, "", append(command, "--help")...)
	_, list, _ := strings.Cut(help.Out, "Available Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	var names []string
	for line := range strings.Lines(list) {
		if fields := strings.Fields(line); len(fields) > 0 {
			names = append(names, fields[0])
		}
	}
	return names
}

// matches returns the files that match patterns.
func matches(t *testing.T, patterns ...string) []string {
	t.Helper()
	var files []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}

// TestCommandsOfPages holds that each command of this program on the pages exists. Some are programs of their own, which kubectl finds.
func TestCommandsOfPages(t *testing.T) {
	known := map[string][]string{}
	for _, name := range subcommands(t) {
		known[name] = subcommands(t, name)
	}
	for _, program := range matches(t, "../cmd/kubectl-virtward-*") {
		known[strings.TrimPrefix(filepath.Base(program), "kubectl-virtward-")] = nil
	}
	if len(known) < 10 {
		t.Fatalf("the help lists %v", known)
	}
	command := regexp.MustCompile("(?:`|^ +|^\\$ |^ +\\$ )kubectl virtward ([a-z-]+)(?: ([a-z-]+))?")
	for _, page := range matches(t, "../*.md", "../docs/*.md", "../docs/internals/*.md", "../charts/*/README.md") {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			for _, words := range command.FindAllStringSubmatch(line, -1) {
				group, exists := known[words[1]]
				if !exists || len(group) > 0 && words[2] != "" && !slices.Contains(group, words[2]) {
					t.Errorf("%s: there is no command %q", page, strings.TrimSpace(words[0]))
				}
			}
		}
	}
}
