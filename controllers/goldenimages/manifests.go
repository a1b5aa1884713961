package goldenimages

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/controllers"
	"github.com/virtward/virtward/controllers/credentials"
	"github.com/virtward/virtward/goldenimages"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/registry"
	"github.com/virtward/virtward/sources/transfers"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/texts"
)

// Reads of manifests.
const (
	// maxManifests bounds the manifests that are remembered. Images beyond it are not verified.
	maxManifests = 2000
	// perManifest is the memory of one: its key, its answer and its last error.
	perManifest = 5 << 10
	// readTimeout bounds a read, and connectTimeout each connection and answer.
	readTimeout, connectTimeout = 30 * time.Second, 10 * time.Second
	// firstRetry is the delay after a read that failed. It doubles until the interval of reads.
	firstRetry = time.Minute
	// perRead is the memory of a read: the Secret, the ConfigMap, the answers, and what is decoded of them.
	perRead = 8 << 20
)

// reads are the manifests that are read at the same time, and those of one registry.
var reads = transfers.Limits{Running: 4, Namespace: 2}

// Reasons of reads that fail, beside those of packages source and registry.
const (
	reasonForbidden = "CredentialsForbidden"
	reasonTooMany   = "TooManyManifests"
	reasonInternal  = "ReadFailed"
)

// Manifests reads the manifests of images in the background, each at an interval. Create it with NewManifests.
type Manifests struct {
	reader   client.Reader
	sources  *sources.Sources
	interval time.Duration
	clock    clock.PassiveClock
	pool     *transfers.Pool[registry.Contents]
	// ended is fired when a read ends.
	ended *controllers.Trigger

	mu      sync.Mutex
	records map[place]*record
}

// place is where a manifest is read, and with what.
type place struct{ namespace, url, secret, authorities string }

// record is what is known of a manifest.
type record struct {
	goldenimages.Manifest

	// catalogs are the generations of the catalogs that have the image.
	catalogs map[string]int64
	// next is the time of the next read, and failures counts those since the last one that succeeded. read is true after the
	// first one.
	next     time.Time
	failures int
	read     bool
}

// NewManifests returns Manifests whose reads end with the context. The reader reads the objects that catalogs name, and the
// configuration of CDI.
func NewManifests(ctx context.Context, reader client.Reader, permitted *sources.Sources, interval time.Duration, clock clock.PassiveClock) *Manifests {
	return &Manifests{
		reader: reader, sources: permitted, interval: interval, clock: clock, pool: transfers.New[registry.Contents](ctx, reads),
		ended: controllers.NewTrigger(), records: map[place]*record{},
	}
}

// of returns the manifests of the entries of a catalog that were read, and starts the reads that are due. next is the time until
// another one is due; 0 for none.
func (m *Manifests) of(catalog *v1alpha1.GoldenImageCatalog) (found map[string]goldenimages.Manifest, next time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, used, now := map[string]goldenimages.Manifest{}, map[place]bool{}, m.clock.Now()
	for i := range catalog.Spec.DataImportCronTemplates {
		entry := &catalog.Spec.DataImportCronTemplates[i]
		from := goldenimages.Registry(catalog, entry)
		if from == nil {
			continue
		}
		at := place{namespace: catalog.Spec.Namespace, url: *from.URL, secret: ptr.Deref(from.SecretRef, ""), authorities: ptr.Deref(from.CertConfigMap, "")}
		r := m.record(at)
		if r == nil {
			found[entry.Name] = goldenimages.Manifest{Failure: &goldenimages.Failure{Reason: reasonTooMany, Message: fmt.Sprintf("more than %d manifests are read", maxManifests)}}
			continue
		}
		used[at] = true
		if r.catalogs[catalog.Name] != catalog.Generation && r.failures > 0 {
			r.next = now // the author may have changed what failed
		}
		r.catalogs[catalog.Name] = catalog.Generation
		if left := m.advance(at, r, now); left > 0 && (next == 0 || left < next) {
			next = left
		}
		if r.read {
			found[entry.Name] = r.Manifest
		}
	}
	m.release(catalog.Name, func(at place) bool { return used[at] })
	return found, next
}

// record returns that of a place; nil if there are too many.
func (m *Manifests) record(at place) *record {
	r := m.records[at]
	if r == nil && len(m.records) < maxManifests && len(at.url)+len(at.secret)+len(at.authorities) < perManifest/2 {
		r = &record{catalogs: map[string]int64{}}
		m.records[at] = r
	}
	return r
}

// release forgets what a catalog does not use any more.
func (m *Manifests) release(catalog string, used func(place) bool) {
	maps.DeleteFunc(m.records, func(at place, r *record) bool {
		if !used(at) {
			delete(r.catalogs, catalog)
		}
		return len(r.catalogs) == 0 && m.pool.Forget(at.key())
	})
}

// forget forgets a catalog.
func (m *Manifests) forget(catalog string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.release(catalog, func(place) bool { return false })
}

func (p *place) key() string {
	return strings.Join([]string{p.namespace, p.url, p.secret, p.authorities}, "\x00")
}

// advance takes the result of a read that ended, and starts one that is due. left is the time until the next one; 0 while one
// runs or waits.
func (m *Manifests) advance(at place, r *record, now time.Time) (left time.Duration) {
	key := at.key()
	task, started := m.pool.Get(key)
	if started && task.Ended {
		r.note(&task, now, m.interval)
		m.pool.Forget(key)
		started = false
	}
	switch {
	case started:
		return 0
	case now.Before(r.next):
		return r.next.Sub(now)
	}
	read := func(ctx context.Context, _ *transfers.Progress) (registry.Contents, error) { return m.read(ctx, at) }
	if err := m.pool.Start(key, registry.Host(at.url), read, m.ended.Fire); err != nil {
		return firstRetry
	}
	return 0
}

// note notes the result of a read. A failure keeps the last answer.
func (r *record) note(task *transfers.Task[registry.Contents], now time.Time, interval time.Duration) {
	r.read = true
	if task.Err == nil {
		r.Manifest, r.failures, r.next = goldenimages.Manifest{Architectures: task.Result.Architectures, Variants: task.Result.Variants}, 0, now.Add(interval)
		return
	}
	r.Failure = failed(task.Err)
	r.next = now.Add(min(firstRetry<<min(r.failures, 10), interval))
	r.failures++
}

// failed is why a read failed, for the author of the catalog.
func failed(err error) *goldenimages.Failure {
	var known *web.Error
	if errors.As(err, &known) {
		return &goldenimages.Failure{Reason: known.Reason, Message: texts.Shorten(known.Message, maxMessage)}
	}
	return &goldenimages.Failure{Reason: reasonInternal, Message: texts.Shorten("reading the manifest failed: "+err.Error(), maxMessage)}
}

// read reads a manifest.
func (m *Manifests) read(ctx context.Context, at place) (registry.Contents, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	options := &web.Options{Sources: m.sources, Timeout: connectTimeout, Proxy: http.ProxyFromEnvironment}
	err := credentials.Read(ctx, m.reader, at.namespace, at.secret, at.authorities, options)
	switch {
	case apierrors.IsForbidden(err):
		return registry.Contents{}, &web.Error{Reason: reasonForbidden, Message: "Virtward may not read the Secret or the ConfigMap of the image: list them in goldenImages.registries.credentials"}
	case err != nil:
		return registry.Contents{}, err //nolint:wrapcheck // it says what was read
	}
	insecure, err := m.insecure(ctx)
	if err != nil {
		return registry.Contents{}, err
	}
	options.Insecure = registry.Insecure(at.url, insecure)
	return registry.Read(ctx, at.url, options) //nolint:wrapcheck // it is an Error of the source
}

// configName is the name of CDI's configuration.
const configName = "config"

// insecure returns the registries whose certificates CDI does not verify.
func (m *Manifests) insecure(ctx context.Context) ([]string, error) {
	config := &cdiv1beta1.CDIConfig{}
	err := m.reader.Get(ctx, client.ObjectKey{Name: configName}, config)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the configuration of CDI: %w", err)
	}
	return slices.Clone(config.Spec.InsecureRegistries), nil
}
