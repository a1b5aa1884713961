package virtualimages_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/controllers/pages"
	controller "github.com/virtward/virtward/controllers/virtualimages"
	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/test/kills"
	"github.com/virtward/virtward/virtualimages"
)

var began = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)

// cluster is a fake API server with an image, a backend that stores it, and the events of the controllers.
type cluster struct {
	server   client.WithWatch
	clock    *clocktesting.FakePassiveClock
	lists    *httptest.Server
	machines []string
	classes  []string
	limits   controller.Limits
	image    *v1alpha1.VirtualImage
	guards   *guarded.Guards
	told     []string

	// imports is the state of an import that began. unreachable is the error of all calls of the backend.
	imports     virtualimages.Observation
	unreachable error
	// listed are the images whose users in the cloud were read; nil if the backend lists none. Then an import ends with its first call.
	listed chan string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, admissionregistrationv1.AddToScheme} {
		must(t, add(scheme))
	}
	c := &cluster{
		clock: clocktesting.NewFakePassiveClock(began), classes: []string{"main"}, limits: controller.Limits{Imports: 4},
		imports: virtualimages.Observation{State: virtualimages.Ready, SizeBytes: 1 << 20},
	}
	c.server = kills.Server(scheme, c.clock, []client.Object{&v1alpha1.VirtualImage{}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
	c.lists = httptest.NewServer(http.HandlerFunc(c.list))
	t.Cleanup(c.lists.Close)
	c.image = &v1alpha1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "fedora"}}
	must(t, c.server.Create(t.Context(), c.image))
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// list answers the lists of the controller: its images, and virtual machines that clone the image.
func (c *cluster) list(w http.ResponseWriter, r *http.Request) {
	var items []any
	switch {
	case strings.HasSuffix(r.URL.Path, "/virtualimages"):
		images := &v1alpha1.VirtualImageList{}
		if err := c.server.List(r.Context(), images); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		for i := range images.Items {
			items = append(items, &images.Items[i])
		}
	case strings.HasSuffix(r.URL.Path, "/virtualmachines"):
		for _, name := range c.machines {
			items = append(items, json.RawMessage(fmt.Sprintf(`{"metadata":{"namespace":"team","name":%q},"spec":{"dataVolumeTemplates":[{"spec":{"sourceRef":{"kind":"DataSource","name":"fedora"}}}]}}`, name)))
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"resourceVersion": "1"}, "items": items}) // the reader fails
}

// store is a fake backend. It keeps an image as a ConfigMap with the name of its identifier, through the connection of a controller.
type store struct {
	*cluster

	through client.Client
}

func (s *store) configMap(image *backend.Image) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: image.Namespace, Name: image.ID}}
}

// Ensure implements backend.Backend.
func (s *store) Ensure(ctx context.Context, image *backend.Image) (virtualimages.Observation, error) {
	if s.unreachable != nil {
		return virtualimages.Observation{}, s.unreachable
	}
	err := s.through.Create(ctx, s.configMap(image))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return virtualimages.Observation{}, err
	}
	if s.listed != nil {
		return s.imports, nil
	}
	return virtualimages.Observation{State: virtualimages.Importing}, nil
}

// Observe implements backend.Backend.
func (s *store) Observe(ctx context.Context, image *backend.Image) (virtualimages.Observation, error) {
	if s.unreachable != nil {
		return virtualimages.Observation{}, s.unreachable
	}
	err := s.through.Get(ctx, client.ObjectKeyFromObject(s.configMap(image)), &corev1.ConfigMap{})
	if s.imports.State == virtualimages.Taken || err == nil {
		return s.imports, nil
	}
	return virtualimages.Observation{State: virtualimages.Absent}, client.IgnoreNotFound(err)
}

// Delete implements backend.Backend.
func (s *store) Delete(ctx context.Context, image *backend.Image) (virtualimages.Observation, error) {
	if s.unreachable != nil {
		return virtualimages.Observation{}, s.unreachable
	}
	return virtualimages.Observation{State: virtualimages.Absent}, client.IgnoreNotFound(s.through.Delete(ctx, s.configMap(image)))
}

// ListsUsers implements backend.Lister.
func (s *store) ListsUsers() bool { return s.listed != nil }

// Users implements backend.Lister.
func (s *store) Users(_ context.Context, image *backend.Image) *virtualimages.CloudUsers {
	s.listed <- image.Name
	return &virtualimages.CloudUsers{}
}

// process is a new controller with a connection of its own.
func (c *cluster) process(t *testing.T, connection *kills.Connection) func() (reconcile.Result, error) {
	t.Helper()
	reader, err := pages.NewReader(&rest.Config{Host: c.lists.URL, QPS: -1})
	must(t, err)
	through := connection.Fake(c.server)
	options := controller.Options{
		Client: through, Pages: reader, Guards: c.guards, Cluster: "cluster", Classes: map[string]backend.Backend{}, Default: "main", ClassNames: c.classes,
		Limits: c.limits, Settings: virtualimages.Defaults(), Clock: c.clock,
		Tell: func(_ *v1alpha1.VirtualImage, e events.Event) { c.told = append(c.told, e.String()) },
	}
	for _, name := range c.classes {
		options.Classes[name] = &store{cluster: c, through: through}
	}
	r := controller.New(options)
	must(t, r.Load(t.Context()))
	return func() (reconcile.Result, error) {
		return r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c.image)})
	}
}

// drive reconciles until a check holds, or until the connection ends. Time passes as the controller waits.
func (c *cluster) drive(t *testing.T, connection *kills.Connection, until func(*v1alpha1.VirtualImage) bool) {
	t.Helper()
	c.driveOn(t, c.process(t, connection), connection, until)
}

// driveOn is drive with a controller.
func (c *cluster) driveOn(t *testing.T, next func() (reconcile.Result, error), connection *kills.Connection, until func(*v1alpha1.VirtualImage) bool) {
	t.Helper()
	for range 1000 {
		result, err := next()
		if connection.Dead() || errors.Is(err, kills.Err) {
			return
		}
		must(t, err)
		if until(c.stored(t)) {
			return
		}
		if result.RequeueAfter > 500*time.Millisecond {
			c.clock.SetTime(c.clock.Now().Add(result.RequeueAfter))
			continue
		}
		time.Sleep(time.Millisecond) // a list of the users runs
	}
	t.Fatalf("it does not end: %+v", c.stored(t))
}

// stored is the image; nil if it does not exist.
func (c *cluster) stored(t *testing.T) *v1alpha1.VirtualImage {
	t.Helper()
	stored := &v1alpha1.VirtualImage{}
	err := c.server.Get(t.Context(), client.ObjectKeyFromObject(c.image), stored)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(t, err)
	return stored
}

func isReady(image *v1alpha1.VirtualImage) bool { return image != nil && image.Status.Ready }

func isGone(image *v1alpha1.VirtualImage) bool { return image == nil }

// has reports whether a condition has a reason.
func has(kind, reason string) func(*v1alpha1.VirtualImage) bool {
	return func(image *v1alpha1.VirtualImage) bool {
		if image == nil {
			return false
		}
		c := meta.FindStatusCondition(image.Status.Conditions, kind)
		return c != nil && c.Reason == reason
	}
}

// kept are the names of what the backend stores.
func (c *cluster) kept(t *testing.T) (names []string) {
	t.Helper()
	list := &corev1.ConfigMapList{}
	must(t, c.server.List(t.Context(), list))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// id is the identifier of an attempt.
func (c *cluster) id(attempt int32) string {
	return virtualimages.ID("cluster", c.image.UID, attempt)
}

// lives imports the image, and asks for its deletion.
func (c *cluster) lives(t *testing.T) {
	t.Helper()
	c.drive(t, &kills.Connection{Left: -1}, isReady)
	must(t, c.server.Delete(t.Context(), c.stored(t)))
}

// TestReconcile holds what each reconciliation writes, and when the next one follows.
func TestReconcile(t *testing.T) {
	c := newCluster(t)
	const image = "VirtualImage/team/fedora"
	all := &kills.Connection{Left: -1}
	next, done := c.process(t, all), 0
	step := func(what string, after time.Duration, writes ...string) {
		t.Helper()
		result, err := next()
		must(t, err)
		if diff := cmp.Diff(writes, slices.Clone(all.Accepted()[done:]), cmp.Transformer("empty", func(s []string) string { return strings.Join(s, "\n") })); diff != "" || result.RequeueAfter != after {
			t.Errorf("%s: another reconciliation after %s, want %s; writes (-want +got):\n%s", what, result.RequeueAfter, after, diff)
		}
		done = len(all.Accepted())
	}
	c.imports = virtualimages.Observation{State: virtualimages.Importing, Done: 1, Total: 4}
	step("new", 500*time.Millisecond, "PUT "+image+"/status", "PATCH "+image)
	step("claimed", 2*time.Second, "PUT "+image+"/status", "POST ConfigMap/team/"+c.id(1), "PUT "+image+"/status")
	step("importing", 2*time.Second, "PUT "+image+"/status")
	step("no progress", 2*time.Second)
	c.imports = virtualimages.Observation{State: virtualimages.Ready, SizeBytes: 1 << 20}
	step("imported", 10*time.Minute, "PUT "+image+"/status")
	step("ready", 10*time.Minute)
	must(t, c.server.Delete(t.Context(), c.stored(t)))
	step("deleted", 75*time.Second, "PUT "+image+"/status")
	c.clock.SetTime(began.Add(74 * time.Second))
	step("admitted requests are complete soon", time.Second)
	c.clock.SetTime(began.Add(75 * time.Second))
	step("the users are listed", 500*time.Millisecond)
	c.driveOn(t, next, all, isGone)
	want := []string{"PUT " + image + "/status", "DELETE ConfigMap/team/" + c.id(1), "PATCH " + image}
	if diff := cmp.Diff(want, all.Accepted()[done:]); diff != "" {
		t.Errorf("the end, writes (-want +got):\n%s", diff)
	}
	told := []string{"Normal Importing: the image is being imported", "Normal Imported: the image is imported"}
	if diff := cmp.Diff(told, c.told); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestEnds holds the reasons of images that cannot be imported, when the next reconciliation follows, and that one event reports it.
func TestEnds(t *testing.T) {
	unavailable := &backend.Unavailable{Reason: "NoCloud", Message: "no cloud has the name"}
	for name, test := range map[string]struct {
		change          func(*cluster)
		kind            string
		reason, message string
		after           time.Duration
		told            string
		kept            int
	}{
		"no class": {
			change: func(c *cluster) { c.classes = nil }, kind: v1alpha1.ConditionImported, reason: "ClassNotFound",
			message: `there is no class "main": an admin configures virtualImages.classes`, after: time.Minute, told: "Warning ClassNotFound: ",
		},
		"name of others": {
			change: func(c *cluster) {
				c.imports = virtualimages.Observation{State: virtualimages.Taken, Message: "DataSource fedora exists"}
			},
			kind: v1alpha1.ConditionImported, reason: virtualimages.ReasonNameTaken, message: "DataSource fedora exists", after: time.Minute, told: "Warning NameTaken: ",
		},
		"permanent failure": {
			change: func(c *cluster) {
				c.imports = virtualimages.Observation{State: virtualimages.Failed, Permanent: true, Message: "no disk"}
			},
			kind: v1alpha1.ConditionImported, reason: virtualimages.ReasonImportFailed, message: "no disk", after: 10 * time.Minute, told: "Warning ImportFailed: ", kept: 1,
		},
		"unreachable": {
			change: func(c *cluster) { c.unreachable = errors.New("secret") }, kind: v1alpha1.ConditionReady, reason: virtualimages.ReasonUnreachable,
			message: "the backend of class main does not answer", after: 2 * time.Second,
		},
		"unavailable": {
			change: func(c *cluster) { c.unreachable = fmt.Errorf("listing: %w", unavailable) }, kind: v1alpha1.ConditionReady, reason: "NoCloud",
			message: "class main: no cloud has the name", after: 2 * time.Second,
		},
		"beyond the limit": {
			change: func(c *cluster) {
				c.limits.Images = 1
				c.image = &v1alpha1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "later"}}
				c.clock.SetTime(began.Add(time.Hour))
				must(t, c.server.Create(t.Context(), c.image))
				c.clock.SetTime(began.Add(2 * time.Hour))
			},
			kind: v1alpha1.ConditionImported, reason: controller.ReasonLimit, message: "the namespace has 2 images, and only its 1 oldest are imported", after: time.Minute,
			told: "Warning " + controller.ReasonLimit + ": ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, all := newCluster(t), &kills.Connection{Left: -1}
			test.change(c)
			next := c.process(t, all)
			c.driveOn(t, next, all, has(test.kind, test.reason))
			writes := len(all.Writes())
			result, err := next()
			must(t, err)
			if result.RequeueAfter != test.after || len(all.Writes()) != writes {
				t.Errorf("without a change: another reconciliation after %s, want %s; writes %q", result.RequeueAfter, test.after, all.Writes()[writes:])
			}
			if is := meta.FindStatusCondition(c.stored(t).Status.Conditions, test.kind); is.Status != metav1.ConditionFalse || is.Message != test.message {
				t.Errorf("%s is %+v", test.kind, is)
			}
			told := slices.DeleteFunc(slices.Clone(c.told), func(e string) bool { return strings.HasPrefix(e, "Normal Importing: ") })
			if test.told == "" && len(told) > 0 || test.told != "" && (len(told) != 1 || !strings.HasPrefix(told[0], test.told)) {
				t.Errorf("events %q, want one of %q", told, test.told)
			}
			if kept := c.kept(t); len(kept) != test.kept {
				t.Errorf("the backend has %q", kept)
			}
		})
	}
}

// TestListedAtOnce: the users in the cloud are read after the step that ends the import. Nothing else requests the image soon.
func TestListedAtOnce(t *testing.T) {
	c := newCluster(t)
	c.listed = make(chan string, 1)
	c.drive(t, &kills.Connection{Left: -1}, func(image *v1alpha1.VirtualImage) bool {
		return meta.IsStatusConditionTrue(image.Status.Conditions, v1alpha1.ConditionImported)
	})
	select {
	case name := <-c.listed:
		if name != c.image.Name {
			t.Errorf("the users of %s are read", name)
		}
	case <-time.After(time.Minute):
		t.Fatal("the users of the image are not read")
	}
}

// TestNotGuarded: an image whose author was not checked is not imported.
func TestNotGuarded(t *testing.T) {
	c := newCluster(t)
	c.guards = &guarded.Guards{Reader: c.server, All: []admissionpolicies.Guard{{Name: admissionpolicies.VirtualImages}}}
	c.drive(t, &kills.Connection{Left: -1}, has(v1alpha1.ConditionReady, guarded.Reason))
	if kept := c.kept(t); len(kept) > 0 {
		t.Errorf("the backend has %q", kept)
	}
}

// TestStoredClass: an image stays in the class that stores it, also if its spec names another one later.
func TestStoredClass(t *testing.T) {
	c, all := newCluster(t), &kills.Connection{Left: -1}
	next := c.process(t, all)
	c.driveOn(t, next, all, isReady)
	image := c.stored(t)
	image.Spec.ImageClassName = "gone"
	must(t, c.server.Update(t.Context(), image))
	c.imports.State = virtualimages.Deactivated
	_, err := next()
	must(t, err)
	if image = c.stored(t); isReady(image) || image.Status.ImageClassName != "main" {
		t.Errorf("the class is not observed: %+v", image.Status)
	}
}

// TestRetries holds that a failed attempt is deleted after growing times, and that the next one has another identifier.
func TestRetries(t *testing.T) {
	c, all := newCluster(t), &kills.Connection{Left: -1}
	c.imports = virtualimages.Observation{State: virtualimages.Failed, Message: "reset"}
	next := c.process(t, all)
	for attempt, wait := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute, time.Minute} {
		c.driveOn(t, next, all, func(i *v1alpha1.VirtualImage) bool {
			return int(i.Status.Attempt) == attempt+1 && has(v1alpha1.ConditionImported, virtualimages.ReasonRetrying)(i)
		})
		if result, err := next(); err != nil || result.RequeueAfter != wait {
			t.Errorf("attempt %d: the next one after %s, %v, want %s", attempt+1, result.RequeueAfter, err, wait)
		}
		if diff := cmp.Diff([]string{c.id(int32(attempt + 1))}, c.kept(t)); diff != "" {
			t.Errorf("the backend has (-want +got):\n%s", diff)
		}
		c.clock.SetTime(c.clock.Now().Add(wait))
	}
	c.driveOn(t, next, all, has(v1alpha1.ConditionImported, virtualimages.ReasonImportFailed))
	if status := c.stored(t).Status; status.Attempt != 8 || status.ID != c.id(8) {
		t.Errorf("attempt %d with the identifier %s", status.Attempt, status.ID)
	}
}

// TestUnreachable holds that an image that is imported stays ready while its backend does not answer.
func TestUnreachable(t *testing.T) {
	c, all := newCluster(t), &kills.Connection{Left: -1}
	next := c.process(t, all)
	c.driveOn(t, next, all, isReady)
	c.unreachable = errors.New("no route")
	if result, err := next(); err != nil || result.RequeueAfter != time.Minute || !isReady(c.stored(t)) {
		t.Errorf("%+v, %v, %+v", result, err, c.stored(t).Status)
	}
}

// TestInUse holds that an image is not deleted while a virtual machine uses it.
func TestInUse(t *testing.T) {
	c, all := newCluster(t), &kills.Connection{Left: -1}
	c.machines = []string{"web"}
	c.lives(t)
	next := c.process(t, all)
	c.driveOn(t, next, all, has(v1alpha1.ConditionDeleting, virtualimages.ReasonInUse))
	c.clock.SetTime(began.Add(time.Hour))
	if result, err := next(); err != nil || result.RequeueAfter != time.Minute || len(c.kept(t)) != 1 || !isReady(c.stored(t)) {
		t.Errorf("%+v, %v; the backend has %q; %+v", result, err, c.kept(t), c.stored(t).Status)
	}
	if last := c.told[len(c.told)-1]; last != "Normal InUse: the deletion waits for those that use the image: team/web" {
		t.Errorf("events %q", c.told)
	}
	c.machines = nil
	c.drive(t, all, isGone)
	if kept := c.kept(t); len(kept) > 0 {
		t.Errorf("the backend has %q", kept)
	}
}

// TestUsedAtLast holds that a virtual machine that the watches do not know keeps an image: it is found by the list before the deletion.
func TestUsedAtLast(t *testing.T) {
	c, all := newCluster(t), &kills.Connection{Left: -1}
	c.lives(t)
	next := c.process(t, all)
	c.driveOn(t, next, all, has(v1alpha1.ConditionDeleting, virtualimages.ReasonDraining))
	c.machines = []string{"late"}
	c.driveOn(t, next, all, has(v1alpha1.ConditionDeleting, virtualimages.ReasonInUse))
	if kept := c.kept(t); len(kept) != 1 {
		t.Errorf("the backend has %q", kept)
	}
}

// TestNamespaceLeaves holds that images of a namespace that is being deleted wait for no user.
func TestNamespaceLeaves(t *testing.T) {
	c, all := newCluster(t), &kills.Connection{Left: -1}
	c.machines = []string{"web"}
	c.lives(t)
	must(t, c.server.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}))
	_, err := c.process(t, all)()
	must(t, err)
	if kept := c.kept(t); len(kept) > 0 || c.stored(t) != nil {
		t.Errorf("the backend has %q; %+v", kept, c.stored(t))
	}
}

// TestKilled imports an image with an attempt that fails, and deletes it. The controller is killed before and after each of its
// writes. The next one completes the work, without duplicates.
func TestKilled(t *testing.T) {
	phases := map[string]struct {
		prepare func(*cluster)
		until   func(*v1alpha1.VirtualImage) bool
		kept    func(*cluster) []string
		writes  int
	}{
		"import": {func(*cluster) {}, isReady, func(c *cluster) []string { return []string{c.id(1)} }, 6},
		"retry": {func(c *cluster) {
			c.imports = virtualimages.Observation{State: virtualimages.Failed}
			c.drive(t, &kills.Connection{Left: -1}, has(v1alpha1.ConditionImported, virtualimages.ReasonRetrying))
			c.imports = virtualimages.Observation{State: virtualimages.Ready, SizeBytes: 1 << 20}
		}, isReady, func(c *cluster) []string { return []string{c.id(2)} }, 6},
		"deletion": {func(c *cluster) { c.lives(t) }, isGone, func(*cluster) []string { return nil }, 4},
	}
	for phase, test := range phases {
		c, all := newCluster(t), &kills.Connection{Left: -1}
		test.prepare(c)
		if c.drive(t, all, test.until); len(all.Accepted()) != test.writes {
			t.Errorf("%s: %d writes, want %d: %q", phase, len(all.Accepted()), test.writes, all.Accepted())
		}
		for at := range test.writes + 1 {
			for _, lost := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, after %d, lost %t", phase, at, lost), func(t *testing.T) {
					c, ends := newCluster(t), &kills.Connection{Left: at, Lost: lost}
					test.prepare(c)
					told := len(c.told)
					if c.drive(t, ends, test.until); !ends.Dead() {
						t.Errorf("it was not killed: %q", ends.Accepted())
					}
					c.drive(t, &kills.Connection{Left: -1}, test.until)
					if diff := cmp.Diff(test.kept(c), c.kept(t)); diff != "" {
						t.Errorf("the backend has (-want +got):\n%s", diff)
					}
					if once := slices.Compact(slices.Sorted(slices.Values(c.told[told:]))); len(once) != len(c.told[told:]) {
						t.Errorf("told more than once: %q", c.told[told:])
					}
				})
			}
		}
	}
}
