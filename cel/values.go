package cel

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// form is what becomes of a Go type in an expression.
type form uint8

const (
	formUnknown form = iota
	formBool
	formString
	formInt
	formUint
	formFloat
	formBytes     // a string in base64, as in JSON
	formPointer   // what it points at
	formInterface // what is in it
	formList
	formMap
	formObject
	formConverted // a type with a JSON form of its own, such as a quantity
)

// shape is how the values of one Go type are read; it is made once for each type.
type shape struct {
	form   form
	typ    reflect.Type
	elem   *shape
	entry  *value.TypeReflectCacheEntry
	fields []shapeField
	index  map[string]int
}

// shapeField is one field of a struct, those of structs inlined into it included.
type shapeField struct {
	// owner is the shape that has the field, and at its index there.
	owner *shape
	at    int
	name  string
	entry *value.FieldCacheEntry
	shape *shape
}

// shapes knows the shape of every type that was read so far. Safe for concurrent use.
type shapes struct {
	known sync.Map // reflect.Type → *shape
	mutex sync.Mutex
}

func (s *shapes) of(t reflect.Type) *shape {
	if known, ok := s.known.Load(t); ok {
		return known.(*shape)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	made := map[reflect.Type]*shape{}
	result := s.make(t, made)
	// Published when all is complete: types refer to each other.
	for t, shape := range made {
		s.known.Store(t, shape)
	}
	return result
}

func (s *shapes) make(t reflect.Type, made map[reflect.Type]*shape) *shape {
	if known, ok := s.known.Load(t); ok {
		return known.(*shape)
	}
	if begun, ok := made[t]; ok {
		return begun
	}
	result := &shape{typ: t, entry: value.TypeReflectEntryOf(t)}
	made[t] = result
	result.form = formOf(t, result.entry)
	switch result.form {
	case formPointer, formList, formMap:
		result.elem = s.make(t.Elem(), made)
	case formObject:
		entries := result.entry.OrderedFields()
		result.fields = make([]shapeField, len(entries))
		result.index = make(map[string]int, len(entries))
		for i, entry := range entries {
			field := entry.GetFrom(reflect.Zero(t))
			result.fields[i] = shapeField{owner: result, at: i, name: entry.JsonName, entry: entry, shape: s.make(field.Type(), made)}
			result.index[entry.JsonName] = i
		}
	}
	return result
}

func formOf(t reflect.Type, entry *value.TypeReflectCacheEntry) form {
	switch t.Kind() {
	case reflect.Pointer:
		return formPointer
	case reflect.Interface:
		return formInterface
	}
	if entry.CanConvertToUnstructured() {
		return formConverted
	}
	switch t.Kind() {
	case reflect.Bool:
		return formBool
	case reflect.String:
		return formString
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return formInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return formUint
	case reflect.Float32, reflect.Float64:
		return formFloat
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return formBytes
		}
		return formList
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return formMap
		}
	case reflect.Struct:
		return formObject
	}
	return formUnknown
}

// valueOf is a Go value as an expression sees it: what its JSON form would be, without making that form.
// A struct is an object, read field by field when needed; nil is null. What is read is kept,
// so that the values of one evaluation belong to one goroutine.
func (s *shapes) valueOf(native any) ref.Val {
	if native == nil {
		return types.NullValue
	}
	v := reflect.ValueOf(native)
	return s.convert(s.of(v.Type()), v)
}

func (s *shapes) convert(shape *shape, v reflect.Value) ref.Val {
	switch shape.form {
	case formPointer:
		if v.IsNil() {
			return types.NullValue
		}
		return s.convert(shape.elem, v.Elem())
	case formInterface:
		if v.IsNil() {
			return types.NullValue
		}
		inner := v.Elem()
		return s.convert(s.of(inner.Type()), inner)
	case formConverted:
		return s.converted(shape, v)
	case formList:
		if v.IsNil() {
			return types.NullValue
		}
		return &list{value: v, shape: shape, shapes: s}
	case formMap:
		if v.IsNil() {
			return types.NullValue
		}
		return &dict{value: v, shape: shape, shapes: s}
	case formObject:
		return &object{value: v, shape: shape, shapes: s}
	default:
		return scalar(shape, v)
	}
}

// scalar is a value that has no others in it.
func scalar(shape *shape, v reflect.Value) ref.Val {
	switch shape.form {
	case formBool:
		return types.Bool(v.Bool())
	case formString:
		if shape.typ == numberType {
			return number(v.String())
		}
		return types.String(v.String())
	case formInt:
		return types.Int(v.Int())
	case formUint:
		if v.Uint() > math.MaxInt64 {
			return types.NewErr("the number %d does not fit into an int", v.Uint())
		}
		return types.Int(v.Uint()) //nolint:gosec // bounded above
	case formFloat:
		return types.Double(v.Float())
	case formBytes:
		if v.IsNil() {
			return types.NullValue
		}
		return types.String(base64.StdEncoding.EncodeToString(v.Bytes()))
	default:
		return types.NewErr("a value of the Go type %s cannot be read", shape.typ)
	}
}

// converted is the value of a type with a JSON form of its own: a quantity is its canonical string, a time the
// string of RFC 3339.
func (s *shapes) converted(shape *shape, v reflect.Value) ref.Val {
	if !v.CanAddr() {
		copied := reflect.New(v.Type()).Elem()
		copied.Set(v)
		v = copied
	}
	plain, err := shape.entry.ToUnstructured(v)
	if err != nil {
		return types.NewErr("a value of the Go type %s cannot be read: %v", shape.typ, err)
	}
	return s.valueOf(plain)
}

var numberType = reflect.TypeFor[json.Number]()

// number is a number that JSON was read into as text.
func number(text string) ref.Val {
	n := json.Number(text)
	if i, err := n.Int64(); err == nil {
		return types.Int(i)
	}
	f, err := n.Float64()
	if err != nil {
		return types.NewErr("%q is not a number", text)
	}
	return types.Double(f)
}

// object is a struct. It is no map to CEL, although it has the type of one: has() tells an empty struct, such as
// resources, from one with content, and reading through it is no error.
type object struct {
	value  reflect.Value
	shape  *shape
	shapes *shapes
	cache  []ref.Val
	nodes  uint64
}

var (
	_ traits.Container   = (*object)(nil)
	_ traits.FieldTester = (*object)(nil)
	_ traits.Indexer     = (*object)(nil)
	_ traits.Iterable    = (*object)(nil)
	_ traits.Sizer       = (*object)(nil)
)

// absent is the cached value of a field without a value; no field has it as its value.
var absent ref.Val = types.OptionalNone

func (o *object) field(i int) ref.Val {
	if o.cache == nil {
		o.cache = make([]ref.Val, len(o.shape.fields))
	}
	if known := o.cache[i]; known != nil {
		return known
	}
	field := &o.shape.fields[i]
	result := absent
	if v := field.entry.GetFrom(o.value); !field.entry.CanOmit(v) {
		if converted := o.shapes.convert(field.shape, v); converted != types.NullValue {
			result = converted
		}
	}
	o.cache[i] = result
	return result
}

// set reports whether a field has a value: an empty struct, which cannot be distinguished from an absent one, has none.
func (o *object) set(i int) bool {
	v := o.field(i)
	inner, ok := v.(*object)
	if !ok || o.shape.fields[i].shape.form != formObject {
		return v != absent
	}
	if inner.value.IsZero() {
		return false
	}
	for i := range inner.shape.fields {
		if inner.set(i) {
			return true
		}
	}
	return false
}

func (o *object) Get(key ref.Val) ref.Val {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key)
	}
	if i, known := o.shape.index[string(name)]; known {
		if v := o.valueAt(i); v != nil {
			return v
		}
	}
	return noSuchKey(string(name))
}

// valueAt returns the value of a field; nil if it has none.
func (o *object) valueAt(i int) ref.Val {
	if v := o.field(i); v != absent {
		return v
	}
	if o.shape.fields[i].shape.form == formObject { // omitted for being empty, and read as such
		return o.shapes.convert(o.shape.fields[i].shape, reflect.Zero(o.shape.fields[i].shape.typ))
	}
	return nil
}

func noSuchKey(name string) ref.Val { return types.NewErr("no such key: %s", name) }

func (o *object) IsSet(key ref.Val) ref.Val {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key)
	}
	i, known := o.shape.index[string(name)]
	return types.Bool(known && o.set(i))
}

// Contains is what 'name' in object asks.
func (o *object) Contains(key ref.Val) ref.Val { return o.IsSet(key) }

// names are those of the fields with a value, sorted.
func (o *object) names() []string {
	var names []string
	for i := range o.shape.fields {
		if o.set(i) {
			names = append(names, o.shape.fields[i].name)
		}
	}
	return names
}

func (o *object) Iterator() traits.Iterator { return &names{names: o.names()} }
func (o *object) Size() ref.Val             { return types.Int(len(o.names())) }
func (o *object) Type() ref.Type            { return types.MapType }
func (o *object) Value() any                { return o.value.Interface() }

func (o *object) Equal(other ref.Val) ref.Val {
	switch other := other.(type) {
	case *object:
		if o.shape == other.shape && o.value == other.value {
			return types.True
		}
		return sameObject(o, o.names(), other, len(other.names()))
	case traits.Mapper:
		size, _ := other.Size().(types.Int)
		return sameObject(o, o.names(), other, int(size))
	}
	return types.False
}

// sameObject compares the named fields with the entries of another object or map of so many entries.
func sameObject(one traits.Indexer, names []string, other interface {
	traits.Container
	traits.Indexer
}, size int,
) ref.Val {
	if len(names) != size {
		return types.False
	}
	for _, name := range names {
		key := types.String(name)
		if other.Contains(key) != types.True || types.Equal(one.Get(key), other.Get(key)) != types.True {
			return types.False
		}
	}
	return types.True
}

func (o *object) ConvertToNative(t reflect.Type) (any, error) { return toNative(o, o.value, t) }
func (o *object) ConvertToType(t ref.Type) ref.Val            { return toType(o, types.MapType, t) }

// names iterates over keys.
type names struct {
	noValue
	names []string
	next  int
}

func (n *names) HasNext() ref.Val { return types.Bool(n.next < len(n.names)) }

func (n *names) Next() ref.Val {
	if n.next >= len(n.names) {
		return types.NewErr("no more keys")
	}
	n.next++
	return types.String(n.names[n.next-1])
}

// dict is a Go map with strings as keys. It is walked in the order of its keys, which Go's own maps are not.
type dict struct {
	value  reflect.Value
	shape  *shape
	shapes *shapes
	cache  map[string]ref.Val
	keys   []string
}

var _ traits.Mapper = (*dict)(nil)

func (d *dict) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), false
	}
	if plain, ok := reflect.TypeAssert[map[string]string](d.value); ok {
		v, found := plain[string(name)]
		if !found {
			return nil, false
		}
		return types.String(v), true
	}
	if known, ok := d.cache[string(name)]; ok {
		return known, true
	}
	v := d.value.MapIndex(reflect.ValueOf(string(name)).Convert(d.shape.typ.Key()))
	if !v.IsValid() {
		return nil, false
	}
	result := d.shapes.convert(d.shape.elem, v)
	if d.cache == nil {
		d.cache = make(map[string]ref.Val, d.value.Len())
	}
	d.cache[string(name)] = result
	return result, true
}

func (d *dict) Get(key ref.Val) ref.Val {
	v, found := d.Find(key)
	switch {
	case found:
		return v
	case v != nil:
		return v // why the key is none
	default:
		return noSuchKey(string(key.(types.String)))
	}
}

func (d *dict) Contains(key ref.Val) ref.Val {
	v, found := d.Find(key)
	if v != nil && types.IsUnknownOrError(v) {
		return v
	}
	return types.Bool(found)
}

// names are the keys, sorted.
func (d *dict) names() []string {
	if d.keys == nil {
		d.keys = make([]string, 0, d.value.Len())
		for _, key := range d.value.MapKeys() {
			d.keys = append(d.keys, key.String())
		}
		slices.Sort(d.keys)
	}
	return d.keys
}

func (d *dict) Iterator() traits.Iterator { return &names{names: d.names()} }
func (d *dict) Size() ref.Val             { return types.Int(d.value.Len()) }
func (d *dict) Type() ref.Type            { return types.MapType }
func (d *dict) Value() any                { return d.value.Interface() }

func (d *dict) Equal(other ref.Val) ref.Val {
	switch other := other.(type) {
	case *object:
		return other.Equal(d)
	case traits.Mapper:
		size, _ := other.Size().(types.Int)
		return sameObject(d, d.names(), other, int(size))
	}
	return types.False
}

func (d *dict) ConvertToNative(t reflect.Type) (any, error) { return toNative(d, d.value, t) }
func (d *dict) ConvertToType(t ref.Type) ref.Val            { return toType(d, types.MapType, t) }

// list is a Go slice.
type list struct {
	value  reflect.Value
	shape  *shape
	shapes *shapes
	cache  []ref.Val
}

var _ traits.Lister = (*list)(nil)

func (l *list) at(i int) ref.Val {
	if l.cache == nil {
		l.cache = make([]ref.Val, l.value.Len())
	}
	if l.cache[i] == nil {
		l.cache[i] = l.shapes.convert(l.shape.elem, l.value.Index(i))
	}
	return l.cache[i]
}

func (l *list) Get(index ref.Val) ref.Val {
	i, err := types.IndexOrError(index)
	if err != nil {
		return types.ValOrErr(index, "%v", err)
	}
	if i < 0 || i >= l.value.Len() {
		return types.NewErr("index out of bounds: %d", i)
	}
	return l.at(i)
}

func (l *list) Contains(v ref.Val) ref.Val {
	if types.IsUnknownOrError(v) {
		return v
	}
	for i := range l.value.Len() {
		if types.Equal(l.at(i), v) == types.True {
			return types.True
		}
	}
	return types.False
}

func (l *list) Add(other ref.Val) ref.Val {
	second, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	own := make([]ref.Val, l.value.Len())
	for i := range own {
		own[i] = l.at(i)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, own).(traits.Adder).Add(second)
}

func (l *list) Iterator() traits.Iterator { return &elements{list: l} }
func (l *list) Size() ref.Val             { return types.Int(l.value.Len()) }
func (l *list) Type() ref.Type            { return types.ListType }
func (l *list) Value() any                { return l.value.Interface() }

func (l *list) Equal(other ref.Val) ref.Val {
	second, ok := other.(traits.Lister)
	if !ok || l.Size() != second.Size() {
		return types.False
	}
	for i := range l.value.Len() {
		if types.Equal(l.at(i), second.Get(types.Int(i))) != types.True {
			return types.False
		}
	}
	return types.True
}

func (l *list) ConvertToNative(t reflect.Type) (any, error) { return toNative(l, l.value, t) }
func (l *list) ConvertToType(t ref.Type) ref.Val            { return toType(l, types.ListType, t) }

// elements iterates over a list.
type elements struct {
	noValue
	list *list
	next int
}

func (e *elements) HasNext() ref.Val { return types.Bool(e.next < e.list.value.Len()) }

func (e *elements) Next() ref.Val {
	if e.next >= e.list.value.Len() {
		return types.NewErr("no more elements")
	}
	e.next++
	return e.list.at(e.next - 1)
}

// noValue is the part of a value that an expression never gets hold of, such as an iterator.
type noValue struct{}

func (noValue) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("it is no %v", t)
}

func (noValue) ConvertToType(t ref.Type) ref.Val {
	return types.NewErr("it is no %s", t.TypeName())
}
func (noValue) Equal(ref.Val) ref.Val { return types.False }
func (noValue) Type() ref.Type        { return types.IteratorType }
func (noValue) Value() any            { return nil }

func toType(v ref.Val, own *types.Type, wanted ref.Type) ref.Val {
	switch wanted {
	case own:
		return v
	case types.TypeType:
		return own
	}
	return types.NewErr("a %s is no %s", own.TypeName(), wanted.TypeName())
}

// toNative gives a value to a function of a library, which may ask for its Go type or for strings.
func toNative(v ref.Val, underlying reflect.Value, wanted reflect.Type) (any, error) {
	if underlying.Type().AssignableTo(wanted) {
		return underlying.Interface(), nil
	}
	if elements, ok := v.(traits.Lister); ok && wanted.Kind() == reflect.Slice {
		result := reflect.MakeSlice(wanted, 0, underlying.Len())
		for it := elements.Iterator(); it.HasNext() == types.True; {
			element, err := it.Next().ConvertToNative(wanted.Elem())
			if err != nil {
				return nil, err
			}
			result = reflect.Append(result, reflect.ValueOf(element))
		}
		return result.Interface(), nil
	}
	return nil, fmt.Errorf("a %s is no %v", v.Type().TypeName(), wanted)
}

// plain is a value as JSON would decode it: map[string]any, []any, string, int64, float64, bool or nil. A value
// that JSON does not have, such as a quantity, is its text.
func plain(v ref.Val) any {
	switch v := v.(type) {
	case nil, types.Null:
		return nil
	case types.Bool, types.Int, types.Double, types.String:
		return v.Value()
	case types.Uint:
		return float64(v)
	case types.Bytes:
		return base64.StdEncoding.EncodeToString(v)
	case *types.Optional:
		if v.HasValue() {
			return plain(v.GetValue())
		}
		return nil
	case traits.Lister:
		all := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			all = append(all, plain(it.Next()))
		}
		return all
	case traits.Iterable: // a map or an object
		entries := map[string]any{}
		indexer, ok := v.(traits.Indexer)
		if !ok {
			return nil
		}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			entries[textOf(key)] = plain(indexer.Get(key))
		}
		return entries
	default:
		return textOf(v)
	}
}

func textOf(v ref.Val) string {
	if s, ok := v.ConvertToType(types.StringType).(types.String); ok {
		return string(s)
	}
	return strings.TrimSpace(fmt.Sprint(v.Value()))
}
