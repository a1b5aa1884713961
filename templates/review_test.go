package templates_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/templates/approvals"
)

// specOf is the spec of a template with a VirtualMachine in YAML.
func specOf(t *testing.T, virtualMachine string) *v1beta1.VirtualMachineTemplateSpec {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(virtualMachine))
	if err != nil {
		t.Fatal(err)
	}
	return &v1beta1.VirtualMachineTemplateSpec{VirtualMachine: &runtime.RawExtension{Raw: raw}}
}

func TestFindUncovered(t *testing.T) {
	digest := "quay.io/fedora@sha256:" + strings.Repeat("a", 64)
	for name, tc := range map[string]struct {
		vm   string
		want []string
	}{
		"nothing":                     {"spec: {template: {spec: {domain: {devices: {}}, volumes: [{name: a, emptyDisk: {capacity: 1Gi}}, {name: b, containerDisk: {image: '" + digest + "'}}]}}}", nil},
		"an image by tag":             {"spec: {template: {spec: {volumes: [{name: a}, {name: b, containerDisk: {image: 'quay.io/fedora:42'}}]}}}", []string{"spec.virtualMachine.spec.template.spec.volumes[1].containerDisk.image: the tag of an image can move to another image; use a digest: IMAGE@sha256:…"}},
		"an image with a parameter":   {"spec: {template: {spec: {volumes: [{containerDisk: {image: 'quay.io/${IMAGE}:${TAG}'}}]}}}", []string{"spec.virtualMachine.spec.template.spec.volumes[0].containerDisk.image: the tag of an image can move to another image; use a digest: IMAGE@sha256:…; the user chooses it with IMAGE, TAG"}},
		"a parameter before a digest": {"spec: {template: {spec: {volumes: [{containerDisk: {image: '${REPOSITORY}@sha256:" + strings.Repeat("a", 64) + "'}}]}}}", []string{"spec.virtualMachine.spec.template.spec.volumes[0].containerDisk.image: the tag of an image can move to another image; use a digest: IMAGE@sha256:…; the user chooses it with REPOSITORY"}},
		"a short digest":              {"spec: {template: {spec: {volumes: [{containerDisk: {image: 'a@sha256:abc'}}]}}}", []string{"spec.virtualMachine.spec.template.spec.volumes[0].containerDisk.image: the tag of an image can move to another image; use a digest: IMAGE@sha256:…"}},
		"a kernel":                    {"spec: {template: {spec: {domain: {firmware: {kernelBoot: {container: {image: 'kernel:1'}}}}}}}", []string{"spec.virtualMachine.spec.template.spec.domain.firmware.kernelBoot.container.image: the tag of an image can move to another image; use a digest: IMAGE@sha256:…"}},
		"an instancetype":             {"spec: {instancetype: {name: u1.small}, preference: {name: fedora, revisionName: fedora-1}}", []string{"spec.virtualMachine.spec.instancetype: the instancetype can change; use a revisionName"}},
		"a revision of a parameter":   {"spec: {preference: {name: fedora, revisionName: '${{REVISION}}'}}", []string{"spec.virtualMachine.spec.preference: the preference can change; use a revisionName; the user chooses it with REVISION"}},
		"a DataSource": {
			"spec: {dataVolumeTemplates: [{spec: {sourceRef: {kind: DataSource, name: '${OS}', namespace: images}}}]}",
			[]string{"spec.virtualMachine.spec.dataVolumeTemplates[0].spec.sourceRef: a DataSource can refer to another image; the user chooses it with OS"},
		},
		"a PersistentVolumeClaim and its Secret": {
			"spec: {dataVolumeTemplates: [{spec: {source: {pvc: {name: a, namespace: images}}}}, {spec: {source: {http: {url: 'http://a', secretRef: s, certConfigMap: c}}}}]}",
			[]string{
				"spec.virtualMachine.spec.dataVolumeTemplates[0].spec.source.pvc: the content of a PersistentVolumeClaim can change",
				"spec.virtualMachine.spec.dataVolumeTemplates[1].spec.source.http.certConfigMap: the content of a ConfigMap can change",
				"spec.virtualMachine.spec.dataVolumeTemplates[1].spec.source.http.secretRef: the content of a Secret can change",
				"spec.virtualMachine.spec.dataVolumeTemplates[1].spec.source.http.url: the content at a URL can change",
			},
		},
		"Secrets of the guest": {
			"spec: {template: {spec: {volumes: [{cloudInitNoCloud: {secretRef: {name: a}}}, {sysprep: {configMap: {name: b}}}], accessCredentials: [{sshPublicKey: {source: {secret: {secretName: k}}}}]}}}",
			[]string{
				"spec.virtualMachine.spec.template.spec.accessCredentials[0].sshPublicKey.source.secret.secretName: the content of a Secret can change",
				"spec.virtualMachine.spec.template.spec.volumes[0].cloudInitNoCloud.secretRef.name: the content of a Secret can change",
				"spec.virtualMachine.spec.template.spec.volumes[1].sysprep.configMap.name: the content of a ConfigMap can change",
			},
		},
		"a parameter as a key": {
			"spec: {template: {spec: {volumes: [{'${KIND}': {image: 'a:b'}}]}}}",
			[]string{"spec.virtualMachine.spec.template.spec.volumes[0][${KIND}]: a parameter chooses the name of the field"},
		},
		"texts that programs read": {
			`{metadata: {name: "${NAME}", labels: {a: "${A}"}}, spec: {template: {metadata: {annotations: {a/b: "${A}-${B}-${LIMITED}", "${KEY}": "${{A}}"}}, spec: {hostname: "${A}", domain: {firmware: {kernelBoot: {kernelArgs: "a=${OBJECT}"}}}, volumes: [{cloudInitNoCloud: {userData: "${LIMITED}", networkDataBase64: "${NETWORK}"}}]}}}}`,
			[]string{
				"spec.virtualMachine.spec.template.metadata.annotations[${KEY}]: a parameter chooses the name of the field",
				"spec.virtualMachine.spec.template.metadata.annotations[${KEY}]: no type, enum or pattern limits what users write in this text with A",
				"spec.virtualMachine.spec.template.metadata.annotations[a/b]: no type, enum or pattern limits what users write in this text with A, B",
				"spec.virtualMachine.spec.template.spec.domain.firmware.kernelBoot.kernelArgs: no type, enum or pattern limits what users write in this text with OBJECT",
				"spec.virtualMachine.spec.template.spec.volumes[0].cloudInitNoCloud.networkDataBase64: no type, enum or pattern limits what users write in this text with NETWORK",
			},
		},
		"other types":  {"spec: {template: {spec: {volumes: {containerDisk: {image: a}}}}, instancetype: small}", nil},
		"not an image": {"spec: {template: {spec: {volumes: [{containerDisk: {image: [a]}}]}}}", []string{"spec.virtualMachine.spec.template.spec.volumes[0].containerDisk.image: the tag of an image can move to another image; use a digest: IMAGE@sha256:…"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			spec := specOf(t, tc.vm)
			for _, name := range []string{"NAME", "A", "B", "KEY", "NETWORK"} {
				spec.Parameters = append(spec.Parameters, v1beta1.Parameter{Name: name})
			}
			spec.Parameters = append(spec.Parameters, v1beta1.Parameter{Name: "OBJECT", Type: v1beta1.ParameterObject}, v1beta1.Parameter{Name: "LIMITED", Pattern: "a"})
			for _, u := range templates.FindUncovered(spec) {
				got = append(got, u.Path+": "+u.Reason)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestFindUncoveredBound holds that a review of a large template is bounded.
func TestFindUncoveredBound(t *testing.T) {
	vm := "spec: {template: {spec: {volumes: [" + strings.Repeat("{containerDisk: {image: a}},", 1000) + "]}}}"
	got := templates.FindUncovered(specOf(t, vm))
	if len(got) != 200 {
		t.Errorf("%d entries", len(got))
	}
	if want := "the list is incomplete: the template has more than 198 entries"; got[0].Path != "spec.virtualMachine" || got[0].Reason != want {
		t.Errorf("%+v, not %s", got[0], want)
	}
}

func TestApproved(t *testing.T) {
	keys := &approvals.Keyring{}
	if err := keys.Add(bytes.Repeat([]byte("k"), approvals.KeyBytes)); err != nil {
		t.Fatal(err)
	}
	template := func(change func(*v1beta1.VirtualMachineTemplate)) *v1beta1.VirtualMachineTemplate {
		made := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{UID: types.UID("a"), Generation: 3}, Spec: *specOf(t, "spec: {runStrategy: Halted}")}
		digest, err := templates.Digest(made)
		if err != nil {
			t.Fatal(err)
		}
		made.Status.Approval = &v1beta1.TemplateApproval{Digest: digest, ApprovedBy: "ann"}
		if made.Status.Approval.Signature, err = keys.Sign(made.UID, made.Status.Approval); err != nil {
			t.Fatal(err)
		}
		change(made)
		return made
	}
	for name, tc := range map[string]struct {
		change func(*v1beta1.VirtualMachineTemplate)
		status metav1.ConditionStatus
		reason string
	}{
		"as it is":        {func(*v1beta1.VirtualMachineTemplate) {}, metav1.ConditionTrue, "Approved"},
		"another label":   {func(t *v1beta1.VirtualMachineTemplate) { t.Labels = map[string]string{"a": "b"} }, metav1.ConditionTrue, "Approved"},
		"another message": {func(t *v1beta1.VirtualMachineTemplate) { t.Spec.Message = "hello" }, metav1.ConditionFalse, "Changed"},
		"another default": {func(t *v1beta1.VirtualMachineTemplate) {
			t.Spec.Parameters = []v1beta1.Parameter{{Name: "A", Value: "b"}}
		}, metav1.ConditionFalse, "Changed"},
		"another machine":      {func(v *v1beta1.VirtualMachineTemplate) { v.Spec = *specOf(t, "spec: {runStrategy: Always}") }, metav1.ConditionFalse, "Changed"},
		"created again":        {func(t *v1beta1.VirtualMachineTemplate) { t.UID = "b" }, metav1.ConditionFalse, "SignatureInvalid"},
		"without a signature":  {func(t *v1beta1.VirtualMachineTemplate) { t.Status.Approval.Signature = "" }, metav1.ConditionFalse, "NotSigned"},
		"unsigned and changed": {func(t *v1beta1.VirtualMachineTemplate) { t.Status.Approval.Signature, t.Spec.Message = "", "new" }, metav1.ConditionFalse, "NotSigned"},
		"another approver":     {func(t *v1beta1.VirtualMachineTemplate) { t.Status.Approval.ApprovedBy = "mallory" }, metav1.ConditionFalse, "SignatureInvalid"},
		"the digest of another spec": {func(v *v1beta1.VirtualMachineTemplate) {
			v.Spec = *specOf(t, "spec: {runStrategy: Always}")
			v.Status.Approval.Digest, _ = templates.Digest(v)
		}, metav1.ConditionFalse, "SignatureInvalid"},
		"without any approval": {func(t *v1beta1.VirtualMachineTemplate) { t.Status.Approval = nil }, metav1.ConditionFalse, "NotApproved"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := template(tc.change)
			digest, err := templates.Digest(changed)
			if err != nil {
				t.Fatal(err)
			}
			condition := templates.ApprovalCondition(changed, digest, keys)
			if condition.Status != tc.status || condition.Reason != tc.reason || condition.ObservedGeneration != 3 {
				t.Errorf("condition %+v", condition)
			}
			if again := strings.Contains(condition.Message, "kubectl virtward template approve"); again != (tc.reason == "NotSigned" || tc.reason == "SignatureInvalid") {
				t.Errorf("the message says what to do: %t: %s", again, condition.Message)
			}
		})
	}
}

// TestDigestOfRepeatedKeys holds that an approval covers what is rendered: of a repeated key, both take the last value.
func TestDigestOfRepeatedKeys(t *testing.T) {
	of := func(spec string) (string, string) {
		made := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{UID: "a"}, Spec: v1beta1.VirtualMachineTemplateSpec{
			VirtualMachine: &runtime.RawExtension{Raw: []byte(`{"spec":` + spec + `}`)},
		}}
		digest, err := templates.Digest(made)
		if err != nil {
			t.Fatal(err)
		}
		rendered, findings := templates.Render(&made.Spec, nil, templates.Options{})
		if rendered == nil {
			t.Fatal(findings)
		}
		return digest, string(*rendered.VirtualMachine.Spec.RunStrategy)
	}
	digest, strategy := of(`{"runStrategy":"Always","runStrategy":"Halted"}`)
	last, _ := of(`{"runStrategy":"Halted"}`)
	first, _ := of(`{"runStrategy":"Always"}`)
	if strategy != "Halted" || digest != last || digest == first {
		t.Errorf("%s: digest %s, of the last value %s, of the first %s", strategy, digest, last, first)
	}
}
