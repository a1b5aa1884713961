package templates

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Replay answers a case, which is one line of a file, and compares.
type Replay func(line []byte) (Result, error)

// Options of a replay.
type Options struct {
	// Sources is a directory with the OpenShift Templates that cases of conversion name. Without it, these cases are
	// skipped.
	Sources string
}

// suite replays the cases of some areas.
type suite struct {
	// area is the prefix of the areas, and total is the name that they have together in the summary.
	area, total string
	// start makes what the replay needs. It is called once, with the first case.
	start func(Options) (Replay, error)
}

// suites are all suites, in the order of the summary.
var suites = []suite{
	{"engine/", "engine", func(Options) (Replay, error) { return replayEngine, nil }},
	{"admission/", "engine", startAdmission},
	{"wire/client", "wire", nil}, // about a client library of virt-template
	{"wire/", "wire", startWire},
	{"convert", "convert", startConvert},
	{"capture/", "capture", func(Options) (Replay, error) { return replayCapture, nil }},
}

// totals are the names in the summary.
var totals = []string{"engine", "wire", "capture", "convert"}

// IsCase reports whether an area is one of templates.
func IsCase(area string) bool {
	return suiteOf(area) != nil
}

func suiteOf(area string) *suite {
	for i := range suites {
		if strings.HasPrefix(area, suites[i].area) {
			return &suites[i]
		}
	}
	return nil
}

// Report is the comparison of a number of cases.
type Report struct {
	Results []Result

	options Options
	started map[*suite]Replay
}

// NewReport returns a report without cases.
func NewReport(options Options) *Report {
	return &Report{options: options, started: map[*suite]Replay{}}
}

// Replay answers a case, and adds the outcome.
func (r *Report) Replay(line []byte) error {
	var c struct{ ID, Area string }
	if err := json.Unmarshal(line, &c); err != nil {
		return fmt.Errorf("not a case of templates: %w", err)
	}
	s := suiteOf(c.Area)
	if s == nil || s.start == nil {
		r.Results = append(r.Results, Result{ID: c.ID, Area: c.Area, Outcome: Skipped, Difference: "the area is not replayed"})
		return nil
	}
	replay := r.started[s]
	if replay == nil {
		var err error
		if replay, err = s.start(r.options); err != nil {
			return fmt.Errorf("starting the replay of %s: %w", c.Area, err)
		}
		r.started[s] = replay
	}
	result, err := replay(Expand(line))
	if err != nil {
		return fmt.Errorf("case %s: %w", c.ID, err)
	}
	r.Results = append(r.Results, result)
	return nil
}

// ReplayAll answers all cases of a file that some areas have.
func (r *Report) ReplayAll(data []byte, area string) error {
	for line := range bytes.Lines(data) {
		var c struct{ Area string }
		if err := json.Unmarshal(line, &c); err != nil {
			return fmt.Errorf("not a case of templates: %w", err)
		}
		if !strings.HasPrefix(c.Area, area) {
			continue
		}
		if err := r.Replay(line); err != nil {
			return err
		}
	}
	return nil
}

// Total counts the outcomes of the areas with a name in the summary.
func (r *Report) Total(name string) Summary {
	return Summarize(slices.Collect(func(yield func(Result) bool) {
		for i := range r.Results {
			if s := suiteOf(r.Results[i].Area); s != nil && s.total == name && !yield(r.Results[i]) {
				return
			}
		}
	}))
}

// Totals are the names in the summary, in its order.
func Totals() []string { return slices.Clone(totals) }

// Summary is the end of the last line of a report: engine 3/4 wire 2/2 capture 0/0 convert 0/0.
func (r *Report) Summary() string {
	var words []string
	for _, name := range totals {
		s := r.Total(name)
		words = append(words, fmt.Sprintf("%s %d/%d", name, s.Agreed(), s.Total()))
	}
	return strings.Join(words, " ")
}

// Write writes a row for each area, and the cases that are other. The verbose report also has the classes of better
// answers.
func (r *Report) Write(w io.Writer, verbose bool) error {
	areas, classes := map[string][]Result{}, map[string]int{}
	for _, result := range r.Results {
		areas[result.Area] = append(areas[result.Area], result)
		if result.Outcome == Better {
			classes[result.Class]++
		}
	}
	if verbose {
		for _, class := range slices.SortedFunc(maps.Keys(classes), func(a, b string) int {
			return cmp.Or(cmp.Compare(classes[b], classes[a]), cmp.Compare(a, b))
		}) {
			fmt.Fprintf(w, "better: %s: %d\n", class, classes[class])
		}
	}
	for _, result := range r.Results {
		if result.Outcome == Other {
			fmt.Fprintf(w, "other: %s: %s\n", oneLine(result.ID), oneLine(result.Difference))
		}
	}
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "AREA\tCASES\tEQUAL\tBETTER\tOTHER\tSKIPPED")
	for _, area := range slices.Sorted(maps.Keys(areas)) {
		s := Summarize(areas[area])
		fmt.Fprintf(columns, "%s\t%d\t%d\t%d\t%d\t%d\n", oneLine(area), len(areas[area]), s.Equal, s.Better, s.Other, s.Skipped)
	}
	return columns.Flush()
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
