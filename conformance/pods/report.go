package pods

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/virtward/virtward/conformance"
	"github.com/virtward/virtward/hypervisors"
)

// Report is the comparison of a number of cases.
type Report struct {
	conformance.Tally

	registry *hypervisors.Registry
}

// NewReport returns a report without cases.
func NewReport(registry *hypervisors.Registry) *Report {
	return &Report{Tally: conformance.NewTally("pod"), registry: registry}
}

// IsCase reports whether a line is a case of this package: it has the overhead of a pod.
func IsCase(line []byte) bool {
	var c struct {
		Overhead json.RawMessage `json:"memoryOverheadBytes"`
	}
	return json.Unmarshal(line, &c) == nil && c.Overhead != nil
}

// Replay runs the cases of a file.
func (r *Report) Replay(file io.Reader) error { return conformance.Lines(file, r.ReplayLine) }

// ReplayLine runs one case.
func (r *Report) ReplayLine(line []byte) error {
	var c Case
	if err := json.Unmarshal(line, &c); err != nil {
		return fmt.Errorf("not a case: %w", err)
	}
	differences, err := c.Differences(c.Render(r.registry))
	if err != nil {
		return fmt.Errorf("%s: %w", c.ID, err)
	}
	r.Count(c.Area, c.ID, strings.Join(differences, "; "))
	return nil
}
