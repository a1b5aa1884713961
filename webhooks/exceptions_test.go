package webhooks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/test/build"
)

// A denial by policies offers an exception once, and only where one is possible.
func TestDenialsOfferExceptions(t *testing.T) {
	guarded := policies.NewExceptions(policies.ExceptionTerms{GuardedSince: time.Unix(1, 0)})
	const (
		first  = `FieldValueInvalid spec.template.spec.domain.memory.guest: Invalid value: "9Gi": at most 8Gi [virtward/policy/a] Choose less.`
		second = `FieldValueInvalid spec.template.spec.domain.memory.guest: Invalid value: "9Gi": at most 4Gi [virtward/policy/b] Choose less.`
		offer  = " " + ExceptionRemedy
	)
	deny := func(most string) string { return fmt.Sprintf(memoryCap, "Deny", most) }
	exported := strings.Replace(deny("4Gi"), "{enforcement", "{exportTo: [APIServer], enforcement", 1)
	vm := build.VMOf(build.VMI("db").Memory("9Gi")).Obj()
	for name, tc := range map[string]struct {
		exceptions *policies.Exceptions
		policies   []string
		want       []string
	}{
		"one policy":                         {guarded, []string{deny("8Gi")}, []string{first + offer}},
		"two policies":                       {guarded, []string{deny("8Gi"), deny("4Gi")}, []string{first, second + offer}},
		"the other one is exported":          {guarded, []string{deny("8Gi"), exported}, []string{first + offer, second}},
		"without a guard":                    {policies.NewExceptions(policies.ExceptionTerms{}), []string{deny("8Gi")}, []string{first}},
		"without exceptions":                 {nil, []string{deny("8Gi")}, []string{first}},
		"a policy that warns denies nothing": {guarded, []string{fmt.Sprintf(memoryCap, "Warn", "8Gi")}, []string{"warning: " + strings.TrimPrefix(first, "FieldValueInvalid ")}},
	} {
		t.Run(name, func(t *testing.T) {
			v := newValidator(t)
			under(t, v, tc.policies...)
			live(v.Evaluator).GetExceptions = func() *policies.Exceptions { return tc.exceptions }
			response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, vm, func(r *admissionv1.AdmissionRequest) { r.UserInfo.Username = "alice" }))
			if diff := cmp.Diff(tc.want, complaints(response)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if response.Result != nil && strings.Count(response.Result.Message, ExceptionRemedy) != strings.Count(strings.Join(tc.want, ""), ExceptionRemedy) {
				t.Errorf("the message is %q", response.Result.Message)
			}
		})
	}
}
