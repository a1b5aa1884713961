package golden

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/virtward/virtward/conformance"
	"github.com/virtward/virtward/texts"
)

// Case is an input, and what HCO, SSP or CDI answered.
type Case struct {
	ID     string          `json:"id"`
	Area   string          `json:"area"`
	Input  json.RawMessage `json:"input"`
	Expect json.RawMessage `json:"expect"`
}

// Class is how an answer compares with the recorded one.
type Class int

// The classes.
const (
	// Other answers differ, and no fault is known.
	Other Class = iota
	// Equal answers are the same.
	Equal
	// Better answers are the right ones where the recorded one is a known fault.
	Better
	// NotApplicable cases are about something that the catalog does not have.
	NotApplicable
)

// Outcome is the class of a case, and why it is not equal.
type Outcome struct {
	Class Class
	Text  string
}

func equal() (Outcome, error)                      { return Outcome{Class: Equal}, nil }
func better(reason string) (Outcome, error)        { return Outcome{Better, reason}, nil }
func different(difference string) (Outcome, error) { return Outcome{Other, difference}, nil }

// areas have a function that answers a case each.
var areas = map[string]func(*Case) (Outcome, error){
	"hco-nodes":     nodes,
	"hco-templates": entries,
	"ssp":           ssp,
	"cdi-cron":      validated,
}

// IsCase reports whether a case of an area is one of this package. The cases of pointers are for the simulators.
func IsCase(area string) bool { return areas[area] != nil || area == "cdi-pointer" }

// Area is the comparison of one area of cases.
type Area struct{ Equal, Better, Other, NotApplicable int }

// Applicable is the number of cases that were compared.
func (a *Area) Applicable() int { return a.Equal + a.Better + a.Other }

// Report is the comparison of a number of cases.
type Report struct {
	Areas       map[string]*Area
	Differences []conformance.Difference
	// BetterThan has the cases with a better answer, and why it is.
	BetterThan []string
}

// NewReport returns a report without cases.
func NewReport() *Report { return &Report{Areas: map[string]*Area{}} }

// ReplayLine runs one case.
func (r *Report) ReplayLine(line []byte) error {
	var c Case
	if err := json.Unmarshal(line, &c); err != nil {
		return fmt.Errorf("not a case: %w", err)
	}
	answer := areas[c.Area]
	if answer == nil {
		return nil
	}
	outcome, err := answer(&c)
	if err != nil {
		return fmt.Errorf("%s: %w", c.ID, err)
	}
	area := r.Areas[c.Area]
	if area == nil {
		area = &Area{}
		r.Areas[c.Area] = area
	}
	switch outcome.Class {
	case Equal:
		area.Equal++
	case Better:
		area.Better++
		r.BetterThan = append(r.BetterThan, c.ID+": "+outcome.Text)
	case NotApplicable:
		area.NotApplicable++
	default:
		area.Other++
		r.Differences = append(r.Differences, conformance.Difference{Area: c.Area, Case: c.ID, What: "golden", Text: outcome.Text})
	}
	return nil
}

// Total sums all areas up.
func (r *Report) Total() Area {
	var total Area
	for _, a := range r.Areas {
		total.Equal += a.Equal
		total.Better += a.Better
		total.Other += a.Other
		total.NotApplicable += a.NotApplicable
	}
	return total
}

// Summary is golden 3/4 better 1.
func (r *Report) Summary() string {
	total := r.Total()
	return fmt.Sprintf("golden %d/%d better %d", total.Equal, total.Applicable(), total.Better)
}

// WriteTable writes a row for each area.
func (r *Report) WriteTable(w io.Writer) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "AREA\tCASES\tEQUAL\tBETTER\tOTHER\tNOT APPLICABLE")
	for _, name := range slices.Sorted(maps.Keys(r.Areas)) {
		a := r.Areas[name]
		fmt.Fprintf(columns, "%s\t%d\t%d\t%d\t%d\t%d\n", texts.OneLine(name), a.Applicable()+a.NotApplicable, a.Equal, a.Better, a.Other, a.NotApplicable)
	}
	return columns.Flush()
}

// listed is a list of values in a difference.
func listed(values []string) string { return "[" + strings.Join(values, " ") + "]" }
