package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/controllers/ledger"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/lookup"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/validators"
)

// maxMessage bounds what a result says, in bytes.
const maxMessage = 1024

// Judge holds what objects are judged by.
type Judge struct {
	Pipeline *effective.Pipeline
	// Facts returns the present facts; nil while there are none.
	Facts   func() *platform.Facts
	Objects lookup.Objects
	// Policies returns those in force; nil for none.
	Policies func() *policies.Set
	// Settings returns the admin's severities; nil where nothing is set.
	Settings func() *validators.Settings
	// Site returns the admin's defaults; nil where there are none.
	Site func() *mutators.Site
	// Namespace finds a namespace: its name, labels and annotations.
	Namespace func(ctx context.Context, name string) (*corev1.Namespace, error)
	// Exempt are namespaces whose objects the webhooks do not see, and nobody judges.
	Exempt []string
}

// conditions are what a whole round is judged under: whatever changes meanwhile asks for the next round.
type conditions struct {
	*Judge

	now      time.Time
	facts    *platform.Facts
	set      *policies.Set
	settings *validators.Settings
	site     *mutators.Site

	// room bounds the memory of the evaluations that are under way.
	room *semaphore.Weighted

	mu         sync.Mutex
	namespaces map[string]*surroundings
}

// EvaluationMemory is what all evaluations of policies that are under way may take together, in bytes.
const EvaluationMemory = 128 << 20

// surroundings are what the namespace of an object adds.
type surroundings struct {
	namespace  *corev1.Namespace
	severities validators.Severities
	site       []mutators.SiteDefaults
}

// at are the conditions of a moment.
func (j *Judge) at(now time.Time) (*conditions, error) {
	c := &conditions{Judge: j, now: now, facts: j.Facts(), set: j.Policies(), settings: j.Settings(), site: j.Site(), room: semaphore.NewWeighted(EvaluationMemory), namespaces: map[string]*surroundings{}}
	if c.facts == nil {
		return nil, errors.New("the KubeVirt resource has not been read yet")
	}
	return c, nil
}

// judge says what is wrong with an object as it is stored. skipped tells that there is nothing to judge. The error is
// the context's: the audit ends.
func (c *conditions) judge(ctx context.Context, k Kind, object *pages.Object) (subject ledger.Subject, results []ledger.Result, skipped bool, err error) {
	stored := object.JSON
	if subject = k.unread(object); stored != nil {
		subject = k.subject(stored)
	}
	if slices.Contains(c.Exempt, subject.Namespace) {
		return subject, nil, true, nil
	}
	if stored == nil {
		return subject, []ledger.Result{unreadable(errTooLarge)}, false, nil
	}
	defer func() {
		if cause := recover(); cause != nil { // one object never ends the audit of all others
			results, skipped = []ledger.Result{unreadable(fmt.Errorf("judging it failed: %.200v", cause))}, false
		}
	}()
	in, ok, err := k.input(stored)
	if err != nil {
		return subject, []ledger.Result{unreadable(err)}, false, nil
	}
	if !ok {
		return subject, nil, true, nil
	}
	weight := policies.Memory(len(stored))
	if err := c.room.Acquire(ctx, weight); err != nil {
		return subject, nil, true, err
	}
	defer c.room.Release(weight)
	verdict, err := c.evaluate(ctx, k, subject, in)
	if ctx.Err() != nil {
		return subject, nil, true, ctx.Err()
	}
	if err != nil {
		return subject, []ledger.Result{unreadable(err)}, false, nil
	}
	return subject, resultsOf(verdict.Findings), false, nil
}

// evaluate asks the pipeline as an admission would, but for nobody in particular.
func (c *conditions) evaluate(ctx context.Context, k Kind, subject ledger.Subject, in effective.Input) (*effective.Verdict, error) {
	around, err := c.around(ctx, subject.Namespace)
	if err != nil {
		return nil, err
	}
	in.Facts, in.Policies, in.Now = c.facts, c.set, c.now
	in.Gone = func() bool { return ctx.Err() != nil }
	in.Site, in.Severities, in.Namespace = around.site, around.severities, around.namespace
	in.Request = cel.Request{
		Kind:      metav1.GroupVersionKind(k.GroupVersionKind),
		Resource:  metav1.GroupVersionResource(k.GroupVersionResource),
		Name:      subject.Name,
		Namespace: subject.Namespace,
	}
	if in.VM != nil {
		if in.References, _, err = lookup.For(ctx, c.Objects, in.VM, nil); err != nil {
			return nil, err
		}
		if in.Running, err = lookup.Running(ctx, c.Objects, in.VM); err != nil {
			return nil, err
		}
	}
	return c.Pipeline.Evaluate(in)
}

// maxSurroundings bounds the namespaces that are remembered: the annotations of each may have 256 kB.
const maxSurroundings = 32

// around are the surroundings in a namespace, found once for objects that follow each other.
func (c *conditions) around(ctx context.Context, name string) (*surroundings, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.namespaces[name]; ok {
		return found, nil
	}
	namespace, err := c.Namespace(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	labels := k8slabels.Set(namespace.Labels)
	if labels == nil { // a namespace without labels is no less one
		labels = k8slabels.Set{}
	}
	severities := maps.Clone(c.settings.For(labels))
	if severities == nil {
		severities = validators.Severities{}
	}
	severities[validators.RuleComplete] = validators.Off // what ran before Virtward came was completed by others
	found := &surroundings{namespace: namespace, severities: severities, site: c.site.For(labels)}
	if len(c.namespaces) == maxSurroundings { // objects are listed by namespace: those before are done
		clear(c.namespaces)
	}
	c.namespaces[name] = found
	return found, nil
}

// resultsOf are findings as results.
func resultsOf(findings []validators.Finding) []ledger.Result {
	var results []ledger.Result
	for i := range findings {
		f := &findings[i]
		name, policy := strings.CutPrefix(f.Rule, policies.RulePrefix)
		r := ledger.Result{Source: ledger.Source{Name: name, BuiltIn: !policy}, Field: shortened(f.Error.Field), Message: shortened(f.Text()), Remedy: shortened(f.Remedy)}
		switch {
		case policies.IsUndecided(f):
			r.Outcome = ledger.Error
		case f.Severity == validators.Warn:
			r.Outcome = ledger.Warn
		case f.Severity == validators.Off:
			continue
		}
		results = append(results, r)
	}
	return results
}

// shortened cuts a text that is too long, between characters.
func shortened(text string) string {
	text = strings.ToValidUTF8(text, "�")
	if len(text) <= maxMessage {
		return text
	}
	end := maxMessage - len("…")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
