package webhooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/references"
)

// subresourceScale sets only the replicas of an object.
const subresourceScale = "scale"

// scalable has the kinds with this subresource, by resource.
var scalable = func() map[schema.GroupResource]references.Kind {
	kinds := map[schema.GroupResource]references.Kind{}
	for _, m := range apikinds.MachineKinds(func(m *apikinds.Machine) bool { return m.Scale }) {
		kinds[m.GroupVersionResource().GroupResource()] = m.GroupVersionKind
	}
	return kinds
}()

// errConflict is the error for a request whose object was deleted and created again.
var errConflict = errors.New("the object has been deleted and created again; apply the change to the new one")

// scaled turns a request for the scale subresource into an update of the set. A Scale has only the replicas, so the set
// is read. It returns nil if there is nothing to evaluate: the set does not exist, or gets no more replicas than before.
func (v *Validator) scaled(e *examination) (*admissionv1.AdmissionRequest, error) {
	request := e.request
	kind, ok := scalable[schema.GroupResource{Group: request.Resource.Group, Resource: request.Resource.Resource}]
	if !ok {
		return nil, nil
	}
	after, before := &autoscalingv1.Scale{}, &autoscalingv1.Scale{}
	if err := evaluator.DecodeStored(request.Object.Raw, after); err != nil {
		return nil, nil //nolint:nilerr // the API server encoded it
	}
	if err := evaluator.DecodeStored(request.OldObject.Raw, before); err != nil || after.Spec.Replicas <= before.Spec.Replicas {
		return nil, nil //nolint:nilerr // likewise
	}
	set, err := references.Find(e.ctx, e.Evaluator.References, kind, request.Namespace, request.Name)
	if err != nil || set == nil {
		return nil, err
	}
	if after.UID != "" && set.GetUID() != after.UID {
		return nil, errConflict
	}
	same := *request
	same.Kind = metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind}
	if same.Object.Raw, err = withReplicas(set, after.Spec.Replicas); err != nil {
		return nil, err
	}
	same.OldObject = runtime.RawExtension{}
	if same.OldObject.Raw, err = withReplicas(set, before.Spec.Replicas); err != nil {
		return nil, err
	}
	return &same, nil
}

func withReplicas(set *unstructured.Unstructured, replicas int32) ([]byte, error) {
	changed := set.DeepCopy()
	if err := unstructured.SetNestedField(changed.Object, int64(replicas), "spec", "replicas"); err != nil {
		return nil, fmt.Errorf("setting the replicas of %s %s: %w", set.GetKind(), set.GetName(), err)
	}
	return json.Marshal(changed.Object)
}

// conflict returns the response for errConflict.
func conflict(err error) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: "virtward: " + err.Error(),
	}}
}
