package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestSchemasIn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.go")
	text := "package a\n\nvar Schemas = map[string]string{\n\"vm\": `openAPIV3Schema: {type: object}`,\n\"other\": `a` + \"b\",\n}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := schemasIn(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"vm": "openAPIV3Schema: {type: object}"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheArchiveIsReproducible(t *testing.T) {
	entries := map[string][]byte{}
	if err := addDefinitions(entries, "../../charts/virtward/definitions"); err != nil {
		t.Fatal(err)
	}
	first, err := archived(entries)
	if err != nil {
		t.Fatal(err)
	}
	second, err := archived(entries)
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("the archives differ: %v", err)
	}
}

func TestDescriptionsAreLeftOut(t *testing.T) {
	value := map[string]any{"description": "text", "properties": map[string]any{"description": map[string]any{"type": "string", "description": "text"}}}
	withoutDescriptions(value)
	want := map[string]any{"properties": map[string]any{"description": map[string]any{"type": "string"}}}
	if diff := cmp.Diff(want, value); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// typesOf writes the sources of KubeVirt's types that the operator's definitions refer to.
func typesOf(t *testing.T, folder string) string {
	t.Helper()
	for name, text := range map[string]string{
		"core/v1/register.go": "package v1\n\nvar ApiSupportedVersions = []extv1.CustomResourceDefinitionVersion{{Name: \"v1\", Served: true}, {Name: \"v1alpha3\", Served: true}, {Name: \"v0\", Served: false}}\n",
		"plugin/register.go":  "package plugin\n\nconst (\n\tKind = \"Plugin\"\n)\n",
	} {
		file := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestDefinedIn(t *testing.T) {
	const begin = `package components

import (
	"kubevirt.io/api/plugin"
	virtv1 "kubevirt.io/api/core/v1"
	poolv1 "kubevirt.io/api/pool/v1alpha1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"
	other "example.com/api"
)

`
	definition := func(name, group, versions, kind string) string {
		return "func New" + name + "Crd() error {\n\tcrd.Spec = extv1.CustomResourceDefinitionSpec{Group: " + group + ", Versions: " + versions + ", Names: extv1.CustomResourceDefinitionNames{Kind: " + kind + "}}\n\treturn nil\n}\n"
	}
	for _, c := range []struct {
		name, text string
		want       served
		err        string
	}{
		{
			name: "all forms", text: definition("VM", "virtv1.VirtualMachineGroupVersionKind.Group", "newCRDVersions()", "virtv1.VirtualMachineGroupVersionKind.Kind") +
				definition("Pool", "poolv1.SchemeGroupVersion.Group", "[]extv1.CustomResourceDefinitionVersion{{Name: poolv1.SchemeGroupVersion.Version, Served: true}, {Name: poolv1beta1.SchemeGroupVersion.Version, Served: true}, {Name: \"v1\", Served: false}}", `"VirtualMachinePool"`) +
				definition("Plugin", "plugin.GroupName", "[]extv1.CustomResourceDefinitionVersion{{Name: \"v1alpha1\", Served: true}}", "plugin.Kind"),
			want: served{
				{Group: "kubevirt.io", Kind: "VirtualMachine"}:          {"v1", "v1alpha3"},
				{Group: "pool.kubevirt.io", Kind: "VirtualMachinePool"}: {"v1alpha1", "v1beta1"},
				{Group: "plugin.kubevirt.io", Kind: "Plugin"}:           {"v1alpha1"},
			},
		},
		{name: "no definition", err: "has no definition"},
		{name: "another group", text: definition("A", "other.Group", "newCRDVersions()", `"A"`), err: "NewACrd: has a group of another module"},
		{name: "other versions", text: definition("A", "poolv1.Group", "all()", `"A"`), err: "NewACrd: has no list of versions"},
		{name: "a version that does not say whether it is served", text: definition("A", "poolv1.Group", "[]v{{Name: \"v1\"}}", `"A"`), err: "NewACrd: has a version without a name, or that does not say whether it is served"},
		{name: "an unknown constant", text: definition("A", "plugin.GroupName", "newCRDVersions()", "plugin.Other"), err: "NewACrd: register.go has no constant Other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			file := filepath.Join(folder, "crds.go")
			if err := os.WriteFile(file, []byte(begin+c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := definedIn(file, typesOf(t, folder))
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("%v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestHistories(t *testing.T) {
	kind := schema.GroupKind{Group: "g", Kind: "A"}
	later := schema.GroupKind{Group: "g", Kind: "B"}
	rows := histories([]string{"1.5", "1.6", "1.7"}, []served{{kind: {"v1alpha1", "v1beta1"}}, {kind: {"v1beta1"}, later: {"v1"}}, {kind: {"v1", "v1beta1"}, later: {"v1"}}})
	text, err := written(rows)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"g", "A", "KubeVirt", []Version{{"v1", "1.7", ""}, {"v1beta1", "", ""}, {"v1alpha1", "", "1.6"}}},`,
		`{"g", "B", "KubeVirt", []Version{{"v1", "1.6", ""}}},`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
