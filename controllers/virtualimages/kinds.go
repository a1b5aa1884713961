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
	// read returns the references of an object, the service account that clones for it, and its controller.
	read func(data []byte) (*content, error)
}

// content is what is read of an object.
type content struct {
	list    []virtualimages.Reference
	account string
	owner   *metav1.OwnerReference
}

// kinds are those of all users of images.
var kinds = [...]kind{
	{apikinds.VirtualMachines, true, decoded(func(vm *kubevirtv1.VirtualMachine) *content {
		return &content{virtualimages.ReferencesOfMachine(vm), virtualimages.AccountOfMachine(vm), metav1.GetControllerOf(vm)}
	})},
	{apikinds.VirtualMachineInstances, true, decoded(func(vmi *kubevirtv1.VirtualMachineInstance) *content {
		return &content{virtualimages.ReferencesOfInstance(vmi), virtualimages.DefaultAccount, metav1.GetControllerOf(vmi)}
	})},
	{apikinds.DataVolumes, true, decoded(func(dv *cdiv1beta1.DataVolume) *content {
		return &content{virtualimages.ReferencesOfDataVolume(dv), virtualimages.DefaultAccount, metav1.GetControllerOf(dv)}
	})},
	{apikinds.Templates, false, ofTemplate},
}

func decoded[T any](read func(*T) *content) func([]byte) (*content, error) {
	return func(data []byte) (*content, error) {
		object := new(T)
		if err := json.Unmarshal(data, object); err != nil {
			return nil, fmt.Errorf("decoding an object: %w", err)
		}
		return read(object), nil
	}
}

// ofTemplate returns the DataSources of a template. Names with parameters refer to none.
func ofTemplate(data []byte) (*content, error) {
	found := &content{account: virtualimages.DefaultAccount}
	namespace := gjson.GetBytes(data, "metadata.namespace").String()
	gjson.GetBytes(data, "spec.virtualMachine.spec.dataVolumeTemplates").ForEach(func(_, template gjson.Result) bool {
		ref := template.Get("spec.sourceRef")
		in := namespace
		if other := ref.Get("namespace").String(); other != "" {
			in = other
		}
		if name := ref.Get("name").String(); name != "" {
			found.list = append(found.list, virtualimages.Reference{Namespace: in, Name: name})
		}
		return true
	})
	return found, nil
}

// user is an object that refers to images.
type user struct {
	// shown is NAMESPACE/NAME of the virtual machine that the object is of, or of the object.
	shown string
	// namespace is that of the object, and account the service account there that clones for it.
	namespace, account string
	list               []virtualimages.Reference
	// unreadable objects may refer to every image of their namespace, and to none of another one: a user who can store an object
	// that nothing can read must not keep the images of others.
	unreadable bool
}

// uses reports whether there is anything to remember of a user.
func (u *user) uses() bool { return len(u.list) > 0 || u.unreadable }

// userOf reads an object. One that is too large, or not of its kind, is unreadable.
func (k *kind) userOf(o *pages.Object) user {
	u := user{shown: o.Namespace + "/" + o.Name, namespace: o.Namespace, account: virtualimages.DefaultAccount, unreadable: true}
	if o.JSON == nil {
		return u
	}
	found, err := k.read(o.JSON)
	if err != nil {
		return u
	}
	u.list, u.account, u.unreadable = found.list, found.account, false
	if owner := found.owner; owner != nil && (owner.Kind == apikinds.VirtualMachine || owner.Kind == apikinds.VirtualMachineInstance) {
		u.shown = o.Namespace + "/" + owner.Name
	}
	return u
}
