// Package integrations_test runs the scripts that CI systems and pre-commit run, on a repository with manifests and policies, and
// compares the files that name them with what they read.
package integrations_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/cli"
)

var update = flag.Bool("update", false, "write the script into the template of GitLab")

// TestMain is kubectl-virtward if the test is called by this name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "kubectl-virtward" {
		os.Exit(cli.Run(context.Background(), "development", os.Args, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}))
	}
	os.Exit(m.Run())
}

// decode reads a YAML file.
func decode[T any](t *testing.T, name string) (value T) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, &value); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return value
}

// action is the part of an action of GitHub that the tests read.
type action struct {
	Inputs  map[string]struct{ Description, Default *string }
	Outputs map[string]struct{ Value string }
	Runs    struct {
		Steps []struct {
			If, Run, Shell, Uses string
			Env, With            map[string]string
		}
	}
}

func TestAction(t *testing.T) {
	a := decode[action](t, "github/action.yml")
	check := a.Runs.Steps[0]
	var used, set []string
	for name, value := range check.Env {
		set = append(set, name)
		for _, found := range regexp.MustCompile(`inputs\.([a-z0-9-]+)`).FindAllStringSubmatch(value, -1) {
			used = append(used, found[1])
		}
	}
	slices.Sort(set)
	if want := read(scriptText(t)); !slices.Equal(set, want) {
		t.Errorf("the step sets %q, and the script reads %q", set, want)
	}
	for name, input := range a.Inputs {
		if !slices.Contains(used, name) {
			t.Errorf("the input %s is not used", name)
		}
		if input.Description == nil || input.Default == nil {
			t.Errorf("the input %s has no description or no default", name)
		}
	}
	for _, name := range used {
		if _, found := a.Inputs[name]; !found {
			t.Errorf("there is no input %s", name)
		}
	}
	for name, output := range a.Outputs {
		if want := "${{ steps.check.outputs." + name + " }}"; output.Value != want {
			t.Errorf("the output %s is %q, want %q", name, output.Value, want)
		}
	}
	for _, step := range a.Runs.Steps {
		if strings.Contains(step.Run, "${{") {
			t.Errorf("a value becomes part of the script: %s", step.Run)
		}
		if step.Uses != "" && !regexp.MustCompile(`^[a-z-]+/[a-z/-]+@[0-9a-f]{40}$`).MatchString(step.Uses) {
			t.Errorf("%s is not pinned to a commit", step.Uses)
		}
		output, uploads := strings.CutPrefix(step.With["sarif_file"], "${{ steps.check.outputs.")
		if _, found := a.Outputs[strings.TrimSuffix(output, " }}")]; uploads && !found {
			t.Errorf("there is no output %s", output)
		}
	}

	r := newRepository(t)
	folder, err := filepath.Abs("github")
	if err != nil {
		t.Fatal(err)
	}
	printed, code := r.run(t, map[string]string{"GITHUB_ACTION_PATH": folder, "VIRTWARD_FILES": "warned.yaml", "VIRTWARD_FAIL_ON": *a.Inputs["fail-on"].Default, "VIRTWARD_REPORTS": *a.Inputs["reports"].Default}, check.Shell, "-e", "-c", check.Run)
	if code != 0 || !slices.Equal(r.list(t, "virtward-reports"), []string{"explain.sarif", "explain.xml"}) {
		t.Errorf("code %d, and the output is\n%s", code, printed)
	}
}

// scriptText is the script that the CI systems run.
func scriptText(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("check")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// template is the part of a template of GitLab that the tests read.
type template struct {
	Variables map[string]string
	Virtward  struct {
		Script    []string
		Artifacts struct {
			Paths   []string
			Reports struct{ JUnit string }
		}
	}
}

func TestGitLab(t *testing.T) {
	g := decode[template](t, "gitlab/virtward.yml")
	want := slices.DeleteFunc(read(scriptText(t)), func(name string) bool {
		return name == "VIRTWARD_ANNOTATIONS" || name == "VIRTWARD_REPORTS" // GitHub's, and part of the paths of the artifacts
	})
	for _, name := range want {
		if _, found := g.Variables[name]; !found {
			t.Errorf("the template lacks %s", name)
		}
	}
	if len(g.Variables) != len(want) {
		t.Errorf("the template has %d variables, and the script reads %q", len(g.Variables), want)
	}

	r := newRepository(t)
	g.Variables["VIRTWARD_FILES"], g.Variables["VIRTWARD_POLICIES"] = "rejected", "policies"
	printed, code := r.run(t, g.Variables, "bash", "-eo", "pipefail", "-c", strings.Join(g.Virtward.Script, "\n"))
	if code != 1 || !strings.HasSuffix(printed, "\nerror: failed: explain\n") {
		t.Errorf("code %d, and the output is\n%s", code, printed)
	}
	for _, pattern := range append(g.Virtward.Artifacts.Paths, g.Virtward.Artifacts.Reports.JUnit) {
		if found, err := filepath.Glob(filepath.Join(r.folder, pattern)); len(found) == 0 {
			t.Errorf("there is no %s: %v", pattern, err)
		}
	}
}

// TestGitLabScript: the template contains the script, because GitLab includes no other files of a project.
func TestGitLabScript(t *testing.T) {
	const name, indent = "gitlab/virtward.yml", "    "
	const first, last = indent + "# generated from integrations/check: go test ./integrations -run TestGitLabScript -update\n", indent + "# end\n"
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(content), first)
	_, after, ends := strings.Cut(after, last)
	if !found || !ends {
		t.Fatalf("%s lacks the lines around the script", name)
	}
	script := regexp.MustCompile(`(?m)^(.+)$`).ReplaceAllString(scriptText(t), indent+"$1")
	if strings.Contains(script, "END_OF_CHECK") || strings.Contains(script, "$[[") {
		t.Error("the script has text that GitLab or the template would replace")
	}
	want := before + first + script + last + after
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(content) {
		t.Errorf("%s has another script: go test ./integrations -run TestGitLabScript -update", name)
	}
}

// hook is a hook of pre-commit.
type hook struct {
	ID, Name, Entry, Language, Files string
	RequireSerial                    bool `json:"require_serial"`
}

func TestHooks(t *testing.T) {
	t.Parallel()
	const folder = "policies/memory-limit/"
	hooks := map[string]hook{}
	for _, h := range decode[[]hook](t, "../.pre-commit-hooks.yaml") {
		hooks[h.ID] = h
		if h.Language != "script" || !h.RequireSerial || h.Name == "" {
			t.Errorf("%+v", h)
		}
	}
	others := map[string]string{
		"deployment.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n",
		"chart.yaml":      "{{- if .Values.a }}\napiVersion: v1\nkind: Service\n{{- end }}\n",
		".gitlab-ci.yml":  "job: {script: [kubectl-virtward policy test]}\n",
		"list.json":       `["kubevirt.io/v1"]`,
	}
	for _, c := range []struct {
		hook  string
		files []string
		code  int
		says  string
	}{
		{"lint", []string{folder + "policy.yaml", "warned.yaml"}, 0, "1 policy is valid\n"},
		{"lint", []string{"wrong.yaml"}, 1, "wrong.yaml:"},
		{"lint", []string{folder + "suite.yaml", "rejected/vm-arm64.yaml"}, 0, ""},
		{"test", []string{folder + "policy.yaml", folder + "suite.yaml", "rejected/vm-arm64.yaml"}, 0, "memory-limit: 8 passed\n"},
		{"test", []string{"--run", "none", "--", folder + "policy.yaml"}, 2, "error: no case was run\n"},
		{"test", []string{"rejected/vm-arm64.yaml"}, 0, ""},
		{"explain", []string{"rejected/vm-arm64.yaml"}, 1, "rejected: rejected/vm-arm64.yaml: document 1: VirtualMachine default/legacy: spec.template.spec.domain.devices.disks[0].disk.bus: "},
		{"explain", []string{"valid, \"tested\"/below/vm-arm64.yaml"}, 0, ""},
		{"explain", []string{"--filename=policies", "--filename=instancetypes", "-R", "--", "vm-analytics.yaml"}, 1, "the VM would run with 16Gi of memory"},
		{"explain", []string{"vm.json"}, 1, "rejected: vm.json: document 1: "},
		{"explain", []string{"$(touch evaluated).yaml"}, 0, ""},
	} {
		t.Run(c.hook+" "+strings.Join(c.files, " "), func(t *testing.T) {
			t.Parallel()
			r := newRepository(t)
			r.write(t, "wrong.yaml", "apiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachinePolicy\nmetadata: {name: a}\nspec: {validation: []}\n")
			r.write(t, "vm.json", `{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "a"}, "spec": {}}`)
			r.write(t, "$(touch evaluated).yaml", warned)
			h := hooks["virtward-"+c.hook]
			args := c.files
			for name, content := range others {
				r.write(t, name, content)
				args = append(args, name)
				if !regexp.MustCompile(h.Files).MatchString(name) {
					t.Errorf("%s does not match %s", h.Files, name)
				}
			}
			entry := strings.Fields(h.Entry)
			printed, code := r.run(t, nil, r.script(t, filepath.Join("..", entry[0])), append(entry[1:], args...)...)
			if code != c.code || !strings.Contains(printed, c.says) {
				t.Errorf("code %d, and the output is\n%s", code, printed)
			}
			if c.says == "" && strings.Contains(printed, "deployment") {
				t.Errorf("an object of another kind is read, or a shell evaluated a name:\n%s", printed)
			}
		})
	}
}

// TestPage: the page has all inputs, and its examples have no others.
func TestPage(t *testing.T) {
	content, err := os.ReadFile("../docs/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(content)
	inputs := decode[action](t, "github/action.yml").Inputs
	variables := decode[template](t, "gitlab/virtward.yml").Variables
	for name := range inputs {
		if !strings.Contains(page, "\n| `"+name+"` |") {
			t.Errorf("the table lacks the input %s", name)
		}
	}
	for name := range variables {
		if !strings.Contains(page, " `"+name+"` |") {
			t.Errorf("the table lacks the variable %s", name)
		}
	}
	var hooks []string
	for _, h := range decode[[]hook](t, "../.pre-commit-hooks.yaml") {
		hooks = append(hooks, h.ID)
		if !strings.Contains(page, "\n| `"+h.ID+"` |") {
			t.Errorf("the table lacks the hook %s", h.ID)
		}
	}
	seen := 0
	for _, found := range regexp.MustCompile("(?s)\n```yaml\n(.*?)```").FindAllStringSubmatch(page, -1) {
		yamlBlock := found[1]
		for _, used := range regexp.MustCompile(`(?m)^ *- id: (virtward-.+)$`).FindAllStringSubmatch(yamlBlock, -1) {
			if seen++; !slices.Contains(hooks, used[1]) {
				t.Errorf("there is no hook %s", used[1])
			}
		}
		for _, used := range regexp.MustCompile(`(?m)^ *(VIRTWARD_[A-Z0-9_]+):`).FindAllStringSubmatch(yamlBlock, -1) {
			if _, known := variables[used[1]]; !known {
				t.Errorf("there is no variable %s", used[1])
			}
			seen++
		}
		_, step, _ := strings.Cut(yamlBlock, "uses: virtward/virtward/integrations/github@COMMIT\n")
		step, _, _ = strings.Cut(step, "\n- ")
		for _, used := range regexp.MustCompile(`(?m)^ *([a-z0-9-]+): `).FindAllStringSubmatch(step, -1) {
			if _, known := inputs[used[1]]; !known {
				t.Errorf("there is no input %s", used[1])
			}
			seen++
		}
		var value any
		if err := yaml.Unmarshal([]byte(yamlBlock), &value); err != nil {
			t.Errorf("%v:\n%s", err, yamlBlock)
		}
	}
	if seen < 10 {
		t.Errorf("the examples have %d names", seen)
	}
}
