package ownership

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/virtward/virtward/platform"
)

// Interval is the time between two reads of the objects.
const Interval = 10 * time.Second

// readTimeout bounds the time to read the objects.
const readTimeout = 10 * time.Second

// ErrForeign is the error of a write while another component manages templates, or while it is not known who does.
var ErrForeign = errors.New("virtward does not write VM templates now")

// Watch reads who manages templates, again and again.
type Watch struct {
	client   metadata.Interface
	log      logr.Logger
	interval time.Duration
	gauge    prometheus.Gauge
	// state is nil before the first read.
	state atomic.Pointer[state]
}

// state is what the last read has found.
type state struct {
	// foreign are the objects that another component manages.
	foreign []string
	// err says why they are not known.
	err error
}

// NewWatch returns a Watch, and registers its gauge.
func NewWatch(client metadata.Interface, registry prometheus.Registerer, log logr.Logger) (*Watch, error) {
	w := &Watch{client: client, log: log, interval: Interval, gauge: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "virtward_templates_foreign_objects",
		Help: "Definitions and APIServices of VM templates that virt-operator manages. While there are any, Virtward writes no templates.",
	})}
	if err := registry.Register(w.gauge); err != nil {
		return nil, fmt.Errorf("registering a metric: %w", err)
	}
	return w, nil
}

// Run reads the objects until the context ends.
func (w *Watch) Run(ctx context.Context) error {
	ticker := time.NewTicker(w.interval)
	defer ticker.Stop()
	for {
		w.read(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// read reads the objects once. An unsuccessful read keeps what is known.
func (w *Watch) read(ctx context.Context) {
	found, err := Foreign(ctx, w.client)
	before := w.state.Load()
	if err != nil {
		if ctx.Err() == nil {
			w.log.Error(err, "could not read who manages VM templates")
		}
		if before == nil {
			w.state.Store(&state{err: err})
		}
		return
	}
	w.gauge.Set(float64(len(found)))
	known := before != nil && before.err == nil
	w.state.Store(&state{foreign: found})
	switch {
	case len(found) > 0 && (!known || !slices.Equal(before.foreign, found)):
		w.log.Info("stopped writing VM templates: virt-operator manages their objects; see who serves VM templates in docs/template-api.md", "objects", found,
			"switch", platform.TemplateSwitch)
	case len(found) == 0 && known && len(before.foreign) > 0:
		w.log.Info("writing VM templates again: virt-operator does not manage their objects")
	}
}

// Foreign returns the objects that virt-operator manages, as KIND NAME. Objects that do not exist have no manager.
func Foreign(ctx context.Context, client metadata.Interface) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var found []string
	for _, o := range platform.TemplateObjects() {
		object, err := client.Resource(o.Resource).Get(ctx, o.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", o.Kind, o.Name, err)
		}
		if platform.ManagedByVirtOperator(object.Labels) {
			found = append(found, o.Kind+" "+o.Name)
		}
	}
	return found, nil
}

// Check returns nil if Virtward manages templates, or an ErrForeign that says why it does not write.
func (w *Watch) Check() error {
	switch s := w.state.Load(); {
	case s == nil:
		return fmt.Errorf("%w: it does not know yet who manages them", ErrForeign)
	case s.err != nil:
		return fmt.Errorf("%w: %w", ErrForeign, s.err)
	case len(s.foreign) > 0:
		return fmt.Errorf("%w: virt-operator manages %s", ErrForeign, strings.Join(s.foreign, ", "))
	}
	return nil
}

// Guard returns a configuration for clients that send no writes while Check returns an error. Reads are not affected.
func (w *Watch) Guard(config *rest.Config) *rest.Config {
	guarded := rest.CopyConfig(config)
	guarded.Wrap(func(next http.RoundTripper) http.RoundTripper { return &guard{next: next, watch: w} })
	return guarded
}

// guard sends the requests of a client.
type guard struct {
	next  http.RoundTripper
	watch *Watch
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		if err := g.watch.Check(); err != nil {
			if request.Body != nil {
				_ = request.Body.Close() // as RoundTrippers must
			}
			return nil, err
		}
	}
	return g.next.RoundTrip(request)
}
