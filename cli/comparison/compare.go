package comparison

import (
	"slices"

	"github.com/virtward/virtward/validators"
)

// Change says what becomes of a finding.
type Change string

// What becomes of a finding: it is not there now, it would not be there any more, or it is there in either case. One
// whose severity changes is gone as what it was, and new as what it becomes.
const (
	New   Change = "new"
	Gone  Change = "gone"
	Stays Change = "stays"
)

// changes are the words, in the order in which they are told.
func changes() []Change { return []Change{New, Gone, Stays} }

// changed is a finding and what becomes of it.
type changed struct {
	change  Change
	finding validators.Finding
}

// compare tells the findings on one object apart. Two are the same if rule, severity and field are. Where a rule says
// several things of a field, those that are told in the same words are the same before all others.
func compare(now, then []validators.Finding) (all []changed) {
	gone, stays := slices.Clone(now), make([]bool, len(then))
	for _, equal := range []func(a, b *validators.Finding) bool{sameWords, same} {
		for i := range then {
			if stays[i] {
				continue
			}
			known := slices.IndexFunc(gone, func(f validators.Finding) bool { return equal(&f, &then[i]) })
			if stays[i] = known >= 0; stays[i] {
				gone = slices.Delete(gone, known, known+1)
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
