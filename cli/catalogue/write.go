package catalogue

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// WriteTable writes a row for each entry.
func WriteTable(w io.Writer, entries []Entry) error {
	if len(entries) == 0 {
		_, err := fmt.Fprintln(w, "No rule matches.")
		return err
	}
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "ID\tSEVERITY\tAPPLIES TO\tON\tTITLE")
	for i := range entries {
		e := &entries[i]
		fmt.Fprintf(columns, "%s\t%s\t%s\t%s\t%s\n", e.ID, e.Severity, e.scopes(), e.on, e.Title)
	}
	return columns.Flush()
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
	lines := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(lines, "%s\n%s.\n\n", e.ID, e.Title)
	fmt.Fprintf(lines, "Severity:\t%s\n", e.Severity)
	fmt.Fprintf(lines, "Applies to:\t%s\n", e.scopes())
	fmt.Fprintf(lines, "On:\t%s\n", e.platforms())
	fmt.Fprintf(lines, "Remedy:\t%s\n", e.Remedy)
	if e.AtStart {
		fmt.Fprintf(lines, "KubeVirt:\t%s\n", "validates it only when the VM starts; the VM never runs")
	}
	if e.SecurityRelevant {
		fmt.Fprintf(lines, "Security:\t%s\n", e.security())
	}
	if err := lines.Flush(); err != nil || !validators.Adjustable(e.ID) {
		return err
	}
	example, err := e.example()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\nTo %s in the namespace %s:\n\n%s", e.effect(), exampleNamespace, indented(example))
	return err
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
