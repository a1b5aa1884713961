package webhooks

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
)

// virtualImage is a VirtualImage that requires memory in MiB.
func virtualImage(name string, deleted, ready bool, minRAM int64) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minRam": minRAM}, "status": map[string]any{"ready": ready}}}
	object.SetGroupVersionKind(apikinds.VirtualImages.GroupVersionKind)
	object.SetNamespace("images")
	object.SetName(name)
	if deleted {
		now := metav1.Now()
		object.SetDeletionTimestamp(&now)
	}
	return object
}

// TestVirtualImages: a VM is denied if its image is being deleted and is not ready, or if the image requires more memory.
func TestVirtualImages(t *testing.T) {
	objects := []*unstructured.Unstructured{
		virtualImage("ready", false, true, 0), virtualImage("importing", false, false, 0), virtualImage("in-use", true, true, 0), virtualImage("deleted", true, false, 0),
		virtualImage("large", false, true, 4096),
	}
	with := func(memory string, vm *v1.VirtualMachine) *v1.VirtualMachine {
		guest := resource.MustParse(memory)
		vm.Spec.Template.Spec.Domain.Memory = &v1.Memory{Guest: &guest}
		return vm
	}
	for name, c := range map[string]struct {
		vm, old *v1.VirtualMachine
		unread  bool
		want    string
	}{
		"ready":                              {vm: clones("amd64", "images/ready")},
		"not ready yet":                      {vm: clones("amd64", "images/importing")},
		"not created yet":                    {vm: clones("amd64", "images/none")},
		"deleted, in use":                    {vm: clones("amd64", "images/in-use")},
		"deleted":                            {vm: clones("amd64", "images/deleted"), want: "denied virtual-image-deleted"},
		"deleted, second disk":               {vm: clones("amd64", "images/ready", "images/deleted"), want: "denied virtual-image-deleted"},
		"deleted, where images are not read": {vm: clones("amd64", "images/deleted"), unread: true},
		"a user of before":                   {vm: labelled(clones("amd64", "images/deleted")), old: clones("amd64", "images/deleted")},
		"a user of before with more disks":   {vm: clones("amd64", "images/deleted", "images/ready"), old: clones("amd64", "images/deleted"), want: "warned virtual-image-deleted"},
		"an update to a deleted image":       {vm: clones("amd64", "images/deleted"), old: clones("amd64", "images/ready"), want: "denied virtual-image-deleted"},
		"enough memory":                      {vm: with("4Gi", clones("amd64", "images/large"))},
		"too little memory":                  {vm: with("2Gi", clones("amd64", "images/large")), want: "denied virtual-image-memory"},
		"too little memory, as before":       {vm: labelled(with("2Gi", clones("amd64", "images/large"))), old: with("2Gi", clones("amd64", "images/large"))},
		"less memory":                        {vm: with("2Gi", clones("amd64", "images/large")), old: with("4Gi", clones("amd64", "images/large")), want: "denied virtual-image-memory"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newValidator(t, objects...)
			v.Evaluator.VirtualImages = !c.unread
			body := reviewOf(t, apikinds.VirtualMachine, c.vm)
			if c.old != nil {
				body = reviewOf(t, apikinds.VirtualMachine, c.vm, update(t, c.old))
			}
			got := ""
			for _, said := range complaints(evaluated(t, v, body)) {
				for rule, within := range map[string]string{"virtual-image-deleted": "this VirtualImage is being deleted", "virtual-image-memory": "requires at least 4Gi of memory"} {
					switch {
					case !strings.Contains(said, within):
					case strings.HasPrefix(said, "warning: "):
						got = "warned " + rule
					default:
						got = "denied " + rule
					}
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s\n%v", diff, complaints(evaluated(t, v, body)))
			}
		})
	}
}
