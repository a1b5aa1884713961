package validators

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

func TestMetadata(t *testing.T) {
	const (
		mustBeLabel     = `must be at most 63 lowercase letters, digits and '-', with a letter or digit at either end`
		mustBeSubdomain = `must be at most 253 characters: DNS labels of lowercase letters, digits and '-', with single dots between them`
		reserved        = `the label is reserved: only KubeVirt's own components may set it`
		key             = `a key must be at most 63 letters, digits, '-', '_' and '.', with a letter or digit at either end, after an optional DNS subdomain and '/'`
		refused         = `; KubeVirt accepts this, but the VMI will be refused`
		gates           = `{"developerConfiguration":{"featureGates":["Sidecar","ExperimentalIgnitionSupport"]}}`
	)
	tests := []struct {
		name, spec, meta, configuration, requester string
		want                                       []string
	}{
		{name: "none"},
		{name: "names", spec: `{"hostname":"web-1","subdomain":"a.b-c"}`},
		{name: "a hostname of 63", spec: `{"hostname":"` + strings.Repeat("a", 63) + `"}`},
		{
			name: "a hostname of 64", spec: `{"hostname":"` + strings.Repeat("a", 64) + `"}`,
			want: []string{`metadata-hostname: spec.template.spec.hostname: Invalid value: "` + strings.Repeat("a", 64) + `": ` + mustBeLabel},
		},
		{
			name: "a hostname with its domain", spec: `{"hostname":"web.example"}`,
			want: []string{`metadata-hostname: spec.template.spec.hostname: Invalid value: "web.example": ` + mustBeLabel},
		},
		{
			name: "a subdomain with two dots", spec: `{"subdomain":"a..b"}`,
			want: []string{`metadata-subdomain: spec.template.spec.subdomain: Invalid value: "a..b": ` + mustBeSubdomain},
		},
		{name: "labels of one's own", meta: `{"labels":{"app":"web","kubevirt.io/vm":"x"}}`},
		{
			name: "KubeVirt's labels", meta: `{"labels":{"kubevirt.io/nodeName":"n","kubevirt.io/created-by":""}}`, requester: "alice",
			want: []string{
				`metadata-reserved-labels: spec.template.metadata.labels: Unsupported value: "kubevirt.io/created-by": ` + reserved,
				`metadata-reserved-labels: spec.template.metadata.labels: Unsupported value: "kubevirt.io/nodeName": ` + reserved,
			},
		},
		{
			name: "KubeVirt's labels, by an account of the same name elsewhere", meta: `{"labels":{"kubevirt.io/schedulable":"true"}}`,
			requester: "system:serviceaccount:other:kubevirt-controller",
			want:      []string{`metadata-reserved-labels: spec.template.metadata.labels: Unsupported value: "kubevirt.io/schedulable": ` + reserved},
		},
		{
			name: "KubeVirt's labels, by KubeVirt", meta: `{"labels":{"kubevirt.io/nodeName":"n"}}`,
			requester: "system:serviceaccount:kubevirt:kubevirt-synchronization-controller",
		},
		{name: "empty annotations need no gate", meta: `{"annotations":{"kubevirt.io/ignitiondata":"","hooks.kubevirt.io/hookSidecars":""}}`},
		{
			name: "annotations without their gates", meta: `{"annotations":{"kubevirt.io/ignitiondata":"{}","hooks.kubevirt.io/hookSidecars":"[]"}}`,
			want: []string{
				`metadata-ignition-gate: spec.template.metadata.annotations: Invalid value: "kubevirt.io/ignitiondata": the annotation needs the feature gate ExperimentalIgnitionSupport, which is off in this cluster`,
				`metadata-sidecar-gate: spec.template.metadata.annotations: Invalid value: "hooks.kubevirt.io/hookSidecars": the annotation needs the feature gate Sidecar, which is off in this cluster`,
			},
		},
		{name: "annotations with their gates", meta: `{"annotations":{"kubevirt.io/ignitiondata":"{}","hooks.kubevirt.io/hookSidecars":"[]"}}`, configuration: gates},
		{
			name: "what a VMI cannot have", meta: `{"labels":{"b c":"v","a":"x y"},"annotations":{"UPPER.example/ok":"1","no good":"1"}}`,
			want: []string{
				`metadata-template-valid: spec.template.metadata.annotations: Invalid value: "no good": ` + key + refused,
				`metadata-template-valid: spec.template.metadata.labels: Invalid value: "x y": the value of "a" must be empty or at most 63 letters, digits, '-', '_' and '.', with a letter or digit at either end` + refused,
				`metadata-template-valid: spec.template.metadata.labels: Invalid value: "b c": ` + key + refused,
			},
		},
		{
			name: "too much", meta: `{"annotations":{"a":"` + strings.Repeat("x", 256<<10) + `"}}`,
			want: []string{`metadata-template-valid: spec.template.metadata.annotations: Too long: annotations may take up 262144 bytes, these take up 262145` + refused},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &Subject{
				Facts: configuredFacts(t, tt.configuration), Requester: tt.requester,
				Spec: &v1.VirtualMachineInstanceSpec{}, Path: field.NewPath("spec", "template", "spec"),
				Meta: &metav1.ObjectMeta{}, MetaPath: field.NewPath("spec", "template", "metadata"),
			}
			for text, into := range map[string]any{tt.spec: s.Spec, tt.meta: s.Meta} {
				if text == "" {
					continue
				}
				if err := json.Unmarshal([]byte(text), into); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for _, f := range metadataRules().Check(s, OnSpec|OnVM) {
				got = append(got, fmt.Sprintf("%s: %s", f.Rule, f.Error.Error()))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
