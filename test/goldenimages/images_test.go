// Package images has the end-to-end tests of golden images: on a real API server, with simulated controllers of CDI. Nodes are
// objects without a kubelet.
package goldenimages

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/simulators"
)

const namespace = v1alpha1.DefaultNamespace

// fixture is a cluster with a catalog.
type fixture struct {
	*controlplane.ControlPlane

	client  client.WithWatch
	cdi     *simulators.Importer
	process *controlplane.Virtward
	// interrupted is set if the DataSource fedora stops to be ready.
	interrupted atomic.Pointer[string]
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T) *fixture {
	t.Helper()
	return startWith(t, map[string]any{"goldenImages": map[string]any{"enabled": true}})
}

// node creates a node of an architecture.
func (f *fixture) node(t *testing.T, name, architecture string, labels ...string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, label := range labels {
		node.Labels[label] = ""
	}
	must(t, f.client.Create(t.Context(), node))
	node.Status.NodeInfo.Architecture, node.Status.NodeInfo.OperatingSystem = architecture, "linux"
	must(t, f.client.Status().Update(t.Context(), node))
}

func entry(name, architectures string) v1alpha1.DataImportCronTemplate {
	url := "docker://registry.example/" + name
	e := v1alpha1.DataImportCronTemplate{ObjectMeta: metav1.ObjectMeta{Name: name + "-cron"}, Spec: &cdiv1beta1.DataImportCronSpec{ManagedDataSource: name, Schedule: "0 */12 * * *"}}
	if architectures != "" {
		e.Annotations = map[string]string{v1alpha1.ArchitecturesAnnotation: architectures}
	}
	e.Spec.Template.Spec.Source = &cdiv1beta1.DataVolumeSource{Registry: &cdiv1beta1.DataVolumeSourceRegistry{URL: &url}}
	e.Spec.Template.Spec.Storage = &cdiv1beta1.StorageSpec{Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}}}
	return e
}

// state has a line for each cron and DataSource.
func (f *fixture) state(ctx context.Context) ([]string, error) {
	crons, sources := &cdiv1beta1.DataImportCronList{}, &cdiv1beta1.DataSourceList{}
	for _, list := range []client.ObjectList{crons, sources} {
		if err := f.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
	}
	var lines []string
	for i := range crons.Items {
		lines = append(lines, "cron "+crons.Items[i].Name)
	}
	for i := range sources.Items {
		line := "source " + sources.Items[i].Name
		if to := sources.Items[i].Spec.Source.DataSource; to != nil {
			line += " -> " + to.Name
		}
		if isReady(&sources.Items[i]) {
			line += " ready"
		}
		lines = append(lines, line)
	}
	return lines, nil
}

func isReady(source *cdiv1beta1.DataSource) bool {
	return slices.ContainsFunc(source.Status.Conditions, func(c cdiv1beta1.DataSourceCondition) bool { return c.Status == corev1.ConditionTrue })
}

// becomes waits for a state.
func (f *fixture) becomes(t *testing.T, want ...string) {
	t.Helper()
	var diff string
	for deadline := time.Now().Add(await.Patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		got, err := f.state(t.Context())
		must(t, err)
		if diff = cmp.Diff(want, got); diff == "" {
			return
		}
	}
	catalog := &v1alpha1.GoldenImageCatalog{}
	_ = f.client.Get(t.Context(), client.ObjectKey{Name: "site"}, catalog)
	logged, _ := os.ReadFile(f.process.Log())
	t.Fatalf("-want +got:\n%s\nstatus: %+v\n%s", diff, catalog.Status, logged)
}

// change changes the catalog.
func (f *fixture) change(t *testing.T, how func(*v1alpha1.GoldenImageCatalog)) {
	t.Helper()
	must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		catalog := &v1alpha1.GoldenImageCatalog{}
		if err := f.client.Get(t.Context(), client.ObjectKey{Name: "site"}, catalog); err != nil {
			return err
		}
		how(catalog)
		return f.client.Update(t.Context(), catalog)
	}))
}

// watchReady notes when the DataSource fedora stops to be ready.
func (f *fixture) watchReady(t *testing.T) {
	t.Helper()
	watching, err := client.NewWithWatch(f.Config(), client.Options{Scheme: f.client.Scheme()})
	must(t, err)
	changes, err := watching.Watch(t.Context(), &cdiv1beta1.DataSourceList{}, client.InNamespace(namespace))
	must(t, err)
	go func() {
		was := false
		for change := range changes.ResultChan() {
			source, isSource := change.Object.(*cdiv1beta1.DataSource)
			if !isSource || source.Name != "fedora" {
				continue
			}
			if was && !isReady(source) {
				text := fmt.Sprintf("%s: %+v %+v", change.Type, source.Spec.Source, source.Status)
				f.interrupted.Store(&text)
			}
			was = isReady(source)
		}
	}()
	t.Cleanup(changes.Stop)
}

// TestGoldenImages follows an image through the changes of a cluster. Its DataSource stays ready.
func TestGoldenImages(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.node(t, "c1", "amd64", "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/worker")
	f.node(t, "w1", "arm64", "node-role.kubernetes.io/worker")
	f.watchReady(t)

	catalog := &v1alpha1.GoldenImageCatalog{ObjectMeta: metav1.ObjectMeta{Name: "site"}}
	catalog.Spec.RemovalDelay = &metav1.Duration{Duration: 3 * time.Second}
	catalog.Spec.DataImportCronTemplates = []v1alpha1.DataImportCronTemplate{entry("fedora", "amd64, arm64,s390x")}
	must(t, f.client.Create(t.Context(), catalog))
	both := []string{"cron fedora-cron-amd64", "cron fedora-cron-arm64", "source fedora -> fedora-amd64 ready", "source fedora-amd64 ready", "source fedora-arm64 ready"}
	f.becomes(t, both...)

	t.Log("an s390x node joins")
	f.node(t, "z1", "s390x", "node-role.kubernetes.io/worker")
	f.becomes(t, "cron fedora-cron-amd64", "cron fedora-cron-arm64", "cron fedora-cron-s390x", "source fedora -> fedora-amd64 ready", "source fedora-amd64 ready", "source fedora-arm64 ready", "source fedora-s390x ready")

	t.Log("the amd64 node leaves: the pointer follows after the delay")
	must(t, f.client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}))
	f.becomes(t, "cron fedora-cron-arm64", "cron fedora-cron-s390x", "source fedora -> fedora-arm64 ready", "source fedora-amd64 ready", "source fedora-arm64 ready", "source fedora-s390x ready")

	t.Log("off, while the process is killed")
	f.process.Kill()
	f.change(t, func(c *v1alpha1.GoldenImageCatalog) { off := false; c.Spec.MultiArch = &off })
	must(t, f.process.Start(t.Context()))
	f.becomes(t, "cron fedora-cron", "source fedora ready", "source fedora-amd64 ready", "source fedora-arm64 ready", "source fedora-s390x ready")

	t.Log("on again, with another image")
	f.change(t, func(c *v1alpha1.GoldenImageCatalog) {
		on, url := true, "docker://registry.example/other"
		c.Spec.MultiArch = &on
		c.Spec.DataImportCronTemplates[0].Spec.Template.Spec.Source.Registry.URL = &url
	})
	f.becomes(t, "cron fedora-cron-arm64", "cron fedora-cron-s390x", "source fedora -> fedora-arm64 ready", "source fedora-amd64 ready", "source fedora-arm64 ready", "source fedora-s390x ready")
	if was := f.interrupted.Load(); was != nil {
		t.Errorf("the DataSource fedora was not ready: %s", *was)
	}

	t.Log("an image without an architecture")
	f.cdi.Lack("arm64")
	f.change(t, func(c *v1alpha1.GoldenImageCatalog) {
		c.Spec.DataImportCronTemplates = append(c.Spec.DataImportCronTemplates, entry("debian", "arm64,s390x"))
	})
	f.condition(t, func(image *v1alpha1.Image) string {
		c := meta.FindStatusCondition(image.Conditions, "MissingArchitecture")
		if image.Name != "debian-cron" || c == nil || c.Status != metav1.ConditionTrue || c.Reason != "ImagePullFailed" || image.DefaultArchitecture != "s390x" {
			return fmt.Sprintf("%+v", image)
		}
		return ""
	})

	t.Log("a DataSource of another owner")
	theirs := &cdiv1beta1.DataSource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ubuntu"}}
	must(t, f.client.Create(t.Context(), theirs))
	f.change(t, func(c *v1alpha1.GoldenImageCatalog) {
		c.Spec.DataImportCronTemplates = append(c.Spec.DataImportCronTemplates, entry("ubuntu", "arm64"))
	})
	f.condition(t, func(image *v1alpha1.Image) string {
		c := meta.FindStatusCondition(image.Conditions, "Deployed")
		if image.Name != "ubuntu-cron" || c == nil || c.Reason != "NameTaken" {
			return fmt.Sprintf("%+v", image)
		}
		return ""
	})
	cron := &cdiv1beta1.DataImportCron{}
	if err := f.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "ubuntu-cron-arm64"}, cron); !apierrors.IsNotFound(err) {
		t.Errorf("a cron was created beside a DataSource of another owner: %v", err)
	}

	t.Log("nothing is written when nothing changes")
	before, diff := f.versions(t), "never"
	for deadline := time.Now().Add(await.Patience); diff != "" && time.Now().Before(deadline); {
		time.Sleep(5 * time.Second)
		after := f.versions(t)
		diff, before = cmp.Diff(before, after), after
	}
	if diff != "" {
		t.Errorf("written without a change:\n%s", diff)
	}
}

// condition waits until an image of the status is as it should be.
func (f *fixture) condition(t *testing.T, differs func(*v1alpha1.Image) string) {
	t.Helper()
	var texts []string
	for deadline := time.Now().Add(await.Patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		catalog := &v1alpha1.GoldenImageCatalog{}
		must(t, f.client.Get(t.Context(), client.ObjectKey{Name: "site"}, catalog))
		texts = nil
		for i := range catalog.Status.Images {
			text := differs(&catalog.Status.Images[i])
			if text == "" {
				return
			}
			texts = append(texts, text)
		}
	}
	t.Fatalf("images: %s", strings.Join(texts, "\n"))
}

// versions are those of the crons, the DataSources and the catalog.
func (f *fixture) versions(t *testing.T) map[string]string {
	t.Helper()
	versions := map[string]string{}
	crons, sources, catalogs := &cdiv1beta1.DataImportCronList{}, &cdiv1beta1.DataSourceList{}, &v1alpha1.GoldenImageCatalogList{}
	for _, list := range []client.ObjectList{crons, sources, catalogs} {
		must(t, f.client.List(t.Context(), list))
		must(t, meta.EachListItem(list, func(o runtime.Object) error {
			accessor, err := meta.Accessor(o)
			if err != nil {
				return err
			}
			versions[fmt.Sprintf("%T %s", o, accessor.GetName())] = accessor.GetResourceVersion()
			return nil
		}))
	}
	return versions
}
