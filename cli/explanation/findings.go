package explanation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// maxMessage bounds messages in texts for people, in characters; JSON shows them whole.
const maxMessage = 500

// Finding is what a rule says about a field.
type Finding struct {
	// Rule is its id.
	Rule string `json:"rule"`
	// Severity is Deny, Warn, or Audit, which nobody is told of but whoever reads this.
	Severity validators.Severity `json:"severity"`
	// Field is its path in the object as written.
	Field string `json:"field"`
	// Type is the Kubernetes cause type, such as FieldValueInvalid.
	Type string `json:"type"`
	// Value is what is wrong there, unless something is missing or forbidden.
	Value any `json:"value,omitempty"`
	// Message says what is wrong and where the value comes from, and Remedy what to do about it.
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
	// Layer is the source of the value if its author did not write it.
	Layer string `json:"layer,omitempty"`
	// Effective is the field in the effective object, if Field is the one through which it came about.
	Effective string `json:"effective,omitempty"`
	// Line and Column say where the field is in the file, or the nearest one around it; from 1, and 0 if the
	// object was not read from a text.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}

// FindingsOf are findings on the object that was written, with the places where it was.
func FindingsOf(written manifests.Document, found []validators.Finding) []Finding {
	findings := make([]Finding, 0, len(found))
	for i := range found {
		f := &found[i]
		at, _ := written.Find(f.Error.Field)
		findings = append(findings, Finding{
			Rule: f.Rule, Severity: f.Severity, Field: f.Error.Field, Type: string(f.Error.Type), Value: valueOf(f.Error),
			Message: f.Text(), Remedy: f.Remedy, Layer: f.Layer, Effective: f.Effective, Line: at.Line, Column: at.Column,
		})
	}
	return findings
}

// valueOf is the offending value as JSON knows it; nil where an error has none to speak of.
func valueOf(err *field.Error) any {
	switch err.Type {
	case field.ErrorTypeRequired, field.ErrorTypeForbidden, field.ErrorTypeTooLong, field.ErrorTypeTooShort, field.ErrorTypeInternal:
		return nil // the message does not show it either
	}
	if _, omitted := err.BadValue.(field.OmitValueType); omitted {
		return nil
	}
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false)
	var value any
	if encoder.Encode(err.BadValue) != nil || sigsjson.UnmarshalCaseSensitivePreserveInts(data.Bytes(), &value) != nil {
		return fmt.Sprint(err.BadValue)
	}
	return value
}

// Rejections are the findings that reject the object.
func (e *Explanation) Rejections() []Finding {
	return slices.DeleteFunc(slices.Clone(e.Findings), func(f Finding) bool { return f.Severity != validators.Deny })
}

// Summary is VirtualMachine default/db is rejected: 2 findings, the first one at spec.running. It is empty of what
// is not rejected.
func (e *Explanation) Summary() string {
	switch rejections := e.Rejections(); len(rejections) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("%s is rejected: a finding at %s", e.Object, rejections[0].Field)
	default:
		return fmt.Sprintf("%s is rejected: %d findings, the first one at %s", e.Object, len(rejections), rejections[0].Field)
	}
}

// Kind is the word for a finding: rejected, warning, or audit.
func (f *Finding) Kind() string {
	switch f.Severity {
	case validators.Deny:
		return "rejected"
	case validators.Audit:
		return "audit"
	}
	return "warning"
}

// String is the finding without its remedy, in one line, in the words of the webhook:
//
//	spec.running: Invalid value: true: is deprecated: use spec.runStrategy: Always [virtward/vm-running-deprecated]
func (f *Finding) String() string {
	return Printable(f.Field) + ": " + f.Text() + f.origin()
}

// Text is the message in one line that is not too long.
func (f *Finding) Text() string { return texts.ShortenCharacters(Printable(f.Message), maxMessage) }

// origin names the rule, at the end of a line.
func (f *Finding) origin() string { return " [virtward/" + f.Rule + "]" }

// findingLines say all that was found, with the remedies.
func (e *Explanation) findingLines() []string {
	var lines []string
	for i := range e.Findings {
		f := &e.Findings[i]
		lines = append(lines, f.Kind()+": "+f.String())
		if f.Remedy != "" {
			lines = append(lines, "  "+Printable(f.Remedy))
		}
	}
	return lines
}

// comments are what findings say, by the place of the field.
type comments map[string][]string

func (c comments) at(place path) string { return strings.Join(c[place.key()], "\n") }

// add puts a comment at the field, or at the nearest one around it that the object has, and then says which one
// was meant.
func (c comments) add(object map[string]any, field string, text func(missing string) string) {
	steps := path(provenance.Steps(field))
	present := steps.presentIn(object)
	missing := ""
	if present < len(steps) && present > 0 {
		missing = strings.Join(steps[present:], ".") + ": "
	}
	key := steps[:present].key()
	c[key] = append(c[key], "# "+Printable(text(missing)))
}

// comments stand at the fields. One whose cause lies elsewhere points there.
func (e *Explanation) comments() comments {
	all := comments{}
	for i := range e.Findings {
		f := &e.Findings[i]
		all.add(e.Effective, f.Field, func(missing string) string {
			return f.Kind() + ": " + missing + f.Text() + f.origin()
		})
		if f.Effective != "" {
			all.add(e.Effective, f.Effective, func(missing string) string {
				return f.Kind() + ": " + missing + "see " + f.Field + f.origin()
			})
		}
	}
	return all
}
