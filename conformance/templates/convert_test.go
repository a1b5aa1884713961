package templates

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// bundlesVariable names a directory with OpenShift Templates, such as the bundles of kubevirt/ssp-operator.
const bundlesVariable = "VIRTWARD_BUNDLES"

// TestConvert replays the recorded conversions whose sources are in the directory. None may be other.
func TestConvert(t *testing.T) {
	if os.Getenv(bundlesVariable) == "" {
		t.Skip("set " + bundlesVariable + " to a directory with the OpenShift Templates")
	}
	replay(t, "convert.jsonl", "convert", 0, 1)
}

// TestBundles converts and renders every Template of the directory with its defaults.
func TestBundles(t *testing.T) {
	directory := os.Getenv(bundlesVariable)
	if directory == "" {
		t.Skip("set " + bundlesVariable + " to a directory with the OpenShift Templates")
	}
	converted, failures, err := ConvertAll(directory)
	if err != nil || converted == 0 {
		t.Fatalf("%d converted, %v", converted, err)
	}
	for _, failure := range failures {
		t.Error(failure)
	}
	t.Logf("%d Templates were converted and rendered", converted)
}

// A conversion is compared with the recorded summary.
func TestConvertCompares(t *testing.T) {
	const template = `
apiVersion: template.openshift.io/v1
kind: Template
metadata: {name: web, annotations: {a: b}, labels: {c: d, e: f}}
objects:
- apiVersion: kubevirt.io/v1alpha3
  kind: VirtualMachine
  metadata: {name: "${NAME}"}
  spec: {running: false, template: {spec: {domain: {devices: {}}}}}
parameters: [{name: NAME, generate: expression, from: "web-[a-z]{5}"}]
`
	const service = "- {apiVersion: v1, kind: Service, metadata: {name: web}}\nparameters"
	directory := t.TempDir()
	for name, text := range map[string]string{
		"one.yaml":    template,
		"two.yaml":    strings.Replace(template, "parameters", service, 1),
		"broken.yaml": strings.Replace(template, "running: false", "runs: false", 1),
		"none.yaml":   strings.Replace(template, "kind: VirtualMachine", "kind: Pod", 1),
		"readme.md":   "no template",
	} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const recorded = `"annotations":1,"labels":2,"apiVersion":"template.kubevirt.io/v1beta1","kind":"VirtualMachineTemplate","message":false,"name":"web","namespace":null,
		"parameters":[{"from":"web-[a-z]{5}","generate":"expression","name":"NAME"}],"processed":"ok","processedWith":[],"virtualMachineApiVersion":"kubevirt.io/v1","virtualMachineKind":"VirtualMachine"`
	for name, tc := range map[string]struct {
		file, expect string
		want         Outcome
		difference   string
	}{
		"equal":                   {"one.yaml", recorded, Equal, ""},
		"another label":           {"one.yaml", strings.Replace(recorded, `"labels":2`, `"labels":3`, 1), Other, "Labels"},
		"other objects":           {"two.yaml", `"error":"template must contain exactly one object, found 2"`, Better, ""},
		"an error that is missed": {"one.yaml", `"error":"it is wrong"`, Other, "recorded: it is wrong; converted"},
		"the same error":          {"none.yaml", `"error":"no VirtualMachine"`, Equal, ""},
		"it does not render":      {"broken.yaml", recorded, Other, "it does not render: spec.virtualMachine.spec.runs"},
		"without its source":      {"absent.yaml", recorded, Skipped, "there is no Template web of some/absent.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			report := NewReport(Options{Sources: directory})
			if err := report.Replay([]byte(`{"id":"x","area":"convert","source":{"name":"web","path":"some/` + tc.file + `"},"expect":{` + tc.expect + `}}`)); err != nil {
				t.Fatal(err)
			}
			if got := report.Results[0]; got.Outcome != tc.want || !strings.Contains(got.Difference, tc.difference) {
				t.Errorf("got %+v", got)
			}
		})
	}
	converted, failures, err := ConvertAll(directory)
	if converted != 2 || len(failures) != 2 || err != nil {
		t.Errorf("%d converted, %v, %v", converted, failures, err)
	}
}
