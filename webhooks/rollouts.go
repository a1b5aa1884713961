package webhooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/rollouts/fleet"
	"github.com/virtward/virtward/validators"
)

var rolloutKind = schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.Kind}

// rollout rejects a VirtualMachineRollout that cannot be carried out. A rollout can always be paused.
func (e *examination) rollout() error {
	object, ok := decoded[v1alpha1.VirtualMachineRollout](e)
	if !ok {
		return nil
	}
	if e.updates() {
		old := &v1alpha1.VirtualMachineRollout{}
		if err := evaluator.DecodeStored(e.request.OldObject.Raw, old); err == nil && changeOf(old, object) != requestedChange {
			return nil
		}
	}
	for _, wrong := range fleet.Validate(&object.Spec) {
		e.findings = append(e.findings, validators.Finding{Rule: validators.RuleRollout, Severity: validators.Deny, Error: wrong, Remedy: validators.RemedyRollout})
	}
	e.warnings = append(e.warnings, fleet.Ineffective(&object.Spec)...)
	return nil
}

// rolloutChange is what an update of a rollout changes.
type rolloutChange int

const (
	// noChange leaves the spec.
	noChange rolloutChange = iota
	// pause only sets spec.paused. The guard of rollouts has the same condition.
	pause
	// requestedChange is every other one. Its author becomes the requester.
	requestedChange
)

func changeOf(old, object *v1alpha1.VirtualMachineRollout) rolloutChange {
	was, is := old.Spec.DeepCopy(), object.Spec.DeepCopy()
	if sameJSON(was, is) {
		was.Patch, is.Patch = nil, nil
	}
	switch {
	case equality.Semantic.DeepEqual(was, is):
		return noChange
	case !was.Paused && is.Paused:
		if was.Paused = true; equality.Semantic.DeepEqual(was, is) {
			return pause
		}
	}
	return requestedChange
}

// sameJSON reports whether the patches of two specs are equal, whatever their order and their spaces.
func sameJSON(a, b *v1alpha1.VirtualMachineRolloutSpec) bool {
	if a.Patch == nil || b.Patch == nil {
		return a.Patch == b.Patch
	}
	if bytes.Equal(a.Patch.Raw, b.Patch.Raw) {
		return true
	}
	var x, y any
	return json.Unmarshal(a.Patch.Raw, &x) == nil && json.Unmarshal(b.Patch.Raw, &y) == nil && reflect.DeepEqual(x, y)
}

// recordRequester records the user who requests what a rollout does. Other updates keep the record, so that a user can apply
// a file without it. A guard denies the request if this webhook does not answer, or if the user cannot be recorded.
func (m *Mutator) recordRequester(request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, string) {
	wants, err := requesterWanted(request)
	return m.record(request, v1alpha1.AnnotationRequester, wants, err)
}

// record sets an annotation about the user of a request, or removes it if it is empty. err is why the annotation is unknown.
func (m *Mutator) record(request *admissionv1.AdmissionRequest, annotation, wants string, err error) (*admissionv1.AdmissionResponse, string) {
	response := &admissionv1.AdmissionResponse{Allowed: true}
	if err != nil {
		m.Log.Error(err, "admitted an object without its requester", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name)
		response.Warnings = []string{"virtward could not record the requester: " + shortened(err.Error())}
		return response, verdictFailed
	}
	recorded, found := annotationOf(request.Object.Raw, annotation)
	if recorded == wants && found == (wants != "") {
		return response, verdictUnchanged
	}
	var operations []map[string]any
	path := "/metadata/annotations/" + escape.Replace(annotation)
	switch {
	case wants == "":
		operations = append(operations, map[string]any{"op": "remove", "path": path})
	case hasAnnotations(request.Object.Raw):
		operations = append(operations, map[string]any{"op": "add", "path": path, "value": wants})
	default:
		operations = append(operations, map[string]any{"op": "add", "path": "/metadata/annotations", "value": map[string]string{annotation: wants}})
	}
	if response.Patch, err = json.Marshal(operations); err != nil {
		response.Warnings = []string{"virtward could not record the requester: " + shortened(err.Error())}
		return response, verdictFailed
	}
	kind := admissionv1.PatchTypeJSONPatch
	response.PatchType = &kind
	return response, verdictPatched
}

// requesterWanted is the annotation that a rollout must have; empty for none.
func requesterWanted(request *admissionv1.AdmissionRequest) (string, error) {
	if request.Operation == admissionv1.Update {
		old, object := &v1alpha1.VirtualMachineRollout{}, &v1alpha1.VirtualMachineRollout{}
		if err := errors.Join(evaluator.DecodeStored(request.OldObject.Raw, old), evaluator.DecodeStored(request.Object.Raw, object)); err != nil {
			return "", fmt.Errorf("reading the rollout: %w", err)
		}
		if changeOf(old, object) != requestedChange {
			return old.Annotations[v1alpha1.AnnotationRequester], nil
		}
	}
	return v1alpha1.RequesterFrom(request.UserInfo).String()
}
