package webhooks

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"
)

// TestPlugins holds which Plugins of KubeVirt are denied, which are admitted with warnings, and what an update tolerates.
func TestPlugins(t *testing.T) {
	for name, c := range map[string]struct {
		object, old string
		want        []string
	}{
		"a valid one":         {object: `{"domainHooks":[{"cel":{"expression":"Domain{Title: 'a'}"}}]}`},
		"an unknown field":    {object: `{"domainHooks":[{"cel":{"expression":"Domain{Titel: 'a'}"}}]}`, want: []string{"FieldValueInvalid spec.domainHooks[0].cel.expression"}},
		"a hook of no point":  {object: `{"nodeHooks":[{"socket":"/s","permittedHooks":["PostMigrationSource"]}]}`, want: []string{"FieldValueInvalid spec.nodeHooks[0].permittedHooks[0]"}},
		"two languages":       {object: `{"condition":"vmi.Name == 'a'","nodeHooks":[{"socket":"/s","permittedHooks":["PreVMStart"]}]}`, want: []string{"FieldValueInvalid spec.condition"}},
		"a sidecar":           {object: `{"domainHooks":[{"sidecar":{"socketPath":"/var/run/kubevirt-plugin/p/s"}}]}`, want: []string{"warning"}},
		"an older fault":      {old: `{"domainHooks":[{"cel":{"expression":"Domain{Titel: 'a'}"}}]}`, object: `{"failureStrategy":"Ignore","domainHooks":[{"cel":{"expression":"Domain{Titel: 'a'}"}}]}`, want: []string{"warning"}},
		"a fault, unchanged":  {old: `{"domainHooks":[{}]}`, object: `{"domainHooks":[{}]}`},
		"a fault more":        {old: `{"domainHooks":[{}]}`, object: `{"domainHooks":[{},{}]}`, want: []string{"FieldValueInvalid spec.domainHooks[1]", "warning"}},
		"what cannot be read": {object: `{"domainHooks":1}`, want: []string{"FieldValueInvalid spec"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := newValidator(t)
			raw := func(spec string) []byte {
				return []byte(`{"apiVersion":"plugin.kubevirt.io/v1alpha1","kind":"Plugin","metadata":{"name":"p"},"spec":` + spec + `}`)
			}
			request := &admissionv1.AdmissionRequest{
				Kind: metav1.GroupVersionKind(pluginv1alpha1.SchemeGroupVersion.WithKind("Plugin")), Operation: admissionv1.Create, Name: "p",
				Object: runtime.RawExtension{Raw: raw(c.object)},
			}
			if c.old != "" {
				request.Operation, request.OldObject.Raw = admissionv1.Update, raw(c.old)
			}
			response, _ := v.respond(t.Context(), reviewFor(v, request))
			var got []string
			if response.Result != nil && response.Result.Details != nil {
				for _, cause := range response.Result.Details.Causes {
					if cause.Field != "virtward" {
						got = append(got, fmt.Sprintf("%s %s", cause.Type, cause.Field))
					}
				}
			}
			for range response.Warnings {
				got = append(got, "warning")
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s\n%v %+v", diff, response.Warnings, response.Result)
			}
		})
	}
}
