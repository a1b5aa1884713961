package policycounts

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policycounts"
)

var policy = Key{"u-1", 3}

const expression = "spec.validations[0].expression"

// of is the Report of a process that started at a time: evaluations, overruns, namespaces, namespaces with overruns, failures.
func of(instance string, started int64, numbers ...int) policycounts.Report {
	return policycounts.Report{Version: 1, Instance: instance, Started: started, Policies: []policycounts.Policy{{
		UID: policy.UID, Generation: policy.Generation, Evaluations: int64(numbers[0]), Overruns: int64(numbers[1]), Namespaces: numbers[2], OverrunNamespaces: numbers[3],
		Failures: []policycounts.Failure{{Field: expression, Reason: policies.ReasonLimit, Count: int64(numbers[4]), First: started, Last: started + int64(numbers[4])}},
	}}}
}

// failing is a Report with failures only.
func failing(instance string, started int64, count int) policycounts.Report {
	return of(instance, started, 0, 0, 0, 0, count)
}

func TestFailures(t *testing.T) {
	type reads [][]policycounts.Report
	for name, c := range map[string]struct {
		reads reads
		// counted and reported are those after the last read, at second 1000 and so on.
		counted, reported int64
	}{
		"an earlier leader may have counted a process":         {reads{{failing("a", 1, 5)}}, 0, 5},
		"what a process counts later":                          {reads{{failing("a", 1, 5)}, {failing("a", 1, 7)}}, 2, 7},
		"a read without a change":                              {reads{{failing("a", 1, 5)}, {failing("a", 1, 7)}, {failing("a", 1, 7)}}, 2, 7},
		"two processes":                                        {reads{{failing("a", 1, 5), failing("b", 1, 1)}, {failing("a", 1, 7), failing("b", 1, 4)}}, 5, 11},
		"a process at two addresses":                           {reads{{failing("a", 1, 5)}, {failing("a", 1, 7), failing("a", 1, 7)}}, 2, 7},
		"a process that starts":                                {reads{{}, {failing("a", 1000, 5)}}, 5, 5},
		"a process that starts again":                          {reads{{failing("a", 1, 5)}, {failing("a", 1, 7)}, {failing("c", 1001, 4)}}, 6, 11},
		"an old process that is read for the first time later": {reads{{}, {failing("a", 1, 5)}, {failing("a", 1, 6)}}, 1, 6},
		"a process that does not answer once":                  {reads{{failing("a", 1, 5)}, {}, {failing("a", 1, 9)}}, 4, 9},
		"the policy was compiled again":                        {reads{{of("a", 1, 9, 0, 1, 0, 5)}, {of("a", 1, 2, 0, 1, 0, 2)}}, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			ledger, now := Ledger{}, int64(1000)
			var got map[Key]Count
			for _, reports := range c.reads {
				got = ledger.Add(reports, []Key{policy}, now)
				now++
			}
			f := got[policy].Failures
			if len(f) != 1 || f[0].Counted != c.counted || f[0].Reported != c.reported || f[0].Field != expression || f[0].Reason != policies.ReasonLimit {
				t.Errorf("failures %+v, want %d counted and %d reported", f, c.counted, c.reported)
			}
		})
	}
}

// Denials are apart from failures: they are not errors.
func TestDenials(t *testing.T) {
	ledger := Ledger{}
	report := failing("a", 1, 5)
	report.Policies[0].Failures = append(report.Policies[0].Failures, policycounts.Failure{Field: "spec", Reason: policycounts.Denied, Count: 4, First: 1, Last: 9})
	got := ledger.Add([]policycounts.Report{report}, []Key{policy}, 1000)[policy]
	if len(got.Failures) != 1 || got.Denials == nil || *got.Denials != (Failure{Field: "spec", Reason: policycounts.Denied, Reported: 4, First: 1, Last: 9}) {
		t.Errorf("%+v", got)
	}
	report = failing("a", 1, 5)
	report.Policies[0].Failures = []policycounts.Failure{{Field: "spec", Reason: policycounts.Denied, Count: 6, First: 1, Last: 11}}
	got = ledger.Add([]policycounts.Report{report}, []Key{policy}, 1001)[policy]
	if got.Denials == nil || got.Denials.Counted != 2 || got.Denials.Reported != 6 {
		t.Errorf("%+v", got.Denials)
	}
}

// Only active policies of the same generation count, and what is known of the others is forgotten.
func TestOnlyActivePolicies(t *testing.T) {
	ledger := Ledger{}
	if got := ledger.Add([]policycounts.Report{failing("a", 1, 5)}, []Key{{"u-1", 4}, {"u-2", 3}}, 1000); len(got) != 0 {
		t.Errorf("counts %+v", got)
	}
	ledger.Add([]policycounts.Report{failing("a", 1, 5)}, []Key{policy}, 1001)
	if len(ledger.policies) != 1 {
		t.Errorf("%d policies", len(ledger.policies))
	}
	ledger.Add(nil, nil, 1002)
	if len(ledger.policies) != 0 {
		t.Errorf("%d policies are remembered", len(ledger.policies))
	}
	for i := range int64(keepFor) {
		ledger.Add(nil, nil, 1003+i)
	}
	if len(ledger.sources) != 0 {
		t.Errorf("%d processes are remembered", len(ledger.sources))
	}
}

func TestExceeds(t *testing.T) {
	type interval struct{ evaluations, overruns int }
	all := func(n, times int) (s []interval) {
		for range times {
			s = append(s, interval{n, n})
		}
		return s
	}
	for name, c := range map[string]struct {
		intervals           []interval
		namespaces, overrun int
		want                bool
	}{
		"each evaluation":                               {all(10, 3), 3, 3, true},
		"two intervals, however many evaluations":       {all(1000, 2), 3, 3, false},
		"nine overruns":                                 {all(3, 3), 3, 3, false},
		"ten overruns, in four intervals":               {[]interval{{3, 3}, {3, 3}, {3, 3}, {1, 1}}, 3, 3, true},
		"half of the evaluations":                       {[]interval{{20, 10}, {20, 10}, {20, 10}, {20, 10}}, 3, 3, false},
		"more than half of the evaluations":             {[]interval{{20, 11}, {20, 11}, {20, 11}}, 3, 3, true},
		"an interval without evaluations between":       {[]interval{{10, 10}, {0, 0}, {10, 10}, {0, 0}, {10, 10}}, 3, 3, true},
		"an interval with few overruns between":         {[]interval{{10, 10}, {10, 10}, {10, 1}, {10, 10}, {10, 10}}, 3, 3, false},
		"three after an interval with few overruns":     {[]interval{{10, 10}, {10, 1}, {10, 10}, {10, 10}, {10, 10}}, 3, 3, true},
		"one namespace of two":                          {all(1000, 10), 2, 1, false},
		"two namespaces of three":                       {all(1000, 3), 3, 2, true},
		"one namespace that is the only one":            {all(10, 3), 1, 1, true},
		"half of the namespaces that are distinguished": {all(1000, 10), policycounts.MaxNamespaces, policycounts.MaxNamespaces / 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			ledger, now := Ledger{}, int64(1000)
			evaluations, overruns := 0, 0
			read := func() Count {
				now++
				return ledger.Add([]policycounts.Report{of("a", 1, evaluations, overruns, c.namespaces, c.overrun, overruns+1)}, []Key{policy}, now)[policy]
			}
			got := read()
			for i, in := range c.intervals {
				if got.Exceeds {
					t.Errorf("it exceeds its units before interval %d", i)
				}
				evaluations, overruns = evaluations+in.evaluations, overruns+in.overruns
				got = read()
			}
			if got.Exceeds != c.want {
				t.Errorf("it exceeds its units: %t, want %t", got.Exceeds, c.want)
			}
		})
	}
}

// Namespaces are the most that one process has seen, usually the audit: a webhook that few requests reach does not know
// the others.
func TestNamespacesOfAllProcesses(t *testing.T) {
	ledger := Ledger{}
	for i := range 10 {
		got := ledger.Add([]policycounts.Report{of("audit", 1, 100, 0, 20, 0, 1), of("a", 1, 100*i, 100*i, 1, 1, 100*i+1)}, []Key{policy}, int64(1000+i))
		if got[policy].Exceeds {
			t.Fatalf("the requests of one namespace of 20 count for all, in read %d", i)
		}
	}
}

// The result does not depend on the order of Reports, and is not changed by later reads.
func TestLedgerIsDeterministic(t *testing.T) {
	reports := func(i int) []policycounts.Report {
		return []policycounts.Report{of("a", 1, i, i, 1, 1, i+1), of("b", 1, 2*i, i, 2, 1, i+1), of("c", 1000, i, 0, 3, 0, i+1)}
	}
	one, other := Ledger{}, Ledger{}
	var kept []string
	var results []map[Key]Count
	for i := range 5 {
		forward, backward := reports(i), reports(i)
		backward[0], backward[2] = backward[2], backward[0]
		got := one.Add(forward, []Key{policy}, int64(1000+i))
		if diff := cmp.Diff(got, other.Add(backward, []Key{policy}, int64(1000+i))); diff != "" {
			t.Errorf("another order (-forward +backward):\n%s", diff)
		}
		kept, results = append(kept, fmt.Sprintf("%+v", got)), append(results, got)
	}
	for i := range results {
		if now := fmt.Sprintf("%+v", results[i]); now != kept[i] {
			t.Errorf("result %d was %s, and is %s", i, kept[i], now)
		}
	}
}
