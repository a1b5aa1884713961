package examples_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/virtward/virtward/cli/catalogue/examples"
	"github.com/virtward/virtward/cli/catalogue/rejections"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/validators"
)

// evaluate returns what is wrong with the object of an example, or with another one in its place.
func evaluate(t *testing.T, evaluator *rejections.Evaluator, e *examples.Example, object map[string]any) []validators.Finding {
	t.Helper()
	found, err := evaluator.Evaluate(t.Context(), e, object)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func encoded(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// patched returns the object of an example after its remedy.
func patched(t *testing.T, e *examples.Example) (object map[string]any) {
	t.Helper()
	patch, err := jsonpatch.DecodePatch(encoded(t, e.Remedy))
	if err != nil {
		t.Fatal(err)
	}
	after, err := patch.Apply(encoded(t, e.Object))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(after, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// apart are the rules that no evaluation of one object reports, with what does.
var apart = map[string]string{
	"copy-evaluated":              "a webhook, which reads the source of the copy",
	"vmi-complete":                "an evaluation behind all mutating webhooks, and the remedy is no change of the object",
	"hotplug-handler-own-node":    "a token of virt-handler, and the remedy is no change of the object",
	"hotplug-handler-target-node": "a token of virt-handler, and the remedy is no change of the object",
	"cpu-dedicated-count":         "only volume-request-fits, because a VM without a number of CPUs gets one before",
	"volume-is-shown":             "an evaluation behind all mutating webhooks, because a volume without a disk gets one before",
	"disk-count":                  "an object with 257 disks, which is too long to show",
	"volume-count":                "an object with 257 volumes, which is too long to show",
}

// TestExamples applies the remedy of each rule to its example: the finding is gone, nothing new is wrong, and the patch changes
// fields that the remedy or the message names.
func TestExamples(t *testing.T) {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	all, err := examples.All()
	if err != nil {
		t.Fatal(err)
	}
	evaluator, known, tested := rejections.New(registry), map[string]bool{}, 0
	for _, rule := range registry.Rules() {
		known[rule.ID] = true
		example := all[rule.ID]
		if apart[rule.ID] != "" {
			if example != nil {
				t.Errorf("%s has an example, and is evaluated apart: %s", rule.ID, apart[rule.ID])
			}
			continue
		}
		if example == nil {
			t.Errorf("%s has no example: add one to a file beside this test", rule.ID)
			continue
		}
		tested++
		t.Run(rule.ID, func(t *testing.T) { violatesOnly(t, evaluator, rule, example) })
	}
	for id := range all {
		if !known[id] {
			t.Errorf("%s has an example, and is no rule", id)
		}
	}
	t.Logf("%d of %d rules: the remedy removes the finding of the example, adds none, and changes what its words name", tested, len(known))
}

func violatesOnly(t *testing.T, evaluator *rejections.Evaluator, rule validators.Rule, example *examples.Example) {
	t.Helper()
	said := ""
	for _, f := range evaluate(t, evaluator, example, example.Object) {
		if f.Rule == rule.ID {
			said += " " + f.Error.Error()
		} else if !slices.Contains(example.Also, f.Rule) {
			t.Errorf("the example violates another rule too: %s: %v", f.Rule, f.Error)
		}
	}
	if said == "" {
		t.Error("the example does not violate the rule")
	}
	for _, f := range evaluate(t, evaluator, example, patched(t, example)) {
		t.Errorf("after the remedy: %s: %v", f.Rule, f.Error)
	}
	if len(example.Remedy) == 0 {
		t.Error("there is no remedy")
	}
	for _, operation := range example.Remedy {
		if !named(operation.Path, rule.Remedy+said) {
			t.Errorf("the remedy %q and the message name no step of %s", rule.Remedy, operation.Path)
		}
	}
}

var word = regexp.MustCompile(`[A-Z]?[a-z0-9]+|[A-Z]+`)

// wordsOf returns the words of a text or of the name of a field, in the singular.
func wordsOf(text string) (words []string) {
	for _, w := range word.FindAllString(text, -1) {
		words = append(words, strings.TrimSuffix(strings.ToLower(w), "s"))
	}
	return words
}

// around are fields around everything.
var around = []string{"", "spec", "template", "domain", "devices", "metadata"}

// named reports whether a text names a field of a path.
func named(path, text string) bool {
	words := wordsOf(text)
	steps := strings.Split(path, "/")
	return slices.ContainsFunc(steps, func(step string) bool {
		if slices.Contains(around, step) && step != steps[len(steps)-1] || strings.Trim(step, "0123456789") == "" {
			return false
		}
		return !slices.ContainsFunc(wordsOf(step), func(w string) bool { return !slices.Contains(words, w) })
	})
}
