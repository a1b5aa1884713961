package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/clitest"
)

const (
	agreeing  = `{"id":"same","area":"x","kind":"VirtualMachine","object":{"spec":{"template":{"spec":{"domain":{"devices":{}}}}}},"expect":{"mutated":{"template":{"spec":{"architecture":"amd64","domain":{"devices":{},"machine":{"type":"q35"}}}}},"allowed":false,"causes":[{"field":"spec.running","type":"FieldValueInvalid"}]}}`
	differing = `{"id":"other","area":"y","kind":"VirtualMachine","object":{"spec":{"template":{"spec":{"domain":{"devices":{}}}}}},"expect":{"mutated":{"template":{"spec":{"architecture":"arm64","domain":{"devices":{},"machine":{"type":"q35"}}}}},"allowed":true}}`
	templated = `{"id":"t","area":"engine/x","template":{"spec":{"virtualMachine":{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"NAME"}}}},"expect":{"virtualMachine":{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"a"}}}}`
	client    = `{"id":"u","area":"wire/client"}`
	changing  = `{"id":"%s","area":"r","lastStarted":{"runStrategy":"Always","template":{"spec":{"hostname":"a","domain":{"devices":{}}}}},"vm":{"metadata":{"name":"vm"},"spec":{"runStrategy":"Always","template":{"spec":{"hostname":"b","domain":{"devices":{}}}}}},"vmi":{"metadata":{"name":"vm"},"spec":{"hostname":"a","domain":{"devices":{}}}},"expect":{"admission":{"allowed":%t},"restartRequired":%s}}`
	started   = `{"id":"d","area":"disks","options":{},"vmi":{"metadata":{"name":"a"},"spec":{"domain":{"devices":{}}}},"xml":"<domain/>"}`
	pod       = `{"id":"p","area":"pods","vmi":{"metadata":{"name":"a","namespace":"b"},"spec":{"domain":{"devices":{}}}},"memoryOverheadBytes":1,"error":"rejected"}`
	labelled  = `{"id":"n","area":"nodes","arch":"arm64","domcapabilities":"<domainCapabilities/>","capabilities":"<capabilities/>","nodeLabels":{"a":"b"},"expect":{"labels":{"a":"c"}}}`
	expanding = `{"id":"exp","area":"z","vmi":{"domain":{"devices":{}}},"instancetype":null,"preference":null,"expect":{"spec":{"domain":{"devices":{},"resources":{}}},"conflicts":[],"annotations":{}}}`
)

// call runs the program as kubectl does.
func call(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	return clitest.Start(t, run, "/usr/local/bin/kubectl-virtward-conformance", "", args...)
}

func TestConformance(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, lines ...string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	admission, expansion := file("admission.jsonl", agreeing, "", differing), file("expansion.jsonl", expanding)
	templates := filepath.Dir(file("templates/engine.jsonl", strings.Replace(templated, "NAME", "a", 1), strings.Replace(templated, "NAME", "b", 1), client))
	const templatesTable = "other: t: VirtualMachine {\"kind\":\"VirtualMachine\",\"apiVersion\":\"kubevirt.io/v1\",\"metadata\":{\"name\":\"b\"},\"spec\":{\"template\":null},\"status\":{}}, recorded {\"apiVersion\":\"kubevirt.io/v1\",\"kind\":\"VirtualMachine\",\"metadata\":{\"name\":\"a\"}}\n" + `AREA         CASES  EQUAL  BETTER  OTHER  SKIPPED
engine/x     2      1      0       1      0
wire/client  1      0      0       0      1
total: mutated 0/0 allowed 0/0 causes 0/0 expand 0/0 engine 1/2 wire 0/0 capture 0/0 convert 0/0
`
	changes := file("rollout.jsonl", fmt.Sprintf(changing, "equal", true, `{"message":"a non-live-updatable field was changed in the template spec"}`), fmt.Sprintf(changing, "announced", true, "null"), fmt.Sprintf(changing, "denied", false, "null"))
	const changesTable = `AREA  CASES  DENIED  RESTART  LIVE  SILENT
r     3      1       1/2      2/2   0/0
`
	const table = `AREA  CASES  MUTATED  ALLOWED  CAUSES  EXPAND
x     1      1/1      1/1      1/1     0/0
y     1      0/1      0/1      0/0     0/0
z     1      0/0      0/0      0/0     1/1
total: mutated 1/2 allowed 1/2 causes 1/1 expand 1/1
`
	for _, c := range []struct {
		name   string
		args   []string
		code   int
		out    string
		errOut string
	}{
		{name: "table", args: []string{admission, expansion}, out: table},
		{name: "verbose", args: []string{"-v", admission, expansion}, out: `other: mutated: spec.template.spec.architecture: want "arm64", got "amd64"
other: admitted: allowed: KubeVirt true, Virtward false
other: admitted: extra: spec.runStrategy FieldValueInvalid
` + "\n" + table},
		{name: "reached", args: []string{"--min", "0.5", admission, expansion}, out: table},
		{name: "missed", args: []string{"--min", "0.98", admission, expansion}, code: clitest.ExitFailed, out: table, errOut: "error: mutated 1/2 is 0.5000, allowed 1/2 is 0.5000, below 0.98\n"},
		{name: "a directory of templates", args: []string{templates}, out: templatesTable},
		{name: "templates missed", args: []string{templates, "--min", "0.98"}, code: clitest.ExitFailed, out: templatesTable, errOut: "error: engine 1/2 is 0.5000, below 0.98\n"},
		{name: "changes", args: []string{changes, admission, expansion}, out: strings.TrimSuffix(table, "\n")[:strings.LastIndex(table, "total:")] + changesTable + strings.TrimSuffix(table[strings.LastIndex(table, "total:"):], "\n") + " restart 1/2 live 2/2 silent 0/0\n"},
		{name: "changes missed", args: []string{changes, "-v", "--min", "0.6"}, code: clitest.ExitFailed, out: "announced: restart: RestartRequired: KubeVirt \"\", Virtward \"TemplateChanged\"\n\n" + changesTable + "total: mutated 0/0 allowed 0/0 causes 0/0 expand 0/0 restart 1/2 live 2/2 silent 0/0\n", errOut: "error: restart 1/2 is 0.5000, below 0.6\n"},
		{name: "domains missed", args: []string{file("domain.jsonl", started), "--min", "0.5"}, code: clitest.ExitFailed, out: "AREA   DOMAIN\ndisks  0/1\ntotal: mutated 0/0 allowed 0/0 causes 0/0 expand 0/0 domain 0/1\n", errOut: "error: domain 0/1 is 0.0000, below 0.5\n"},
		{name: "a pod", args: []string{file("pod.jsonl", pod), "-v", "--min", "0.5"}, code: clitest.ExitFailed, out: "p: pod: error: want rejected, got a pod\n\nAREA  POD\npods  0/1\ntotal: mutated 0/0 allowed 0/0 causes 0/0 expand 0/0 pod 0/1\n", errOut: "error: pod 0/1 is 0.0000, below 0.5\n"},
		{name: "labels", args: []string{file("labels.jsonl", labelled), "-v", "--min", "0.5"}, code: clitest.ExitFailed, out: "n: labels: a: KubeVirt \"c\", Virtward \"b\" (true)\n\nAREA   LABELS\nnodes  0/1\ntotal: mutated 0/0 allowed 0/0 causes 0/0 expand 0/0 labels 0/1\n", errOut: "error: labels 0/1 is 0.0000, below 0.5\n"},
		{name: "no file", args: []string{"absent.jsonl"}, code: clitest.ExitFailed, errOut: "error: absent.jsonl: no such file or directory\n"},
		{name: "no cases", args: []string{file("empty.jsonl")}, code: clitest.ExitFailed, errOut: "error: " + filepath.Join(dir, "empty.jsonl") + ": no cases\n"},
		{name: "no case", args: []string{file("bad.jsonl", agreeing, "[]")}, code: clitest.ExitFailed, errOut: "error: " + filepath.Join(dir, "bad.jsonl") + ": line 2: not a JSON object: json: cannot unmarshal array into Go value of type map[string]json.RawMessage\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := call(t, c.args...)
			if got.Code != c.code || got.Out != c.out || got.ErrOut != c.errOut {
				t.Errorf("code %d, want %d\noutput:\n%s\nerrors:\n%s", got.Code, c.code, got.Out, got.ErrOut)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	got := call(t, "-h")
	if got.Code != clitest.ExitOK || got.ErrOut != "" || !strings.Contains(got.Out, "Usage:\n  kubectl virtward conformance FILE.jsonl|DIRECTORY ... [flags]\n") {
		t.Errorf("code %d, errors %q, output:\n%s", got.Code, got.ErrOut, got.Out)
	}
}

func TestWrongCalls(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "add a file with cases: see kubectl virtward conformance --help"},
		{[]string{"a.jsonl", "--min", "98"}, "--min 98: must be between 0 and 1"},
		{[]string{"a.jsonl", "--min", "NaN"}, "--min NaN: must be between 0 and 1"},
		{[]string{"a.jsonl", "--min", "most"}, `invalid argument "most" for "--min" flag: strconv.ParseFloat: parsing "most": invalid syntax: see kubectl virtward conformance --help`},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			got := call(t, c.args...)
			if want := (clitest.Result{Code: clitest.ExitUsage, ErrOut: "error: " + c.want + "\n"}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// TestLinks holds that the program does not show the content of a file that only a symbolic link in a directory names.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("topsecret: [a b"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := filepath.Join(dir, "cases")
	if err := os.Mkdir(cases, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../secret", filepath.Join(cases, "c.jsonl")); err != nil {
		t.Fatal(err)
	}
	got := call(t, cases)
	if got.Code == clitest.ExitOK || strings.Contains(got.Out+got.ErrOut, "topsecret") || !strings.Contains(got.ErrOut, "name it on the command line") {
		t.Errorf("code %d\n%s\n%s", got.Code, got.Out, got.ErrOut)
	}
}
