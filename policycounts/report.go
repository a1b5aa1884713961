package policycounts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Path is the path at which a process serves its Report.
const Path = "/policy-counts"

// Version is that of the format. A reader ignores Reports of other versions. Version 1 had no denials.
const Version = 2

// MaxReport bounds a Report, in bytes of JSON. It has room for all policies that do not deny, which are bounded too (see
// configcache), and for 1,000 that deny. Further policies are left out.
const MaxReport = 2 << 20

// Report has the counts of one process since its start.
type Report struct {
	Version int `json:"version"`
	// Instance distinguishes processes. A process that starts again has another one, and begins to count at zero.
	Instance string `json:"instance"`
	// Started is the time of the start, in seconds since 1970.
	Started int64 `json:"started"`
	// Policies are those that had a failure, or denied a request.
	Policies []Policy `json:"policies"`
}

// Policy has the counts of one policy.
type Policy struct {
	UID        types.UID `json:"uid"`
	Generation int64     `json:"generation"`
	// Evaluations is the number of evaluations on ordinary objects, without those that were skipped, and Overruns of those in which the policy exceeded its
	// units.
	Evaluations int64 `json:"evaluations"`
	Overruns    int64 `json:"overruns"`
	// Namespaces is the number of namespaces with such evaluations, and OverrunNamespaces of those with overruns. Both are
	// at most MaxNamespaces.
	Namespaces        int       `json:"namespaces"`
	OverrunNamespaces int       `json:"overrunNamespaces"`
	Failures          []Failure `json:"failures"`
}

// Counted is an active policy, and its Tally.
type Counted struct {
	UID        types.UID
	Generation int64
	Tally      *Tally
}

// Source makes the Reports of a process.
type Source struct {
	// Instance and Started are those of the Reports.
	Instance string
	Started  time.Time
	// Policies returns the active policies.
	Policies func() []Counted
}

// Report returns the counts.
func (s *Source) Report() Report {
	r := Report{Version: Version, Instance: s.Instance, Started: s.Started.Unix()}
	for counts := range s.counts {
		r.Policies = append(r.Policies, counts)
	}
	return r
}

// counts iterates over the counts of the policies that had a failure, or denied a request.
func (s *Source) counts(yield func(Policy) bool) {
	for _, c := range s.Policies() {
		if c.Tally == nil {
			continue
		}
		counts := c.Tally.Counts()
		counts.UID, counts.Generation = c.UID, c.Generation
		if len(counts.Failures) > 0 && !yield(counts) {
			return
		}
	}
}

// ServeHTTP implements http.Handler: it answers with the Report, which is at most MaxReport long.
func (s *Source) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = s.write(w) // the reader is gone if this fails
}

// write writes the Report as JSON, one policy at a time, so that it is never in memory as a whole. Policies without room
// are left out.
func (s *Source) write(w io.Writer) error {
	left, separator := MaxReport, ""
	put := func(text []byte) error {
		left -= len(text)
		_, err := w.Write(text)
		return err
	}
	if err := put(fmt.Appendf(nil, `{"version":%d,"instance":%q,"started":%d,"policies":[`, Version, s.Instance, s.Started.Unix())); err != nil {
		return err
	}
	const end = "]}"
	for counts := range s.counts {
		one, err := json.Marshal(&counts)
		if err != nil {
			return err
		}
		if len(separator)+len(one)+len(end) > left {
			break
		}
		if err := put(append([]byte(separator), one...)); err != nil {
			return err
		}
		separator = ","
	}
	return put([]byte(end))
}

// ErrVersion means that a process of another version has another format.
var ErrVersion = errors.New("the format of the counts has another version")

// Read reads and validates a Report. Times after now are set to now.
func Read(from io.Reader, now time.Time) (Report, error) {
	content, err := io.ReadAll(io.LimitReader(from, MaxReport+1))
	if err != nil {
		return Report{}, fmt.Errorf("reading the counts: %w", err)
	}
	if len(content) > MaxReport {
		return Report{}, fmt.Errorf("reading the counts: they have more than %d bytes", MaxReport)
	}
	var version struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(content, &version); err != nil {
		return Report{}, fmt.Errorf("reading the counts: %w", err)
	}
	if version.Version != Version {
		return Report{}, fmt.Errorf("%w: %d", ErrVersion, version.Version)
	}
	var r Report
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return Report{}, fmt.Errorf("reading the counts: %w", err)
	}
	if decoder.More() {
		return Report{}, errors.New("reading the counts: there is more than one document")
	}
	return r, r.validate(now.Unix())
}

// The forms of an instance and of a field. mostCount bounds a count, so that sums do not overflow.
var (
	instanceForm = regexp.MustCompile(`^[a-z0-9-]{8,64}$`)
	fieldForm    = regexp.MustCompile(`^spec(\.[A-Za-z]{1,40}(\[[0-9]{1,3}\])?){0,4}$`)
)

const mostCount = int64(1) << 50

// validate rejects what no process of Virtward reports.
func (r *Report) validate(now int64) error {
	if !instanceForm.MatchString(r.Instance) {
		return errors.New("the counts have no valid instance")
	}
	if r.Started < 0 {
		return errors.New("the counts have no valid start")
	}
	seen := map[types.UID]bool{}
	for i := range r.Policies {
		p := &r.Policies[i]
		if seen[p.UID] {
			return errors.New("the counts have a policy twice")
		}
		seen[p.UID] = true
		if err := p.validate(now); err != nil {
			return err
		}
	}
	return nil
}

func (p *Policy) validate(now int64) error {
	switch {
	case p.UID == "" || len(p.UID) > 64 || p.Generation < 0:
		return errors.New("the counts have an invalid policy")
	case p.Overruns < 0 || p.Overruns > p.Evaluations || p.Evaluations > mostCount:
		return errors.New("the counts have an invalid number of evaluations")
	case p.OverrunNamespaces < 0 || p.OverrunNamespaces > p.Namespaces || p.Namespaces > MaxNamespaces:
		return errors.New("the counts have an invalid number of namespaces")
	case len(p.Failures) == 0 || len(p.Failures) > MaxFailures:
		return errors.New("the counts have an invalid number of failures")
	}
	for i := range p.Failures {
		if i > 0 && compare(p.Failures[i-1], p.Failures[i]) >= 0 {
			return errors.New("the counts have failures that are not sorted")
		}
		if err := p.Failures[i].validate(now); err != nil {
			return err
		}
	}
	return nil
}

// validate also sets times after now to now.
func (f *Failure) validate(now int64) error {
	switch {
	case !fieldForm.MatchString(f.Field) || !slices.Contains(reasons(), f.Reason):
		return errors.New("the counts have an invalid failure")
	case f.Count < 1 || f.Count > mostCount || f.First < 0 || f.First > f.Last:
		return errors.New("the counts have an invalid count")
	}
	f.First, f.Last = min(f.First, now), min(f.Last, now)
	return nil
}
