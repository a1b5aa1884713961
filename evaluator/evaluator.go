package evaluator

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/validators"
)

// Evaluator evaluates objects. It is safe for concurrent use if its sources are.
type Evaluator struct {
	Pipeline *effective.Pipeline
	// Facts of the cluster.
	Facts Facts
	// Configuration is the active configuration; nil for none.
	Configuration Configuration
	// References finds the objects that virtual machines refer to.
	References references.Objects
	// VirtualImages makes evaluations read the VirtualImages that machines use. Without it, these are unknown.
	VirtualImages bool
	// Quotas makes evaluations of requests read the ResourceQuotas of the namespace. Without it, these are unknown.
	Quotas bool

	// Decode reads objects; nil for DecodeStored, for objects whose unknown fields the API server has dropped.
	Decode Decoder
}

// Facts is a source of facts.
type Facts interface {
	// Facts returns the current facts, or nil while there are none.
	Facts() *platform.Facts
}

// Configuration is a source of the admins' configuration.
type Configuration interface {
	// Active returns the current configuration. Each part of it may be nil.
	Active() Active
	// NamespaceLabels returns the labels of a namespace, for settings and defaults that select namespaces.
	NamespaceLabels(ctx context.Context, name string) (k8slabels.Set, error)
	// Namespace returns the metadata of a namespace, for policies that read it.
	Namespace(ctx context.Context, name string) (*corev1.Namespace, error)
}

// Active is the configuration at one moment.
type Active struct {
	// Settings are the severities of rules.
	Settings *validators.Settings
	// Site has the VirtualMachineDefaults.
	Site *mutators.Site
	// Policies are the compiled policies.
	Policies *policies.Set
	// NodeArchitectures are those of the nodes that run virtual machines; nil if they are unknown.
	NodeArchitectures []string
	// Nodes are the empty nodes of the cluster; nil if they are unknown.
	Nodes *placement.Snapshot
}

// UnknownNamespaceError is the error of a Configuration for a namespace that it does not know. The evaluation continues
// without the namespace, and the Result has a warning.
type UnknownNamespaceError struct{ Err error }

func (e *UnknownNamespaceError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnknownNamespaceError) Unwrap() error { return e.Err }

// Decoder decodes JSON into a Go value. The warnings are about ignored fields. An error about a field
// is a *field.Error.
type Decoder func(object []byte, into any) (warnings []string, err error)

// ErrNoFacts is the error of Snapshot before there are facts.
var ErrNoFacts = errors.New("the KubeVirt resource has not been read yet")

// Snapshot is the facts, the configuration and the time of one moment. It is safe for concurrent use.
type Snapshot struct {
	evaluator *Evaluator
	facts     *platform.Facts
	active    Active
	now       time.Time

	mu sync.Mutex
	// namespaces caches the contexts by namespace.
	namespaces map[string]*namespaceContext
}

// Snapshot returns a snapshot of the facts, the configuration and the time. The objects that virtual machines refer to
// are not part of it: each evaluation reads them. The error is ErrNoFacts.
func (e *Evaluator) Snapshot(now time.Time) (*Snapshot, error) {
	s := &Snapshot{evaluator: e, facts: e.Facts.Facts(), now: now}
	if s.facts == nil {
		return nil, ErrNoFacts
	}
	if e.Configuration != nil {
		s.active = e.Configuration.Active()
	}
	return s, nil
}

// Facts returns the facts of the snapshot.
func (s *Snapshot) Facts() *platform.Facts { return s.facts }

// Policies returns the policies of the snapshot, or nil if there are none.
func (s *Snapshot) Policies() *policies.Set { return s.active.Policies }
