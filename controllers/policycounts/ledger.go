package policycounts

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/policycounts"
)

// The thresholds of a suspension. They are about evaluations on ordinary objects: see policies.OrdinaryBytes.
const (
	// overrunIntervals is the number of successive intervals with evaluations in which most of them exceeded the units of
	// the policy. With the default interval, these are 90 seconds at least: a burst of requests does not suspend a policy.
	overrunIntervals = 3
	// leastOverruns is the number of overruns in these intervals. Below it, the policy costs little, because it is seldom
	// evaluated.
	leastOverruns = 10
)

// keepFor is the number of reads after which a replica that does not answer is forgotten. If it answers again later, its
// counts are those of a new process.
const keepFor = 20

// Key is one generation of a policy.
type Key struct {
	UID        types.UID
	Generation int64
}

// Failure is an expression that failed for a reason, in all processes.
type Failure struct {
	Field, Reason string
	// Counted is the number of failures since this process reads them.
	Counted int64
	// Reported is the sum of what the processes report, each since its start.
	Reported int64
	// First and Last are the times of the first and the last failure, in seconds since 1970.
	First, Last int64
}

// Count is what is known of one generation of a policy.
type Count struct {
	// Failures are sorted by field, then by reason.
	Failures []Failure
	// Denials are the requests that the policy denied; nil if there are none.
	Denials *Failure
	// Exceeds reports whether the policy exceeded its units again and again, in most of the namespaces in which it is
	// evaluated.
	Exceeds bool
}

// Counts are the result of a read.
type Counts struct {
	// Policies are those with failures or denials.
	Policies map[Key]Count
	// Read reports whether a replica of the webhook answered.
	Read bool
}

// Ledger merges the Reports of all processes. It is pure, and not safe for concurrent use. The zero value is empty.
//
// The counts of a process only grow until it ends, and another process has another instance. So what is new in a Report
// is the difference to the Report before. An earlier leader may have counted the first Report of a process that is older
// than the Ledger: nothing of it is new, and Reported keeps what was counted while no leader read.
type Ledger struct {
	// begun is the time of the first read, in seconds since 1970; 0 before it.
	begun    int64
	sources  map[string]*source
	policies map[Key]*state
}

// source is what a process reported last.
type source struct {
	policies map[Key]policycounts.Policy
	// missed is the number of reads since.
	missed int
}

// state is what the Ledger keeps of a policy.
type state struct {
	failures map[name]*Failure
	// intervals and overruns are those in succession, as for a suspension.
	intervals int
	overruns  int64
}

type name struct{ field, reason string }

// Add merges the Reports of one read at a time, in seconds since 1970. Policies that are not active are ignored.
func (l *Ledger) Add(reports []policycounts.Report, active []Key, now int64) map[Key]Count {
	if l.sources == nil {
		l.begun, l.sources, l.policies = now, map[string]*source{}, map[Key]*state{}
	}
	known := make(map[Key]bool, len(active))
	for _, key := range active {
		known[key] = true
	}
	maps.DeleteFunc(l.policies, func(key Key, _ *state) bool { return !known[key] })
	for _, s := range l.sources {
		s.missed++
	}
	interval := map[Key]*evaluations{}
	for i := range reports {
		l.add(&reports[i], known, interval)
	}
	maps.DeleteFunc(l.sources, func(_ string, s *source) bool { return s.missed > keepFor })
	for key, e := range interval {
		l.policies[key].observe(e)
	}
	return l.counts()
}

// evaluations are those of a policy in one interval, on ordinary objects.
type evaluations struct{ all, overruns int64 }

// add merges one Report. A process that is read twice, at two addresses, counts once.
func (l *Ledger) add(report *policycounts.Report, known map[Key]bool, interval map[Key]*evaluations) {
	before := l.sources[report.Instance]
	if before != nil && before.missed == 0 {
		return
	}
	now := &source{policies: make(map[Key]policycounts.Policy, len(report.Policies))}
	for i := range report.Policies {
		p := &report.Policies[i]
		key := Key{p.UID, p.Generation}
		if !known[key] {
			continue
		}
		now.policies[key] = *p
		if l.policies[key] == nil {
			l.policies[key] = &state{failures: map[name]*Failure{}}
		}
		if interval[key] == nil {
			interval[key] = &evaluations{}
		}
		switch {
		case before != nil:
			l.policies[key].count(p, before.policies[key], interval[key])
		case report.Started >= l.begun:
			l.policies[key].count(p, policycounts.Policy{}, interval[key])
		}
	}
	l.sources[report.Instance] = now
}

// count adds what is new in a Report. Counts that became smaller began again: the policy was compiled again.
func (s *state) count(p *policycounts.Policy, before policycounts.Policy, e *evaluations) {
	if p.Evaluations < before.Evaluations || p.Overruns < before.Overruns {
		before = policycounts.Policy{}
	}
	e.all += p.Evaluations - before.Evaluations
	e.overruns += p.Overruns - before.Overruns
	for i := range p.Failures {
		f := &p.Failures[i]
		fresh := f.Count
		for j := range before.Failures {
			if b := &before.Failures[j]; b.Field == f.Field && b.Reason == f.Reason && b.Count <= f.Count {
				fresh -= b.Count
			}
		}
		at := name{f.Field, f.Reason}
		if s.failures[at] == nil {
			s.failures[at] = &Failure{Field: f.Field, Reason: f.Reason}
		}
		s.failures[at].Counted += fresh
	}
}

// observe notes whether most evaluations of an interval exceeded the units. An interval without evaluations does not
// matter.
func (s *state) observe(e *evaluations) {
	switch {
	case e.all == 0:
	case 2*e.overruns > e.all:
		s.intervals++
		s.overruns += e.overruns
	default:
		s.intervals, s.overruns = 0, 0
	}
}

// counts returns what is known of all policies.
func (l *Ledger) counts() map[Key]Count {
	all := make(map[Key]Count, len(l.policies))
	for key, s := range l.policies {
		failures := maps.Clone(s.failures)
		for at, f := range failures {
			copied := *f
			failures[at] = &copied
		}
		namespaces, overrun := 0, 0
		for _, from := range l.sources {
			p, reported := from.policies[key]
			if !reported {
				continue
			}
			namespaces, overrun = max(namespaces, p.Namespaces), max(overrun, p.OverrunNamespaces)
			add(failures, p.Failures)
		}
		one := Count{Exceeds: s.intervals >= overrunIntervals && s.overruns >= leastOverruns && 2*overrun > namespaces}
		for _, f := range failures {
			if f.Reason == policycounts.Denied {
				one.Denials = f
				continue
			}
			one.Failures = append(one.Failures, *f)
		}
		slices.SortFunc(one.Failures, func(a, b Failure) int {
			return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Reason, b.Reason))
		})
		if len(one.Failures) > 0 || one.Denials != nil {
			all[key] = one
		}
	}
	return all
}

// add adds what a process reports.
func add(failures map[name]*Failure, reported []policycounts.Failure) {
	for i := range reported {
		r := &reported[i]
		at := name{r.Field, r.Reason}
		f := failures[at]
		if f == nil {
			f = &Failure{Field: r.Field, Reason: r.Reason}
			failures[at] = f
		}
		f.Reported += r.Count
		if f.First == 0 || r.First < f.First {
			f.First = r.First
		}
		f.Last = max(f.Last, r.Last)
	}
}
