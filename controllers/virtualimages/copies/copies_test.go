package copies_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/controllers/virtualimages/backendtest"
	"github.com/virtward/virtward/controllers/virtualimages/cdi"
	"github.com/virtward/virtward/controllers/virtualimages/copies"
	"github.com/virtward/virtward/controllers/virtualimages/glance"
	"github.com/virtward/virtward/sources/transfers"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/test/glances"
	"github.com/virtward/virtward/test/isolated"
	"github.com/virtward/virtward/virtualimages"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// system is a Glance, an API server in memory, and what CDI does: it reads each DataVolume's URL with its Secret and its
// ConfigMap.
type system struct {
	glance  *glances.Fake
	client  client.WithWatch
	web     *httptest.Server
	sources *backendtest.Sources
	keys    *copies.Keys
	now     atomic.Int64
	writes  atomic.Int64
	always  bool
	// idle keeps CDI from importing.
	idle bool

	mu     sync.Mutex
	images map[string]*backend.Image
	store  *glance.Backend
}

func newSystem(t *testing.T) *system {
	t.Helper()
	s := &system{glance: glances.NewFake(t), sources: backendtest.NewSources(t), images: map[string]*backend.Image{}, always: true}
	s.now.Store(1_800_000_000)
	s.client = backendtest.Counted(backendtest.NewAPIServer(t), func() { s.writes.Add(1) })
	s.keys = &copies.Keys{Read: func() ([]byte, error) { return []byte("private"), nil }, Now: s.time}
	server := &copies.Server{Keys: s.keys, Now: s.time, Find: s.find}
	s.web = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler := server.Route(r)
		if handler == nil {
			handler = http.NotFoundHandler()
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.web.Close)
	_, kill := s.start(t)
	t.Cleanup(kill)
	return s
}

func (s *system) time() time.Time { return time.Unix(s.now.Load(), 0) }

// Now and Since implement clock.PassiveClock.
func (s *system) Now() time.Time                  { return s.time() }
func (s *system) Since(t time.Time) time.Duration { return s.time().Sub(t) }

var _ clock.PassiveClock = (*system)(nil)

func (s *system) find(_ context.Context, namespace, name, id string) (*backend.Image, copies.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if image := s.images[id]; image != nil && image.Namespace == namespace && image.Name == name {
		return image, s.store, nil
	}
	return nil, nil, copies.ErrNotCopied
}

// observed is a backend that notes the images that are copied, as the controller's statuses do.
type observed struct {
	*copies.Backend

	s *system
}

func (o observed) Ensure(ctx context.Context, image *backend.Image) (virtualimages.Observation, error) {
	o.s.mu.Lock()
	copied := *image
	o.s.images[image.ID] = &copied
	o.s.mu.Unlock()
	return o.Backend.Ensure(ctx, image)
}

// start is a new process.
func (s *system) start(t *testing.T) (backend.Backend, func()) {
	t.Helper()
	ctx, kill := context.WithCancel(context.Background())
	file := fmt.Appendf(nil, "clouds: {test: {auth_type: none, image_endpoint_override: %q}}", s.glance.URL)
	store := glance.New(glance.Options{
		Client:  glance.Open(glance.Login{Read: func() ([]byte, error) { return file, nil }, Cloud: "test"}),
		Streams: transfers.New[struct{}](ctx, transfers.Limits{Running: 2, Namespace: 2}), Source: s.sources.Open,
	})
	s.mu.Lock()
	s.store = store
	s.mu.Unlock()
	volumes := cdi.New(cdi.Options{
		Client: s.client, File: func(ctx context.Context, image *backend.Image) (*web.File, error) {
			return store.File(ctx, image, false)
		},
		Probes: transfers.New[cdi.Probe](ctx, transfers.Limits{Running: 2, Namespace: 2}), Timeout: time.Hour, Clock: clock.RealClock{},
		Changed: func(string, string) {}, Imports: func(context.Context, *backend.Image, int64) (bool, string, string, error) { return true, "", "", nil },
	})
	b := copies.New(copies.Options{
		Store: store, Volumes: volumes, Always: s.always, Client: s.client, URL: s.web.URL, Keys: s.keys, Lifetime: time.Hour, Clock: s, Owner: "test",
		Authorities: func() ([]byte, error) {
			return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.web.Certificate().Raw}), nil
		},
	})
	return observed{b, s}, kill
}

// step imports each DataVolume.
func (s *system) step(t *testing.T) {
	t.Helper()
	list := &cdiv1beta1.DataVolumeList{}
	must(t, s.client.List(t.Context(), list))
	for i := range list.Items {
		dv := &list.Items[i]
		if s.idle || dv.Status.Phase == cdiv1beta1.Succeeded || dv.Spec.Source == nil || dv.Spec.Source.HTTP == nil {
			continue
		}
		data, err := s.read(t, dv)
		if err != nil || len(data) != backendtest.DiskBytes || !bytes.HasPrefix(data, []byte("QFI\xfb")) {
			t.Errorf("%d bytes, %v", len(data), err)
		}
		dv.Status.Phase, dv.Status.Progress = cdiv1beta1.Succeeded, "100.0%"
		must(t, s.client.Status().Update(t.Context(), dv))
	}
}

// importer is the client of an importer, with the ConfigMap and the Secret of a DataVolume.
func (s *system) importer(t *testing.T, dv *cdiv1beta1.DataVolume) (c *http.Client, user, password string) {
	t.Helper()
	from := dv.Spec.Source.HTTP
	secret, authorities := &corev1.Secret{}, &corev1.ConfigMap{}
	must(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: dv.Namespace, Name: from.SecretRef}, secret))
	must(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: dv.Namespace, Name: from.CertConfigMap}, authorities))
	for _, object := range []client.Object{secret, authorities} {
		if owner := metav1.GetControllerOf(object); owner == nil || owner.Kind != v1alpha1.Kind || string(owner.UID) != dv.Labels[v1alpha1.LabelImage] {
			t.Errorf("the owner of %T is %+v", object, owner)
		}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(authorities.Data["ca.crt"])) {
		t.Error("the ConfigMap has no certificate")
	}
	c = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	t.Cleanup(c.CloseIdleConnections)
	return c, string(secret.Data["accessKeyId"]), string(secret.Data["secretKey"])
}

func (s *system) read(t *testing.T, dv *cdiv1beta1.DataVolume) ([]byte, error) {
	t.Helper()
	c, user, password := s.importer(t, dv)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, dv.Spec.Source.HTTP.URL, nil)
	must(t, err)
	request.SetBasicAuth(user, password)
	response, err := c.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	return io.ReadAll(response.Body)
}

// stored counts the images in Glance and in the cluster.
func (s *system) stored(t *testing.T) int {
	t.Helper()
	images := map[string]bool{}
	s.glance.Mu.Lock()
	for _, image := range s.glance.Images {
		if owner, _ := image["virtward_owner"].(string); strings.HasPrefix(owner, "cluster/") {
			images[strings.TrimPrefix(owner, "cluster/")] = true
		}
	}
	s.glance.Mu.Unlock()
	volumes, sources := &cdiv1beta1.DataVolumeList{}, &cdiv1beta1.DataSourceList{}
	must(t, s.client.List(t.Context(), volumes))
	must(t, s.client.List(t.Context(), sources))
	for i := range volumes.Items {
		images[volumes.Items[i].Labels[v1alpha1.LabelImage]] = true
	}
	for i := range sources.Items {
		images[sources.Items[i].Labels[v1alpha1.LabelImage]] = true
	}
	return len(images)
}

// wrote counts the writes in Glance and in the cluster.
func (s *system) wrote() int {
	n := int(s.writes.Load())
	s.glance.Mu.Lock()
	defer s.glance.Mu.Unlock()
	for _, call := range s.glance.Calls {
		if !strings.HasPrefix(call, "GET ") {
			n++
		}
	}
	return n
}

// TestContract: an image that is stored and copied is like every other one.
func TestContract(t *testing.T) {
	s := newSystem(t)
	backendtest.Run(t, s.sources, &backendtest.System{
		Start: s.start, Step: s.step, Stored: s.stored, Writes: s.wrote,
		Occupy: func(t *testing.T, image *backend.Image) func(*testing.T) {
			s.glance.Put(image.ID, "other", nil)
			return func(t *testing.T) {
				s.glance.Mu.Lock()
				defer s.glance.Mu.Unlock()
				if s.glance.Images[image.ID]["virtward_owner"] != "other" {
					t.Error("the image of others changed")
				}
				delete(s.glance.Images, image.ID)
			}
		},
		Remove: func(_ *testing.T, image *backend.Image) { s.glance.Remove(image.ID) },
	})
}

func (s *system) image(name string, change func(*v1alpha1.VirtualImageSpec)) *backend.Image {
	image := &backend.Image{
		Cluster: "cluster", Namespace: "team", Name: name, UID: types.UID(uuid.NewString()), Attempt: 1,
		Spec: v1alpha1.VirtualImageSpec{Src: s.sources.URL + "/disk", Format: v1alpha1.FormatQCOW2, ContainerFormat: v1alpha1.ContainerBare},
	}
	if change != nil {
		change(&image.Spec)
	}
	image.ID = virtualimages.ID(image.Cluster, image.UID, image.Attempt)
	return image
}

// until calls Ensure and then Observe until a state is reached.
func (s *system) until(t *testing.T, b backend.Backend, image *backend.Image, state virtualimages.State) virtualimages.Observation {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; <-time.After(10 * time.Millisecond) {
		o, err := b.Ensure(t.Context(), image)
		if err == nil && o.State == state {
			return o
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v, %v", o, err)
		}
		s.step(t)
	}
}

func (s *system) volume(t *testing.T, image *backend.Image) *cdiv1beta1.DataVolume {
	t.Helper()
	dv := &cdiv1beta1.DataVolume{}
	must(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: image.Namespace, Name: virtualimages.VolumeName(image.Name, image.UID)}, dv))
	return dv
}

// TestChoices: what the image and its class choose.
func TestChoices(t *testing.T) {
	s := newSystem(t)
	s.always = false
	b, kill := s.start(t)
	defer kill()
	for name, test := range map[string]struct {
		spec    func(*v1alpha1.VirtualImageSpec)
		volumes int
		want    virtualimages.State
		message string
	}{
		"class":  {func(*v1alpha1.VirtualImageSpec) {}, 0, virtualimages.Ready, ""},
		"never":  {func(spec *v1alpha1.VirtualImageSpec) { spec.ClusterCopy = v1alpha1.ClusterCopyNever }, 0, virtualimages.Ready, ""},
		"always": {func(spec *v1alpha1.VirtualImageSpec) { spec.ClusterCopy = v1alpha1.ClusterCopyAlways }, 1, virtualimages.Ready, ""},
		"format": {func(spec *v1alpha1.VirtualImageSpec) {
			spec.ClusterCopy, spec.Format = v1alpha1.ClusterCopyAlways, v1alpha1.FormatAMI
		}, 0, virtualimages.Failed, "set clusterCopy to Never"},
		"container": {func(spec *v1alpha1.VirtualImageSpec) {
			spec.ClusterCopy, spec.ContainerFormat = v1alpha1.ClusterCopyAlways, "ovf"
		}, 0, virtualimages.Failed, "set clusterCopy to Never"},
		"small": {func(spec *v1alpha1.VirtualImageSpec) {
			spec.ClusterCopy, spec.Storage = v1alpha1.ClusterCopyAlways, &v1alpha1.VirtualImageStorage{Resources: &v1alpha1.VirtualImageResources{}}
		}, 0, virtualimages.Failed, "it cannot be copied into the cluster: spec.storage"},
	} {
		t.Run(name, func(t *testing.T) {
			image := s.image(name, test.spec)
			if o := s.until(t, b, image, test.want); !strings.Contains(o.Message, test.message) || o.State == virtualimages.Failed && !o.Permanent {
				t.Errorf("%+v", o)
			}
			list := &cdiv1beta1.DataVolumeList{}
			must(t, s.client.List(t.Context(), list))
			if len(list.Items) != test.volumes {
				t.Errorf("%d DataVolumes", len(list.Items))
			}
			for o, err := b.Delete(t.Context(), image); o.State != virtualimages.Absent && o.State != virtualimages.Spent; o, err = b.Delete(t.Context(), image) {
				must(t, err)
			}
		})
	}
	disabled := copies.New(copies.Options{Store: s.store, Client: s.client, Clock: s})
	if o, err := disabled.Ensure(t.Context(), s.image("disabled", func(spec *v1alpha1.VirtualImageSpec) { spec.ClusterCopy = v1alpha1.ClusterCopyAlways })); err != nil || o.Reason != copies.ReasonDisabled {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestDrift: what happens to the stored image and to its copy after both were complete.
func TestDrift(t *testing.T) {
	s := newSystem(t)
	b, kill := s.start(t)
	defer kill()
	image := s.image("fedora", nil)
	s.until(t, b, image, virtualimages.Ready)
	dv := s.volume(t, image)
	must(t, s.client.Delete(t.Context(), dv)) // the copy: it is made again, with a token of its own
	if o, err := b.Observe(t.Context(), image); err != nil || o.State != virtualimages.Importing || o.Reason != virtualimages.ReasonPending {
		t.Errorf("%+v, %v", o, err)
	}
	s.now.Add(30 * 24 * 3600)
	s.until(t, b, image, virtualimages.Ready)
	if again := s.volume(t, image); again.Spec.Source.HTTP.SecretRef == dv.Spec.Source.HTTP.SecretRef {
		t.Error("the token is the one that has expired")
	}
	s.glance.Remove(image.ID)
	o, err := b.Observe(t.Context(), image)
	if err != nil || o.State != virtualimages.Absent || !o.Left || !strings.Contains(o.Message, "only its copy in the cluster is left") {
		t.Errorf("%+v, %v", o, err)
	}
	image.Attempt++ // the copy of another attempt is not that of this one
	image.ID = virtualimages.ID(image.Cluster, image.UID, image.Attempt)
	s.until(t, b, image, virtualimages.Ready)
	if url := s.volume(t, image).Spec.Source.HTTP.URL; !strings.HasSuffix(url, image.ID) {
		t.Errorf("the copy is from %s", url)
	}
}

// TestServer: what importers may read, and how.
func TestServer(t *testing.T) {
	s := newSystem(t)
	b, kill := s.start(t)
	defer kill()
	s.idle = true
	image, other := s.image("fedora", nil), s.image("debian", nil)
	for _, i := range []*backend.Image{image, other} {
		for o := s.until(t, b, i, virtualimages.Importing); !strings.Contains(o.Message, "CDI imports"); o = s.until(t, b, i, virtualimages.Importing) {
			<-time.After(10 * time.Millisecond)
		}
	}
	dv := s.volume(t, image)
	c, user, password := s.importer(t, dv)
	url, tag := dv.Spec.Source.HTTP.URL, `"`+image.ID+`"`
	get := func(method, url, user, password string, headers ...string) (*http.Response, []byte) {
		request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		must(t, err)
		if user != "" {
			request.SetBasicAuth(user, password)
		}
		for i := 0; i < len(headers); i += 2 {
			request.Header.Set(headers[i], headers[i+1])
		}
		response, err := c.Do(request)
		must(t, err)
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		must(t, err)
		return response, data
	}
	for name, test := range map[string]struct {
		method, url, user, password string
		headers                     []string
		status, length              int
	}{
		"all":                     {http.MethodGet, url, user, password, nil, 200, backendtest.DiskBytes},
		"head":                    {http.MethodHead, url, user, password, nil, 200, 0},
		"part":                    {http.MethodGet, url, user, password, []string{"Range", "bytes=4-103"}, 206, 100},
		"rest":                    {http.MethodGet, url, user, password, []string{"Range", "bytes=1048576-"}, 206, backendtest.DiskBytes - 1<<20},
		"part of this version":    {http.MethodGet, url, user, password, []string{"Range", "bytes=0-9", "If-Range", tag}, 206, 10},
		"part of another version": {http.MethodGet, url, user, password, []string{"Range", "bytes=0-9", "If-Range", `"1"`}, 200, backendtest.DiskBytes},
		"several parts":           {http.MethodGet, url, user, password, []string{"Range", "bytes=0-9,20-29"}, 416, -1},
		"end without a start":     {http.MethodGet, url, user, password, []string{"Range", "bytes=-9"}, 416, -1},
		"behind the end":          {http.MethodGet, url, user, password, []string{"Range", "bytes=99999999-"}, 502, -1},
		"write":                   {http.MethodPut, url, user, password, nil, 404, -1},
		"no token":                {http.MethodGet, url, "", "", nil, 404, -1},
		"wrong token":             {http.MethodGet, url, user, password[1:] + "A", nil, 404, -1},
		"another image":           {http.MethodGet, s.volume(t, other).Spec.Source.HTTP.URL, user, password, nil, 404, -1},
		"all images":              {http.MethodGet, s.web.URL + "/images/team/", user, password, nil, 404, -1},
		"path outside":            {http.MethodGet, s.web.URL + "/images/team/fedora/../../../v2", user, password, nil, 404, -1},
	} {
		t.Run(name, func(t *testing.T) {
			response, data := get(test.method, test.url, test.user, test.password, test.headers...) //nolint:bodyclose // get closes it
			if response.StatusCode != test.status || test.length >= 0 && len(data) != test.length {
				t.Errorf("%s, %d bytes", response.Status, len(data))
			}
			if test.status < 300 && (response.Header.Get("Accept-Ranges") != "bytes" || response.Header.Get("ETag") != tag) {
				t.Errorf("headers %v", response.Header)
			}
			if name == "head" && response.ContentLength != backendtest.DiskBytes {
				t.Errorf("length %d", response.ContentLength)
			}
		})
	}
	s.glance.SetFault(func(w http.ResponseWriter, r *http.Request, _ int) bool { // Glance breaks off
		if strings.HasSuffix(r.URL.Path, "/file") {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "half")
			panic(http.ErrAbortHandler)
		}
		return false
	})
	if data, err := s.read(t, dv); err == nil {
		t.Errorf("%d bytes are taken for all", len(data))
	}
	s.glance.SetFault(nil)
	s.now.Add(3 * 3600)
	if response, _ := get(http.MethodGet, url, user, password); response.StatusCode != http.StatusNotFound { //nolint:bodyclose // get closes it
		t.Errorf("expired: %s", response.Status)
	}
	s.now.Add(-3 * 3600)
	s.mu.Lock()
	clear(s.images) // the copies are complete
	s.mu.Unlock()
	s.now.Add(10)
	if response, _ := get(http.MethodGet, url, user, password); response.StatusCode != http.StatusNotFound { //nolint:bodyclose // get closes it
		t.Errorf("complete: %s", response.Status)
	}
}

// TestReaders: many readers of a large image at once are bounded, and so is the memory.
func TestReaders(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	s := newSystem(t)
	b, kill := s.start(t)
	defer kill()
	s.idle = true
	image := s.image("large", nil)
	for o := s.until(t, b, image, virtualimages.Importing); !strings.Contains(o.Message, "CDI imports"); o = s.until(t, b, image, virtualimages.Importing) {
		<-time.After(10 * time.Millisecond)
	}
	dv := s.volume(t, image)
	const size = 64 << 20
	part := make([]byte, 1<<20)
	held := make(chan struct{})
	s.glance.SetFault(func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if !strings.HasSuffix(r.URL.Path, "/file") {
			return false
		}
		w.Header().Set("Content-Length", fmt.Sprint(size))
		_, _ = w.Write(part)
		<-held
		for range size/len(part) - 1 {
			if _, err := w.Write(part); err != nil {
				return true
			}
		}
		return true
	})
	c, user, password := s.importer(t, dv)
	open := func() *http.Response {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, dv.Spec.Source.HTTP.URL, nil)
		must(t, err)
		request.SetBasicAuth(user, password)
		response, err := c.Do(request)
		must(t, err)
		return response
	}
	var served []*http.Response
	for range 16 {
		response := open() //nolint:bodyclose // it is read and closed below
		if response.StatusCode != http.StatusOK {
			t.Fatal(response.Status)
		}
		served = append(served, response) //nolint:bodyclose // as above
	}
	over := open()
	must(t, over.Body.Close())
	if over.StatusCode != http.StatusServiceUnavailable || over.Header.Get("Retry-After") == "" {
		t.Errorf("%s", over.Status)
	}
	before := isolated.Heap()
	close(held)
	done := make(chan int64)
	for _, response := range served {
		go func() {
			n, _ := io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			done <- n
		}()
	}
	most := before
	for left := len(served); left > 0; {
		select {
		case n := <-done:
			if left--; n != size {
				t.Errorf("%d bytes", n)
			}
		case <-time.After(20 * time.Millisecond):
			most = max(most, isolated.InUse())
		}
	}
	grown := most - before
	t.Logf("16 readers of 64 MiB, the heap grew by at most %d KiB", grown>>10)
	if grown > 32<<20 {
		t.Errorf("%d KiB", grown>>10)
	}
	for deadline := time.Now().Add(30 * time.Second); ; <-time.After(10 * time.Millisecond) { // the places are free again
		response := open()
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(response.Status)
		}
	}
}

// TestReadersEnd: a request in progress ends with its token and with the copy, however slowly it reads.
func TestReadersEnd(t *testing.T) {
	for name, end := range map[string]func(*system){
		"the token expires": func(s *system) { s.now.Add(3 * 3600) },
		"the copy ends": func(s *system) {
			s.mu.Lock()
			clear(s.images)
			s.mu.Unlock()
			s.now.Add(10)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t)
			b, kill := s.start(t)
			defer kill()
			s.idle = true
			image := s.image("large", nil)
			for o := s.until(t, b, image, virtualimages.Importing); !strings.Contains(o.Message, "CDI imports"); o = s.until(t, b, image, virtualimages.Importing) {
				<-time.After(10 * time.Millisecond)
			}
			dv, half, rest := s.volume(t, image), make([]byte, 1<<20), make(chan struct{})
			s.glance.SetFault(func(w http.ResponseWriter, r *http.Request, _ int) bool {
				if strings.HasSuffix(r.URL.Path, "/file") {
					w.Header().Set("Content-Length", fmt.Sprint(2*len(half)))
					_, _ = w.Write(half)
					_ = http.NewResponseController(w).Flush()
					<-rest
					_, _ = w.Write(half)
					return true
				}
				return false
			})
			c, user, password := s.importer(t, dv)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, dv.Spec.Source.HTTP.URL, nil)
			must(t, err)
			request.SetBasicAuth(user, password)
			response, err := c.Do(request)
			must(t, err)
			defer response.Body.Close()
			if _, err := io.ReadFull(response.Body, half[:len(half)/2]); err != nil || response.StatusCode != http.StatusOK {
				t.Fatalf("%s: %v", response.Status, err)
			}
			end(s)
			close(rest)
			if n, err := io.Copy(io.Discard, response.Body); err == nil {
				t.Errorf("%d bytes are read after the end", n)
			}
		})
	}
}
