package conformance

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/virtward/virtward/texts"
)

// Tally counts cases that have one answer each, such as a pod. Create it with NewTally.
type Tally struct {
	Total       Ratio
	Areas       map[string]*Ratio
	Differences []Difference

	what string
}

// NewTally returns a tally without cases. The word says what is compared, in the singular.
func NewTally(what string) Tally { return Tally{Areas: map[string]*Ratio{}, what: what} }

// Count adds a case. The difference is empty if it agrees.
func (t *Tally) Count(area, id, difference string) {
	if t.Areas[area] == nil {
		t.Areas[area] = &Ratio{}
	}
	t.Total.Count(difference == "")
	t.Areas[area].Count(difference == "")
	if difference != "" {
		t.Differences = append(t.Differences, Difference{Area: area, Case: id, What: t.what, Text: difference})
	}
}

// Differing are the ids of the cases that differ, sorted.
func (t *Tally) Differing() []string {
	ids := make([]string, len(t.Differences))
	for i := range t.Differences {
		ids[i] = t.Differences[i].Case
	}
	slices.Sort(ids)
	return ids
}

// Summary is the word and the total, such as pod 3/4.
func (t *Tally) Summary() string { return t.what + " " + t.Total.String() }

// WriteTable writes a row for each area.
func (t *Tally) WriteTable(w io.Writer) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(columns, "AREA\t%s\n", strings.ToUpper(t.what))
	for _, name := range slices.Sorted(maps.Keys(t.Areas)) {
		fmt.Fprintf(columns, "%s\t%s\n", texts.OneLine(name), t.Areas[name])
	}
	return columns.Flush()
}
