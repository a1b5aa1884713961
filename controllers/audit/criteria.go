package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/virtward/virtward/controllers/auditresults"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// maxMessage bounds a text of a result, in bytes.
const maxMessage = 1024

// Criteria has what objects are evaluated with.
type Criteria struct {
	Evaluator *evaluator.Evaluator
	// Exempt are the namespaces that the webhooks do not match. They are not audited.
	Exempt []string
}

// conditions are the same for a page of objects. A change requests the next round, and counts for the following pages of
// this one: a round can take long.
type conditions struct {
	*Criteria

	snapshot *evaluator.Snapshot
	clock    clock.PassiveClock
	// spare is the time in which policies that do not deny are evaluated in a round.
	spare *spare
	// room bounds the memory of the running evaluations.
	room *semaphore.Weighted
}

// EvaluationMemory is the most memory of all running evaluations of policies together, in bytes.
const EvaluationMemory = 128 << 20

// now returns the conditions of this moment, with a time for policies that do not deny.
func (j *Criteria) now(clock clock.PassiveClock, time time.Duration) (*conditions, error) {
	c := &conditions{Criteria: j, clock: clock, spare: newSpare(time), room: semaphore.NewWeighted(EvaluationMemory)}
	return c, c.renew()
}

// renew takes the current facts and policies.
func (c *conditions) renew() (err error) {
	c.snapshot, err = c.Evaluator.Snapshot(c.clock.Now())
	return err
}

// spareTime is the time of a round in which policies that do not deny are evaluated, added up over all objects. It is far
// more than ordinary policies need for a hundred thousand objects. Every user with the right to write policies can write such
// ones. spareOfChanged is that for changed objects.
const (
	spareTime      = 15 * time.Minute
	spareOfChanged = time.Minute
)

// spare divides a time among namespaces: one gets at most half of what the others leave. Without time, policies that do not
// deny are skipped.
type spare struct {
	parts *platform.Parts

	mu   sync.Mutex
	over map[string]bool
}

func newSpare(total time.Duration) *spare {
	return &spare{parts: platform.NewParts(int64(total)), over: map[string]bool{}}
}

// spend notes what the evaluation of policies on an object of a namespace took.
func (s *spare) spend(namespace string, took time.Duration) {
	if _, ok := s.parts.TryTake(namespace, int64(took)); !ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.over[namespace] = true
	}
}

// isOver reports whether the time of a namespace has passed.
func (s *spare) isOver(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over[namespace]
}

// evaluate evaluates an object as it is stored. skipped reports whether there is nothing to evaluate. The error is that
// of the context: the audit ends.
func (c *conditions) evaluate(ctx context.Context, k Kind, object *pages.Object) (subject auditresults.Subject, results []auditresults.Result, skipped bool, err error) {
	stored := object.JSON
	if subject = k.unread(object); stored != nil {
		subject = k.subject(stored)
	}
	if slices.Contains(c.Exempt, subject.Namespace) {
		return subject, nil, true, nil
	}
	if stored == nil {
		return subject, []auditresults.Result{unreadable(errTooLarge)}, false, nil
	}
	defer func() {
		if cause := recover(); cause != nil { // one object never ends the audit of all others
			results, skipped = []auditresults.Result{unreadable(fmt.Errorf("evaluating it failed: %v", cause))}, false
		}
	}()
	weight := policies.Memory(len(stored))
	if err := c.room.Acquire(ctx, weight); err != nil {
		return subject, nil, true, err
	}
	defer c.room.Release(weight)
	result, err := c.snapshot.Evaluate(ctx, evaluator.Request{
		Object: stored, Kind: metav1.GroupVersionKind(k.GroupVersionKind), Resource: metav1.GroupVersionResource(k.GroupVersionResource),
		Namespace: subject.Namespace, Name: subject.Name, Stage: evaluator.Stored,
		Observer: evaluator.Observer{
			Gone: func() bool { return ctx.Err() != nil }, Hurry: func() bool { return c.spare.isOver(subject.Namespace) },
			Policies: func() (done func()) {
				began := c.clock.Now()
				return func() { c.spare.spend(subject.Namespace, c.clock.Since(began)) }
			},
		},
	})
	switch {
	case ctx.Err() != nil:
		return subject, nil, true, ctx.Err()
	case err != nil:
		return subject, []auditresults.Result{unreadable(err)}, false, nil
	case result.Unreadable != nil:
		return subject, []auditresults.Result{unreadable(result.Unreadable)}, false, nil
	case result.Skipped != "":
		return subject, nil, true, nil
	}
	return subject, resultsOf(result.Findings), false, nil
}

// resultsOf returns findings as results.
func resultsOf(findings []validators.Finding) []auditresults.Result {
	var results []auditresults.Result
	for i := range findings {
		f := &findings[i]
		name, policy := strings.CutPrefix(f.Rule, policies.RulePrefix)
		r := auditresults.Result{Source: auditresults.Source{Name: name, BuiltIn: !policy}, Field: shortened(f.PublicField()), Message: shortened(f.PublicText()), Remedy: shortened(f.Remedy)}
		switch {
		case f.Exempted != nil:
			r.Outcome = auditresults.Exempt
		case policies.IsEvaluationError(f):
			r.Outcome = auditresults.Error
		case f.Severity == validators.Warn:
			r.Outcome = auditresults.Warn
		case f.Severity == validators.Off:
			continue
		}
		results = append(results, r)
	}
	return results
}

// shortened bounds a text of a result.
func shortened(text string) string { return texts.Shorten(text, maxMessage) }
