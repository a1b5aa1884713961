package glance_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/controllers/virtualimages/glance"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/transfers"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/test/glances"
	"github.com/virtward/virtward/test/isolated"
	"github.com/virtward/virtward/test/soak"
	"github.com/virtward/virtward/virtualimages"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// disk is a QCOW2 of 3 MiB with a header that can be imported.
var disk = func() []byte {
	data := make([]byte, 3<<20)
	copy(data, "QFI\xfb\x00\x00\x00\x03")
	data[30] = 1 // the virtual size
	for i := 200; i < len(data); i++ {
		data[i] = byte(i * 7)
	}
	return data
}()

// files is a server of files.
func files(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/disk", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(disk))
	})
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<!DOCTYPE html><html></html>") })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) { // the rest never arrives
		if r.Header.Get("Range") != "" {
			w.Header().Set("ETag", `"2"`)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(disk))
			return
		}
		w.Header().Set("ETag", `"2"`)
		w.Header().Set("Content-Length", fmt.Sprint(len(disk)))
		_, _ = w.Write(disk[:1<<20])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	versions := atomic.Int64{}
	mux.HandleFunc("/changes", func(w http.ResponseWriter, r *http.Request) { // each time another version
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, versions.Add(1)))
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(disk))
	})
	mux.HandleFunc("/midway", func(w http.ResponseWriter, r *http.Request) { // it breaks off, and then there is another version
		if r.Header.Get("If-Range") != "" {
			w.Header().Set("ETag", `"2"`)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(disk))
			return
		}
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("Range") != "" {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(disk))
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(disk)))
		_, _ = w.Write(disk[:2<<20])
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("/truncated", func(w http.ResponseWriter, r *http.Request) { // without ranges: it cannot continue
		w.Header().Set("Content-Length", fmt.Sprint(len(disk)))
		_, _ = w.Write(disk[:2<<20])
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// cloud is a Glance, real or not, and a source.
type cloud struct {
	endpoint, web string
	// headers are sent with each request.
	headers map[string]string
	images  int
}

// backend is a new process.
func (c *cloud) backend(t *testing.T, change ...func(*glance.Options)) (*glance.Backend, context.CancelFunc) {
	t.Helper()
	client := glance.Open(loginOf(fmt.Sprintf("clouds: {test: {auth_type: none, image_endpoint_override: %q}}", c.endpoint)))
	if c.headers != nil {
		provider := &gophercloud.ProviderClient{HTTPClient: http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}}
		client = glance.NewClient(&gophercloud.ServiceClient{ProviderClient: provider, Endpoint: c.endpoint, ResourceBase: c.endpoint + "v2/", MoreHeaders: c.headers})
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	options := glance.Options{
		Client: client, Streams: transfers.New[struct{}](ctx, transfers.Limits{Running: 2, Namespace: 2}),
		Source: func(context.Context, *backend.Image) (*web.Client, error) {
			return web.New(web.Options{Sources: &sources.Sources{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}, Timeout: 5 * time.Second, Stall: 2 * time.Second})
		},
	}
	for _, f := range change {
		f(&options)
	}
	return glance.New(options), cancel
}

func (c *cloud) image(path string, change ...func(*backend.Image)) *backend.Image {
	c.images++
	image := &backend.Image{
		Cluster: "cluster-1", Namespace: "shop", Name: "disk", UID: types.UID(fmt.Sprintf("uid-%d", c.images)), Attempt: 1,
		Spec: v1alpha1.VirtualImageSpec{Src: c.web + path, Format: v1alpha1.FormatQCOW2, ContainerFormat: v1alpha1.ContainerBare, MinDisk: new(int32(2)), MinRAM: new(int32(512))},
	}
	for _, f := range change {
		f(image)
	}
	image.ID = virtualimages.ID(image.Cluster, image.UID, image.Attempt)
	return image
}

// until calls Ensure as the controller does, until a state is reached.
func until(t *testing.T, b *glance.Backend, image *backend.Image, states ...virtualimages.State) virtualimages.Observation {
	t.Helper()
	var last virtualimages.Observation
	var err error
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		if last, err = b.Ensure(t.Context(), image); err != nil {
			continue
		}
		if slices.Contains(states, last.State) {
			return last
		}
	}
	t.Fatalf("%+v, %v: want %v", last, err, states)
	return last
}

// remove calls Delete until it is complete.
func remove(t *testing.T, b *glance.Backend, image *backend.Image) {
	t.Helper()
	var last virtualimages.Observation
	var err error
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		if last, err = b.Delete(t.Context(), image); err == nil && (last.State == virtualimages.Absent || last.State == virtualimages.Spent) {
			return
		}
	}
	t.Fatalf("%+v, %v", last, err)
}

// call calls Glance as an admin of the cloud.
func (c *cloud) call(t *testing.T, method, path, kind, body string) (int, map[string]any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, c.endpoint+"v2/"+path, strings.NewReader(body))
	must(t, err)
	request.Header.Set("Content-Type", kind)
	for name, value := range c.headers {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	object := map[string]any{}
	_ = json.NewDecoder(response.Body).Decode(&object) // an error has no object
	return response.StatusCode, object
}

// settled waits until Glance has ended the tasks of an image: a task saves the image once more after it is active, and a change
// before that is lost.
func (c *cloud) settled(t *testing.T, image *backend.Image) {
	t.Helper()
	running := func() bool {
		_, found := c.call(t, http.MethodGet, "images/"+image.ID+"/tasks", "", "")
		tasks, _ := found["tasks"].([]any)
		return slices.ContainsFunc(tasks, func(task any) bool {
			status, _ := task.(map[string]any)["status"].(string)
			return status != "success" && status != "failure"
		})
	}
	for deadline := time.Now().Add(30 * time.Second); running(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the tasks of the image do not end")
		}
	}
}

func (c *cloud) count(t *testing.T) int {
	t.Helper()
	_, list := c.call(t, http.MethodGet, "images", "", "")
	images, _ := list["images"].([]any)
	return len(images)
}

// TestContract runs against the fake.
func TestContract(t *testing.T) {
	f := glances.NewFake(t)
	contract(t, &cloud{endpoint: f.URL + "/", web: files(t)})
}

// TestContractOfGlance runs against a real Glance.
func TestContractOfGlance(t *testing.T) {
	contract(t, &cloud{endpoint: glances.Start(t), web: files(t), headers: glances.Identity})
}

// contract is what every Glance does.
func contract(t *testing.T, c *cloud) {
	t.Run("behaviors of every backend", c.behaviors)
	t.Run("life", c.life)
	t.Run("taken identifier", c.taken)
	t.Run("interrupted", c.interrupted)
	t.Run("sources that fail", c.failing)
	t.Run("protected", c.protected)
	t.Run("deactivated and deleted by others", c.drift)
	t.Run("web-download", c.webDownload)
	t.Run("many", c.many)
}

func (c *cloud) life(t *testing.T) {
	b, _ := c.backend(t)
	sum := sha256.Sum256(disk)
	image := c.image("/disk", func(i *backend.Image) { i.Spec.Checksum = "sha256:" + hex.EncodeToString(sum[:]) })
	if o, err := b.Observe(t.Context(), image); err != nil || o.State != virtualimages.Absent {
		t.Fatalf("%+v, %v", o, err)
	}
	ready := until(t, b, image, virtualimages.Ready, virtualimages.Failed)
	stored := sha512.Sum512(disk)
	if ready.State != virtualimages.Ready || ready.SizeBytes != int64(len(disk)) || ready.Checksum != "sha512:"+hex.EncodeToString(stored[:]) {
		t.Fatalf("%+v", ready)
	}
	_, found := c.call(t, http.MethodGet, "images/"+image.ID, "", "")
	for name, want := range map[string]any{
		"name": "disk", "disk_format": "qcow2", "container_format": "bare", "min_disk": 2.0, "min_ram": 512.0, "visibility": "public", "protected": false, "virtward_owner": "cluster-1/" + string(image.UID),
	} {
		if found[name] != want {
			t.Errorf("%s is %v, want %v", name, found[name], want)
		}
	}
	other, _ := c.backend(t) // another process
	if o, err := other.Observe(t.Context(), image); err != nil || o.State != virtualimages.Ready {
		t.Errorf("%+v, %v", o, err)
	}
	if count := c.count(t); count != 1 {
		t.Errorf("%d images", count)
	}
	remove(t, b, image)
	remove(t, b, image) // again
	if o, err := b.Ensure(t.Context(), image); err != nil || o.State != virtualimages.Spent {
		t.Errorf("Glance keeps the identifier: %+v, %v", o, err)
	}
	if count := c.count(t); count != 0 {
		t.Errorf("%d images are left", count)
	}
}

func (c *cloud) taken(t *testing.T) {
	b, _ := c.backend(t)
	image := c.image("/disk")
	if status, _ := c.call(t, http.MethodPost, "images", "application/json", fmt.Sprintf(`{"id": %q, "name": "theirs", "disk_format": "raw", "container_format": "bare", "virtward_owner": "other"}`, image.ID)); status != http.StatusCreated {
		t.Fatal(status)
	}
	if o := until(t, b, image, virtualimages.Taken); !strings.Contains(o.Message, image.ID) {
		t.Errorf("%+v", o)
	}
	if o, err := b.Delete(t.Context(), image); err != nil || o.State != virtualimages.Absent {
		t.Errorf("%+v, %v", o, err)
	}
	if status, found := c.call(t, http.MethodGet, "images/"+image.ID, "", ""); status != http.StatusOK || found["status"] != "queued" {
		t.Errorf("the image of others: %d, %v", status, found)
	}
	c.call(t, http.MethodDelete, "images/"+image.ID, "", "")
}

// interrupted: the process ends during a transfer. The next attempt succeeds, and one image is left.
func (c *cloud) interrupted(t *testing.T) {
	b, kill := c.backend(t)
	image := c.image("/slow")
	for until(t, b, image, virtualimages.Importing).Done == 0 {
		<-time.After(20 * time.Millisecond)
	}
	kill()
	next, _ := c.backend(t)
	image.Spec.Src = c.web + "/disk"
	o := until(t, next, image, virtualimages.Failed, virtualimages.Ready)
	if o.State == virtualimages.Failed {
		if o.Permanent || o.Reason != glance.ReasonInterrupted {
			t.Errorf("%+v", o)
		}
		remove(t, next, image)
		image.Attempt++
		image.ID = virtualimages.ID(image.Cluster, image.UID, image.Attempt)
		o = until(t, next, image, virtualimages.Ready)
	}
	if count := c.count(t); count != 1 || o.SizeBytes != int64(len(disk)) {
		t.Errorf("%d images, %+v", count, o)
	}
	remove(t, next, image)
}

func (c *cloud) failing(t *testing.T) {
	b, _ := c.backend(t)
	for path, want := range map[string]virtualimages.Observation{
		"/page":      {Reason: web.ReasonFormatMismatch, Permanent: true},
		"/none":      {Reason: web.ReasonNotFound},
		"/truncated": {Reason: web.ReasonTruncated},
		"/changes":   {Reason: web.ReasonChanged},
		"/midway":    {Reason: web.ReasonChanged},
		"/disk":      {Reason: web.ReasonChecksumMismatch, Permanent: true},
	} {
		image := c.image(path, func(i *backend.Image) { i.Spec.Checksum = "sha256:" + strings.Repeat("0", 64) })
		o := until(t, b, image, virtualimages.Failed, virtualimages.Ready)
		if o.State != virtualimages.Failed || o.Reason != want.Reason || o.Permanent != want.Permanent {
			t.Errorf("%s: %+v", path, o)
		}
		<-time.After(100 * time.Millisecond)
		if _, found := c.call(t, http.MethodGet, "images/"+image.ID, "", ""); found["status"] == "active" {
			t.Errorf("%s: a file that is not valid is imported: %v", path, found)
		}
		remove(t, b, image)
	}
	if count := c.count(t); count != 0 {
		t.Errorf("%d images are left", count)
	}
}

func (c *cloud) protected(t *testing.T) {
	const patch = "application/openstack-images-v2.1-json-patch"
	b, _ := c.backend(t)
	image := c.image("/disk")
	until(t, b, image, virtualimages.Ready)
	c.settled(t, image)
	c.call(t, http.MethodPatch, "images/"+image.ID, patch, `[{"op": "replace", "path": "/protected", "value": true}]`)
	if o, err := b.Delete(t.Context(), image); err != nil || o.State != virtualimages.Blocked || o.Reason != glance.ReasonProtected {
		t.Errorf("%+v, %v", o, err)
	}
	own, _ := c.backend(t, func(o *glance.Options) { o.Protected, o.Visibility = true, glance.Shared })
	remove(t, own, image)
	image = c.image("/disk")
	until(t, own, image, virtualimages.Ready)
	if _, found := c.call(t, http.MethodGet, "images/"+image.ID, "", ""); found["protected"] != true || found["visibility"] != "shared" {
		t.Errorf("%v", found)
	}
	remove(t, own, image)
}

func (c *cloud) drift(t *testing.T) {
	b, _ := c.backend(t)
	image := c.image("/disk")
	until(t, b, image, virtualimages.Ready)
	c.settled(t, image)
	if status, _ := c.call(t, http.MethodPost, "images/"+image.ID+"/actions/deactivate", "", ""); status != http.StatusNoContent {
		t.Fatal(status)
	}
	if o, err := b.Observe(t.Context(), image); err != nil || o.State != virtualimages.Deactivated {
		t.Errorf("%+v, %v", o, err)
	}
	c.call(t, http.MethodDelete, "images/"+image.ID, "", "")
	if o, err := b.Observe(t.Context(), image); err != nil || o.State != virtualimages.Absent {
		t.Errorf("%+v, %v", o, err)
	}
}

func (c *cloud) webDownload(t *testing.T) {
	b, _ := c.backend(t, func(o *glance.Options) {
		o.WebDownload = true
		o.Source = func(context.Context, *backend.Image) (*web.Client, error) {
			return nil, &web.Error{Reason: "Streamed", Message: "the process streams", Permanent: true}
		}
	})
	image := c.image("/disk")
	if o := until(t, b, image, virtualimages.Ready, virtualimages.Failed); o.State != virtualimages.Ready || o.SizeBytes != int64(len(disk)) {
		t.Errorf("%+v", o)
	}
	remove(t, b, image)
	image = c.image("/none")
	if o := until(t, b, image, virtualimages.Failed); o.Reason != glance.ReasonImportFailed || o.Permanent {
		t.Errorf("%+v", o)
	}
	remove(t, b, image)
	image = c.image("/disk", func(i *backend.Image) { i.Spec.Checksum = "sha256:" + strings.Repeat("0", 64) })
	if o := until(t, b, image, virtualimages.Failed); o.Reason != glance.ReasonNoChecksum || !o.Permanent {
		t.Errorf("%+v", o)
	}
	image = c.image("/disk", func(i *backend.Image) { i.Spec.SecretRef = "credentials" }) // the process streams this one
	if o := until(t, b, image, virtualimages.Failed); o.Reason != "Streamed" {
		t.Errorf("%+v", o)
	}
	remove(t, b, image)
}

// many images are imported at the same time; two are transferred at once.
func (c *cloud) many(t *testing.T) {
	begin := make(chan struct{}) // no transfer ends before all images are ensured
	b, _ := c.backend(t, func(o *glance.Options) {
		open := o.Source
		o.Source = func(ctx context.Context, image *backend.Image) (*web.Client, error) {
			<-begin
			return open(ctx, image)
		}
	})
	images := make([]*backend.Image, 12)
	waited := false
	for i := range images {
		images[i] = c.image("/disk")
		o, err := b.Ensure(t.Context(), images[i])
		must(t, err)
		waited = waited || o.State == virtualimages.Waiting && strings.Contains(o.Message, "are ahead")
	}
	close(begin)
	if !waited {
		t.Error("no import waits")
	}
	for _, image := range images {
		until(t, b, image, virtualimages.Ready)
	}
	if count := c.count(t); count != len(images) {
		t.Errorf("%d images", count)
	}
	for _, image := range images {
		remove(t, b, image)
	}
}

// TestEachCallFails: each call fails once, answered or not, before or after it has had its effect. The end is the same.
func TestEachCallFails(t *testing.T) {
	f := glances.NewFake(t)
	c := &cloud{endpoint: f.URL + "/", web: files(t)}
	life := func(name string) {
		b, _ := c.backend(t)
		image := c.image("/disk")
		for {
			o := until(t, b, image, virtualimages.Ready, virtualimages.Failed, virtualimages.Spent)
			if o.State == virtualimages.Ready {
				break
			}
			if o.Permanent || image.Attempt > 2 {
				t.Fatalf("%s: attempt %d: %+v", name, image.Attempt, o)
			}
			remove(t, b, image)
			image.Attempt++
			image.ID = virtualimages.ID(image.Cluster, image.UID, image.Attempt)
		}
		if count := c.count(t); count != 1 {
			t.Errorf("%s: %d images", name, count)
		}
		remove(t, b, image)
		if count := c.count(t); count != 0 {
			t.Errorf("%s: %d images are left", name, count)
		}
	}
	life("undisturbed")
	f.Mu.Lock()
	kinds := map[string]bool{}
	for _, call := range f.Calls {
		kinds[kindOf(call)] = true
	}
	f.Mu.Unlock()
	if len(kinds) < 7 {
		t.Fatalf("calls: %v", kinds)
	}
	serve := f.Config.Handler
	for kind := range kinds {
		for _, how := range []string{"500", "dropped", "answer lost"} {
			var done atomic.Bool
			f.Mu.Lock()
			f.Fault = func(w http.ResponseWriter, r *http.Request, _ int) bool {
				if kindOf(r.Method+" "+r.URL.Path) != kind || r.URL.Path == "/v2/images" && r.Method == http.MethodGet || done.Swap(true) {
					return false
				}
				switch how {
				case "500":
					http.Error(w, "", http.StatusInternalServerError)
				case "answer lost":
					serve.ServeHTTP(httptest.NewRecorder(), r) // done is set: it is not answered again
					fallthrough
				default:
					panic(http.ErrAbortHandler)
				}
				return true
			}
			f.Mu.Unlock()
			life(kind + ", " + how)
			if !done.Load() && kind != "GET images" {
				t.Errorf("%s was not called", kind)
			}
		}
	}
}

func kindOf(call string) string {
	method, path, _ := strings.Cut(call, " ")
	parts := strings.Split(strings.TrimPrefix(path, "/v2/"), "/")
	if len(parts) > 1 && parts[0] == "images" {
		parts[1] = "ID"
	}
	return method + " " + strings.Join(parts, "/")
}

// TestAnswers: what Glance answers, and what the owner of the image reads.
func TestAnswers(t *testing.T) {
	for name, s := range map[string]struct {
		call    string
		status  int
		body    string
		methods []string
		want    virtualimages.Observation
	}{
		"visibility is forbidden": {call: "POST images", status: 403, want: virtualimages.Observation{State: virtualimages.Failed, Reason: glance.ReasonForbidden, Permanent: true, Message: "Glance does not permit images with the visibility public: an admin can permit it or set another one"}},
		"too many images":         {call: "POST images", status: 413, want: virtualimages.Observation{State: virtualimages.Failed, Reason: glance.ReasonQuota, Message: "the quota of the project in Glance is exhausted"}},
		"rejected": {
			call: "POST images", status: 400, body: "<html>\n<head></head><body><h1>400 Bad Request</h1>\nInvalid disk format<br /><br />\n</body>\n</html>",
			want: virtualimages.Observation{State: virtualimages.Failed, Reason: glance.ReasonInvalid, Permanent: true, Message: "Glance rejects the image: Invalid disk format"},
		},
		"file is too large": {call: "PUT images/ID/stage", status: 413, want: virtualimages.Observation{State: virtualimages.Failed, Reason: glance.ReasonQuota, Message: "Glance does not accept the file: the quota of the project is exhausted, or the file is too large"}},
		"stage fails":       {call: "PUT images/ID/stage", status: 503, want: virtualimages.Observation{State: virtualimages.Failed, Reason: glance.ReasonInterrupted, Message: "the transfer to Glance failed: it answers 503 Service Unavailable"}},
		"no import":         {methods: []string{"web-download"}, want: virtualimages.Observation{State: virtualimages.Waiting, Reason: glance.ReasonNoMethod, Message: "Glance does not have the import method glance-direct: an admin must enable it"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := glances.NewFake(t)
			if s.methods != nil {
				f.Methods = s.methods
			}
			f.Fault = func(w http.ResponseWriter, r *http.Request, _ int) bool {
				if s.call == "" || kindOf(r.Method+" "+r.URL.Path) != s.call {
					return false
				}
				w.WriteHeader(s.status)
				_, _ = io.WriteString(w, s.body)
				return true
			}
			c := &cloud{endpoint: f.URL + "/", web: files(t)}
			b, _ := c.backend(t)
			o := until(t, b, c.image("/disk"), s.want.State)
			for deadline := time.Now().Add(30 * time.Second); o.Reason != s.want.Reason && time.Now().Before(deadline); {
				o = until(t, b, c.image("/disk"), s.want.State)
			}
			if o.Done, o.Total, o.InBytes = 0, 0, false; o != s.want {
				t.Errorf("got  %+v\nwant %+v", o, s.want)
			}
		})
	}
}

// large is a server of a file of a number of MiB.
func large(t *testing.T, size int) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		if _, err := w.Write(disk[:1<<20]); err != nil {
			return
		}
		for range size>>20 - 1 {
			if _, err := w.Write(disk[1<<20 : 2<<20]); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestSoakGlance streams 1 GiB to a real Glance. The memory includes that of the server of the file.
func TestSoakGlance(t *testing.T) {
	soak.Only(t)
	const size, most = 1 << 30, 80_000
	c := &cloud{endpoint: glances.Start(t), headers: glances.Identity, web: large(t, size)}
	b, _ := c.backend(t)
	image := c.image("/")
	began, highest := time.Now(), 0
	for o := until(t, b, image, virtualimages.Importing, virtualimages.Failed); o.State != virtualimages.Ready; o = until(t, b, image, virtualimages.Importing, virtualimages.Ready, virtualimages.Failed) {
		if highest = max(highest, resident(t)); o.State == virtualimages.Failed {
			t.Fatalf("%+v", o)
		}
	}
	_, found := c.call(t, http.MethodGet, "images/"+image.ID, "", "")
	t.Logf("1 GiB in %s, RssAnon at most %d MB", time.Since(began).Round(time.Second), highest/1000)
	if highest > most || found["size"] != float64(size) {
		t.Errorf("%d kB, the image has %v bytes", highest, found["size"])
	}
	remove(t, b, image)
}

// TestSoakMembers is why files are not uploaded to Glance: with its own policies, who may upload the file of an image must be a
// member of the project of Virtward's account, and each member may delete the images of all namespaces.
func TestSoakMembers(t *testing.T) {
	soak.Only(t)
	endpoint := glances.StartStrict(t)
	account := func(user, project, roles string) *cloud {
		return &cloud{endpoint: endpoint, web: files(t), headers: map[string]string{"X-Identity-Status": "Confirmed", "X-User-Id": user, "X-Project-Id": project, "X-Roles": roles}}
	}
	virtward, stranger, member := account("virtward", "images", "admin,member,reader"), account("stranger", "shop", "member,reader"), account("member", "images", "member,reader")
	b, _ := virtward.backend(t)
	other := virtward.image("/disk", func(i *backend.Image) { i.Namespace = "other" })
	until(t, b, other, virtualimages.Ready)
	waiting := virtward.image("", func(i *backend.Image) { i.Spec.Src, i.Spec.Upload = "", &v1alpha1.VirtualImageUpload{} })
	if o, err := b.Ensure(t.Context(), waiting); err != nil || o.State != virtualimages.Failed || !o.Permanent || o.Reason != glance.ReasonNoUploads {
		t.Errorf("%+v, %v", o, err)
	}
	status, _ := virtward.call(t, http.MethodPost, "images", "application/json", fmt.Sprintf(`{"id": %q, "name": "waiting", "disk_format": "raw", "container_format": "bare", "visibility": "public"}`, waiting.ID))
	if status != http.StatusCreated {
		t.Fatal(status)
	}
	for _, test := range []struct {
		name string
		as   *cloud
		want int
	}{{"an account of another project", stranger, http.StatusForbidden}, {"a member of the project", member, http.StatusNoContent}} {
		if status, _ := test.as.call(t, http.MethodPut, "images/"+waiting.ID+"/stage", "application/octet-stream", "data"); status != test.want {
			t.Errorf("%s stages the file: %d", test.name, status)
		}
		if status, _ := test.as.call(t, http.MethodDelete, "images/"+other.ID, "", ""); status != test.want {
			t.Errorf("%s deletes the image of another namespace: %d", test.name, status)
		}
	}
}

// resident is the memory of this process in kB, without its binary.
func resident(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	must(t, err)
	_, after, _ := strings.Cut(string(status), "RssAnon:")
	kilobytes, err := strconv.Atoi(strings.Fields(after)[0])
	must(t, err)
	return kilobytes
}

// TestMemory streams a file of 512 MiB: memory has no more than buffers.
func TestMemory(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	const size = 512 << 20
	f := glances.NewFake(t)
	var received atomic.Int64
	f.Fault = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if kindOf(r.Method+" "+r.URL.Path) != "PUT images/ID/stage" {
			return false
		}
		n, err := io.Copy(io.Discard, r.Body)
		if received.Store(n); err == nil {
			f.Mu.Lock()
			f.Images[strings.Split(r.URL.Path, "/")[3]]["status"] = "uploading"
			f.Mu.Unlock()
			w.WriteHeader(http.StatusNoContent)
		}
		return true
	}
	c := &cloud{endpoint: f.URL + "/", web: large(t, size)}
	b, _ := c.backend(t)
	image := c.image("/")
	before := isolated.Heap()
	most := before
	until(t, b, image, virtualimages.Importing)
	for o, err := b.Observe(t.Context(), image); err == nil && o.State == virtualimages.Importing && received.Load() == 0; o, err = b.Observe(t.Context(), image) {
		most = max(most, isolated.InUse())
		<-time.After(20 * time.Millisecond)
	}
	until(t, b, image, virtualimages.Ready)
	grown := most - before
	t.Logf("%d MiB streamed, the heap grew by at most %d KiB", received.Load()>>20, grown>>10)
	if received.Load() != size || grown > 16<<20 {
		t.Errorf("%d bytes, %d KiB", received.Load(), grown>>10)
	}
}
