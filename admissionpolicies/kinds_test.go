package admissionpolicies_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/schemas"
	"github.com/virtward/virtward/test/crds"
)

// A new kind of KubeVirt needs a decision: those of the Go module, whatever package it is in.
func TestEveryKindOfTheModuleHasADecision(t *testing.T) {
	want := map[schema.GroupKind]bool{}
	for _, kind := range kindsOfModule(t, "kubevirt.io/api") {
		want[kind] = true
	}
	if len(want) < 20 {
		t.Fatalf("the module has only the kinds %v", want)
	}
	decided := decisions(t)
	for kind := range want {
		if decided[kind] == nil {
			t.Errorf("%s of kubevirt.io/api has no decision: add it to kinds.go", kind)
		}
	}
	for kind := range decided {
		if others := []string{"apps", "template.kubevirt.io"}; !want[kind] && !slices.Contains(others, kind.Group) {
			t.Errorf("%s has a decision, but kubevirt.io/api does not have it", kind)
		}
	}
}

// A new definition needs a decision too, with the name of its resource and its scope. CDI has definitions of its own.
func TestEveryDefinitionHasADecision(t *testing.T) {
	definitions, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	decided, seen := decisions(t), 0
	for _, definition := range definitions {
		kind := schema.GroupKind{Group: definition.Spec.Group, Kind: definition.Spec.Names.Kind}
		if kind.Group == apikinds.DataVolumes.Group {
			continue
		}
		seen++
		decision := decided[kind]
		if decision == nil {
			t.Errorf("%s has no decision: add it to kinds.go", kind)
			continue
		}
		if cluster := definition.Spec.Scope == "Cluster"; decision.Resource != definition.Spec.Names.Plural || decision.Cluster != cluster {
			t.Errorf("%s: the resource is %s, in the cluster: %t", kind, definition.Spec.Names.Plural, cluster)
		}
	}
	if seen < 18 {
		t.Errorf("only %d definitions", seen)
	}
}

// kindsOfModule returns the kinds of a module of KubeVirt: its types with metadata. The folder of a package names its group.
func kindsOfModule(t *testing.T, module string) []schema.GroupKind {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	root := strings.TrimSpace(string(output))
	files, err := filepath.Glob(filepath.Join(root, "*", "*", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	var kinds []schema.GroupKind
	for _, file := range files {
		folder, _, _ := strings.Cut(strings.TrimPrefix(file, root+"/"), "/")
		for _, name := range kindsIn(t, file) {
			// A part of a virtual machine that has metadata.
			if name != "DataVolumeTemplateSpec" {
				kinds = append(kinds, schema.GroupKind{Group: group(t, root, folder), Kind: name})
			}
		}
	}
	return kinds
}

// kindsIn returns the types of a file that embed TypeMeta and ObjectMeta.
func kindsIn(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if fields, ok := spec.Type.(*ast.StructType); ok && embeds(fields, "TypeMeta") && embeds(fields, "ObjectMeta") {
			names = append(names, spec.Name.Name)
		}
		return false
	})
	return names
}

func embeds(fields *ast.StructType, name string) bool {
	return slices.ContainsFunc(fields.Fields.List, func(f *ast.Field) bool {
		selector, ok := f.Type.(*ast.SelectorExpr)
		return ok && len(f.Names) == 0 && selector.Sel.Name == name
	})
}

// group reads the name of the group of a folder.
func group(t *testing.T, root, folder string) string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, folder, "register.go"), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatalf("the group of %s: %v", folder, err)
	}
	name := ""
	ast.Inspect(parsed, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 && spec.Names[0].Name == "GroupName" {
			name = strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`)
		}
		return true
	})
	if name == "" {
		t.Fatalf("%s has no name of a group", folder)
	}
	return name
}

// decisions are the kinds of the table. No kind and no field has two, and each has a reason.
func decisions(t *testing.T) map[schema.GroupKind]*admissionpolicies.GuestKind {
	t.Helper()
	decided := map[schema.GroupKind]*admissionpolicies.GuestKind{}
	for _, kind := range admissionpolicies.GuestKinds() {
		if decided[kind.GroupKind] != nil {
			t.Errorf("%s has two decisions", kind.GroupKind)
		}
		if kind.Because == "" || strings.HasSuffix(kind.Because, ".") || kind.Effect == "" || kind.Resource == "" {
			t.Errorf("%s: the decision is not complete", kind.GroupKind)
		}
		decided[kind.GroupKind] = &kind
	}
	return decided
}

// Every field of the spec of kinds that users can write in part has a decision, in the module and in each supported version
// of KubeVirt.
func TestEveryFieldHasADecision(t *testing.T) {
	decided := decisions(t)
	for name, typ := range map[string]reflect.Type{
		apikinds.VirtualMachine: reflect.TypeFor[v1.VirtualMachineSpec](), apikinds.VirtualMachineInstance: reflect.TypeFor[v1.VirtualMachineInstanceSpec](),
		apikinds.VirtualMachineInstanceMigration:  reflect.TypeFor[v1.VirtualMachineInstanceMigrationSpec](),
		apikinds.VirtualMachineInstanceReplicaSet: reflect.TypeFor[v1.VirtualMachineInstanceReplicaSetSpec](),
		apikinds.VirtualMachinePool:               reflect.TypeFor[poolv1beta1.VirtualMachinePoolSpec](),
		apikinds.VirtualMachineSnapshot:           reflect.TypeFor[snapshotv1beta1.VirtualMachineSnapshotSpec](),
	} {
		for _, kind := range admissionpolicies.GuestKinds() {
			if kind.Kind == name {
				equalFields(t, "kubevirt.io/api", &kind, jsonNames(typ))
				delete(decided, kind.GroupKind)
			}
		}
	}
	for kind, decision := range decided {
		if len(decision.Fields) > 0 {
			t.Errorf("%s has decisions of fields that are not compared with its type", kind)
		}
	}
}

// Older versions of KubeVirt have no field that the module does not have.
func TestFieldsOfOlderVersionsHaveADecision(t *testing.T) {
	for _, minor := range schemas.Minors() {
		embedded := schemas.Of(minor)
		for _, kind := range admissionpolicies.GuestKinds() {
			spec, err := embedded.For(kind.WithVersion("v1"))
			if err != nil {
				t.Fatal(err)
			}
			if spec == nil || len(kind.Fields) == 0 {
				continue
			}
			for _, name := range spec.FieldsOf("spec") {
				if !slices.ContainsFunc(kind.Fields, func(f admissionpolicies.GuestField) bool { return f.Name == name }) {
					t.Errorf("KubeVirt %s: spec.%s of %s has no decision: add it to kinds.go", minor, name, kind.Kind)
				}
			}
		}
	}
}

func equalFields(t *testing.T, source string, kind *admissionpolicies.GuestKind, want []string) {
	t.Helper()
	var got []string
	for _, f := range kind.Fields {
		if f.Effect == "" || f.Decision == "" {
			t.Errorf("spec.%s of %s: the decision is not complete", f.Name, kind.Kind)
		}
		got = append(got, f.Name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields of the spec of %s (-%s +kinds.go):\n%s", kind.Kind, source, diff)
	}
}

// jsonNames are the names of the fields of a type in JSON.
func jsonNames(typ reflect.Type) []string {
	var names []string
	for _, field := range reflect.VisibleFields(typ) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// What can run, change or copy a guest is covered by a guard, and that guard matches it.
func TestEveryEffectHasAGuard(t *testing.T) {
	// Decisions without a guard, each with its reason in the table.
	unguarded := []string{"KubeVirt", "MigrationPolicy"}
	all := policies(t)
	for _, kind := range admissionpolicies.GuestKinds() {
		if kind.Guard == "" {
			if !slices.Contains(unguarded, kind.Kind) {
				t.Errorf("%s can %s virtual machines, and no guard covers it", kind.GroupKind, kind.Effect)
			}
			continue
		}
		guard := all[kind.Guard]
		if guard == nil {
			t.Errorf("%s: there is no guard %s", kind.GroupKind, kind.Guard)
			continue
		}
		if !matches(t, guard, kind.Group, kind.Resource) {
			t.Errorf("%s does not match %s.%s", kind.Guard, kind.Resource, kind.Group)
		}
	}
}

// matches reports whether a policy matches the creation of objects, or the writes of their status.
func matches(t *testing.T, policy *unstructured.Unstructured, group, resource string) bool {
	t.Helper()
	rules, _, err := unstructured.NestedSlice(policy.Object, "spec", "matchConstraints", "resourceRules")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(rules, func(rule any) bool {
		groups, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "apiGroups")
		resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
		operations, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "operations")
		return slices.Contains(groups, group) && (slices.Contains(resources, resource) && slices.Contains(operations, "CREATE") || slices.Contains(resources, resource+"/status"))
	})
}

// Every guarded kind has a case of a creation that is denied, of one elsewhere or with the verb that is allowed, or of both.
func TestKindsHaveCases(t *testing.T) {
	denied, allowed := map[string]bool{}, map[string]bool{}
	for _, table := range []string{"template-approved-only", "template-cluster-kinds"} {
		cases, err := admissionpolicies.TemplateCases(table)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			if c.Old == nil {
				kind := fmt.Sprint(c.New["kind"])
				denied[kind], allowed[kind] = denied[kind] || c.Denied != "", allowed[kind] || c.Denied == ""
			}
		}
	}
	for _, kind := range admissionpolicies.GuestKinds() {
		if guards := []string{admissionpolicies.TemplateApprovedOnly, admissionpolicies.TemplateClusterKinds}; !slices.Contains(guards, kind.Guard) {
			continue
		}
		if !denied[kind.Kind] || !allowed[kind.Kind] {
			t.Errorf("%s: a case that is denied: %t; one that is allowed: %t", kind.Kind, denied[kind.Kind], allowed[kind.Kind])
		}
	}
}
