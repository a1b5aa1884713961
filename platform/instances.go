package platform

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/decodelimits"
)

// Instance reads the VirtualMachineInstance of a VM. It is not cached. The error is NotFound if it does not exist, and
// ErrTooLarge if it is not small.
func (o *Objects) Instance(ctx context.Context, namespace, name string) (*v1.VirtualMachineInstance, error) {
	done, err := reserve(ctx, o.shares, reserveTyped)
	if err != nil {
		return nil, err
	}
	defer done()
	vmi := &v1.VirtualMachineInstance{}
	_, err = o.reader.typed(ctx, apikinds.VirtualMachineInstances.GroupVersionResource(), namespace, name, vmi)
	return vmi, err
}

// StartedSpec reads the spec that an instance was started with from the ControllerRevision that it names. The spec is
// cached, as revisions never change, and shared: do not change it. It has no template if the revision has no spec of a VM.
func (o *Objects) StartedSpec(ctx context.Context, namespace, revision string) (*v1.VirtualMachineSpec, error) {
	key := strings.Join([]string{"started", namespace, revision}, "/")
	switch found, _ := o.cache.get(key); found := found.(type) {
	case *v1.VirtualMachineSpec:
		return found, nil
	case error:
		return nil, found
	}
	done, err := reserve(ctx, o.shares, reserveTyped)
	if err != nil {
		return nil, err
	}
	defer done()
	kind := resources[apikinds.ControllerRevisions.GroupKind()]
	found := &startRevision{}
	size, err := o.reader.typed(ctx, kind.GroupVersionResource, namespace, revision, found)
	if err != nil {
		return nil, o.failed(kind, key, err)
	}
	o.cache.add(key, &found.Data.Spec, size, immutableTTL)
	return &found.Data.Spec, nil
}

// startRevision is the part of a ControllerRevision in which KubeVirt stores the spec of a VM.
type startRevision struct {
	Data struct {
		Spec v1.VirtualMachineSpec `json:"spec"`
	} `json:"data"`
}

// typed decodes a small object into a pointer to its Go type. The error is ErrTooLarge if it exceeds a limit; two objects
// fit into reserveTyped.
func (r *reader) typed(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, into any) (size int64, err error) {
	raw, err := r.raw(ctx, r.request(resource, namespace).Name(name), maxSmall)
	if err != nil {
		return 0, err
	}
	defer func() {
		if cause := recover(); cause != nil { // the types of some fields have decoders of their own
			err = fmt.Errorf("decoding a response of the API server failed: %.200v", cause)
		}
	}()
	evaluated, limit := decodelimits.Evaluated(raw, reflect.TypeOf(into).Elem())
	if limit != nil || decodelimits.Brackets(evaluated) > maxTypedValues {
		return 0, ErrTooLarge
	}
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(evaluated, into); err != nil {
		return 0, fmt.Errorf("decoding a response of the API server: %w", err)
	}
	return int64(len(raw)), nil
}
