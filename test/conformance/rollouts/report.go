package rollouts

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/virtward/virtward/rollouts"
	"github.com/virtward/virtward/test/conformance"
)

// Report is the comparison of a number of cases.
type Report struct {
	// Cases that were compared, and Denied ones, which were left out.
	Cases, Denied int
	// Restart compares the condition RestartRequired, Live the instance as KubeVirt leaves it, and Silent the changes that
	// KubeVirt announces nowhere.
	Restart, Live, Silent conformance.Ratio
	Differences           []conformance.Difference
	// Awaiting are silent changes that KubeVirt has begun. They do not count.
	Awaiting []string
	// Disagreements between what KubeVirt announces and what the guest needs.
	FalseAlarms, BlindSpots []string
}

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
	if !c.Expect.Admission.Allowed {
		r.Denied++
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
	r.count(&r.Restart, c, "restart", c.restart(&result))
	r.count(&r.Live, c, "live", live)
	for _, s := range c.silent(&result) {
		text := ""
		switch {
		case s.Awaits && s.Takes == rollouts.Live:
			r.Awaiting = append(r.Awaiting, c.ID+" "+s.Path)
			continue
		case s.Takes == "" || s.Takes == rollouts.Live:
			text = fmt.Sprintf("%s is pending silently, and takes %q", s.Path, s.Takes)
		}
		r.count(&r.Silent, c, "silent", text)
	}
	r.disagree(c, &result)
	return nil
}

func (r *Report) count(ratio *conformance.Ratio, c *Case, what, difference string) {
	ratio.Of++
	if difference == "" {
		ratio.Agree++
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
