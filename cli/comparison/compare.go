package comparison

import (
	"slices"

	"github.com/virtward/virtward/validators"
)

// Change is the change of a finding under the assumptions.
type Change string

// The changes. A finding whose severity changes is gone with the old severity, and new with the new one.
const (
	New   Change = "new"
	Gone  Change = "gone"
	Stays Change = "stays"
)

// changes returns all changes, in the order of reports.
func changes() []Change { return []Change{New, Gone, Stays} }

// changed is a finding and its change.
type changed struct {
	change  Change
	finding validators.Finding
}

// compare compares the findings of one object. Two findings are the same if rule, severity and field are equal. If a
// rule has several findings at a field, those with equal messages are matched first.
func compare(now, then []validators.Finding) (all []changed) {
	gone, stays := slices.Clone(now), make([]bool, len(then))
	for _, equal := range []func(a, b *validators.Finding) bool{sameWords, same} {
		for i := range then {
			if stays[i] {
				continue
			}
			match := slices.IndexFunc(gone, func(f validators.Finding) bool { return equal(&f, &then[i]) })
			if stays[i] = match >= 0; stays[i] {
				gone = slices.Delete(gone, match, match+1)
			}
		}
	}
	for i := range then {
		change := New
		if stays[i] {
			change = Stays
		}
		all = append(all, changed{change, then[i]})
	}
	for i := range gone {
		all = append(all, changed{Gone, gone[i]})
	}
	return all
}

func sameWords(a, b *validators.Finding) bool { return same(a, b) && a.Message() == b.Message() }

func same(a, b *validators.Finding) bool {
	return a.Rule == b.Rule && a.Severity == b.Severity && a.Where() == b.Where()
}
