package mutators

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/limits/decode"
)

// maxTemplate bounds a template, in bytes of JSON. What people write is far below.
const maxTemplate = 32 << 10

// readTemplate reads the partial spec of a VirtualMachineDefaults. The errors name its fields; path is its
// path.
func readTemplate(raw []byte, path *field.Path) (*v1.VirtualMachineInstanceSpec, field.ErrorList) {
	if len(raw) > maxTemplate {
		return nil, field.ErrorList{field.TooLong(path, "", maxTemplate)}
	}
	var value any
	if len(raw) > 0 {
		if err := sigsjson.UnmarshalCaseSensitivePreserveInts(raw, &value); err != nil {
			return nil, field.ErrorList{field.Invalid(path, field.OmitValueType{}, "is not JSON: "+err.Error())}
		}
	}
	object, ok := value.(map[string]any)
	if !ok || len(object) == 0 {
		return nil, field.ErrorList{field.Required(path, "give some fields of the spec of a virtual machine instance")}
	}
	specType := reflect.TypeFor[v1.VirtualMachineInstanceSpec]()
	if err := decode.QuantitiesIn(value, specType, path); err != nil {
		return nil, field.ErrorList{err}
	}
	f := &templateForm{}
	f.object(object, specType, path, "", false)
	if len(f.errs) > 0 {
		return nil, f.errs
	}
	template := &v1.VirtualMachineInstanceSpec{}
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(raw, template); err != nil {
		return nil, field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
	return template, identities(template, path)
}

// templateForm holds a template to the type of a spec: by the API server it is taken as it is.
type templateForm struct {
	errs field.ErrorList
}

// given are fields without which KubeVirt takes no spec, but which every virtual machine has, or gets.
var given = []string{"domain", "domain.devices", "domain.machine.type", "domain.devices.inputs.type"}

// isGiven tells it of a path with places in lists, or without.
func isGiven(path string) bool {
	return slices.Contains(given, places.ReplaceAllString(path, ""))
}

// places are those of elements.
var places = regexp.MustCompile(`\[\d+\]`)

// value checks a value. In a list, zeroes are values like others; elsewhere they would fill nothing. name is the
// path without the places in lists.
func (f *templateForm) value(value any, t reflect.Type, path *field.Path, name string, inList bool) {
	pointer := t.Kind() == reflect.Pointer
	if pointer {
		t = t.Elem()
	}
	if value == nil {
		f.wrong(path, value, "nothing", t)
		return
	}
	if isScalar(t) {
		f.scalar(value, t, path, !pointer && !inList)
		return
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		object, ok := value.(map[string]any)
		switch {
		case !ok:
			f.wrong(path, value, "", t)
		case t.Kind() == reflect.Struct:
			f.object(object, t, path, name, inList)
		default:
			f.mapping(object, t, path, inList)
		}
	case reflect.Slice:
		list, ok := value.([]any)
		switch {
		case !ok:
			f.wrong(path, value, "", t)
		case len(list) == 0 && !inList:
			f.ineffective(path)
		}
		for i := range list {
			f.value(list[i], t.Elem(), path.Index(i), name, true)
		}
	}
}

func (f *templateForm) object(object map[string]any, t reflect.Type, path *field.Path, name string, inList bool) {
	for _, member := range slices.Sorted(maps.Keys(object)) {
		below := fieldpath.Joined(name, member)
		if known, ok := fieldpath.FieldOf(t, member); ok {
			f.value(object[member], known.Type, path.Child(member), below, inList)
		} else {
			f.errs = append(f.errs, field.Invalid(path.Child(member), field.OmitValueType{}, "there is no such field in the spec of a virtual machine instance"))
		}
	}
	for _, member := range needed(t) {
		if _, there := object[member]; !there && !isGiven(fieldpath.Joined(name, member)) {
			f.errs = append(f.errs, field.Required(path.Child(member), "a virtual machine without it is rejected"))
		}
	}
}

// needed are the fields that KubeVirt does not take an object without, sorted.
func needed(t reflect.Type) []string {
	var names []string
	fields := fieldpath.FieldsOf(t)
	for i := range fields {
		if !fields[i].OmitEmpty {
			names = append(names, fields[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

func (f *templateForm) mapping(object map[string]any, t reflect.Type, path *field.Path, inList bool) {
	if len(object) == 0 && !inList {
		f.ineffective(path)
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		f.value(object[key], t.Elem(), path.Key(key), "", true)
	}
}

// scalar checks a text, a number or whatever else decodes itself.
func (f *templateForm) scalar(value any, t reflect.Type, path *field.Path, zeroIsNone bool) {
	decoded := reflect.New(t)
	data, err := json.Marshal(value)
	if err == nil {
		err = sigsjson.UnmarshalCaseSensitivePreserveInts(data, decoded.Interface())
	}
	switch {
	case err != nil:
		f.wrong(path, value, "", t)
	case zeroIsNone && decoded.Elem().IsZero():
		f.ineffective(path)
	}
}

func (f *templateForm) ineffective(path *field.Path) {
	f.errs = append(f.errs, field.Invalid(path, field.OmitValueType{}, "fills nothing: it is what a field that is left out means"))
}

func (f *templateForm) wrong(path *field.Path, value any, is string, t reflect.Type) {
	if is == "" {
		is = jsonName(value)
	}
	f.errs = append(f.errs, field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("is %s where %s is expected", is, expectedName(t))))
}

// jsonName names what a value looks like in YAML.
func jsonName(value any) string {
	switch v := value.(type) {
	case string:
		return fmt.Sprintf("the text %q", v[:min(len(v), 40)])
	case bool:
		return fmt.Sprint(v)
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("the number %v", value)
}

// expectedName names what a value of a type looks like in YAML.
func expectedName(t reflect.Type) string {
	if fieldpath.Opaque(t) {
		switch t.Name() {
		case "Quantity":
			return "a quantity such as 500m or 4Gi"
		case "IntOrString":
			return "a number or a text"
		}
		return "a text"
	}
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a text in base64"
		}
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0 up"
	}
	return "a whole number"
}

// identities are the fields that tell one virtual machine from another.
func identities(template *v1.VirtualMachineInstanceSpec, path *field.Path) (errs field.ErrorList) {
	domain := path.Child("domain")
	forbid := func(path *field.Path, value string) {
		if value != "" {
			errs = append(errs, field.Forbidden(path, "every virtual machine needs one of its own"))
		}
	}
	forbid(path.Child("hostname"), template.Hostname)
	if firmware := template.Domain.Firmware; firmware != nil {
		forbid(domain.Child("firmware", "uuid"), string(firmware.UUID))
		forbid(domain.Child("firmware", "serial"), firmware.Serial)
	}
	if chassis := template.Domain.Chassis; chassis != nil {
		forbid(domain.Child("chassis", "serial"), chassis.Serial)
	}
	for i := range template.Domain.Devices.Interfaces {
		forbid(domain.Child("devices", "interfaces").Index(i).Child("macAddress"), template.Domain.Devices.Interfaces[i].MacAddress)
	}
	return errs
}
