package templates

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/validators"
)

func TestSources(t *testing.T) {
	vm := &kubevirtv1.VirtualMachine{}
	if err := yaml.UnmarshalStrict([]byte(`
spec:
  dataVolumeTemplates:
  - {metadata: {name: a}, spec: {sourceRef: {kind: DataSource, name: linux}}}
  - {metadata: {name: b}, spec: {sourceRef: {kind: DataSource, namespace: images, name: linux}}}
  - {metadata: {name: c}, spec: {source: {pvc: {namespace: images, name: disk}}}}
  - {metadata: {name: d}, spec: {source: {snapshot: {namespace: images, name: disk}}}}
  - {metadata: {name: e}, spec: {source: {http: {url: "https://example.com"}}}}
  template:
    spec:
      domain: {devices: {}}
      volumes:
      - {name: v, dataVolume: {name: a}}
      - {name: w, dataVolume: {name: other}}
      - {name: x, persistentVolumeClaim: {claimName: claim}}
      - {name: "y", ephemeral: {persistentVolumeClaim: {claimName: base}}}
      - {name: z, containerDisk: {image: "example.com/linux:1"}}
`), vm); err != nil {
		t.Fatal(err)
	}
	name := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	want := []source{
		{"a", apikinds.DataSources, name("catalogue", "linux"), false},
		{"b", apikinds.DataSources, name("images", "linux"), true},
		{"c", apikinds.PersistentVolumeClaims, name("images", "disk"), false},
		{"d", apikinds.VolumeSnapshots, name("images", "disk"), false},
		{"w", apikinds.DataVolumes, name("catalogue", "other"), false},
		{"x", apikinds.PersistentVolumeClaims, name("catalogue", "claim"), true},
		{"y", apikinds.PersistentVolumeClaims, name("catalogue", "base"), false},
	}
	got := sourcesOf(vm, "catalogue", []string{"spec.dataVolumeTemplates[1].spec.sourceRef.name", "spec.template.spec.volumes[2].persistentVolumeClaim.claimName", "spec.template.spec.volumes[20].name"})
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(source{})); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
}

func TestReady(t *testing.T) {
	deny := validators.Finding{Rule: "r", Severity: validators.Deny, Error: field.Invalid(field.NewPath("spec", "virtualMachine"), "x", "it is wrong")}
	warn := deny
	warn.Severity = validators.Warn
	missing := effective.Reference{Field: "spec.instancetype", Kind: "VirtualMachineClusterInstancetype", Name: "small", State: effective.Missing}
	away := evidence{source: source{volume: "root"}, status: metav1.ConditionFalse, reason: v1beta1.ReasonVolumeMissing, message: "DataSource images/linux does not exist"}
	unknown := evidence{source: source{volume: "root"}, status: metav1.ConditionUnknown, reason: v1beta1.ReasonVolumeUnknown}
	required := []v1beta1.Parameter{{Name: "NAME", Required: true}, {Name: "SIZE", Required: true, Value: "1Gi"}}
	for name, s := range map[string]struct {
		found      found
		parameters []v1beta1.Parameter
		status     metav1.ConditionStatus
		reason     string
		text       string
	}{
		"ready":      {found{rendered: true, findings: []validators.Finding{warn}}, nil, metav1.ConditionTrue, v1beta1.ReasonTemplateReady, "can be made"},
		"required":   {found{rendered: true, volumes: []evidence{unknown}}, required, metav1.ConditionTrue, v1beta1.ReasonTemplateReady, "depends on required parameters: NAME"},
		"invalid":    {found{findings: []validators.Finding{deny}}, nil, metav1.ConditionFalse, v1beta1.ReasonInvalid, "it is wrong"},
		"denied":     {found{rendered: true, findings: []validators.Finding{deny}, references: []effective.Reference{missing}}, nil, metav1.ConditionFalse, v1beta1.ReasonDenied, "spec.virtualMachine"},
		"references": {found{rendered: true, references: []effective.Reference{missing}, volumes: []evidence{away}}, nil, metav1.ConditionFalse, v1beta1.ReasonReferenceMissing, "small"},
		"volumes":    {found{rendered: true, volumes: []evidence{unknown, away}}, nil, metav1.ConditionFalse, v1beta1.ReasonVolumeNotReady, "volume root: DataSource images/linux does not exist"},
	} {
		c := s.found.ready(&v1beta1.VirtualMachineTemplateSpec{Parameters: s.parameters})
		if c.Status != s.status || c.Reason != s.reason || !strings.Contains(c.Message, s.text) {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// Transition times change with the status only, and an approval is not touched.
func TestPartKeepsTimes(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	template := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
	f := &found{rendered: true, volumes: []evidence{{source: source{volume: "root", kind: apikinds.DataSources}, status: metav1.ConditionTrue, reason: v1beta1.ReasonVolumeReady}}}
	first := f.part(template, at)
	template.Status = *first
	meta.SetStatusCondition(&template.Status.Conditions, metav1.Condition{Type: v1beta1.TemplateApproved, Status: metav1.ConditionTrue, Reason: "Approved"})
	if diff := cmp.Diff(first, f.part(template, at.Add(time.Hour))); diff != "" {
		t.Errorf("without a change (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(first, own(&template.Status)); diff != "" {
		t.Errorf("the own part (-want +got):\n%s", diff)
	}
	f.volumes[0].status = metav1.ConditionFalse
	later := f.part(template, at.Add(time.Hour))
	if !later.Conditions[0].LastTransitionTime.After(at) || !later.Volumes[0].Conditions[0].LastTransitionTime.After(at) || len(later.Conditions) != 1 {
		t.Errorf("after a change: %+v", later)
	}
}

// TestNames: an object that another one refers to is named only if both are in the namespace of the template.
func TestNames(t *testing.T) {
	name := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	first := func(kind apikinds.Resource, namespace string) *evidence {
		return &evidence{source: source{kind: kind, NamespacedName: name(namespace, "linux")}}
	}
	for what, test := range map[string]struct {
		from *evidence
		to   []source
		want string
	}{
		"what the template names":             {first(apikinds.DataSources, "images"), nil, "DataSource images/linux"},
		"a claim of the template":             {first(apikinds.DataSources, "catalogue"), []source{{kind: apikinds.PersistentVolumeClaims, NamespacedName: name("catalogue", "disk")}}, "PersistentVolumeClaim catalogue/disk"},
		"a claim of another namespace":        {first(apikinds.DataSources, "images"), []source{{kind: apikinds.PersistentVolumeClaims, NamespacedName: name("images", "secret")}}, "the object that DataSource images/linux refers to"},
		"a snapshot of a third namespace":     {first(apikinds.DataSources, "images"), []source{{kind: apikinds.VolumeSnapshots, NamespacedName: name("vault", "secret")}}, "the object that DataSource images/linux refers to"},
		"from the own into another one":       {first(apikinds.DataSources, "catalogue"), []source{{kind: apikinds.PersistentVolumeClaims, NamespacedName: name("images", "secret")}}, "the object that DataSource catalogue/linux refers to"},
		"from another one back":               {first(apikinds.DataSources, "images"), []source{{kind: apikinds.DataSources, NamespacedName: name("catalogue", "secret")}}, "the object that DataSource images/linux refers to"},
		"a pointer to a pointer":              {first(apikinds.DataSources, "images"), []source{{kind: apikinds.DataSources, NamespacedName: name("images", "secret")}, {kind: apikinds.PersistentVolumeClaims, NamespacedName: name("images", "secret")}}, "the object that DataSource images/linux refers to"},
		"a pointer to a pointer of its own":   {first(apikinds.DataSources, "catalogue"), []source{{kind: apikinds.DataSources, NamespacedName: name("catalogue", "a")}, {kind: apikinds.VolumeSnapshots, NamespacedName: name("catalogue", "b")}}, "VolumeSnapshot catalogue/b"},
		"a pointer of its own to another one": {first(apikinds.DataSources, "catalogue"), []source{{kind: apikinds.DataSources, NamespacedName: name("catalogue", "a")}, {kind: apikinds.VolumeSnapshots, NamespacedName: name("vault", "secret")}}, "the object that DataSource catalogue/a refers to"},
	} {
		e := test.from
		for i := range test.to {
			e = e.behind(&test.to[i], "catalogue")
		}
		if got := e.name(); got != test.want {
			t.Errorf("%s: %q, want %q", what, got, test.want)
		}
	}
}
