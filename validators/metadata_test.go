package validators

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// template is a VM whose template has this metadata and spec.
func template(meta, spec string) string {
	return fmt.Sprintf(`{"spec":{"template":{"metadata":%s,"spec":%s}}}`, meta, spec)
}

func TestMetadata(t *testing.T) {
	const (
		mustBeLabel     = `is not a DNS label`
		mustBeSubdomain = `is not a DNS subdomain`
		reserved        = `only KubeVirt may set this label`
		key             = `a key must be at most 63 letters, digits, '-', '_' and '.', with a letter or digit at either end, after an optional DNS subdomain and '/'`
		rejected        = `; KubeVirt accepts this, but the VMI will be rejected`
		gates           = `{"developerConfiguration":{"featureGates":["Sidecar","ExperimentalIgnitionSupport"]}}`
	)
	runCases(t, metadataRules(), OnSpec|OnVM, []ruleCase{
		{name: "none", vm: template(`{}`, `{}`)},
		{name: "names", vm: template(`{}`, `{"hostname":"web-1","subdomain":"a.b-c"}`)},
		{name: "a hostname of 63", vm: template(`{}`, `{"hostname":"`+strings.Repeat("a", 63)+`"}`)},
		{
			name: "a hostname of 64", vm: template(`{}`, `{"hostname":"`+strings.Repeat("a", 64)+`"}`),
			want: []string{`metadata-hostname: spec.template.spec.hostname: Invalid value: "` + strings.Repeat("a", 64) + `": ` + mustBeLabel},
		},
		{
			name: "a hostname with its domain", vm: template(`{}`, `{"hostname":"web.example"}`),
			want: []string{`metadata-hostname: spec.template.spec.hostname: Invalid value: "web.example": ` + mustBeLabel},
		},
		{
			name: "a subdomain with two dots", vm: template(`{}`, `{"subdomain":"a..b"}`),
			want: []string{`metadata-subdomain: spec.template.spec.subdomain: Invalid value: "a..b": ` + mustBeSubdomain},
		},
		{name: "labels of one's own", vm: template(`{"labels":{"app":"web","kubevirt.io/vm":"x"}}`, `{}`)},
		{
			name: "KubeVirt's labels", vm: template(`{"labels":{"kubevirt.io/nodeName":"n","kubevirt.io/created-by":""}}`, `{}`), requester: "alice",
			want: []string{
				`metadata-reserved-labels: spec.template.metadata.labels: Unsupported value: "kubevirt.io/created-by": ` + reserved,
				`metadata-reserved-labels: spec.template.metadata.labels: Unsupported value: "kubevirt.io/nodeName": ` + reserved,
			},
		},
		{
			name: "KubeVirt's labels, by an account of the same name elsewhere", vm: template(`{"labels":{"kubevirt.io/schedulable":"true"}}`, `{}`),
			requester: "system:serviceaccount:other:kubevirt-controller",
			want:      []string{`metadata-reserved-labels: spec.template.metadata.labels: Unsupported value: "kubevirt.io/schedulable": ` + reserved},
		},
		{
			name: "KubeVirt's labels, by KubeVirt", vm: template(`{"labels":{"kubevirt.io/nodeName":"n"}}`, `{}`),
			requester: "system:serviceaccount:kubevirt:kubevirt-synchronization-controller",
		},
		{name: "empty annotations need no gate", vm: template(`{"annotations":{"kubevirt.io/ignitiondata":"","hooks.kubevirt.io/hookSidecars":""}}`, `{}`)},
		{
			name: "annotations without their gates", vm: template(`{"annotations":{"kubevirt.io/ignitiondata":"{}","hooks.kubevirt.io/hookSidecars":"[]"}}`, `{}`),
			want: []string{
				`metadata-ignition-gate: spec.template.metadata.annotations: Invalid value: "kubevirt.io/ignitiondata": the annotation needs KubeVirt's feature gate ExperimentalIgnitionSupport, which is off in this cluster`,
				`metadata-sidecar-gate: spec.template.metadata.annotations: Invalid value: "hooks.kubevirt.io/hookSidecars": the annotation needs KubeVirt's feature gate Sidecar, which is off in this cluster`,
			},
		},
		{name: "annotations with their gates", vm: template(`{"annotations":{"kubevirt.io/ignitiondata":"{}","hooks.kubevirt.io/hookSidecars":"[]"}}`, `{}`), configuration: gates},
		{
			name: "what a VMI cannot have", vm: template(`{"labels":{"b c":"v","a":"x y"},"annotations":{"UPPER.example/ok":"1","no good":"1"}}`, `{}`),
			want: []string{
				`metadata-template-valid: spec.template.metadata.annotations: Invalid value: "no good": ` + key + rejected,
				`metadata-template-valid: spec.template.metadata.labels: Invalid value: "x y": the value of "a" must be empty or at most 63 letters, digits, '-', '_' and '.', with a letter or digit at either end` + rejected,
				`metadata-template-valid: spec.template.metadata.labels: Invalid value: "b c": ` + key + rejected,
			},
		},
		{
			name: "too much", vm: template(`{"annotations":{"a":"`+strings.Repeat("x", 256<<10)+`"}}`, `{}`),
			want: []string{`metadata-template-valid: spec.template.metadata.annotations: Too long: annotations may take up 262144 bytes, these take up 262145` + rejected},
		},
	})
}

// TestMetadataOfAnUpdate holds that what a VMI could not begin with is not added to it later.
func TestMetadataOfAnUpdate(t *testing.T) {
	const (
		annotated = `{metadata: {annotations: {hooks.kubevirt.io/hookSidecars: "[{}]", kubevirt.io/ignitiondata: "{}"}}, spec: {domain: {}}}`
		other     = `{metadata: {annotations: {hooks.kubevirt.io/hookSidecars: "[{},{}]", kubevirt.io/ignitiondata: "{ }"}}, spec: {domain: {}}}`
		plain     = `{spec: {domain: {}}}`
	)
	rejected := []string{
		`metadata-ignition-gate: metadata.annotations: Invalid value: "kubevirt.io/ignitiondata": the annotation needs KubeVirt's feature gate ExperimentalIgnitionSupport, which is off in this cluster`,
		`metadata-sidecar-gate: metadata.annotations: Invalid value: "hooks.kubevirt.io/hookSidecars": the annotation needs KubeVirt's feature gate Sidecar, which is off in this cluster`,
	}
	for _, tc := range []ruleCase{
		{name: "added", oldVMI: plain, vmi: annotated, requester: "eve", want: rejected},
		{name: "changed", oldVMI: annotated, vmi: other, requester: "eve", want: rejected},
		{name: "added by an account of the same name elsewhere", oldVMI: plain, vmi: annotated, requester: "system:serviceaccount:other:kubevirt-controller", want: rejected},
		{name: "kept", oldVMI: annotated, vmi: annotated, requester: "eve"},
		{name: "removed", oldVMI: annotated, vmi: plain, requester: "eve"},
		{name: "added by KubeVirt", oldVMI: plain, vmi: annotated, requester: "system:serviceaccount:kubevirt:kubevirt-controller"},
		{
			name: "with the gates", oldVMI: plain, vmi: annotated, requester: "eve",
			configuration: `{"developerConfiguration":{"featureGates":["Sidecar","ExperimentalIgnitionSupport"]}}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, messages(metadataRules().Check(tc.subject(t), OnVMIUpdate))); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
