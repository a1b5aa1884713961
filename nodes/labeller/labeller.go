package labeller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/virtward/virtward/nodelabels"
)

// Manager is the field manager of the labels.
const Manager = "virtward-node-labeller"

// timeout bounds one call of the API server.
const timeout = 10 * time.Second

// Nodes is what the labeller uses of a client for nodes.
type Nodes interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Node, error)
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*corev1.Node, error)
}

// Options are the settings of a labeller.
type Options struct {
	// Node is the name of the node on which the process runs.
	Node string
	// Interval is the time between two passes. Each one waits up to a tenth longer.
	Interval time.Duration
	// Labellers are those of all hypervisors on the architecture of the node.
	Labellers []nodelabels.Named
}

// Labeller keeps the labels of one node.
type Labeller struct {
	Options

	host   *Host
	nodes  Nodes
	clock  clock.Clock
	log    logr.Logger
	passes *prometheus.CounterVec

	mu   sync.Mutex
	last error
	// labelled is when the labels last were as they should be; zero for never.
	labelled time.Time
}

// New returns a labeller that has not read anything yet.
func New(o Options, host *Host, nodes Nodes, clock clock.Clock, log logr.Logger, registry prometheus.Registerer) (*Labeller, error) {
	switch {
	case o.Node == "":
		return nil, errors.New("the name of the node is empty")
	case o.Interval < time.Second:
		return nil, fmt.Errorf("an interval of %s is shorter than a second", o.Interval)
	}
	passes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "virtward_node_labeller_passes_total", Help: "Comparisons of the labels of the node with what the node can do, by result.",
	}, []string{"result"})
	if err := registry.Register(passes); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	for _, result := range []string{resultUnchanged, resultChanged, resultFailed} {
		passes.WithLabelValues(result)
	}
	return &Labeller{Options: o, host: host, nodes: nodes, clock: clock, log: log, passes: passes}, nil
}

// Results of a pass.
const (
	resultUnchanged = "unchanged"
	resultChanged   = "changed"
	resultFailed    = "failed"
)

// Run labels the node until the context ends.
func (l *Labeller) Run(ctx context.Context) error {
	for {
		changed, err := l.Pass(ctx)
		l.record(changed, err)
		wait := l.Interval + rand.N(l.Interval/10+1) //nolint:gosec // it spreads the requests of nodes, and is no secret
		select {
		case <-ctx.Done():
			return nil
		case <-l.clock.After(wait):
		}
	}
}

func (l *Labeller) record(changed bool, err error) {
	result := resultUnchanged
	switch {
	case err != nil:
		result = resultFailed
		l.log.Error(err, "the node is not labelled")
	case changed:
		result = resultChanged
		l.log.Info("labelled the node")
	}
	l.passes.WithLabelValues(result).Inc()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last = err; err == nil {
		l.labelled = l.clock.Now()
	}
}

// Ready returns an error until the node was labelled, and if the labels were not compared for three intervals.
func (l *Labeller) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.labelled.IsZero() && l.last == nil:
		return errors.New("the node was not read yet")
	case l.last != nil && (l.labelled.IsZero() || l.clock.Since(l.labelled) > 3*l.Interval):
		return l.last
	}
	return nil
}

// Pass compares the labels of the node with its facts once, and reports whether it changed some.
func (l *Labeller) Pass(ctx context.Context) (changed bool, err error) {
	facts, err := l.host.Facts(l.devices())
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*timeout)
	defer cancel()
	node, err := l.nodes.Get(ctx, l.Node, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("reading the node: %w", err)
	}
	if facts.Allocatable = node.Status.Allocatable; facts.Allocatable == nil {
		facts.Allocatable = corev1.ResourceList{}
	}
	labels := nodelabels.Own(facts, l.Labellers)
	before := maps.Clone(node.Labels)
	maps.DeleteFunc(before, func(key, _ string) bool { return !nodelabels.IsOwn(key) })
	if maps.Equal(before, labels) {
		return false, nil
	}
	patch, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": l.Node, "labels": labels}})
	if err != nil {
		return false, err
	}
	if _, err := l.nodes.Patch(ctx, l.Node, types.ApplyPatchType, patch, metav1.PatchOptions{FieldManager: Manager, Force: ptr.To(true)}); err != nil {
		return false, fmt.Errorf("labelling the node: %w", err)
	}
	return true, nil
}

// devices are the names of the devices of all hypervisors.
func (l *Labeller) devices() []string {
	var names []string
	for _, h := range l.Labellers {
		for _, d := range h.Labeller.Devices() {
			names = append(names, nodelabels.DeviceName(d.Resource))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
