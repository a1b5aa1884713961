package webhooks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/apikinds"
)

// ofTemplates sets the group of a review.
func ofTemplates(r *admissionv1.AdmissionRequest) {
	r.Kind.Group, r.Kind.Version = "template.kubevirt.io", "v1beta1"
}

// templateOf is a template with a spec in JSON.
func templateOf(metadata, spec string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"apiVersion":"template.kubevirt.io/v1beta1","kind":"VirtualMachineTemplate","metadata":{"name":"db",%s},"spec":%s}`,
		strings.TrimSuffix(`"namespace":"default",`+metadata, ","), spec))
}

const (
	soundTemplate  = `{"virtualMachine":{"metadata":{"name":"${NAME}"},"spec":{"runStrategy":"Halted","template":{"spec":{"domain":{"devices":{},"memory":{"guest":"1Gi"}}}}}},"parameters":[{"name":"NAME","required":true}]}`
	brokenTemplate = `{"virtualMachine":{"metadata":{"name":"${NOPE}"},"spec":{"template":{"spec":{"domain":{"devices":{},"cpus":1}}}}}}`
)

func TestTemplatesAreValidated(t *testing.T) {
	const name, cpus, ram = "spec.virtualMachine.metadata.name", "spec.virtualMachine.spec.template.spec.domain.cpus", "spec.virtualMachine.spec.template.spec.domain.ram"
	for title, tc := range map[string]struct {
		object, old json.RawMessage
		denied      []string
		warned      int
	}{
		"sound": {object: templateOf("", soundTemplate), warned: 1},
		"all faults": {
			object: templateOf("", brokenTemplate),
			denied: []string{name, cpus},
		},
		"pre-existing faults": {
			object: templateOf(`"labels":{"a":"b"}`, strings.Replace(brokenTemplate, `{"virtual`, `{"message":"new","virtual`, 1)), old: templateOf("", brokenTemplate), warned: 2,
		},
		"one fault is corrected": {object: templateOf("", strings.Replace(brokenTemplate, "${NOPE}", "db", 1)), old: templateOf("", brokenTemplate), warned: 1},
		"a fault is added": {
			object: templateOf("", strings.Replace(brokenTemplate, `"cpus":1`, `"cpus":1,"ram":"1Gi"`, 1)), old: templateOf("", brokenTemplate),
			denied: []string{ram}, warned: 2,
		},
		"too many values": {
			object: templateOf("", `{"virtualMachine":{"spec":{"dataVolumeTemplates":[`+strings.Repeat("{},", 6000)+`{}]}}}`), denied: []string{"spec"},
		},
		"another form": {object: templateOf("", `{"virtualMachine":{},"parameters":{}}`), denied: []string{"spec"}},
		"deleted while broken": {
			object: templateOf(`"deletionTimestamp":"2026-01-01T00:00:00Z"`, brokenTemplate), old: templateOf(`"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["a/b"]`, brokenTemplate),
		},
		"a deletion timestamp of the client": {
			object: templateOf(`"deletionTimestamp":"2026-01-01T00:00:00Z"`, brokenTemplate), denied: []string{name, cpus},
		},
	} {
		t.Run(title, func(t *testing.T) {
			changes := []func(*admissionv1.AdmissionRequest){ofTemplates}
			if tc.old != nil {
				changes = append(changes, update(t, tc.old))
			}
			response := evaluated(t, newValidator(t), reviewOf(t, apikinds.VirtualMachineTemplate, tc.object, changes...))
			var denied []string
			if response.Result != nil {
				if response.Result.Code != http.StatusUnprocessableEntity || response.Result.Details.Group != "template.kubevirt.io" || response.Result.Reason != metav1.StatusReasonInvalid {
					t.Errorf("result %+v", response.Result)
				}
				for _, cause := range response.Result.Details.Causes {
					denied = append(denied, cause.Field)
				}
			}
			if diff := cmp.Diff(tc.denied, denied); diff != "" || response.Allowed != (tc.denied == nil) || len(response.Warnings) != tc.warned {
				t.Errorf("allowed %v, %q (-want +got):\n%s", response.Allowed, complaints(response), diff)
			}
		})
	}
}

// The verdict does not depend on what is drawn.
func TestGeneratedValuesDoNotDecide(t *testing.T) {
	object := templateOf("", `{"virtualMachine":{"spec":{"template":{"spec":{"domain":{"devices":{}},"terminationGracePeriodSeconds":"${{GRACE}}"}}}},"parameters":[{"name":"GRACE","generate":"expression","from":"[0-9]{3}"}]}`)
	v := newValidator(t)
	for range 50 {
		if response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachineTemplate, object, ofTemplates)); !response.Allowed {
			t.Fatalf("%q", complaints(response))
		}
	}
}

func TestTemplateRequestsAreValidated(t *testing.T) {
	request := func(labels string) json.RawMessage {
		return json.RawMessage(`{"metadata":{"name":"db"},"spec":{"virtualMachineRef":{"namespace":"shop","name":"db"},"templateLabels":` + labels + `}}`)
	}
	v := newValidator(t)
	if response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachineTemplateRequest, request(`{"example.com/os":"fedora-41","tier":""}`), ofTemplates)); !response.Allowed || len(response.Warnings) > 0 {
		t.Errorf("valid labels: %q", complaints(response))
	}
	bad := request(`{"not valid!":"b","os":"-fedora"}`)
	response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachineTemplateRequest, bad, ofTemplates))
	var fields []string
	for _, cause := range response.Result.Details.Causes {
		fields = append(fields, cause.Field)
		if !strings.Contains(cause.Message, "[virtward/template-labels]") {
			t.Errorf("%s does not name its rule", cause.Message)
		}
	}
	if diff := cmp.Diff([]string{"spec.templateLabels[not valid!]", "spec.templateLabels[os]"}, fields); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
	if response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachineTemplateRequest, bad, ofTemplates, update(t, bad))); !response.Allowed {
		t.Errorf("an update is denied: %q", complaints(response))
	}
}
