package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/virtward/virtward/effective"
)

// maxLine bounds one case, in bytes.
const maxLine = 16 << 20

// Ratio is how many of how many answers agree.
type Ratio struct{ Agree, Of int }

// String is 3/4.
func (r Ratio) String() string { return fmt.Sprintf("%d/%d", r.Agree, r.Of) }

// Share is between 0 and 1; 1 where there is nothing to disagree on.
func (r Ratio) Share() float64 {
	if r.Of == 0 {
		return 1
	}
	return float64(r.Agree) / float64(r.Of)
}

// Count adds an answer.
func (r *Ratio) Count(agrees bool) {
	r.Of++
	if agrees {
		r.Agree++
	}
}

func (r *Ratio) add(other Ratio) {
	r.Agree += other.Agree
	r.Of += other.Of
}

// Area is the agreement on one area of cases.
type Area struct {
	Name  string
	Cases int
	// Informative areas do not count in the total.
	Informative bool
	// Mutated compares completed specs, Allowed decisions, Causes the causes of KubeVirt's rejections, and Expand specs
	// that were merged with an instancetype and a preference.
	Mutated, Allowed, Causes, Expand Ratio
}

// Difference is a difference between Virtward and KubeVirt.
type Difference struct {
	Area, Case string
	// What is compared: mutated, admitted or expand.
	What string
	// Text has the path, and the results of KubeVirt and of Virtward.
	Text string
}

// Report is the comparison of a number of cases.
type Report struct {
	areas       map[string]*Area
	Differences []Difference
	// Earlier are the ids of VMs that KubeVirt accepts, and Virtward rejects by rules that KubeVirt applies when the VM
	// starts. These findings are not compared.
	Earlier []string
}

// NewReport returns a Report without cases.
func NewReport() *Report { return &Report{areas: map[string]*Area{}} }

// Areas are the areas met so far, sorted by name.
func (r *Report) Areas() []Area {
	areas := make([]Area, 0, len(r.areas))
	for _, name := range slices.Sorted(maps.Keys(r.areas)) {
		areas = append(areas, *r.areas[name])
	}
	return areas
}

// Total sums up the areas that count.
func (r *Report) Total() Area {
	total := Area{Name: "total"}
	for _, a := range r.areas {
		if a.Informative {
			continue
		}
		total.Cases += a.Cases
		total.Mutated.add(a.Mutated)
		total.Allowed.add(a.Allowed)
		total.Causes.add(a.Causes)
		total.Expand.add(a.Expand)
	}
	return total
}

// Lines calls a function with each line of a file that is not empty. Its error gets the number of the line.
func Lines(file io.Reader, call func(line []byte) error) error {
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, maxLine)
	line := 1
	for ; scanner.Scan(); line++ {
		if len(bytes.TrimSpace(scanner.Bytes())) == 0 {
			continue
		}
		if err := call(scanner.Bytes()); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("line %d: %w", line, err)
	}
	return nil
}

// Replay runs the cases of a file and adds what they show to the report.
func (r *Report) Replay(pipeline *effective.Pipeline, file io.Reader) error {
	return Lines(file, func(line []byte) error { return r.ReplayLine(pipeline, line) })
}

// ReplayLine runs a case and adds what it shows to the report. The line may be an admission request, which has an
// object, or an expansion, which has a vmi.
func (r *Report) ReplayLine(pipeline *effective.Pipeline, data []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return fmt.Errorf("not a JSON object: %w", err)
	}
	switch {
	case members["object"] != nil:
		var c AdmissionCase
		if err := json.Unmarshal(data, &c); err != nil {
			return fmt.Errorf("not an admission case: %w", err)
		}
		r.admission(pipeline, &c)
		return nil
	case members["vmi"] != nil:
		var c InstancetypeCase
		if err := json.Unmarshal(data, &c); err != nil {
			return fmt.Errorf("not an instancetype case: %w", err)
		}
		r.expansion(&c)
		return nil
	}
	return fmt.Errorf("neither an admission case, which has an object, nor an instancetype case, which has a vmi")
}

func (r *Report) admission(pipeline *effective.Pipeline, c *AdmissionCase) {
	area := r.area(c.Area)
	found := c.Check(pipeline)
	if c.evaluatesMutation() {
		area.Mutated.Count(len(found) == 0)
	}
	r.differ(c.Area, c.ID, "mutated", found)
	if !c.EvaluatesAdmission() {
		return
	}
	causes, earlier, err := c.Causes(pipeline)
	if err != nil {
		area.Allowed.Count(false)
		r.differ(c.Area, c.ID, "admitted", []string{err.Error()})
		return
	}
	area.Allowed.Count((len(causes) == 0) == c.Expect.Allowed)
	if len(earlier) > 0 && c.Expect.Allowed {
		r.Earlier = append(r.Earlier, c.ID)
	}
	found = c.CauseDifferences(causes)
	if !c.Expect.Allowed && len(c.Expect.Causes) > 0 {
		area.Causes.Count(len(found) == 0)
	}
	r.differ(c.Area, c.ID, "admitted", found)
}

func (r *Report) expansion(c *InstancetypeCase) {
	area := r.area(c.Area)
	found := c.Check()
	area.Expand.Count(len(found) == 0)
	r.differ(c.Area, c.ID, "expand", found)
}

// area finds the area that a case belongs to, and counts the case.
func (r *Report) area(name string) *Area {
	area := r.areas[name]
	if area == nil {
		area = &Area{Name: name, Informative: name == informativeArea}
		r.areas[name] = area
	}
	area.Cases++
	return area
}

func (r *Report) differ(area, id, what string, found []string) {
	for _, text := range found {
		r.Differences = append(r.Differences, Difference{Area: area, Case: id, What: what, Text: text})
	}
}

// Differing are the ids of the cases that differ in areas that count, sorted.
func (r *Report) Differing() []string {
	ids := map[string]bool{}
	for _, d := range r.Differences {
		if !r.areas[d.Area].Informative {
			ids[d.Case] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// WriteTable writes a row for each area; areas in brackets are informative.
func (r *Report) WriteTable(w io.Writer) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "AREA\tCASES\tMUTATED\tALLOWED\tCAUSES\tEXPAND")
	for _, a := range r.Areas() {
		name := strings.Join(strings.Fields(a.Name), " ")
		if a.Informative {
			name = "(" + name + ")"
		}
		fmt.Fprintf(columns, "%s\t%d\t%s\t%s\t%s\t%s\n", name, a.Cases, a.Mutated, a.Allowed, a.Causes, a.Expand)
	}
	return columns.Flush()
}

// Summary is the last line of the report: total: mutated 3/4 allowed 0/0 causes 0/0 expand 2/2.
func (r *Report) Summary() string {
	t := r.Total()
	return strings.Join([]string{"total: mutated", t.Mutated.String(), "allowed", t.Allowed.String(), "causes", t.Causes.String(), "expand", t.Expand.String()}, " ")
}
