package webhooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clonev1beta1 "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/copies"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/validators"
)

// From a VirtualMachineRestore or a VirtualMachineClone, KubeVirt creates or changes a VM, with patches of the author.
// KubeVirt's account sends that VM, so the VM is evaluated here as if the author sent it. When KubeVirt sends it, it is
// evaluated again, with the recorded author.

// Bounds of the patches of one object.
const (
	maxPatches    = 200
	maxPatchBytes = 64 << 10
	// maxCopies bounds the copy operations: each may double the size of the VM.
	maxCopies = 8
	// maxFilters bounds the patterns of a clone that select labels and annotations.
	maxFilters      = 100
	maxFilterLength = 1 << 10
)

// restore evaluates the virtual machine that a VirtualMachineRestore creates or changes.
func (e *examination) restore() error {
	object, ok := decoded[snapshotv1beta1.VirtualMachineRestore](e)
	if !ok || e.snapshot.Facts().ByKubeVirt(e.request.UserInfo.Username) || !isVM(&object.Spec.Target) {
		return nil
	}
	if e.hides(object.Spec.Patches) {
		return nil
	}
	at := field.NewPath("spec", "virtualMachineSnapshotName")
	source, why, err := e.snapshotted(object.Spec.VirtualMachineSnapshotName)
	if err != nil {
		return err
	}
	target, err := e.find(references.VirtualMachine, object.Spec.Target.Name)
	if err != nil {
		return err
	}
	if source == nil {
		e.undetermined(at, why)
		return nil
	}
	if target != nil {
		return e.evaluateCopy(at, inPlace(target, source), target)
	}
	vm := copyOf(source, object.Spec.Target.Name)
	if len(object.Spec.Patches) > 0 {
		at = field.NewPath("spec", "patches")
	}
	patched, err := patchedVM(vm, object.Spec.Patches)
	if err != nil {
		e.undetermined(at, err.Error())
		return nil
	}
	return e.evaluateCopy(at, patched, nil)
}

// clone evaluates the virtual machine that a VirtualMachineClone creates.
func (e *examination) clone() error {
	object, ok := decoded[clonev1beta1.VirtualMachineClone](e)
	if !ok || e.snapshot.Facts().ByKubeVirt(e.request.UserInfo.Username) || object.Spec.Source == nil || object.Spec.Target != nil && !isVM(object.Spec.Target) {
		return nil
	}
	at := field.NewPath("spec", "source")
	source, why, err := e.cloned(object.Spec.Source)
	if err != nil {
		return err
	}
	if source == nil {
		e.undetermined(at, why)
		return nil
	}
	name := ""
	if object.Spec.Target != nil {
		name = object.Spec.Target.Name
	}
	vm := copyOf(source, name)
	patches, err := patchesOf(&object.Spec, vm)
	if err != nil {
		e.undetermined(field.NewPath("spec"), err.Error())
		return nil
	}
	if e.hides(slices.Concat(identities(&object.Spec, vm), object.Spec.Patches)) {
		return nil
	}
	if slices.Contains(patches, removal("metadata/annotations", copies.AnnotationRestore)) {
		e.undetermined(field.NewPath("spec", "annotationFilters"), "the filters remove the annotation "+copies.AnnotationRestore+", by which its author is found")
	}
	patched, err := patchedVM(vm, patches)
	if err != nil {
		e.undetermined(field.NewPath("spec"), err.Error())
		return nil
	}
	if len(object.Spec.Patches) > 0 {
		at = field.NewPath("spec", "patches")
	}
	return e.evaluateCopy(at, patched, nil)
}

func isVM(target *corev1.TypedLocalObjectReference) bool {
	return target.Kind == apikinds.VirtualMachine && (target.APIGroup == nil || *target.APIGroup == v1.GroupVersion.Group)
}

// cloned returns the virtual machine that is cloned, or nil and the reason if it is not known.
func (e *examination) cloned(source *corev1.TypedLocalObjectReference) (map[string]any, string, error) {
	switch source.Kind {
	case references.VirtualMachine.Kind:
		found, err := e.find(references.VirtualMachine, source.Name)
		if found == nil || err != nil {
			return nil, "its source does not exist", err
		}
		return found.Object, "", nil
	case references.Snapshot.Kind:
		return e.snapshotted(source.Name)
	}
	return nil, "its source is neither a VirtualMachine nor a VirtualMachineSnapshot", nil
}

// snapshotted returns the virtual machine of a snapshot, or nil and the reason if it is not known yet.
func (e *examination) snapshotted(name string) (map[string]any, string, error) {
	_, stored, err := e.copies().content(name)
	if stored == nil || err != nil {
		return nil, "the snapshot does not exist, or is not ready", err
	}
	vm, found, err := unstructured.NestedMap(stored.Object, "spec", "source", "virtualMachine")
	if !found || err != nil {
		return nil, "the snapshot is not one of a VirtualMachine", nil //nolint:nilerr // it is of another form
	}
	return vm, "", nil
}

// find reads an object of the request's namespace. It returns nil if the object does not exist or is too large.
func (e *examination) find(kind references.Kind, name string) (*unstructured.Unstructured, error) {
	return e.copies().find(kind, name)
}

// undetermined adds a finding: the resulting VM cannot be evaluated yet. The finding denies only if an active policy
// reads the request: it would deny the VM that KubeVirt creates, because the record of the author is not complete.
func (e *examination) undetermined(at *field.Path, why string) {
	finding := validators.Finding{
		Rule: validators.RuleCopy, Severity: validators.Warn, Remedy: validators.RemedyCopy,
		Error: &field.Error{Type: field.ErrorTypeInvalid, Field: at.String(), BadValue: field.OmitValueType{}, Detail: "the resulting virtual machine cannot be evaluated: " + why},
	}
	if e.snapshot.Policies().ReadsRequest(policyv1alpha1.PolicyVirtualMachine, policyv1alpha1.PolicyCreate) {
		finding.Severity = validators.Deny
	}
	e.findings = append(e.findings, finding)
}

// evaluateCopy evaluates the resulting VM as if the requester sent it. The findings name the field, the rule and the
// remedy, but no values: the requester may not have the permission to read the VM.
func (e *examination) evaluateCopy(at *field.Path, vm, old *unstructured.Unstructured) error {
	findings, err := e.asRequester(vm, old)
	if err != nil {
		return err
	}
	for i := range findings {
		f := &findings[i]
		if f.Severity == validators.Warn {
			continue
		}
		e.findings = append(e.findings, validators.Finding{
			Rule: f.Rule, Severity: f.Severity, Remedy: f.Remedy,
			Error: &field.Error{
				Type: f.Error.Type, Field: at.String(), BadValue: field.OmitValueType{},
				Detail: "the resulting virtual machine is denied at " + f.Error.Field,
			},
		})
	}
	return nil
}

// asRequester returns the findings for a VM that the requester would create, or would update if old is not nil.
func (e *examination) asRequester(vm, old *unstructured.Unstructured) ([]validators.Finding, error) {
	request := *e.request
	request.Kind = metav1.GroupVersionKind{Group: v1.GroupVersion.Group, Version: "v1", Kind: apikinds.VirtualMachine}
	request.Resource = metav1.GroupVersionResource(apikinds.VirtualMachines.GroupVersionResource())
	request.Operation, request.Name, request.OldObject = admissionv1.Create, vm.GetName(), runtime.RawExtension{}
	var err error
	if request.Object.Raw, err = json.Marshal(vm.Object); err != nil {
		return nil, err
	}
	if old != nil {
		request.Operation = admissionv1.Update
		if request.OldObject.Raw, err = json.Marshal(old.Object); err != nil {
			return nil, err
		}
	}
	as := *e
	as.request = &request
	result, err := e.snapshot.Evaluate(e.ctx, as.evaluationOf(evaluator.Written))
	if err != nil {
		return nil, err
	}
	return result.Findings, nil
}

// copyOf returns the new VM that KubeVirt creates from another one, with its labels, annotations and spec, and not
// started.
func copyOf(source map[string]any, name string) *unstructured.Unstructured {
	vm := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kubevirt.io/v1", "kind": apikinds.VirtualMachine}}
	vm.SetName(name)
	if name == "" {
		before, _, _ := unstructured.NestedString(source, "metadata", "name")
		vm.SetGenerateName(before + "-clone-")
	}
	for _, kept := range []string{"labels", "annotations"} {
		if values, found, err := unstructured.NestedMap(source, "metadata", kept); found && err == nil {
			_ = unstructured.SetNestedMap(vm.Object, values, "metadata", kept) // metadata is an object
		}
	}
	spec, found, err := unstructured.NestedMap(source, "spec")
	if !found || err != nil {
		spec = map[string]any{}
	}
	if _, running := spec["running"]; running {
		spec["running"] = false
	} else {
		spec["runStrategy"] = string(v1.RunStrategyHalted)
	}
	vm.Object["spec"] = spec
	return vm
}

// inPlace returns the target with the spec of the snapshot. KubeVirt keeps its run strategy, and applies no patches.
func inPlace(target *unstructured.Unstructured, source map[string]any) *unstructured.Unstructured {
	vm := target.DeepCopy()
	spec, _, _ := unstructured.NestedMap(source, "spec")
	if spec == nil {
		spec = map[string]any{}
	}
	now, _, _ := unstructured.NestedMap(target.Object, "spec")
	for _, kept := range []string{"running", "runStrategy"} {
		delete(spec, kept)
		if value, found := now[kept]; found {
			spec[kept] = value
		}
	}
	vm.Object["spec"] = spec
	return vm
}

// patchesOf returns the patches that KubeVirt applies for a clone: new identities, and the removal of labels and
// annotations.
func patchesOf(clone *clonev1beta1.VirtualMachineCloneSpec, vm *unstructured.Unstructured) ([]string, error) {
	patches := identities(clone, vm)
	for _, selected := range []struct {
		filters []string
		path    []string
	}{
		{clone.LabelFilters, []string{"metadata", "labels"}},
		{clone.AnnotationFilters, []string{"metadata", "annotations"}},
		{clone.Template.LabelFilters, []string{"spec", "template", "metadata", "labels"}},
		{clone.Template.AnnotationFilters, []string{"spec", "template", "metadata", "annotations"}},
	} {
		values, _, err := unstructured.NestedStringMap(vm.Object, selected.path...)
		if err != nil {
			continue // a rule reports it
		}
		kept, err := filtered(values, selected.filters)
		if err != nil {
			return nil, err
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if !kept[key] {
				patches = append(patches, removal(strings.Join(selected.path, "/"), key))
			}
		}
	}
	return append(patches, clone.Patches...), nil
}

func removal(path, key string) string {
	return fmt.Sprintf(`{"op":"remove","path":"/%s/%s"}`, path, escape.Replace(key))
}

// identities returns the patches that give a clone new identities. Like KubeVirt, it inserts values without escaping, so a value
// may add operations.
func identities(clone *clonev1beta1.VirtualMachineCloneSpec, vm *unstructured.Unstructured) []string {
	var patches []string
	interfaces, _, _ := unstructured.NestedSlice(vm.Object, "spec", "template", "spec", "domain", "devices", "interfaces")
	for i := range interfaces {
		fields, _ := interfaces[i].(map[string]any)
		name, _ := fields["name"].(string)
		patches = append(patches, replaceWith(fmt.Sprintf("/spec/template/spec/domain/devices/interfaces/%d/macAddress", i), clone.NewMacAddresses[name]))
	}
	if _, found, _ := unstructured.NestedMap(vm.Object, "spec", "template", "spec", "domain", "firmware"); found {
		serial := ""
		if clone.NewSMBiosSerial != nil {
			serial = *clone.NewSMBiosSerial
		}
		patches = append(patches, replaceWith("/spec/template/spec/domain/firmware/serial", serial),
			replaceWith("/spec/template/spec/domain/firmware/uuid", ""))
	}
	return patches
}

func replaceWith(path, value string) string {
	return `{"op":"replace","path":"` + path + `","value":"` + value + `"}`
}

// filtered returns the keys that a clone keeps. A key is kept if a filter matches it and no filter that begins with "!"
// does. Without filters, all keys are kept. Filters are regular expressions that may match a part of a key.
func filtered(values map[string]string, filters []string) (map[string]bool, error) {
	kept := make(map[string]bool, len(values))
	if filters == nil {
		for key := range values {
			kept[key] = true
		}
		return kept, nil
	}
	if len(filters) > maxFilters {
		return nil, fmt.Errorf("a clone has more than %d filters", maxFilters)
	}
	for _, negated := range []bool{false, true} {
		for _, filter := range filters {
			pattern, not := strings.CutPrefix(filter, "!")
			if not != negated {
				continue
			}
			if filter == "*" {
				pattern = ".*"
			}
			if len(pattern) > maxFilterLength {
				return nil, fmt.Errorf("a filter is longer than %d characters", maxFilterLength)
			}
			matching, err := regexp.Compile(pattern)
			if err != nil {
				continue // in KubeVirt, it matches nothing
			}
			for key := range values {
				if matching.MatchString(key) {
					kept[key] = !negated
				}
			}
		}
	}
	return kept, nil
}

// hides reports patches after which the author of the virtual machine cannot be found. By its annotation, KubeVirt finds the
// virtual machine of a restore again, and Virtward finds the restore: such a patch is rejected, and the result is true. An owner
// makes it look like one of a pool.
func (e *examination) hides(patches []string) bool {
	operations, err := jsonpatch.DecodePatch([]byte("[" + strings.Join(patches, ",") + "]"))
	if err != nil {
		return false // KubeVirt applies no invalid patches
	}
	at := field.NewPath("spec", "patches")
	for _, operation := range operations {
		switch {
		case changes(operation, "annotations", copies.AnnotationRestore):
			e.findings = append(e.findings, validators.Finding{
				Rule: validators.RuleCopy, Severity: validators.Deny, Remedy: validators.RemedyCopy,
				Error: field.Forbidden(at, "patches must not change the annotation "+copies.AnnotationRestore+", by which KubeVirt finds the virtual machine of a restore"),
			})
			return true
		case changes(operation, "ownerReferences", ""):
			e.undetermined(at, "the patches change metadata.ownerReferences, by which the virtual machines of a pool are known")
			return false
		}
	}
	return false
}

// changes reports whether an operation of a patch changes an entry of a field of the metadata, or an object around it; any
// entry if key is empty. KubeVirt reads the names of fields in any case.
func changes(operation jsonpatch.Operation, name, key string) bool {
	within := func(pointer string) bool {
		segments := strings.Split(pointer, "/")[1:]
		for i, fieldName := range []string{"metadata", name} {
			if i == len(segments) {
				return true
			}
			if !strings.EqualFold(unescape.Replace(segments[i]), fieldName) {
				return false
			}
		}
		return len(segments) == 2 || key == "" || unescape.Replace(segments[2]) == key
	}
	path, err := operation.Path()
	if err != nil || operation.Kind() == "test" {
		return false
	}
	from, err := operation.From()
	return within(path) || operation.Kind() == "move" && err == nil && within(from)
}

// unescape reads a segment of a JSON pointer.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// patchedVM applies patches as KubeVirt does, and bounds the result.
func patchedVM(vm *unstructured.Unstructured, patches []string) (*unstructured.Unstructured, error) {
	if len(patches) == 0 {
		return vm, nil
	}
	joined := "[" + strings.Join(patches, ",\n") + "]"
	if len(patches) > maxPatches || len(joined) > maxPatchBytes {
		return nil, fmt.Errorf("there are more than %d patches, or they have more than %d bytes together", maxPatches, maxPatchBytes)
	}
	operations, err := jsonpatch.DecodePatch([]byte(joined))
	if err != nil {
		return nil, errors.New("the patches are not a JSON patch")
	}
	copies := 0
	for _, operation := range operations {
		if operation.Kind() == "copy" {
			copies++
		}
	}
	if len(operations) > maxPatches || copies > maxCopies {
		return nil, fmt.Errorf("the patches have more than %d operations, or more than %d that copy", maxPatches, maxCopies)
	}
	raw, err := json.Marshal(vm.Object)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxReview>>maxCopies && copies > 0 {
		return nil, errors.New("the virtual machine is too large for patches that copy")
	}
	if raw, err = operations.Apply(raw); err != nil {
		return nil, errors.New("the patches cannot be applied")
	}
	patched := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &patched.Object); err != nil || patched.Object == nil {
		return nil, errors.New("the result of the patches is not an object")
	}
	patched.SetAPIVersion("kubevirt.io/v1")
	patched.SetKind(apikinds.VirtualMachine)
	return patched, nil
}
