package auditresults

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/migrations"
	"github.com/virtward/virtward/policies"
)

// Key names an evaluated object.
type Key struct {
	Namespace string
	// Kind is one of audit.Kinds, whose names are unique.
	Kind, Name string
}

// Compare orders keys by namespace, kind and name.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Namespace, other.Namespace), cmp.Compare(k.Kind, other.Kind), cmp.Compare(k.Name, other.Name))
}

// Subject is an evaluated object.
type Subject struct {
	Key

	APIVersion string
	UID        types.UID
	// Targets is how many other nodes could receive an instance that runs.
	Targets migrations.Level
}

// Source is a policy or a built-in rule.
type Source struct {
	// Name of the policy, or the id of the built-in rule.
	Name string
	// BuiltIn reports whether it is a built-in rule.
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

// Outcome is the kind of a result.
type Outcome uint8

// The outcomes, the worst first.
const (
	// Fail: the object violates the source.
	Fail Outcome = iota
	// Warn: the object violates the source, which only warns.
	Warn
	// Error: the source cannot be evaluated on the object, or the object cannot be evaluated at all.
	Error
	// Exempt: the object violates the source, and an exception exempts it.
	Exempt
	outcomes
)

// Result is one finding of a source about an object, within the bounds of a Report.
type Result struct {
	Source

	Outcome Outcome
	// Field of the object as it was written; empty for the whole object.
	Field string
	// Message is what is wrong, without the field.
	Message string
	// Remedy is what the author can do; empty if unknown.
	Remedy string
	// Counted reports whether the result is only counted, without texts.
	Counted bool
}

func (r *Result) compare(other *Result) int {
	counted := map[bool]int{true: 1}
	return cmp.Or(
		r.Source.compare(other.Source), cmp.Compare(counted[r.Counted], counted[other.Counted]),
		cmp.Compare(r.Outcome, other.Outcome), cmp.Compare(r.Field, other.Field), cmp.Compare(r.Message, other.Message),
	)
}

// Held is a result and its object.
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

// MaxHeld bounds the held results of all namespaces together, and HeldBytes is the most memory of one, in bytes.
const (
	MaxHeld   = 50_000
	HeldBytes = 1500
)

// Limits bound the held results. Numbers are always exact.
type Limits struct {
	// PerNamespace bounds the held results of a namespace.
	PerNamespace int
	// PerSource bounds those of one policy in a namespace.
	PerSource int
	// Total bounds the held results of all namespaces together; 0 for no bound. If too many namespaces have results,
	// each of them has the same share.
	Total int
}

// share returns how many results of a namespace are held, by the number of namespaces with results. It changes in steps
// of an eighth, so that a new namespace rarely shrinks all others.
func (l Limits) share(namespaces int) int {
	if l.Total == 0 || namespaces == 0 {
		return l.PerNamespace
	}
	if step := bits.Len(uint(namespaces)) - 4; step > 0 {
		namespaces = (namespaces + 1<<step - 1) >> step << step
	}
	return min(l.PerNamespace, l.Total/namespaces)
}

// Condense sorts the results of one object, and removes the texts of those that do not fit into a Report.
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

// Sum has the numbers of results by outcome, and of objects without results.
type Sum struct {
	Fail, Warn, Error int
	// Exempt is the number of results without an effect, because an exception exempts the object.
	Exempt int
	// Pass is the number of objects without results.
	Pass int
}

func (s *Sum) add(o Outcome, n int) {
	switch o {
	case Fail:
		s.Fail += n
	case Warn:
		s.Warn += n
	case Exempt:
		s.Exempt += n
	default:
		s.Error += n
	}
}

// Total has the numbers of objects with results of a source.
type Total struct {
	// Violating objects violate the source; on those in Errors it cannot be evaluated.
	Violating, Errors int
}

// tally has the numbers of results of a source about one object.
type tally struct {
	source Source
	counts [outcomes]uint16
}

func (t *tally) violating() bool { return t.counts[Fail]+t.counts[Warn] > 0 }

func (t *tally) sum() int {
	return int(t.counts[Fail]) + int(t.counts[Warn]) + int(t.counts[Error]) + int(t.counts[Exempt])
}

// record has the results of an object; its tallies are sorted by source.
type record struct {
	tallies []tally
	round   uint32
	targets migrations.Level
}

// object is a Key without the namespace.
type object struct{ kind, name string }

type namespace struct {
	objects map[object]record
	sum     Sum
	held    held
	changed bool
}

// Ledger holds the results of the audit. Create it with New.
type Ledger struct {
	limits     Limits
	namespaces map[string]*namespace
	totals     map[Source]Total
	// targets are the numbers of objects by level.
	targets [migrations.Levels]int
	round   uint32
	// recent are the tallies of the last objects with different ones. Most objects share theirs with others.
	recent [8][]tally
	// speaking is the number of namespaces with results.
	speaking int
}

// New returns an empty ledger.
func New(limits Limits) *Ledger {
	return &Ledger{limits: limits, namespaces: map[string]*namespace{}, totals: map[Source]Total{}}
}

// Limits returns the limits.
func (l *Ledger) Limits() Limits { return l.limits }

// Begin begins a round in which every existing object is put. Earlier results are kept until they are replaced or the
// round ends.
func (l *Ledger) Begin() { l.round++ }

// End ends a round: objects that were not put are removed.
func (l *Ledger) End() {
	for name, ns := range l.namespaces {
		for o := range ns.objects {
			if ns.objects[o].round != l.round {
				l.Remove(Key{Namespace: name, Kind: o.kind, Name: o.name})
			}
		}
	}
}

// Put replaces the results of an object. It returns the fresh ones: the first result of each source that the object did
// not violate before.
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
	after := record{tallies: l.shared(tallies(sorted)), round: l.round, targets: subject.Targets}
	for i := range sorted {
		first := i == 0 || sorted[i-1].Source != sorted[i].Source
		if first && sorted[i].Outcome < Error && !violated(before.tallies, sorted[i].Source) {
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

// shared returns the same tallies of another object, if it was among the last ones.
func (l *Ledger) shared(own []tally) []tally {
	if len(own) == 0 {
		return nil
	}
	for _, known := range l.recent {
		if slices.Equal(known, own) {
			return known
		}
	}
	copy(l.recent[1:], l.recent[:])
	l.recent[0] = own
	return own
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

// Remove removes an object.
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

// speaks reports whether a namespace has results.
func (ns *namespace) speaks() bool { return ns.sum.Fail+ns.sum.Warn+ns.sum.Error > 0 }

// count adds a record to the sums, or subtracts it.
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
	if known {
		l.targets[r.targets] += sign
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

// spoke updates the number of namespaces with results, and the share of each.
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

// Totals returns the totals of every source with results.
func (l *Ledger) Totals() map[Source]Total { return maps.Clone(l.totals) }

// Targets returns the number of objects of a level.
func (l *Ledger) Targets(level migrations.Level) int { return l.targets[level] }

// Objects returns the number of objects.
func (l *Ledger) Objects() int {
	n := 0
	for _, ns := range l.namespaces {
		n += len(ns.objects)
	}
	return n
}

// Namespaces returns the namespaces with objects, sorted.
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

// Changed returns the namespaces that changed since they were Settled, sorted, including those that have no objects any
// more.
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

// Settled notes that the state of a namespace was published.
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

// View is the state of a namespace.
type View struct {
	// Objects is their number.
	Objects int
	Sum     Sum
	// Results are the first ones, sorted by source, then by object.
	Results []Held
	// Left is the number of results that are not among them.
	Left int
}

// View returns the state of a namespace.
func (l *Ledger) View(name string) View {
	ns := l.namespaces[name]
	if ns == nil {
		return View{}
	}
	v := View{Objects: len(ns.objects), Sum: ns.sum, Results: ns.held.all()}
	v.Left = v.Sum.Fail + v.Sum.Warn + v.Sum.Error - len(v.Results)
	return v
}
