package catalogue

import (
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// WriteTable writes a row for each entry.
func WriteTable(w io.Writer, entries []Entry) error {
	if len(entries) == 0 {
		_, err := fmt.Fprintln(w, "No rule matches.")
		return err
	}
	return rulePrinter.Table(w, printers.Table, entries)
}

// rulePrinter prints rules.
var rulePrinter = printers.Printer[Entry]{
	Columns: []string{"ID", "SEVERITY", "APPLIES TO", "ON", "TITLE"},
	Row:     func(e *Entry) []string { return []string{e.ID, string(e.Severity), e.scopes(), e.on, e.Title} },
	Spacing: printers.Narrow,
}

// WriteJSON writes a list of entries, or one entry as an object if single is true.
func WriteJSON(w io.Writer, entries []Entry, single bool) error {
	if single && len(entries) == 1 {
		return texts.WriteJSON(w, entries[0])
	}
	return texts.WriteJSON(w, entries)
}

// WritePage writes all about one rule.
func WritePage(w io.Writer, e *Entry) error {
	lines := [][]string{
		{e.ID},
		{e.Title + "."},
		{""},
		{"Severity:", string(e.Severity)},
		{"Applies to:", e.scopes()},
		{"On:", e.platforms()},
		{"Remedy:", e.Remedy},
	}
	if e.AtStart {
		lines = append(lines, []string{"KubeVirt:", "validates it only when the VM starts; the VM never runs"})
	}
	if e.SecurityRelevant {
		lines = append(lines, []string{"Security:", e.security()})
	}
	if err := printers.Rows(w, printers.Narrow, lines); err != nil {
		return err
	}
	parts, err := e.parts()
	if err != nil {
		return err
	}
	for _, part := range parts {
		if _, err := fmt.Fprintf(w, "\n%s:\n\n%s", part.title, indented(part.text)); err != nil {
			return err
		}
	}
	if !validators.Adjustable(e.ID) {
		return nil
	}
	example, err := e.example()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\nTo %s in the namespace %s:\n\n%s", e.effect(), exampleNamespace, indented(example))
	return err
}

// part is a part of the example.
type part struct{ title, text, language string }

// parts returns the example and its remedy; none if the rule has no example.
func (e *Entry) parts() ([]part, error) {
	if e.Example == nil {
		return nil, nil
	}
	manifest, err := e.Example.Manifest()
	if err != nil {
		return nil, err
	}
	around, err := e.Example.Circumstances()
	if err != nil {
		return nil, err
	}
	patch, err := e.Example.Patch()
	if err != nil {
		return nil, err
	}
	parts := []part{{"An object that violates the rule", manifest, "yaml"}}
	for _, c := range around {
		parts = append(parts, part{c.Title, c.Manifest, "yaml"})
	}
	return append(parts, part{"The remedy, as a JSON patch", patch, "json"}), nil
}

// platforms describes the platforms in words.
func (e *Entry) platforms() string {
	if e.on == anywhere {
		return "all hypervisors and architectures"
	}
	return e.on
}

func (e *Entry) security() string {
	if !validators.Adjustable(e.ID) {
		return "its severity is fixed"
	}
	return fmt.Sprintf("to lower its severity, users need the verb %s on rulesettings.%s", policyv1alpha1.VerbWeaken, policyv1alpha1.GroupVersion.Group)
}

// exampleNamespace is the namespace of the examples.
const exampleNamespace = "shop"

// example is a RuleSettings that weakens the rule in a namespace, as YAML.
func (e *Entry) example() (string, error) {
	type metadata struct {
		Name string `json:"name"`
	}
	data, err := yaml.Marshal(struct {
		APIVersion string                          `json:"apiVersion"`
		Kind       string                          `json:"kind"`
		Metadata   metadata                        `json:"metadata"`
		Spec       policyv1alpha1.RuleSettingsSpec `json:"spec"`
	}{
		APIVersion: policyv1alpha1.GroupVersion.String(), Kind: apikinds.RuleSettings, Metadata: metadata{Name: exampleNamespace},
		Spec: policyv1alpha1.RuleSettingsSpec{Rules: []policyv1alpha1.RuleSetting{{
			Rule: e.ID, Severity: policyv1alpha1.Severity(e.weakened()),
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": exampleNamespace}},
			Reason:            "why this namespace has an exception",
		}}},
	})
	if err != nil {
		return "", fmt.Errorf("the example of %s: %w", e.ID, err)
	}
	return string(data), nil
}

func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}
