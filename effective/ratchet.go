package effective

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/validators"
)

// Ratchet turns pre-existing findings, which the object before an update also had, into warnings. Both verdicts use the
// current facts. Two findings are the same if their rule, field, value and message are; elements of lists are identified by
// name, not by index. So a violation that moves stays pre-existing, and one that grows is new.
func (v *Verdict) Ratchet(before *Verdict) {
	if !v.Allowed() && len(before.Findings) > 0 {
		ratchet(v.Findings, v.document(), before.Findings, before.document())
	}
}

// RatchetFindings is Ratchet for findings about an object that is not a virtual machine. now and then are the object, and
// the object before the update.
func RatchetFindings(findings []validators.Finding, now map[string]any, before []validators.Finding, then map[string]any) {
	ratchet(findings, now, before, then)
}

func ratchet(findings []validators.Finding, now map[string]any, before []validators.Finding, then map[string]any) {
	preExisting := map[string]int{}
	for i := range before {
		preExisting[identity(&before[i], then)]++
	}
	for i := range findings {
		f := &findings[i]
		if id := identity(f, now); preExisting[id] > 0 {
			preExisting[id]--
			if f.Severity == validators.Deny {
				f.PreExisting, f.Severity = true, validators.Warn
			}
		}
	}
}

// document is the effective object without its type.
func (v *Verdict) document() map[string]any {
	if v.VM == nil || v.VM.Spec.Template == nil {
		return inContainer(v.Container, written(v.VM, v.VMI))
	}
	vm, template := *v.VM, *v.VM.Spec.Template
	template.Spec = *v.Spec
	vm.Spec.Template = &template
	return inContainer(v.Container, written(&vm, nil))
}

// identity distinguishes a finding from others on the same object. It does not depend on the source of the value: an
// instancetype that is replaced by its fields does not change the VM.
func identity(f *validators.Finding, object map[string]any) string {
	detail := places.ReplaceAllString(f.Error.Detail, "[*]")
	return strings.Join([]string{f.Rule, keyed(object, f.Where()), string(f.Error.Type), fmt.Sprint(f.Error.BadValue), f.Extent, detail}, "\x00")
}

// places are those of elements, which a message may name.
var places = regexp.MustCompile(`\[\d+\]`)

// keyed is a path with the names of elements instead of their places, where they have one.
func keyed(object map[string]any, path string) string {
	var named strings.Builder
	var at any = object
	for _, step := range fieldpath.Split(path) {
		_, isList := at.([]any)
		at, _ = fieldpath.Step(at, step)
		if isList {
			step = cmp.Or(nameOf(at), step)
		}
		named.WriteString("." + step)
	}
	return named.String()
}

// listKeys are the fields that identify the elements of the API's lists.
var listKeys = []string{"name", "key", "port", "option", "model"}

// nameOf identifies an element: by its name or, if it has no fields, by its value. It is empty if there is neither.
func nameOf(element any) string {
	fields, ok := element.(map[string]any)
	if !ok {
		if element == nil {
			return ""
		}
		return fmt.Sprint(element)
	}
	for _, key := range listKeys {
		if value, ok := fields[key]; ok {
			return fmt.Sprintf("%s=%v", key, value)
		}
	}
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		return nameOf(metadata)
	}
	return ""
}
