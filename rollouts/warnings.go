package rollouts

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/texts"
)

// Bounds of warnings. maxNamed bounds the fields that one warning names.
const (
	// MaxWarnings bounds the warnings of a plan.
	MaxWarnings = 8
	maxNamed    = 3
	maxField    = 256
)

// Since returns the changes that were not in an earlier plan: with another value, or with another answer. Those that the
// plan omits stay omitted.
func (r *Result) Since(before *Result) Result {
	type answer struct {
		field, value string
		takes        Takes
	}
	known := make(map[answer]bool, len(before.Changes))
	for i := range before.Changes {
		c := &before.Changes[i]
		known[answer{c.Field, c.New, c.Takes}] = true
	}
	since := *r
	since.Changes = slices.DeleteFunc(slices.Clone(r.Changes), func(c Change) bool { return known[answer{c.Field, c.New, c.Takes}] })
	return since
}

// SinceVM reports whether every change is one since an earlier VM, so that Since changes nothing, whatever was pending before.
// It is false if that is not certain without a plan of that VM.
func (r *Result) SinceVM(before, after *v1.VirtualMachine, kinds Kinds) bool {
	for _, vm := range []*v1.VirtualMachine{before, after} {
		if vm.Spec.Template == nil || vm.Spec.Instancetype != nil || vm.Spec.Preference != nil || len(vm.Status.VolumeRequests) > 0 {
			return false
		}
	}
	if r.Omitted > 0 || kinds.Instancetype != nil || kinds.Preference != nil || kinds.missing() {
		return false
	}
	spec := reflect.ValueOf(&before.Spec.Template.Spec).Elem()
	return !slices.ContainsFunc(r.Changes, func(c Change) bool {
		path, inSpec := strings.CutPrefix(c.Field, template)
		if !inSpec || c.InProgress || strings.Contains(path, "[") || path == "domain.firmware.uuid" {
			return true
		}
		at := nodeOf(path)
		value := valueAt(spec, at)
		// A list or an object may have changed, and yet be the same in short.
		return value.IsValid() && !isScalar(value) || show(at.name, value) == c.New
	})
}

// Pending reports whether a change does not simply happen.
func (r *Result) Pending() bool {
	return r.Omitted > 0 || slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Pending() })
}

// Fields are the fields whose changes take effect in one way, in the order of the plan.
func (r *Result) Fields(takes Takes) []string {
	var fields []string
	for i := range r.Changes {
		if r.Changes[i].Takes == takes {
			fields = append(fields, r.Changes[i].Field)
		}
	}
	return fields
}

// Warnings are sentences for the user who makes the changes: one for each reason for which changes do not simply happen.
// Under the rollout strategy Stage, one sentence names all changes that wait for the restart. A VM that is being stopped
// gets no warnings.
func (r *Result) Warnings(stage bool) []string {
	var staged []string
	groups := r.groups(func(c *Change) bool {
		switch {
		case !c.Pending() || c.Takes == NextStart:
			return false
		case stage && !c.InProgress && (c.Takes == Restart || c.Takes == LiveOnMigration):
			staged = append(staged, c.Field)
			return false
		}
		return true
	})
	var warnings []string
	if len(staged) > 0 {
		warnings = append(warnings, "The rollout strategy of the cluster is Stage. These changes take effect when the VM restarts: "+named(staged)+".")
	}
	more := r.Omitted
	for i := range groups {
		if len(warnings) == MaxWarnings-1 && (i < len(groups)-1 || r.Omitted > 0) {
			for k := i; k < len(groups); k++ {
				more += len(groups[k].Fields)
			}
			break
		}
		warnings = append(warnings, groups[i].text())
	}
	if more > 0 {
		warnings = append(warnings, fmt.Sprintf("%d more fields differ from what runs: kubectl virtward rollout plan shows them.", more))
	}
	return warnings
}

// named lists the first fields, and the number of the others.
func named(fields []string) string {
	short := slices.Clone(fields)
	for i := range short[:min(len(short), maxNamed)] {
		short[i] = texts.Shorten(short[i], maxField)
	}
	return texts.First(short, maxNamed)
}

// text is FIELD: when it takes effect, why, what to do, and how many other fields there are.
func (g *Group) text() string {
	c := g.First
	parts := []string{texts.Shorten(c.Field, maxField) + ": " + effects[c.Takes], c.Reason}
	if c.WayOut != "" && c.WayOut != wayOutRestart {
		parts = append(parts, c.WayOut)
	}
	if more := len(g.Fields) - 1; more > 0 {
		parts = append(parts, others(more, c.Takes))
	}
	return texts.OneLine(strings.Join(parts, " "))
}

// effects say when a change takes effect.
var effects = map[Takes]string{
	LiveOnMigration: "takes effect with a live migration.",
	Restart:         "takes effect when the VM restarts.",
	Blocked:         "is blocked.",
	Never:           "has no effect.",
}

func others(number int, takes Takes) string {
	switch {
	case takes == Restart && number == 1:
		return "1 more field needs the same restart."
	case takes == Restart:
		return fmt.Sprintf("%d more fields need the same restart.", number)
	case number == 1:
		return "This applies to 1 more field."
	}
	return fmt.Sprintf("This applies to %d more fields.", number)
}
