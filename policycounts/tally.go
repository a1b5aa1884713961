package policycounts

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/virtward/virtward/policies"
)

// Bounds of what is counted for a policy.
const (
	// MaxFailures bounds the pairs of an expression and a reason. Further ones count for the whole policy.
	MaxFailures = 16
	// MaxNamespaces bounds the namespaces that are distinguished.
	MaxNamespaces = 32
	// TallyBytes is the most memory of a Tally, in bytes: its failures, its namespaces, and the rest. Fields are texts of
	// the compiled policy.
	TallyBytes = MaxFailures*96 + 2*MaxNamespaces*8 + 192
)

// wholePolicy is the field of failures that are not those of an expression, and of denials.
const wholePolicy = "spec"

// Denied is the reason of a Failure that counts the requests which the policy denied. It is not one of
// policies.FailureReasons: the requests violate the policy, or it cannot be evaluated.
const Denied = "denied"

// reasons are those of Failures.
func reasons() []string { return append(policies.FailureReasons(), Denied) }

// Tally counts the evaluations of one policy. It is safe for concurrent use. Create it with NewTally.
type Tally struct {
	seed maphash.Seed

	mu                    sync.Mutex
	evaluations, overruns int64
	failures              []Failure
	// evaluated has hashes of the namespaces in which the policy was evaluated, and overrun of those in which it exceeded
	// its units. Both are only about ordinary objects.
	evaluated, overrun []uint64
}

// Failure is an expression that failed for a reason, or a policy that denied requests.
type Failure struct {
	// Field of the policy: spec.validations[0].expression.
	Field string `json:"field"`
	// Reason is one of policies.FailureReasons, or Denied.
	Reason string `json:"reason"`
	// Count is the number of evaluations in which it failed.
	Count int64 `json:"count"`
	// First and Last are the times of the first and the last failure, in seconds since 1970.
	First int64 `json:"first"`
	Last  int64 `json:"last"`
}

var _ policies.Recorder = (*Tally)(nil)

// NewTally returns a Tally without counts.
func NewTally() *Tally { return &Tally{seed: maphash.MakeSeed()} }

// Record implements policies.Recorder.
func (t *Tally) Record(o policies.Outcome) {
	namespace := maphash.String(t.seed, o.Namespace)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range o.Failures {
		t.fail(o.Failures[i].Field, o.Failures[i].Reason, o.At)
	}
	if o.Large || skipped(o.Failures) {
		return
	}
	t.evaluations++
	t.evaluated = with(t.evaluated, namespace)
	if o.Overrun {
		t.overruns++
		t.overrun = with(t.overrun, namespace)
	}
}

// Denied implements policies.Recorder.
func (t *Tally) Denied(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fail(wholePolicy, Denied, at)
}

// skipped reports whether a policy was not evaluated: it does not count as an evaluation within its limits.
func skipped(failures []policies.Failure) bool {
	for i := range failures {
		if reason := failures[i].Reason; reason != policies.ReasonSkipped && reason != policies.ReasonParameters {
			return false
		}
	}
	return len(failures) > 0
}

// fail counts a failure. The caller holds the lock.
func (t *Tally) fail(field, reason string, at time.Time) {
	found := t.find(field, reason)
	if found == nil && len(t.failures) >= MaxFailures-len(reasons()) && field != wholePolicy {
		field = wholePolicy
		found = t.find(field, reason)
	}
	if found == nil {
		t.failures = append(t.failures, Failure{Field: field, Reason: reason, First: at.Unix()})
		found = &t.failures[len(t.failures)-1]
	}
	found.Count++
	found.First, found.Last = min(found.First, at.Unix()), max(found.Last, at.Unix())
}

func (t *Tally) find(field, reason string) *Failure {
	for i := range t.failures {
		if f := &t.failures[i]; f.Field == field && f.Reason == reason {
			return f
		}
	}
	return nil
}

// with returns a bounded set with a hash. The most recent one is the first, because requests of a namespace follow each
// other.
func with(set []uint64, hash uint64) []uint64 {
	at := slices.Index(set, hash)
	switch {
	case at == 0:
		return set
	case at > 0:
		set[0], set[at] = set[at], set[0]
		return set
	case len(set) >= MaxNamespaces:
		return set
	}
	set = append(set, hash)
	set[0], set[len(set)-1] = set[len(set)-1], set[0]
	return set
}

// Counts returns the counts, with the failures sorted.
func (t *Tally) Counts() Policy {
	t.mu.Lock()
	defer t.mu.Unlock()
	failures := slices.Clone(t.failures)
	slices.SortFunc(failures, compare)
	return Policy{
		Evaluations: t.evaluations, Overruns: t.overruns, Namespaces: len(t.evaluated), OverrunNamespaces: len(t.overrun), Failures: failures,
	}
}

func compare(a, b Failure) int {
	return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Reason, b.Reason))
}
