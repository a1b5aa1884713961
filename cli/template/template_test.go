package template_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/clitest"
)

const fedora = `
apiVersion: template.kubevirt.io/v1beta1
kind: VirtualMachineTemplate
metadata: {name: fedora}
spec:
  message: Log in as ${USER}
  virtualMachine:
    metadata: {name: "${NAME}"}
    spec:
      runStrategy: Halted
      template: {spec: {domain: {cpu: {cores: "${{CORES}}"}}, hostname: "${USER}"}}
  parameters:
  - {name: NAME, required: true, description: The name}
  - {name: CORES, type: integer, minimum: 1, maximum: 8, value: "2"}
  - {name: USER, enum: [ann, joe], value: ann}
  - {name: ID, generate: expression, from: "[a-z]{8}"}
`

// rendered is what fedora gives with NAME=web and CORES=4.
const rendered = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: web
spec:
  runStrategy: Halted
  template:
    metadata: {}
    spec:
      domain:
        cpu:
          cores: 4
        devices: {}
        resources: {}
      hostname: ann
`

func TestProcess(t *testing.T) {
	values := func(text string) string {
		path := filepath.Join(t.TempDir(), "values")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const unused = `warning: spec.parameters[3].name: Invalid value: "ID": the template does not refer to the parameter [virtward/template-unused-parameter] Remove the parameter, or refer to it with ${NAME}.` + "\n"
	for name, tc := range map[string]struct {
		args    []string
		code    int
		out     string
		problem string
	}{
		"values":                       {[]string{"process", "-f", "-", "-p", "NAME=web", "-p", "CORES=4"}, 0, rendered, unused + "Log in as ann\n"},
		"standard input as argument":   {[]string{"process", "-", "-p", "NAME=web", "-p", "CORES=4"}, 0, rendered, unused + "Log in as ann\n"},
		"a file of lines":              {[]string{"process", "-f", "-", "--params-file", values("# values\nNAME=web\n\nCORES = 8\n"), "-p", "CORES=4"}, 0, rendered, unused + "Log in as ann\n"},
		"a file in YAML":               {[]string{"process", "-f", "-", "--params-file", values("NAME: web\nCORES: 4\n")}, 0, rendered, unused + "Log in as ann\n"},
		"a namespace":                  {[]string{"process", "-f", "-", "-p", "NAME=web", "-p", "CORES=4", "--target-namespace", "shop"}, 0, strings.Replace(rendered, "  name: web\n", "  name: web\n  namespace: shop\n", 1), unused + "Log in as ann\n"},
		"the name":                     {[]string{"process", "-f", "-", "-p", "NAME=web", "-o", "name"}, 0, "virtualmachine.kubevirt.io/web", unused + "Log in as ann\n"},
		"a missing value":              {[]string{"process", "-f", "-"}, 1, "", "error: spec.parameters[0].value: Required value: the parameter NAME must have a value [virtward/template-required-parameter] Give the parameter a value.\n" + unused + "error: the template fedora cannot be rendered\n"},
		"a value that is not allowed":  {[]string{"process", "-f", "-", "-p", "NAME=web", "-p", "CORES=9"}, 1, "", `error: parameters[CORES]: Invalid value: "9": it must be at most 8 [virtward/template-constrained-value] Use a value that the parameter allows.` + "\n" + unused + "error: the template fedora cannot be rendered\n"},
		"no template":                  {[]string{"process"}, 2, "", "error: name a template of the cluster, or a file with -f: see kubectl virtward template process --help\n"},
		"two templates":                {[]string{"process", "fedora", "-f", "-"}, 2, "", "error: name the template once: as the argument, with --name, or with -f\n"},
		"no value":                     {[]string{"process", "-f", "-", "-p", "NAME"}, 2, "", "error: -p NAME: write NAME=VALUE\n"},
		"create of a file":             {[]string{"process", "-f", "-", "--create"}, 2, "", "error: --create needs a template of the cluster that is rendered there: create the printed VirtualMachine with kubectl create -f -\n"},
		"an output that is not known":  {[]string{"process", "-f", "-", "-o", "text"}, 2, "", `error: unknown output "text": the known ones are yaml, json, name` + "\n"},
		"values that are not readable": {[]string{"process", "-f", "-", "--params-file", values("NAME\n=x")}, 1, "", ": line 1: write NAME=VALUE\n"},
		"parameters": {[]string{"parameters", "-f", "-"}, 0, "NAME    REQUIRED   VALUE                    ALLOWED               DESCRIPTION\n" +
			"NAME    true       -                        -                     The name\n" +
			"CORES   false      2                        integer from 1 to 8   \n" +
			"USER    false      ann                      ann, joe              \n" +
			"ID      false      generated: [a-z]{8}      -                     \n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := clitest.Call(t, fedora, append([]string{"template"}, tc.args...)...)
			if got.Code != tc.code || strings.Join(strings.Fields(got.Out), " ") != strings.Join(strings.Fields(tc.out), " ") || !strings.HasSuffix(got.ErrOut, tc.problem) {
				t.Errorf("code %d, output:\n%s\nerrors:\n%s", got.Code, got.Out, got.ErrOut)
			}
		})
	}
}

// A message prints the values in it, and does not control the terminal with them.
func TestProcessMessage(t *testing.T) {
	got := clitest.Call(t, strings.Replace(fedora, "Log in as ${USER}", "Log in to ${NAME}", 1), "template", "process", "-f", "-", "-p", "NAME=\x1b[31mweb\nor web")
	if got.Code != 0 || !strings.HasSuffix(got.ErrOut, "Log in to [31mweb\nor web\n") {
		t.Errorf("code %d, errors %q", got.Code, got.ErrOut)
	}
}

func TestProcessReadsTemplatesOnly(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"an unknown field":      {strings.Replace(fedora, "message:", "massage:", 1), `document 1: it is not a VirtualMachineTemplate: json: unknown field "massage"`},
		"an OpenShift Template": {"apiVersion: template.openshift.io/v1\nkind: Template\nmetadata: {name: a}", "it is a Template of OpenShift: convert it with template convert"},
		"another kind":          {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}", "Pod is not a VirtualMachineTemplate of template.kubevirt.io"},
		"two":                   {fedora + "---" + fedora, "it has 2 objects, and must have one"},
	} {
		t.Run(name, func(t *testing.T) {
			got := clitest.Call(t, tc.text, "template", "process", "-f", "-")
			if got.Code != clitest.ExitFailed || !strings.Contains(got.ErrOut, tc.want) {
				t.Errorf("code %d, errors %s", got.Code, got.ErrOut)
			}
		})
	}
}

// A template of the cluster is rendered by the cluster's API.
func TestProcessInTheCluster(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, r.ContentLength)
		_, _ = r.Body.Read(body)
		asked = append(asked, r.Method+" "+r.URL.Path+" "+string(body))
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(r.URL.Path, "/missing/") {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"virtualmachinetemplates.template.kubevirt.io \"missing\" not found"}`))
			return
		}
		w.Header().Set("Warning", `299 - "spec.running is deprecated"`)
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"message":"hello","virtualMachine":{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"web"},"spec":{"template":null}}}`))
	}))
	t.Cleanup(server.Close)
	call := func(args ...string) clitest.Result {
		return clitest.Call(t, "", append([]string{"template", "process", "--server", server.URL, "-n", "templates"}, args...)...)
	}
	got := call("fedora", "-p", "NAME=web", "--create", "--target-namespace", "shop", "-o", "json")
	if got.Code != 0 || !strings.Contains(got.Out, `"name": "web"`) || !strings.Contains(got.ErrOut, "spec.running is deprecated") || !strings.HasSuffix(got.ErrOut, "hello\n") {
		t.Errorf("code %d, output %s, errors %s", got.Code, got.Out, got.ErrOut)
	}
	want := `POST /apis/subresources.template.kubevirt.io/v1beta1/namespaces/templates/virtualmachinetemplates/fedora/create {"parameters":{"NAME":"web"},"targetNamespace":"shop"}`
	if len(asked) != 1 || asked[0] != want {
		t.Errorf("requests %q", asked)
	}
	if got := call("missing"); got.Code != 1 || got.ErrOut != "error: process: virtualmachinetemplates.template.kubevirt.io \"missing\" not found\n" {
		t.Errorf("code %d, errors %s", got.Code, got.ErrOut)
	}
}

func TestConvert(t *testing.T) {
	const one = `
apiVersion: template.openshift.io/v1
kind: Template
metadata: {name: NAME}
objects: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: "${ID}"}, spec: {template: {spec: {domain: {}}}}}]
parameters: [{name: ID, value: web}]
---
`
	got := clitest.Call(t, strings.Replace(one, "NAME", "a", 1)+"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n---"+strings.Replace(one, "NAME", "b", 1), "template", "convert", "-f", "-")
	if got.Code != 0 || strings.Count(got.Out, "kind: VirtualMachineTemplate\n") != 2 || strings.Count(got.Out, "---\n") != 1 || !strings.Contains(got.ErrOut, "warning: standard input: document 2: Pod p of v1 is not a Template of template.openshift.io and is left out\n") {
		t.Errorf("code %d, output:\n%s\nerrors:\n%s", got.Code, got.Out, got.ErrOut)
	}
	again := clitest.Call(t, strings.Split(got.Out, "---\n")[0], "template", "process", "-f", "-")
	if again.Code != 0 || !strings.Contains(again.Out, "name: web") {
		t.Errorf("code %d, output:\n%s\nerrors:\n%s", again.Code, again.Out, again.ErrOut)
	}
	script := clitest.Call(t, strings.Replace(one, "domain: {}", `domain: {}, volumes: [{name: init, cloudInitNoCloud: {userData: 'echo "${HOME}" ${ID}'}}]`, 1), "template", "convert", "-f", "-")
	if script.Code != 0 || !strings.Contains(script.ErrOut, "objects[0].spec.template.spec.volumes[0].cloudInitNoCloud.userData: ${HOME} is kept as text: the Template has no such parameter\n") {
		t.Errorf("code %d, errors:\n%s", script.Code, script.ErrOut)
	}
	if made := clitest.Call(t, script.Out, "template", "process", "-f", "-"); made.Code != 0 || !strings.Contains(made.Out, `userData: echo "${HOME}" web`) {
		t.Errorf("code %d, output:\n%s\nerrors:\n%s", made.Code, made.Out, made.ErrOut)
	}
	number := clitest.Call(t, strings.Replace(one, "domain: {}", `domain: {cpu: {cores: "${ID}"}}`, 1), "template", "convert", "-f", "-")
	if number.Code != 1 || !strings.Contains(number.ErrOut, "it must be an integer, and ${ID} is text: write ${{ID}}") {
		t.Errorf("code %d, errors:\n%s", number.Code, number.ErrOut)
	}
	bad := clitest.Call(t, strings.Replace(one, "template: {spec: {domain: {}}}", "bogus: 1", 1)+strings.Replace(one, "VirtualMachine,", "Pod,", 1), "template", "convert", "-f", "-")
	if bad.Code != 1 || bad.Out != "" || !strings.Contains(bad.ErrOut, "spec.virtualMachine.spec.bogus") || !strings.HasSuffix(bad.ErrOut, "error: 2 of 2 Templates cannot be converted\n") {
		t.Errorf("code %d, output:\n%s\nerrors:\n%s", bad.Code, bad.Out, bad.ErrOut)
	}
	for name, c := range map[string]struct{ change, to, want string }{
		"a label of the Template":         {"{name: NAME}", "{name: a, labels: {x: true}}", "error: standard input: document 1: line 4: metadata.labels.x: is true or false where a text is expected\n"},
		"a label of the VirtualMachine":   {`{name: "${ID}"}`, `{name: "${ID}", labels: {x: true}}`, "standard input: document 1: line 5: error: spec.virtualMachine.metadata.labels[x]: Invalid value: \"true\": it must be a string"},
		"a list that is none":             {"parameters: [{name: ID, value: web}]", "parameters: text", "error: standard input: document 1: line 6: parameters: is a text where a list is expected\n"},
		"a Template of another version":   {"template.openshift.io/v1", "template.example.org/v2", "warning: standard input: document 1: Template NAME of template.example.org/v2 is not a Template of template.openshift.io and is left out\n"},
		"a list where a text is expected": {"value: web", "value: [web]", "error: standard input: document 1: line 6: parameters[0].value: is a list where a text is expected\n"},
	} {
		got := clitest.Call(t, strings.Replace(one, c.change, c.to, 1), "template", "convert", "-f", "-")
		if got.Code != 1 || !strings.Contains(got.ErrOut, c.want) {
			t.Errorf("%s: code %d, want %q in\n%s", name, got.Code, c.want, got.ErrOut)
		}
	}
}
