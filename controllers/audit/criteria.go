package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/controllers/auditresults"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/limits/memory"
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
	// Labels returns the labels of a namespace: those that policyv1alpha1.Exempt holds for are not audited either. It is nil if labels
	// exempt none.
	Labels func(ctx context.Context, namespace string) (labels.Set, error)
}

// exempts reports whether the webhooks do not match a namespace. A namespace without known labels is audited.
func (j *Criteria) exempts(ctx context.Context, namespace string) bool {
	if slices.Contains(j.Exempt, namespace) {
		return true
	}
	if j.Labels == nil {
		return false
	}
	known, err := j.Labels(ctx, namespace)
	return err == nil && policyv1alpha1.Exempt(known)
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
	room memory.Gate
}

// EvaluationMemory is the most memory of all running evaluations of policies together, in bytes.
const EvaluationMemory = 96 << 20

// now returns the conditions of this moment, with a time for policies that do not deny.
func (j *Criteria) now(clock clock.PassiveClock, time time.Duration) (*conditions, error) {
	c := &conditions{Criteria: j, clock: clock, spare: newSpare(time), room: memory.NewQueue(EvaluationMemory)}
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
	parts *memory.Parts

	mu   sync.Mutex
	over map[string]bool
}

func newSpare(total time.Duration) *spare {
	return &spare{parts: memory.NewParts(int64(total)), over: map[string]bool{}}
}

// spend notes what the evaluation of policies on an object of a namespace took.
func (s *spare) spend(ctx context.Context, namespace string, took time.Duration) {
	if _, err := s.parts.Acquire(ctx, namespace, int64(took)); err != nil {
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
	if c.exempts(ctx, subject.Namespace) {
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
	release, err := c.room.Acquire(ctx, subject.Namespace, c.snapshot.Policies().Memory(len(stored)))
	if err != nil {
		return subject, nil, true, err
	}
	defer release()
	result, err := c.snapshot.Evaluate(ctx, evaluator.Request{
		Object: stored, Kind: metav1.GroupVersionKind(k.GroupVersionKind), Resource: metav1.GroupVersionResource(k.GroupVersionResource),
		Namespace: subject.Namespace, Name: subject.Name, Stage: evaluator.Stored,
		Observer: evaluator.Observer{
			Gone: func() bool { return ctx.Err() != nil }, Hurry: func() bool { return c.spare.isOver(subject.Namespace) },
			Policies: func(int64) (done func()) {
				began := c.clock.Now()
				return func() { c.spare.spend(ctx, subject.Namespace, c.clock.Since(began)) }
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
	if result.Verdict != nil {
		subject.Targets = result.Verdict.Targets
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
