package goldenimages

import (
	"fmt"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/crds"
)

// sspDefinition is the definition of SSP's resource, with any content.
func sspDefinition() *apiextensionsv1.CustomResourceDefinition {
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "ssps.ssp.kubevirt.io"}}
	definition.Spec.Group, definition.Spec.Scope = "ssp.kubevirt.io", apiextensionsv1.NamespaceScoped
	definition.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "ssps", Singular: "ssp", Kind: "SSP", ListKind: "SSPList"}
	schema := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	definition.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: "v1beta3", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema},
	}}
	return definition
}

func sspResource() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "ssp.kubevirt.io/v1beta3", "kind": "SSP", "metadata": map[string]any{"namespace": "default", "name": "ssp"},
	}}
}

// conditionOf waits for a condition of the catalog.
func (f *fixture) conditionOf(t *testing.T, kind string, status metav1.ConditionStatus, reason string) *v1alpha1.GoldenImageCatalog {
	t.Helper()
	catalog := &v1alpha1.GoldenImageCatalog{}
	for deadline := time.Now().Add(await.Patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		must(t, f.client.Get(t.Context(), client.ObjectKey{Name: "site"}, catalog))
		if c := meta.FindStatusCondition(catalog.Status.Conditions, kind); c != nil && c.Status == status && c.Reason == reason && c.ObservedGeneration == catalog.Generation {
			return catalog
		}
	}
	t.Fatalf("the catalog has not %s %s %s: %+v", kind, status, reason, catalog.Status)
	return nil
}

// mark gives all crons and DataSources the marks of SSP, or takes them away and gives the objects to the catalog.
func (f *fixture) mark(t *testing.T, ssp bool) {
	t.Helper()
	patch := `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null},"annotations":{"operator-sdk/primary-resource":null,"operator-sdk/primary-resource-type":null,"image.virtward.io/catalog":"site"}}}`
	if ssp {
		patch = `{"metadata":{"ownerReferences":null,"labels":{"app.kubernetes.io/managed-by":"ssp-operator"},"annotations":{"operator-sdk/primary-resource":"default/ssp","operator-sdk/primary-resource-type":"SSP.ssp.kubevirt.io","image.virtward.io/catalog":null}}}`
	}
	for _, list := range []client.ObjectList{&cdiv1beta1.DataImportCronList{}, &cdiv1beta1.DataSourceList{}} {
		must(t, f.client.List(t.Context(), list, client.InNamespace(namespace)))
		must(t, meta.EachListItem(list, func(o runtime.Object) error {
			object, _ := o.(client.Object)
			return f.client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)))
		}))
	}
}

// deployed waits until an image has a reason of the condition Deployed.
func (f *fixture) deployed(t *testing.T, name string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	f.condition(t, func(image *v1alpha1.Image) string {
		c := meta.FindStatusCondition(image.Conditions, "Deployed")
		if image.Name != name || c == nil || c.Status != status || c.Reason != reason {
			return fmt.Sprintf("%+v", image)
		}
		return ""
	})
}

// TestBesideSSP switches the management of images from SSP to Virtward and back. While SSP manages them, the catalog has a
// status and writes nothing.
func TestBesideSSP(t *testing.T) {
	t.Parallel()
	f := start(t)
	must(t, f.InstallCRDs(t.Context(), sspDefinition()))
	must(t, f.client.Create(t.Context(), sspResource()))
	f.node(t, "c1", "amd64", "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/worker")
	f.node(t, "w1", "arm64", "node-role.kubernetes.io/worker")

	t.Log("the objects of SSP")
	for _, architecture := range []string{"amd64", "arm64"} {
		e := entry("fedora", "")
		cron := &cdiv1beta1.DataImportCron{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fedora-cron-" + architecture}, Spec: *e.Spec}
		cron.Labels = map[string]string{v1alpha1.ArchitectureLabel: architecture, v1alpha1.DataSourceNameLabel: "fedora"}
		cron.Spec.ManagedDataSource += "-" + architecture
		cron.Spec.Template.Spec.Source.Registry.Platform = &cdiv1beta1.PlatformOptions{Architecture: architecture}
		must(t, f.client.Create(t.Context(), cron))
	}
	pointer := &cdiv1beta1.DataSource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fedora"}}
	pointer.Spec.Source.DataSource = &cdiv1beta1.DataSourceRefSourceDataSource{Namespace: namespace, Name: "fedora-amd64"}
	must(t, f.client.Create(t.Context(), pointer))
	both := []string{"cron fedora-cron-amd64", "cron fedora-cron-arm64", "source fedora -> fedora-amd64 ready", "source fedora-amd64 ready", "source fedora-arm64 ready"}
	f.becomes(t, both...)
	f.mark(t, true)
	f.watchReady(t)

	t.Log("the catalog observes")
	f.catalog(t, entry("fedora", "amd64,arm64"), entry("debian", "amd64"))
	f.conditionOf(t, "Managed", metav1.ConditionFalse, "ManagedBySSP")
	f.deployed(t, "fedora-cron", metav1.ConditionTrue, "ManagedBySSP")
	f.deployed(t, "debian-cron", metav1.ConditionFalse, "ManagedBySSP")
	f.condition(t, func(image *v1alpha1.Image) string {
		if image.Name != "fedora-cron" || len(image.Imports) != 2 || image.DefaultArchitecture != "amd64" || !meta.IsStatusConditionTrue(image.Imports[1].Conditions, "Imported") {
			return fmt.Sprintf("%+v", image)
		}
		return ""
	})
	f.becomes(t, both...)

	t.Log("without its resource, SSP's marks count")
	must(t, f.client.Delete(t.Context(), sspResource()))
	f.conditionOf(t, "Managed", metav1.ConditionTrue, "Managed")
	debian := []string{"cron debian-cron-amd64", "cron fedora-cron-amd64", "cron fedora-cron-arm64", "source debian -> debian-amd64 ready", "source debian-amd64 ready"}
	f.becomes(t, append(debian, both[2:]...)...)
	f.deployed(t, "fedora-cron", metav1.ConditionTrue, "ManagedBySSP")

	t.Log("from SSP to Virtward")
	f.mark(t, false)
	f.deployed(t, "fedora-cron", metav1.ConditionTrue, "Deployed")
	f.change(t, func(c *v1alpha1.GoldenImageCatalog) {
		c.Spec.DataImportCronTemplates = c.Spec.DataImportCronTemplates[:1]
	})
	f.becomes(t, append(both[:2:2], append([]string{"source debian-amd64 ready"}, both[2:]...)...)...)

	t.Log("from Virtward to SSP")
	must(t, f.client.Create(t.Context(), sspResource()))
	f.conditionOf(t, "Managed", metav1.ConditionFalse, "ManagedBySSP")
	f.change(t, func(c *v1alpha1.GoldenImageCatalog) { c.Spec.DataImportCronTemplates = nil })
	f.conditionOf(t, "Managed", metav1.ConditionFalse, "ManagedBySSP")
	f.mark(t, true)
	catalog := &v1alpha1.GoldenImageCatalog{ObjectMeta: metav1.ObjectMeta{Name: "site"}}
	must(t, f.client.Delete(t.Context(), catalog, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	f.eventually(t, "the end of the catalog", func() bool {
		return apierrors.IsNotFound(f.client.Get(t.Context(), client.ObjectKeyFromObject(catalog), catalog))
	})
	f.becomes(t, append(both[:2:2], append([]string{"source debian-amd64 ready"}, both[2:]...)...)...)
	if was := f.interrupted.Load(); was != nil {
		t.Errorf("the DataSource fedora was not ready: %s", *was)
	}
}

// TestWithoutCDI starts before CDI is installed, and without the namespace of the images.
func TestWithoutCDI(t *testing.T) {
	t.Parallel()
	f := start(t)
	var definitions []*apiextensionsv1.CustomResourceDefinition
	all, err := crds.All()
	must(t, err)
	for _, d := range all {
		if d.Spec.Group == "cdi.kubevirt.io" {
			definitions = append(definitions, d)
			must(t, f.client.Delete(t.Context(), d.DeepCopy()))
		}
	}
	f.node(t, "w1", "amd64")
	f.node(t, "w2", "amd64")
	f.catalog(t, entry("fedora", "amd64"))
	catalog := f.conditionOf(t, "Ready", metav1.ConditionFalse, "CDIMissing")
	if c := meta.FindStatusCondition(catalog.Status.Conditions, "Ready"); c.Message != "the kinds of cdi.kubevirt.io are missing: install CDI (Containerized Data Importer) 1.62 or later" {
		t.Errorf("message: %s", c.Message)
	}
	f.nodesBecome(t, "amd64=2", "", "", "amd64")
	must(t, f.client.Get(t.Context(), client.ObjectKeyFromObject(catalog), catalog))
	version := catalog.ResourceVersion
	time.Sleep(5 * time.Second)
	if catalog = f.conditionOf(t, "Ready", metav1.ConditionFalse, "CDIMissing"); catalog.ResourceVersion != version {
		t.Error("the status is written without a change")
	}

	t.Log("CDI is installed, and an entry of another catalog has no namespace")
	must(t, f.InstallCRDs(t.Context(), definitions...))
	f.becomes(t, "cron fedora-cron-amd64", "source fedora -> fedora-amd64 ready", "source fedora-amd64 ready")
	f.conditionOf(t, "Ready", metav1.ConditionTrue, "Imported")
	must(t, f.client.Delete(t.Context(), catalog))
	other := &v1alpha1.GoldenImageCatalog{ObjectMeta: metav1.ObjectMeta{Name: "site"}, Spec: v1alpha1.GoldenImageCatalogSpec{Namespace: "nowhere"}}
	other.Spec.DataImportCronTemplates = []v1alpha1.DataImportCronTemplate{entry("fedora", "amd64")}
	must(t, f.client.Create(t.Context(), other))
	f.conditionOf(t, "Ready", metav1.ConditionFalse, "NamespaceMissing")
	must(t, f.EnsureNamespace(t.Context(), "nowhere"))
	f.conditionOf(t, "Ready", metav1.ConditionFalse, "Pending")
}

// catalog creates the catalog site.
func (f *fixture) catalog(t *testing.T, entries ...v1alpha1.DataImportCronTemplate) {
	t.Helper()
	catalog := &v1alpha1.GoldenImageCatalog{ObjectMeta: metav1.ObjectMeta{Name: "site"}}
	catalog.Spec.RemovalDelay = &metav1.Duration{Duration: 3 * time.Second}
	catalog.Spec.DataImportCronTemplates = entries
	must(t, f.client.Create(t.Context(), catalog))
}
