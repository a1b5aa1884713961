package template

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/virtward/virtward/cli/options"
)

// imported runs template import.
func imported(args ...string) (string, error) {
	var out bytes.Buffer
	cmd := newImport(options.Program{Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}})
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.Execute()
	return out.String(), err
}

// TestImport holds the import that the flags describe.
func TestImport(t *testing.T) {
	got, err := imported("https://example.com/ova/Harbour_Light.ova?signature=a", "-n", "templates", "--network", "Sea=lab/sea", "--network", "Air=none", "--secret", "login",
		"--storage-class", "fast", "--instancetype", "u1.small", "--preference", "VirtualMachinePreference/mine", "--property", "a.b=c", "--accept-eula", "--verify", "Require", "--ttl", "1h")
	if err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: template.kubevirt.io/v1beta1
kind: VirtualMachineTemplateImport
metadata:
  name: harbour-light
  namespace: templates
spec:
  acceptEula: true
  instancetype:
    name: u1.small
  networkMappings:
  - source: Air
    target: none
  - source: Sea
    target: lab/sea
  preference:
    kind: VirtualMachinePreference
    name: mine
  properties:
    a.b: c
  source:
    http:
      secretRef: login
      url: https://example.com/ova/Harbour_Light.ova?signature=a
  storage:
    class: fast
  ttlSecondsAfterFinished: 3600
  verify: Require
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestImportArtifact holds the import of an artifact.
func TestImportArtifact(t *testing.T) {
	got, err := imported("oci://quay.io/templates/web-shop:v1", "-n", "templates", "--platform", "arm64", "--secret", "login", "--cert-configmap", "authority", "--storage-class", "fast")
	if err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: template.kubevirt.io/v1beta1
kind: VirtualMachineTemplateImport
metadata:
  name: web-shop
  namespace: templates
spec:
  source:
    oci:
      certConfigMap: authority
      platform: arm64
      reference: oci://quay.io/templates/web-shop:v1
      secretRef: login
  storage:
    class: fast
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestImportRejects holds the messages about wrong command lines.
func TestImportRejects(t *testing.T) {
	for args, want := range map[string]string{
		"":                    "name one URL, artifact or file",
		"absent.ova":          "open absent.ova: no such file",
		"ftp://a/b.ova":       "ftp://a/b.ova: name a file of this machine, or a URL with the scheme http, https or oci",
		"oci://example.com/a": "name a tag or a digest",
		"oci://a:1":           "names no registry",
		"oci://example.com/a:1 --checksum sha256:0":  "--checksum: name the digest of an artifact in the reference",
		"https://example.com/a.ova --platform arm64": "--platform needs an artifact of a registry",
		"a.ova --platform arm64":                     "--platform needs an artifact: oci://REGISTRY/REPOSITORY:TAG, or its file .tar",
		"a.ova --cert-configmap authority":           "--secret and --cert-configmap are for a server or a registry, and a.ova is a file",
		"a.ova --ttl 1h":                             "--ttl is for an import in the cluster",
		"import_test.go":                             "import_test.go: the file is neither a tar archive nor an OVF descriptor",
		"import_test.go --checksum sha256:0":         "--checksum: import_test.go has sha256:",
		"https://u:p@example.com/a.ova":              "the URL has credentials: put them into a Secret, and name it with --secret",
		"https://example.com/a.ova --verify Yes":     "IfPresent",
		"https://example.com/a.ova --timeout 1m":     "--timeout needs --watch",
		"https://example.com/a.ova --ttl 1ms":        "--ttl 1ms: use whole seconds",
	} {
		if _, err := imported(strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
