package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/controllers/auditresults"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// maxMessage bounds what a result says, in bytes.
const maxMessage = 1024

// Criteria hold what objects are evaluated by.
type Criteria struct {
	Evaluator *evaluator.Evaluator
	// Exempt are namespaces whose objects the webhooks do not see, and which are not audited.
	Exempt []string
}

// conditions are what a whole round is evaluated under: a change meanwhile asks for the next round.
type conditions struct {
	*Criteria

	snapshot *evaluator.Snapshot
	// room bounds the memory of the evaluations that are under way.
	room *semaphore.Weighted
}

// EvaluationMemory is what all evaluations of policies that are under way may take together, in bytes.
const EvaluationMemory = 128 << 20

// at are the conditions of a moment.
func (j *Criteria) at(now time.Time) (*conditions, error) {
	snapshot, err := j.Evaluator.Snapshot(now)
	if err != nil {
		return nil, err
	}
	return &conditions{Criteria: j, snapshot: snapshot, room: semaphore.NewWeighted(EvaluationMemory)}, nil
}

// evaluate says what is wrong with an object as it is stored. skipped tells that there is nothing to evaluate. The error is
// the context's: the audit ends.
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
		Observer: evaluator.Observer{Gone: func() bool { return ctx.Err() != nil }},
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

// resultsOf are findings as results.
func resultsOf(findings []validators.Finding) []auditresults.Result {
	var results []auditresults.Result
	for i := range findings {
		f := &findings[i]
		name, policy := strings.CutPrefix(f.Rule, policies.RulePrefix)
		r := auditresults.Result{Source: auditresults.Source{Name: name, BuiltIn: !policy}, Field: shortened(f.Error.Field), Message: shortened(f.Text()), Remedy: shortened(f.Remedy)}
		switch {
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
