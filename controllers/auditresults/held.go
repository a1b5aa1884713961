package auditresults

import (
	"maps"
	"slices"
)

// held are the first results of a namespace, as text. Every source gets a fair share of the limit. The results of a
// source are those of its first objects.
type held struct {
	limits Limits
	groups map[Source][]Held
	total  int
	// cut reports whether results were left out since there was room for all.
	cut bool
}

// replace replaces the results of an object, and reports whether that changed anything.
func (h *held) replace(subject Subject, before []tally, results []Result) bool {
	old := h.take(subject.Key, before)
	for i := range results {
		h.add(Held{subject, results[i]})
	}
	return !slices.Equal(old, h.of(subject.Key, results))
}

// take removes the results of an object.
func (h *held) take(key Key, before []tally) []Held {
	var taken []Held
	for i := range before {
		source := before[i].source
		group := h.groups[source]
		from, to := span(group, key)
		if from == to {
			continue
		}
		taken = append(taken, group[from:to]...)
		h.total -= to - from
		if h.groups[source] = slices.Delete(group, from, to); len(h.groups[source]) == 0 {
			delete(h.groups, source)
		}
	}
	return taken
}

// of returns the held results of an object, of the sources of some sorted results.
func (h *held) of(key Key, sorted []Result) []Held {
	var found []Held
	for i := range sorted {
		if i > 0 && sorted[i-1].Source == sorted[i].Source {
			continue
		}
		group := h.groups[sorted[i].Source]
		from, to := span(group, key)
		found = append(found, group[from:to]...)
	}
	return found
}

// span returns the positions of the results of an object in a group.
func span(group []Held, key Key) (from, to int) {
	from, found := slices.BinarySearchFunc(group, key, func(h Held, key Key) int { return h.Key.Compare(key) })
	for to = from; found && to < len(group) && group[to].Key == key; to++ {
		continue
	}
	return from, to
}

// limit sets the number of held results, and reports whether some were removed.
func (h *held) limit(most int) (fewer bool) {
	for h.limits.PerNamespace = most; h.total > most; fewer = true {
		h.drop(h.longest())
	}
	return fewer
}

// add holds a result, or the ones before it.
func (h *held) add(r Held) {
	if r.Counted {
		h.cut = true
		return
	}
	group := h.groups[r.Source]
	at, _ := slices.BinarySearchFunc(group, r, func(a, b Held) int { return a.compare(&b) })
	if at >= h.limits.PerSource {
		h.cut = true
		return
	}
	share(&r, group, at)
	h.groups[r.Source] = slices.Insert(grown(group), at, r)
	h.total++
	if len(h.groups[r.Source]) > h.limits.PerSource {
		h.drop(r.Source)
	}
	if h.total > h.limits.PerNamespace {
		h.drop(h.longest())
	}
}

// share gives a result the texts of the results before and after its place in a group where they are the same: most objects violate a source in
// the same way.
func share(r *Held, group []Held, at int) {
	for _, i := range []int{at - 1, at} {
		if i < 0 || i >= len(group) {
			continue
		}
		for _, text := range []struct {
			own   *string
			other string
		}{{&r.Field, group[i].Field}, {&r.Message, group[i].Message}, {&r.Remedy, group[i].Remedy}} {
			if *text.own == text.other {
				*text.own = text.other
			}
		}
	}
}

// grown returns a group with room for another result. It grows in small steps, because most groups stay small.
func grown(group []Held) []Held {
	if len(group) < cap(group) {
		return group
	}
	return append(make([]Held, 0, len(group)+len(group)/4+2), group...)
}

// drop removes the last result of a source.
func (h *held) drop(source Source) {
	h.cut = true
	h.total--
	group := h.groups[source]
	if h.groups[source] = slices.Delete(group, len(group)-1, len(group)); len(h.groups[source]) == 0 {
		delete(h.groups, source)
	}
}

// longest returns the source with the most held results; the last one if there are several.
func (h *held) longest() Source {
	var longest Source
	most := 0
	for source, group := range h.groups {
		if n := len(group); n > most || n == most && source.compare(longest) > 0 {
			longest, most = source, n
		}
	}
	return longest
}

// all returns the held results, by source and object.
func (h *held) all() []Held {
	all := make([]Held, 0, h.total)
	for _, source := range slices.SortedFunc(maps.Keys(h.groups), Source.compare) {
		all = append(all, h.groups[source]...)
	}
	return all
}

// Missing returns the objects of a namespace whose results belong to the first ones, because others were removed, but
// are not held: evaluate them again and put them. Sorted.
func (l *Ledger) Missing(name string) []Key {
	ns := l.namespaces[name]
	if ns == nil || !ns.held.cut {
		return nil
	}
	perSource := map[Source]int{}
	for _, r := range ns.objects {
		for i := range r.tallies {
			perSource[r.tallies[i].source] += r.tallies[i].sum()
		}
	}
	room := shares(ns.held.limits, perSource)
	whole := true
	for source, n := range perSource {
		whole = whole && room[source] == n
	}
	ns.held.cut = !whole
	missing := map[Key]bool{}
	for _, o := range slices.SortedFunc(maps.Keys(ns.objects), compareObjects) {
		tallies := ns.objects[o].tallies
		for i := range tallies {
			source := tallies[i].source
			if room[source] == 0 {
				continue
			}
			key := Key{Namespace: name, Kind: o.kind, Name: o.name}
			wanted := min(tallies[i].sum(), room[source])
			if from, to := span(ns.held.groups[source], key); to-from < wanted {
				missing[key] = true
			}
			room[source] -= wanted
		}
	}
	return slices.SortedFunc(maps.Keys(missing), Key.Compare)
}

func compareObjects(a, b object) int {
	return Key{Kind: a.kind, Name: a.name}.Compare(Key{Kind: b.kind, Name: b.name})
}

// shares returns how many results of each source are held.
func shares(limits Limits, perSource map[Source]int) map[Source]int {
	room := make(map[Source]int, len(perSource))
	sources := slices.SortedFunc(maps.Keys(perSource), Source.compare)
	for left := limits.PerNamespace; left > 0; {
		given := false
		for _, source := range sources {
			if left > 0 && room[source] < min(perSource[source], limits.PerSource) {
				room[source]++
				left--
				given = true
			}
		}
		if !given {
			break
		}
	}
	return room
}
