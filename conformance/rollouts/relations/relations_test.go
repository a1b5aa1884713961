package relations

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/conformance"
	recorded "github.com/virtward/virtward/conformance/rollouts"
	"github.com/virtward/virtward/rollouts"
	"github.com/virtward/virtward/rollouts/fleet"
)

// change is what the answers have in common.
type change struct {
	Field string
	Takes rollouts.Takes
}

func changesOf(result *rollouts.Result) (all, pending []change) {
	for i := range result.Changes {
		c := change{result.Changes[i].Field, result.Changes[i].Takes}
		if all = append(all, c); c.Takes != rollouts.Live && c.Takes != rollouts.NextStart {
			pending = append(pending, c)
		}
	}
	return all, pending
}

// sorted are changes in an order of their own: a summary has those with one reason together.
func sorted(changes []change) []change {
	changes = slices.Clone(changes)
	slices.SortFunc(changes, func(a, b change) int {
		return strings.Compare(a.Field+" "+string(a.Takes), b.Field+" "+string(b.Takes))
	})
	return changes
}

// summarized are the changes of an annotation or a status.
func summarized(groups []v1alpha1.PendingChange) (all []change) {
	for i := range groups {
		for _, field := range groups[i].Fields {
			all = append(all, change{field, rollouts.Takes(groups[i].Takes)})
		}
	}
	return all
}

// cluster serves the objects of one situation at a time.
type cluster struct {
	server  *httptest.Server
	objects atomic.Pointer[map[string][]byte]
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{}
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		object, found := (*c.objects.Load())[pathOf(r.URL.Path)]
		if !found {
			w.WriteHeader(http.StatusNotFound)
			object = []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		}
		if _, err := w.Write(object); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(c.server.Close)
	return c
}

// pathOf is a path without its version: the cases have objects of one version only.
func pathOf(path string) string {
	steps := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if len(steps) < 3 {
		return path
	}
	if steps[0] == "api" {
		return strings.Join(append([]string{""}, steps[2:]...), "/")
	}
	return strings.Join(append([]string{steps[1]}, steps[3:]...), "/")
}

func (c *cluster) call(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	return clitest.Call(t, "", append(append([]string{"rollout"}, args...), "--server", c.server.URL, "-n", "default")...)
}

// planned is the plan that the command prints.
func (c *cluster) planned(t *testing.T, id string) *rollouts.Result {
	t.Helper()
	got := c.call(t, "plan", "vm/vm", "-o", "json")
	var plans struct{ Plans []rollouts.Result }
	if err := json.Unmarshal([]byte(got.Out), &plans); err != nil || len(plans.Plans) != 1 || got.Code != clitest.ExitOK {
		t.Fatalf("%s: plan: %d: %v\n%s%s", id, got.Code, err, got.Out, got.ErrOut)
	}
	return &plans.Plans[0]
}

// shown are the changes of the command status.
func (c *cluster) shown(t *testing.T, id, from string) []change {
	t.Helper()
	got := c.call(t, "status", "vm/vm", "-o", "json")
	var statuses struct {
		VirtualMachines []struct {
			From    string
			Pending []v1alpha1.PendingChange
		}
	}
	if err := json.Unmarshal([]byte(got.Out), &statuses); err != nil || len(statuses.VirtualMachines) != 1 || got.Code != clitest.ExitOK {
		t.Fatalf("%s: status: %d: %v\n%s%s", id, got.Code, err, got.Out, got.ErrOut)
	}
	if statuses.VirtualMachines[0].From != from {
		t.Errorf("%s: the status is from %q, want %q", id, statuses.VirtualMachines[0].From, from)
	}
	return summarized(statuses.VirtualMachines[0].Pending)
}

// differing are the changes of the command diff.
func (c *cluster) differing(t *testing.T, id string) (all []change) {
	t.Helper()
	got := c.call(t, "diff", "vm")
	for line := range strings.Lines(got.Out) {
		text, isChange := strings.CutPrefix(line, "@@ ")
		if !isChange {
			continue
		}
		field, takes, _ := strings.Cut(strings.TrimSuffix(text, " @@\n"), ": ")
		field, _, _ = strings.Cut(field, " (")
		all = append(all, change{field, rollouts.Takes(takes)})
	}
	if want := map[bool]int{true: clitest.ExitFailed, false: clitest.ExitOK}[len(all) > 0]; got.Code != want {
		t.Errorf("%s: diff exits with %d for %d changes:\n%s", id, got.Code, len(all), got.ErrOut)
	}
	return all
}

// TestRelations feeds each recorded case through all answers, before and after KubeVirt has written the change. Short runs
// take one case of eight.
func TestRelations(t *testing.T) {
	file, err := os.Open("../../testdata/rollouts/rollout.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	served := newCluster(t)
	counts, every, number := map[string]int{}, 1, 0
	if testing.Short() {
		every = 8
	}
	err = conformance.Lines(file, func(line []byte) error {
		if number++; number%every != 0 {
			return nil
		}
		c := &recorded.Case{}
		if err := json.Unmarshal(line, c); err != nil {
			return err
		}
		counts["cases"]++
		before := newSituation(t, c, c.VMI)
		plan := before.check(t, served, counts)
		withoutInstancetype(t, c, served, counts)
		if c.VMI == nil {
			return nil
		}
		after := newSituation(t, c, written(t, c))
		after.id += " (written)"
		next := after.check(t, served, counts)
		namesStay(t, c, plan, next, counts)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(counts)
	for what, least := range map[string]int{
		"cases": 400, "situations": 1200, "pending": 1500, "in progress": 100, "failures": 400, "annotations": 900, "warnings": 900, "names": 100,
	} {
		if every > 1 {
			least = 1 // the cases that are left are not like the others
		}
		if counts[what] < least {
			t.Errorf("%d %s, want at least %d", counts[what], what, least)
		}
	}
}

// withoutInstancetype holds the relations for a VM that names an instancetype which does not exist.
func withoutInstancetype(t *testing.T, c *recorded.Case, served *cluster, counts map[string]int) {
	t.Helper()
	named := *c
	named.VM = c.VM.DeepCopy()
	named.VM.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "nothing", Kind: "VirtualMachineInstancetype"}
	s := newSituation(t, &named, c.VMI)
	s.id += " (without its instancetype)"
	plan := s.check(t, served, counts)
	if want := (change{"spec.instancetype", rollouts.Blocked}); plan.Failure == "" || len(plan.Changes) == 0 || (change{plan.Changes[0].Field, plan.Changes[0].Takes}) != want {
		t.Errorf("%s: the plan is %s, and does not begin with %v", s.id, fields(plan), want)
	}
}

// check holds the relations in one situation, and returns its plan.
func (s *situation) check(t *testing.T, served *cluster, counts map[string]int) *rollouts.Result {
	t.Helper()
	served.objects.Store(s.paths(t, s.c.VM))
	counts["situations"]++
	plan := served.planned(t, s.id)
	all, pending := changesOf(plan)
	if s.c.VMI == nil {
		pending = nil
	}
	expect := func(what string, want, got []change) {
		t.Helper()
		if diff := cmp.Diff(sorted(want), sorted(got), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s (-plan +%s):\n%s", s.id, what, what, diff)
		}
	}
	core := rollouts.Plan(s.input)
	if diff := cmp.Diff(core, *plan, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s: the command plans something else (-core +command):\n%s", s.id, diff)
	}
	expect("diff", all, served.differing(t, s.id))
	if stops(plan) {
		pending = nil
	}
	if s.c.VMI != nil {
		expect("status", pending, served.shown(t, s.id, "plan"))
		s.annotation(t, served, pending, counts)
	}
	s.failure(t, served, plan, counts)
	s.outcome(t, plan)
	s.warnings(t, plan, counts)
	counts["pending"] += len(pending)
	for i := range plan.Changes {
		if plan.Changes[i].InProgress {
			counts["in progress"]++
		}
	}
	return plan
}

// stops reports whether a plan is of a VM that is being stopped: everything waits for the next start.
func stops(plan *rollouts.Result) bool {
	return slices.ContainsFunc(plan.Changes, func(c rollouts.Change) bool { return c.Takes == rollouts.NextStart })
}

// annotation holds that the annotation has what is pending, and that the status shows it.
func (s *situation) annotation(t *testing.T, served *cluster, pending []change, counts map[string]int) {
	t.Helper()
	annotated, found := s.annotated(t)
	if found == nil {
		if len(pending) > 0 {
			t.Errorf("%s: no annotation has %v", s.id, pending)
		}
		return
	}
	counts["annotations"]++
	if diff := cmp.Diff(sorted(pending), sorted(summarized(found.Changes))); diff != "" || found.Omitted > 0 {
		t.Errorf("%s: the annotation (-plan +annotation):\n%s", s.id, diff)
	}
	served.objects.Store(s.paths(t, annotated))
	if diff := cmp.Diff(sorted(pending), sorted(served.shown(t, s.id, "annotation"))); diff != "" {
		t.Errorf("%s: the status of the annotation (-plan +status):\n%s", s.id, diff)
	}
	served.objects.Store(s.paths(t, s.c.VM))
}

// failure holds that a failure of KubeVirt is a change, which a CI gate fails on.
func (s *situation) failure(t *testing.T, served *cluster, plan *rollouts.Result, counts map[string]int) {
	t.Helper()
	if plan.Failure == "" {
		return
	}
	counts["failures"]++
	fails := func(c rollouts.Change) bool {
		return c.Announced == rollouts.ByFailure && (c.Takes == rollouts.Blocked || c.Takes == rollouts.Restart)
	}
	if !slices.ContainsFunc(plan.Changes, fails) {
		t.Errorf("%s: no change says that KubeVirt fails at %s", s.id, plan.Failure)
	}
	commands := []string{"plan", "status"}
	if s.c.VMI == nil {
		commands = commands[:1] // the status is of running VMs
	}
	for _, command := range commands {
		if got := served.call(t, command, "vm/vm", "--fail-on", "blocked,restart"); got.Code != clitest.ExitFailed || !strings.HasPrefix(got.ErrOut, "error: changes of --fail-on: ") {
			t.Errorf("%s: %s exits with %d: %s", s.id, command, got.Code, got.ErrOut)
		}
	}
}

// outcome holds that a rollout of many VMs needs what the plan needs.
func (s *situation) outcome(t *testing.T, plan *rollouts.Result) {
	t.Helper()
	want := fleet.NeedsNothing
	for i := range plan.Changes {
		switch plan.Changes[i].Takes {
		case rollouts.Live:
			want = max(want, fleet.NeedsLive)
		case rollouts.LiveOnMigration:
			want = max(want, fleet.NeedsMigration)
		case rollouts.Restart:
			want = max(want, fleet.NeedsRestart)
		case rollouts.Blocked:
			want = max(want, fleet.NeedsOther)
		}
	}
	if plan.Failure != "" {
		want = fleet.NeedsOther
	}
	got := fleet.OutcomeOf(plan, s.input.Facts)
	if got.Needs != want || want > fleet.NeedsNothing && (got.Field == "" || got.Reason == "") {
		t.Errorf("%s: a rollout has the outcome %+v, want the need %d", s.id, got, want)
	}
}

// warnings holds that the webhook reports the plan without what was pending before the edit.
func (s *situation) warnings(t *testing.T, plan *rollouts.Result, counts map[string]int) {
	t.Helper()
	old := s.old()
	if s.c.VMI == nil || old == nil {
		return
	}
	got := s.evaluated(t, old)
	if got == nil {
		return
	}
	before := *s.input
	before.Desired = old
	before.DesiredKinds = s.kinds(t, old)
	was := rollouts.Plan(&before)
	want := plan.Since(&was)
	_, pending := changesOf(&want)
	_, reported := changesOf(got)
	if diff := cmp.Diff(pending, reported, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s: the warnings (-plan +webhook):\n%s", s.id, diff)
	}
	if warned := got.Warnings(!s.input.Facts.LiveUpdate); len(warned) > 0 != (len(pending) > 0) {
		t.Errorf("%s: %d changes are pending since the edit, and the warnings are %q", s.id, len(pending), warned)
	} else if len(warned) > 0 {
		counts["warnings"]++
	}
}

// namesStay holds that what KubeVirt has written, and what waits for the migration, keeps its name.
func namesStay(t *testing.T, c *recorded.Case, before, after *rollouts.Result, counts map[string]int) {
	t.Helper()
	if !c.Expect.Admission.Allowed || c.VMI.Status.Phase != v1.Running { // a guest that starts gets the change at once
		return
	}
	for i := range before.Changes {
		b := &before.Changes[i]
		if !b.Patched || b.Announced != rollouts.ByCondition || b.Takes == rollouts.Live {
			continue
		}
		counts["names"]++
		if !slices.ContainsFunc(after.Changes, func(a rollouts.Change) bool { return a.Field == b.Field && a.Takes == b.Takes }) {
			t.Errorf("%s: %s takes %s, and is not in the plan once KubeVirt has written it: %s", c.ID, b.Field, b.Takes, fields(after))
		}
	}
}

func fields(plan *rollouts.Result) string {
	all, _ := changesOf(plan)
	return fmt.Sprint(all)
}

// written is the instance once KubeVirt has written the change, with the conditions that announce it.
func written(t *testing.T, c *recorded.Case) *v1.VirtualMachineInstance {
	t.Helper()
	object, err := c.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	vmi := &v1.VirtualMachineInstance{}
	if err := json.Unmarshal(data, vmi); err != nil {
		t.Fatal(err)
	}
	kept := slices.DeleteFunc(vmi.Status.Conditions, func(c v1.VirtualMachineInstanceCondition) bool {
		switch c.Type {
		case v1.VirtualMachineInstanceVCPUChange, v1.VirtualMachineInstanceMemoryChange, v1.VirtualMachineInstanceMigrationRequired, v1.VirtualMachineInstanceVolumesChange:
			return true
		}
		return false
	})
	conditions := c.Expect.VMIConditions
	if c.Expect.VMIConditionsLater != nil {
		conditions = c.Expect.VMIConditionsLater
	}
	for _, condition := range conditions {
		kept = append(kept, v1.VirtualMachineInstanceCondition{
			Type: v1.VirtualMachineInstanceConditionType(condition.Type), Status: condition.Status, Reason: condition.Reason,
		})
	}
	vmi.Status.Conditions = kept
	return vmi
}
