package mutators

import (
	"reflect"
	"slices"
	"strings"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/fieldpath"
)

// siteField is a field that a template sets, and its path. The tree does not have other fields, so that filling visits
// only these.
type siteField struct {
	// path is relative to the spec; that of an embedded structure is its parent's.
	path string
	// index is the place of the field in its structure, or of the element in its list.
	index int
	form  siteForm
	// below are the fields of an object, or the elements of a list.
	below []siteField
	// keys are those of a map, sorted.
	keys []siteKey
	// group is that of the field; zero for none.
	group groups
	// choice marks an object of which one member at most may be set.
	choice bool
}

// siteKey is a key of a map.
type siteKey struct {
	path  string
	key   reflect.Value
	group groups
}

// siteForm tells how a field is filled.
type siteForm int

const (
	// siteScalar is filled as it is: texts, numbers, quantities, pointers to them.
	siteScalar siteForm = iota
	// siteObject is filled field by field.
	siteObject
	// siteMap is filled key by key.
	siteMap
	// siteList is filled as a whole.
	siteList
)

// fieldsIn are the fields that a template sets. Those that only bound what others may grow to are not among them:
// see SiteFill.bounds.
func fieldsIn(template *v1.VirtualMachineInstanceSpec) []siteField {
	return objectFields(reflect.ValueOf(template).Elem(), "", false)
}

// objectFields are the fields of a structure that are set. In a list, those are too that KubeVirt does not take an
// element without, whatever their values.
func objectFields(object reflect.Value, path string, inList bool) []siteField {
	var fields []siteField
	for i := range object.NumField() {
		value, described := object.Field(i), object.Type().Field(i)
		name, omitEmpty, inline := fieldpath.Name(&described)
		below := fieldpath.Joined(path, name)
		if name == "" && !inline || isBound(below) {
			continue
		}
		expected := inList && name != "" && !omitEmpty && value.Kind() != reflect.Pointer && !isGiven(below)
		if absent(value) && !expected {
			continue
		}
		f := newSiteField(value, below, i, inList)
		if f.form != siteObject || len(f.below) > 0 || reflect.Indirect(value).IsZero() {
			fields = append(fields, f)
		}
	}
	return fields
}

// absent reports whether a value is none: zero, or a list or a map with nothing in it.
func absent(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Slice, reflect.Map:
		return value.Len() == 0
	}
	return value.IsZero()
}

func newSiteField(value reflect.Value, path string, index int, inList bool) siteField {
	f := siteField{path: path, index: index, group: groupOf(path)}
	t := value.Type()
	switch {
	case isScalar(t):
		f.form = siteScalar
	case t.Kind() == reflect.Pointer:
		f.form, f.choice = siteObject, isChoice(t.Elem())
		if !value.IsNil() {
			f.below = objectFields(value.Elem(), path, inList)
		}
	case t.Kind() == reflect.Struct:
		f.form, f.choice = siteObject, isChoice(t)
		f.below = objectFields(value, path, inList)
	case t.Kind() == reflect.Slice:
		f.form = siteList
		for i := range value.Len() {
			f.below = append(f.below, newSiteField(value.Index(i), fieldpath.Indexed(path, i, ""), i, true))
		}
	case t.Kind() == reflect.Map:
		f.form = siteMap
		for _, key := range value.MapKeys() {
			keyed := fieldpath.Keyed(path, key.String())
			f.keys = append(f.keys, siteKey{path: keyed, key: key, group: groupOf(keyed)})
		}
		slices.SortFunc(f.keys, func(a, b siteKey) int { return strings.Compare(a.path, b.path) })
	}
	return f
}

// isScalar reports whether values of a type are taken as a whole: what is no object, map or list in JSON.
func isScalar(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if fieldpath.Opaque(t) {
		return true
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return false
	case reflect.Slice:
		return t.Elem().Kind() == reflect.Uint8
	}
	return true
}

// filling is the filling of one spec by one layer.
type filling struct {
	*SiteFill

	// touched are the groups of which something was there before this layer.
	touched groups
}

func newFilling(fill *SiteFill, s *SiteDefaults) *filling {
	f := &filling{SiteFill: fill, touched: s.groups.touchedIn(fill.Spec)}
	if fill.Beside != nil {
		f.touched |= s.groups.touchedIn(fill.Beside)
	}
	return f
}

// run fills from a copy of the template, of which the spec keeps parts.
func (f *filling) run(s *SiteDefaults) {
	beside := reflect.Value{}
	if f.Beside != nil {
		beside = reflect.ValueOf(f.Beside).Elem()
	}
	f.object(s.fields, reflect.ValueOf(f.Spec).Elem(), reflect.ValueOf(s.template.DeepCopy()).Elem(), beside)
}

// object fills fields of a structure, and reports whether it filled any.
func (f *filling) object(fields []siteField, into, from, beside reflect.Value) (filled bool) {
	for i := range fields {
		at := &fields[i]
		if f.touched&at.group != 0 {
			continue
		}
		known := reflect.Value{}
		if beside.IsValid() {
			known = beside.Field(at.index)
		}
		if f.field(at, into.Field(at.index), from.Field(at.index), known) {
			filled = true
		}
	}
	return filled
}

// field fills one field. beside is not valid where nothing is known beside the spec.
func (f *filling) field(at *siteField, into, from, beside reflect.Value) bool {
	switch at.form {
	case siteObject:
		return f.nested(at, into, from, beside)
	case siteMap:
		return f.mapping(at, into, from, beside)
	}
	if !absent(into) || beside.IsValid() && !absent(beside) || f.leaves(at.path) {
		return false
	}
	into.Set(from)
	f.record(at, from)
	return true
}

// nested fills an object field by field. One that is not there is made if anything in it is filled.
func (f *filling) nested(at *siteField, into, from, beside reflect.Value) bool {
	target := into
	if into.Kind() == reflect.Pointer {
		if target = into.Elem(); into.IsNil() {
			target = reflect.New(into.Type().Elem()).Elem()
		}
		from, beside = from.Elem(), pointed(beside)
	}
	if at.choice && (chosenOtherwise(at, target) || chosenOtherwise(at, beside)) {
		return false
	}
	if len(at.below) == 0 { // that it is there is all that it says
		if into.Kind() != reflect.Pointer || !into.IsNil() || beside.IsValid() || f.leaves(at.path) {
			return false
		}
		into.Set(target.Addr())
		f.Recorder.Record(at.path, into.Interface())
		return true
	}
	if !f.object(at.below, target, from, beside) {
		return false
	}
	if into.Kind() == reflect.Pointer && into.IsNil() {
		into.Set(target.Addr())
	}
	return true
}

// pointed is what a pointer points at; not valid if that is nothing.
func pointed(value reflect.Value) reflect.Value {
	if !value.IsValid() {
		return value
	}
	return value.Elem()
}

// chosenOtherwise reports whether an object has a member set that the template does not choose.
func chosenOtherwise(at *siteField, object reflect.Value) bool {
	if !object.IsValid() {
		return false
	}
	for i := range object.NumField() {
		if !object.Field(i).IsZero() && !slices.ContainsFunc(at.below, func(below siteField) bool { return below.index == i }) {
			return true
		}
	}
	return false
}

// mapping fills a map key by key. A map that is not there is recorded as a whole.
func (f *filling) mapping(at *siteField, into, from, beside reflect.Value) (filled bool) {
	isNew := into.Len() == 0
	for i := range at.keys {
		k := &at.keys[i]
		taken := into.Len() > 0 && into.MapIndex(k.key).IsValid() || beside.IsValid() && beside.MapIndex(k.key).IsValid()
		if taken || f.touched&k.group != 0 || f.leaves(k.path) {
			continue
		}
		if into.IsNil() {
			into.Set(reflect.MakeMapWithSize(into.Type(), len(at.keys)))
		}
		value := from.MapIndex(k.key)
		into.SetMapIndex(k.key, value)
		if filled = true; !isNew {
			f.Recorder.Record(k.path, value.Interface())
		}
	}
	if filled && isNew {
		f.Recorder.Record(at.path, into.Interface())
	}
	return filled
}

// record notes what was filled as a whole, by the fields that it consists of: layers that come later may fill others.
func (f *filling) record(at *siteField, value reflect.Value) {
	switch {
	case at.form == siteScalar || at.form == siteMap:
		f.Recorder.Record(at.path, value.Interface())
	case len(at.below) == 0:
		if value.Kind() != reflect.Pointer {
			value = value.Addr()
		}
		f.Recorder.Record(at.path, value.Interface())
	default:
		if value.Kind() == reflect.Pointer {
			value = value.Elem()
		}
		for i := range at.below {
			below := &at.below[i]
			if at.form == siteList {
				f.record(below, value.Index(below.index))
			} else {
				f.record(below, value.Field(below.index))
			}
		}
	}
}
