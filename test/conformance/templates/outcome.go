package templates

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Outcome of a case.
type Outcome string

// The outcomes.
const (
	Equal  Outcome = "equal"
	Better Outcome = "better"
	Other  Outcome = "other"
)

// Result is the outcome of one case.
type Result struct {
	ID, Area string
	Outcome  Outcome
	// Class is the known fault of the recorded answer, for Better.
	Class string
	// Difference says what differs, for Other.
	Difference string
}

// Summary counts the outcomes.
type Summary struct{ Equal, Better, Other int }

// Agreed are the cases whose outcome is Equal or Better.
func (s Summary) Agreed() int { return s.Equal + s.Better }

// Total are all cases.
func (s Summary) Total() int { return s.Equal + s.Better + s.Other }

// Summarize counts results.
func Summarize(results []Result) (s Summary) {
	for i := range results {
		switch results[i].Outcome {
		case Equal:
			s.Equal++
		case Better:
			s.Better++
		default:
			s.Other++
		}
	}
	return s
}

// Write writes the counts of each area, the classes of better answers, and the cases that differ.
func Write(w io.Writer, results []Result) {
	areas, classes := map[string][]Result{}, map[string]int{}
	for _, r := range results {
		areas[r.Area] = append(areas[r.Area], r)
		if r.Outcome == Better {
			classes[r.Class]++
		}
	}
	for _, area := range slices.Sorted(maps.Keys(areas)) {
		s := Summarize(areas[area])
		fmt.Fprintf(w, "%-24s equal %3d  better %3d  other %3d\n", area, s.Equal, s.Better, s.Other)
	}
	for _, class := range slices.SortedFunc(maps.Keys(classes), func(a, b string) int {
		return cmp.Or(cmp.Compare(classes[b], classes[a]), cmp.Compare(a, b))
	}) {
		fmt.Fprintf(w, "better: %-40s %3d\n", class, classes[class])
	}
	for _, r := range results {
		if r.Outcome == Other {
			fmt.Fprintf(w, "other: %s: %s\n", r.ID, r.Difference)
		}
	}
}
