package variants

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/goldenimages"
)

// template is a VM template of fedora. changes replace texts of its VirtualMachine.
func template(t *testing.T, changes ...string) *v1beta1.VirtualMachineTemplate {
	t.Helper()
	const vm = `
metadata: {name: "${NAME}"}
spec:
  runStrategy: Halted
  preference: {name: fedora}
  dataVolumeTemplates:
  - metadata: {name: "${NAME}"}
    spec: {sourceRef: {kind: DataSource, name: "${IMAGE}", namespace: "${IMAGES}"}}
  - metadata: {name: data}
    spec: {sourceRef: {kind: DataSource, name: empty, namespace: images}}
  template: {spec: {architecture: amd64, terminationGracePeriodSeconds: 9007199254740993, domain: {devices: {}}}}`
	raw, err := yaml.YAMLToJSON([]byte(strings.NewReplacer(changes...).Replace(vm)))
	if err != nil {
		t.Fatal(err)
	}
	source := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "fedora", UID: "1", Labels: map[string]string{
		v1alpha1.PerArchitectureLabel: "fedora", "team": "a", "app.kubernetes.io/instance": "argo", "helm.sh/chart": "x", v1beta1.LabelRequestUID: "r", commonArchitecture: "amd64",
	}, Annotations: map[string]string{"description": "Fedora", v1alpha1.PreferencesAnnotation: "s390x=fedora.s390x, arm64=fedora.arm64", "kubectl.kubernetes.io/last-applied-configuration": "{}"}}}
	source.Spec.VirtualMachine = &runtime.RawExtension{Raw: raw}
	source.Spec.Message = "${NAME}"
	source.Spec.Parameters = []v1beta1.Parameter{{Name: "NAME", Required: true}, {Name: "IMAGE", Value: "fedora", Enum: []string{"fedora", "rawhide"}}, {Name: "IMAGES", Value: "images"}, {Name: "ARCH", Value: "amd64"}}
	return source
}

// importing is a catalog whose images are imported for architectures.
func importing(reason string, architectures ...string) []v1alpha1.GoldenImageCatalog {
	c := v1alpha1.GoldenImageCatalog{}
	c.Spec.Namespace = "images"
	c.Spec.DataImportCronTemplates = []v1alpha1.DataImportCronTemplate{{ObjectMeta: metav1.ObjectMeta{Name: "fedora-cron"}, Spec: &cdiv1beta1.DataImportCronSpec{ManagedDataSource: "fedora"}}}
	if reason == "new" {
		return []v1alpha1.GoldenImageCatalog{c}
	}
	image := v1alpha1.Image{Name: "fedora-cron", DataSource: "fedora"}
	for _, a := range architectures {
		image.Imports = append(image.Imports, v1alpha1.Import{Architecture: a})
	}
	status := metav1.ConditionFalse
	if reason == goldenimages.ReasonDeployed {
		status = metav1.ConditionTrue
	}
	image.Conditions = []metav1.Condition{{Type: goldenimages.Deployed, Status: status, Reason: reason}}
	c.Status.Images = []v1alpha1.Image{image}
	return []v1alpha1.GoldenImageCatalog{c}
}

// steps has a line for each write and each fault.
func steps(v Variants, existing map[string]*v1beta1.VirtualMachineTemplate) []string {
	var lines []string
	if v.Fault != nil {
		lines = append(lines, v.Fault.Reason)
	}
	for _, architecture := range architectures.Names() {
		write, fault := v.Plan(architecture, existing[architecture])
		if fault != nil {
			lines = append(lines, fault.Reason+" "+architecture)
		}
		if write != nil {
			lines = append(lines, string(write.Verb)+" "+write.Object.Name)
		}
	}
	return lines
}

// made are the variants of a template as the API server stores them.
func made(t *testing.T, source *v1beta1.VirtualMachineTemplate, architectures ...string) map[string]*v1beta1.VirtualMachineTemplate {
	t.Helper()
	v := Of(source, importing(goldenimages.ReasonDeployed, architectures...))
	all := map[string]*v1beta1.VirtualMachineTemplate{}
	for _, a := range architectures {
		write, fault := v.Plan(a, nil)
		if fault != nil {
			t.Fatal(fault)
		}
		all[a] = write.Object
	}
	return all
}

func TestVariants(t *testing.T) {
	source := template(t)
	both := made(t, source, "amd64", "arm64")
	edited := made(t, source, "amd64", "arm64")
	edited["arm64"].Spec.Message = "other"
	unlabeled := made(t, source, "amd64", "arm64")
	delete(unlabeled["amd64"].Labels, v1alpha1.ArchitectureLabel)
	foreign := made(t, source, "arm64")
	foreign["arm64"].OwnerReferences = nil
	forged := made(t, source, "arm64")
	forged["arm64"].OwnerReferences[0].UID = "2"
	plain := template(t)
	delete(plain.Labels, v1alpha1.PerArchitectureLabel)
	variant := template(t)
	variant.Labels[v1alpha1.VariantLabel] = "true"
	other := template(t)
	other.Labels[v1alpha1.PerArchitectureLabel] = "debian"
	long := template(t)
	long.Name = strings.Repeat("n", 250)
	elsewhere := template(t, "${IMAGES}", "elsewhere")
	here := template(t, `namespace: "${IMAGES}"`, `namespace: ""`)
	here.Namespace = "images"
	for name, test := range map[string]struct {
		source   *v1beta1.VirtualMachineTemplate
		catalogs []v1alpha1.GoldenImageCatalog
		existing map[string]*v1beta1.VirtualMachineTemplate
		want     []string
	}{
		"two architectures":                      {source, importing(goldenimages.ReasonDeployed, "amd64", "arm64"), nil, []string{"create fedora-amd64", "create fedora-arm64"}},
		"nothing changes":                        {source, importing(goldenimages.ReasonDeployed, "amd64", "arm64"), both, nil},
		"another architecture":                   {source, importing(goldenimages.ReasonDeployed, "amd64", "arm64", "s390x"), both, []string{"create fedora-s390x"}},
		"an architecture is gone":                {source, importing(goldenimages.ReasonDeployed, "arm64"), both, []string{"delete fedora-amd64"}},
		"an edited variant":                      {source, importing(goldenimages.ReasonDeployed, "amd64", "arm64"), edited, []string{"update fedora-arm64"}},
		"a variant without a label":              {source, importing(goldenimages.ReasonDeployed, "amd64", "arm64"), unlabeled, []string{"update fedora-amd64"}},
		"the template changes":                   {template(t, "Halted", "Always"), importing(goldenimages.ReasonDeployed, "amd64", "arm64"), both, []string{"update fedora-amd64", "update fedora-arm64"}},
		"a template of that name":                {source, importing(goldenimages.ReasonDeployed, "amd64", "arm64"), foreign, []string{"create fedora-amd64", "NameTaken arm64"}},
		"one of an earlier template":             {source, importing(goldenimages.ReasonDeployed, "arm64"), forged, []string{"NameTaken arm64"}},
		"a template of that name, not needed":    {source, importing(goldenimages.ReasonDeployed, "amd64"), foreign, []string{"create fedora-amd64"}},
		"the label is removed":                   {plain, importing(goldenimages.ReasonDeployed, "amd64", "arm64"), both, []string{"delete fedora-amd64", "delete fedora-arm64"}},
		"a variant has the label":                {variant, importing(goldenimages.ReasonDeployed, "amd64"), nil, nil},
		"a label of another image":               {other, importing(goldenimages.ReasonDeployed, "amd64"), both, []string{"NoDataSource", "delete fedora-amd64", "delete fedora-arm64"}},
		"no catalog":                             {source, nil, both, []string{"NoImage", "delete fedora-amd64", "delete fedora-arm64"}},
		"an image of another namespace":          {elsewhere, importing(goldenimages.ReasonDeployed, "amd64"), nil, []string{"NoImage"}},
		"an image of the template's namespace":   {here, importing(goldenimages.ReasonDeployed, "amd64"), nil, []string{"create fedora-amd64"}},
		"a catalog that is not planned yet":      {source, importing("new"), both, nil},
		"an image whose imports are kept":        {source, importing(goldenimages.ReasonNameTaken), both, nil},
		"an image that is imported once":         {source, importing(goldenimages.ReasonDeployed, ""), both, []string{"delete fedora-amd64", "delete fedora-arm64"}},
		"an image that is disabled":              {source, importing(goldenimages.ReasonDisabled), both, []string{"delete fedora-amd64", "delete fedora-arm64"}},
		"no node has an architecture of it":      {source, importing(goldenimages.ReasonUnsupported), both, []string{"delete fedora-amd64", "delete fedora-arm64"}},
		"a name that is too long":                {long, importing(goldenimages.ReasonDeployed, "amd64"), nil, []string{"VariantInvalid amd64"}},
		"a VirtualMachine that is not an object": {broken(source, `[]`), importing(goldenimages.ReasonDeployed, "amd64"), both, []string{"Unreadable"}},
		"one that is nested too deeply":          {broken(source, strings.Repeat(`{"a":`, 10_000)+"1"+strings.Repeat("}", 10_000)), importing(goldenimages.ReasonDeployed, "amd64"), both, []string{"Unreadable"}},
		"none":                                   {broken(source, ""), importing(goldenimages.ReasonDeployed, "amd64"), nil, []string{"Unreadable"}},
		"a VirtualMachine without volumes":       {broken(source, `{"spec":{"dataVolumeTemplates":{"a":1}}}`), importing(goldenimages.ReasonDeployed, "amd64"), nil, []string{"NoDataSource"}},
	} {
		if diff := cmp.Diff(test.want, steps(Of(test.source, test.catalogs), test.existing)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func broken(source *v1beta1.VirtualMachineTemplate, raw string) *v1beta1.VirtualMachineTemplate {
	changed := source.DeepCopy()
	changed.Spec.VirtualMachine = &runtime.RawExtension{Raw: []byte(raw)}
	return changed
}

// TestVariantContent compares what a variant has with what it should have. The template itself does not change.
func TestVariantContent(t *testing.T) {
	source := template(t)
	before := source.DeepCopy()
	got := made(t, source, "amd64", "arm64")["arm64"]
	wantLabels := map[string]string{
		"team": "a", commonArchitecture: "arm64", v1alpha1.VariantLabel: "true", v1alpha1.ArchitectureLabel: "arm64", v1alpha1.DataSourceNameLabel: "fedora", "app.kubernetes.io/managed-by": "virtward",
	}
	for what, diff := range map[string]string{
		"labels":       cmp.Diff(wantLabels, got.Labels),
		"annotations":  cmp.Diff(map[string]string{"description": "Fedora (arm64)"}, got.Annotations),
		"parameters":   cmp.Diff([]v1beta1.Parameter{{Name: "NAME", Required: true}, {Name: "IMAGE", Value: "fedora-arm64", Enum: []string{"fedora-arm64", "rawhide"}}, {Name: "IMAGES", Value: "images"}, {Name: "ARCH", Value: "amd64"}}, got.Spec.Parameters),
		"owners":       cmp.Diff([]metav1.OwnerReference{*metav1.NewControllerRef(source, v1beta1.GroupVersion.WithKind("VirtualMachineTemplate"))}, got.OwnerReferences),
		"the template": cmp.Diff(before, source),
	} {
		if diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	want := template(t, "architecture: amd64", "architecture: arm64", "preference: {name: fedora}", "preference: {name: fedora.arm64}")
	if want.Spec.Message != got.Spec.Message || !same(want, &v1beta1.VirtualMachineTemplate{Spec: v1beta1.VirtualMachineTemplateSpec{VirtualMachine: got.Spec.VirtualMachine, Parameters: want.Spec.Parameters, Message: want.Spec.Message}}) {
		t.Errorf("the VirtualMachine: %s", got.Spec.VirtualMachine.Raw)
	}
	if !strings.Contains(string(got.Spec.VirtualMachine.Raw), "9007199254740993") {
		t.Errorf("an integer lost digits: %s", got.Spec.VirtualMachine.Raw)
	}

	literal := made(t, template(t, "${IMAGE}", "fedora", "architecture: amd64", `architecture: "${{ARCH}}"`), "s390x")["s390x"]
	if text := string(literal.Spec.VirtualMachine.Raw); !strings.Contains(text, `"name":"fedora-s390x","namespace":"${IMAGES}"`) || !strings.Contains(text, `"architecture":"${{ARCH}}"`) || literal.Spec.Parameters[3].Value != "s390x" {
		t.Errorf("a name without a parameter, and an architecture with one: %s %+v", text, literal.Spec.Parameters)
	}
}

func TestSourceName(t *testing.T) {
	for _, name := range []string{"fedora", "fedora-server", "a-arm64"} {
		for _, architecture := range architectures.Names() {
			if got := SourceName(Name(name, architecture)); got != name {
				t.Errorf("%s-%s is of %s", name, architecture, got)
			}
		}
	}
	if got := SourceName("fedora"); got != "fedora" {
		t.Error(got)
	}
}

func FuzzVariants(f *testing.F) {
	f.Add(`{"spec":{"dataVolumeTemplates":[{"spec":{"sourceRef":{"kind":"datasource","name":"${A}"}}}],"template":{"spec":{"architecture":7}}}}`, "A", "fedora", "arm64=x,=,")
	f.Add(`{"spec":{"dataVolumeTemplates":[null,{"spec":[]}],"preference":null}}`, "", "${A}", "=")
	f.Fuzz(func(t *testing.T, vm, parameter, value, preferences string) {
		source := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "images", Name: "x", Labels: map[string]string{v1alpha1.PerArchitectureLabel: "fedora"}, Annotations: map[string]string{v1alpha1.PreferencesAnnotation: preferences}}}
		source.Spec.VirtualMachine = &runtime.RawExtension{Raw: []byte(vm)}
		source.Spec.Parameters = []v1beta1.Parameter{{Name: parameter, Value: value}}
		v := Of(source, importing(goldenimages.ReasonDeployed, "arm64"))
		write, _ := v.Plan("arm64", nil)
		if write == nil {
			return
		}
		if again, fault := v.Plan("arm64", write.Object); again != nil || fault != nil {
			t.Errorf("a second plan: %+v %+v", again, fault)
		}
	})
}

func TestPreferenceOfAnArchitecture(t *testing.T) {
	source := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.PreferencesAnnotation: "amd64=a, arm64/v8=b"}}}
	if got := preferenceOf(source, "arm64"); got != "b" {
		t.Errorf("the preference of arm64: %q", got)
	}
}
