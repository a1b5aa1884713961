package rollouts

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/virtward/virtward/rollouts"
	"github.com/virtward/virtward/test/conformance"
)

// maxLine bounds one case, in bytes.
const maxLine = 16 << 20

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

// Replay runs the cases of a file.
func (r *Report) Replay(file io.Reader) error {
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, maxLine)
	for line := 1; scanner.Scan(); line++ {
		if len(bytes.TrimSpace(scanner.Bytes())) == 0 {
			continue
		}
		var c Case
		if err := json.Unmarshal(scanner.Bytes(), &c); err != nil {
			return fmt.Errorf("line %d: not a case: %w", line, err)
		}
		if err := r.add(&c); err != nil {
			return fmt.Errorf("line %d: %s: %w", line, c.ID, err)
		}
	}
	return scanner.Err()
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
