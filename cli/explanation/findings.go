package explanation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// maxMessage is the length of messages in texts for people, in characters. JSON has the whole messages.
const maxMessage = 500

// Finding is a finding on an object, and the position of its field in the file of the object, or of the nearest field
// around it. The position is zero if the object was not read from a file.
type Finding struct {
	*validators.Finding
	manifests.Position
}

// FindingsOf locates findings in the document that they are about.
func FindingsOf(written manifests.Document, found []validators.Finding) []Finding {
	findings := make([]Finding, len(found))
	for i := range found {
		at, _ := written.Find(found[i].Error.Field)
		findings[i] = Finding{&found[i], at}
	}
	return findings
}

// Document is the JSON form of a finding, of explain and audit. It is documented, and fields are only ever added to it.
type Document struct {
	// Rule is the id of the rule, or policy/NAME.
	Rule string `json:"rule"`
	// Severity is Deny, Warn, or Audit, which appears only in reports.
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
	// Effective is the field in the effective object, if Field is the one that determines it.
	Effective string `json:"effective,omitempty"`
	// Exempted is the exception that exempts the object from the policy.
	Exempted *Exempted `json:"exempted,omitempty"`
	// Line and Column are from 1.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}

// Exempted is the JSON form of an exception for an object.
type Exempted struct {
	// Exception is the name of the VirtualMachinePolicyException, in the namespace of the object.
	Exception string `json:"exception"`
	// Until is its end, and Reason why it exists.
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
}

// Document returns the JSON form.
func (f Finding) Document() Document {
	document := Document{
		Rule: f.Rule, Severity: f.Severity, Field: f.Error.Field, Type: string(f.Error.Type), Value: valueOf(f.Error),
		Message: f.Text(), Remedy: f.Remedy, Layer: f.Layer, Effective: f.Effective, Line: f.Line, Column: f.Column,
	}
	if by := f.Exempted; by != nil {
		document.Exempted = &Exempted{Exception: by.Exception, Until: by.Until.UTC(), Reason: by.Reason}
	}
	return document
}

// MarshalJSON implements json.Marshaler.
func (f Finding) MarshalJSON() ([]byte, error) { return texts.JSON(f.Document()) }

// valueOf is the offending value as JSON has it; nil if the error has none.
func valueOf(err *field.Error) any {
	switch err.Type {
	case field.ErrorTypeRequired, field.ErrorTypeForbidden, field.ErrorTypeTooLong, field.ErrorTypeTooShort, field.ErrorTypeInternal:
		return nil // the message does not show it either
	}
	if _, omitted := err.BadValue.(field.OmitValueType); omitted {
		return nil
	}
	var value any
	if data, err := texts.JSON(err.BadValue); err == nil && sigsjson.UnmarshalCaseSensitivePreserveInts(data, &value) == nil {
		return value
	}
	return fmt.Sprint(err.BadValue)
}

// Rejections returns the findings that reject the object.
func (e *Explanation) Rejections() []Finding {
	return slices.DeleteFunc(slices.Clone(e.Findings), func(f Finding) bool { return f.Severity != validators.Deny })
}

// Summary returns VirtualMachine default/db is rejected: 2 findings, the first one at spec.running. It is empty if the
// object is not rejected.
func (e *Explanation) Summary() string {
	switch rejections := e.Rejections(); len(rejections) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("%s is rejected: a finding at %s", e.Object, rejections[0].Error.Field)
	default:
		return fmt.Sprintf("%s is rejected: %d findings, the first one at %s", e.Object, len(rejections), rejections[0].Error.Field)
	}
}

// Kind returns the word for a finding: rejected, warning, audit, or exempted.
func (f Finding) Kind() string {
	switch {
	case f.Exempted != nil:
		return "exempted"
	case f.Severity == validators.Deny:
		return "rejected"
	case f.Severity == validators.Audit:
		return "audit"
	}
	return "warning"
}

// String returns the finding without its remedy, in one line, as the webhooks do:
//
//	spec.running: Invalid value: true: is deprecated: use spec.runStrategy: Always [virtward/vm-running-deprecated]
func (f Finding) String() string {
	return Printable(f.Error.Field) + ": " + f.Short() + f.origin()
}

// Short returns the text of the finding in one line, shortened.
func (f Finding) Short() string { return texts.ShortenCharacters(Printable(f.Text()), maxMessage) }

// origin returns the rule, for the end of a line.
func (f Finding) origin() string { return " [virtward/" + f.Rule + "]" }

// findingLines returns lines for all findings, with the remedies.
func (e *Explanation) findingLines() []string {
	var lines []string
	for _, f := range e.Findings {
		lines = append(lines, f.Kind()+": "+f.String())
		if f.Remedy != "" {
			lines = append(lines, "  "+Printable(f.Remedy))
		}
	}
	return lines
}

// comments are texts of findings, by the field.
type comments map[string][]string

func (c comments) at(place path) string { return strings.Join(c[place.key()], "\n") }

// add adds a comment at the field. If the object lacks the field, the comment is at the nearest field around it, and
// names the missing part.
func (c comments) add(object map[string]any, field string, text func(missing string) string) {
	steps := path(fieldpath.Split(field))
	present := steps.presentIn(object)
	missing := ""
	if present < len(steps) && present > 0 {
		missing = strings.Join(steps[present:], ".") + ": "
	}
	key := steps[:present].key()
	c[key] = append(c[key], "# "+Printable(text(missing)))
}

// comments returns the comments at the fields. A finding at another field than the effective one has a comment at both.
func (e *Explanation) comments() comments {
	all := comments{}
	for _, f := range e.Findings {
		all.add(e.Effective, f.Error.Field, func(missing string) string {
			return f.Kind() + ": " + missing + f.Short() + f.origin()
		})
		if f.Effective != "" {
			all.add(e.Effective, f.Effective, func(missing string) string {
				return f.Kind() + ": " + missing + "see " + f.Error.Field + f.origin()
			})
		}
	}
	return all
}
