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

// maxMessage bounds a text of a result, in bytes.
const maxMessage = 1024

// Criteria has what objects are evaluated with.
type Criteria struct {
	Evaluator *evaluator.Evaluator
	// Exempt are the namespaces that the webhooks do not match. They are not audited.
	Exempt []string
}

// conditions are the same for a whole round; a change requests the next round.
type conditions struct {
	*Criteria

	snapshot *evaluator.Snapshot
	// room bounds the memory of the running evaluations.
	room *semaphore.Weighted
}

// EvaluationMemory is the most memory of all running evaluations of policies together, in bytes.
const EvaluationMemory = 128 << 20

// at returns the conditions at a time.
func (j *Criteria) at(now time.Time) (*conditions, error) {
	snapshot, err := j.Evaluator.Snapshot(now)
	if err != nil {
		return nil, err
	}
	return &conditions{Criteria: j, snapshot: snapshot, room: semaphore.NewWeighted(EvaluationMemory)}, nil
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

// resultsOf returns findings as results.
func resultsOf(findings []validators.Finding) []auditresults.Result {
	var results []auditresults.Result
	for i := range findings {
		f := &findings[i]
		name, policy := strings.CutPrefix(f.Rule, policies.RulePrefix)
		r := auditresults.Result{Source: auditresults.Source{Name: name, BuiltIn: !policy}, Field: shortened(f.Error.Field), Message: shortened(f.Text()), Remedy: shortened(f.Remedy)}
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
