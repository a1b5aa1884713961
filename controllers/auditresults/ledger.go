package auditresults

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/policies"
)

// Key names an object that is evaluated.
type Key struct {
	Namespace string
	// Kind is one of audit.Kinds, of which no two have the same name.
	Kind, Name string
}

// Compare orders keys by namespace, kind and name.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Namespace, other.Namespace), cmp.Compare(k.Kind, other.Kind), cmp.Compare(k.Name, other.Name))
}

// Subject is an object that was evaluated.
type Subject struct {
	Key

	APIVersion string
	UID        types.UID
}

// Source is what says something about an object.
type Source struct {
	// Name of the policy, or the id of the built-in rule.
	Name string
	// BuiltIn tells rules from policies.
	BuiltIn bool
}

func (s Source) compare(other Source) int {
	if s.BuiltIn != other.BuiltIn {
		if s.BuiltIn {
			return 1 // the policies first: they are the admin's own
		}
		return -1
	}
	return cmp.Compare(s.Name, other.Name)
}

// Outcome is what a result means.
type Outcome uint8

// The outcomes, the worst first.
const (
	// Fail: what the source asks for does not hold.
	Fail Outcome = iota
	// Warn: it does not hold, and that is a warning only.
	Warn
	// Error: the source cannot be evaluated about the object, or the object cannot be evaluated at all.
	Error
	outcomes
)

// Result is one thing that a source says about an object.
type Result struct {
	Source

	Outcome Outcome
	// Field of the object as it was written; empty for the object as a whole.
	Field string
	// Message is what is wrong, without the field.
	Message string
	// Remedy is what can be done about it; empty if nobody knows.
	Remedy string
	// Counted tells that the result is only counted: its words are left out.
	Counted bool
}

func (r *Result) compare(other *Result) int {
	counted := map[bool]int{true: 1}
	return cmp.Or(
		r.Source.compare(other.Source), cmp.Compare(counted[r.Counted], counted[other.Counted]),
		cmp.Compare(r.Outcome, other.Outcome), cmp.Compare(r.Field, other.Field), cmp.Compare(r.Message, other.Message),
	)
}

// Held is a result and the object that it is about.
type Held struct {
	Subject
	Result
}

// String returns the field, the message, the rule and the remedy, as a denial does.
func (h *Held) String() string {
	text := h.Message + " [virtward/" + policies.RulePrefix + h.Source.Name + "]"
	if h.Field != "" {
		text = h.Field + ": " + text
	}
	if h.Remedy != "" {
		text += " " + h.Remedy
	}
	return text
}

func (h *Held) compare(other *Held) int {
	return cmp.Or(
		h.Key.Compare(other.Key), cmp.Compare(h.Result.Outcome, other.Result.Outcome),
		cmp.Compare(h.Field, other.Field), cmp.Compare(h.Message, other.Message),
	)
}

// Limits bound what is held in words. Numbers are exact in any case.
type Limits struct {
	// PerNamespace bounds the results of a namespace that are held.
	PerNamespace int
	// PerSource bounds those of one policy in a namespace.
	PerSource int
	// Total bounds the results that are held of all namespaces together; 0 for no bound. Where there are too many
	// namespaces with results for PerNamespace, each of them has the same share.
	Total int
}

// share is how many results of a namespace are held where so many namespaces have some. It changes in steps of an
// eighth, so that not every namespace makes all others give something away.
func (l Limits) share(namespaces int) int {
	if l.Total == 0 || namespaces == 0 {
		return l.PerNamespace
	}
	if step := bits.Len(uint(namespaces)) - 4; step > 0 {
		namespaces = (namespaces + 1<<step - 1) >> step << step
	}
	return min(l.PerNamespace, l.Total/namespaces)
}

// Condense sorts the results of one object, and leaves out the words of those that no Report has room for.
func (l Limits) Condense(results []Result) []Result {
	slices.SortFunc(results, func(a, b Result) int { return a.compare(&b) })
	perSource := map[Source]int{}
	for i := range results {
		perSource[results[i].Source]++
	}
	room := shares(l, perSource)
	for i := range results {
		source := results[i].Source
		if room[source]--; room[source] < 0 {
			results[i] = Result{Source: source, Outcome: results[i].Outcome, Counted: true}
		}
	}
	return results
}

// Sum counts results by their outcomes, and objects without any.
type Sum struct {
	Fail, Warn, Error int
	// Pass are the objects that nothing was found about.
	Pass int
}

func (s *Sum) add(o Outcome, n int) {
	switch o {
	case Fail:
		s.Fail += n
	case Warn:
		s.Warn += n
	default:
		s.Error += n
	}
}

// Total counts objects that a source has found something about.
type Total struct {
	// Violating are those that do not hold to it, Errors those about which it cannot be evaluated.
	Violating, Errors int
}

// tally is how often a source said what about one object.
type tally struct {
	source Source
	counts [outcomes]uint16
}

func (t *tally) violating() bool { return t.counts[Fail]+t.counts[Warn] > 0 }

func (t *tally) sum() int { return int(t.counts[Fail]) + int(t.counts[Warn]) + int(t.counts[Error]) }

// record is what is known of an object; its tallies are sorted by their sources.
type record struct {
	tallies []tally
	round   uint32
}

// object is a Key without the namespace.
type object struct{ kind, name string }

type namespace struct {
	objects map[object]record
	sum     Sum
	held    held
	changed bool
}

// Ledger is what the audit knows. Make one with New.
type Ledger struct {
	limits     Limits
	namespaces map[string]*namespace
	totals     map[Source]Total
	round      uint32
	// speaking is how many namespaces have results.
	speaking int
}

// New makes a ledger that knows nothing.
func New(limits Limits) *Ledger {
	return &Ledger{limits: limits, namespaces: map[string]*namespace{}, totals: map[Source]Total{}}
}

// Limits are those of the ledger.
func (l *Ledger) Limits() Limits { return l.limits }

// Begin begins a round in which everything that exists is put. What was there before counts until it is put again or
// the round ends.
func (l *Ledger) Begin() { l.round++ }

// End ends a round in which everything was put: what was not is gone.
func (l *Ledger) End() {
	for name, ns := range l.namespaces {
		for o := range ns.objects {
			if ns.objects[o].round != l.round {
				l.Remove(Key{Namespace: name, Kind: o.kind, Name: o.name})
			}
		}
	}
}

// Put notes what was found about an object, in place of what was known of it. Fresh is the first result of each
// source that found no violation in the object before.
func (l *Ledger) Put(subject Subject, results []Result) (fresh []Held) {
	ns := l.namespaces[subject.Namespace]
	if ns == nil {
		ns = &namespace{objects: map[object]record{}, held: held{limits: l.limits, groups: map[Source][]Held{}}, changed: true}
		ns.held.limits.PerNamespace = l.limits.share(l.speaking)
		l.namespaces[subject.Namespace] = ns
	}
	at := object{subject.Kind, subject.Name}
	before, known := ns.objects[at]
	sorted := slices.Clone(results)
	slices.SortFunc(sorted, func(a, b Result) int { return a.compare(&b) })
	after := record{tallies: tallies(sorted), round: l.round}
	for i := range sorted {
		first := i == 0 || sorted[i-1].Source != sorted[i].Source
		if first && sorted[i].Outcome != Error && !violated(before.tallies, sorted[i].Source) {
			fresh = append(fresh, Held{subject, sorted[i]})
		}
	}
	l.count(ns, before, -1, known)
	l.count(ns, after, 1, true)
	ns.objects[at] = after
	if ns.held.replace(subject, before.tallies, sorted) || !known || !slices.Equal(before.tallies, after.tallies) {
		ns.changed = true
	}
	return fresh
}

func violated(tallies []tally, source Source) bool {
	return slices.ContainsFunc(tallies, func(t tally) bool { return t.source == source && t.violating() })
}

// tallies counts sorted results.
func tallies(sorted []Result) []tally {
	var found []tally
	for i := range sorted {
		if len(found) == 0 || found[len(found)-1].source != sorted[i].Source {
			found = append(found, tally{source: sorted[i].Source})
		}
		if n := &found[len(found)-1].counts[sorted[i].Outcome]; *n < 1<<15-1 {
			*n++
		}
	}
	return slices.Clip(found)
}

// Remove forgets an object.
func (l *Ledger) Remove(key Key) {
	ns := l.namespaces[key.Namespace]
	if ns == nil {
		return
	}
	at := object{key.Kind, key.Name}
	before, known := ns.objects[at]
	if !known {
		return
	}
	l.count(ns, before, -1, true)
	delete(ns.objects, at)
	ns.held.replace(Subject{Key: key}, before.tallies, nil)
	ns.changed = true
}

// speaks reports whether there are results in a namespace.
func (ns *namespace) speaks() bool { return ns.sum.Fail+ns.sum.Warn+ns.sum.Error > 0 }

// count adds a record to the sums, or takes it out of them.
func (l *Ledger) count(ns *namespace, r record, sign int, known bool) {
	before := ns.speaks()
	defer func() {
		switch after := ns.speaks(); {
		case after && !before:
			l.spoke(1)
		case before && !after:
			l.spoke(-1)
		}
	}()
	if known && len(r.tallies) == 0 {
		ns.sum.Pass += sign
	}
	for i := range r.tallies {
		t := &r.tallies[i]
		total := l.totals[t.source]
		switch {
		case t.violating():
			total.Violating += sign
		default:
			total.Errors += sign
		}
		l.totals[t.source] = total
		if total == (Total{}) {
			delete(l.totals, t.source)
		}
		for o, n := range t.counts {
			ns.sum.add(Outcome(o), sign*int(n))
		}
	}
}

// spoke notes that one namespace more, or less, has results, and gives each its share.
func (l *Ledger) spoke(more int) {
	before := l.limits.share(l.speaking)
	l.speaking += more
	share := l.limits.share(l.speaking)
	if share == before {
		return
	}
	for _, ns := range l.namespaces {
		if ns.held.limit(share) {
			ns.changed = true
		}
	}
}

// Totals are those of every source that has found something, by source.
func (l *Ledger) Totals() map[Source]Total { return maps.Clone(l.totals) }

// Objects is how many are known.
func (l *Ledger) Objects() int {
	n := 0
	for _, ns := range l.namespaces {
		n += len(ns.objects)
	}
	return n
}

// Namespaces are those with objects in them, sorted.
func (l *Ledger) Namespaces() []string {
	var names []string
	for name, ns := range l.namespaces {
		if len(ns.objects) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Changed are the namespaces in which something changed since it was Settled, sorted; also those that have no objects
// any more.
func (l *Ledger) Changed() []string {
	var names []string
	for name, ns := range l.namespaces {
		if ns.changed {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Settled notes that whoever wants to know has seen a namespace as it is now.
func (l *Ledger) Settled(name string) {
	ns := l.namespaces[name]
	if ns == nil {
		return
	}
	ns.changed = false
	if len(ns.objects) == 0 {
		delete(l.namespaces, name)
	}
}

// View is a namespace as it stands.
type View struct {
	// Objects is how many there are.
	Objects int
	Sum     Sum
	// Results are the first ones, sorted by source, then by object.
	Results []Held
	// Left is how many results are not among them.
	Left int
}

// View shows a namespace.
func (l *Ledger) View(name string) View {
	ns := l.namespaces[name]
	if ns == nil {
		return View{}
	}
	v := View{Objects: len(ns.objects), Sum: ns.sum, Results: ns.held.all()}
	v.Left = v.Sum.Fail + v.Sum.Warn + v.Sum.Error - len(v.Results)
	return v
}
