package explanation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/jstemmer/go-junit-report/v2/junit"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/cli/sarif"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// KindUnreadable is the kind of an Unreadable in JSON.
const KindUnreadable = "Unreadable"

// Unreadable describes a document, or a whole file, that cannot be read or evaluated. Its JSON form is documented, and
// fields are only ever added to it.
type Unreadable struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Source is where it was read: "vm.yaml: document 2".
	Source string `json:"source"`
	// File is the path of the file; empty for standard input and the cluster.
	File string `json:"file,omitempty"`
	// Document counts the documents of the file, from 1; it is 0 for the whole file.
	Document int `json:"document,omitempty"`
	// Line and Column are where the error is, from 1; 0 if that is not known.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Message says what is wrong, and names the object if that is known.
	Message string `json:"message"`

	// file is the name of the file, also of standard input.
	file string
}

// Unreadables returns the descriptions of documents that cannot be read or evaluated, each once, sorted by their place.
func Unreadables(all []manifests.Unreadable) []Unreadable {
	described := make([]Unreadable, len(all))
	for i := range all {
		described[i] = unreadableOf(all[i])
	}
	slices.SortStableFunc(described, func(a, b Unreadable) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.Document, b.Document), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(described)
}

func unreadableOf(u manifests.Unreadable) Unreadable {
	return Unreadable{
		APIVersion: APIVersion, Kind: KindUnreadable,
		Source: u.Location(), File: u.File, Document: u.Index, Line: u.Line, Column: u.Column, Message: texts.ShortenCharacters(Printable(u.Err.Error()), maxMessage),
		file: Printable(u.Document.Source),
	}
}

// String returns the source and the message.
func (u Unreadable) String() string { return Printable(u.Source) + ": " + u.Message }

// Messages returns a line for each.
func Messages(all []Unreadable) []string {
	lines := make([]string, len(all))
	for i := range all {
		lines[i] = all[i].String()
	}
	return lines
}

// UnreadableError returns an error that summarizes what cannot be read, or nil. An invalid document has several errors.
func UnreadableError(all []Unreadable) error {
	documents := map[string]bool{}
	for i := range all {
		documents[all[i].Source] = true
	}
	switch {
	case len(all) == 0:
		return nil
	case len(all) == 1:
		return errors.New(all[0].String())
	case len(documents) == 1:
		return fmt.Errorf("%s, and %d more", all[0], len(all)-1)
	}
	return fmt.Errorf("%d documents cannot be read, the first one %s", len(documents), all[0])
}

// ruleUnreadable is the rule of documents that cannot be read, in reports that require one.
const ruleUnreadable = "unreadable"

// UnreadableRule describes what documents that cannot be read violate, in reports that require a rule.
func UnreadableRule() validators.Rule {
	return validators.Rule{ID: ruleUnreadable, Title: "A document can be read", Severity: validators.Deny, Remedy: "Correct the document. The others are evaluated."}
}

// Result is the document as a result of a SARIF log.
func (u Unreadable) Result() sarif.Result {
	return sarif.Result{
		Rule: ruleUnreadable, Severity: validators.Deny, Text: u.Message, Name: Printable(u.Source),
		File: u.File, Line: max(u.Line, 1), Column: max(u.Column, 1),
	}
}

// Testcase is the document as a test with an error.
func (u Unreadable) Testcase() junit.Testcase {
	place := ""
	if u.Line > 0 {
		place = fmt.Sprintf("%s:%d:%d: ", u.file, u.Line, max(u.Column, 1))
	}
	return junit.Testcase{
		Name: Printable(u.Source), Classname: Printable(u.Source), Time: "0",
		Error: &junit.Result{Type: "Unreadable", Message: u.Message, Data: place + u.Message + "\n"},
	}
}

// yaml returns a YAML document.
func (u Unreadable) yaml() ([]byte, error) {
	data, err := yaml.Marshal(u)
	return append([]byte("# unreadable: "+u.String()+"\n"), data...), err
}

// table returns the line of a table.
func (u Unreadable) table() []byte { return []byte("unreadable: " + u.String() + "\n") }
