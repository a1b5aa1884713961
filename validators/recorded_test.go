package validators_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/conformance"
	"github.com/virtward/virtward/validators"
)

func recordedInstancetypes(t *testing.T) []conformance.InstancetypeCase {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "conformance", "testdata", "instancetype.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cases, err := conformance.ReadInstancetypeCases(file)
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// TestRecordedInstancetypes holds the rules of instancetypes and preferences to what KubeVirt's webhooks said of
// them: whether they are allowed, every cause, and the number of warnings.
func TestRecordedInstancetypes(t *testing.T) {
	base, err := validators.Base()
	if err != nil {
		t.Fatal(err)
	}
	cases, rejected, warned := recordedInstancetypes(t), 0, 0
	for i := range cases {
		for _, difference := range cases[i].CheckObjects(base) {
			t.Errorf("%s: %s", cases[i].ID, difference)
		}
		for _, answer := range []*conformance.ObjectAnswer{cases[i].Expect.InstancetypeAdmit, cases[i].Expect.PreferenceAdmit} {
			switch {
			case answer == nil:
			case !answer.Allowed:
				rejected++
			case answer.Warnings > 0:
				warned++
			}
		}
	}
	if len(cases) < 200 || rejected < 20 || warned < 20 {
		t.Errorf("only %d cases, of which KubeVirt rejected %d and warned of %d", len(cases), rejected, warned)
	}
}

// TestRecordedInstancetypesSeeDifferences makes sure that the comparison can fail.
func TestRecordedInstancetypesSeeDifferences(t *testing.T) {
	base, err := validators.Base()
	if err != nil {
		t.Fatal(err)
	}
	cases := recordedInstancetypes(t)
	for name, tt := range map[string]struct {
		id    string
		spoil func(*conformance.InstancetypeAnswer)
		want  string
	}{
		"allowed": {
			"it-memory-overcommit-101", func(a *conformance.InstancetypeAnswer) { a.InstancetypeAdmit.Allowed = true },
			"instancetypeAdmit: want allowed true",
		},
		"another cause": {
			"it-cpu-topology-unknown", func(a *conformance.InstancetypeAnswer) { a.PreferenceAdmit.Causes[0].Field = "spec.cpu" },
			"preferenceAdmit: want allowed false, warnings 0, causes [{spec.cpu FieldValueInvalid}]",
		},
		"a warning": {
			"it-conflict-launchsecurity", func(a *conformance.InstancetypeAnswer) { a.InstancetypeAdmit.Warnings = 0 },
			"instancetypeAdmit: want allowed true, warnings 0, causes []; got allowed true, warnings 1",
		},
		"no answer": {
			"it-conflict-launchsecurity", func(a *conformance.InstancetypeAnswer) { a.InstancetypeAdmit = nil },
			"instancetypeAdmit: there is no answer of KubeVirt's",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range cases {
				if c := cases[i]; c.ID == tt.id {
					tt.spoil(&c.Expect)
					if found := c.CheckObjects(base); len(found) != 1 || !strings.HasPrefix(found[0], tt.want) {
						t.Errorf("got %q, want one that begins with %q", found, tt.want)
					}
					return
				}
			}
			t.Error("the case is gone")
		})
	}
}

// TestPanics replays the requests on which KubeVirt crashes: here they are rejected, at the field that is wrong.
func TestPanics(t *testing.T) {
	want := map[string][]string{
		"panics-vmi-update-nil-cpu": {
			`hotplug-max-sockets-kept: spec.domain.cpu: Required value: the spec of a VMI without a CPU topology cannot be changed`,
		},
		"panics-pref-cpufeatures-no-cpu": {
			`instancetype-conflict: spec.template.spec.domain.cpu: Required value: preference "pf" adds CPU features, which KubeVirt can do only to a VM that has domain.cpu or an instancetype`,
		},
		"panics-volreq-hugepages-no-guest": {
			`volume-request-hugepages: spec.template.spec.domain.memory.guest: Required value: KubeVirt rejects volume requests if a template with hugepages does not set the memory`,
		},
		"panics-hugepages-zero": {
			`memory-hugepages-size: spec.domain.memory.hugepages.pageSize: Invalid value: "0": is not an amount of memory above zero`,
		},
		"panics-hugepages-zero-no-guest": {
			`memory-hugepages-size: spec.domain.memory.hugepages.pageSize: Invalid value: "0": is not an amount of memory above zero`,
		},
		"panics-spread-ratio-0": {
			`instancetype-conflict: spec.preference: Invalid value: "pf": its spec.cpu.spreadOptions.ratio is 0, but vCPUs are divided by it: it must be 1 or more`,
		},
	}
	c, got := newChecker(t), map[string][]string{}
	for _, line := range recordedLines(t, "panics.jsonl") {
		var recorded conformance.AdmissionCase
		if err := json.Unmarshal(line, &recorded); err != nil {
			t.Fatal(err)
		}
		findings, err := recorded.Findings(c.pipeline)
		if err != nil {
			t.Fatalf("%s: %v", recorded.ID, err)
		}
		for i := range findings {
			if f := &findings[i]; f.Severity == validators.Deny {
				got[recorded.ID] = append(got[recorded.ID], f.Rule+": "+f.Error.Error())
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// recordedLines are the cases of a file.
func recordedLines(t testing.TB, name string) [][]byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "conformance", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSpace(data), []byte("\n"))
}
