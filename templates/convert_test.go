package templates

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
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
