package images

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/variants"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/kills"
	"github.com/virtward/virtward/test/planes"
)

// TestVariantsKilled kills the controller of variants before and after each of its writes. The next one completes the work.
func TestVariantsKilled(t *testing.T) {
	t.Parallel() // each has its own control plane
	plane := planes.Start(t, controlplane.Options{})
	f := &fixture{ControlPlane: plane, client: plane.Client()}
	must(t, f.EnsureNamespace(t.Context(), shop))
	for _, pattern := range []string{"template-definitions/*.yaml", "definitions/image.virtward.io_goldenimagecatalogs.yaml"} {
		files, err := filepath.Glob("../../charts/virtward/" + pattern)
		must(t, err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			must(t, err)
			definition := &apiextensionsv1.CustomResourceDefinition{}
			must(t, yaml.UnmarshalStrict(data, definition))
			must(t, f.InstallCRDs(t.Context(), definition))
		}
	}
	catalog := &v1alpha1.GoldenImageCatalog{ObjectMeta: metav1.ObjectMeta{Name: "site"}}
	catalog.Spec.DataImportCronTemplates = []v1alpha1.DataImportCronTemplate{entry("fedora", "amd64,arm64,s390x")}
	must(t, f.client.Create(t.Context(), catalog))
	counts := map[string]int{}
	for step := range 20 {
		for _, lost := range []bool{false, true} {
			for phase, writes := range f.killed(t, catalog, fmt.Sprintf("t%d-%t", step, lost), &kills.Connection{Left: step, Lost: lost}) {
				counts[phase] = max(counts[phase], writes)
			}
		}
	}
	if diff := cmp.Diff(map[string]int{"create": 2, "change": 3}, counts); diff != "" {
		t.Errorf("most writes of a phase (-want +got):\n%s", diff)
	}
}

// killed creates a template and reconciles it with a connection that ends, and with one that does not. Then the template and its
// architectures change, and the same happens. It returns the writes of each phase.
func (f *fixture) killed(t *testing.T, catalog *v1alpha1.GoldenImageCatalog, name string, first *kills.Connection) map[string]int {
	t.Helper()
	second := &kills.Connection{Left: first.Left, Lost: first.Lost}
	f.imports(t, catalog, "amd64", "arm64")
	source := templateOf(name, "fedora")
	must(t, f.client.Create(t.Context(), source))
	f.reconcileTwice(t, source, first)
	plain, amd64, arm64, s390x := name+" fedora -", name+"-amd64 fedora-amd64 amd64", name+"-arm64 fedora-arm64 arm64", name+"-s390x fedora-s390x s390x"
	if diff := cmp.Diff([]string{plain, amd64, arm64}, f.variants(t)); diff != "" {
		t.Errorf("%s, created (-want +got):\n%s", name, diff)
	}
	f.imports(t, catalog, "arm64", "s390x")
	source.Spec.Message = "changed"
	must(t, f.client.Update(t.Context(), source))
	f.reconcileTwice(t, source, second)
	if diff := cmp.Diff([]string{plain, arm64, s390x}, f.variants(t)); diff != "" {
		t.Errorf("%s, changed (-want +got):\n%s", name, diff)
	}
	list := &v1beta1.VirtualMachineTemplateList{}
	must(t, f.client.List(t.Context(), list, client.InNamespace(shop)))
	for i := range list.Items {
		if list.Items[i].Spec.Message != "changed" {
			t.Errorf("%s has another message", list.Items[i].Name)
		}
	}
	must(t, f.client.DeleteAllOf(t.Context(), &v1beta1.VirtualMachineTemplate{}, client.InNamespace(shop)))
	return map[string]int{"create": len(first.Writes()), "change": len(second.Writes())}
}

// imports writes the status of the catalog.
func (f *fixture) imports(t *testing.T, catalog *v1alpha1.GoldenImageCatalog, architectures ...string) {
	t.Helper()
	image := v1alpha1.Image{Name: "fedora-cron", DataSource: "fedora"}
	for _, a := range architectures {
		image.Imports = append(image.Imports, v1alpha1.Import{Architecture: a, DataImportCron: "fedora-cron-" + a, DataSource: "fedora-" + a})
	}
	catalog.Status.Images = []v1alpha1.Image{image}
	must(t, f.client.Status().Update(t.Context(), catalog))
}

// reconcileTwice reconciles with a connection that ends, and then with a new controller.
func (f *fixture) reconcileTwice(t *testing.T, source *v1beta1.VirtualMachineTemplate, ends *kills.Connection) {
	t.Helper()
	for _, connection := range []*kills.Connection{ends, {Left: -1}} {
		config := rest.CopyConfig(f.Config())
		config.Wrap(connection.Wrap)
		live, err := client.New(config, client.Options{Scheme: f.client.Scheme()})
		must(t, err)
		r := variants.New(variants.Options{Client: live, Catalogs: f.client, Tell: func(_ *v1beta1.VirtualMachineTemplate, _, reason, message string) {
			t.Errorf("an event: %s %s", reason, message)
		}})
		_, err = r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(source)})
		if err != nil && !errors.Is(err, kills.Err) {
			t.Errorf("%s: %v", source.Name, err)
		}
	}
}
