package analysis

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/cli/catalogue/examples"
	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/validators"
)

// Fix corrects a field: it has another name, or another value, or is removed.
type Fix struct {
	manifests.Position

	Rule string
	// Field is the path of the field in its document.
	Field string
	// Name is the name that was meant; empty if the value is wrong. Values are the texts that it can have then instead of Wrong, and
	// Literal is the other one of two values.
	Name    string
	Values  []string
	Wrong   string
	Literal string
	// Word is the word in an expression, at the position, instead of which Name was meant; empty if the field has another name.
	Word string
	// Remove reports whether the object is valid without the field.
	Remove bool
}

// fixOf returns the fix of a finding. It reads it from the texts of API servers: a field has no other place for it. Other rules have the
// remedy of their example.
func fixOf(f *explanation.Finding) (fix Fix, ok bool) {
	fix = Fix{Position: f.Position, Rule: f.Rule, Field: f.Error.Field}
	if f.Rule == validators.RuleUnknownField {
		fix.Name = meant(f.Error.Detail)
		return fix, fix.Name != ""
	}
	_, list, found := strings.Cut(f.Error.Detail, "supported values: ")
	if isValue := f.Error.Type == field.ErrorTypeNotSupported || f.Error.Type == field.ErrorTypeInvalid; isValue && found {
		fix.Values, fix.Wrong = quotedList(list), fmt.Sprint(f.Error.BadValue)
		return fix, len(fix.Values) > 0
	}
	remedy, found := remedies()[f.Rule]
	if !found || !slices.Equal(remedy.steps, generalSteps(fieldpath.Split(f.Error.Field))) {
		return fix, false
	}
	fix.Remove, fix.Literal = remedy.remove, remedy.literal
	return fix, true
}

// meant returns the name of a field that a message suggests; empty if it suggests none.
func meant(message string) string {
	_, name, found := strings.Cut(message, ": did you mean ")
	name, isOne := strings.CutSuffix(name, "?")
	if !found || !isOne || strings.ContainsAny(name, ".[] ") {
		return ""
	}
	return name
}

// misspelt returns the fix of a problem of a policy or another configuration: a field, or one in an expression, has another name.
func misspelt(p *policytest.Problem) (fix Fix, ok bool) {
	fix = Fix{Position: manifests.Position{Line: p.Line, Column: p.Column}, Rule: p.Rule, Field: p.Field}
	if strings.HasPrefix(p.Message, "unknown field: ") {
		fix.Name = meant(p.Message)
	}
	if parts := inExpression.FindStringSubmatch(p.Message); parts != nil {
		fix.Word, fix.Name = parts[1], parts[2]
	}
	return fix, fix.Name != ""
}

// inExpression finds in an error of CEL what is written, and what was probably meant.
var inExpression = regexp.MustCompile(`(?:undefined field|undeclared reference to) '(\w+)'.*; did you mean '(\w+)'\?`)

// quotedList returns the texts of a list in quotes.
func quotedList(list string) (all []string) {
	for list != "" {
		quoted, err := strconv.QuotedPrefix(list)
		if err != nil {
			break
		}
		if value, err := strconv.Unquote(quoted); err == nil && value != "" {
			all = append(all, value)
		}
		list = strings.TrimPrefix(list[len(quoted):], ", ")
	}
	return all
}

// remedy is what the remedy of a rule does, if it changes one field.
type remedy struct {
	// steps lead to the field; generalSteps says how.
	steps   []string
	remove  bool
	literal string
}

// remedies are those of the rules whose example shows a change of one field that is the same for all objects: the field is removed, or
// has the other one of two values.
var remedies = sync.OnceValue(func() map[string]remedy {
	known, err := examples.All()
	if err != nil {
		return nil
	}
	all := map[string]remedy{}
	for id, example := range known {
		if len(example.Remedy) != 1 {
			continue
		}
		operation := &example.Remedy[0]
		made := remedy{remove: operation.Op == "remove"}
		if text := string(operation.Value); operation.Op == "replace" && (text == "true" || text == "false") {
			made.literal = text
		}
		if !made.remove && made.literal == "" {
			continue
		}
		for _, step := range strings.Split(strings.TrimPrefix(operation.Path, "/"), "/") {
			made.steps = append(made.steps, strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
		}
		made.steps = generalSteps(made.steps)
		all[id] = made
	}
	return all
})

// generalSteps returns the steps of a path that are the same for each element of a list, and for a virtual machine and its instance.
func generalSteps(steps []string) []string {
	if len(steps) > 3 && slices.Equal(steps[:3], []string{"spec", "template", "spec"}) {
		steps = steps[2:]
	}
	general := slices.Clone(steps)
	for i, step := range general {
		if _, err := strconv.Atoi(step); err == nil {
			general[i] = "[]"
		}
	}
	return general
}
