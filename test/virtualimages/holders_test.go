package virtualimages

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	plans "github.com/virtward/virtward/virtualimages"
)

// holders: what other namespaces refer to an image counts only while they may clone it, and nothing of theirs keeps a namespace.
func (f *fixture) holders(t *testing.T) {
	for _, name := range []string{"evil", "shop", "leaving"} {
		must(t, f.EnsureNamespace(t.Context(), name))
	}
	for _, in := range []string{namespace, "leaving"} {
		f.mayClone(t, in, "shop")
	}
	url := f.web.serve("held.qcow2", qcow2(1<<30))

	t.Run("users without rights", func(t *testing.T) {
		image := f.image(t, "wanted", url, nil)
		image = f.becomes(t, image.Name, v1alpha1.ConditionReady, "Ready")
		for _, vm := range f.intruders(t, image) {
			t.Cleanup(func() { must(t, client.IgnoreNotFound(f.Client().Delete(context.WithoutCancel(t.Context()), vm))) })
		}
		must(t, f.owner.Delete(t.Context(), image))
		f.gone(t, image)
	})

	t.Run("users with rights", func(t *testing.T) {
		image := f.image(t, "lent", url, nil)
		image = f.becomes(t, image.Name, v1alpha1.ConditionReady, "Ready")
		f.intruders(t, image)
		vm := foreign("shop", "lent-user", image)
		must(t, f.Client().Create(t.Context(), vm))
		image = f.becomes(t, image.Name, v1alpha1.ConditionInUse, "InUse")
		if got := image.Status.Usage.VirtualMachines; !slices.Equal(got, []string{"1 in other namespaces"}) {
			t.Errorf("users %v", got)
		}
		must(t, f.owner.Delete(t.Context(), image))
		f.becomes(t, image.Name, v1alpha1.ConditionDeleting, "InUse")
		must(t, f.Client().Delete(t.Context(), vm))
		f.gone(t, image)
	})

	t.Run("an image that has vanished", func(t *testing.T) {
		image := f.image(t, "vanished", url, nil)
		image = f.becomes(t, image.Name, v1alpha1.ConditionReady, "Ready")
		vm := foreign("shop", "vanished-user", image)
		must(t, f.Client().Create(t.Context(), vm))
		f.becomes(t, image.Name, v1alpha1.ConditionInUse, "InUse")
		volume := &cdiv1beta1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: plans.VolumeName(image.Name, image.UID)}}
		must(t, f.Client().Delete(t.Context(), volume))
		f.becomes(t, image.Name, v1alpha1.ConditionReady, "Removed")
		must(t, f.owner.Delete(t.Context(), image))
		f.gone(t, image)
		must(t, f.Client().Delete(t.Context(), vm))
	})

	t.Run("a namespace in deletion", func(t *testing.T) {
		image := &v1alpha1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Namespace: "leaving", Name: "held"}, Spec: v1alpha1.VirtualImageSpec{Src: url, Format: v1alpha1.FormatQCOW2}}
		must(t, f.Client().Create(t.Context(), image))
		vm := foreign("shop", "leaving-user", image)
		must(t, f.Client().Create(t.Context(), vm))
		f.eventually(t, "the image is ready and in use", func() error {
			must(t, f.Client().Get(t.Context(), client.ObjectKeyFromObject(image), image))
			if !image.Status.Ready || !meta.IsStatusConditionTrue(image.Status.Conditions, v1alpha1.ConditionInUse) {
				return fmt.Errorf("%+v", image.Status)
			}
			return nil
		})
		leaving := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "leaving"}}
		must(t, f.Client().Delete(t.Context(), leaving))
		f.eventually(t, "the deletion of the image", func() error {
			err := f.Client().Get(t.Context(), client.ObjectKeyFromObject(image), image)
			if err == nil {
				return fmt.Errorf("it exists: %+v", image.Status)
			}
			return client.IgnoreNotFound(err)
		})
		claims := &corev1.PersistentVolumeClaimList{} // the sandbox has no controller that ends the protection of claims
		must(t, f.Client().List(t.Context(), claims, client.InNamespace("leaving")))
		for i := range claims.Items {
			must(t, client.IgnoreNotFound(f.Client().Patch(t.Context(), &claims.Items[i], client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
		}
		f.eventually(t, "the deletion of the namespace", func() error {
			err := f.Client().Get(t.Context(), client.ObjectKeyFromObject(leaving), leaving)
			if err == nil {
				return fmt.Errorf("it exists: %+v", leaving.Status)
			}
			return client.IgnoreNotFound(err)
		})
		must(t, f.Client().Delete(t.Context(), vm))
	})

	t.Run("the verb release", func(t *testing.T) {
		image := f.image(t, "released", url, nil)
		f.becomes(t, image.Name, v1alpha1.ConditionReady, "Ready")
		must(t, f.Client().Get(t.Context(), client.ObjectKeyFromObject(image), image))
		image.Finalizers = nil
		denied(t, f.owner.Update(t.Context(), image, client.DryRunAll), "virtual-image-finalizer: metadata.finalizers")
		must(t, f.Client().Update(t.Context(), image, client.DryRunAll)) // an admin has the verb
		must(t, f.owner.Delete(t.Context(), image))
		f.gone(t, image)
	})
}

// mayClone lets the default account of a namespace clone volumes of another one.
func (f *fixture) mayClone(t *testing.T, in, from string) {
	t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "clone"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"cdi.kubevirt.io"}, Resources: []string{"datavolumes/source"}, Verbs: []string{"create"}}}}
	must(t, f.Client().Create(t.Context(), role))
	must(t, f.Client().Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "clone-for-" + from}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "clone"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: from, Name: "default"}},
	}))
}

// foreign is a halted virtual machine of a namespace that clones an image of another one.
func foreign(namespace, name string, image *v1alpha1.VirtualImage) *kubevirtv1.VirtualMachine {
	vm := machineOf(name, image.Name)
	vm.Namespace = namespace
	vm.Spec.DataVolumeTemplates[0].Spec.SourceRef.Namespace = &image.Namespace
	return vm
}

// intruders are virtual machines of a namespace whose accounts may clone nothing: with the DataSource, with the claim, with another
// account, and one that cannot be read.
func (f *fixture) intruders(t *testing.T, image *v1alpha1.VirtualImage) (created []client.Object) {
	t.Helper()
	source := foreign("evil", image.Name+"-source", image)
	claim := foreign("evil", image.Name+"-claim", image)
	claim.Spec.DataVolumeTemplates[0].Spec.SourceRef = nil
	claim.Spec.DataVolumeTemplates[0].Spec.Source = &cdiv1beta1.DataVolumeSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Namespace: image.Namespace, Name: plans.VolumeName(image.Name, image.UID)}}
	other := foreign("evil", image.Name+"-account", image)
	other.Spec.Template.Spec.Volumes = append(other.Spec.Template.Spec.Volumes, kubevirtv1.Volume{Name: "account", VolumeSource: kubevirtv1.VolumeSource{ServiceAccount: &kubevirtv1.ServiceAccountVolumeSource{ServiceAccountName: "other"}}})
	last := foreign(metav1.NamespaceSystem, image.Name+"-unreadable", image) // no webhook of Virtward denies it there
	last.SetGroupVersionKind(kubevirtv1.VirtualMachineGroupVersionKind)
	data, err := json.Marshal(last)
	must(t, err)
	unreadable := &unstructured.Unstructured{}
	must(t, unreadable.UnmarshalJSON(data))
	must(t, unstructured.SetNestedField(unreadable.Object, int64(1), "spec", "template", "metadata", "labels", "number"))
	for _, vm := range []client.Object{source, claim, other, unreadable} {
		vm.GetObjectKind().SetGroupVersionKind(kubevirtv1.VirtualMachineGroupVersionKind)
		must(t, f.Client().Create(t.Context(), vm))
		created = append(created, vm)
	}
	return created
}
