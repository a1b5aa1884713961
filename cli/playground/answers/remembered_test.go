package answers_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/cli/playground/answers"
)

// After any sequence of changes, an answer is the one that an answerer gives which remembers nothing.
func TestRemembered(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // reproducible
	examples := answers.NewStart().Examples
	remembers := answers.New(time.Now)
	files := slices.Clone(answers.NewStart().Files)
	for i := range 30 {
		change := "a text"
		switch k := random.IntN(len(files)); random.IntN(6) {
		case 0:
			files, change = slices.Clone(pick(random, examples).Files), "an example"
		case 1:
			files[k].Name, change = fmt.Sprintf("other-%d.yaml", i), "a name"
		case 2:
			change = "nothing"
		default:
			files[k].Text = changed(random, files[k].Text)
		}
		q := &answers.Question{Files: slices.Clone(files), Platforms: []answers.Platform{{}}, Trace: random.IntN(4) == 0}
		if q.Check() != nil {
			continue
		}
		got, err := remembers.Answer(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		want, err := answers.New(time.Now).Answer(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(encoded(t, want), encoded(t, got)); diff != "" {
			t.Fatalf("change %d, of %s: %s", i, change, diff)
		}
	}
}

func encoded(t *testing.T, value any) string {
	t.Helper()
	data, err := answers.Encode(value)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(data), ",", ",\n")
}

// A suite is run again if an object in a file that it names changes, if the file comes or goes, and if the policy changes.
func TestSuiteReads(t *testing.T) {
	t.Parallel()
	files := []answers.File{
		{Name: "policy.yaml", Text: `apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: small}
spec:
  enforcement: Deny
  validations: [{expression: "vm.spec.domain.cpu.?cores.orValue(1) < 4", message: too large}]
`},
		{Name: "suite.yaml", Text: `apiVersion: policy.virtward.io/v1alpha1
kind: Suite
metadata: {name: small}
tests:
  - name: small
    policies: [policy.yaml]
    base: machine.yaml
    cases:
      - {name: of a file, expect: {verdict: allowed}}
`},
		{Name: "machine.yaml", Text: `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web}
spec: {runStrategy: Halted, template: {spec: {domain: {cpu: {cores: 2}, devices: {}}, architecture: amd64}}}
`},
	}
	remembers := answers.New(time.Now)
	for _, step := range []struct {
		name       string
		change     func(files []answers.File) []answers.File
		wantPassed int
	}{
		{"nothing", func(files []answers.File) []answers.File { return files }, 1},
		{"the machine", func(files []answers.File) []answers.File {
			files[2].Text = strings.Replace(files[2].Text, "cores: 2", "cores: 8", 1)
			return files
		}, 0},
		{"the machine is smaller", func(files []answers.File) []answers.File {
			files[2].Text = strings.Replace(files[2].Text, "cores: 8", "cores: 3", 1)
			return files
		}, 1},
		{"the policy", func(files []answers.File) []answers.File {
			files[0].Text = strings.Replace(files[0].Text, "< 4", "< 3", 1)
			return files
		}, 0},
		{"the policy permits more", func(files []answers.File) []answers.File {
			files[0].Text = strings.Replace(files[0].Text, "< 3", "< 9", 1)
			return files
		}, 1},
		{"the file has another name", func(files []answers.File) []answers.File {
			files[2].Name = "other.yaml"
			return files
		}, 0},
		{"the file has its name again", func(files []answers.File) []answers.File {
			files[2].Name = "machine.yaml"
			return files
		}, 1},
	} {
		files = step.change(slices.Clone(files))
		answer, err := remembers.Answer(t.Context(), &answers.Question{Files: files, Platforms: []answers.Platform{{}}})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Tests == nil || answer.Tests.Counts.Passed != step.wantPassed {
			t.Errorf("%s: %+v, want %d passed cases", step.name, answer.Tests, step.wantPassed)
		}
	}
}
