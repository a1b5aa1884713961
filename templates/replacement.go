package templates

import (
	"encoding/json"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// key is a key of an object with its references replaced. ok is false if it has no value, which is reported.
func (r *renderer) key(written string) (key string, replaced, ok bool) {
	if name, whole := wholeReference(written); whole {
		v := r.values[name]
		if v == nil || v.unknown {
			r.isUnknown()
			return "", true, false
		}
		r.keyOf(v)
		parsed, err := v.parse()
		if err != nil {
			return v.text, true, true
		}
		text, isText := parsed.(string)
		if !isText {
			r.deny(RuleNotAssignable, invalid(v.at, texts.Shorten(v.text, maxShown), "a key must be a text"))
			return "", true, false
		}
		return text, true, true
	}
	segments := split(written)
	if len(segments) == 1 && !segments[0].reference {
		return written, false, true
	}
	text, known := r.join(segments, r.keyOf)
	if !known {
		r.isUnknown()
	}
	return text, true, known
}

// keyOf reports a given value that decides the name of a field.
func (r *renderer) keyOf(v *value) {
	if v.isKey {
		return
	}
	v.isKey = true
	if v.given && v.parameter.Type != v1beta1.ParameterObject && len(v.parameter.Enum) == 0 {
		r.restrict(RuleAddsFields, v, "it decides the name of a field")
	}
}

// restrict denies a given value where templates must be approved, and warns of it elsewhere.
func (r *renderer) restrict(rule string, v *value, detail string) {
	for i := range r.findings {
		if f := &r.findings[i]; f.Rule == rule && f.Error.Field == v.at {
			return
		}
	}
	found := validators.Finding{Rule: rule, Severity: validators.Warn, Error: invalid(v.at, texts.Shorten(v.text, maxShown), detail), Remedy: remedies[rule]}
	switch {
	case r.options.Approved:
		r.deny(rule, found.Error)
	case rule != RuleNotConstrained:
		r.warn(rule, found.Error)
	case len(r.restricted) < maxFindings:
		r.restricted = append(r.restricted, found)
	}
}

// Restrict returns the findings of a render as they are with Options.Approved. So a template is rendered once if it becomes
// known after the render that the template must be approved.
func (r *Rendered) Restrict(findings []validators.Finding) []validators.Finding {
	findings = append(findings, r.restricted...)
	for i := range findings {
		switch findings[i].Rule {
		case RuleAddsFields, RuleLineBreak, RuleStructure, RuleNotConstrained:
			findings[i].Severity = validators.Deny
		}
	}
	validators.Sort(findings)
	return findings
}

// replace counts a replacement, and reports whether the bound allows it.
func (r *renderer) replace(v *value) bool {
	if r.replaced += len(v.text); r.replaced > maxReplaced {
		r.tooLarge()
		return false
	}
	return !r.tooLong
}

// join replaces the references of a text. known is false if a value is not known.
func (r *renderer) join(segments []segment, each func(*value)) (joined string, known bool) {
	size := 0
	known = true
	parts := make([]string, len(segments))
	for i, s := range segments {
		parts[i] = s.text
		if s.reference {
			v := r.values[s.text]
			if v == nil || v.unknown {
				known, parts[i] = false, ""
				continue
			}
			if !r.replace(v) {
				return "", false
			}
			each(v)
			parts[i] = v.text
		}
		if size += len(parts[i]); size > maxRendered {
			r.tooLarge()
			return "", false
		}
	}
	return strings.Join(parts, ""), known
}

// string writes a string of the tree.
func (r *renderer) string(written string, s *shape, literal bool) {
	if literal {
		r.text(written, s)
		return
	}
	if name, whole := wholeReference(written); whole {
		r.whole(name, s)
		return
	}
	segments := split(written)
	if len(segments) == 1 && !segments[0].reference {
		r.text(written, s)
		return
	}
	if len(segments) == 1 && !s.takesText() {
		r.needsJSON(segments[0].text, s)
		return
	}
	if joined, known := r.join(segments, r.lineOf); known {
		r.insert(segments, false, joined)
		r.text(joined, s)
	} else {
		r.isUnknown()
		r.write("null")
	}
}

// needsJSON reports ${NAME} in a field that takes no text, whatever the value is.
func (r *renderer) needsJSON(name string, s *shape) {
	name = texts.Shorten(name, maxShown)
	r.deny(RuleDoesNotDecode, invalid(r.at(), "${"+name+"}", "it must be "+s.kind.String()+", and ${"+name+"} is text: write ${{"+name+"}}"))
}

// lineOf reports a given value that adds lines to a text.
func (r *renderer) lineOf(v *value) {
	if v.isLine {
		return
	}
	v.isLine = true
	r.breaksLine(v, v.text)
}

func (r *renderer) breaksLine(v *value, text string) {
	if v.given && !v.constrained() && strings.ContainsAny(text, "\n\r\u0085\u2028\u2029") {
		r.restrict(RuleLineBreak, v, "it has a line break")
	}
}

// decodedText writes the text of ${{NAME}}.
func (r *renderer) decodedText(v *value, text string, s *shape) {
	if !v.isDecodedLine {
		v.isDecodedLine = true
		r.breaksLine(v, text)
	}
	if v.isFree() {
		r.insert([]segment{{text: v.parameter.Name, reference: true}}, true, text)
	}
	r.text(text, s)
}

// whole writes the value of ${{NAME}}: as JSON, or as text if it is no JSON.
func (r *renderer) whole(name string, s *shape) {
	v := r.values[name]
	if v == nil || v.unknown {
		r.isUnknown()
		r.write("null")
		return
	}
	if !r.replace(v) {
		return
	}
	parsed, err := v.parse()
	if tooMany, ok := errors.AsType[*field.Error](err); ok && json.Valid([]byte(v.text)) {
		r.deny(RuleTooLarge, &field.Error{Type: tooMany.Type, Field: v.at, BadValue: tooMany.BadValue, Detail: tooMany.Detail})
		return
	}
	switch {
	case err != nil:
		r.decodedText(v, v.text, s)
		return
	case parsed == nil:
		r.deny(RuleNullValue, invalid(v.at, v.text, "null is no value: "+r.at()+" must have one"))
		return
	}
	if text, isText := parsed.(string); isText {
		r.decodedText(v, text, s)
		return
	}
	if isComposite(parsed) && v.given && v.parameter.Type != v1beta1.ParameterObject {
		r.restrict(RuleAddsFields, v, "it adds fields to the VirtualMachine")
	}
	r.node(parsed, s, true)
}
