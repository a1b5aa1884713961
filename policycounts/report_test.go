package policycounts

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/policies"
)

const instance = "0b6f3f2e-8f5c-4a53-9d0e-7a4d6a3b8c11"

// failing returns a Tally with failures of so many expressions.
func failing(expressions int) *Tally {
	tally := NewTally()
	for i := range expressions {
		tally.Record(policies.Outcome{At: noon, Namespace: "a", Failures: []policies.Failure{failure(fmt.Sprintf("spec.validations[%d].messageExpression", i), policies.ReasonFailed)}})
	}
	return tally
}

func served(t *testing.T, counted ...Counted) string {
	t.Helper()
	source := &Source{Instance: instance, Started: noon, Policies: func() []Counted { return counted }}
	recorder := httptest.NewRecorder()
	source.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, Path, nil))
	return recorder.Body.String()
}

func TestReport(t *testing.T) {
	denying := NewTally()
	denying.Denied(noon)
	body := served(t, Counted{"u-1", 3, failing(1)}, Counted{"u-2", 1, NewTally()}, Counted{"u-3", 1, nil}, Counted{"u-4", 2, failing(2)}, Counted{"u-5", 1, denying})
	got, err := Read(strings.NewReader(body), noon)
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	fields := func(n int) (all []Failure) {
		for i := range n {
			all = append(all, Failure{fmt.Sprintf("spec.validations[%d].messageExpression", i), policies.ReasonFailed, 1, noon.Unix(), noon.Unix()})
		}
		return all
	}
	want := Report{Version: 2, Instance: instance, Started: noon.Unix(), Policies: []Policy{
		{UID: "u-1", Generation: 3, Evaluations: 1, Namespaces: 1, Failures: fields(1)},
		{UID: "u-4", Generation: 2, Evaluations: 2, Namespaces: 1, Failures: fields(2)},
		{UID: "u-5", Generation: 1, Failures: []Failure{{"spec", Denied, 1, noon.Unix(), noon.Unix()}}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// The Report of any number of policies is bounded, and can be read.
func TestReportIsBounded(t *testing.T) {
	tally, all := failing(MaxFailures), []Counted{}
	for i := range 5000 {
		all = append(all, Counted{types.UID(fmt.Sprintf("%08d-8f5c-4a53-9d0e-7a4d6a3b8c11", i)), 1 << 40, tally})
	}
	body := served(t, all...)
	got, err := Read(strings.NewReader(body), noon)
	if err != nil || len(body) > MaxReport || len(body) < MaxReport*9/10 || len(got.Policies) < 1000 {
		t.Errorf("%d bytes, %d policies, %v", len(body), len(got.Policies), err)
	}
}

// What a process that is not a webhook, or not any more, answers is rejected.
func TestReadRejects(t *testing.T) {
	valid := served(t, Counted{"u-1", 3, failing(2)})
	if _, err := Read(strings.NewReader(valid), noon); err != nil {
		t.Fatal(err)
	}
	const count = `"count":1,"first":1772625600,"last":1772625600`
	for name, c := range map[string]struct{ old, new, want string }{
		"no JSON":                        {valid, "<html>", "invalid character"},
		"too long":                       {valid, valid + strings.Repeat(" ", MaxReport), "more than 2097152 bytes"},
		"another version":                {`"version":2`, `"version":3,"more":{}`, "another version: 3"},
		"no version":                     {`"version":2,`, ``, "another version: 0"},
		"an unknown field":               {`"uid"`, `"object":"db","uid"`, `unknown field "object"`},
		"two documents":                  {valid, valid + valid, "invalid character"},
		"no instance":                    {instance, "", "no valid instance"},
		"an instance that is a text":     {instance, "a replica <of> mine", "no valid instance"},
		"a start before 1970":            {`"started":1`, `"started":-1`, "no valid start"},
		"no uid":                         {`"u-1"`, `""`, "invalid policy"},
		"a negative generation":          {`"generation":3`, `"generation":-3`, "invalid policy"},
		"a policy twice":                 {`]}]}`, `]},{"uid":"u-1"}]}`, "policy twice"},
		"negative evaluations":           {`"evaluations":2`, `"evaluations":-2`, "number of evaluations"},
		"evaluations that overflow":      {`"evaluations":2`, `"evaluations":9223372036854775807`, "number of evaluations"},
		"more overruns than evaluations": {`"overruns":0`, `"overruns":3`, "number of evaluations"},
		"too many namespaces":            {`"namespaces":1`, `"namespaces":33`, "number of namespaces"},
		"more namespaces with overruns":  {`"overrunNamespaces":0`, `"overrunNamespaces":2`, "number of namespaces"},
		"a field that is a text":         {`spec.validations[0]`, `spec.<b>secret</b>`, "invalid failure"},
		"a field of a value":             {`spec.validations[0].messageExpression`, `metadata.name`, "invalid failure"},
		"an unknown reason":              {`"failed"`, `"db of tenant"`, "invalid failure"},
		"failures twice":                 {`validations[1]`, `validations[0]`, "not sorted"},
		"a negative count":               {count, strings.Replace(count, "1", "-1", 1), "invalid count"},
		"times in the wrong order":       {count, `"count":1,"first":1772625601,"last":1772625600`, "invalid count"},
		"no failures":                    {valid[strings.Index(valid, `"failures":`):], `"failures":[]}]}`, "number of failures"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(valid, c.old, c.new, 1)
			if text == valid {
				t.Fatalf("%q is not in %s", c.old, valid)
			}
			if _, err := Read(strings.NewReader(text), noon); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, without %q", err, c.want)
			}
			if _, err := Read(strings.NewReader(text), noon); errors.Is(err, ErrVersion) != strings.Contains(name, "version") {
				t.Errorf("ErrVersion: %v", err)
			}
		})
	}
}

// A clock that is fast does not keep errors for longer.
func TestTimesAreNotInTheFuture(t *testing.T) {
	got, err := Read(strings.NewReader(served(t, Counted{"u-1", 3, failing(1)})), noon.AddDate(0, 0, -1))
	if err != nil || got.Policies[0].Failures[0].Last != noon.AddDate(0, 0, -1).Unix() {
		t.Errorf("%+v, %v", got, err)
	}
}
