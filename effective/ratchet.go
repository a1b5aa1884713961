package effective

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/validators"
)

// Ratchet turns findings that the object before an update had too into warnings. Both verdicts are made with
// the facts of today. A finding is the same if rule, field, offending value and what the message says of
// limits are; fields in lists are told apart by name, not by place. So a violation that moves stays known,
// and one that grows is new.
func (v *Verdict) Ratchet(before *Verdict) {
	if !v.Allowed() && len(before.Findings) > 0 {
		ratchet(v.Findings, v.document(), before.Findings, before.document())
	}
}

func ratchet(findings []validators.Finding, now map[string]any, before []validators.Finding, then map[string]any) {
	known := map[string]int{}
	for i := range before {
		known[identity(&before[i], then)]++
	}
	for i := range findings {
		f := &findings[i]
		if id := identity(f, now); known[id] > 0 {
			known[id]--
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

// identity tells a finding from others on the same object. Who determines the value is no part of it: an
// instancetype that is written out in full leaves the VM as it was.
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

// listKeys are the fields that tell the elements of the API's lists apart.
var listKeys = []string{"name", "key", "port", "option", "model"}

// nameOf tells an element from the others: its name, or, of something that has no fields, itself. Empty if there is
// nothing of the kind.
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
