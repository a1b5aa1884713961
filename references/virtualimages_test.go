package references_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/validators"
)

// failing answers each read of a kind with an error.
type failing struct {
	references.Objects

	kind string
	err  error
}

func (f failing) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	if kind.Kind == f.kind {
		return nil, f.err
	}
	return f.Objects.Get(ctx, kind, namespace, name)
}

func TestVirtualImages(t *testing.T) {
	const owned = `"ownerReferences":[{"apiVersion":"kupenstack.io/v1alpha1","kind":"VirtualImage","name":"fedora","uid":"0b6c7c0e-52a9","controller":true}]`
	image := func(namespace, name, uid, rest string) string {
		return `{"apiVersion":"kupenstack.io/v1alpha1","kind":"VirtualImage","metadata":{"namespace":"` + namespace + `","name":"` + name + `","uid":"` + uid + `"` + rest
	}
	objects := memory(t,
		image("default", "fedora", "0b6c7c0e-52a9", `},"spec":{"minDisk":10,"minRam":2048},"status":{"ready":true}}`),
		`{"apiVersion":"cdi.kubevirt.io/v1beta1","kind":"DataSource","metadata":{"namespace":"default","name":"fedora",`+owned+`}}`,
		`{"apiVersion":"cdi.kubevirt.io/v1beta1","kind":"DataVolume","metadata":{"namespace":"default","name":"fedora-0b6c7c0e",`+owned+`}}`,
		`{"apiVersion":"cdi.kubevirt.io/v1beta1","kind":"DataVolume","metadata":{"namespace":"default","name":"others-0b6c7c0e"}}`,
		image("default", "importing", "1", `},"spec":{}}`),
		image("images", "deleted", "2", `,"deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"ready":false}}`),
		image("images", "used", "3", `,"deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"ready":true}}`),
		image("default", "taken", "4", `},"spec":{"minRam":2048}}`),
		`{"apiVersion":"cdi.kubevirt.io/v1beta1","kind":"DataSource","metadata":{"namespace":"default","name":"taken"}}`,
		image("default", "renewed", "5", `},"spec":{"minRam":2048}}`),
		`{"apiVersion":"cdi.kubevirt.io/v1beta1","kind":"DataSource","metadata":{"namespace":"default","name":"renewed","ownerReferences":[{"kind":"VirtualImage","name":"renewed","uid":"4","controller":true}]}}`,
	)
	const template = `{"spec":{"template":{"spec":{}},"dataVolumeTemplates":[{"spec":{"sourceRef":{"kind":"DataSource","namespace":"NAMESPACE","name":"NAME"}}}]}}`
	clone := func(namespace, name string) string {
		return strings.NewReplacer("NAMESPACE", namespace, "NAME", name).Replace(template)
	}
	first := field.NewPath("spec", "dataVolumeTemplates").Index(0).Child("spec", "sourceRef")
	fedora := validators.VirtualImage{Name: "default/fedora", Field: first, MinDisk: 10, MinRAM: 2048}
	volume := func(path ...string) validators.VirtualImage {
		v := fedora
		v.Field, v.Template = field.NewPath("spec", "template", "spec", "volumes").Index(0).Child(path[0], path[1:]...), -1
		return v
	}
	for name, c := range map[string]struct {
		vm      string
		want    []validators.VirtualImage
		objects references.Objects
	}{
		"an image":                    {vm: clone("", "fedora"), want: []validators.VirtualImage{fedora}},
		"one that is not ready":       {vm: clone("default", "importing"), want: []validators.VirtualImage{{Name: "default/importing", Field: first}}},
		"one that is deleted":         {vm: clone("images", "deleted"), want: []validators.VirtualImage{{Name: "images/deleted", Field: first, Deleted: true}}},
		"one that is deleted, in use": {vm: clone("images", "used"), want: []validators.VirtualImage{{Name: "images/used", Field: first}}},
		"one that does not exist":     {vm: clone("", "none")},
		"a DataSource of others":      {vm: clone("", "taken")},
		"a DataSource of one before":  {vm: clone("", "renewed")},
		"another kind":                {vm: strings.Replace(clone("", "fedora"), "DataSource", "Other", 1)},
		"without images":              {vm: `{"spec":{"template":{"spec":{"volumes":[{"name":"a","containerDisk":{"image":"a"}}]}}}}`},
		"its DataVolume":              {vm: `{"spec":{"template":{"spec":{"volumes":[{"name":"a","dataVolume":{"name":"fedora-0b6c7c0e"}}]}}}}`, want: []validators.VirtualImage{volume("dataVolume", "name")}},
		"its claim":                   {vm: `{"spec":{"template":{"spec":{"volumes":[{"name":"a","ephemeral":{"persistentVolumeClaim":{"claimName":"fedora-0b6c7c0e"}}}]}}}}`, want: []validators.VirtualImage{volume("ephemeral", "persistentVolumeClaim", "claimName")}},
		"a volume of others":          {vm: `{"spec":{"template":{"spec":{"volumes":[{"name":"a","dataVolume":{"name":"others-0b6c7c0e"}},{"name":"b","dataVolume":{"name":"fedora"}}]}}}}`},
		"a clone of its claim": {
			vm:   `{"spec":{"template":{"spec":{}},"dataVolumeTemplates":[{"spec":{"source":{"pvc":{"namespace":"default","name":"fedora-0b6c7c0e"}}}}]}}`,
			want: []validators.VirtualImage{{Name: "default/fedora", Field: field.NewPath("spec", "dataVolumeTemplates").Index(0).Child("spec", "source", "pvc"), MinDisk: 10, MinRAM: 2048}},
		},
		"without the right to read images": {
			vm:      clone("", "fedora"),
			objects: failing{objects, "VirtualImage", apierrors.NewForbidden(schema.GroupResource{Resource: "virtualimages"}, "fedora", nil)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			from := c.objects
			if from == nil {
				from = objects
			}
			got, err := references.VirtualImages(t.Context(), from, virtualMachine(t, c.vm), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got, cmp.Comparer(func(a, b *field.Path) bool { return a.String() == b.String() }), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}

	t.Run("the cluster cannot be read", func(t *testing.T) {
		broken := failing{objects, "VirtualImage", errors.New("secret detail")}
		if _, err := references.VirtualImages(t.Context(), broken, virtualMachine(t, clone("", "fedora")), nil); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	})
	t.Run("instances", func(t *testing.T) {
		vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
		vmi.Spec.Volumes = []v1.Volume{{Name: "a", VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "fedora-0b6c7c0e"}}}}
		if got, err := references.VirtualImages(t.Context(), objects, nil, vmi); err != nil || len(got) != 1 {
			t.Errorf("%v, %v", got, err)
		}
		yes := true
		vmi.OwnerReferences = []metav1.OwnerReference{{Kind: "VirtualMachine", Name: "a", Controller: &yes}}
		if got, err := references.VirtualImages(t.Context(), objects, nil, vmi); err != nil || len(got) != 0 {
			t.Errorf("of a VM: %v, %v", got, err)
		}
	})
	t.Run("no more than a bound are looked up", func(t *testing.T) {
		vm := virtualMachine(t, `{"spec":{"template":{"spec":{}}}}`)
		for range 30 {
			vm.Spec.DataVolumeTemplates = append(vm.Spec.DataVolumeTemplates, virtualMachine(t, clone("", "fedora")).Spec.DataVolumeTemplates...)
		}
		if got, err := references.VirtualImages(t.Context(), objects, vm, nil); err != nil || len(got) != 20 {
			t.Errorf("%d, %v", len(got), err)
		}
	})
}
