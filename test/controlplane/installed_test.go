package controlplane

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/test/await"
)

// siteField is a field of virtual machines that only the cluster of the test has.
const siteField = "siteField"

// addSiteField adds the field to the definition of virtual machines, with a CEL rule, until the test ends.
func addSiteField(t *testing.T, c *ControlPlane) {
	t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	definition.Name = "virtualmachines.kubevirt.io"
	if err := c.Client().Get(t.Context(), client.ObjectKeyFromObject(definition), definition); err != nil {
		t.Fatal(err)
	}
	version := 0
	for i := range definition.Spec.Versions {
		if definition.Spec.Versions[i].Name == "v1" {
			version = i
		}
	}
	path := fmt.Sprintf("/spec/versions/%d/schema/openAPIV3Schema/properties/spec/properties/template/properties/spec/properties/%s", version, siteField)
	patch := func(operation string) error {
		text := fmt.Sprintf(`[{"op":%q,"path":%q,"value":{"type":"string","enum":["a","c"],"x-kubernetes-validations":[{"rule":"self != 'c'","message":"c is for others"}]}}]`, operation, path)
		return c.Client().Patch(context.WithoutCancel(t.Context()), definition, client.RawPatch(types.JSONPatchType, []byte(text)))
	}
	if err := patch("add"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := patch("remove"); err != nil {
			t.Error(err)
		}
	})
}

// testInstalledSchemas shows that the schemas of the cluster decide with --from-cluster: those of the definitions, those that
// are published for users who may not read definitions, and those of the program for users who may read neither.
func testInstalledSchemas(t *testing.T, c *ControlPlane) {
	addSiteField(t, c)
	config, err := c.UserConfig("alice")
	if err != nil {
		t.Fatal(err)
	}
	alice, err := c.WriteKubeconfig("alice-of-schemas", config)
	if err != nil {
		t.Fatal(err)
	}
	readers := map[string][]string{
		"definitions": {"--kubeconfig", c.Kubeconfig()},
		"published":   {"--kubeconfig", alice},
		"neither":     {"--kubeconfig", c.Kubeconfig(), "--as", "stranger", "--as-group", "system:unauthenticated"},
	}
	explain := func(reader, value string) clitest.Result {
		vm := plainVM + "      " + siteField + ": " + value + "\n"
		return clitest.Call(t, vm, append([]string{"explain", "-f", "-", "--from-cluster"}, readers[reader]...)...)
	}
	for _, reader := range []string{"definitions", "published"} {
		await.Until(t, func() error { // the API server publishes the field some moments after the change
			if got := explain(reader, "a"); got.Code != clitest.ExitOK {
				return fmt.Errorf("%s: code %d\n%s%s", reader, got.Code, got.Out, got.ErrOut)
			}
			return nil
		})
		for value, want := range map[string]string{
			"z": `rejected: spec.template.spec.siteField: Unsupported value: "z": supported values: "a", "c" [virtward/schema]`,
			"c": `rejected: spec.template.spec.siteField: Invalid value: "c": c is for others [virtward/schema]`,
		} {
			if got := explain(reader, value); got.Code != clitest.ExitFailed || !strings.Contains(got.Out, want) {
				t.Errorf("%s: code %d, want %q in\n%s%s", reader, got.Code, want, got.Out, got.ErrOut)
			}
		}
		if got := explain(reader, "a"); strings.Contains(got.Out+got.ErrOut, "the schemas of KubeVirt") || strings.Contains(got.Out, "unknown field") {
			t.Errorf("%s: a note about the schemas, or a warning about the field, in\n%s%s", reader, got.Out, got.ErrOut)
		}
	}
	got := explain("neither", "a")
	if want := "spec.template.spec.siteField: Forbidden: is not a field of VirtualMachine"; got.Code != clitest.ExitFailed || !strings.Contains(got.Out, want) {
		t.Errorf("code %d, want %q in\n%s%s", got.Code, want, got.Out, got.ErrOut)
	}
	if want := "the schemas of KubeVirt 1.9 are used: you may not read those of the cluster"; strings.Count(got.Out, want) != 1 {
		t.Errorf("want one note %q in\n%s%s", want, got.Out, got.ErrOut)
	}
}
