package rego

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/limits/decode"
)

// MaxDocumentBytes bounds the JSON of a document. The API server stores no larger objects.
const MaxDocumentBytes = 1536 << 10

// MaxComputedBytes bounds the JSON of a Computed document.
const MaxComputedBytes = 512 << 10

// maxDigits bounds the digits of a number in a document, because arithmetic is exact.
const maxDigits = 100

// Input is what one admission tells the policies. A document is converted when the first policy reads it, and then
// shared by all. It is safe for concurrent use.
type Input struct {
	documents map[string]any
	// fields are those that are converted; nil for all of them.
	fields *Fields
	// parent has all other documents; nil if there are none.
	parent *Input

	mu        sync.Mutex
	converted map[string]conversion
	inputs    map[documentSet]conversion
}

// Computed is a document that is computed when the first policy reads it.
type Computed func() (any, error)

// Later is a document that is made when the first policy reads it.
type Later func() any

// Converted is a document that is converted once for all inputs.
type Converted struct{ conversion }

// Convert converts a document that is the same for all inputs, such as the values of parameters. It returns nil if that fails.
func Convert(document any) *Converted {
	made := convert(document, MaxDocumentBytes, nil)
	if made.err != nil {
		return nil
	}
	return &Converted{made}
}

type conversion struct {
	term *ast.Term
	extent
	err error
}

// extent is how large documents are: the bytes of their JSON, those of the longest string in it, and how many numbers it has that can
// have the same hash. low are the groups of the texts whose hashes are those of integers; nil for none, which is usual.
type extent struct {
	bytes, longest, alike int
	low                   *[]int
}

func (e extent) plus(other extent) extent {
	return extent{
		bytes: e.bytes + other.bytes, longest: max(e.longest, other.longest), alike: e.alike + other.alike, low: joinGroups(e.low, other.low),
	}
}

// NewInput takes the documents by their names in Documents: Go values of the Kubernetes API or anything else that
// encodes to JSON. They must not change while the Input is used. A nil, or a nil pointer, is a document that there
// is none of, and undefined in the policies.
func NewInput(documents map[string]any) (*Input, error) {
	var unknown []string
	for name := range documents {
		if _, known := slices.BinarySearch(documentNames(), name); !known {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("unknown document %q: the known ones are %s", slices.Min(unknown), strings.Join(documentNames(), ", "))
	}
	return &Input{documents: documents, converted: map[string]conversion{}, inputs: map[documentSet]conversion{}}, nil
}

// For restricts an Input that is not used yet to modules whose fields are among some: see FieldsOf. Their results and what they are
// charged stay the same.
func (in *Input) For(fields *Fields) *Input {
	in.fields = fields
	return in
}

// With is the same Input but for one document, such as the parameters of a policy. All others are converted once
// for both. A nil document is one that there is none of.
func (in *Input) With(name string, document any) *Input {
	return &Input{
		documents: map[string]any{name: document}, parent: in,
		converted: map[string]conversion{}, inputs: map[documentSet]conversion{},
	}
}

// term is input, with the documents of the set, and how large they are.
func (in *Input) term(set documentSet) (*ast.Term, extent, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if made, ok := in.inputs[set]; ok {
		return made.term, made.extent, nil
	}
	object, whole := ast.NewObject(), extent{}
	for i, name := range documentNames() {
		if set&(1<<i) == 0 {
			continue
		}
		document := in.document(name)
		if document.err != nil {
			return nil, extent{}, fmt.Errorf("the document %s: %w", name, document.err)
		}
		if document.term != nil {
			object.Insert(ast.InternedTerm(name), document.term)
			whole = whole.plus(document.extent)
		}
	}
	made := conversion{term: ast.NewTerm(object), extent: whole}
	in.inputs[set] = made
	return made.term, made.extent, nil
}

// document is a document in the evaluator's form; its term is nil if there is none.
func (in *Input) document(name string) conversion {
	document, own := in.documents[name]
	if !own && in.parent != nil {
		in.parent.mu.Lock()
		defer in.parent.mu.Unlock()
		return in.parent.document(name)
	}
	done, ok := in.converted[name]
	if later, is := document.(Later); is && !ok {
		document = later()
	}
	if absent(document) {
		return conversion{}
	}
	if prepared, is := document.(*Converted); is && !ok {
		done, ok = prepared.conversion, true
		in.converted[name] = done
	}
	if !ok {
		most := MaxDocumentBytes
		if compute, later := document.(Computed); later {
			var err error
			if document, err = compute(); err != nil {
				return conversion{err: err}
			}
			most = MaxComputedBytes
		}
		fields, _ := in.fields.below(name)
		done = convert(document, most, fields)
		in.converted[name] = done
	}
	return done
}

func absent(document any) bool {
	if document == nil {
		return true
	}
	v := reflect.ValueOf(document)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// convert goes by way of JSON: that is what a policy means by a field, quantities included, and reflection over
// maps, which apimachinery offers, measured the same. The extent is that of the whole document.
func convert(document any, most int, fields *Fields) conversion {
	data, err := json.Marshal(withoutManagedFields(document))
	if err != nil {
		return conversion{err: err}
	}
	if len(data) > most {
		return conversion{err: fmt.Errorf("it has %d bytes of JSON: at most %d", len(data), most)}
	}
	text := string(data)
	wide, longest, alike := scan(text)
	if wide {
		return conversion{err: fmt.Errorf("a number in it has more than %d digits, or a large exponent", maxDigits)}
	}
	hashed := newHashedTexts()
	defer hashed.release()
	value, err := valueOf(text, fields, hashed)
	if err != nil {
		return conversion{err: err}
	}
	return conversion{term: ast.NewTerm(value), extent: extent{bytes: len(data), longest: longest, alike: alike, low: hashed.lowGroups()}}
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

// scan reports whether a number in JSON, outside of its strings, has too many digits when it is written out, how long the longest string
// is, and how many numbers can have the hash of another one: OPA's hash of a number is the integer below it, as a float.
func scan(data string) (wide bool, longest, alike int) {
	for i := 0; i < len(data); i++ {
		switch b := data[i]; {
		case b == '"':
			end := decode.ClosingQuote(data, i+1)
			longest = max(longest, end-i-1)
			i = end
		case b >= '0' && b <= '9' || b == '-' || b == '.' || b == '+':
			end := i + 1
			for end < len(data) && decode.Numeric(data[end]) {
				end++
			}
			wide = wide || end-i > maxDigits || end-i > 4 && magnitude(data[i:end]) > 10*maxDigits
			if end-i > exactDigits || strings.ContainsAny(data[i:end], ".eE") {
				alike++
			}
			i = end - 1
		}
	}
	return wide, longest, alike
}

// wideNumber reports whether a text that is to be decoded has a number of too many digits in it.
func wideNumber(text string) bool {
	wide, _, _ := scan(text)
	return wide
}

// ownBytes are the bytes of JSON of the documents that were converted for this Input only.
func (in *Input) ownBytes() int {
	if in.parent == nil {
		return 0
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	total := 0
	for _, document := range in.converted {
		total += document.bytes
	}
	return total
}
