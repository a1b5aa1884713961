package references

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
	"github.com/virtward/virtward/virtualimages"
)

// maxVirtualImages bounds the references of one machine that are looked up.
const maxVirtualImages = 20

// VirtualImages finds the VirtualImages that a VM or a VMI uses; exactly one of the two is given. A VMI of a VM has none: the
// VM is the user. An image that does not exist or cannot be read is left out: a VM can be created before its image. The error
// means that the cluster could not be read.
func VirtualImages(ctx context.Context, objects Objects, vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) ([]validators.VirtualImage, error) {
	var uses []virtualimages.Use
	switch {
	case vm != nil:
		uses = virtualimages.UsesOfMachine(vm)
	case vmi != nil && !ofMachine(vmi):
		uses = virtualimages.UsesOfInstance(vmi)
	}
	var found []validators.VirtualImage
	looked := 0
	for i := range uses {
		use := &uses[i]
		if use.Name == "" || !use.CanBeImage() {
			continue
		}
		if looked++; looked > maxVirtualImages {
			break
		}
		image, err := virtualImageOf(ctx, objects, use.Reference)
		switch {
		case err != nil:
			return nil, discreetError{text: use.Field.String() + ": reading VirtualImages failed", cause: err}
		case image != nil:
			found = append(found, used(image, use))
		}
	}
	return found, nil
}

func ofMachine(vmi *v1.VirtualMachineInstance) bool {
	owner := metav1.GetControllerOf(vmi)
	return owner != nil && owner.Kind == apikinds.VirtualMachine
}

// virtualImageOf is the image that a reference is to; nil if it is to something else.
func virtualImageOf(ctx context.Context, objects Objects, ref virtualimages.Reference) (*unstructured.Unstructured, error) {
	kind, name := dataSource, ref.Name
	if ref.Claim {
		kind = dataVolume
	}
	object, err := known(ctx, objects, kind, ref.Namespace, ref.Name)
	if err != nil {
		return nil, err
	}
	var owner *metav1.OwnerReference
	if object != nil {
		if owner = metav1.GetControllerOf(object); owner == nil || owner.Kind != v1alpha1.Kind {
			return nil, nil
		}
		name = owner.Name
	} else if ref.Claim { // the name of the volume does not have that of the image
		return nil, nil
	}
	image, err := known(ctx, objects, virtualImage, ref.Namespace, name)
	if err != nil || image == nil || owner != nil && owner.UID != image.GetUID() {
		return nil, err
	}
	return image, nil
}

// known reads an object; nil if it does not exist, is too large, or may not be read.
func known(ctx context.Context, objects Objects, kind Kind, namespace, name string) (*unstructured.Unstructured, error) {
	object, err := objects.Get(ctx, kind, namespace, name)
	if absent(err) || errors.Is(err, platform.ErrTooLarge) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	return object, err
}

func used(image *unstructured.Unstructured, use *virtualimages.Use) validators.VirtualImage {
	spec := &v1alpha1.VirtualImageSpec{}
	_ = decodeSpec(image, spec) // of an image that cannot be read, no more is known
	ready, _, _ := unstructured.NestedBool(image.Object, "status", "ready")
	found := validators.VirtualImage{
		Name: image.GetNamespace() + "/" + image.GetName(), Field: use.Field, Template: use.Template,
		Deleted: image.GetDeletionTimestamp() != nil && !ready,
	}
	if spec.MinDisk != nil {
		found.MinDisk = int64(*spec.MinDisk)
	}
	if spec.MinRAM != nil {
		found.MinRAM = int64(*spec.MinRAM)
	}
	return found
}
