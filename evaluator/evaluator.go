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
	// Configuration that is active; nil for none.
	Configuration Configuration
	// References finds the objects that virtual machines refer to.
	References references.Objects
	// Decode reads objects; nil to read what an API server stores, which has dropped unknown fields.
	Decode Decoder
}

// Facts are a source of what is known of the cluster.
type Facts interface {
	// Facts returns the present facts; nil while there are none.
	Facts() *platform.Facts
}

// Configuration is a source of what admins have configured.
type Configuration interface {
	// Active returns the configuration of this moment. Each part of it may be nil.
	Active() Active
	// NamespaceLabels returns the labels of a namespace, for settings and defaults that select namespaces.
	NamespaceLabels(ctx context.Context, name string) (k8slabels.Set, error)
	// Namespace returns the metadata of a namespace, for policies that read it.
	Namespace(ctx context.Context, name string) (*corev1.Namespace, error)
}

// Active is the configuration of a moment.
type Active struct {
	// Settings are the severities of rules.
	Settings *validators.Settings
	// Site are the defaults of virtual machines.
	Site *mutators.Site
	// Policies are the compiled policies.
	Policies *policies.Set
}

// UnknownNamespaceError is an error of a Configuration that does not know a namespace and that is to be evaluated
// without. The Result warns of it.
type UnknownNamespaceError struct{ Err error }

func (e *UnknownNamespaceError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnknownNamespaceError) Unwrap() error { return e.Err }

// Decoder reads JSON into a value of its Go type. The warnings are about fields that it ignores. An error about a field
// is a *field.Error.
type Decoder func(object []byte, into any) (warnings []string, err error)

// ErrNoFacts is the error of a Snapshot before the cluster is known.
var ErrNoFacts = errors.New("the KubeVirt resource has not been read yet")

// Snapshot is the state of one moment, under which objects are evaluated. It is safe for concurrent use.
type Snapshot struct {
	evaluator *Evaluator
	facts     *platform.Facts
	active    Active
	now       time.Time

	mu sync.Mutex
	// namespaces are the surroundings that were found so far, by namespace.
	namespaces map[string]*surroundings
}

// Snapshot freezes the facts, the configuration and the time. The objects that virtual machines refer to are read as
// they are when a request is evaluated. The error is ErrNoFacts.
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

// Facts are those of the snapshot.
func (s *Snapshot) Facts() *platform.Facts { return s.facts }

// Policies are those of the snapshot; nil for none.
func (s *Snapshot) Policies() *policies.Set { return s.active.Policies }
