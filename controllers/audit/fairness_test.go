package audit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

const (
	neverAudit = `{enforcement: Audit, match: {kinds: [VirtualMachine]}, validations: [{expression: "false", message: never}]}`
	neverDeny  = `{enforcement: Deny, match: {kinds: [VirtualMachine]}, validations: [{expression: "false", message: never}]}`
)

// slow is a clock by which everything takes a minute.
type slow struct{ *clocktesting.FakeClock }

func (slow) Since(time.Time) time.Duration { return time.Minute }

// count returns the number of results of a Report that begin with a text.
func (s *scene) count(namespace, prefix string) (n int) {
	for _, told := range s.shelf.told(namespace) {
		if strings.HasPrefix(told, prefix) {
			n++
		}
	}
	return n
}

// A namespace whose objects take long leaves time to the others, and policies that deny are evaluated on all objects.
func TestSpareTime(t *testing.T) {
	s := newScene(t, map[string]string{"audits": neverAudit, "denies": neverDeny})
	s.Clock = slow{s.clock}
	for i := range 20 {
		s.cluster.vm(t, "a", fmt.Sprintf("vm-%02d", i), "1Gi")
	}
	s.cluster.vm(t, "b", "vm", "1Gi")
	s.cluster.vm(t, "c", "vm", "1Gi")
	s.round(t)
	if n := s.count("a", "fail denies"); n != 20 {
		t.Errorf("the policy that denies has %d results in the namespace that takes long", n)
	}
	audited, skipped := s.count("a", "fail audits"), s.count("a", "error audits")
	if half := int(spareTime.Minutes()) / 2; audited+skipped != 20 || audited < half || audited > half+waiting {
		t.Errorf("%d objects were audited, and %d skipped", audited, skipped)
	}
	for _, namespace := range []string{"b", "c"} {
		if n := s.count(namespace, "fail audits"); n != 1 {
			t.Errorf("namespace %s has %d results: %v", namespace, n, s.shelf.told(namespace))
		}
	}
	s.round(t)
	if again := s.count("a", "fail audits"); again < int(spareTime.Minutes())/2 {
		t.Errorf("%d objects were audited in the next round", again)
	}
}

// A round that takes long is published meanwhile, with objects that change, and a change of policies counts for the rest of it.
func TestPublishedBetween(t *testing.T) {
	s := newScene(t, map[string]string{"cap": memoryCap})
	for i := range 6 { // three pages
		s.cluster.vm(t, "a", fmt.Sprintf("vm-%d", i), "1Gi")
	}
	changed := s.cluster.vm(t, "b", "vm", "1Gi")
	s.round(t)
	s.Clock = slow{s.clock}
	s.cluster.vm(t, "a", "vm-0", "9Gi")
	pages := 0
	s.cluster.fail = func() error {
		switch pages++; pages {
		case 2: // the first page was evaluated
			if n := s.count("a", "fail cap"); n != 1 {
				t.Errorf("%d results are published after the first page", n)
			}
			s.cluster.vm(t, "b", "vm", "9Gi")
			s.Changed(changed)
			s.set = policySet(t, map[string]string{"cap": memoryCap, "denies": neverDeny})
		case 4: // the second page, and the changed object
			if n := s.count("b", "fail cap"); n != 1 {
				t.Errorf("%d results of the changed object are published", n)
			}
			if n := s.count("a", "fail denies"); n != 2 {
				t.Errorf("the new policy has %d results after a page", n)
			}
		}
		return nil
	}
	s.round(t)
	s.cluster.fail = nil
	if n := s.count("a", "fail denies"); n != 4 {
		t.Errorf("the new policy has %d results after the round", n)
	}
}

// Nothing is published before the first round has ended: the Reports have what another replica found.
func TestNothingPublishedInTheFirstRound(t *testing.T) {
	s := newScene(t, map[string]string{"cap": memoryCap})
	s.Clock = slow{s.clock}
	for i := range 4 {
		s.cluster.vm(t, "a", fmt.Sprintf("vm-%d", i), "9Gi")
	}
	s.cluster.fail = func() error {
		if len(s.shelf.all) > 0 {
			t.Error("a Report was written")
		}
		return nil
	}
	s.round(t)
	if n := s.count("a", "fail cap"); n != 4 {
		t.Errorf("%d results", n)
	}
}
