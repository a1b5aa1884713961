package commontemplates

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/architectures"
	imagev1alpha1 "github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/templates/variants"
	"github.com/virtward/virtward/test/catalog"
	"github.com/virtward/virtward/test/chart/helm"
)

const commonTemplates = "charts/virtward-common-templates"

// commonObjects renders the chart of common templates, and decodes strictly.
func commonObjects(t *testing.T, args ...string) (found []v1beta1.VirtualMachineTemplate, roles []rbacv1.Role, bindings []rbacv1.RoleBinding) {
	t.Helper()
	output, err := helm.Run(t, append([]string{"template", "catalogue", commonTemplates, "--namespace", "templates"}, args...)...)
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(output))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return found, roles, bindings
		}
		if err != nil {
			t.Fatal(err)
		}
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatal(err)
		}
		switch kind.Kind {
		case apikinds.VirtualMachineTemplate:
			found = append(found, strictly[v1beta1.VirtualMachineTemplate](t, document))
		case "Role":
			roles = append(roles, strictly[rbacv1.Role](t, document))
		case "RoleBinding":
			bindings = append(bindings, strictly[rbacv1.RoleBinding](t, document))
		case "":
		default:
			t.Errorf("the chart has a %s", kind.Kind)
		}
	}
}

func strictly[T any](t *testing.T, document []byte) (object T) {
	t.Helper()
	if err := yaml.UnmarshalStrict(document, &object); err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
	return object
}

// commonPresets are the instancetypes and the preferences of kubevirt/common-instancetypes.
func commonPresets(t *testing.T) *references.Memory {
	t.Helper()
	presets, err := catalog.Presets()
	if err != nil {
		t.Fatal(err)
	}
	objects := make([]*unstructured.Unstructured, len(presets))
	for i, preset := range presets {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(preset)
		if err != nil {
			t.Fatal(err)
		}
		objects[i] = &unstructured.Unstructured{Object: fields}
	}
	memory, err := references.NewMemory("templates", objects...)
	if err != nil {
		t.Fatal(err)
	}
	return memory
}

// freshInstall evaluates objects without settings, with the presets of kubevirt/common-instancetypes.
func freshInstall(t *testing.T) *evaluator.Snapshot {
	t.Helper()
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	facts := platform.Defaults(platform.Settings{})
	snapshot, err := evaluator.New(effective.NewPipeline(registry), commonPresets(t), &evaluator.Live{GetFacts: func() *platform.Facts { return facts }}).Snapshot(time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

// evaluateTemplate evaluates the VM that a template makes with its defaults.
func evaluateTemplate(t *testing.T, snapshot *evaluator.Snapshot, template *v1beta1.VirtualMachineTemplate) *evaluator.Result {
	t.Helper()
	raw, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	result, err := snapshot.EvaluateMade(t.Context(), evaluator.Request{
		Object: raw, Kind: metav1.GroupVersionKind(apikinds.Templates.GroupVersionKind), Resource: metav1.GroupVersionResource(apikinds.Templates.GroupVersionResource()), Namespace: "templates",
	})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// evaluateCommon evaluates a common template or its variant, whose VM must be allowed on an architecture without a finding or a
// warning.
func evaluateCommon(t *testing.T, snapshot *evaluator.Snapshot, template *v1beta1.VirtualMachineTemplate, architecture string) {
	t.Helper()
	result := evaluateTemplate(t, snapshot, template)
	for i := range result.Findings {
		t.Errorf("%s: %s", template.Name, result.Findings[i].Message())
	}
	if len(result.Warnings) > 0 || result.Verdict == nil || result.Verdict.Architecture != architecture || len(result.References) != 2 {
		t.Fatalf("%s on %s: warnings %q, references %v", template.Name, architecture, result.Warnings, result.References)
	}
	for i := range result.References {
		if result.References[i].State != effective.Found {
			t.Errorf("%s: %v", template.Name, result.References[i])
		}
	}
	if bus := result.Verdict.Spec.Domain.Devices.Disks[0].Disk.Bus; bus != kubevirtv1.DiskBusVirtio {
		t.Errorf("%s: the disk has the bus %s", template.Name, bus)
	}
}

// Every template renders with its defaults on every architecture that it claims, and its VM is allowed without a finding.
func TestCommonTemplates(t *testing.T) {
	found, _, _ := commonObjects(t, "--set", "architectures={amd64,arm64,s390x}")
	if len(found) != 21 {
		t.Errorf("%d templates", len(found))
	}
	snapshot := freshInstall(t)
	for i := range found {
		template := &found[i]
		t.Run(template.Name, func(t *testing.T) {
			rendered, findings := templates.Render(&template.Spec, nil, templates.Options{Random: rand.New(rand.NewPCG(1, 2)), Approved: true}) //nolint:gosec // a test
			if rendered == nil || len(findings) > 0 {
				t.Fatal(findings)
			}
			architecture := rendered.VirtualMachine.Spec.Template.Spec.Architecture
			if architecture != template.Labels["template.virtward.io/architecture"] || strings.HasSuffix(template.Name, "-"+architecture) != (architecture != "amd64") {
				t.Errorf("architecture %s, labels %v", architecture, template.Labels)
			}
			evaluateCommon(t, snapshot, template, architecture)
		})
	}
}

// The presets have the requirements of their releases, so an instancetype that is too small is found.
func TestCommonTemplatesWithATooSmallInstancetype(t *testing.T) {
	found, _, _ := commonObjects(t, "--set", "families.windows11.instancetype=u1.medium")
	snapshot := freshInstall(t)
	var denied []string
	for i := range found {
		result := evaluateTemplate(t, snapshot, &found[i])
		for j := range result.Findings {
			denied = append(denied, found[i].Name+": "+result.Findings[j].Message())
		}
	}
	if diff := cmp.Diff([]string{
		"windows11: Not found: \"u1.medium\": preference \"windows.11.virtio\" requires 2 vCPUs, the instancetype provides 1 [virtward/preference-requirements] Choose a larger instancetype, or give the VM what the message names.",
	}, denied); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// With the value, each family has one template, of which Virtward makes variants with the preferences of the family.
func TestCommonTemplatesPerArchitecture(t *testing.T) {
	found, _, _ := commonObjects(t, "--set", "architectures={arm64,amd64,s390x}", "--set", "perArchitecture=true")
	if len(found) != 15 {
		t.Errorf("%d templates, want one of each family", len(found))
	}
	catalog := imagev1alpha1.GoldenImageCatalog{Spec: imagev1alpha1.GoldenImageCatalogSpec{Namespace: "kubevirt-os-images"}}
	for i := range found {
		source := found[i].Labels[imagev1alpha1.PerArchitectureLabel]
		of := imagev1alpha1.Image{Name: source + "-cron", DataSource: source}
		for _, architecture := range architectures.Names() {
			of.Imports = append(of.Imports, imagev1alpha1.Import{Architecture: architecture})
		}
		catalog.Status.Images = append(catalog.Status.Images, of)
	}
	preferences, snapshot := map[string]string{}, freshInstall(t)
	for i := range found {
		preferences[found[i].Name] = preferenceOf(t, &found[i])
		planned := variants.Of(&found[i], []imagev1alpha1.GoldenImageCatalog{catalog})
		if planned.Fault != nil || len(planned.Architectures) != len(architectures.Names()) {
			t.Errorf("%s: %v, %+v", found[i].Name, planned.Architectures, planned.Fault)
			continue
		}
		for _, architecture := range planned.Architectures {
			write, fault := planned.Plan(architecture, nil)
			if fault != nil {
				t.Fatalf("%s: %+v", found[i].Name, fault)
			}
			preferences[write.Object.Name] = preferenceOf(t, write.Object)
			evaluateCommon(t, snapshot, write.Object, architecture)
		}
	}
	for name, want := range map[string]string{
		"fedora": "fedora.arm64", "fedora-amd64": "fedora", "fedora-arm64": "fedora.arm64", "fedora-s390x": "fedora.s390x", "rhel9-s390x": "rhel.9.s390x", "rhel10-s390x": "rhel.10.s390x", "debian": "debian", "windows11-amd64": "windows.11.virtio",
	} {
		if preferences[name] != want {
			t.Errorf("%s has the preference %q, not %q", name, preferences[name], want)
		}
	}
}

// preferenceOf is the preference of the VM of a template.
func preferenceOf(t *testing.T, template *v1beta1.VirtualMachineTemplate) string {
	t.Helper()
	vm := struct {
		Spec struct{ Preference struct{ Name string } }
	}{}
	if err := json.Unmarshal(template.Spec.VirtualMachine.Raw, &vm); err != nil {
		t.Fatal(err)
	}
	return vm.Spec.Preference.Name
}

// A user of an approved template decides about the values only.
func TestCommonTemplatesTakeNoOtherFields(t *testing.T) {
	found, _, _ := commonObjects(t)
	fedora := &found[slices.IndexFunc(found, func(f v1beta1.VirtualMachineTemplate) bool { return f.Name == "fedora" })]
	for name, tc := range map[string]struct {
		parameter, value string
		ok               bool
	}{
		"a name":                      {"NAME", "web", true},
		"a password":                  {"CLOUD_USER_PASSWORD", "correct-horse", true},
		"a larger disk":               {"DISK_SIZE", "100Gi", true},
		"a smaller disk":              {"DISK_SIZE", "1Gi", false},
		"another namespace":           {"DATA_SOURCE_NAMESPACE", "kube-system", false},
		"a password with a line":      {"CLOUD_USER_PASSWORD", "secret-1\nruncmd: [reboot]", false},
		"a password that ends quotes": {"CLOUD_USER_PASSWORD", `secret-1"`, false},
		"a name that is a path":       {"NAME", "../web", false},
		"an instancetype as JSON":     {"INSTANCETYPE", `{"name":"x"}`, false},
	} {
		rendered, findings := templates.Render(&fedora.Spec, map[string]string{tc.parameter: tc.value}, templates.Options{Random: rand.New(rand.NewPCG(1, 2)), Approved: true}) //nolint:gosec // a test
		if (rendered != nil) != tc.ok {
			t.Errorf("%s: %v", name, findings)
		}
	}
}

// Access is what the values say: by default, every user can read and process templates, and no account can clone.
func TestCommonTemplatesAccess(t *testing.T) {
	describe := func(args ...string) (access []string) {
		_, roles, bindings := commonObjects(t, args...)
		for i := range bindings {
			for _, subject := range bindings[i].Subjects {
				access = append(access, bindings[i].Namespace+"/"+bindings[i].RoleRef.Name+": "+subject.Kind+" "+subject.Name)
			}
		}
		for i := range roles {
			for _, rule := range roles[i].Rules {
				access = append(access, roles[i].Namespace+"/"+roles[i].Name+": "+strings.Join(rule.Verbs, ",")+" "+strings.Join(rule.Resources, ","))
			}
		}
		slices.Sort(access)
		return access
	}
	read := []string{
		"templates/catalogue-templates-read: Group system:authenticated",
		"templates/catalogue-templates-read: create virtualmachinetemplates/process",
		"templates/catalogue-templates-read: get,list,watch virtualmachinetemplates",
	}
	if diff := cmp.Diff(read, describe()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string(nil), describe("--set-json", "access.readers=[]")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	all := slices.Concat([]string{
		"golden/catalogue-templates-clone: Group system:serviceaccounts:shop",
		"golden/catalogue-templates-clone: create datavolumes/source",
	}, read, []string{
		"templates/catalogue-templates-use: Group vm-users",
		"templates/catalogue-templates-use: create virtualmachinetemplates/process,virtualmachinetemplates/create",
		"templates/catalogue-templates-use: get,list,watch virtualmachinetemplates",
	})
	if diff := cmp.Diff(all, describe("--values", commonTemplates+"/ci/everything.yaml")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Values that cannot work are rejected by the schema.
func TestCommonTemplatesSchema(t *testing.T) {
	for _, values := range []string{
		"architectures={}", "architectures={riscv64}", "dataSources.namespace=", "instancetype=U1", "families.Fedora.os=linux", "families.bsd.os=linux",
		"families.fedora.diskSize=30", "families.fedora.user=Root", "families.fedora.preferences.ppc64le=fedora", "acess.readers={a}",
	} {
		if output, err := helm.Run(t, "template", "catalogue", commonTemplates, "--set", values); err == nil {
			t.Errorf("%s is accepted:\n%.200s", values, output)
		}
	}
}
