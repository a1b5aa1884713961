package pending

import (
	"maps"
	"slices"
	"sync"

	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/rollouts"
)

// maxMachines bounds the running VMs that are remembered. A record has at most recordBytes with the names. Other VMs get their
// annotation too, and are not counted.
const (
	maxMachines = 50_000
	recordBytes = 1 << 10
)

// kinds are the values of Takes that can be pending, in the order of the counts.
var kinds = [...]rollouts.Takes{rollouts.LiveOnMigration, rollouts.Restart, rollouts.Blocked, rollouts.Never}

// kindRestart is the index of Restart in kinds.
const kindRestart = 1

// record is what is remembered of a running VM.
type record struct {
	// changes are the numbers of changes by kinds.
	changes [len(kinds)]uint16
	// announced reports whether KubeVirt requires a restart.
	announced bool
	waits     rollouts.Waits
	sockets   uint32
	guest     int64
	stamps    []stamp
}

func recordOf(in *rollouts.Input, result *rollouts.Result, stamps []stamp) record {
	r := record{announced: result.RestartRequired != "", waits: result.WaitsWithoutEnd(in), stamps: stamps}
	for i := range result.Changes {
		if at := slices.Index(kinds[:], result.Changes[i].Takes); at >= 0 {
			r.changes[at]++
		}
	}
	domain := &in.Running.Spec.Domain
	if domain.CPU != nil {
		r.sockets = domain.CPU.Sockets
	}
	if domain.Memory != nil && domain.Memory.Guest != nil {
		r.guest = domain.Memory.Guest.Value()
	}
	return r
}

// ledger has the running VMs. It is safe for concurrent use.
type ledger struct {
	mu      sync.Mutex
	records map[reconcile.Request]record
	// omitted is set if a VM did not fit.
	omitted bool
	// expected are the VMs of the first list that are not compared yet; nil once all are.
	expected map[reconcile.Request]struct{}
	// listed is set once the first list is complete.
	listed bool
}

func newLedger() *ledger {
	return &ledger{records: map[reconcile.Request]record{}, expected: map[reconcile.Request]struct{}{}}
}

// expects notes a VM of the first list, so that the counts are published as complete once all are compared.
func (l *ledger) expects(key reconcile.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expected != nil && len(l.expected) < 2*maxMachines {
		l.expected[key] = struct{}{}
	}
}

// compared notes that a VM was compared, or does not run.
func (l *ledger) compared(key reconcile.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.expected, key)
	if l.listed && len(l.expected) == 0 {
		l.expected = nil
	}
}

// began notes that the first list is empty, or follows.
func (l *ledger) began() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listed = true
}

// stamps are those of a VM. They are nil for one that was not compared.
func (l *ledger) stamps(key reconcile.Request) []stamp {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, known := l.records[key]
	if known && r.stamps == nil {
		return []stamp{}
	}
	return r.stamps
}

func (l *ledger) set(key reconcile.Request, r record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.records[key]; !known && len(l.records) >= maxMachines {
		l.omitted = true
		return
	}
	l.records[key] = r
}

func (l *ledger) remove(key reconcile.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.records, key)
}

func (l *ledger) keys() []reconcile.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.records))
}

// totals are the counts of all VMs.
type totals struct {
	// running is the number of running VMs, and pending that of those with a pending change.
	running, pending int
	// announced is the number of VMs for which KubeVirt requires a restart.
	announced int
	// changes are the numbers of changes, and machines those of the VMs that have one, by kinds.
	changes, machines [len(kinds)]int
	waits             map[rollouts.Waits]int
	sockets           uint32
	guest             int64
	// listed is set in the leader, after the first list. complete is false if some VMs are not counted.
	listed, complete bool
}

func (l *ledger) totals() totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := totals{running: len(l.records), waits: map[rollouts.Waits]int{}, listed: l.listed, complete: !l.omitted && l.listed && len(l.expected) == 0}
	for _, r := range l.records {
		pending := false
		for i, n := range r.changes {
			t.changes[i] += int(n)
			if n > 0 {
				t.machines[i]++
				pending = true
			}
		}
		if pending {
			t.pending++
		}
		if r.announced {
			t.announced++
		}
		if r.waits != "" {
			t.waits[r.waits]++
		}
		t.sockets, t.guest = max(t.sockets, r.sockets), max(t.guest, r.guest)
	}
	return t
}

// isRunning reports whether a VM can have an instance that is compared.
func isRunning(vm *kubevirtv1.VirtualMachine) bool {
	if vm.DeletionTimestamp != nil || vm.Spec.Template == nil {
		return false
	}
	strategy, err := vm.RunStrategy()
	return vm.Status.Created || vm.Status.Ready || err != nil || strategy != kubevirtv1.RunStrategyHalted
}
