package rollouts

import (
	"slices"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/texts"
)

// Pending is the part of Plan that is not applied to a running VM, and that waits for something: the changes that are neither Live
// nor NextStart. It is empty for a VM that is stopped, or is being stopped.
func Pending(in *Input) Result {
	if in.Desired == nil || in.Desired.Spec.Template == nil || in.Running == nil {
		return Result{Changes: []Change{}}
	}
	p := newPlanner(in)
	result := p.plan()
	if p.kubevirt.stopped {
		return Result{Changes: []Change{}}
	}
	result.Changes = slices.DeleteFunc(result.Changes, func(c Change) bool { return !c.Pending() || c.Takes == NextStart })
	return result
}

// Bounds of a summary: of the reasons, and of the fields and texts of each.
const (
	maxGroups      = 16
	maxGroupFields = 8
	maxSummaryText = 320
)

// Summary is a plan in the form of the annotation of VMs, without times.
func (r *Result) Summary(generation int64) v1alpha1.Pending {
	pending := v1alpha1.Pending{Generation: generation, RestartRequired: string(r.RestartRequired), Omitted: r.Omitted, Changes: []v1alpha1.PendingChange{}}
	for i, g := range r.Groups() {
		if i >= maxGroups {
			pending.Omitted += len(g.Fields)
			continue
		}
		change := v1alpha1.PendingChange{
			Takes: string(g.First.Takes), Reason: texts.Shorten(g.First.Reason, maxSummaryText), WayOut: texts.Shorten(g.First.WayOut, maxSummaryText),
		}
		for _, field := range g.Fields[:min(len(g.Fields), maxGroupFields)] {
			change.Fields = append(change.Fields, texts.Shorten(field, maxField))
		}
		change.More = len(g.Fields) - len(change.Fields)
		pending.Changes = append(pending.Changes, change)
	}
	return pending
}

// Waits is why a change waits for a live migration that KubeVirt does not start.
type Waits string

// The values of Waits.
const (
	// NotMigratable instances cannot be migrated.
	NotMigratable Waits = "NotMigratable"
	// NoLiveMigrate is set if workloadUpdateMethods has no LiveMigrate.
	NoLiveMigrate Waits = "NoLiveMigrate"
)

// WaitsWithoutEnd is why a change of a plan waits for a migration that never comes by itself; empty if none does.
func (r *Result) WaitsWithoutEnd(in *Input) Waits {
	if in.Running == nil || in.migrating() {
		return ""
	}
	methods := []v1.WorkloadUpdateMethod(nil)
	if in.Facts != nil {
		methods = in.Facts.WorkloadUpdateMethods
	}
	waits := slices.ContainsFunc(r.Changes, func(c Change) bool {
		return c.Takes == LiveOnMigration || (c.Patched || c.InProgress) && c.Takes == Restart && c.Announced == ByCondition
	})
	switch {
	case !waits:
		return ""
	case !in.migratable():
		return NotMigratable
	case !slices.Contains(methods, v1.WorkloadUpdateMethodLiveMigrate):
		return NoLiveMigrate
	}
	return ""
}

// Group is the changes with one answer and one reason.
type Group struct {
	// First is the first change.
	First *Change
	// Fields of all changes.
	Fields []string
}

// Groups are the changes of a plan by their answer and reason, in the order of the plan.
func (r *Result) Groups() []Group { return r.groups(func(*Change) bool { return true }) }

// groups are those of the changes that are kept.
func (r *Result) groups(keep func(*Change) bool) []Group {
	var groups []Group
	for i := range r.Changes {
		c := &r.Changes[i]
		if !keep(c) {
			continue
		}
		k := slices.IndexFunc(groups, func(g Group) bool {
			return g.First.Takes == c.Takes && g.First.Reason == c.Reason && g.First.WayOut == c.WayOut
		})
		if k < 0 {
			groups = append(groups, Group{First: c})
			k = len(groups) - 1
		}
		groups[k].Fields = append(groups[k].Fields, c.Field)
	}
	return groups
}
