package virtualimages

import (
	"encoding/json"
	"fmt"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/virtualimages"
)

// kind is a kind of objects that refer to images.
type kind struct {
	apikinds.Resource

	// holds tells that an object prevents the deletion of its images.
	holds bool
	// read returns the references of an object, and its controller.
	read func(data []byte) (list []virtualimages.Reference, owner *metav1.OwnerReference, err error)
}

// kinds are those of all users of images.
var kinds = [...]kind{
	{apikinds.VirtualMachines, true, decoded(virtualimages.ReferencesOfMachine, func(vm *kubevirtv1.VirtualMachine) metav1.Object { return vm })},
	{apikinds.VirtualMachineInstances, true, decoded(virtualimages.ReferencesOfInstance, func(vmi *kubevirtv1.VirtualMachineInstance) metav1.Object { return vmi })},
	{apikinds.DataVolumes, true, decoded(virtualimages.ReferencesOfDataVolume, func(dv *cdiv1beta1.DataVolume) metav1.Object { return dv })},
	{apikinds.Templates, false, ofTemplate},
}

func decoded[T any](references func(*T) []virtualimages.Reference, meta func(*T) metav1.Object) func([]byte) ([]virtualimages.Reference, *metav1.OwnerReference, error) {
	return func(data []byte) ([]virtualimages.Reference, *metav1.OwnerReference, error) {
		object := new(T)
		if err := json.Unmarshal(data, object); err != nil {
			return nil, nil, fmt.Errorf("decoding an object: %w", err)
		}
		return references(object), metav1.GetControllerOf(meta(object)), nil
	}
}

// ofTemplate returns the DataSources of a template. Names with parameters refer to none.
func ofTemplate(data []byte) (list []virtualimages.Reference, _ *metav1.OwnerReference, _ error) {
	namespace := gjson.GetBytes(data, "metadata.namespace").String()
	gjson.GetBytes(data, "spec.virtualMachine.spec.dataVolumeTemplates").ForEach(func(_, template gjson.Result) bool {
		ref := template.Get("spec.sourceRef")
		in := namespace
		if other := ref.Get("namespace").String(); other != "" {
			in = other
		}
		if name := ref.Get("name").String(); name != "" {
			list = append(list, virtualimages.Reference{Namespace: in, Name: name})
		}
		return true
	})
	return list, nil, nil
}

// user is an object that refers to images.
type user struct {
	// shown is NAMESPACE/NAME of the virtual machine that the object is of, or of the object.
	shown string
	list  []virtualimages.Reference
}

// userOf reads an object. One that is too large, or not of its kind, is an error.
func (k *kind) userOf(o *pages.Object) (user, error) {
	if o.JSON == nil {
		return user{}, fmt.Errorf("%s %s/%s is too large", k.Kind, o.Namespace, o.Name)
	}
	list, owner, err := k.read(o.JSON)
	if err != nil {
		return user{}, err
	}
	u := user{shown: o.Namespace + "/" + o.Name, list: list}
	if owner != nil && (owner.Kind == apikinds.VirtualMachine || owner.Kind == apikinds.VirtualMachineInstance) {
		u.shown = o.Namespace + "/" + owner.Name
	}
	return u, nil
}
