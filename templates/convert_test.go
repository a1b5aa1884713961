package templates

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/validators"
)

func openShift(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

const head = "apiVersion: template.openshift.io/v1\nkind: Template\nmetadata: {name: web, labels: {os: linux}, annotations: {iconClass: icon}}\n"

const machine = `{apiVersion: kubevirt.io/v1alpha3, kind: VirtualMachine, metadata: {name: "${NAME}", labels: {app: own}}, spec: {template: {spec: {domain: {}}}}}`

func TestConvert(t *testing.T) {
	template, notes, err := Convert(openShift(t, head+`
objects: [`+machine+`, {apiVersion: v1, kind: Service, metadata: {name: "${NAME}-${PORT}"}}]
parameters: [{name: NAME, generate: expression, from: "vm-[a-z]{3}"}, {name: PORT, value: "80"}, {name: USER}]
labels: {app: shared, team: a}
message: Hello ${USER}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"objects[1]: Service ${NAME}-${PORT} is left out: create it by itself", "parameters: PORT is left out: the VirtualMachine does not refer to it"}
	if diff := cmp.Diff(want, notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	var vm map[string]any
	if err := json.Unmarshal(template.Spec.VirtualMachine.Raw, &vm); err != nil {
		t.Fatal(err)
	}
	labels := map[string]any{"app": "own", "team": "a"}
	if diff := cmp.Diff(labels, vm["metadata"].(map[string]any)["labels"]); diff != "" || vm["apiVersion"] != "kubevirt.io/v1" { //nolint:forcetypeassert // made above
		t.Errorf("%v, labels (-want +got):\n%s", vm["apiVersion"], diff)
	}
	if template.Labels["os"] != "linux" || template.Annotations["iconClass"] != "icon" || len(template.Spec.Parameters) != 2 {
		t.Errorf("%+v", template)
	}
	rendered, findings := Render(&template.Spec, map[string]string{"USER": "ann"}, Options{Random: source()})
	if rendered == nil || rendered.Message != "Hello ann" || !strings.HasPrefix(rendered.VirtualMachine.Name, "vm-") {
		t.Error(said(findings))
	}
}

// OpenShift leaves a reference to an unknown parameter as it is. So a script keeps its variables, and a note says so.
func TestConvertKeepsShellVariables(t *testing.T) {
	const script = "#!/bin/sh\necho \"${HOME} ${NAME} $${HOME} ${HOME:-x} ${1}\""
	vm := map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
		"metadata": map[string]any{"name": "${NAME}", "annotations": map[string]any{"run-${HOME}": "${{USER}}", "${NAME}": "${NAME}-${USER}"}},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"domain":  map[string]any{"devices": map[string]any{}},
			"volumes": []any{map[string]any{"name": "init", "cloudInitNoCloud": map[string]any{"userData": script}}},
		}}},
	}
	object := openShift(t, head)
	object.Object["objects"] = []any{map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s"}}, vm}
	object.Object["message"] = "${NAME} has ${1}"
	object.Object["parameters"] = []any{map[string]any{"name": "NAME"}, map[string]any{"name": "DOLLAR", "value": "unused"}}
	template, notes, err := Convert(object)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"objects[0]: Secret s is left out: create it by itself",
		"parameters: DOLLAR is left out: the VirtualMachine does not refer to it",
		"objects[1].metadata.annotations[${NAME}]: ${USER} is kept as text: the Template has no such parameter",
		"objects[1].metadata.annotations[run-${HOME}]: ${HOME} is kept as text: the Template has no such parameter",
		"objects[1].metadata.annotations[run-${HOME}]: ${USER} is kept as text: the Template has no such parameter",
		"objects[1].spec.template.spec.volumes[0].cloudInitNoCloud.userData: ${1}, ${HOME} are kept as text: the Template has no such parameters",
		"message: ${1} is kept as text: the Template has no such parameter",
	}
	if diff := cmp.Diff(want, notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if findings := Check(&template.Spec, source()); len(findings) > 0 {
		t.Error(said(findings))
	}
	rendered, findings := Render(&template.Spec, map[string]string{"NAME": "web"}, Options{Random: source()})
	if rendered == nil {
		t.Fatal(said(findings))
	}
	if got, want := rendered.VirtualMachine.Spec.Template.Spec.Volumes[0].CloudInitNoCloud.UserData, strings.ReplaceAll(script, "${NAME}", "web"); got != want {
		t.Errorf("got the script %q, want %q", got, want)
	}
	annotations := map[string]string{"run-${HOME}": "${{USER}}", "web": "web-${USER}"}
	if diff := cmp.Diff(annotations, rendered.VirtualMachine.Annotations); diff != "" || rendered.Message != "web has ${1}" {
		t.Errorf("message %q, annotations (-want +got):\n%s", rendered.Message, diff)
	}
}

// What cannot be text stays an error of the converted template: a name of an object, and a number.
func TestConvertReportsFields(t *testing.T) {
	for name, tc := range map[string]struct{ vm, want string }{
		"an unknown name": {
			`{metadata: {name: "${NOPE}"}, spec: {template: {spec: {domain: {}}}}}`,
			`spec.virtualMachine.metadata.name: Invalid value: "${NOPE}": the template has no parameter NOPE`,
		},
		"an unknown claim": {
			`{spec: {template: {spec: {domain: {}, volumes: [{name: a, persistentVolumeClaim: {claimName: "${NOPE}"}}]}}}}`,
			`spec.virtualMachine.spec.template.spec.volumes[0].persistentVolumeClaim.claimName: Invalid value: "${NOPE}": the template has no parameter NOPE`,
		},
		"a number as text": {
			`{spec: {template: {spec: {domain: {cpu: {cores: "${CPU}"}}}}}}`,
			`spec.virtualMachine.spec.template.spec.domain.cpu.cores: Invalid value: "${CPU}": it must be an integer, and ${CPU} is text: write ${{CPU}}`,
		},
		"a boolean as text": {
			`{spec: {running: "${CPU}", template: {spec: {domain: {}}}}}`,
			`spec.virtualMachine.spec.running: Invalid value: "${CPU}": it must be true or false, and ${CPU} is text: write ${{CPU}}`,
		},
		"an unknown number": {
			`{spec: {template: {spec: {domain: {cpu: {cores: "${{NOPE}}"}}}}}}`,
			`spec.virtualMachine.spec.template.spec.domain.cpu.cores: Invalid value: "${NOPE}": the template has no parameter NOPE`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			vm := strings.Replace(tc.vm, "{", "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, ", 1)
			for _, required := range []string{"true", "false"} { // with and without a value
				template, notes, err := Convert(openShift(t, head+"objects: ["+vm+"]\nparameters: [{name: CPU, required: "+required+"}]"))
				if err != nil || len(notes) > 0 {
					t.Fatalf("%v, %q", err, notes)
				}
				var denied []string
				for _, f := range Check(&template.Spec, source()) {
					if f.Severity == validators.Deny {
						denied = append(denied, f.Error.Error())
					}
				}
				if diff := cmp.Diff([]string{tc.want}, denied); diff != "" {
					t.Errorf("required %s (-want +got):\n%s", required, diff)
				}
			}
		})
	}
}

func TestConvertRejects(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"another kind":     {"apiVersion: v1\nkind: Pod", "v1 Pod is not a Template of template.openshift.io"},
		"no machine":       {head + "objects: [{apiVersion: v1, kind: Service}]", "objects: the Template has no VirtualMachine of kubevirt.io"},
		"two machines":     {head + "objects: [" + machine + "," + machine + "]", "objects[1]: the Template has more than one VirtualMachine"},
		"a wrong form":     {head + "objects: text", "reading the Template: json: cannot unmarshal"},
		"another machine":  {head + "objects: [{apiVersion: other.io/v1, kind: VirtualMachine}]", "objects: the Template has no VirtualMachine"},
		"parameters wrong": {head + "objects: [" + machine + "]\nparameters: [text]", "reading the Template: json: cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := Convert(openShift(t, tc.text)); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

// FuzzConvert holds that no Template panics, and that what is made is a template.
func FuzzConvert(f *testing.F) {
	f.Add(head + "objects: [" + machine + "]\nparameters: [{name: NAME}]")
	f.Fuzz(func(t *testing.T, text string) {
		object := &unstructured.Unstructured{}
		if yaml.Unmarshal([]byte(text), &object.Object) != nil {
			return
		}
		if template, _, err := Convert(object); err == nil {
			Check(&template.Spec, source())
		}
	})
}
