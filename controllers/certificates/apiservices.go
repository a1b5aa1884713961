package certificates

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/certificates"
)

// apiServiceResource registers a version of an aggregated API.
var apiServiceResource = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// apiServices are those that exist and name the Service. Another component can have registered the same API.
func (r *Reconciler) apiServices(ctx context.Context) ([]target, error) {
	var all []target
	for _, name := range r.APIServices {
		object, err := r.Dynamic.Resource(apiServiceResource).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading APIService %s: %w", name, err)
		}
		service, _, _ := unstructured.NestedString(object.Object, "spec", "service", "name")
		namespace, _, _ := unstructured.NestedString(object.Object, "spec", "service", "namespace")
		if service != r.Service || namespace != r.Namespace {
			continue
		}
		written, _, _ := unstructured.NestedString(object.Object, "spec", "caBundle")
		present, err := base64.StdEncoding.DecodeString(written)
		if err != nil { // it is replaced
			present = nil
		}
		all = append(all, target{
			name: name, version: object.GetResourceVersion(),
			changes: func(state certificates.State) []operation { return bundleChanges(state, service, present) },
			patch: func(ctx context.Context, body []byte) error {
				_, err := r.Dynamic.Resource(apiServiceResource).Patch(ctx, name, types.JSONPatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
				return err
			},
		})
	}
	return all, nil
}

// bundleChanges are what an APIService lacks: the CA bundle, and nothing else.
func bundleChanges(state certificates.State, service string, present []byte) []operation {
	bundle := certificates.Bundle(state.Data)
	if len(bundle) == 0 || bytes.Equal(bundle, present) {
		return nil
	}
	return []operation{{"test", "/spec/service/name", service}, {"add", "/spec/caBundle", bundle}}
}
