package chart

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
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
	imagev1alpha1 "github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/images"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/templates"
)

const commonTemplates = "charts/virtward-common-templates"

// commonObjects renders the chart of common templates, and decodes strictly.
func commonObjects(t *testing.T, args ...string) (found []v1beta1.VirtualMachineTemplate, roles []rbacv1.Role, bindings []rbacv1.RoleBinding) {
	t.Helper()
	output, err := helm(t, append([]string{"template", "catalogue", commonTemplates, "--namespace", "templates"}, args...)...)
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

// commonReferences are the instancetype and the preferences of the templates, with the fields of kubevirt/common-instancetypes
// that matter to rules.
func commonReferences(t *testing.T, found []v1beta1.VirtualMachineTemplate) *references.Memory {
	t.Helper()
	const linux = `{devices: {preferredDiskBus: virtio, preferredInterfaceModel: virtio, preferredRng: {}}, requirements: {cpu: {guest: 1}, memory: {guest: 1Gi}}}`
	const windows = `{clock: {preferredClockOffset: {utc: {}}, preferredTimer: {hpet: {present: false}, hyperv: {}, pit: {tickPolicy: delay}, rtc: {tickPolicy: catchup}}},
		devices: {preferredDiskBus: virtio, preferredInterfaceModel: virtio, preferredInputBus: usb, preferredInputType: tablet, preferredTPM: {persistent: true}},
		features: {preferredAcpi: {}, preferredApic: {}, preferredHyperv: {relaxed: {}, vapic: {}, vpindex: {}, spinlocks: {spinlocks: 8191}, synic: {}, synictimer: {direct: {}}, tlbflush: {}, frequencies: {}, reenlightenment: {}, ipi: {}, runtime: {}, reset: {}}, preferredSmm: {}},
		firmware: {preferredEfi: {persistent: true, secureBoot: true}}, requirements: {cpu: {guest: 1}, memory: {guest: 2Gi}}}`
	specs := map[[2]string]string{{"VirtualMachineClusterInstancetype", "u1.medium"}: "{cpu: {guest: 1}, memory: {guest: 4Gi}}"}
	for i := range found {
		rendered, findings := templates.Render(&found[i].Spec, nil, templates.Options{Random: rand.New(rand.NewPCG(1, 2))}) //nolint:gosec // a test
		if rendered == nil {
			t.Fatal(findings)
		}
		spec, name := linux, rendered.VirtualMachine.Spec.Preference.Name
		if strings.HasPrefix(name, "windows.") {
			spec = windows
		}
		specs[[2]string{"VirtualMachineClusterPreference", name}] = spec
	}
	var objects []*unstructured.Unstructured
	for id, spec := range specs {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte("apiVersion: instancetype.kubevirt.io/v1beta1\nkind: "+id[0]+"\nmetadata: {name: "+id[1]+"}\nspec: "+spec), &object.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	memory, err := references.NewMemory("templates", objects...)
	if err != nil {
		t.Fatal(err)
	}
	return memory
}

// Every template renders with its defaults on every architecture that it claims, and its VM is allowed without a finding.
func TestCommonTemplates(t *testing.T) {
	found, _, _ := commonObjects(t, "--set", "architectures={amd64,arm64,s390x}")
	if len(found) != 20 {
		t.Errorf("%d templates", len(found))
	}
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	facts := platform.Defaults(platform.Settings{})
	snapshot, err := evaluator.New(effective.NewPipeline(registry), commonReferences(t, found), &evaluator.Live{GetFacts: func() *platform.Facts { return facts }}).Snapshot(time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
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
			for i := range result.Findings {
				t.Errorf("%s", result.Findings[i].Message())
			}
			if len(result.Warnings) > 0 || result.Verdict == nil || result.Verdict.Architecture != architecture || len(result.References) != 2 {
				t.Errorf("warnings %q, references %v", result.Warnings, result.References)
			}
			if bus := result.Verdict.Spec.Domain.Devices.Disks[0].Disk.Bus; bus != kubevirtv1.DiskBusVirtio {
				t.Errorf("the disk has the bus %s", bus)
			}
		})
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
		for _, architecture := range images.Architectures {
			of.Imports = append(of.Imports, imagev1alpha1.Import{Architecture: architecture})
		}
		catalog.Status.Images = append(catalog.Status.Images, of)
	}
	preferences := map[string]string{}
	for i := range found {
		preferences[found[i].Name] = preferenceOf(t, &found[i])
		variants := images.VariantsOf(&found[i], []imagev1alpha1.GoldenImageCatalog{catalog})
		if variants.Fault != nil || len(variants.Architectures) != len(images.Architectures) {
			t.Errorf("%s: %v, %+v", found[i].Name, variants.Architectures, variants.Fault)
			continue
		}
		for _, architecture := range variants.Architectures {
			write, fault := variants.Plan(architecture, nil)
			if fault != nil {
				t.Fatalf("%s: %+v", found[i].Name, fault)
			}
			preferences[write.Object.Name] = preferenceOf(t, write.Object)
		}
	}
	for name, want := range map[string]string{
		"fedora": "fedora.arm64", "fedora-amd64": "fedora", "fedora-arm64": "fedora.arm64", "fedora-s390x": "fedora.s390x", "rhel9-s390x": "rhel.9.s390x", "debian": "debian", "windows11-amd64": "windows.11.virtio",
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
		if output, err := helm(t, "template", "catalogue", commonTemplates, "--set", values); err == nil {
			t.Errorf("%s is accepted:\n%.200s", values, output)
		}
	}
}
