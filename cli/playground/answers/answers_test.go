package answers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/cli/playground/answers"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/test/soak"
)

var answerer = answers.New(time.Now)

func answerOf(t testing.TB, q *answers.Question) *answers.Answer {
	t.Helper()
	if err := q.Check(); err != nil {
		t.Fatal(err)
	}
	answer, err := answerer.Answer(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// Each example is complete: all that its files name is there, its policies are valid, and its cases pass.
func TestExamples(t *testing.T) {
	t.Parallel()
	start := answers.NewStart()
	if len(start.Examples) < 35 || len(start.Files) == 0 {
		t.Fatalf("%d examples, and %d files to begin with", len(start.Examples), len(start.Files))
	}
	for _, e := range start.Examples {
		t.Run(e.Title, func(t *testing.T) {
			t.Parallel()
			answer := answerOf(t, &answers.Question{Files: e.Files, Platforms: []answers.Platform{{}}})
			p := answer.Platforms[0]
			if p.Error != "" || len(p.Unreadable) > 0 || len(p.Machines) == 0 {
				t.Errorf("%+v", p)
			}
			for _, m := range p.Machines {
				if len(m.Lines) < 5 || e.Group == start.Examples[0].Group && len(m.Explanation.Unknown) > 0 {
					t.Errorf("%s: %d lines, unknown: %v", m.Explanation.Object, len(m.Lines), m.Explanation.Unknown)
				}
			}
			for _, problem := range answer.Problems {
				if !problem.Warning {
					t.Errorf("%s", problem)
				}
			}
			if answer.Tests != nil && (answer.Tests.Counts.Passed == 0 || answer.Tests.Counts.Total() != answer.Tests.Counts.Passed) {
				t.Errorf("%+v %v", answer.Tests.Counts, answer.Tests.Unreadable)
			}
		})
	}
}

// BenchmarkAnswer answers the first example, as after a change of one file.
func BenchmarkAnswer(b *testing.B) {
	q := &answers.Question{Files: slices.Clone(answers.NewStart().Files), Platforms: []answers.Platform{{}}}
	text := q.Files[0].Text
	for i := 0; b.Loop(); i++ {
		q.Files[0].Text = fmt.Sprintf("%s# %d\n", text, i)
		answerOf(b, q)
	}
}

// A question that was given up has no answer.
func TestCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if answer, err := answers.New(time.Now).Answer(ctx, &answers.Question{Files: answers.NewStart().Files, Platforms: []answers.Platform{{}}}); err == nil || answer != nil {
		t.Errorf("%v %v", answer, err)
	}
}

// Answers are what the commands print: for examples with random changes, on random platforms.
func TestEqualsCommands(t *testing.T) {
	count := 12
	if soak.On() {
		count = 200
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // reproducible
	examples := answers.NewStart().Examples
	differing := 0
	for i := range count {
		q := randomQuestion(random, examples)
		if !t.Run(fmt.Sprint(i), func(t *testing.T) { equalsCommands(t, q) }) {
			differing++
		}
	}
	t.Logf("%d pairs, %d differ", count, differing)
}

// randomQuestion is about the virtual machines and the policies of two examples, with random changes, on a random platform.
func randomQuestion(random *rand.Rand, examples []answers.Example) *answers.Question {
	q := &answers.Question{Platforms: []answers.Platform{{Hypervisor: pick(random, append(platform.HypervisorNames(), "")), Architecture: pick(random, append(architectures.Names(), ""))}}}
	machines, others := pick(random, examples), pick(random, examples)
	for _, f := range machines.Files {
		if f.Name == "vm.yaml" || f.Name == "objects.yaml" {
			q.Files = append(q.Files, f)
		}
	}
	for _, f := range others.Files {
		if !slices.ContainsFunc(q.Files, func(has answers.File) bool { return has.Name == f.Name }) {
			q.Files = append(q.Files, f)
		}
	}
	for k := range q.Files {
		for range random.IntN(4) {
			q.Files[k].Text = changed(random, q.Files[k].Text)
		}
	}
	return q
}

// Of a template, the answer has the virtual machine that it makes with the given values. They are only those of their question.
func TestValues(t *testing.T) {
	q := &answers.Question{Platforms: []answers.Platform{{}}, Files: []answers.File{{Name: "template.yaml", Text: `apiVersion: template.kubevirt.io/v1beta1
kind: VirtualMachineTemplate
metadata: {name: web}
spec:
  virtualMachine:
    metadata: {name: "${NAME}"}
    spec:
      runStrategy: Halted
      template:
        spec:
          domain: {devices: {disks: [{name: root, disk: {bus: virtio}}]}, memory: {guest: "${MEMORY}"}}
          volumes: [{name: root, containerDisk: {image: registry.example/a}}]
  parameters: [{name: NAME, required: true}, {name: MEMORY, value: 2Gi}]
`}}}
	for _, values := range []map[string]string{nil, {"NAME": "db"}, {"NAME": "db", "MEMORY": "4Gi"}, {"NAME": "<b>", "NONE": "x"}, nil} {
		q.Values = values
		equalsCommands(t, q)
	}
	q.Values = map[string]string{"NAME": "db", "MEMORY": "4Gi"}
	shown := ""
	for _, line := range answerOf(t, q).Platforms[0].Machines[0].Lines {
		shown += line.Text + "\n"
	}
	if !strings.Contains(shown, "name: db") || !strings.Contains(shown, "guest: 4Gi") {
		t.Errorf("the virtual machine lacks the values:\n%s", shown)
	}
}

func pick[T any](random *rand.Rand, all []T) T { return all[random.IntN(len(all))] }

// changed changes a line of a text.
func changed(random *rand.Rand, text string) string {
	lines := strings.Split(text, "\n")
	i := random.IntN(len(lines))
	switch random.IntN(6) {
	case 0:
		lines = slices.Delete(lines, i, i+1)
	case 1:
		lines = slices.Insert(lines, i, lines[i])
	case 2:
		lines[i] = "  " + lines[i]
	case 3:
		lines[i] = strings.NewReplacer("i", "o", "a", "e").Replace(lines[i])
	case 4:
		if key, _, ok := strings.Cut(lines[i], ": "); ok {
			lines[i] = key + ": " + pick(random, []string{"0", "-1", "true", "null", "[]", "{}", `"<b>"`, "1e9", "sata", "64Gi", "'"})
		}
	case 5:
		lines[i] = strings.NewReplacer("1", "9", "2", "0").Replace(lines[i])
	}
	return strings.Join(lines, "\n")
}

func equalsCommands(t *testing.T, q *answers.Question) {
	answer := answerOf(t, q)
	t.Chdir(t.TempDir())
	explain := []string{"explain", "-o", "json"}
	for _, f := range q.Files {
		if err := os.WriteFile(f.Name, []byte(f.Text), 0o600); err != nil {
			t.Fatal(err)
		}
		if !f.HasSuite() {
			explain = append(explain, "-f", f.Name)
		}
	}
	p := answer.Platforms[0]
	if p.Platform.Hypervisor != "" {
		explain = append(explain, "--hypervisor", p.Platform.Hypervisor)
	}
	if p.Platform.Architecture != "" {
		explain = append(explain, "--arch", p.Platform.Architecture)
	}
	for name, value := range q.Values {
		explain = append(explain, "-p", name+"="+value)
	}
	var all []any
	for _, m := range p.Machines {
		all = append(all, m.Explanation)
	}
	for _, u := range p.Unreadable {
		all = append(all, u)
	}
	compare(t, explain, listed(t, clitest.Call(t, "", explain...).Out), normal(t, all))
	var problems struct{ Problems any }
	lint := clitest.Call(t, "", "policy", "lint", ".", "-o", "json")
	if len(answer.Problems) > 0 || lint.Out != "" {
		clitest.Decode(t, json.Unmarshal, lint.Out, &problems)
		compare(t, []string{"lint"}, problems.Problems, normal(t, answer.Problems))
	}
	if answer.Tests != nil {
		var report any
		clitest.Decode(t, json.Unmarshal, clitest.Call(t, "", "policy", "test", ".", "--coverage", "-o", "json").Out, &report)
		compare(t, []string{"test"}, report, normal(t, answer.Tests))
	} else if got := clitest.Call(t, "", "policy", "test", "."); !strings.Contains(got.ErrOut, "cannot be run") && !strings.Contains(got.ErrOut, "no suite") {
		t.Errorf("policy test runs something: %s%s", got.Out, got.ErrOut)
	}
}

// listed returns what explain prints as a list: it prints one object without a list.
func listed(t *testing.T, text string) any {
	t.Helper()
	var value any
	clitest.Decode(t, json.Unmarshal, text, &value)
	if one, ok := value.(map[string]any); ok {
		return []any{one}
	}
	if list, ok := value.([]any); ok && len(list) == 0 {
		return nil
	}
	return value
}

func normal(t *testing.T, value any) (read any) {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	clitest.Decode(t, json.Unmarshal, string(data), &read)
	return read
}

func compare(t *testing.T, command []string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-command +playground):\n%s", strings.Join(command, " "), diff)
	}
}
