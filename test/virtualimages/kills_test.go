package virtualimages

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/pages"
	controller "github.com/virtward/virtward/controllers/virtualimages"
	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/controllers/virtualimages/cdi"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/transfers"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/kills"
	"github.com/virtward/virtward/test/soak"
	"github.com/virtward/virtward/virtualimages"
)

// reconciler is a new controller with the backend of the cluster, with a connection of its own.
func (f *fixture) reconciler(t *testing.T, c *kills.Connection) *controller.Reconciler {
	t.Helper()
	direct, config := c.Connect(t, f.Config(), f.Client().Scheme())
	reader, err := pages.NewReader(config)
	must(t, err)
	settings := virtualimages.Defaults()
	settings.Admission, settings.FirstRetry = time.Millisecond, time.Millisecond
	options := controller.Options{
		Client: direct, Pages: reader, Cluster: "cluster", Classes: map[string]backend.Backend{}, Default: "cluster",
		Limits: controller.Limits{Bytes: 1 << 40, Imports: 4}, Settings: settings, Clock: clock.RealClock{},
		Tell: func(*v1alpha1.VirtualImage, events.Event) {},
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r := controller.New(options)
	permitted := &sources.Sources{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	options.Classes["cluster"] = cdi.New(cdi.Options{
		Client: direct, Source: controller.SourceOf(direct, permitted), Checksums: controller.ChecksumsOf(direct),
		Probes: transfers.New[cdi.Probe](ctx, transfers.Limits{Running: 2, Namespace: 2}), Timeout: time.Hour, Clock: clock.RealClock{}, Changed: func(string, string) {},
		Imports: func(ctx context.Context, image *backend.Image, bytes int64) (bool, string, string, error) {
			return r.Begin(ctx, image.Namespace, image.Name, bytes)
		},
	})
	must(t, r.Load(t.Context()))
	return r
}

// drive reconciles an image until it is in a state, or the connection has ended.
func (f *fixture) drive(t *testing.T, r *controller.Reconciler, c *kills.Connection, name string, done func(*v1alpha1.VirtualImage) bool) {
	t.Helper()
	var image *v1alpha1.VirtualImage
	for deadline := time.Now().Add(await.Patience); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}); err != nil && !errors.Is(err, kills.Err) {
			t.Fatal(err)
		}
		image = &v1alpha1.VirtualImage{}
		err := f.Client().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, image)
		if apierrors.IsNotFound(err) {
			image, err = nil, nil
		}
		must(t, err)
		f.atMostOne(t, name)
		if c.Dead() || done(image) {
			return
		}
	}
	t.Fatalf("%+v", image)
}

// atMostOne fails if an image has two volumes.
func (f *fixture) atMostOne(t *testing.T, name string) {
	t.Helper()
	if volumes, sources := f.objectsOf(t, name); len(volumes) > 1 || len(sources) > 1 {
		t.Fatalf("%d DataVolumes and %d DataSources of one image", len(volumes), len(sources))
	}
}

func (f *fixture) objectsOf(t *testing.T, name string) (volumes, sources []client.Object) {
	t.Helper()
	dvs, dss := &cdiv1beta1.DataVolumeList{}, &cdiv1beta1.DataSourceList{}
	must(t, f.Client().List(t.Context(), dvs, client.InNamespace(namespace), client.HasLabels{v1alpha1.LabelImage}))
	must(t, f.Client().List(t.Context(), dss, client.InNamespace(namespace), client.HasLabels{v1alpha1.LabelImage}))
	for i := range dvs.Items {
		if strings.HasPrefix(dvs.Items[i].Name, name+"-") {
			volumes = append(volumes, &dvs.Items[i])
		}
	}
	for i := range dss.Items {
		if dss.Items[i].Name == name {
			sources = append(sources, &dss.Items[i])
		}
	}
	return volumes, sources
}

// TestKilledBetweenWrites kills the controller at one of three writes; TestSoakKilledBetweenWrites at each.
func TestKilledBetweenWrites(t *testing.T) { killedBetweenWrites(t, 3) }

// TestSoakKilledBetweenWrites kills the controller at every write.
func TestSoakKilledBetweenWrites(t *testing.T) {
	soak.Only(t)
	killedBetweenWrites(t, 1)
}

// killedBetweenWrites imports an image and deletes it, again and again. Each time the controller is killed at another write,
// before it or after it with its answer lost, and another one goes on. The end is the same, with one volume, and nothing is
// left over.
func killedBetweenWrites(t *testing.T, every int) {
	t.Parallel()
	f := bare(t)
	url := f.web.serve("disk.qcow2", qcow2(1<<30))
	proxy, err := f.cdi.ServeUploads(t.Context())
	must(t, err)
	gibibyte := &v1alpha1.VirtualImageStorage{Resources: &v1alpha1.VirtualImageResources{Requests: v1alpha1.VirtualImageRequests{Storage: *quantity("1Gi")}}}

	ready := func(image *v1alpha1.VirtualImage) bool {
		if image != nil && image.Spec.Upload != nil { // it is uploaded once CDI waits for it
			proxy.Receive(namespace+"/"+virtualimages.VolumeName(image.Name, image.UID), 1<<16)
		}
		return image != nil && image.Status.Ready
	}
	gone := func(image *v1alpha1.VirtualImage) bool { return image == nil }
	var want v1alpha1.VirtualImageStatus
	// phase drives to an end, with a controller that is killed at a write, and another one. It returns the number of accepted
	// writes of the first one.
	phase := func(name string, at int, lost bool, done func(*v1alpha1.VirtualImage) bool) int {
		killed, rest := &kills.Connection{Left: at, Lost: lost}, &kills.Connection{Left: -1}
		f.drive(t, f.reconciler(t, killed), killed, name, done)
		if at >= 0 {
			f.drive(t, f.reconciler(t, rest), rest, name, done)
		}
		return len(killed.Accepted())
	}
	lives := 0
	life := func(importAt, deleteAt int, lost bool) (imports, deletes int) {
		name := fmt.Sprintf("life-%d", lives)
		lives++
		image := &v1alpha1.VirtualImage{Spec: v1alpha1.VirtualImageSpec{Src: url, Format: v1alpha1.FormatQCOW2}}
		if lives%2 == 0 { // every other one is uploaded
			image.Spec = v1alpha1.VirtualImageSpec{Upload: &v1alpha1.VirtualImageUpload{}, Format: v1alpha1.FormatQCOW2, Storage: gibibyte}
		}
		image.Namespace, image.Name = namespace, name
		must(t, f.Client().Create(t.Context(), image))
		imports = phase(name, importAt, lost, ready)
		must(t, f.Client().Get(t.Context(), client.ObjectKeyFromObject(image), image))
		got := image.Status
		if got.ID != virtualimages.ID("cluster", image.UID, 1) || len(image.Finalizers) != 1 {
			t.Errorf("identifier %s, finalizers %v", got.ID, image.Finalizers)
		}
		got.ID = ""
		for i := range got.Conditions {
			got.Conditions[i].LastTransitionTime.Reset()
		}
		if lives == 1 {
			want = got
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("killed at %d, lost %t: -want +got:\n%s", importAt, lost, diff)
		}
		if volumes, sources := f.objectsOf(t, name); len(volumes) != 1 || len(sources) != 1 {
			t.Errorf("%d DataVolumes and %d DataSources", len(volumes), len(sources))
		}
		must(t, f.Client().Delete(t.Context(), image))
		deletes = phase(name, deleteAt, lost, gone)
		if volumes, sources := f.objectsOf(t, name); len(volumes) != 0 || len(sources) != 0 {
			t.Errorf("killed at %d, lost %t: %d DataVolumes and %d DataSources are left", deleteAt, lost, len(volumes), len(sources))
		}
		return imports, deletes
	}
	began := time.Now()
	imports, deletes := life(-1, -1, false)
	if imports < 5 || deletes < 5 {
		t.Fatalf("%d and %d writes", imports, deletes)
	}
	turn := 0
	for at := range max(imports, deletes) {
		for _, lost := range []bool{false, true} {
			if turn++; turn%every != 0 || lost && at == 0 {
				continue
			}
			life(min(at, imports-1), min(at, deletes-1), lost)
		}
	}
	t.Logf("%d lives with %d and %d writes in %s", lives, imports, deletes, time.Since(began).Round(time.Second))
}
