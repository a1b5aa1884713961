package audit

import (
	"context"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cli/comparison"
	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

// Bounds of an audit.
const (
	// evaluatedAtOnce is the number of virtual machines that are evaluated in parallel. Most of the time is spent
	// waiting for the cluster.
	evaluatedAtOnce = 8
	// progressStep is the number of virtual machines between two lines about the progress.
	progressStep = 1000
	// maxWarnings is the number of different warnings in a report.
	maxWarnings = 20
)

// Audit evaluates virtual machines twice: now, and as they would be under assumptions.
type Audit struct {
	now *offline.Evaluator
	// then evaluates under the assumptions. It is nil without any.
	then    *offline.Evaluator
	cluster *offline.Cluster
	// files are the virtual machines of files, if ofFiles is true.
	files     []manifests.Document
	ofFiles   bool
	namespace string
	// selector selects virtual machines of the cluster by their labels.
	selector string
	assumed  []string
	// only are the rules whose findings are shown; empty for all.
	only []string
	// skipped are notes about documents that are skipped.
	skipped      []string
	progress     io.Writer
	line         *options.Progress
	counter      comparison.Counter
	warnings     warnings
	notEvaluated int
	// unreadable are the documents that cannot be read or evaluated.
	unreadable []manifests.Unreadable
	// invalid are the objects of files that no API server accepts.
	invalid []string
	// unknown are the objects that those of files refer to and that are not in the files.
	unknown []string
}

// gather reads the files, and the cluster if the flags select it.
func (o *Options) gather(ctx context.Context) (*Audit, error) {
	stdin := options.Once(o.Streams.In)
	files, err := o.ReadFiles(ctx, stdin)
	if err != nil {
		return nil, err
	}
	with, err := o.readWith(ctx, stdin)
	if err != nil {
		return nil, err
	}
	a := &Audit{
		ofFiles: o.HasFiles(), selector: o.Selector, assumed: o.assumed(), progress: o.Streams.ErrOut, line: options.NewProgress(o.Streams.ErrOut),
		counter: comparison.Counter{Max: o.Max, Unchanged: o.all || len(o.assumed()) == 0},
	}
	if o.Config.Namespace != nil {
		a.namespace = *o.Config.Namespace
	}
	if !a.ofFiles || o.FromCluster {
		if a.cluster, err = options.Connect(o.Config); err != nil {
			return nil, err
		}
		a.cluster.Objects = remember(a.cluster.Objects)
	}
	if a.ofFiles && len(files.Subjects)+len(files.Beside)+len(files.Unreadable) == 0 {
		note, err := o.NoObjects("evaluate")
		if err != nil {
			return nil, err
		}
		a.skipped = append(a.skipped, note)
	}
	a.warnings.add("", files.Warnings)
	a.warnings.add("", with.Warnings)
	return a, o.surround(ctx, a, files, with, stdin)
}

// WhatIf returns an audit of the cluster that compares its policies with those that it would have with more objects. The
// words say in the report what is assumed.
func (o *Options) WhatIf(ctx context.Context, cluster *offline.Cluster, objects []manifests.Document, words string) (*Audit, error) {
	cluster.Objects = remember(cluster.Objects)
	a := &Audit{
		cluster: cluster, assumed: []string{words}, progress: o.Streams.ErrOut,
		counter: comparison.Counter{Max: o.Max, Unchanged: true},
	}
	if o.Config.Namespace != nil {
		a.namespace = *o.Config.Namespace
	}
	return a, o.surround(ctx, a, &offline.Files{}, &offline.Files{Configuration: objects}, nil)
}

// Then returns the evaluator under the assumptions, nil without any.
func (a *Audit) Then() *offline.Evaluator { return a.then }

// ShowOnly leaves out findings of all other rules.
func (a *Audit) ShowOnly(rules ...string) { a.only = rules }

// readWith reads the files of --with.
func (o *Options) readWith(ctx context.Context, stdin io.Reader) (*offline.Files, error) {
	all, err := manifests.ReadEach(ctx, o.With, o.Recursive, stdin)
	if err != nil {
		return nil, err
	}
	with := offline.Sort(all)
	if len(with.Subjects) > 0 {
		d := with.Subjects[0]
		return nil, fmt.Errorf("%s: %s %s: use -f for objects to evaluate, --with is for the configuration", d.Location(), d.Object.GetKind(), d.Object.GetName())
	}
	return with, nil
}

// surround makes the evaluators: now, and under the assumptions.
func (o *Options) surround(ctx context.Context, a *Audit, files, with *offline.Files, stdin io.Reader) error {
	facts, err := o.ReadFacts(ctx, files, a.cluster, stdin)
	if err != nil {
		return err
	}
	if a.now, err = o.NewEvaluator(ctx, files, a.cluster, facts); err != nil {
		return err
	}
	a.files = slices.Concat(files.Subjects, files.Beside)
	a.unreadable = slices.Concat(files.Unreadable, a.now.Unreadable)
	if len(a.assumed) > 0 {
		if err := o.assume(ctx, a, files, with, facts); err != nil {
			return err
		}
	}
	a.skipped = slices.Concat(files.Notes, with.Notes, a.skipped, a.now.UnusedConfigMaps())
	return nil
}

// assume makes the evaluator under the assumptions. The facts are those without them.
func (o *Options) assume(ctx context.Context, a *Audit, files, with *offline.Files, facts *platform.Facts) (err error) {
	for _, name := range o.Without {
		if a.now.Policies().Find(name) == nil {
			return fmt.Errorf("--without %s: there is no %s of this name", name, apikinds.VirtualMachinePolicy)
		}
	}
	assumed := facts
	if of := o.FactsIn(with); of != nil {
		assumed = of
	}
	if assumed, err = o.Assume(assumed); err != nil {
		return err
	}
	together := files.OverlaidBy(with)
	together.Without = o.Without
	if a.then, err = o.NewEvaluator(ctx, together, a.cluster, assumed); err != nil {
		return err
	}
	a.unreadable, with.Notes = slices.Concat(a.unreadable, with.Unreadable, a.then.Unreadable), together.Notes
	if assumed.DefaultArchitecture != facts.DefaultArchitecture {
		a.then.Former = facts
	}
	return nil
}

// evaluateAll evaluates all virtual machines and returns the report.
func (a *Audit) evaluateAll(ctx context.Context) (*comparison.Report, error) {
	var unlisted []string
	if a.ofFiles {
		for batch := range slices.Chunk(a.files, pageSize) {
			if err := a.evaluate(ctx, batch); err != nil {
				return nil, err
			}
			for range batch {
				a.line.Step("evaluated", len(a.files))
			}
		}
		a.line.End()
	} else {
		l := &listing{selector: a.selector, cluster: a.cluster, evaluate: a.evaluate, progress: a.progress}
		if err := l.all(ctx, a.namespace); err != nil {
			return nil, err
		}
		unlisted = l.notes
	}
	last := a.last()
	report := a.counter.Report(slices.Concat(last.Rules(), a.now.Rules()))
	if report.Evaluated == 0 && a.notEvaluated > 0 {
		return nil, fmt.Errorf("none of %d virtual machines could be evaluated: %s", a.notEvaluated, a.warnings.first())
	}
	report.Assumed = append(report.Assumed, a.assumed...)
	report.Unreadable = explanation.Unreadables(a.unreadable)
	report.Now, report.Then, report.NotEvaluated = explanation.FactsOf(a.now.Facts()), explanation.FactsOf(last.Facts()), a.notEvaluated
	for _, w := range []*offline.Evaluator{a.now, last} {
		for _, text := range w.Facts().Warnings {
			a.warnings.add("", []string{text})
		}
		for _, text := range slices.Concat(w.Facts().Notes, w.Notes) {
			if !slices.Contains(report.Notes, text) {
				report.Notes = append(report.Notes, text)
			}
		}
	}
	report.Warnings = append(append(report.Warnings, unlisted...), a.warnings.lines()...)
	return report, nil
}

// last is the evaluator of the result: under the assumptions, if there are any.
func (a *Audit) last() *offline.Evaluator {
	if a.then != nil {
		return a.then
	}
	return a.now
}

// outcome is the outcome of one virtual machine.
type outcome struct {
	object    explanation.Object
	now, then []validators.Finding
	warnings  []string
	unknown   []string
	err       error
}

// evaluate evaluates a batch of virtual machines in parallel, and counts the findings in their order. If one cannot be
// evaluated, the report lists it for files, and has a warning for a cluster.
func (a *Audit) evaluate(ctx context.Context, batch []manifests.Document) error {
	outcomes := make([]outcome, len(batch))
	group := errgroup.Group{}
	group.SetLimit(evaluatedAtOnce)
	for i := range batch {
		group.Go(func() error {
			if ctx.Err() == nil {
				outcomes[i] = a.outcomeOf(ctx, batch[i])
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range outcomes {
		o := &outcomes[i]
		switch {
		case o.err != nil && a.ofFiles:
			err := fmt.Errorf("%s %s: %w", batch[i].Object.GetKind(), batch[i].Object.GetName(), o.err)
			a.unreadable = append(a.unreadable, batch[i].Unreadable(err))
		case o.err != nil:
			a.notEvaluated++
			a.warnings.add(o.object.String(), []string{"not evaluated: " + o.err.Error()})
		case !offline.IsSubject(batch[i].Object.GroupVersionKind()) && len(o.now)+len(o.then) == 0: // a reference without findings
		default:
			a.counter.Add(batch[i], o.object, a.shown(o.now), a.shown(o.then))
			for _, u := range o.unknown {
				a.unknown = append(a.unknown, batch[i].Location()+": "+o.object.String()+": "+u)
			}
			if slices.ContainsFunc(o.now, isInvalid) {
				a.invalid = append(a.invalid, batch[i].Location()+": "+o.object.String())
			}
			a.warnings.add(o.object.String(), o.warnings)
		}
	}
	return nil
}

// isInvalid reports whether a finding is an error of the API server's own validation.
func isInvalid(f validators.Finding) bool {
	return f.Severity == validators.Deny && (f.Rule == validators.RuleSchema || f.Rule == validators.RuleUnknownField)
}

// invalidError returns an error about the objects of files that no API server accepts, or nil.
func (a *Audit) invalidError() error {
	switch len(a.invalid) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s does not satisfy its schema", a.invalid[0])
	}
	return fmt.Errorf("%d objects do not satisfy their schemas, the first one %s", len(a.invalid), a.invalid[0])
}

// shown returns the findings of the rules to show.
func (a *Audit) shown(all []validators.Finding) []validators.Finding {
	if len(a.only) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(f validators.Finding) bool { return !slices.Contains(a.only, f.Rule) })
}

func (a *Audit) outcomeOf(ctx context.Context, d manifests.Document) (o outcome) {
	namespace := d.Object.GetNamespace()
	if namespace == "" {
		namespace = a.now.DefaultNamespace
	}
	o.object = explanation.ObjectOf(d.Object, namespace)
	stage := evaluator.Stored
	if a.ofFiles {
		stage = evaluator.Written
	}
	result, err := a.now.Evaluate(ctx, d, stage)
	if err != nil {
		o.err = err
		return o
	}
	o.now, o.then, o.warnings = result.Findings, result.Findings, result.Warnings
	if a.ofFiles {
		o.unknown = a.now.Unknown(ctx, result)
	}
	if a.then == nil {
		return o
	}
	if result, o.err = a.then.Evaluate(ctx, d, stage); o.err != nil {
		return o
	}
	o.then = result.Findings
	for _, w := range result.Warnings {
		if !slices.Contains(o.warnings, w) {
			o.warnings = append(o.warnings, w)
		}
	}
	return o
}

// warnings are different texts, each with the first object that it is about.
type warnings struct {
	order  []string
	counts map[string]int
	about  map[string]string
	// others counts the warnings above maxWarnings.
	others int
}

func (w *warnings) add(about string, texts []string) {
	if w.counts == nil {
		w.counts, w.about = map[string]int{}, map[string]string{}
	}
	for _, text := range texts {
		switch _, seen := w.counts[text]; {
		case seen:
			w.counts[text]++
		case len(w.order) == maxWarnings:
			w.others++
		default:
			w.order = append(w.order, text)
			w.counts[text], w.about[text] = 1, about
		}
	}
}

// first returns the first warning.
func (w *warnings) first() string { return append(w.lines(), "")[0] }

func (w *warnings) lines() (lines []string) {
	for _, text := range w.order {
		line := text
		if about := w.about[text]; about != "" {
			line = about + ": " + text
			if more := w.counts[text] - 1; more > 0 {
				line += fmt.Sprintf(" (and %d more virtual machines)", more)
			}
		}
		lines = append(lines, line)
	}
	if w.others > 0 {
		lines = append(lines, fmt.Sprintf("and %d more warnings", w.others))
	}
	return lines
}
