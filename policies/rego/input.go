package rego

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Bounds of a document: its JSON, and the digits of a number in it, because arithmetic is exact.
const (
	maxDocumentBytes = 8 << 20
	maxDigits        = 100
)

// Input is what one admission tells the policies. A document is converted when the first policy reads it, and then
// shared by all. It is safe for concurrent use.
type Input struct {
	documents map[string]any
	// parent is asked for every document but those here; nil if these are all.
	parent *Input

	mu        sync.Mutex
	converted map[string]conversion
	inputs    map[documentSet]*ast.Term
}

type conversion struct {
	term *ast.Term
	err  error
}

// NewInput takes the documents by their names in Documents: Go values of the Kubernetes API or anything else that
// encodes to JSON. They must not change while the Input is used. A nil, or a nil pointer, is a document that there
// is none of, and undefined in the policies.
func NewInput(documents map[string]any) (*Input, error) {
	for _, name := range slices.Sorted(maps.Keys(documents)) {
		if _, known := slices.BinarySearch(documentNames(), name); !known {
			return nil, fmt.Errorf("policies know no document %q: there are %s", name, strings.Join(documentNames(), ", "))
		}
	}
	return &Input{documents: documents, converted: map[string]conversion{}, inputs: map[documentSet]*ast.Term{}}, nil
}

// With is the same Input but for one document, such as the parameters of a policy. All others are converted once
// for both. A nil document is one that there is none of.
func (in *Input) With(name string, document any) *Input {
	return &Input{
		documents: map[string]any{name: document}, parent: in,
		converted: map[string]conversion{}, inputs: map[documentSet]*ast.Term{},
	}
}

// term is input, with the documents of the set.
func (in *Input) term(set documentSet) (*ast.Term, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if term := in.inputs[set]; term != nil {
		return term, nil
	}
	object := ast.NewObject()
	for i, name := range documentNames() {
		if set&(1<<i) == 0 {
			continue
		}
		document, err := in.document(name)
		if err != nil {
			return nil, fmt.Errorf("the document %s: %w", name, err)
		}
		if document != nil {
			object.Insert(ast.InternedTerm(name), document)
		}
	}
	in.inputs[set] = ast.NewTerm(object)
	return in.inputs[set], nil
}

// document is a document in the evaluator's form; nil if there is none.
func (in *Input) document(name string) (*ast.Term, error) {
	document, own := in.documents[name]
	if !own && in.parent != nil {
		in.parent.mu.Lock()
		defer in.parent.mu.Unlock()
		return in.parent.document(name)
	}
	if absent(document) {
		return nil, nil
	}
	done, ok := in.converted[name]
	if !ok {
		done.term, done.err = convert(document)
		in.converted[name] = done
	}
	return done.term, done.err
}

func absent(document any) bool {
	if document == nil {
		return true
	}
	v := reflect.ValueOf(document)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// convert goes by way of JSON: that is what a policy means by a field, quantities included, and reflection over
// maps, which apimachinery offers, measured the same.
func convert(document any) (*ast.Term, error) {
	data, err := json.Marshal(withoutManagedFields(document))
	if err != nil {
		return nil, err
	}
	if len(data) > maxDocumentBytes {
		return nil, fmt.Errorf("it has %d bytes of JSON, where %d are the most", len(data), maxDocumentBytes)
	}
	if longNumber(data) {
		return nil, fmt.Errorf("a number in it has more than %d digits", maxDigits)
	}
	value, err := ast.ValueFromReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return ast.NewTerm(value), nil
}

// withoutManagedFields is the object, or a shallow copy of it that lacks them: they are most of an object's bytes.
func withoutManagedFields(document any) any {
	object, ok := document.(metav1.Object)
	if !ok || len(object.GetManagedFields()) == 0 {
		return document
	}
	v := reflect.ValueOf(document)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return document
	}
	shallow := reflect.New(v.Elem().Type())
	shallow.Elem().Set(v.Elem())
	copied := shallow.Interface().(metav1.Object)
	copied.SetManagedFields(nil)
	return copied
}

// longNumber tells whether a number in JSON, outside of its strings, has too many digits.
func longNumber(data []byte) bool {
	digits, quoted := 0, false
	for i := 0; i < len(data); i++ {
		b := data[i]
		switch {
		case b == '"':
			quoted, digits = !quoted, 0
		case quoted && b == '\\':
			i++
		case quoted:
		case b >= '0' && b <= '9' || b == '.' || b == '-' || b == '+' || b == 'e' || b == 'E':
			if digits++; digits > maxDigits {
				return true
			}
		default:
			digits = 0
		}
	}
	return false
}
