package goldenimages

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/conditions"
	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/texts"
)

// conditions of the image.
func (p *plan) conditions(e *entry, image *v1alpha1.Image) {
	previous := p.previous(e.Name)
	if previous != nil {
		image.Conditions = slices.Clone(previous.Conditions)
	}
	is, deployed := e.problem == nil && !e.disabled && len(e.targets) > 0, problem{ReasonDeployed, "all DataImportCrons are created"}
	switch {
	case e.problem != nil:
		deployed = *e.problem
	case e.observed != "":
		is, deployed = p.observation(e)
	case e.disabled:
		deployed = problem{ReasonDisabled, fmt.Sprintf("the annotation %s is not true", v1alpha1.EnableAnnotation)}
	case len(e.targets) == 0:
		deployed = problem{ReasonUnsupported, "no node has an architecture of the image"}
	case p.chained(e) != nil:
		is, deployed = false, *p.chained(e)
	case e.single != "":
		deployed.reason = e.single
	}
	p.set(&image.Conditions, Deployed, is, deployed)
	p.verify(e, &image.Conditions)
	p.set(&image.Conditions, UnsupportedArchitectures, e.multi && len(e.effective) < len(e.original), problem{ReasonSupported, fmt.Sprintf("listed: %v; of nodes: %v", e.original, e.effective)})
	missing := problem{"Imported", "no import fails"}
	for _, t := range e.targets {
		if e.problem != nil {
			break
		}
		state := p.imported(t, previous)
		image.Imports = append(image.Imports, state)
		if failure, fails := p.Failures[t.cron.Name]; fails && missing.reason == "Imported" {
			missing = problem{failure.Reason, fmt.Sprintf("%s: %s", cmp.Or(t.architecture, t.cron.Name), failure.Message)}
		}
	}
	p.set(&image.Conditions, MissingArchitecture, missing.reason != "Imported", missing)
}

func (p *plan) imported(t target, previous *v1alpha1.Image) v1alpha1.Import {
	state := v1alpha1.Import{Architecture: t.architecture, DataImportCron: t.cron.Name, DataSource: t.cron.Spec.ManagedDataSource}
	if previous != nil {
		if i := slices.IndexFunc(previous.Imports, func(i v1alpha1.Import) bool { return i.DataImportCron == t.cron.Name }); i >= 0 {
			state.Conditions = slices.Clone(previous.Imports[i].Conditions)
		}
	}
	source := p.Sources[state.DataSource]
	why := problem{"Pending", "the image is not imported yet"}
	if failure, fails := p.Failures[t.cron.Name]; fails {
		why = problem{failure.Reason, failure.Message}
	}
	if ready(source) {
		why = problem{"Imported", "the DataSource is ready"}
	}
	p.set(&state.Conditions, Imported, ready(source), why)
	return state
}

// set sets a condition. Messages of other components are in some of them, so they are shortened.
func (in *Input) set(of *[]metav1.Condition, kind string, holds bool, why problem) {
	status := metav1.ConditionFalse
	if holds {
		status = metav1.ConditionTrue
	}
	in.setStatus(of, kind, status, why)
}

func (in *Input) setStatus(of *[]metav1.Condition, kind string, status metav1.ConditionStatus, why problem) {
	conditions.Set(of, metav1.Condition{Type: kind, Status: status, Reason: why.reason, Message: texts.Shorten(why.message, maxMessage)}, 0, in.Now)
}
