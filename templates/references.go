package templates

import (
	"cmp"
	"slices"
	"strings"

	"github.com/virtward/virtward/api/template/v1beta1"
)

// segment is a part of a string: literal text, or a reference to a parameter.
type segment struct {
	text      string
	reference bool
}

// isNameByte reports whether a byte can be part of the name of a parameter.
func isNameByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_'
}

// nameLength is the length of the name at the start of a text.
func nameLength(text string) int {
	for i := range len(text) {
		if !isNameByte(text[i]) {
			return i
		}
	}
	return len(text)
}

// isReferable reports whether ${NAME} refers to a parameter of this name.
func isReferable(name string) bool { return name != "" && nameLength(name) == len(name) }

// split cuts a text at its references ${NAME}. A text without references is one segment.
func split(text string) []segment {
	at := nextReference(text, 0)
	if at < 0 {
		return []segment{{text: text}}
	}
	segments := make([]segment, 0, 2*strings.Count(text, "${")+1)
	from := 0
	for at >= 0 {
		if at > from {
			segments = append(segments, segment{text: text[from:at]})
		}
		name := text[at+2 : at+2+nameLength(text[at+2:])]
		segments = append(segments, segment{text: name, reference: true})
		from = at + 2 + len(name) + 1
		at = nextReference(text, from)
	}
	if from < len(text) {
		segments = append(segments, segment{text: text[from:]})
	}
	return segments
}

// nextReference is where the next ${NAME} starts, or -1.
func nextReference(text string, from int) int {
	for {
		at := strings.Index(text[from:], "${")
		if at < 0 {
			return -1
		}
		at += from
		if n := nameLength(text[at+2:]); n > 0 && at+2+n < len(text) && text[at+2+n] == '}' {
			return at
		}
		from = at + 2
	}
}

// wholeReference is the name in a text that is ${{NAME}} and nothing else.
func wholeReference(text string) (name string, ok bool) {
	if len(text) < 6 || text[:3] != "${{" || text[len(text)-2:] != "}}" {
		return "", false
	}
	name = text[3 : len(text)-2]
	return name, isReferable(name)
}

// eachName calls do for the name of each reference in a text.
func eachName(text string, do func(name string)) {
	if name, whole := wholeReference(text); whole {
		do(name)
		return
	}
	for at := nextReference(text, 0); at >= 0; {
		end := at + 2 + nameLength(text[at+2:])
		do(text[at+2 : end])
		at = nextReference(text, end+1)
	}
}

// hasReference reports whether a text refers to a parameter.
func hasReference(text string) bool {
	_, whole := wholeReference(text)
	return whole || nextReference(text, 0) >= 0
}

// Defaults replaces the references in a text by the values that parameters have without a user. It also returns the name of the first
// parameter without a value.
func Defaults(text string, parameters []v1beta1.Parameter) (replaced, without string) {
	value := func(name string) string {
		at := slices.IndexFunc(parameters, func(p v1beta1.Parameter) bool { return p.Name == name })
		if at < 0 || parameters[at].Value == "" {
			without = cmp.Or(without, name)
			return ""
		}
		return parameters[at].Value
	}
	if name, whole := wholeReference(text); whole {
		return value(name), without
	}
	var b strings.Builder
	for _, s := range split(text) {
		if s.reference {
			s.text = value(s.text)
		}
		b.WriteString(s.text)
	}
	return b.String(), without
}

// DollarParameter is the parameter for the dollar sign of text that looks like a reference.
const DollarParameter = "DOLLAR"

// Dollar is the parameter of a name whose value is always "$".
func Dollar(name string) v1beta1.Parameter {
	return v1beta1.Parameter{Name: name, Description: "A dollar sign. Do not change it", Value: "$", Enum: []string{"$"}}
}

// Escape turns a text into one that renders to it: a ${NAME} in it refers to no parameter any more, but to the one of Dollar,
// whose name is dollar.
func Escape(text, dollar string) string {
	return escape(text, dollar, func(string) bool { return true })
}

// escape escapes the references that a function selects by their names.
func escape(text, dollar string, selects func(name string) bool) string {
	if name, whole := wholeReference(text); whole {
		if !selects(name) {
			return text
		}
		return "${" + dollar + "}" + text[1:]
	}
	var b strings.Builder
	from := 0
	for at := nextReference(text, 0); at >= 0; at = nextReference(text, at+1) {
		if !selects(text[at+2 : at+2+nameLength(text[at+2:])]) {
			continue
		}
		b.WriteString(text[from:at])
		b.WriteString("${" + dollar + "}")
		from = at + 1
	}
	b.WriteString(text[from:])
	return b.String()
}
