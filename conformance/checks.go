package conformance

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/validators"
)

// Cause is a cause of a rejection. Its text is not compared.
type Cause struct {
	Field string `json:"field"`
	Type  string `json:"type"`
}

// recordedCauses is where KubeVirt stops listing.
const recordedCauses = 10

// firstOnly are the rules of which KubeVirt names only the first error in a list, and Virtward each.
var firstOnly = []string{"network-multus-name"}

// EvaluatesAdmission reports whether the case counts for the checks. What a schema rejects does not: that of the
// CRD before any webhook, or KubeVirt's own in its mutating webhook, which names neither field nor cause.
func (c *AdmissionCase) EvaluatesAdmission() bool {
	return c.Area != informativeArea && !slices.Contains(c.Expect.Causes, Cause{})
}

// Findings replays the case through the pipeline, and returns what it has to say.
func (c *AdmissionCase) Findings(pipeline *effective.Pipeline) ([]validators.Finding, error) {
	verdict, err := c.evaluate(pipeline)
	if err != nil {
		return nil, err
	}
	return verdict.Findings, nil
}

// Causes are why the case would be rejected, at the fields of the effective object, sorted and without
// repetitions. Of a VM, earlier are those that KubeVirt has no answer to compare with, since it asks their rules
// only when the VM starts; they are not among the causes.
func (c *AdmissionCase) Causes(pipeline *effective.Pipeline) (causes, earlier []Cause, err error) {
	findings, err := c.Findings(pipeline)
	if err != nil {
		return nil, nil, err
	}
	first := map[string]string{}
	for i := range findings {
		f := &findings[i]
		if at, found := first[f.Rule]; slices.Contains(firstOnly, f.Rule) && (!found || before(f.Where(), at)) {
			first[f.Rule] = f.Where()
		}
	}
	for i := range findings {
		f := &findings[i]
		if at, found := first[f.Rule]; found && at != f.Where() {
			continue
		}
		cause := Cause{Field: f.Where(), Type: string(f.Error.Type)}
		switch {
		case f.Severity != validators.Deny:
		case f.AtStart && c.Kind == kindVM:
			earlier = append(earlier, cause)
		default:
			causes = append(causes, cause)
		}
	}
	return setOf(causes), setOf(earlier), nil
}

// before reports whether a path of an element is before that of another one of the same list.
func before(a, b string) bool {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) < 0
}

// setOf sorts causes, and leaves each once.
func setOf(causes []Cause) []Cause {
	slices.SortFunc(causes, func(a, b Cause) int { return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Type, b.Type)) })
	return slices.Compact(causes)
}

// CauseDifferences returns the differences of two sets of causes, one in each line. KubeVirt lists a bounded number of
// causes: then those of Virtward must contain them. If KubeVirt rejects without a field, its list is empty.
func (c *AdmissionCase) CauseDifferences(virtward []Cause) (found []string) {
	if allowed := len(virtward) == 0; allowed != c.Expect.Allowed {
		found = append(found, fmt.Sprintf("allowed: KubeVirt %v, Virtward %v", c.Expect.Allowed, allowed))
	}
	request := c.Kind + " " + c.Operation
	for _, cause := range c.Expect.Causes {
		if !slices.ContainsFunc(virtward, func(o Cause) bool { return same(cause, o, request) }) {
			found = append(found, fmt.Sprintf("missing: %s %s", cause.Field, cause.Type))
		}
	}
	if len(c.Expect.Causes) >= recordedCauses || !c.Expect.Allowed && len(c.Expect.Causes) == 0 {
		return found
	}
	for _, cause := range virtward {
		recorded := slices.ContainsFunc(c.Expect.Causes, func(r Cause) bool { return same(r, cause, request) })
		if !recorded {
			found = append(found, fmt.Sprintf("extra: %s %s", cause.Field, cause.Type))
		}
	}
	return found
}
