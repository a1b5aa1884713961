package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/test/build"
)

// defaultsObject returns a stored VirtualMachineDefaults with a spec in YAML.
func defaultsObject(t testing.TB, name, spec string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatal(err)
	}
	object.Object["spec"] = fields
	object.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind("VirtualMachineDefaults"))
	object.SetName(name)
	return object
}

// siteOf compiles specs. Their names are a, b, c and so on.
func siteOf(t testing.TB, specs ...string) func() *mutators.Site {
	t.Helper()
	var objects []policyv1alpha1.VirtualMachineDefaults
	for i, spec := range specs {
		data, err := yaml.YAMLToJSON([]byte(spec))
		if err != nil {
			t.Fatal(err)
		}
		object := policyv1alpha1.VirtualMachineDefaults{ObjectMeta: metav1.ObjectMeta{Name: string(rune('a' + i))}}
		if err := json.Unmarshal(data, &object.Spec); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	site, notes := mutators.NewSite(objects...)
	if len(notes) > 0 {
		t.Fatal(notes)
	}
	return func() *mutators.Site { return site }
}

const prodDefaults = `{match: {namespaceSelector: {matchLabels: {env: prod}}}, template: {schedulerName: prod, nodeSelector: {"1": a}}}`

func TestSiteDefaultsAreAddedToVMs(t *testing.T) {
	m := newMutator(t)
	live(m.Evaluator).GetSite = siteOf(t, prodDefaults, `{template: {schedulerName: site, tolerations: [{key: vms}]}}`)
	labels, unread := k8slabels.Set(nil), error(nil)
	live(m.Evaluator).GetNamespaceLabels = func(_ context.Context, name string) (k8slabels.Set, error) {
		if name != "default" {
			t.Errorf("the labels of %q are read", name)
		}
		return labels, unread
	}
	type filled struct {
		SchedulerName string
		NodeSelector  map[string]string
		Tolerations   []map[string]string
	}
	give := func() (filled, *admissionv1.AdmissionResponse) {
		t.Helper()
		vm := build.VM("db").Obj()
		response := answerOf(t, m, reviewOf(t, apikinds.VirtualMachine, vm))
		original, err := json.Marshal(vm)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Spec struct{ Template struct{ Spec filled } }
		}
		if response.Patch == nil {
			return filled{}, response
		}
		if err := json.Unmarshal(apply(t, original, response.Patch), &got); err != nil {
			t.Fatal(err)
		}
		return got.Spec.Template.Spec, response
	}

	got, response := give()
	if diff := cmp.Diff(filled{SchedulerName: "site", Tolerations: []map[string]string{{"key": "vms"}}}, got); diff != "" {
		t.Errorf("in a namespace without labels (-want +got):\n%s", diff)
	}
	if layers := response.AuditAnnotations["layers"]; layers != "site/b,base,amd64" {
		t.Errorf("layers %q", layers)
	}
	labels = k8slabels.Set{"env": "prod"}
	got, response = give()
	if diff := cmp.Diff(filled{SchedulerName: "prod", NodeSelector: map[string]string{"1": "a"}, Tolerations: []map[string]string{{"key": "vms"}}}, got); diff != "" {
		t.Errorf("in production (-want +got):\n%s", diff)
	}
	if layers := response.AuditAnnotations["layers"]; layers != "site/a,site/b,base,amd64" {
		t.Errorf("layers %q", layers)
	}
	unread = errors.New("no connection")
	_, response = give()
	want := []string{"virtward could not complete this object: reading the labels of namespace default: no connection"}
	if diff := cmp.Diff(want, response.Warnings); !response.Allowed || diff != "" || response.Patch != nil {
		t.Errorf("with labels that cannot be read: allowed %v, patched %v, warnings (-want +got):\n%s", response.Allowed, response.Patch != nil, diff)
	}
}

func TestVMIWithoutSiteDefaultsIsRejected(t *testing.T) {
	v := newValidator(t)
	vmi := completed(t, build.VMI("db").Obj())
	if response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachineInstance, vmi)); !response.Allowed {
		t.Fatalf("without a site it is rejected: %q", complaints(response))
	}
	live(v.Evaluator).GetSite = siteOf(t, prodDefaults)
	if response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachineInstance, vmi)); !response.Allowed {
		t.Errorf("rejected in a namespace without defaults: %q", complaints(response))
	}
	live(v.Evaluator).GetNamespaceLabels = func(context.Context, string) (k8slabels.Set, error) { return k8slabels.Set{"env": "prod"}, nil }
	response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachineInstance, vmi))
	got := complaints(response)
	if response.Allowed || len(got) != 2 || !strings.Contains(got[1], "spec.schedulerName") || !strings.Contains(got[1], "the layer site/a sets this field, but the request does not have it [virtward/vmi-complete]") {
		t.Errorf("allowed %v, %q", response.Allowed, got)
	}

	yes := true
	vmi.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubevirt.io/v1", Kind: apikinds.VirtualMachine, Name: "db", UID: "1", Controller: &yes}}
	vmi.Spec.SchedulerName = "prod"
	if response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachineInstance, vmi)); !response.Allowed {
		t.Errorf("that of a VM is rejected for want of a nodeSelector: %q", complaints(response))
	}
	live(v.Evaluator).GetNamespaceLabels = func(context.Context, string) (k8slabels.Set, error) { return nil, errors.New("no connection") }
	response = evaluated(t, v, reviewOf(t, apikinds.VirtualMachineInstance, vmi))
	if response.Allowed || response.Result.Code != 503 || !strings.HasSuffix(response.Result.Message, "reading the labels of namespace default: no connection") {
		t.Errorf("with labels that cannot be read: %+v", response)
	}
}

func TestInvalidSiteDefaultsAreRejected(t *testing.T) {
	v := newValidator(t)
	request := func(r *admissionv1.AdmissionRequest) {
		r.Kind.Group, r.Kind.Version, r.Namespace = "policy.virtward.io", "v1alpha1", ""
	}
	for name, test := range map[string]struct {
		spec string
		want []string
	}{
		"valid": {spec: prodDefaults},
		"an unknown field": {`{template: {domain: {devices: {rgn: {}}}}}`, []string{
			"spec.template.domain.devices.rgn: Invalid value: there is no such field in the spec of a virtual machine instance [virtward/site-defaults]",
		}},
		"what the checks reject": {`{match: {hypervisors: [kvm]}, template: {domain: {firmware: {bootloader: {bios: {}}}}}}`, []string{
			"spec.template.domain.firmware.bootloader.bios: Invalid value: the rule arm64-bios rejects a virtual machine that gets this on kvm/arm64: ",
		}},
		"what cannot be decoded": {`{match: [], template: {}}`, []string{"spec: Invalid value: "}},
	} {
		t.Run(name, func(t *testing.T) {
			response := evaluated(t, v, reviewOf(t, "VirtualMachineDefaults", defaultsObject(t, "a", test.spec), request))
			got := complaints(response)
			if response.Allowed != (len(test.want) == 0) || len(got) != len(test.want) {
				t.Fatalf("allowed %v, %q", response.Allowed, got)
			}
			for i := range test.want {
				if !strings.Contains(strings.ReplaceAll(got[i], "\n", " "), test.want[i]) {
					t.Errorf("want %q, got %q", test.want[i], got[i])
				}
			}
		})
	}
}

// TestPatchWithSiteDefaults applies the patches of every conformance case with defaults for nearly all fields.
func TestPatchWithSiteDefaults(t *testing.T) {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	pipeline, facts := effective.NewPipeline(registry), platform.Defaults(platform.Settings{})
	site := siteOf(t,
		`template: {nodeSelector: {"1": a}, tolerations: [{key: vms}, {}], domain: {cpu: {features: [{name: a}]}, features: {hyperv: {evmcs: {}}}, resources: {limits: {cpu: "1", "example.com/x": "1"}}, memory: {maxGuest: 4Gi}}}`,
		`template: {nodeSelector: {"1": b, zone: c}, volumes: [{name: x, emptyDisk: {capacity: 1Gi}}, {name: z, containerDisk: {image: i}}], domain: {devices: {disks: [{name: x}], inputs: [{name: i, type: tablet}], tpm: {}, rng: {}, watchdog: {name: w, i6300esb: {}}}}}`,
	)().For(nil)
	filled := 0
	for i, written := range writtenVMIs(t) {
		var vmi v1.VirtualMachineInstance
		if err := json.Unmarshal(written, &vmi); err != nil {
			continue
		}
		verdict, err := pipeline.Complete(effective.Input{VMI: &vmi, Facts: facts, Site: site})
		if err != nil {
			t.Fatal(err)
		}
		patch, err := Patch(written, verdict.Persist)
		if err != nil {
			t.Fatal(err)
		}
		var got v1.VirtualMachineInstance
		if err := json.Unmarshal(apply(t, written, patch), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(encoded(t, verdict.VMI), encoded(t, &got)); diff != "" {
			t.Errorf("case %d: patched and completed differ (-completed +patched):\n%s", i, diff)
		}
		if got.Spec.NodeSelector["zone"] != "" {
			filled++
		}
	}
	if filled < 1000 {
		t.Errorf("only %d cases were filled", filled)
	}
}
