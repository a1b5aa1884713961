package goldenimages

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/test/await"
)

const shop = "shop"

// templateOf is a VM template that clones an image.
func templateOf(name, image string) *v1beta1.VirtualMachineTemplate {
	vm := fmt.Sprintf(`{"metadata":{"name":"${NAME}"},"spec":{"runStrategy":"Halted","dataVolumeTemplates":[{"metadata":{"name":"${NAME}"},"spec":{"storage":{},"sourceRef":{"kind":"DataSource","name":"${DATA_SOURCE_NAME}","namespace":%q}}}],
		"template":{"spec":{"domain":{"devices":{"disks":[{"name":"root","disk":{}}]},"memory":{"guest":"1Gi"}},"volumes":[{"name":"root","dataVolume":{"name":"${NAME}"}}]}}}}`, namespace)
	t := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: name, Labels: map[string]string{v1alpha1.PerArchitectureLabel: image, "team": "a"}}}
	t.Spec.VirtualMachine = &runtime.RawExtension{Raw: []byte(vm)}
	t.Spec.Parameters = []v1beta1.Parameter{{Name: "NAME", Generate: "expression", From: "vm-[a-z0-9]{8}"}, {Name: "DATA_SOURCE_NAME", Value: image}}
	return t
}

// variants has a line for each template of the namespace shop: its name, its DataSource, and its architecture.
func (f *fixture) variants(t *testing.T) []string {
	t.Helper()
	list := &v1beta1.VirtualMachineTemplateList{}
	must(t, f.client.List(t.Context(), list, client.InNamespace(shop)))
	var lines []string
	for i := range list.Items {
		item := &list.Items[i]
		architecture := "-"
		if _, after, found := strings.Cut(string(item.Spec.VirtualMachine.Raw), `"architecture":"`); found {
			architecture, _, _ = strings.Cut(after, `"`)
		}
		if label := item.Labels[v1alpha1.ArchitectureLabel]; label != "" && label != architecture {
			architecture += " labeled " + label
		}
		lines = append(lines, item.Name+" "+item.Spec.Parameters[1].Value+" "+architecture)
	}
	return lines
}

func (f *fixture) variantsBecome(t *testing.T, want ...string) {
	t.Helper()
	var diff string
	for deadline := time.Now().Add(await.Patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if diff = cmp.Diff(want, f.variants(t)); diff == "" {
			return
		}
	}
	logged, _ := os.ReadFile(f.process.Log())
	t.Fatalf("templates (-want +got):\n%s\n%s", diff, logged)
}

// event waits for an event on a template.
func (f *fixture) event(t *testing.T, name, reason, text string) {
	t.Helper()
	var seen []string
	for deadline := time.Now().Add(await.Patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		events := &corev1.EventList{}
		must(t, f.client.List(t.Context(), events, client.InNamespace(shop)))
		seen = nil
		for i := range events.Items {
			e := &events.Items[i]
			if e.InvolvedObject.Name == name && e.Reason == reason && strings.Contains(e.Message, text) {
				return
			}
			seen = append(seen, e.InvolvedObject.Name+" "+e.Reason+" "+e.Message)
		}
	}
	logged, _ := os.ReadFile(f.process.Log())
	t.Fatalf("no event %s on %s, but %q\n%s", reason, name, seen, logged)
}

// TestVariants follows the variants of a VM template through the changes of a cluster.
func TestVariants(t *testing.T) {
	t.Parallel()
	f := startWith(t, map[string]any{"goldenImages": map[string]any{"enabled": true}, "templates": map[string]any{"mode": "manage"}})
	must(t, f.EnsureNamespace(t.Context(), shop))
	f.node(t, "c1", "amd64", "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/worker")
	f.node(t, "w1", "arm64", "node-role.kubernetes.io/worker")
	source := templateOf("server", "fedora")
	must(t, f.client.Create(t.Context(), source))
	f.event(t, "server", "NoImage", `no catalog has the image "fedora" in the namespace "virtward-os-images"`)

	catalog := &v1alpha1.GoldenImageCatalog{ObjectMeta: metav1.ObjectMeta{Name: "site"}}
	catalog.Spec.RemovalDelay = &metav1.Duration{Duration: 3 * time.Second}
	catalog.Spec.DataImportCronTemplates = []v1alpha1.DataImportCronTemplate{entry("fedora", "amd64,arm64,s390x")}
	must(t, f.client.Create(t.Context(), catalog))
	plain, amd64, arm64, s390x := "server fedora -", "server-amd64 fedora-amd64 amd64", "server-arm64 fedora-arm64 arm64", "server-s390x fedora-s390x s390x"
	f.variantsBecome(t, plain, amd64, arm64)
	made := &v1beta1.VirtualMachineTemplate{}
	must(t, f.client.Get(t.Context(), client.ObjectKey{Namespace: shop, Name: "server-arm64"}, made))
	if !metav1.IsControlledBy(made, source) || made.Labels["team"] != "a" || made.Labels[v1alpha1.DataSourceNameLabel] != "fedora" || made.Labels[v1alpha1.VariantLabel] != "true" {
		t.Errorf("the variant: %+v", made.ObjectMeta)
	}

	t.Log("an s390x node joins")
	f.node(t, "z1", "s390x", "node-role.kubernetes.io/worker")
	f.variantsBecome(t, plain, amd64, arm64, s390x)

	t.Log("nothing is written when nothing changes")
	f.calm(t)
	before, passes := f.templateVersions(t), f.passed(t, "variants")
	must(t, f.client.Patch(t.Context(), catalog.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"touched":"true"}}}`))))
	f.passes(t, "variants", passes)
	f.calm(t)
	if diff := cmp.Diff(before, f.templateVersions(t)); diff != "" {
		t.Errorf("written without a change:\n%s", diff)
	}

	t.Log("a variant is edited and another one deleted, while the process is killed")
	f.process.Kill()
	must(t, f.client.Patch(t.Context(), made, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"message":"edited"}}`))))
	must(t, f.client.Delete(t.Context(), &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "server-s390x"}}))
	must(t, f.process.Start(t.Context()))
	f.variantsBecome(t, plain, amd64, arm64, s390x)
	f.eventually(t, "the edit to be reverted", func() bool {
		must(t, f.client.Get(t.Context(), client.ObjectKeyFromObject(made), made))
		return made.Spec.Message == ""
	})

	t.Log("the template changes, and so do its variants")
	must(t, f.client.Patch(t.Context(), source, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"message":"Welcome"}}`))))
	f.eventually(t, "the message of a variant", func() bool {
		must(t, f.client.Get(t.Context(), client.ObjectKeyFromObject(made), made))
		return made.Spec.Message == "Welcome"
	})

	t.Log("the arm64 node leaves")
	must(t, f.client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}))
	f.variantsBecome(t, plain, amd64, s390x)

	t.Log("a template of another author has the name of a variant")
	foreign := templateOf("server-arm64", "fedora-arm64")
	foreign.Labels = nil
	must(t, f.client.Create(t.Context(), foreign))
	f.node(t, "w2", "arm64", "node-role.kubernetes.io/worker")
	f.event(t, "server", "NameTaken", `the template "server-arm64" exists, and is not a variant of this one`)
	must(t, f.client.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign))
	if foreign.Labels != nil {
		t.Errorf("it was taken over: %+v", foreign)
	}

	t.Log("a label of an image that the template does not clone")
	wrong := templateOf("wrong", "fedora")
	wrong.Labels[v1alpha1.PerArchitectureLabel] = "debian"
	must(t, f.client.Create(t.Context(), wrong))
	f.event(t, "wrong", "NoDataSource", `"debian"`)
	must(t, f.client.Delete(t.Context(), wrong))

	t.Log("the image is imported once")
	f.change(t, func(c *v1alpha1.GoldenImageCatalog) { off := false; c.Spec.MultiArch = &off })
	f.variantsBecome(t, plain, "server-arm64 fedora-arm64 -")
	f.change(t, func(c *v1alpha1.GoldenImageCatalog) { on := true; c.Spec.MultiArch = &on })
	f.variantsBecome(t, plain, amd64, "server-arm64 fedora-arm64 -", s390x)

	t.Log("the label is removed")
	must(t, f.client.Patch(t.Context(), source, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"image.virtward.io/per-architecture":null}}}`))))
	f.variantsBecome(t, plain, "server-arm64 fedora-arm64 -")

	t.Log("the template is deleted, and the garbage collector deletes its variants")
	must(t, f.client.Patch(t.Context(), source, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"image.virtward.io/per-architecture":"fedora"}}}`))))
	f.variantsBecome(t, plain, amd64, "server-arm64 fedora-arm64 -", s390x)
	must(t, f.client.Delete(t.Context(), source))
	f.variantsBecome(t, "server-arm64 fedora-arm64 -")

	t.Log("a user without the rights cannot have variants made")
	f.user(t)
}

// user creates a template as a user who may create templates only.
func (f *fixture) user(t *testing.T) {
	t.Helper()
	user := f.as(t, "creator", "create", "template.kubevirt.io", "virtualmachinetemplates")
	f.eventually(t, "the answer to a user with a right to create", func() bool { // first, the API server learns of the right
		err := user.Create(t.Context(), templateOf("mine", "fedora"), client.DryRunAll)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "you need update on virtualmachinetemplates")
	})
	without := templateOf("mine", "fedora")
	without.Labels = nil
	if err := user.Create(t.Context(), without, client.DryRunAll); err != nil {
		t.Errorf("without the label: %v", err)
	}
}

func (f *fixture) templateVersions(t *testing.T) map[string]string {
	t.Helper()
	list := &v1beta1.VirtualMachineTemplateList{}
	must(t, f.client.List(t.Context(), list, client.InNamespace(shop)))
	versions := map[string]string{}
	for i := range list.Items {
		versions[list.Items[i].Name] = list.Items[i].ResourceVersion
	}
	return versions
}
