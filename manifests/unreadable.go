package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxUnreadable is the number of documents of one file that cannot be read, and are listed.
const maxUnreadable = 1_000

// Content is what was read from files.
type Content struct {
	Documents []Document
	// Unreadable are the documents and files that cannot be read, in the order of the files.
	Unreadable []Unreadable
}

// Unreadable is a document, or a whole file, that cannot be read or evaluated. It implements error.
type Unreadable struct {
	// Document has no object if its text cannot be parsed. Its index is 0 for a whole file.
	Document
	// Position is where the error is, or where the document begins. It is zero if that is not known.
	Position
	// Err is the error, without the name of the file.
	Err error
}

// Error implements error.
func (u *Unreadable) Error() string { return u.Location() + ": " + u.Err.Error() }

// Unwrap returns the error without the name of the file.
func (u *Unreadable) Unwrap() error { return u.Err }

// FieldError is an error of a field.
type FieldError struct {
	Path string
	Err  error
}

// Error implements error.
func (e *FieldError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns the error without the field.
func (e *FieldError) Unwrap() error { return e.Err }

// Unreadable returns the document as one that cannot be read or evaluated, at the field of the error.
func (d Document) Unreadable(err error) Unreadable {
	u := Unreadable{Document: d, Err: err}
	path := ""
	if of := (*FieldError)(nil); errors.As(err, &of) {
		path = of.Path
	} else if of := (*field.Error)(nil); errors.As(err, &of) {
		path = of.Field
	}
	u.Position, _ = d.Find(path)
	return u
}

// unreadableFile returns the content of a file that cannot be read.
func unreadableFile(in Document, err error) *Content {
	return &Content{Unreadable: []Unreadable{{Document: in, Err: plainly(err)}}}
}

// Complete returns the documents, or the first error. A field that is set more than once is an error.
func (c *Content) Complete() ([]Document, error) {
	c = c.Strictly()
	if len(c.Unreadable) > 0 {
		return nil, &c.Unreadable[0]
	}
	return c.Documents, nil
}

// AddAll adds documents without positions, such as those that a kustomization renders.
func (c *Content) AddAll(source string, rendered *Content) {
	for _, d := range rendered.Documents {
		c.Documents = append(c.Documents, Document{Source: source, Index: d.Index, Object: d.Object})
	}
	for _, u := range rendered.Unreadable {
		c.Unreadable = append(c.Unreadable, Unreadable{Document: Document{Source: source, Index: u.Index}, Err: u.Err})
	}
}

// add adds the objects of a document.
func (c *Content) add(in Document, v *value) {
	in.text = v.text
	if v.err != nil {
		line, text := v.text.located(oneLine(v.err))
		c.reject(Unreadable{Document: in, Position: Position{Line: line, Column: 1}, Err: text})
		return
	}
	objects, errs := objectsOf(v.value)
	for _, err := range errs {
		c.reject(in.Unreadable(err))
	}
	if repeated, ok := besideItems(v.repeated, objects); ok { // the objects of the value before would be missing
		c.reject(in.rejectFor(repeated))
		return
	}
	for _, o := range objects {
		found := in
		found.Object, found.base, found.Repeated = o.Unstructured, o.base, within(v.repeated, o.base)
		c.Documents = append(c.Documents, found)
	}
}

// reject adds a document that cannot be read, up to a bound.
func (c *Content) reject(u Unreadable) {
	switch n := len(c.Unreadable); {
	case n < maxUnreadable:
		c.Unreadable = append(c.Unreadable, u)
	case n == maxUnreadable:
		u.Err = fmt.Errorf("cannot be read, and perhaps later ones: only the first %d of a file are listed", maxUnreadable)
		c.Unreadable = append(c.Unreadable, u)
	}
}

var lineOfParser = regexp.MustCompile(`\bline (\d+): `)

// located replaces the lines of a parser, which count from the begin of the document, by those of the file. It returns
// the first of them too, or the line where the document begins.
func (t *text) located(err error) (int, error) {
	before := len(t.content) - len(bytes.TrimLeft(t.content, " \t\r\n"))
	first := t.line + bytes.Count(t.content[:before], []byte("\n"))
	found := false
	message := lineOfParser.ReplaceAllStringFunc(err.Error(), func(text string) string {
		line, wrong := strconv.Atoi(lineOfParser.FindStringSubmatch(text)[1])
		if wrong != nil {
			return text
		}
		if line += t.line - 1; !found {
			first, found = line, true
		}
		return fmt.Sprintf("line %d: ", line)
	})
	return first, errors.New(message)
}
