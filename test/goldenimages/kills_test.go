package goldenimages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/goldenimages"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/kills"
	"github.com/virtward/virtward/test/simulators"
	"github.com/virtward/virtward/test/soak"
)

// reconciler is a new controller of golden images, with a connection of its own.
func (f *fixture) reconciler(t *testing.T, c *kills.Connection) *goldenimages.Reconciler {
	t.Helper()
	direct, config := c.Connect(t, f.Config(), f.client.Scheme())
	reader, err := pages.NewReader(config)
	must(t, err)
	return goldenimages.New(goldenimages.Options{
		Client: direct, Nodes: direct, Pages: reader, Clock: clock.RealClock{}, Manifests: goldenimages.NewManifests(t.Context(), direct, &sources.Sources{}, time.Hour, clock.RealClock{}), Tell: func(*v1alpha1.GoldenImageCatalog, events.Event) {},
	})
}

// drive reconciles until the objects are those of a state and stay so for a number of passes, or the connection has ended.
func (f *fixture) drive(t *testing.T, r *goldenimages.Reconciler, c *kills.Connection, want []string) {
	t.Helper()
	var got []string
	calm := 0
	for deadline := time.Now().Add(await.Patience); time.Now().Before(deadline) && !c.Dead(); time.Sleep(40 * time.Millisecond) {
		before := len(c.Writes())
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "site"}}); err != nil && !errors.Is(err, kills.Err) {
			t.Fatal(err)
		}
		var err error
		got, err = f.state(t.Context())
		must(t, err)
		if calm++; !slices.Equal(got, want) || len(c.Writes()) > before {
			calm = 0
		}
		if calm == 3 {
			return
		}
	}
	if !c.Dead() {
		catalog, sources, crons := &v1alpha1.GoldenImageCatalog{}, &cdiv1beta1.DataSourceList{}, &cdiv1beta1.DataImportCronList{}
		must(t, f.client.Get(t.Context(), client.ObjectKey{Name: "site"}, catalog))
		must(t, f.client.List(t.Context(), sources, client.InNamespace(namespace)))
		must(t, f.client.List(t.Context(), crons, client.InNamespace(namespace)))
		for i := range sources.Items {
			t.Logf("%s: %+v %+v", sources.Items[i].Name, sources.Items[i].Labels, sources.Items[i].Status)
		}
		for i := range crons.Items {
			t.Logf("%s: %+v", crons.Items[i].Name, crons.Items[i].Status)
		}
		t.Fatalf("-want +got:\n%s\nretired: %v", cmp.Diff(want, got), catalog.Status.Retired)
	}
}

// copiedLabels are the labels of the DataSources that CDI copies, and the clean-up label, which no object of a catalog has.
func (f *fixture) copiedLabels(ctx context.Context) (string, error) {
	sources := &cdiv1beta1.DataSourceList{}
	if err := f.client.List(ctx, sources, client.InNamespace(namespace)); err != nil {
		return "", err
	}
	var lines []string
	for i := range sources.Items {
		s := &sources.Items[i]
		if s.Spec.Source.DataSource != nil { // CDI copies this label to a pointer, and the next plan removes it
			delete(s.Labels, "cdi.kubevirt.io/dataImportCron")
		}
		lines = append(lines, fmt.Sprintf("%s: architecture %q, image %q, cron %q, clean-up %q", s.Name, s.Labels[v1alpha1.ArchitectureLabel], s.Labels[v1alpha1.DataSourceNameLabel],
			s.Labels["cdi.kubevirt.io/dataImportCron"], s.Labels["cdi.kubevirt.io/dataImportCron.cleanup"]))
	}
	return strings.Join(lines, "\n"), nil
}

// TestKilledBetweenWrites changes an image there and back, again and again. Each time the controller is killed at another
// write, before it or after it with its answer lost, and another controller goes on. The end is the same, nothing is left
// over, and the DataSource without a suffix is ready all the time.
//
// Each part leaves out six of seven writes, which TestSoakKilledBetweenWrites has.
func TestKilledBetweenWrites(t *testing.T) {
	t.Parallel()
	killedBetweenWrites(t, 7)
}

// TestSoakKilledBetweenWrites kills the controller at every write.
func TestSoakKilledBetweenWrites(t *testing.T) {
	soak.Only(t)
	killedBetweenWrites(t, 1)
}

// killedBetweenWrites kills the controller at one of so many writes.
func killedBetweenWrites(t *testing.T, every int) {
	plane := pool.Take(t)
	must(t, plane.InstallVirtwardCRDs(t.Context()))
	f := &fixture{ControlPlane: plane, client: plane.Client()}
	must(t, plane.EnsureNamespace(t.Context(), namespace))
	f.cdi = simulators.StartImporter(t.Context(), f.client, namespace)
	t.Cleanup(func() { must(t, f.cdi.Stop()) })
	f.node(t, "c1", "amd64", "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/worker")
	f.node(t, "c2", "amd64", "node-role.kubernetes.io/worker")
	f.node(t, "w1", "arm64", "node-role.kubernetes.io/worker")
	f.watchReady(t)

	// With the retention policy None, each end has exactly the objects that are needed.
	e, none := entry("fedora", "amd64,arm64"), cdiv1beta1.DataImportCronRetainNone
	e.Spec.RetentionPolicy = &none
	catalog := &v1alpha1.GoldenImageCatalog{ObjectMeta: metav1.ObjectMeta{Name: "site"}}
	catalog.Spec.RemovalDelay = &metav1.Duration{}
	catalog.Spec.DataImportCronTemplates = []v1alpha1.DataImportCronTemplate{e}
	must(t, f.client.Create(t.Context(), catalog))

	both := []string{"cron fedora-cron-amd64", "cron fedora-cron-arm64", "source fedora -> fedora-amd64 ready", "source fedora-amd64 ready", "source fedora-arm64 ready"}
	once := []string{"cron fedora-cron", "source fedora ready"}
	one := []string{both[0], both[2], both[3]}
	arm := []string{both[1], "source fedora -> fedora-arm64 ready", both[4]}
	annotation := func(value string) func() {
		return func() {
			f.change(t, func(c *v1alpha1.GoldenImageCatalog) {
				annotations := map[string]string{v1alpha1.ArchitecturesAnnotation: value}
				if value == "" {
					annotations = nil
				}
				c.Spec.DataImportCronTemplates[0].Annotations = annotations
			})
		}
	}
	multi := func(on bool) func() {
		return func() { f.change(t, func(c *v1alpha1.GoldenImageCatalog) { c.Spec.MultiArch = &on }) }
	}
	url := func(image string) func() {
		return func() {
			f.change(t, func(c *v1alpha1.GoldenImageCatalog) {
				c.Spec.DataImportCronTemplates[0].Spec.Template.Spec.Source.Registry.URL = &image
			})
		}
	}
	leave := func() {
		must(t, f.client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}))
	}
	join := func() { f.node(t, "w1", "arm64", "node-role.kubernetes.io/worker") }

	for part, c := range []struct {
		name        string
		there, back func()
		// want and end are the objects after the one and the other.
		want, end []string
	}{
		{"off and on", multi(false), multi(true), once, both},
		{"without the annotation and with it", annotation(""), annotation("amd64,arm64"), once, both},
		{"another default architecture", annotation("arm64"), annotation("amd64"), arm, one},
		{"another URL", url("docker://registry.example/other"), url("docker://registry.example/fedora"), both, both},
		{"an architecture leaves and joins", leave, join, one, both},
	} {
		t.Run(c.name, func(t *testing.T) {
			annotation("amd64,arm64")()
			f.drive(t, f.reconciler(t, &kills.Connection{Left: -1}), &kills.Connection{Left: -1}, both)
			begin, total := time.Now(), 0
			labels := map[string]string{}
			// way makes a change and kills the controller at a write. It returns the number of accepted writes until the end.
			way := func(name string, change func(), want []string, at int, lost bool) int {
				change()
				killed := &kills.Connection{Left: at, Lost: lost}
				f.drive(t, f.reconciler(t, killed), killed, want)
				rest := &kills.Connection{Left: -1}
				f.drive(t, f.reconciler(t, rest), rest, want)
				got, err := f.copiedLabels(t.Context())
				must(t, err)
				if was, known := labels[name]; known && was != got {
					t.Errorf("%s, killed at write %d, lost %t: labels (-before +after):\n%s", name, at, lost, cmp.Diff(was, got))
				}
				labels[name] = got
				if strings.Contains(got, `clean-up "true"`) {
					t.Errorf("a label for CDI's clean-up:\n%s", got)
				}
				if was := f.interrupted.Load(); was != nil {
					t.Fatalf("%s, killed at write %d, lost %t: the DataSource fedora was not ready: %s", name, at, lost, *was)
				}
				total++
				return len(killed.Accepted())
			}
			writes := max(way("there", c.there, c.want, -1, false), way("back", c.back, c.end, -1, false))
			if writes < 3 {
				t.Fatalf("%d writes", writes)
			}
			shift := map[bool]int{true: 1}
			for at := range writes {
				for _, lost := range []bool{false, true} {
					if lost && at == 0 || (part+2*at+shift[lost])%every != 0 {
						continue
					}
					way("there", c.there, c.want, at, lost)
					way("back", c.back, c.end, at, lost)
				}
			}
			f.noVolumes(t)
			t.Logf("%d changes with up to %d writes in %s", total, writes, time.Since(begin).Round(time.Second))
		})
	}
}

// noVolumes waits until each claim belongs to a cron that exists.
func (f *fixture) noVolumes(t *testing.T) {
	t.Helper()
	f.eventually(t, "the end of the claims of crons that are gone", func() bool {
		claims, crons := &corev1.PersistentVolumeClaimList{}, &cdiv1beta1.DataImportCronList{}
		must(t, f.client.List(t.Context(), claims, client.InNamespace(namespace)))
		must(t, f.client.List(t.Context(), crons, client.InNamespace(namespace)))
		return !slices.ContainsFunc(claims.Items, func(claim corev1.PersistentVolumeClaim) bool {
			return !slices.ContainsFunc(crons.Items, func(c cdiv1beta1.DataImportCron) bool {
				return c.Name == claim.Labels["cdi.kubevirt.io/dataImportCron"]
			})
		})
	})
}
