package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/virtward/virtward/fieldpath"
)

// Form is an object in a normal form, without the fields that the caller omits. Two objects have the same form if decoding
// them into the type and encoding them again gives the same JSON. So these make no difference: null, an empty list or map,
// the zero of a field that is no pointer, the spelling of a quantity and of a string. An empty object behind a pointer makes
// a difference. Fields that the type does not have do not change.
//
// Omit names fields by their paths, such as "metadata.managedFields"; the elements of a list have the path of the list.
// The form is no longer than the object, and made in one pass, whatever the object is; JSON that has an error, or that
// is nested deeper than any object of the API, has none.
func Form(object []byte, t reflect.Type, omit ...string) ([]byte, error) {
	w := writer{object: object, omit: omit, form: make([]byte, 0, len(object))}
	if _, err := w.value(t, "", 0); err != nil {
		return nil, err
	}
	if w.space(); w.at != len(w.object) {
		return nil, errForm
	}
	return w.form, nil
}

// maxDepth bounds how deep objects are nested; those of the API have a depth of about twenty.
const maxDepth = 200

var errForm = errors.New("this is not the JSON of an object of the API")

// writer makes a form.
type writer struct {
	object []byte
	at     int
	omit   []string
	form   []byte
}

// value writes the form of the value that begins here. Zero tells that it is the zero of its type, so that a field
// which holds it need not be written. The type is nil if it is not known.
func (w *writer) value(t reflect.Type, path string, depth int) (zero bool, err error) {
	pointer := false
	for t != nil && t.Kind() == reflect.Pointer {
		t, pointer = t.Elem(), true
	}
	w.space()
	if depth > maxDepth || w.at >= len(w.object) {
		return false, errForm
	}
	switch w.object[w.at] {
	case '{':
		empty, err := w.members(t, path, depth)
		isStruct := t != nil && t.Kind() == reflect.Struct
		return empty && !pointer && (isStruct || isMap(t)), err
	case '[':
		empty, err := w.elements(t, path, depth)
		return empty && !pointer && t != nil && t.Kind() == reflect.Slice, err
	case '"':
		return w.text(t, pointer)
	}
	return w.literal(t, pointer)
}

func isMap(t reflect.Type) bool { return t != nil && t.Kind() == reflect.Map }

// members writes an object: its members sorted by name, as the API server sorts them, so that most need not be moved.
func (w *writer) members(t reflect.Type, path string, depth int) (empty bool, err error) {
	w.at++
	w.form = append(w.form, '{')
	begin := len(w.form)
	var starts []int
	var names []string
	for first := true; ; first = false {
		done, err := w.next('}', first)
		if err != nil {
			return false, err
		}
		if done {
			break
		}
		start := len(w.form)
		name, err := w.member(t, path, depth)
		if err != nil {
			return false, err
		}
		if name != nil {
			starts, names = append(starts, start), append(names, *name)
		}
	}
	if !slices.IsSorted(names) {
		w.sort(begin, starts, names)
	}
	w.form = append(w.form, '}')
	return len(names) == 0, nil
}

// member writes a member, or nothing if it is omitted or need not be written; its name is nil then.
func (w *writer) member(t reflect.Type, path string, depth int) (*string, error) {
	start := len(w.form)
	name, err := w.name()
	if err != nil {
		return nil, err
	}
	below := name
	if path != "" {
		below = path + "." + name
	}
	known, of := w.typeOf(t, name)
	quoted, err := json.Marshal(name)
	if err != nil {
		return nil, err
	}
	w.form = append(append(w.form, quoted...), ':')
	w.space()
	null := bytes.HasPrefix(w.object[w.at:], []byte("null"))
	zero, err := w.value(of, below, depth+1)
	if err != nil {
		return nil, err
	}
	if null || known && zero || slices.Contains(w.omit, below) {
		w.form = w.form[:start]
		return nil, nil
	}
	w.form = append(w.form, ',')
	return &name, nil
}

// typeOf is the type of a member. Only a field of a struct is left out when it is zero: a key of a map stays.
func (w *writer) typeOf(t reflect.Type, name string) (field bool, of reflect.Type) {
	switch {
	case t == nil:
		return false, nil
	case t.Kind() == reflect.Map:
		return false, t.Elem()
	case t.Kind() != reflect.Struct:
		return false, nil
	}
	if f, ok := fieldpath.FieldOf(t, name); ok {
		return true, f.Type
	}
	return false, nil
}

// elements writes a list.
func (w *writer) elements(t reflect.Type, path string, depth int) (empty bool, err error) {
	var of reflect.Type
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		of = t.Elem()
	}
	w.at++
	w.form = append(w.form, '[')
	empty = true
	for ; ; empty = false {
		done, err := w.next(']', empty)
		if err != nil {
			return false, err
		}
		if done {
			w.form = append(w.form, ']')
			return empty, nil
		}
		if _, err := w.value(of, path, depth+1); err != nil {
			return false, err
		}
		w.form = append(w.form, ',')
	}
}

// next passes by a comma, if it is not the first one, or the end of an object or a list.
func (w *writer) next(end byte, first bool) (done bool, err error) {
	w.space()
	if w.at >= len(w.object) {
		return false, errForm
	}
	switch b := w.object[w.at]; {
	case b == end:
		w.at++
		return true, nil
	case first:
		return false, nil
	case b == ',':
		w.at++
		w.space()
		return false, nil
	}
	return false, errForm
}

// sort puts members in the order of their names.
func (w *writer) sort(begin int, starts []int, names []string) {
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return bytes.Compare([]byte(names[a]), []byte(names[b])) })
	before := slices.Clone(w.form[begin:])
	w.form = w.form[:begin]
	for _, i := range order {
		end := begin + len(before)
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		w.form = append(w.form, before[starts[i]-begin:end-begin]...)
	}
}

func (w *writer) space() {
	for w.at < len(w.object) && (w.object[w.at] == ' ' || w.object[w.at] == '\t' || w.object[w.at] == '\r' || w.object[w.at] == '\n') {
		w.at++
	}
}

// raw passes by a string, and returns it with its quotes.
func (w *writer) raw() ([]byte, error) {
	if w.at >= len(w.object) || w.object[w.at] != '"' {
		return nil, errForm
	}
	from := w.at
	end := ClosingQuote(w.object, from+1)
	if end >= len(w.object) {
		return nil, errForm
	}
	w.at = end + 1
	return w.object[from:w.at], nil
}

// name passes by the name of a member, and the colon behind it.
func (w *writer) name() (string, error) {
	raw, err := w.raw()
	if err != nil {
		return "", err
	}
	w.space()
	if w.at >= len(w.object) || w.object[w.at] != ':' {
		return "", errForm
	}
	w.at++
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	var name string
	if err := json.Unmarshal(raw, &name); err != nil {
		return "", errForm
	}
	return name, nil
}

// text writes a string.
func (w *writer) text(t reflect.Type, pointer bool) (zero bool, err error) {
	raw, err := w.raw()
	if err != nil {
		return false, err
	}
	if t == quantityType {
		return w.quantity(string(raw[1:len(raw)-1])) && !pointer, nil
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		w.form = append(w.form, raw...)
	} else {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return false, errForm
		}
		if raw, err = json.Marshal(text); err != nil {
			return false, err
		}
		w.form = append(w.form, raw...)
	}
	return len(raw) == 2 && !pointer && t != nil && t.Kind() == reflect.String, nil
}

// literal writes a number, true, false or null.
func (w *writer) literal(t reflect.Type, pointer bool) (zero bool, err error) {
	from := w.at
	for w.at < len(w.object) && (Numeric(w.object[w.at]) || w.object[w.at] >= 'a' && w.object[w.at] <= 'z') {
		w.at++
	}
	literal := string(w.object[from:w.at])
	if literal == "" {
		return false, errForm
	}
	if t == quantityType && literal != "null" {
		return w.quantity(literal) && !pointer, nil
	}
	w.form = append(w.form, literal...)
	if pointer || t == nil {
		return false, nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return literal == "false", nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return literal == "0", nil
	case reflect.Struct: // such as IntOrString
		return literal == "0", nil
	}
	return false, nil
}

// quantity writes a quantity in the form that Kubernetes writes, and reports whether it is zero.
func (w *writer) quantity(text string) (zero bool) {
	if Parsable(text) {
		if parsed, err := resource.ParseQuantity(text); err == nil {
			text = parsed.String()
		}
	}
	w.form = append(append(append(w.form, '"'), text...), '"')
	return text == "0"
}
