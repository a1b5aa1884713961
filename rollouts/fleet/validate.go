package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/limits/decode"
)

// maxErrors bounds the errors of a spec.
const maxErrors = 50

// forbidden are fields that a patch must not have, below the spec of a virtual machine. A merge patch replaces whole lists, so
// all virtual machines would share claims, addresses and identities.
var forbidden = []string{
	"dataVolumeTemplates", "running", "runStrategy", "template.spec.volumes", "template.spec.networks", "template.spec.hostname",
	"template.spec.domain.firmware", "template.spec.domain.devices.disks", "template.spec.domain.devices.interfaces",
}

// Validate returns what the schema of a rollout cannot reject: all errors of the spec, at most maxErrors, in its order.
func Validate(spec *v1alpha1.VirtualMachineRolloutSpec) field.ErrorList {
	path := field.NewPath("spec")
	errs := metav1validation.ValidateLabelSelector(&spec.Selector, metav1validation.LabelSelectorValidationOptions{}, path.Child("selector"))
	if spec.Patch != nil {
		errs = append(errs, validatePatch(spec.Patch.Raw, path.Child("patch"))...)
	}
	errs = append(errs, validateCanary(spec.Strategy.Canary, path.Child("strategy", "canary"))...)
	for i := range spec.Windows {
		errs = append(errs, validateWindow(&spec.Windows[i], path.Child("windows").Index(i))...)
	}
	if t := spec.Health.Timeout; t != nil && t.Duration <= 0 {
		errs = append(errs, field.Invalid(path.Child("health", "timeout"), t.Duration.String(), "must be longer than 0"))
	}
	if len(errs) > maxErrors {
		errs = errs[:maxErrors]
	}
	return errs
}

// Ineffective returns sentences about fields that have no effect together with the others.
func Ineffective(spec *v1alpha1.VirtualMachineRolloutSpec) []string {
	var warnings []string
	migrates, restarts := slices.Contains(spec.Allow, v1alpha1.AllowMigrate), slices.Contains(spec.Allow, v1alpha1.AllowRestart)
	if len(spec.Windows) > 0 && !migrates && !restarts {
		warnings = append(warnings, "spec.windows has no effect: windows are for restarts and migrations, and spec.allow has neither Restart nor Migrate")
	}
	if spec.Strategy.MaxConcurrentMigrations != nil && !migrates {
		warnings = append(warnings, "spec.strategy.maxConcurrentMigrations has no effect: spec.allow does not have Migrate")
	}
	if spec.MaxFailures > 0 && spec.FailurePolicy == v1alpha1.FailureContinue {
		warnings = append(warnings, "spec.maxFailures has no effect with spec.failurePolicy Continue")
	}
	if spec.SkipDenied && spec.Patch == nil {
		warnings = append(warnings, "spec.skipDenied has no effect without spec.patch")
	}
	return warnings
}

func validateCanary(canary *v1alpha1.Canary, path *field.Path) field.ErrorList {
	if canary == nil || canary.Pause == "" || canary.Pause == v1alpha1.PauseManual {
		return nil
	}
	if pause, err := time.ParseDuration(canary.Pause); err != nil || pause <= 0 {
		return field.ErrorList{field.Invalid(path.Child("pause"), canary.Pause, "must be Manual, or a duration longer than 0, such as 30m")}
	}
	return nil
}

func validateWindow(w *v1alpha1.Window, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	schedule, err := ParseSchedule(w.Schedule)
	switch {
	case err != nil:
		errs = append(errs, field.Invalid(path.Child("schedule"), w.Schedule, err.Error()))
	case schedule.Next(time.Unix(0, 0).UTC()).IsZero():
		errs = append(errs, field.Invalid(path.Child("schedule"), w.Schedule, "no date matches"))
	}
	if w.Duration.Duration <= 0 {
		errs = append(errs, field.Invalid(path.Child("duration"), w.Duration.Duration.String(), "must be longer than 0"))
	}
	if _, err := time.LoadLocation(w.TimeZone); err != nil || strings.EqualFold(w.TimeZone, "local") {
		errs = append(errs, field.Invalid(path.Child("timeZone"), w.TimeZone, "must be a name of the time zone database, such as Europe/Zurich"))
	}
	return errs
}

// validatePatch checks a merge patch of the spec of a virtual machine.
func validatePatch(raw []byte, path *field.Path) field.ErrorList {
	if limit := decode.Object(raw, reflect.TypeFor[v1.VirtualMachineSpec]()); limit != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, decode.Describe(limit))}
	}
	var patch any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&patch); err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "must be a JSON object: "+err.Error())}
	}
	object, ok := patch.(map[string]any)
	if !ok {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "must be a JSON object")}
	}
	var errs field.ErrorList
	for _, name := range forbidden {
		if err := withoutField(object, strings.Split(name, "."), path); err != nil && !slices.ContainsFunc(errs, func(e *field.Error) bool { return e.Field == err.Field }) {
			errs = append(errs, err)
		}
	}
	p := &patchChecker{errs: errs}
	p.object(object, reflect.TypeFor[v1.VirtualMachineSpec](), path)
	return p.errs
}

// withoutField reports a field that a patch sets or removes, also by the removal of an object that has it.
func withoutField(object map[string]any, steps []string, path *field.Path) *field.Error {
	value, has := object[steps[0]]
	path = path.Child(steps[0])
	switch {
	case !has:
		return nil
	case len(steps) == 1:
		return field.Forbidden(path, "a rollout does not change this field: all virtual machines would get the same value")
	case value == nil:
		return field.Forbidden(path, "a rollout does not remove this object: it has "+strings.Join(steps[1:], "."))
	}
	below, ok := value.(map[string]any)
	if !ok {
		return nil // the patchChecker reports it
	}
	return withoutField(below, steps[1:], path)
}

// patchChecker compares a patch with Go types.
type patchChecker struct{ errs field.ErrorList }

func (p *patchChecker) add(err *field.Error) {
	if len(p.errs) < maxErrors {
		p.errs = append(p.errs, err)
	}
}

func (p *patchChecker) object(object map[string]any, t reflect.Type, path *field.Path) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		f, known := fieldpath.FieldOf(t, name)
		if !known {
			p.add(field.Invalid(path.Child(name), field.OmitValueType{}, "unknown field"))
			continue
		}
		p.value(object[name], f.Type, path.Child(name))
	}
}

// value checks one value. In a merge patch, null removes a field.
func (p *patchChecker) value(value any, t reflect.Type, path *field.Path) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	object, isObject := value.(map[string]any)
	list, isList := value.([]any)
	switch {
	case value == nil:
	case fieldpath.Opaque(t) && !composed(t):
		p.leaf(value, t, path)
	case t.Kind() == reflect.Struct && isObject:
		p.object(object, t, path)
	case t.Kind() == reflect.Map && isObject:
		for _, key := range slices.Sorted(maps.Keys(object)) {
			p.value(object[key], t.Elem(), path.Key(key))
		}
	case t.Kind() == reflect.Slice && isList && t.Elem().Kind() != reflect.Uint8:
		for i := range list {
			p.value(list[i], t.Elem(), path.Index(i))
		}
	case t.Kind() == reflect.Struct || t.Kind() == reflect.Map || isObject:
		p.add(field.Invalid(path, field.OmitValueType{}, "must be "+form(t)))
	default:
		p.leaf(value, t, path)
	}
}

// composed are types with a decoder whose JSON nevertheless is their fields.
func composed(t reflect.Type) bool { return t == reflect.TypeFor[metav1.ObjectMeta]() }

func (p *patchChecker) leaf(value any, t reflect.Type, path *field.Path) {
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, reflect.New(t).Interface())
	}
	if err != nil {
		p.add(field.Invalid(path, field.OmitValueType{}, "must be "+form(t)))
	}
}

// form names what the JSON of a type is.
func form(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		if fieldpath.Opaque(t) {
			return "a valid " + strings.ToLower(t.Name())
		}
		return "an object"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	}
	return fmt.Sprintf("a number that fits into %s", t.Kind())
}
