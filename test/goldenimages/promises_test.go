package goldenimages

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/test/await"
)

const (
	worker  = "node-role.kubernetes.io/worker"
	control = "node-role.kubernetes.io/control-plane"
)

// TestPromises tests the promises of VEP 48, by the numbers of the table in docs/golden-images.md. The nodes come in
// sequence: one, two of one architecture, and then others.
func TestPromises(t *testing.T) {
	t.Parallel()
	common := map[string]any{}
	text, err := json.Marshal(entry("base", "amd64,arm64"))
	must(t, err)
	must(t, json.Unmarshal(text, &common))
	delete(common["metadata"].(map[string]any), "creationTimestamp")
	spec := common["spec"].(map[string]any)
	template := spec["template"].(map[string]any)
	delete(template, "metadata")
	delete(template, "status")
	f := startWith(t, map[string]any{"goldenImages": map[string]any{"enabled": true, "commonImages": []any{common}}, "templates": map[string]any{"mode": "manage"}})
	must(t, f.EnsureNamespace(t.Context(), shop))
	f.watchReady(t)
	for _, promise := range []struct {
		name string
		test func(*testing.T)
	}{
		{"promise 11: a cluster with one node imports once", f.singleNode},
		{"promise 34: a cluster of one architecture has the names and labels", f.oneArchitecture},
		{"promise 06: two lists from the nodeInfo of the nodes", f.twoLists},
		{"promise 02: an image of several architectures", f.custom},
		{"promise 16: a DataImportCron for each architecture", f.cron},
		{"promise 19: labels propagate to the DataSource", f.labels},
		{"promise 20: a pointer with the original name", f.pointer},
		{"promise 01: users choose the architecture of a VM", f.chosen},
		{"promise 03: a VM of an image is for its architecture", f.placed},
		{"promise 05: shipped images list their architectures", f.shipped},
		{"promise 13: absent architectures are cleaned from the list", f.cleaned},
		{"promise 14: nothing is created if no architecture is left", f.unsupported},
		{"promise 15: the entry itself does not change", f.unchanged},
		{"promise 17: without the annotation, one DataImportCron as before", f.legacy},
		{"promise 18: the annotation removes the earlier DataImportCron", f.annotated},
		{"promise 22: the existing DataSource becomes the pointer", f.becamePointer},
		{"promise 23: a claim of a manual DataSource is the default architecture's", f.manual},
		{"promise 27: no node for the import is a condition", f.unschedulable},
		{"promise 28: an image without the architecture is a condition", f.lacking},
		{"promise 21: the default is the control plane's architecture, or that of the image", f.defaults},
		{"promise 08: workers by label, or by the placement", f.placement},
		{"promise 09: the control plane by label", f.controlPlane},
		{"promise 07: the lists follow the nodes", f.follow},
		{"promise 31: a VM template for each architecture", f.templates},
		{"promise 32: the DataSource of a template is found by labels", f.foundByLabels},
		{"promise 33: DataImportCrons without an entry are removed", f.removed},
		{"promise 04: the original name is ready through all changes", f.ready},
	} {
		if !t.Run(promise.name, promise.test) {
			return // the next ones build on it
		}
	}
}

// site changes the entries of the catalog of most promises, and creates it first.
func (f *fixture) site(t *testing.T, entries ...v1alpha1.DataImportCronTemplate) {
	t.Helper()
	catalog := &v1alpha1.GoldenImageCatalog{}
	err := f.client.Get(t.Context(), client.ObjectKey{Name: "site"}, catalog)
	if apierrors.IsNotFound(err) {
		catalog.Name = "site"
		catalog.Spec.RemovalDelay = &metav1.Duration{Duration: 2 * time.Second}
		catalog.Spec.DataImportCronTemplates = entries
		must(t, f.client.Create(t.Context(), catalog))
		return
	}
	must(t, err)
	f.change(t, func(c *v1alpha1.GoldenImageCatalog) {
		for _, e := range entries {
			i := slices.IndexFunc(c.Spec.DataImportCronTemplates, func(old v1alpha1.DataImportCronTemplate) bool { return old.Name == e.Name })
			if i < 0 {
				c.Spec.DataImportCronTemplates = append(c.Spec.DataImportCronTemplates, e)
				continue
			}
			c.Spec.DataImportCronTemplates[i] = e
		}
	})
}

// of are the lines of the state about an image.
func (f *fixture) of(t *testing.T, image string) []string {
	t.Helper()
	all, err := f.state(t.Context())
	must(t, err)
	return slices.DeleteFunc(all, func(line string) bool {
		name := strings.Fields(line)[1]
		return name != image && !strings.HasPrefix(name, image+"-")
	})
}

// imageBecomes waits for the state of an image.
func (f *fixture) imageBecomes(t *testing.T, image string, want ...string) {
	t.Helper()
	var diff string
	for deadline := time.Now().Add(await.Patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if diff = cmp.Diff(want, f.of(t, image)); diff == "" {
			return
		}
	}
	catalog := &v1alpha1.GoldenImageCatalog{}
	_ = f.client.Get(t.Context(), client.ObjectKey{Name: "site"}, catalog)
	logged, _ := os.ReadFile(f.process.Log())
	t.Fatalf("%s (-want +got):\n%s\nstatus: %+v\n%s", image, diff, catalog.Status, logged)
}

// imageIs waits until a condition of an image has a reason.
func (f *fixture) imageIs(t *testing.T, name, kind string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	f.condition(t, func(image *v1alpha1.Image) string {
		c := meta.FindStatusCondition(image.Conditions, kind)
		if image.Name == name && c != nil && c.Status == status && c.Reason == reason {
			return ""
		}
		return fmt.Sprintf("%s %+v", image.Name, c)
	})
}

func (f *fixture) singleNode(t *testing.T) {
	f.node(t, "c1", "amd64", control, worker)
	f.site(t, entry("fedora", "amd64,arm64"))
	f.imageBecomes(t, "fedora", "cron fedora-cron", "source fedora ready")
	f.imageIs(t, "fedora-cron", "Deployed", metav1.ConditionTrue, "SingleNode")
}

func (f *fixture) oneArchitecture(t *testing.T) {
	f.node(t, "w0", "amd64", worker)
	f.imageBecomes(t, "fedora", "cron fedora-cron-amd64", "source fedora -> fedora-amd64 ready", "source fedora-amd64 ready")
	source := &cdiv1beta1.DataSource{}
	must(t, f.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "fedora-amd64"}, source))
	if source.Labels[v1alpha1.ArchitectureLabel] != "amd64" || source.Labels[v1alpha1.DataSourceNameLabel] != "fedora" {
		t.Errorf("labels: %v", source.Labels)
	}
}

func (f *fixture) twoLists(t *testing.T) {
	f.node(t, "w1", "arm64", worker)
	f.node(t, "p1", "ppc64le", worker)
	f.nodesBecome(t, "amd64=2 arm64=1", "amd64=1", "ppc64le=1", "amd64")
}

// nodesBecome waits for the lists of the status: workers, control plane, unknown ones, and the default.
func (f *fixture) nodesBecome(t *testing.T, want ...string) {
	t.Helper()
	counts := func(list []v1alpha1.ArchitectureCount) string {
		var words []string
		for _, c := range list {
			words = append(words, fmt.Sprintf("%s=%d", c.Architecture, c.Nodes))
		}
		return strings.Join(words, " ")
	}
	var diff string
	for deadline := time.Now().Add(await.Patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		catalog := &v1alpha1.GoldenImageCatalog{}
		must(t, f.client.Get(t.Context(), client.ObjectKey{Name: "site"}, catalog))
		n := catalog.Status.Nodes
		if diff = cmp.Diff(want, []string{counts(n.WorkloadArchitectures), counts(n.ControlPlaneArchitectures), counts(n.UnknownArchitectures), n.DefaultArchitecture}); diff == "" {
			return
		}
	}
	t.Fatalf("nodes (-want +got):\n%s", diff)
}

func (f *fixture) custom(t *testing.T) {
	f.imageBecomes(t, "fedora", "cron fedora-cron-amd64", "cron fedora-cron-arm64", "source fedora -> fedora-amd64 ready", "source fedora-amd64 ready", "source fedora-arm64 ready")
}

func (f *fixture) cron(t *testing.T) {
	cron := &cdiv1beta1.DataImportCron{}
	must(t, f.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "fedora-cron-arm64"}, cron))
	_, annotated := cron.Annotations[v1alpha1.ArchitecturesAnnotation]
	if annotated || cron.Spec.ManagedDataSource != "fedora-arm64" || cron.Spec.Template.Spec.Source.Registry.Platform.Architecture != "arm64" ||
		cron.Labels[v1alpha1.ArchitectureLabel] != "arm64" || cron.Labels[v1alpha1.DataSourceNameLabel] != "fedora" || cron.Spec.Schedule != "0 */12 * * *" {
		t.Errorf("%+v %+v", cron.ObjectMeta, cron.Spec)
	}
}

func (f *fixture) labels(t *testing.T) {
	source := &cdiv1beta1.DataSource{}
	must(t, f.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "fedora-arm64"}, source))
	if source.Labels[v1alpha1.ArchitectureLabel] != "arm64" || source.Labels[v1alpha1.DataSourceNameLabel] != "fedora" {
		t.Errorf("labels: %v", source.Labels)
	}
}

func (f *fixture) pointer(t *testing.T) {
	source := &cdiv1beta1.DataSource{}
	must(t, f.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "fedora"}, source))
	want := cdiv1beta1.DataSourceSource{DataSource: &cdiv1beta1.DataSourceRefSourceDataSource{Namespace: namespace, Name: "fedora-amd64"}}
	if diff := cmp.Diff(want, source.Spec.Source); diff != "" {
		t.Errorf("the source (-want +got):\n%s", diff)
	}
	// CDI copies the labels of the claim. The architecture is never another than that of the target, and the label of the
	// cron goes at the next pass.
	if label := source.Labels[v1alpha1.ArchitectureLabel]; label != "" && label != "amd64" {
		t.Errorf("labels: %v", source.Labels)
	}
	f.eventually(t, "the label of the cron to go", func() bool {
		now := &cdiv1beta1.DataSource{}
		must(t, f.client.Get(t.Context(), client.ObjectKeyFromObject(source), now))
		return now.Labels["cdi.kubevirt.io/dataImportCron"] == ""
	})
}

// architectureOf creates a VM that clones an image, and returns the architecture that it is stored with.
func (f *fixture) architectureOf(t *testing.T, image string) string {
	t.Helper()
	vm := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: shop, GenerateName: "vm-"}}
	raw := fmt.Sprintf(`{"runStrategy":"Halted","dataVolumeTemplates":[{"metadata":{"name":"root"},"spec":{"storage":{},"sourceRef":{"kind":"DataSource","name":%q,"namespace":%q}}}],
		"template":{"spec":{"domain":{"devices":{"disks":[{"name":"root","disk":{}}]},"memory":{"guest":"1Gi"}},"volumes":[{"name":"root","dataVolume":{"name":"root"}}]}}}`, image, namespace)
	must(t, json.Unmarshal([]byte(raw), &vm.Spec))
	must(t, f.client.Create(t.Context(), vm, client.DryRunAll))
	return vm.Spec.Template.Spec.Architecture
}

func (f *fixture) chosen(t *testing.T) {
	for image, want := range map[string]string{"fedora": "amd64", "fedora-amd64": "amd64", "fedora-arm64": "arm64"} {
		if got := f.architectureOf(t, image); got != want {
			t.Errorf("a VM of %s is for %q", image, got)
		}
	}
}

func (f *fixture) placed(t *testing.T) {
	f.site(t, entry("edge", "arm64"))
	f.imageBecomes(t, "edge", "cron edge-cron-arm64", "source edge -> edge-arm64 ready", "source edge-arm64 ready")
	if got := f.architectureOf(t, "edge"); got != "arm64" {
		t.Errorf("a VM of edge is for %q", got)
	}
}

func (f *fixture) shipped(t *testing.T) {
	f.change(t, func(c *v1alpha1.GoldenImageCatalog) { c.Spec.CommonImages = true })
	f.imageBecomes(t, "base", "cron base-cron-amd64", "cron base-cron-arm64", "source base -> base-amd64 ready", "source base-amd64 ready", "source base-arm64 ready")
	f.eventually(t, "the name of the common image to be denied to another catalog", func() bool {
		other := &v1alpha1.GoldenImageCatalog{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
		other.Spec.DataImportCronTemplates = []v1alpha1.DataImportCronTemplate{entry("mine", "amd64")}
		other.Spec.DataImportCronTemplates[0].Spec.ManagedDataSource = "base"
		err := f.client.Create(t.Context(), other, client.DryRunAll)
		return apierrors.IsInvalid(err) && strings.Contains(err.Error(), `the catalog "site" uses the DataSource "base"`)
	})
}

func (f *fixture) cleaned(t *testing.T) {
	f.site(t, entry("spaces", " arm64 ,AMD64, arm64,s390x, riscv64"))
	f.imageBecomes(t, "spaces", "cron spaces-cron-amd64", "cron spaces-cron-arm64", "source spaces -> spaces-amd64 ready", "source spaces-amd64 ready", "source spaces-arm64 ready")
	f.imageIs(t, "spaces-cron", "UnsupportedArchitectures", metav1.ConditionTrue, "Supported")
}

func (f *fixture) unsupported(t *testing.T) {
	f.site(t, entry("mainframe", "s390x"))
	f.imageIs(t, "mainframe-cron", "Deployed", metav1.ConditionFalse, "UnsupportedArchitectures")
	if got := f.of(t, "mainframe"); len(got) > 0 {
		t.Errorf("created: %v", got)
	}
}

func (f *fixture) unchanged(t *testing.T) {
	catalog := &v1alpha1.GoldenImageCatalog{}
	must(t, f.client.Get(t.Context(), client.ObjectKey{Name: "site"}, catalog))
	want := []string{"amd64,arm64", "arm64", " arm64 ,AMD64, arm64,s390x, riscv64", "s390x"}
	var got []string
	for _, e := range catalog.Spec.DataImportCronTemplates {
		got = append(got, e.Annotations[v1alpha1.ArchitecturesAnnotation])
	}
	if diff := cmp.Diff(want, got); diff != "" || catalog.Generation != 5 {
		t.Errorf("generation %d (-want +got):\n%s", catalog.Generation, diff)
	}
}

func (f *fixture) legacy(t *testing.T) {
	f.site(t, entry("old", ""))
	f.imageBecomes(t, "old", "cron old-cron", "source old ready")
	cron, source := &cdiv1beta1.DataImportCron{}, &cdiv1beta1.DataSource{}
	must(t, f.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "old-cron"}, cron))
	must(t, f.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "old"}, source))
	if cron.Spec.Template.Spec.Source.Registry.Platform != nil || len(cron.Labels) > 0 || cron.Spec.ManagedDataSource != "old" || source.Labels[v1alpha1.ArchitectureLabel] != "" {
		t.Errorf("%+v %+v, labels of the DataSource %v", cron.ObjectMeta, cron.Spec, source.Labels)
	}
}

func (f *fixture) annotated(t *testing.T) {
	f.site(t, entry("old", "amd64,arm64"))
	f.imageBecomes(t, "old", "cron old-cron-amd64", "cron old-cron-arm64", "source old -> old-amd64 ready", "source old-amd64 ready", "source old-arm64 ready")
}

// becamePointer follows promise 18, and creates a DataSource of another author, which needs its consent.
func (f *fixture) becamePointer(t *testing.T) {
	theirs := &cdiv1beta1.DataSource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "theirs"}}
	must(t, f.client.Create(t.Context(), theirs))
	f.site(t, entry("theirs", "arm64"))
	f.imageIs(t, "theirs-cron", "Deployed", metav1.ConditionFalse, "NameTaken")
	f.consent(t, "theirs")
	f.imageBecomes(t, "theirs", "cron theirs-cron-arm64", "source theirs -> theirs-arm64 ready", "source theirs-arm64 ready")
	again := &cdiv1beta1.DataSource{}
	must(t, f.client.Get(t.Context(), client.ObjectKeyFromObject(theirs), again))
	if again.UID != theirs.UID {
		t.Error("it is another DataSource")
	}
}

// consent permits the catalog to manage a DataSource.
func (f *fixture) consent(t *testing.T, name string) {
	t.Helper()
	must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		source := &cdiv1beta1.DataSource{}
		if err := f.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, source); err != nil {
			return err
		}
		source.Annotations = map[string]string{v1alpha1.CatalogAnnotation: "site"}
		return f.client.Update(t.Context(), source)
	}))
}

func (f *fixture) manual(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "golden-disk"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources = entry("x", "").Spec.Template.Spec.Storage.Resources
	must(t, f.client.Create(t.Context(), claim))
	source := &cdiv1beta1.DataSource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "manual"}}
	source.Spec.Source.PVC = &cdiv1beta1.DataVolumeSourcePVC{Namespace: namespace, Name: claim.Name}
	must(t, f.client.Create(t.Context(), source))
	f.imageBecomes(t, "manual", "source manual ready")
	f.consent(t, "manual")
	f.site(t, entry("manual", "amd64,arm64"))
	f.imageBecomes(t, "manual", "cron manual-cron-arm64", "source manual -> manual-amd64 ready", "source manual-amd64 ready", "source manual-arm64 ready")
	made := &cdiv1beta1.DataSource{}
	must(t, f.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "manual-amd64"}, made))
	if made.Spec.Source.PVC == nil || made.Spec.Source.PVC.Name != claim.Name {
		t.Errorf("the source of the default architecture: %+v", made.Spec.Source)
	}
}

func (f *fixture) unschedulable(t *testing.T) {
	f.cdi.Fail("Unschedulable", "arm64")
	f.site(t, entry("stuck", "arm64"))
	f.imageIs(t, "stuck-cron", "MissingArchitecture", metav1.ConditionTrue, "Unschedulable")
}

func (f *fixture) lacking(t *testing.T) {
	f.cdi.Lack("arm64")
	f.site(t, entry("half", "amd64,arm64"))
	f.imageIs(t, "half-cron", "MissingArchitecture", metav1.ConditionTrue, "ImagePullFailed")
	f.imageBecomes(t, "half", "cron half-cron-amd64", "cron half-cron-arm64", "source half -> half-amd64 ready", "source half-amd64 ready", "source half-arm64")
}

// defaults: in promises 01 and 03, the default is the control plane's, or the only one. Here its import fails.
func (f *fixture) defaults(t *testing.T) {
	f.cdi.Lack("amd64")
	f.site(t, entry("moved", "amd64,arm64"))
	f.imageBecomes(t, "moved", "cron moved-cron-amd64", "cron moved-cron-arm64", "source moved -> moved-arm64 ready", "source moved-amd64", "source moved-arm64 ready")
	if got := f.architectureOf(t, "moved"); got != "arm64" {
		t.Errorf("a VM of moved is for %q", got)
	}
	f.cdi.Lack()
}

// placement: a second catalog selects nodes by a label.
func (f *fixture) placement(t *testing.T) {
	f.node(t, "v1", "s390x", "pool")
	f.nodesBecome(t, "amd64=2 arm64=1", "amd64=1", "ppc64le=1", "amd64")
	f.change(t, func(c *v1alpha1.GoldenImageCatalog) {
		c.Spec.Workloads = &v1alpha1.Placement{NodeSelector: map[string]string{"pool": ""}}
	})
	f.nodesBecome(t, "amd64=0 arm64=0 s390x=1", "amd64=1", "", "s390x")
	f.change(t, func(c *v1alpha1.GoldenImageCatalog) { c.Spec.Workloads = nil })
	f.nodesBecome(t, "amd64=2 arm64=1", "amd64=1", "ppc64le=1", "amd64")
}

func (f *fixture) controlPlane(t *testing.T) {
	f.node(t, "c2", "arm64", "node-role.kubernetes.io/master")
	f.nodesBecome(t, "amd64=2 arm64=1", "amd64=1 arm64=1", "ppc64le=1", "amd64")
	must(t, f.client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}))
	f.nodesBecome(t, "amd64=2 arm64=1", "amd64=1", "ppc64le=1", "amd64")
}

// follow: a node is added, only its nodeInfo changes, and it is removed.
func (f *fixture) follow(t *testing.T) {
	f.node(t, "w2", "", worker)
	f.nodesBecome(t, "amd64=2 arm64=1", "amd64=1", "ppc64le=1", "amd64")
	node := &corev1.Node{}
	must(t, f.client.Get(t.Context(), client.ObjectKey{Name: "w2"}, node))
	node.Status.NodeInfo.Architecture = "s390x"
	must(t, f.client.Status().Update(t.Context(), node))
	f.nodesBecome(t, "amd64=2 arm64=1 s390x=1", "amd64=1", "ppc64le=1", "amd64")
	f.imageBecomes(t, "mainframe", "cron mainframe-cron-s390x", "source mainframe -> mainframe-s390x ready", "source mainframe-s390x ready")
	must(t, f.client.Delete(t.Context(), node))
	f.nodesBecome(t, "amd64=2 arm64=1", "amd64=1", "ppc64le=1", "amd64")
	f.imageBecomes(t, "mainframe", "source mainframe -> mainframe-s390x ready", "source mainframe-s390x ready")
}

func (f *fixture) templates(t *testing.T) {
	must(t, f.client.Create(t.Context(), templateOf("server", "fedora")))
	f.variantsBecome(t, "server fedora -", "server-amd64 fedora-amd64 amd64", "server-arm64 fedora-arm64 arm64")
}

func (f *fixture) foundByLabels(t *testing.T) {
	made := &v1beta1.VirtualMachineTemplate{}
	must(t, f.client.Get(t.Context(), client.ObjectKey{Namespace: shop, Name: "server-arm64"}, made))
	found := &cdiv1beta1.DataSourceList{}
	must(t, f.client.List(t.Context(), found, client.InNamespace(namespace), client.MatchingLabels{
		v1alpha1.ArchitectureLabel: made.Labels[v1alpha1.ArchitectureLabel], v1alpha1.DataSourceNameLabel: made.Labels[v1alpha1.DataSourceNameLabel],
	}))
	var names []string
	must(t, meta.EachListItem(found, func(o runtime.Object) error {
		source := o.(*cdiv1beta1.DataSource)
		if source.Spec.Source.DataSource == nil {
			names = append(names, source.Name)
		}
		return nil
	}))
	if diff := cmp.Diff([]string{made.Spec.Parameters[1].Value}, names); diff != "" {
		t.Errorf("DataSources (-of the template +found):\n%s", diff)
	}
}

func (f *fixture) removed(t *testing.T) {
	f.change(t, func(c *v1alpha1.GoldenImageCatalog) {
		c.Spec.DataImportCronTemplates = slices.DeleteFunc(c.Spec.DataImportCronTemplates, func(e v1alpha1.DataImportCronTemplate) bool { return e.Name == "spaces-cron" })
	})
	f.imageBecomes(t, "spaces", "source spaces-amd64 ready", "source spaces-arm64 ready", "source spaces-s390x ready")
}

func (f *fixture) ready(t *testing.T) {
	if was := f.interrupted.Load(); was != nil {
		t.Errorf("the DataSource fedora was not ready: %s", *was)
	}
	if got := f.of(t, "fedora"); !slices.Contains(got, "source fedora -> fedora-amd64 ready") {
		t.Errorf("in the end: %v", got)
	}
}
