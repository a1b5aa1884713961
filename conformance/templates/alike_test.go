package templates

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// replayed replays one case, which is like recorded ones but is none.
func replayed(t *testing.T, c map[string]any) Result {
	t.Helper()
	line, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	report := NewReport(Options{})
	if err := report.Replay(line); err != nil {
		t.Fatal(err)
	}
	return report.Results[0]
}

// engineCase is a case with a template.
func engineCase(metadata, status, message string, parameters []any, expect map[string]any) map[string]any {
	vm := map[string]any{"metadata": json.RawMessage(metadata), "spec": map[string]any{"runStrategy": "Halted"}}
	if status != "" {
		vm["status"] = json.RawMessage(status)
	}
	spec := map[string]any{"virtualMachine": vm, "parameters": parameters, "message": message}
	return map[string]any{"id": "alike", "area": "engine/alike", "template": map[string]any{"spec": spec}, "expect": expect}
}

// made is an answer with a VirtualMachine.
func made(metadata, status, message string, generated map[string]any) map[string]any {
	vm := map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": json.RawMessage(metadata), "spec": map[string]any{"runStrategy": "Halted"}}
	if status != "" {
		vm["status"] = json.RawMessage(status)
	}
	return map[string]any{"virtualMachine": vm, "message": message, "generated": generated}
}

func undefined(name string) map[string]any {
	return map[string]any{"stage": "references", "causes": []any{map[string]any{"class": "undefined-parameter", "field": "spec.virtualMachine", "names": []string{name}}}}
}

// Cases that are like recorded ones have the outcomes of these.
func TestCasesLikeRecordedOnes(t *testing.T) {
	const served = `{"name": "<<A>>", "resourceVersion": "7", "uid": "u", "generation": 3, "finalizers": ["a.b/c"]}`
	letters := []any{map[string]any{"name": "A", "generate": "expression", "from": "[a-z]{3}"}}
	drawn := map[string]any{"A": map[string]any{"pattern": "^[a-z]{3}$", "length": 3}}
	number := []any{map[string]any{"name": "A", "value": "42"}}
	foreign := []any{map[string]any{"name": "A", "generate": "expression", "from": "é[a-z]{2}漢"}}
	for name, tc := range map[string]struct {
		given   map[string]any
		outcome Outcome
		class   string
	}{
		"fields of the API server with a generated name": {
			engineCase(strings.ReplaceAll(served, "<<A>>", "${A}"), `{"printableStatus": "${A}", "ready": true}`, "${A}", letters, made(served, `{"printableStatus": "<<A>>", "ready": true}`, "<<A>>", drawn)),
			Better, "fields of the API server are kept",
		},
		"another name beside fields of the API server": {
			engineCase(strings.ReplaceAll(served, "<<A>>", "${A}"), "", "${A}", letters, made(strings.ReplaceAll(served, "<<A>>", "web"), "", "<<A>>", drawn)),
			Other, "",
		},
		"a message of ${{NAME}}":           {engineCase(`{"name": "${A}"}`, "", "${{A}}", number, made(`{"name": "42"}`, "", "42", nil)), Equal, ""},
		"a message with another text":      {engineCase(`{"name": "${A}"}`, "", "${{A}}", number, made(`{"name": "42"}`, "", "43", nil)), Other, ""},
		"a message of an undefined ${{N}}": {engineCase(`{"name": "${A}"}`, "", "${{N}}", number, undefined("N")), Better, "an undefined reference in the message has the wrong field"},
		"a message of an undefined ${1}":   {engineCase(`{"name": "${A}"}`, "", "a ${1}", number, undefined("1")), Better, "an undefined reference in the message has the wrong field"},
		"a message that refers to 1":       {engineCase(`{"name": "${1}"}`, "", "${1}", []any{map[string]any{"name": "1", "value": "one"}}, made(`{"name": "one"}`, "", "one", nil)), Equal, ""},
		"values scanned again with message": {
			engineCase(`{"name": "${A}"}`, "", "${{A}}", []any{map[string]any{"name": "A", "value": "${B}"}, map[string]any{"name": "B", "value": "b"}}, made(`{"name": "b"}`, "", "${B}", nil)),
			Better, "values are scanned again",
		},
		"literals in characters": {
			engineCase(`{"name": "${A}"}`, "", "${A}", foreign, made(`{"name": "<<A>>"}`, "", "<<A>>", map[string]any{"A": map[string]any{"pattern": "^é[a-z]{2}漢$", "length": 4}})), Equal, "",
		},
		"literals in bytes": {
			engineCase(`{"name": "${A}"}`, "", "${A}", foreign, made(`{"name": "<<A>>"}`, "", "<<A>>", map[string]any{"A": map[string]any{"pattern": "^\u00c3\u00a9[a-z]{2}\u00e6\u00bc\u00a2$", "length": 7}})), Equal, "",
		},
		"other literals": {
			engineCase(`{"name": "${A}"}`, "", "${A}", foreign, made(`{"name": "<<A>>"}`, "", "<<A>>", map[string]any{"A": map[string]any{"pattern": "^e[a-z]{2}漢$", "length": 4}})), Other, "",
		},
		"literals of another length": {
			engineCase(`{"name": "${A}"}`, "", "${A}", foreign, made(`{"name": "<<A>>"}`, "", "<<A>>", map[string]any{"A": map[string]any{"pattern": "^é[a-z]{2}漢$", "length": 5}})), Other, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := replayed(t, tc.given)
			if got.Outcome != tc.outcome || got.Class != tc.class {
				t.Errorf("got %s %q: %s; want %s %q", got.Outcome, got.Class, got.Difference, tc.outcome, tc.class)
			}
		})
	}
}

// wireCase is a request for a template whose VirtualMachine has fields of the API server.
func wireCase(subresource string, code int, body any) map[string]any {
	const vm = `{"metadata": {"name": "web", "resourceVersion": "7"}, "spec": {"runStrategy": "Halted"}, "status": {"ready": true}}`
	return map[string]any{
		"id": "alike", "area": "wire/" + subresource,
		"request": map[string]any{
			"method": "POST", "path": "/apis/subresources.template.kubevirt.io/v1beta1/namespaces/a/virtualmachinetemplates/t/" + subresource,
			"headers": map[string]string{"Content-Type": "application/json"}, "body": map[string]any{},
		},
		"templates": []any{map[string]any{"metadata": map[string]any{"namespace": "a", "name": "t"}, "spec": map[string]any{"virtualMachine": json.RawMessage(vm)}}},
		"expect":    map[string]any{"code": code, "body": body, "calls": []any{map[string]any{"method": "GET"}, map[string]any{"method": "POST"}}},
	}
}

// virt-template sends a resourceVersion of the template to the API server, which rejects it.
func TestWireWithoutServerFields(t *testing.T) {
	answer := func(name string) map[string]any {
		return map[string]any{
			"kind": "ProcessedVirtualMachineTemplate", "apiVersion": "subresources.template.kubevirt.io/v1beta1", "templateRef": map[string]any{"namespace": "a", "name": "t"},
			"virtualMachine": json.RawMessage(`{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "` + name + `", "resourceVersion": "7"}, "spec": {"runStrategy": "Halted", "template": null}, "status": {"ready": true}}`),
		}
	}
	for name, tc := range map[string]struct {
		given   map[string]any
		outcome Outcome
	}{
		"processed":                 {wireCase("process", 200, answer("web")), Better},
		"processed to another name": {wireCase("process", 200, answer("other")), Other},
		"created":                   {wireCase("create", 500, map[string]any{"kind": "Status", "reason": "InternalError"}), Better},
	} {
		t.Run(name, func(t *testing.T) {
			if got := replayed(t, tc.given); got.Outcome != tc.outcome {
				t.Errorf("got %s %q: %s; want %s", got.Outcome, got.Class, got.Difference, tc.outcome)
			}
		})
	}
}

func TestReadEvent(t *testing.T) {
	for _, want := range []captureEvent{
		{name: "again", state: "again"},
		{name: "snapshot-in-progress", kind: snapshotKind, state: "inprogress"},
		{name: "snapshot-source-missing", kind: snapshotKind, state: "sourcemissing"},
		{name: "snapshot-ready-no-source-vm", kind: snapshotKind, state: "readynosourcevm"},
		{name: "snapshot-missing", kind: snapshotKind, gone: true},
		{name: "delete-snapshot", kind: snapshotKind, gone: true},
		{name: "content-not-ready", kind: contentKind, state: "notready"},
		{name: "content-deleted", kind: contentKind, gone: true},
		{name: "datavolumes-wait-for-first-consumer", kind: volumeKind, state: "waitforfirstconsumer"},
		{name: "datavolumes-first-succeeded", kind: volumeKind, first: true, state: "succeeded"},
		{name: "delete-datavolume", kind: volumeKind, first: true, gone: true},
		{name: "datavolumes-gone", kind: volumeKind, gone: true},
		{name: "relabel-datavolumes", kind: volumeKind, relabelled: true},
		{name: "foreign-template", kind: templateKind, foreign: true},
		{name: "template-deleted", kind: templateKind, gone: true},
		{name: "delete-request", kind: requestKind, gone: true},
	} {
		if diff := cmp.Diff(want, readEvent(want.name), cmp.AllowUnexported(captureEvent{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.name, diff)
		}
	}
	for _, phase := range phases {
		if got, known := phaseOf(strings.ToLower(string(phase))); !known || got != phase {
			t.Errorf("%s is %s", phase, got)
		}
	}
	if phase, known := phaseOf("running"); phase != cdiv1beta1.CloneInProgress || !known {
		t.Errorf("running is %s", phase)
	}
}

// captureCase is a capture of a VM with one volume.
func captureCase(events ...string) map[string]any {
	return map[string]any{
		"id": "alike", "area": "capture/failure",
		"request": json.RawMessage(`{"metadata": {"namespace": "tplns", "name": "req", "uid": "u"}, "spec": {"virtualMachineRef": {"namespace": "vmns", "name": "source"}}}`),
		"source": json.RawMessage(`{"metadata": {"namespace": "vmns", "name": "source"}, "spec": {"runStrategy": "Halted", "template": {"spec": {"domain": {"devices": {"disks": [{"name": "root"}]}},
			"volumes": [{"name": "root", "persistentVolumeClaim": {"claimName": "root"}}]}}}}`),
		"volumeBackups": json.RawMessage(`[{"claim": "root", "volumeName": "root", "volumeSnapshotName": "vs-root"}]`),
		"events":        events, "expect": map[string]any{},
	}
}

// Events that no recorded case has are played, each with its end.
func TestEventsThatWereNeverSeen(t *testing.T) {
	cloned := []string{"start", "snapshot-ready", "content-ready", "datavolumes-succeeded", "template-reconciled", "again"}
	until := func(last string, more ...string) []string {
		var events []string
		for _, event := range cloned {
			if events = append(events, event); event == last {
				break
			}
		}
		return append(events, more...)
	}
	for name, tc := range map[string]struct {
		events []string
		end    string
		gone   bool
	}{
		"as usual":                  {events: cloned, end: "Progressing False, Ready True"},
		"a volume waits":            {events: until("content-ready", "datavolumes-wait-for-first-consumer", "again"), end: "Progressing True, Ready False"},
		"a volume is lost":          {events: until("content-ready", "delete-datavolume", "again", "datavolumes-succeeded", "template-ready", "again"), end: "Progressing False, Ready True"},
		"the content is not ready":  {events: until("snapshot-ready", "content-not-ready", "again"), end: "Progressing True, Ready False"},
		"the content is lost":       {events: until("snapshot-ready", "content-deleted", "again"), end: "Progressing True, Ready False"},
		"the snapshot is lost":      {events: until("content-ready", "snapshot-gone", "again"), end: "Progressing False, Ready False"},
		"the snapshot is pending":   {events: until("start", "snapshot-pending", "again"), end: "Progressing True, Ready False"},
		"the deadline of KubeVirt":  {events: until("start", "snapshot-deadline-exceeded", "again"), end: "Progressing False, Ready False"},
		"an hour later":             {events: until("start", "an-hour-later", "again"), end: "Progressing True, Ready False"},
		"a foreign snapshot":        {events: []string{"foreign-snapshot", "again"}, end: "Progressing False, Ready False"},
		"a foreign volume":          {events: until("snapshot-ready", "foreign-datavolumes", "content-ready"), end: "Progressing False, Ready False"},
		"the template is not ready": {events: until("datavolumes-succeeded", "template-not-ready", "again"), end: "Progressing False, Ready False"},
		"the request is removed":    {events: until("content-ready", "request-removed", "again"), gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			line, err := json.Marshal(captureCase(tc.events...))
			if err != nil {
				t.Fatal(err)
			}
			c := &CaptureCase{}
			if err := json.Unmarshal(line, c); err != nil {
				t.Fatal(err)
			}
			run, err := newCaptureRun(c)
			if err != nil {
				t.Fatal(err)
			}
			got, err := run.play()
			if err != nil {
				t.Fatal(err)
			}
			if tc.gone != got.removed[requestRole] || !tc.gone && got.end != tc.end {
				t.Errorf("removed %v, end %q; want %v, %q", got.removed[requestRole], got.end, tc.gone, tc.end)
			}
		})
	}
}

// An event without a meaning ends its case, and not the replay.
func TestEventWithoutMeaning(t *testing.T) {
	report := NewReport(Options{})
	for _, events := range [][]string{{"start", "moon-rises", "again"}, {"start", "snapshot-ready", "content-ready", "datavolumes-melted"}, {"start", "request-again"}} {
		line, err := json.Marshal(captureCase(events...))
		if err != nil {
			t.Fatal(err)
		}
		if err := report.Replay(line); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, result := range report.Results {
		got = append(got, string(result.Outcome)+" "+result.Difference)
	}
	want := []string{"skipped event moon-rises: it has no meaning here", "skipped event datavolumes-melted: it has no meaning here", "skipped event request-again: it has no meaning here"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s := report.Total("capture"); s.Total() != 0 || s.Skipped != 3 {
		t.Errorf("%+v", s)
	}
}
