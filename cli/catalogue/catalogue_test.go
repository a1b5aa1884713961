package catalogue

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cli/catalogue/examples"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/validators"
)

// builtIn are the entries of the rules that there are.
func builtIn(t *testing.T) ([]Entry, validators.Table) {
	t.Helper()
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := New(registry)
	if err != nil {
		t.Fatal(err)
	}
	return entries, registry.Rules()
}

func TestEntries(t *testing.T) {
	entries, rules := builtIn(t)
	if len(entries) != len(rules) {
		t.Errorf("%d entries of %d rules", len(entries), len(rules))
	}
	if !slices.IsSortedFunc(entries, func(a, b Entry) int { return strings.Compare(a.ID, b.ID) }) {
		t.Error("the entries are not sorted by id")
	}
	got := map[string]string{}
	for _, e := range entries {
		switch e.ID {
		case "arm64-disk-bus", "mshv-cpu-model", "disk-has-volume":
			got[e.ID] = strings.Join(e.Platforms, " ") + ": " + e.on
		}
	}
	want := map[string]string{
		"arm64-disk-bus":  "kvm/arm64 mshv/arm64: arm64",
		"mshv-cpu-model":  "mshv/amd64: mshv/amd64",
		"disk-has-volume": "kvm/amd64 kvm/arm64 kvm/s390x mshv/amd64 mshv/arm64 mshv/s390x: all",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDescribe(t *testing.T) {
	all := []string{"kvm/amd64", "kvm/arm64", "mshv/amd64", "mshv/arm64"}
	for want, platforms := range map[string][]string{
		"all":                              all,
		"arm64":                            {"kvm/arm64", "mshv/arm64"},
		"mshv":                             {"mshv/amd64", "mshv/arm64"},
		"kvm/amd64":                        {"kvm/amd64"},
		"kvm/amd64, kvm/arm64, mshv/amd64": {"kvm/amd64", "kvm/arm64", "mshv/amd64"},
	} {
		if got := describe(platforms, all); got != want {
			t.Errorf("%v: got %q, want %q", platforms, got, want)
		}
	}
}

func sample() []Entry {
	return []Entry{
		{ID: "arm64-a", Title: "Nothing is *b*", Severity: validators.Deny, AppliesTo: []string{"VM", "VMI"}, Platforms: []string{"kvm/arm64", "mshv/arm64"}, on: "arm64", Remedy: "Use <c>.", SecurityRelevant: true},
		{ID: "disk-b", Title: "Disks are <round>", Severity: validators.Warn, AppliesTo: []string{"VM update"}, Platforms: []string{"kvm/amd64"}, on: anywhere, Remedy: "Roll."},
		{ID: "disk-a", Title: "Disks", Severity: validators.Deny, AppliesTo: []string{"VM"}, Platforms: []string{"kvm/amd64"}, on: anywhere, Remedy: "Do."},
		{ID: "unheard-of", Title: "News", Severity: validators.Deny, AppliesTo: []string{"VM"}, Platforms: []string{"mshv/amd64"}, on: "mshv/amd64", Remedy: "Wait."},
	}
}

func TestFilter(t *testing.T) {
	for want, filter := range map[string]Filter{
		"arm64-a disk-b disk-a unheard-of": {},
		"arm64-a disk-b disk-a":            {Hypervisor: "kvm"},
		"arm64-a":                          {Hypervisor: "mshv", Architecture: "arm64"},
		"disk-b disk-a unheard-of":         {Architecture: "amd64"},
		"disk-b":                           {Scope: "VM update"},
		"":                                 {Architecture: "arm64", Scope: "VM update"},
	} {
		var got []string
		for _, e := range filter.Select(sample()) {
			got = append(got, e.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%+v: got %v, want %s", filter, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	if err := WriteTable(&out, sample()[:2]); err != nil {
		t.Fatal(err)
	}
	const want = `ID       SEVERITY  APPLIES TO  ON     TITLE
arm64-a  Deny      VM, VMI     arm64  Nothing is *b*
disk-b   Warn      VM update   all    Disks are <round>
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	out.Reset()
	if err := WriteTable(&out, nil); err != nil || out.String() != "No rule matches.\n" {
		t.Errorf("%v, got %q", err, out.String())
	}
}

func TestPage(t *testing.T) {
	entries := sample()
	for i, want := range []string{`arm64-a
Nothing is *b*.

Severity:    Deny
Applies to:  VM, VMI
On:          arm64
Remedy:      Use <c>.
Security:    to lower its severity, users need the verb weaken on rulesettings.policy.virtward.io

To make findings of arm64-a warnings in the namespace shop:

  apiVersion: policy.virtward.io/v1alpha1
  kind: RuleSettings
  metadata:
    name: shop
  spec:
    rules:
    - namespaceSelector:
        matchLabels:
          kubernetes.io/metadata.name: shop
      reason: why this namespace has an exception
      rule: arm64-a
      severity: Warn
`, `disk-b
Disks are <round>.

Severity:    Warn
Applies to:  VM update
On:          all hypervisors and architectures
Remedy:      Roll.

To switch disk-b off in the namespace shop:

  apiVersion: policy.virtward.io/v1alpha1
  kind: RuleSettings
  metadata:
    name: shop
  spec:
    rules:
    - namespaceSelector:
        matchLabels:
          kubernetes.io/metadata.name: shop
      reason: why this namespace has an exception
      rule: disk-b
      severity: "Off"
`} {
		var out bytes.Buffer
		if err := WritePage(&out, &entries[i]); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestParts shows an example with its circumstances, in both forms.
func TestParts(t *testing.T) {
	e := sample()[2]
	e.Example = &examples.Example{
		Object: map[string]any{"kind": "A", "b": int64(1)}, Old: map[string]any{"kind": "A"}, KubeVirt: map[string]any{"c": "d"}, Objects: []map[string]any{{"kind": "E"}},
		Remedy: []examples.Operation{{Op: "remove", Path: "/b"}, {Op: "add", Path: "/f", Value: json.RawMessage(`{"g":1}`)}},
	}
	var page, markdown bytes.Buffer
	if err := errors.Join(WritePage(&page, &e), WriteRule(&markdown, &e, []string{"spec.b: no [virtward/disk-a]"}, "../../a.go")); err != nil {
		t.Fatal(err)
	}
	const shown = `
An object that violates the rule:

  b: 1
  kind: A

Before the update:

  kind: A

With spec.configuration of the KubeVirt resource:

  c: d

With this object in the cluster:

  kind: E

The remedy, as a JSON patch:

  [{"op":"remove","path":"/b"},
   {"op":"add","path":"/f","value":{"g":1}}]

To make findings of disk-a warnings`
	if !strings.Contains(page.String(), shown) {
		t.Errorf("got\n%s", page.String())
	}
	const want = "# disk-a\n\n<!-- Generated from the rule and its example: make generate writes it. -->\n\nDisks.\n\n" +
		"| | |\n|---|---|\n| Severity | Deny |\n| Applies to | VM |\n| On | all hypervisors and architectures |\n| Source | [a.go](../../a.go) |\n\n" +
		"## How to mend it\n\nDo.\n\nFor the example below, this is a JSON patch:\n\n```json\n[{\"op\":\"remove\",\"path\":\"/b\"},\n {\"op\":\"add\",\"path\":\"/f\",\"value\":{\"g\":1}}]\n```\n\n" +
		"## Example\n\nAn object that violates the rule:\n\n```yaml\nb: 1\nkind: A\n```\n\nBefore the update:\n\n```yaml\nkind: A\n```\n"
	if !strings.HasPrefix(markdown.String(), want) || !strings.Contains(markdown.String(), "\nThe message:\n\n```text\nspec.b: no [virtward/disk-a]\n```\n\n## How to set its severity\n\nTo make findings of disk-a warnings") {
		t.Errorf("got\n%s", markdown.String())
	}
}

func TestMarkdown(t *testing.T) {
	var out bytes.Buffer
	if err := WriteMarkdown(&out, sample()); err != nil {
		t.Fatal(err)
	}
	_, page, found := strings.Cut(out.String(), "Rules have these scopes:\n")
	const want = `
| | |
|---|---|
| VM | a VirtualMachine on create and on update: its fields outside of the template, and the spec as it will run |
| VM update | changes by an update of a VirtualMachine |
| VMI | a VirtualMachineInstance on create |

- [Disks](#disks)
- [Architectures](#architectures)
- [Others](#others)

## Disks

| Rule | Severity | Applies to | What it requires |
|---|---|---|---|
| [disk-b](rules/disk-b.md) | Warn | VM update | Disks are \<round> |
| [disk-a](rules/disk-a.md) | Deny | VM | Disks |

## Architectures

| Rule | Severity | Applies to | What it requires |
|---|---|---|---|
| [arm64-a](rules/arm64-a.md) | Deny | VM, VMI; on arm64 | Nothing is \*b\* |

## Others

| Rule | Severity | Applies to | What it requires |
|---|---|---|---|
| [unheard-of](rules/unheard-of.md) | Deny | VM; on mshv/amd64 | News |
`
	if diff := cmp.Diff(want, page); diff != "" || !found {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestJSON(t *testing.T) {
	for _, c := range []struct {
		entries []Entry
		single  bool
		prefix  string
	}{
		{sample(), false, "[\n  {\n    \"id\": \"arm64-a\",\n    \"title\": \"Nothing is *b*\",\n    \"severity\": \"Deny\",\n    \"appliesTo\": [\n      \"VM\",\n      \"VMI\"\n    ],\n    \"platforms\": ["},
		{sample()[:1], false, "[\n"},
		{sample()[1:2], true, "{\n  \"id\": \"disk-b\",\n  \"title\": \"Disks are <round>\",\n"},
		{[]Entry{}, false, "[]\n"},
	} {
		var out bytes.Buffer
		if err := WriteJSON(&out, c.entries, c.single); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(out.String(), c.prefix) || !json.Valid(out.Bytes()) {
			t.Errorf("got %s, want %s…", out.String(), c.prefix)
		}
	}
}

// TestEveryRuleIsDocumented holds of the rules that there are: each has its row, a chapter that is not the
// last resort, and names for all that it applies to.
func TestEveryRuleIsDocumented(t *testing.T) {
	entries, _ := builtIn(t)
	var out bytes.Buffer
	if err := WriteMarkdown(&out, entries); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, e := range entries {
		if strings.Count(page, "\n| ["+e.ID+"](rules/"+e.ID+".md) | ") != 1 {
			t.Errorf("%s has no row, or several", e.ID)
		}
		if len(e.AppliesTo) == 0 || len(e.Platforms) == 0 || e.Title == "" || e.Remedy == "" || strings.HasSuffix(e.Title, ".") {
			t.Errorf("%+v lacks something, or its title ends in a full stop", e)
		}
		if areaOf(e.ID) == others {
			t.Errorf("%s is in no area: add its first word to one", e.ID)
		}
	}
	for _, name := range validators.ScopeNames() {
		if strings.Count(page, "\n| "+name.Name+" | ") != 1 {
			t.Errorf("the page does not say once what %q means", name.Name)
		}
	}
	headings := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^##+ (.*)$`).FindAllStringSubmatch(page, -1) {
		if headings[anchor(heading[1])] {
			t.Errorf("two headings have the anchor %s", anchor(heading[1]))
		}
		headings[anchor(heading[1])] = true
	}
	for _, link := range regexp.MustCompile(`\(#([^)]*)\)`).FindAllStringSubmatch(page, -1) {
		if !headings[link[1]] {
			t.Errorf("the link to #%s leads nowhere", link[1])
		}
	}
}

// TestExamples verifies that the RuleSettings of the examples are valid and have the described effect.
func TestExamples(t *testing.T) {
	entries, rules := builtIn(t)
	for i := range entries {
		e := &entries[i]
		if !validators.Adjustable(e.ID) {
			var page strings.Builder
			if err := WritePage(&page, e); err != nil || strings.Contains(page.String(), "in the namespace "+exampleNamespace) || !strings.Contains(page.String(), "its severity is fixed") {
				t.Errorf("%s: %v, %s", e.ID, err, page.String())
			}
			continue
		}
		text, err := e.example()
		if err != nil {
			t.Fatal(err)
		}
		var settings policyv1alpha1.RuleSettings
		if err := yaml.UnmarshalStrict([]byte(text), &settings); err != nil {
			t.Fatalf("%s: %v", e.ID, err)
		}
		if errs := validators.CheckSettings(rules, &settings); len(errs) > 0 {
			t.Errorf("%s: %v", e.ID, errs)
		}
		compiled, notes := validators.NewSettings(rules, settings)
		shop := compiled.For(map[string]string{"kubernetes.io/metadata.name": exampleNamespace})
		if len(notes) > 0 || !maps.Equal(shop, validators.Severities{e.ID: e.weakened()}) || len(compiled.For(nil)) > 0 {
			t.Errorf("%s: in the namespace %v, elsewhere %v, notes %v", e.ID, shop, compiled.For(nil), notes)
		}
	}
}
