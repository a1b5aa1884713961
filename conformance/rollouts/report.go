package rollouts

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/virtward/virtward/conformance"
	"github.com/virtward/virtward/rollouts"
	"github.com/virtward/virtward/texts"
)

// Report is the comparison of a number of cases.
type Report struct {
	// Cases that were compared, and Denied ones, which were left out.
	Cases, Denied int
	// Restart compares the condition RestartRequired, Live the instance as KubeVirt leaves it, and Silent the changes that
	// KubeVirt announces nowhere.
	Restart, Live, Silent conformance.Ratio
	Areas                 map[string]*Area
	Differences           []conformance.Difference
	// Awaiting are silent changes that KubeVirt has begun. They do not count.
	Awaiting []string
	// Disagreements between what KubeVirt announces and what the guest needs.
	FalseAlarms, BlindSpots []string
}

// Area is the comparison of one area of cases.
type Area struct {
	Cases, Denied         int
	Restart, Live, Silent conformance.Ratio
}

// NewReport returns a report without cases.
func NewReport() *Report { return &Report{Areas: map[string]*Area{}} }

// IsCase reports whether a line is a case of this package: it says what the instance was started with.
func IsCase(line []byte) bool {
	var c struct {
		LastStarted json.RawMessage `json:"lastStarted"`
		VM          json.RawMessage `json:"vm"`
	}
	return json.Unmarshal(line, &c) == nil && c.LastStarted != nil && c.VM != nil
}

// Replay runs the cases of a file.
func (r *Report) Replay(file io.Reader) error { return conformance.Lines(file, r.ReplayLine) }

// ReplayLine runs one case.
func (r *Report) ReplayLine(line []byte) error {
	var c Case
	if err := json.Unmarshal(line, &c); err != nil {
		return fmt.Errorf("not a case: %w", err)
	}
	if err := r.add(&c); err != nil {
		return fmt.Errorf("%s: %w", c.ID, err)
	}
	return nil
}

func (r *Report) add(c *Case) error {
	if c.VM == nil {
		return fmt.Errorf("no vm")
	}
	area := r.area(c.Area)
	if !c.Expect.Admission.Allowed {
		r.Denied++
		area.Denied++
		return nil
	}
	in, err := c.Input()
	if err != nil {
		return err
	}
	result := rollouts.Plan(in)
	live, err := c.live(in, &result)
	if err != nil {
		return err
	}
	r.Cases++
	area.Cases++
	r.count(&r.Restart, &area.Restart, c, "restart", c.restart(&result))
	r.count(&r.Live, &area.Live, c, "live", live)
	for _, s := range c.silent(&result) {
		text := ""
		switch {
		case s.Awaits && s.Takes == rollouts.Live:
			r.Awaiting = append(r.Awaiting, c.ID+" "+s.Path)
			continue
		case s.Takes == "" || s.Takes == rollouts.Live:
			text = fmt.Sprintf("%s is pending silently, and takes %q", s.Path, s.Takes)
		}
		r.count(&r.Silent, &area.Silent, c, "silent", text)
	}
	r.disagree(c, &result)
	return nil
}

func (r *Report) area(name string) *Area {
	area := r.Areas[name]
	if area == nil {
		area = &Area{}
		r.Areas[name] = area
	}
	return area
}

// count adds a comparison to the total and to the area of its case.
func (r *Report) count(total, area *conformance.Ratio, c *Case, what, difference string) {
	for _, ratio := range []*conformance.Ratio{total, area} {
		ratio.Of++
		if difference == "" {
			ratio.Agree++
		}
	}
	if difference == "" {
		return
	}
	r.Differences = append(r.Differences, conformance.Difference{Area: c.Area, Case: c.ID, What: what, Text: difference})
}

// disagree notes where KubeVirt's condition and the plan differ: a restart announced that nothing needs, and a restart
// needed that is not announced.
func (r *Report) disagree(c *Case, result *rollouts.Result) {
	if c.VMI == nil {
		return
	}
	needed, stopped := false, false
	for i := range result.Changes {
		needed = needed || result.Changes[i].Takes == rollouts.Restart
		stopped = stopped || result.Changes[i].Takes == rollouts.NextStart
	}
	switch announced := c.Expect.RestartRequired != nil; {
	case announced && !needed && !stopped:
		r.FalseAlarms = append(r.FalseAlarms, c.ID)
	case !announced && needed && c.Expect.Error == nil:
		r.BlindSpots = append(r.BlindSpots, c.ID)
	}
}

// Summary is restart 3/4 live 5/6 silent 7/8.
func (r *Report) Summary() string {
	return strings.Join([]string{"restart", r.Restart.String(), "live", r.Live.String(), "silent", r.Silent.String()}, " ")
}

// WriteTable writes a row for each area. Denied cases are not compared.
func (r *Report) WriteTable(w io.Writer) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "AREA\tCASES\tDENIED\tRESTART\tLIVE\tSILENT")
	for _, name := range slices.Sorted(maps.Keys(r.Areas)) {
		a := r.Areas[name]
		fmt.Fprintf(columns, "%s\t%d\t%d\t%s\t%s\t%s\n", texts.OneLine(name), a.Cases+a.Denied, a.Denied, a.Restart, a.Live, a.Silent)
	}
	return columns.Flush()
}
