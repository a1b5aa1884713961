package explain_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/cli/clitest"
)

// named are the names of the explained virtual machines.
func named(t *testing.T, stdin string, args ...string) ([]string, clitest.Result) {
	t.Helper()
	got := clitest.Call(t, stdin, append([]string{"explain", "-o", "json"}, args...)...)
	if got.Out == "" {
		return nil, got
	}
	type explained struct{ Object struct{ Name string } }
	var all []explained
	if strings.HasPrefix(got.Out, "{") {
		all = make([]explained, 1)
		clitest.Decode(t, json.Unmarshal, got.Out, &all[0])
	} else {
		clitest.Decode(t, json.Unmarshal, got.Out, &all)
	}
	names := []string{}
	for _, e := range all {
		names = append(names, e.Object.Name)
	}
	return names, got
}

// written writes files into a new folder, and returns its name.
func written(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func vmNamed(name string) string { return strings.Replace(clitest.VM, "name: a", "name: "+name, 1) }

// TestFileFlags reads with the flags of kubectl.
func TestFileFlags(t *testing.T) {
	labelled := strings.Replace(vmNamed("db"), "namespace: shop", "namespace: shop, labels: {app: db}", 1)
	dir := written(t, map[string]string{
		"top.yaml": vmNamed("top"), "below/deep.yaml": labelled, "base/vm.yaml": vmNamed("base"),
		"base/kustomization.yaml": "resources: [vm.yaml]\n", "over/kustomization.yaml": "resources: [../base]\nnamePrefix: prod-\npatches: [{patch: '[{\"op\": \"replace\", \"path\": \"/spec/template/spec/domain/memory/guest\", \"value\": \"3Gi\"}]', target: {kind: VirtualMachine}}]\n",
		"outside/kustomization.yaml": "resources: [../top.yaml]\n",
	})
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"several files, and standard input", []string{"-f", dir + "/top.yaml", "-f", dir + "/below,-"}, []string{"top", "db", "stdin"}},
		{"a directory", []string{"-f", dir}, []string{"top"}},
		{"a URL", []string{"-f", server.URL + "/below/deep.yaml"}, []string{"db"}},
		{"a kustomization", []string{"-k", dir + "/over"}, []string{"prod-base"}},
		{"a label", []string{"-f", dir + "/top.yaml", "-f", dir + "/below", "-l", "app=db"}, []string{"db"}},
		{"without a label", []string{"-f", dir + "/top.yaml", "-f", dir + "/below", "-l", "app!=db"}, []string{"top"}},
		{"no such label", []string{"-f", dir + "/below", "-l", "app in (web, mail)"}, []string{}},
		{"a label of several, with a URL", []string{"-f", server.URL + "/top.yaml", "-f", dir + "/below", "-l", "app"}, []string{"db"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, result := named(t, vmNamed("stdin"), c.args...)
			if diff := cmp.Diff(c.want, got); diff != "" || result.Code != clitest.ExitOK {
				t.Errorf("code %d, errors %q (-want +got):\n%s", result.Code, result.ErrOut, diff)
			}
		})
	}
	t.Run("a kustomization that leaves its directory", func(t *testing.T) {
		if got := clitest.Call(t, "", "explain", "-k", dir+"/outside"); got.Code != clitest.ExitFailed || !strings.Contains(got.ErrOut, "security; file") {
			t.Errorf("code %d, errors %q", got.Code, got.ErrOut)
		}
	})
	t.Run("a finding in a kustomization", func(t *testing.T) {
		bad := written(t, map[string]string{"vm.yaml": clitest.VMWithSATA, "kustomization.yaml": "resources: [vm.yaml]\n"})
		got := clitest.Call(t, "", "explain", "-k", bad, "-o", "github")
		if got.Code != clitest.ExitFailed || !strings.HasPrefix(got.Out, "::error title=arm64-disk-bus::VirtualMachine shop/a spec.template") {
			t.Errorf("code %d, output %q", got.Code, got.Out)
		}
	})
}

// TestNoVirtualMachine ends with 0 and a note, and with --require-objects with 1.
func TestNoVirtualMachine(t *testing.T) {
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
	const note = "standard input: no virtual machine to %, and no object that creates one or that one refers to"
	for _, c := range []struct {
		command, verb, output, want string
	}{
		{"explain", "explain", "json", "[]\n"}, {"explain", "explain", "yaml", ""}, {"explain", "explain", "github", ""}, {"audit", "evaluate", "github", ""},
	} {
		for _, stdin := range []string{"", service} {
			text := strings.Replace(note, "%", c.verb, 1)
			got := clitest.Call(t, stdin, c.command, "-f", "-", "-o", c.output)
			if got.Code != clitest.ExitOK || got.Out != c.want || !strings.Contains(got.ErrOut, "note: "+text+"\n") {
				t.Errorf("%s -o %s: code %d, output %q, errors %q", c.command, c.output, got.Code, got.Out, got.ErrOut)
			}
			got = clitest.Call(t, stdin, c.command, "-f", "-", "-o", c.output, "--require-objects")
			if got.Code != clitest.ExitFailed || got.Out != "" || !strings.Contains(got.ErrOut, "error: "+text+"\n") {
				t.Errorf("%s --require-objects: code %d, output %q, errors %q", c.command, got.Code, got.Out, got.ErrOut)
			}
		}
	}
}

// TestForeignPolicies points to what replaces policies of other engines.
func TestForeignPolicies(t *testing.T) {
	for kind, want := range map[string]string{
		"kyverno.io/v1 ClusterPolicy":                                      "it is a policy of Kyverno: kubectl virtward policy convert",
		"kyverno.io/v2 PolicyException":                                    "it is a policy of Kyverno: ",
		"policies.kyverno.io/v1 ValidatingPolicy":                          "it is a policy of Kyverno: ",
		"templates.gatekeeper.sh/v1 ConstraintTemplate":                    "docs/from-gatekeeper.md",
		"constraints.gatekeeper.sh/v1beta1 K8sRequiredLabels":              "docs/from-gatekeeper.md",
		"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy":        "policy convert makes a VirtualMachinePolicy of it",
		"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding": "policy convert makes a VirtualMachinePolicy of it",
		"admissionregistration.k8s.io/v1 MutatingAdmissionPolicy":          "docs/site-defaults.md",
		"admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration":   "its kind has no effect on virtual machines",
		"notkyverno.io/v1 ClusterPolicy":                                   "its kind has no effect on virtual machines",
	} {
		version, name, _ := strings.Cut(kind, " ")
		got := clitest.Call(t, "apiVersion: "+version+"\nkind: "+name+"\nmetadata: {name: x}\n", "explain", "-f", "-")
		if begin := "note: standard input: document 1: skipped " + name + " x: "; got.Code != clitest.ExitOK || !strings.Contains(got.ErrOut, begin) || !strings.Contains(got.ErrOut, want) {
			t.Errorf("%s: code %d, errors %q", kind, got.Code, got.ErrOut)
		}
	}
}
