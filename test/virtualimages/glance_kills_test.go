package virtualimages

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/pages"
	controller "github.com/virtward/virtward/controllers/virtualimages"
	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/controllers/virtualimages/cdi"
	"github.com/virtward/virtward/controllers/virtualimages/copies"
	"github.com/virtward/virtward/controllers/virtualimages/glance"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/transfers"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/glances"
	"github.com/virtward/virtward/test/kills"
	"github.com/virtward/virtward/test/soak"
	"github.com/virtward/virtward/virtualimages"
)

// stored are the lives of images in a fake of Glance, with copies in the cluster.
type stored struct {
	*fixture

	glance *glances.Fake
	url    string
	want   string
	lives  int
}

// process is a new controller, whose connections to the API server and to Glance end together.
func (f *stored) process(t *testing.T, c *kills.Connection) (*controller.Reconciler, func()) {
	t.Helper()
	direct, config := c.Connect(t, f.Config(), f.Client().Scheme())
	reader, err := pages.NewReader(config)
	must(t, err)
	settings := virtualimages.Defaults()
	settings.Admission, settings.FirstRetry = time.Millisecond, time.Millisecond
	ctx, end := context.WithCancel(context.Background())
	provider := &gophercloud.ProviderClient{HTTPClient: http.Client{Transport: c.Also(http.DefaultTransport)}}
	store := glance.New(glance.Options{
		Client:  glance.NewClient(&gophercloud.ServiceClient{ProviderClient: provider, Endpoint: f.glance.URL + "/", ResourceBase: f.glance.URL + "/v2/"}),
		Streams: transfers.New[struct{}](ctx, transfers.Limits{Running: 2, Namespace: 2}),
		Source:  controller.SourceOf(direct, &sources.Sources{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}),
	})
	classes := map[string]backend.Backend{}
	r := controller.New(controller.Options{
		Client: direct, Pages: reader, Cluster: "cluster", Classes: classes, Default: "openstack", Limits: controller.Limits{Images: 10, Bytes: 1 << 40, Imports: 4},
		Settings: settings, Clock: clock.RealClock{}, Tell: func(*v1alpha1.VirtualImage, events.Event) {},
	})
	volumes := cdi.New(cdi.Options{
		Client: direct, File: func(ctx context.Context, image *backend.Image) (*web.File, error) {
			return store.File(ctx, image, false)
		},
		Probes: transfers.New[cdi.Probe](ctx, transfers.Limits{Running: 2, Namespace: 2}), Timeout: time.Hour, Clock: clock.RealClock{}, Changed: func(string, string) {},
		Imports: func(context.Context, *backend.Image, int64) (bool, string, string, error) { return true, "", "", nil },
	})
	classes["openstack"] = copies.New(copies.Options{
		Store: store, Volumes: volumes, Always: true, Client: direct, URL: "https://copies", Lifetime: time.Hour, Owner: "test", Clock: clock.RealClock{},
		Keys: &copies.Keys{Read: func() ([]byte, error) { return []byte("key"), nil }, Now: time.Now}, Authorities: func() ([]byte, error) { return []byte("certificates"), nil },
	})
	must(t, r.Load(t.Context()))
	return r, end
}

// phase reconciles an image until it is in a state, first with a controller that is killed at a write, then with another one. It
// returns the number of accepted writes of the first one.
func (f *stored) phase(t *testing.T, image *v1alpha1.VirtualImage, at int, lost bool, done func(*v1alpha1.VirtualImage) bool) int {
	t.Helper()
	key := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: image.Name}}
	writes := -1
	for _, c := range []*kills.Connection{{Left: at, Lost: lost}, {Left: -1}} {
		r, end := f.process(t, c)
		complete := false
		for deadline := time.Now().Add(await.Patience); !complete && !c.Dead(); <-time.After(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("killed at %d, lost %t: %+v", at, lost, image.Status)
			}
			_, _ = r.Reconcile(t.Context(), key) // an error is repeated, as the queue does
			if n := f.glance.Count(); n > 1 {
				t.Fatalf("killed at %d, lost %t: %d images in Glance", at, lost, n)
			}
			found := &v1alpha1.VirtualImage{}
			err := f.Client().Get(t.Context(), client.ObjectKeyFromObject(image), found)
			must(t, client.IgnoreNotFound(err))
			if complete = err != nil && done(nil) || err == nil && done(found); err == nil {
				*image = *found
			}
		}
		end()
		if writes < 0 {
			writes = len(c.Accepted())
		}
	}
	return writes
}

// life imports an image and deletes it.
func (f *stored) life(t *testing.T, at int, lost bool) (imports, deletes int) {
	t.Helper()
	f.lives++
	image := &v1alpha1.VirtualImage{Spec: v1alpha1.VirtualImageSpec{Src: f.url, Format: v1alpha1.FormatQCOW2}}
	image.Namespace, image.Name = namespace, fmt.Sprintf("life-%d", f.lives)
	must(t, f.Client().Create(t.Context(), image))
	imports = f.phase(t, image, at, lost, func(i *v1alpha1.VirtualImage) bool { return i != nil && i.Status.Ready })
	s := image.Status
	end := fmt.Sprint(s.Ready, s.SizeBytes, s.Checksum, s.Size, s.Progress, s.ImageClassName, s.ID == virtualimages.ID("cluster", image.UID, s.Attempt), image.Finalizers)
	for _, c := range s.Conditions {
		end += fmt.Sprint(" ", c.Type, c.Status, c.Reason)
	}
	if f.want == "" {
		f.want = end
	}
	if end != f.want || f.glance.Count() != 1 {
		t.Errorf("killed at %d, lost %t: %d images in Glance\n%s, want\n%s", at, lost, f.glance.Count(), end, f.want)
	}
	must(t, f.Client().Delete(t.Context(), image))
	deletes = f.phase(t, image, at, lost, func(i *v1alpha1.VirtualImage) bool { return i == nil })
	if n := f.glance.Count(); n != 0 {
		t.Errorf("killed at %d, lost %t: %d images are left in Glance", at, lost, n)
	}
	f.gone(t, image)
	return imports, deletes
}

// TestKilledAtGlance kills the controller at a few of its writes and calls of Glance.
func TestKilledAtGlance(t *testing.T) { killedAtGlance(t, 5) }

// TestSoakKilledAtGlance kills the controller before and after each of its writes and calls of Glance.
func TestSoakKilledAtGlance(t *testing.T) {
	soak.Only(t)
	killedAtGlance(t, 1)
}

func killedAtGlance(t *testing.T, every int) {
	t.Parallel()
	f := &stored{fixture: bare(t), glance: glances.NewFake(t)}
	f.url = f.web.serve("disk.qcow2", qcow2(1<<30))
	began := time.Now()
	imports, deletes := f.life(t, -1, false)
	if imports < 12 || deletes < 6 {
		t.Fatalf("%d and %d writes", imports, deletes)
	}
	turn := 0
	for at := range max(imports, deletes) {
		for _, lost := range []bool{false, true} {
			if turn++; turn%every == 0 && (at > 0 || !lost) {
				f.life(t, at, lost)
			}
		}
	}
	t.Logf("%d lives with %d and %d writes in %s", f.lives, imports, deletes, time.Since(began).Round(time.Second))
}
