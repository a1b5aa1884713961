package goldenimages

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/goldenimages"
	"github.com/virtward/virtward/sources"
)

const imagesNamespace = "images"

// beaten is a reconciler of which another writer is faster: it changes each object just before the first update or deletion of it.
type beaten struct {
	*Reconciler

	server client.WithWatch

	mu sync.Mutex
	// first are the objects that were changed, with their verbs, and unguarded the writes that did not fail then.
	first     map[string]bool
	unguarded []string
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lists serves the lists of pages.Reader from a client.
func lists(t *testing.T, c client.Client) *pages.Reader {
	t.Helper()
	of := map[string]func() client.ObjectList{
		"goldenimagecatalogs":    func() client.ObjectList { return &v1alpha1.GoldenImageCatalogList{} },
		"dataimportcrons":        func() client.ObjectList { return &cdiv1beta1.DataImportCronList{} },
		"datasources":            func() client.ObjectList { return &cdiv1beta1.DataSourceList{} },
		"datavolumes":            func() client.ObjectList { return &cdiv1beta1.DataVolumeList{} },
		"persistentvolumeclaims": func() client.ObjectList { return &corev1.PersistentVolumeClaimList{} },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		create := of[request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:]]
		selector, err := labels.Parse(request.URL.Query().Get("labelSelector"))
		if create == nil || err != nil {
			http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`, http.StatusNotFound)
			return
		}
		list := create()
		if err := c.List(request.Context(), list, client.MatchingLabelsSelector{Selector: selector}); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list)
	}))
	t.Cleanup(server.Close)
	reader, err := pages.NewReader(&rest.Config{Host: server.URL, QPS: -1})
	must(t, err)
	return reader
}

func newBeaten(t *testing.T) *beaten {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	must(t, v1alpha1.AddToScheme(scheme))
	must(t, cdiv1beta1.AddToScheme(scheme))
	b, made := &beaten{first: map[string]bool{}}, 0
	b.server = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.GoldenImageCatalog{}).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			b.mu.Lock()
			made++
			object.SetUID(types.UID(fmt.Sprint("u-", made)))
			b.mu.Unlock()
			return c.Create(ctx, object, options...)
		},
	}).Build()
	c := interceptor.NewClient(b.server, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			return b.write(ctx, "update", object, func() error { return c.Update(ctx, object, options...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			applied := (&client.DeleteOptions{}).ApplyOptions(options)
			if p := applied.Preconditions; p == nil || p.UID == nil || *p.UID == "" || p.ResourceVersion == nil || *p.ResourceVersion == "" {
				b.note("delete without the UID and the version", object)
			}
			return b.write(ctx, "delete", object, func() error { return c.Delete(ctx, object, options...) })
		},
		Patch: func(_ context.Context, _ client.WithWatch, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
			b.note("patch", object)
			return nil
		},
	})
	b.Reconciler = New(Options{
		Client: c, Nodes: c, Pages: lists(t, b.server), Clock: clock.RealClock{}, Tell: func(*v1alpha1.GoldenImageCatalog, events.Event) {},
		Manifests: NewManifests(t.Context(), c, &sources.Sources{}, time.Hour, clock.RealClock{}),
	})
	return b
}

func (b *beaten) note(verb string, object client.Object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unguarded = append(b.unguarded, verb+" of "+kindOf(object)+" "+object.GetName())
}

// write writes an object. Before the first time, another writer changes it, and the write has to fail.
func (b *beaten) write(ctx context.Context, verb string, object client.Object, write func() error) error {
	name := verb + " " + kindOf(object) + " " + object.GetName()
	b.mu.Lock()
	again := b.first[name]
	b.first[name] = true
	b.mu.Unlock()
	if !again {
		other := &metav1.PartialObjectMetadata{}
		gvk, err := b.server.GroupVersionKindFor(object)
		if err != nil {
			return err
		}
		other.SetGroupVersionKind(gvk)
		other.SetNamespace(object.GetNamespace())
		other.SetName(object.GetName())
		if err := b.server.Patch(ctx, other, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"other":"writer"}}}`))); err != nil {
			return err
		}
	}
	err := write()
	if !again && !apierrors.IsConflict(err) {
		b.note(verb, object)
	}
	return err
}

// cdi imports what crons name: a DataSource that is ready, and a DataVolume with its claim.
func (b *beaten) cdi(t *testing.T) {
	t.Helper()
	crons := &cdiv1beta1.DataImportCronList{}
	must(t, b.server.List(t.Context(), crons))
	for i := range crons.Items {
		cron := &crons.Items[i]
		source := &cdiv1beta1.DataSource{ObjectMeta: metav1.ObjectMeta{Namespace: cron.Namespace, Name: cron.Spec.ManagedDataSource, Labels: map[string]string{goldenimages.CronLabel: cron.Name}}}
		source.Spec.Source.PVC = &cdiv1beta1.DataVolumeSourcePVC{Namespace: cron.Namespace, Name: cron.Name}
		source.Status.Conditions = []cdiv1beta1.DataSourceCondition{{Type: cdiv1beta1.DataSourceReady, ConditionState: cdiv1beta1.ConditionState{Status: corev1.ConditionTrue}}}
		volume := metav1.ObjectMeta{Namespace: cron.Namespace, Name: cron.Name, Labels: map[string]string{goldenimages.CronLabel: cron.Name, "app.kubernetes.io/managed-by": "cdi-controller"}}
		for _, object := range []client.Object{source, &cdiv1beta1.DataVolume{ObjectMeta: volume}, &corev1.PersistentVolumeClaim{ObjectMeta: volume}} {
			if err := b.server.Create(t.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
		}
	}
}

// until reconciles until something holds.
func (b *beaten) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 30 {
		if _, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "site"}}); err != nil {
			t.Fatal(err)
		}
		b.cdi(t)
		if holds() {
			return
		}
	}
	catalog := &v1alpha1.GoldenImageCatalog{}
	must(t, b.server.Get(t.Context(), client.ObjectKey{Name: "site"}, catalog))
	t.Fatalf("%s: never, with the writes %v and the status %+v", what, b.first, catalog.Status)
}

func (b *beaten) change(t *testing.T, how func(*v1alpha1.GoldenImageCatalogSpec)) {
	t.Helper()
	catalog := &v1alpha1.GoldenImageCatalog{}
	must(t, b.server.Get(t.Context(), client.ObjectKey{Name: "site"}, catalog))
	how(&catalog.Spec)
	catalog.Generation++
	must(t, b.server.Update(t.Context(), catalog))
}

// TestWritesAreGuarded: no update and no deletion of an object is done if another writer has changed it since it was read.
func TestWritesAreGuarded(t *testing.T) {
	b := newBeaten(t)
	for _, architecture := range []string{"amd64", "arm64"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: architecture, Labels: map[string]string{"node-role.kubernetes.io/worker": ""}}}
		node.Status.NodeInfo.Architecture, node.Status.NodeInfo.OperatingSystem = architecture, "linux"
		must(t, b.server.Create(t.Context(), node))
	}
	must(t, b.server.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: imagesNamespace}}))
	url, none := "docker://registry.example/fedora", cdiv1beta1.DataImportCronRetainNone
	e := v1alpha1.DataImportCronTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "fedora-cron", Annotations: map[string]string{v1alpha1.ArchitecturesAnnotation: "amd64,arm64"}},
		Spec:       &cdiv1beta1.DataImportCronSpec{ManagedDataSource: "fedora", Schedule: "0 */12 * * *", RetentionPolicy: &none},
	}
	e.Spec.Template.Spec.Source = &cdiv1beta1.DataVolumeSource{Registry: &cdiv1beta1.DataVolumeSourceRegistry{URL: &url}}
	e.Spec.Template.Spec.Storage = &cdiv1beta1.StorageSpec{Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}}}
	catalog := &v1alpha1.GoldenImageCatalog{ObjectMeta: metav1.ObjectMeta{Name: "site", Generation: 1}, Spec: v1alpha1.GoldenImageCatalogSpec{
		Namespace: imagesNamespace, RemovalDelay: &metav1.Duration{}, DataImportCronTemplates: []v1alpha1.DataImportCronTemplate{e},
	}}
	must(t, b.server.Create(t.Context(), catalog))
	cronNames := func() (names []string) {
		crons := &cdiv1beta1.DataImportCronList{}
		must(t, b.server.List(t.Context(), crons))
		for i := range crons.Items {
			names = append(names, crons.Items[i].Name)
		}
		return names
	}
	b.until(t, "imports", func() bool { return slices.Equal(cronNames(), []string{"fedora-cron-amd64", "fedora-cron-arm64"}) })

	schedule := "5 */12 * * *"
	b.change(t, func(spec *v1alpha1.GoldenImageCatalogSpec) { spec.DataImportCronTemplates[0].Spec.Schedule = schedule })
	b.until(t, "another schedule", func() bool {
		cron := &cdiv1beta1.DataImportCron{}
		err := b.server.Get(t.Context(), client.ObjectKey{Namespace: imagesNamespace, Name: "fedora-cron-arm64"}, cron)
		must(t, client.IgnoreNotFound(err)) // CDI reads some fields once, so the cron can be created again
		return err == nil && cron.Spec.Schedule == schedule
	})
	b.change(t, func(spec *v1alpha1.GoldenImageCatalogSpec) {
		spec.DataImportCronTemplates[0].Labels = map[string]string{"team": "a"}
	})
	b.until(t, "another label", func() bool {
		cron := &cdiv1beta1.DataImportCron{}
		must(t, b.server.Get(t.Context(), client.ObjectKey{Namespace: imagesNamespace, Name: "fedora-cron-arm64"}, cron))
		return cron.Labels["team"] == "a"
	})
	b.change(t, func(spec *v1alpha1.GoldenImageCatalogSpec) {
		spec.DataImportCronTemplates[0].Annotations = map[string]string{v1alpha1.ArchitecturesAnnotation: "arm64"}
	})
	b.until(t, "another default architecture", func() bool {
		pointer := &cdiv1beta1.DataSource{}
		must(t, b.server.Get(t.Context(), client.ObjectKey{Namespace: imagesNamespace, Name: "fedora"}, pointer))
		return pointer.Spec.Source.DataSource != nil && pointer.Spec.Source.DataSource.Name == "fedora-arm64" && slices.Equal(cronNames(), []string{"fedora-cron-arm64"})
	})
	b.change(t, func(spec *v1alpha1.GoldenImageCatalogSpec) { spec.DataImportCronTemplates = nil })
	b.until(t, "the end of all", func() bool {
		volumes := &cdiv1beta1.DataVolumeList{}
		must(t, b.server.List(t.Context(), volumes))
		return len(cronNames()) == 0 && len(volumes.Items) == 0
	})
	slices.Sort(b.unguarded)
	for _, write := range slices.Compact(b.unguarded) {
		t.Errorf("not guarded: %s", write)
	}
	for _, write := range []string{"update DataImportCron fedora-cron-arm64", "update DataSource fedora", "delete DataImportCron fedora-cron-amd64", "delete DataVolume fedora-cron-amd64"} {
		if !b.first[write] {
			t.Errorf("%s was not tried: %v", write, b.first)
		}
	}
}
