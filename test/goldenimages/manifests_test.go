package goldenimages

import (
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	inmemory "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/test/await"
)

// registry is the registry of go-containerregistry, on loopback. It needs the credentials me and secret for private images.
type registry struct {
	*httptest.Server

	host string
	down atomic.Bool
}

func startRegistry(t *testing.T) *registry {
	t.Helper()
	r, images := &registry{}, inmemory.New(inmemory.Logger(log.New(io.Discard, "", 0)))
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		user, password, _ := request.BasicAuth()
		private := strings.HasPrefix(request.URL.Path, "/v2/private/") || request.URL.Path == "/v2/"
		switch {
		case r.down.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case request.Method == http.MethodGet && private && (user != "me" || password != "secret"):
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
		default:
			images.ServeHTTP(w, request)
		}
	}))
	t.Cleanup(r.Close)
	r.host = strings.TrimPrefix(r.URL, "http://")
	return r
}

// push stores an index with an image for each architecture.
func (r *registry) push(t *testing.T, to string, architectures ...string) {
	t.Helper()
	index := v1.ImageIndex(empty.Index)
	for _, architecture := range architectures {
		image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{Architecture: architecture, OS: "linux"})
		must(t, err)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{Architecture: architecture, OS: "linux"}}})
	}
	reference, err := name.ParseReference(r.host+"/"+to, name.Insecure)
	must(t, err)
	must(t, remote.WriteIndex(reference, index))
}

// from is an entry whose image is in the registry.
func (r *registry) from(image, architectures, secret string) v1alpha1.DataImportCronTemplate {
	e := entry(image[strings.LastIndexByte(image, '/')+1:], architectures)
	url := "docker://" + r.host + "/" + image
	e.Spec.Template.Spec.Source.Registry.URL = &url
	if secret != "" {
		e.Spec.Template.Spec.Source.Registry.SecretRef = &secret
	}
	return e
}

// verified waits for the condition ManifestVerified of an entry, as STATUS REASON.
func (f *fixture) verified(t *testing.T, of, want string) {
	t.Helper()
	f.condition(t, func(image *v1alpha1.Image) string {
		c := meta.FindStatusCondition(image.Conditions, "ManifestVerified")
		if image.Name == of+"-cron" && c != nil && string(c.Status)+" "+c.Reason == want {
			return ""
		}
		return fmt.Sprintf("%+v", image)
	})
}

// TestManifests reads manifests from a registry: for an entry without an annotation, for one that differs, with a Secret,
// without the right to read it, and while the registry is down.
func TestManifests(t *testing.T) {
	t.Parallel()
	r := startRegistry(t)
	r.push(t, "disks/fedora", "amd64", "arm64")
	r.push(t, "disks/debian", "amd64")
	r.push(t, "private/rhel", "arm64", "s390x")
	f := startWith(t, map[string]any{"goldenImages": map[string]any{"enabled": true, "registries": map[string]any{
		"networks": []any{"127.0.0.1/32"}, "interval": "2s", "credentials": []any{map[string]any{"namespace": namespace, "secrets": []any{"known"}}},
	}}})
	config := &cdiv1beta1.CDIConfig{ObjectMeta: metav1.ObjectMeta{Name: "config"}, Spec: cdiv1beta1.CDIConfigSpec{InsecureRegistries: []string{r.host}}}
	must(t, f.client.Create(t.Context(), config))
	for _, secret := range []string{"known", "other"} {
		must(t, f.client.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secret}, StringData: map[string]string{"accessKeyId": "me", "secretKey": "secret"},
		}))
	}
	f.node(t, "c1", "amd64", control, worker)
	f.node(t, "w1", "arm64", worker)
	f.watchReady(t)
	catalog := &v1alpha1.GoldenImageCatalog{ObjectMeta: metav1.ObjectMeta{Name: "site"}}
	catalog.Spec.VerifyManifest = true
	catalog.Spec.DataImportCronTemplates = []v1alpha1.DataImportCronTemplate{
		r.from("disks/fedora", "", ""), r.from("disks/debian", "amd64,arm64", ""), r.from("private/rhel", "", "known"), r.from("private/sles", "", "other"),
	}
	must(t, f.client.Create(t.Context(), catalog))

	f.verified(t, "fedora", "True Verified")
	f.verified(t, "debian", "False ArchitecturesMissing")
	f.verified(t, "rhel", "True Verified")
	f.verified(t, "sles", "Unknown CredentialsForbidden")
	all := []string{
		"cron debian-cron-amd64", "cron debian-cron-arm64", "cron fedora-cron-amd64", "cron fedora-cron-arm64", "cron rhel-cron-arm64", "cron sles-cron",
		"source debian -> debian-amd64 ready", "source debian-amd64 ready", "source debian-arm64 ready",
		"source fedora -> fedora-amd64 ready", "source fedora-amd64 ready", "source fedora-arm64 ready",
		"source rhel -> rhel-arm64 ready", "source rhel-arm64 ready", "source sles ready",
	}
	f.becomes(t, all...)
	f.eventually(t, "an event about the difference", func() bool {
		events := &corev1.EventList{}
		must(t, f.client.List(t.Context(), events))
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.Reason == "ArchitecturesMissing" && strings.HasPrefix(e.Message, "debian-cron: the entry lists [arm64]")
		})
	})
	f.documentedMetrics(t)

	t.Log("the registry is down, also for a new process: nothing changes")
	r.down.Store(true)
	must(t, f.process.Restart(t.Context()))
	f.condition(t, func(image *v1alpha1.Image) string {
		c := meta.FindStatusCondition(image.Conditions, "ManifestVerified")
		if image.Name == "fedora-cron" && c != nil && c.Status == metav1.ConditionTrue && strings.Contains(c.Message, "the last read failed") {
			return ""
		}
		return fmt.Sprintf("%+v", image)
	})
	f.becomes(t, all...)

	t.Log("it is up, and the image has one architecture more")
	r.down.Store(false)
	r.push(t, "disks/fedora", "amd64", "arm64", "s390x")
	f.node(t, "z1", "s390x", worker)
	f.eventually(t, "the third import", func() bool {
		cron := &cdiv1beta1.DataImportCron{}
		err := f.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "fedora-cron-s390x"}, cron)
		if !apierrors.IsNotFound(err) {
			must(t, err)
		}
		return err == nil
	})
	if was := f.interrupted.Load(); was != nil {
		t.Errorf("the DataSource fedora was not ready: %s", *was)
	}
	logged, err := os.ReadFile(f.process.Log())
	must(t, err)
	if strings.Contains(string(logged), "panic") || strings.Contains(string(logged), "secretKey") {
		t.Errorf("the log:\n%s", logged)
	}
}

// documentedMetrics scrapes the process, and compares the names and labels with the table in docs/metrics.md.
func (f *fixture) documentedMetrics(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	must(t, err)
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:kubevirt_hco|virtward_golden_image)[a-z_]*)(?:\\{([a-z_,]*)\\})?` \\|").FindAllStringSubmatch(string(page), -1) {
		labels := strings.Split(row[2], ",")
		slices.Sort(labels)
		documented[row[1]] = strings.Join(labels, ",")
	}
	delete(documented, "virtward_golden_image_import_failing") // no import fails
	var exposed map[string]string
	for deadline := time.Now().Add(await.Patience); time.Now().Before(deadline) && !maps.Equal(documented, exposed); time.Sleep(200 * time.Millisecond) {
		exposed = map[string]string{}
		for family, samples := range f.scrape(t) {
			if !strings.HasPrefix(family, "kubevirt_hco_") && !strings.HasPrefix(family, "virtward_golden_image") {
				continue
			}
			var labels []string
			for _, label := range samples.GetMetric()[0].GetLabel() {
				labels = append(labels, label.GetName())
			}
			slices.Sort(labels)
			exposed[family] = strings.Join(labels, ",")
		}
	}
	if !maps.Equal(documented, exposed) {
		t.Errorf("the process has the metrics\n%v\ndocumented are\n%v", exposed, documented)
	}
}
