package audit

import (
	"context"
	"errors"
	"slices"
	"strings"

	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"

	"github.com/virtward/virtward/controllers/auditresults"
	"github.com/virtward/virtward/controllers/reports"
	"github.com/virtward/virtward/migrations"
	"github.com/virtward/virtward/policies"
)

// Reports stores Reports; see reports.Store.
type Reports interface {
	Available(ctx context.Context) ([]string, error)
	Namespaces(ctx context.Context) ([]string, error)
	Put(ctx context.Context, namespace string, build func(before *openreports.Report) *openreports.Report) (before *openreports.Report, err error)
}

// publish publishes the ledger: in the metrics, the reports and the statuses of policies, and last in events. It does
// nothing before a whole round has ended.
func (a *Auditor) publish(ctx context.Context) error {
	if a.figures.Ended.IsZero() {
		return nil
	}
	active := a.Evaluator.Configuration.Active().Policies.Policies()
	err := a.report(ctx, active)
	a.measure(active)
	if err != nil {
		return err
	}
	a.complete = true
	a.tell()
	return nil
}

// measure sets the metrics and the statuses.
func (a *Auditor) measure(active []*policies.Policy) {
	totals := a.ledger.Totals()
	figures := a.figures
	figures.Objects, figures.Foreign = a.ledger.Objects(), len(a.foreign)
	for level := range figures.Targets {
		figures.Targets[level] = a.ledger.Targets(migrations.Level(level))
	}
	violations := make(map[string]int, len(active))
	for _, p := range active {
		total := totals[auditresults.Source{Name: p.Name()}]
		figures.Policies = append(figures.Policies, PolicyFigure{
			Name: p.Name(), Severity: string(p.Spec().Severity), Enforcement: string(p.Spec().Enforcement),
			Violating: total.Violating, Errors: total.Errors,
		})
		if len(p.Unauditable()) == 0 {
			violations[p.Name()] = total.Violating
		}
	}
	for source, total := range totals {
		if source.BuiltIn {
			figures.Rules = append(figures.Rules, RuleFigure{Rule: source.Name, Violating: total.Violating + total.Errors})
		}
	}
	slices.SortFunc(figures.Rules, func(x, y RuleFigure) int { return strings.Compare(x.Rule, y.Rule) })
	a.figures.Objects = figures.Objects
	a.Metrics.set(&figures)
	a.Audited(violations, figures.Ended)
}

// findReports looks up whether the cluster has other APIs of Reports now.
func (a *Auditor) findReports(ctx context.Context) {
	if a.Reports == nil || !a.complete || a.Clock.Since(a.asked) < lookForReports {
		return
	}
	a.asked = a.Clock.Now()
	if available, err := a.Reports.Available(ctx); err == nil && !slices.Equal(available, a.reports) {
		a.everything = true
		a.do(ctx, task{publish: true})
	}
}

// report writes the Reports, if the cluster has an API of Reports. A Report that fails is written again later; the others are
// not affected.
func (a *Auditor) report(ctx context.Context, active []*policies.Policy) error {
	if a.Reports == nil {
		a.settle(a.ledger.Changed())
		return nil
	}
	a.asked = a.Clock.Now()
	available, err := a.Reports.Available(ctx)
	if err != nil {
		return err
	}
	same := slices.Equal(available, a.reports)
	if a.reports = available; !same {
		a.Log.Info("APIs of Reports", "available", available)
	}
	if len(available) == 0 {
		a.settle(a.ledger.Changed())
		return nil
	}
	namespaces, err := a.toReport(ctx, same)
	if err != nil {
		return err
	}
	c := a.context(active)
	var errs []error
	for _, namespace := range namespaces {
		if err := a.put(ctx, c, namespace); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		a.everything = false
	}
	return errors.Join(errs...)
}

func (a *Auditor) settle(namespaces []string) {
	for _, namespace := range namespaces {
		a.ledger.Settled(namespace)
	}
}

// toReport returns the namespaces whose Reports are compared: those that changed, or all of them, and those with a
// Report but without results. same reports whether the APIs are those of the last time.
func (a *Auditor) toReport(ctx context.Context, same bool) ([]string, error) {
	namespaces := a.ledger.Changed()
	if !a.everything && same {
		return namespaces, nil
	}
	a.everything = true
	there, err := a.Reports.Namespaces(ctx)
	if err != nil {
		return nil, err
	}
	namespaces = slices.Concat(namespaces, a.ledger.Namespaces(), there)
	slices.Sort(namespaces)
	return slices.Compact(namespaces), nil
}

func (a *Auditor) context(active []*policies.Policy) *reports.Context {
	c := &reports.Context{About: make(map[string]reports.About, len(active)), Limit: a.Limit.PerNamespace, Now: a.Clock.Now()}
	for _, p := range active {
		c.About[p.Name()] = reports.About{
			Category: p.Spec().Category, Severity: openreports.ResultSeverity(p.Spec().Severity), Enforcement: string(p.Spec().Enforcement),
		}
		if len(p.Unauditable()) > 0 {
			c.Skipped++
		}
	}
	return c
}

// put writes the Report of a namespace.
func (a *Auditor) put(ctx context.Context, c *reports.Context, namespace string) error {
	view := a.ledger.View(namespace)
	before, err := a.Reports.Put(ctx, namespace, func(before *openreports.Report) *openreports.Report {
		return reports.Build(c, namespace, &view, before)
	})
	switch {
	case errors.Is(err, reports.ErrForeign):
		if !a.foreign[namespace] {
			a.Log.Error(err, "the Report is not written")
		}
		a.foreign[namespace] = true
	case err != nil:
		return err
	default:
		delete(a.foreign, namespace)
		if !a.complete {
			a.compare(&view, before)
		}
	}
	a.ledger.Settled(namespace)
	for _, key := range a.ledger.Missing(namespace) {
		a.agenda.changed(key, a.Clock.Now())
	}
	return nil
}

// compare notes what is fresh in the first round: what the Report before does not have, if it had room for all results.
func (a *Auditor) compare(view *auditresults.View, before *openreports.Report) {
	for _, fresh := range reports.Fresh(view, before) {
		a.note(fresh)
	}
}
