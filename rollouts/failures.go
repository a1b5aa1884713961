package rollouts

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// missingDifferences are the references for which KubeVirt fails, whether or not the VM changes them.
func (p *planner) missingDifferences() {
	for _, m := range p.in.DesiredKinds.Missing {
		var before v1.VirtualMachineSpec
		if p.in.LastStarted != nil {
			before = *p.in.LastStarted
		}
		name, old, wants := "instancetype", nameOf(before.Instancetype), nameOf(p.in.Desired.Spec.Instancetype)
		if strings.HasPrefix(m.Field, "spec.preference") {
			name, old, wants = "preference", nameOf(before.Preference), nameOf(p.in.Desired.Spec.Preference)
		}
		p.add(difference{path: m.Field, outside: true, name: name, item: m.What, event: absent, old: text(old), wants: text(wants)})
	}
}

// matcher is a reference to an instancetype or a preference.
type matcher interface {
	*v1.InstancetypeMatcher | *v1.PreferenceMatcher
	v1.Matcher
}

func nameOf[M matcher](m M) string {
	if m == nil {
		return ""
	}
	return m.GetName()
}

func instancetypeMissing(p *planner, d *difference) bool {
	return d.event == absent || p.in.DesiredKinds.missing() && !stopped(p, d)
}

func (p *planner) untilInstancetype(d *difference) decision {
	v := decision{takes: Blocked, announced: ByFailure, wayOut: "Create it again, or name another one."}
	what := d.item
	if d.event != absent {
		what = p.in.DesiredKinds.Missing[0].What
	}
	v.reason = shortened(what + " does not exist. KubeVirt applies no change of the VM until it does.")
	if p.in.Running == nil {
		v.reason = shortened(what + " does not exist. KubeVirt does not start the VM until it does.")
	}
	return v
}

// conflictDifferences are the fields that the VM must not set beside its instancetype, whether or not it changes them.
func (p *planner) conflictDifferences() {
	for i := range p.conflicts {
		if slices.ContainsFunc(p.found, func(d difference) bool { return isAbout(&d)(p.conflicts[i]) }) {
			continue
		}
		path, inSpec := strings.CutPrefix(p.conflicts[i].Field, template)
		d := difference{path: path, outside: !inSpec, event: conflicting}
		if at := nodeOf(path); inSpec {
			d.name = at.name
			if value := valueAt(reflect.ValueOf(p.written).Elem(), at); value.IsValid() {
				d.wants = value
			}
		}
		p.add(d)
	}
}

// related reports whether one of two paths is below the other one, or equal to it.
func related(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	rest, ok := strings.CutPrefix(b, a)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

func conflicts(p *planner, d *difference) bool {
	return d.event == conflicting || slices.ContainsFunc(p.conflicts, isAbout(d))
}

// isAbout reports whether a conflict is about the field of a difference.
func isAbout(d *difference) func(*field.Error) bool {
	return func(e *field.Error) bool {
		path, inSpec := strings.CutPrefix(e.Field, template)
		return d.outside != inSpec && related(d.path, path)
	}
}

func (p *planner) conflict(d *difference) decision {
	v := decision{takes: Blocked, wayOut: "Correct the field, the instancetype or the preference."}
	if i := slices.IndexFunc(p.conflicts, isAbout(d)); i >= 0 {
		v.reason = shortened("KubeVirt cannot apply this field: " + p.conflicts[i].Detail + ".")
	}
	if p.kubevirt.failure != "" {
		v.announced = ByFailure
	}
	return v
}

// failsUnnamed reports whether KubeVirt fails, and no change of the plan says so.
func (p *planner) failsUnnamed(result *Result) bool {
	return result.Failure != "" && !slices.ContainsFunc(result.Changes, func(c Change) bool { return c.Announced == ByFailure })
}

// failing is the step at which KubeVirt fails, as a change.
func (p *planner) failing() Change {
	step := slices.IndexFunc(steps[:], func(s step) bool { return s.id == p.kubevirt.failure })
	rule := slices.IndexFunc(rules, func(r rule) bool { return r.id == ruleFailure })
	return p.change(&rules[rule], &difference{path: steps[step].field, outside: true, name: steps[step].id, event: fails, item: p.kubevirt.outcomes[step].failure})
}

func atFailure(_ *planner, d *difference) bool { return d.event == fails }

func (p *planner) failedStep(d *difference) decision {
	return decision{
		takes: Blocked, announced: ByFailure, reason: shortened("KubeVirt fails here: " + d.item + ". It applies no later change of the VM."),
		wayOut: "Correct what the condition Failure of the VM names.",
	}
}
