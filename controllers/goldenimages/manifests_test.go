package goldenimages

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/goldenimages"
	"github.com/virtward/virtward/sources"
)

// objects is a reader of one Secret, and of CDI's configuration, which names one insecure registry.
type objects struct {
	client.Reader

	insecure  string
	forbidden atomic.Bool
}

func (o *objects) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch object := into.(type) {
	case *cdiv1beta1.CDIConfig:
		object.Spec.InsecureRegistries = []string{o.insecure}
		return nil
	case *corev1.Secret:
		if o.forbidden.Load() {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, nil)
		}
		if key == (client.ObjectKey{Namespace: "images", Name: "quay"}) {
			object.Data = map[string][]byte{"accessKeyId": []byte("me"), "secretKey": []byte("secret")}
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// registries is a registry with an image of amd64, and the Manifests that read it.
type registries struct {
	*Manifests

	t       *testing.T
	clock   *testclock.FakePassiveClock
	objects *objects
	host    string
	reads   atomic.Int64
	fails   atomic.Bool
}

func newRegistries(t *testing.T) *registries {
	t.Helper()
	r := &registries{t: t, clock: testclock.NewFakePassiveClock(time.Unix(1_700_000_000, 0))}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		switch {
		case request.URL.Path == "/v2/":
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		case r.fails.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			if user, _, _ := request.BasicAuth(); strings.Contains(request.URL.Path, "private") && user != "me" {
				w.WriteHeader(http.StatusUnauthorized)
				break
			}
			_, _ = fmt.Fprintf(w, `{"manifests":[{"digest":"sha256:%064d","platform":{"os":"linux","architecture":"amd64"}}]}`, 1)
		}
		r.reads.Add(1)
	}))
	t.Cleanup(server.Close)
	r.host = strings.TrimPrefix(server.URL, "http://")
	r.objects = &objects{insecure: r.host}
	loopback := &sources.Sources{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	r.Manifests = NewManifests(t.Context(), r.objects, loopback, time.Hour, r.clock)
	return r
}

// catalog has an entry for each image; with a Secret after a comma.
func (r *registries) catalog(name string, list ...string) *v1alpha1.GoldenImageCatalog {
	c := &v1alpha1.GoldenImageCatalog{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}}
	c.Spec.Namespace, c.Spec.VerifyManifest = "images", true
	for i, text := range list {
		path, secret, _ := strings.Cut(text, ",")
		url := "docker://" + r.host + "/" + path
		from := &cdiv1beta1.DataVolumeSourceRegistry{URL: &url}
		if secret != "" {
			from.SecretRef = &secret
		}
		e := v1alpha1.DataImportCronTemplate{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}, Spec: &cdiv1beta1.DataImportCronSpec{}}
		e.Spec.Template.Spec.Source = &cdiv1beta1.DataVolumeSource{Registry: from}
		c.Spec.DataImportCronTemplates = append(c.Spec.DataImportCronTemplates, e)
	}
	return c
}

// settle waits until no read is pending.
func (r *registries) settle(c *v1alpha1.GoldenImageCatalog) (map[string]goldenimages.Manifest, time.Duration) {
	r.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		found, next := r.of(c)
		pending := false
		r.mu.Lock()
		for at := range r.records {
			_, started := r.pool.Get(at.key())
			pending = pending || started
		}
		r.mu.Unlock()
		if !pending {
			return found, next
		}
	}
	r.t.Fatal("the reads do not end")
	return nil, 0
}

func shown(m goldenimages.Manifest) string {
	if m.Failure == nil {
		return fmt.Sprint(m.Architectures)
	}
	return fmt.Sprintf("%v %s", m.Architectures, m.Failure.Reason)
}

func TestManifestsOfCatalogs(t *testing.T) {
	r := newRegistries(t)
	c := r.catalog("site", "fedora", "fedora", "private", "private,quay", "private,missing")
	found, next := r.settle(c)
	for i, want := range []string{"[amd64]", "[amd64]", "[] SourceUnauthorized", "[amd64]", "[] CredentialsMissing"} {
		if got := shown(found[fmt.Sprint(i)]); got != want {
			t.Errorf("entry %d: %s, want %s", i, got, want)
		}
	}
	if reads := r.reads.Load(); reads != 3 {
		t.Errorf("%d reads: one for each place, and none without the Secret", reads)
	}
	if next != time.Minute {
		t.Errorf("the next read is in %s", next)
	}
}

// TestIntervals: an answer is read again after the interval, a failure after delays that increase, and an answer stays known.
func TestIntervals(t *testing.T) {
	r := newRegistries(t)
	c := r.catalog("site", "fedora")
	if _, next := r.settle(c); next != time.Hour {
		t.Errorf("after an answer: %s", next)
	}
	r.fails.Store(true)
	r.clock.SetTime(r.clock.Now().Add(59 * time.Minute))
	if _, next := r.settle(c); r.reads.Load() != 1 || next != time.Minute {
		t.Errorf("%d reads before the interval, next in %s", r.reads.Load(), next)
	}
	for failures, minutes := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		want := time.Duration(minutes) * time.Minute
		r.clock.SetTime(r.clock.Now().Add(time.Hour))
		found, next := r.settle(c)
		if got := shown(found["0"]); next != want || got != "[amd64] SourceServerError" || r.reads.Load() != int64(failures+2) {
			t.Errorf("failure %d: %s, the next read is in %s, %d reads", failures, got, next, r.reads.Load())
		}
	}
	reads := r.reads.Load()
	c.Generation++
	if _, _ = r.settle(c); r.reads.Load() != reads+1 {
		t.Error("a change of the catalog does not repeat a read that failed")
	}
	r.fails.Store(false)
	r.clock.SetTime(r.clock.Now().Add(time.Hour))
	if found, next := r.settle(c); shown(found["0"]) != "[amd64]" || next != time.Hour {
		t.Errorf("afterwards: %v, %s", found, next)
	}
}

func TestForbiddenSecret(t *testing.T) {
	r := newRegistries(t)
	r.objects.forbidden.Store(true)
	found, _ := r.settle(r.catalog("site", "private,quay"))
	if got := shown(found["0"]); got != "[] CredentialsForbidden" || !strings.Contains(found["0"].Failure.Message, "goldenImages.registries.credentials") || r.reads.Load() != 0 {
		t.Errorf("%s, %d reads", got, r.reads.Load())
	}
}

// TestForget: a manifest is forgotten when no catalog has it.
func TestForget(t *testing.T) {
	r := newRegistries(t)
	r.settle(r.catalog("site", "a", "b"))
	r.settle(r.catalog("other", "b", "c"))
	if len(r.records) != 3 {
		t.Errorf("%d manifests, want 3", len(r.records))
	}
	r.settle(r.catalog("site", "b"))
	if len(r.records) != 2 {
		t.Errorf("%d manifests without an entry, want 2", len(r.records))
	}
	r.forget("other")
	if len(r.records) != 1 {
		t.Errorf("%d manifests without a catalog, want 1", len(r.records))
	}
	unverified := r.catalog("site", "b")
	unverified.Spec.VerifyManifest = false
	if found, next := r.of(unverified); len(found) != 0 || next != 0 || len(r.records) != 0 {
		t.Errorf("without verifyManifest: %v, %s, %d", found, next, len(r.records))
	}
}

func TestManifestsAreBounded(t *testing.T) {
	r := newRegistries(t)
	r.fails.Store(true)
	var list []string
	for i := range maxManifests + 2 {
		list = append(list, fmt.Sprintf("i%d", i))
	}
	list = append(list, strings.Repeat("x", perManifest))
	found, _ := r.of(r.catalog("site", list...))
	if len(r.records) != maxManifests || len(found) != 3 || shown(found[fmt.Sprint(maxManifests)]) != "[] TooManyManifests" {
		t.Errorf("%d manifests, %d without", len(r.records), len(found))
	}
	r.forget("site")
}
