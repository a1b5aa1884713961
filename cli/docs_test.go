package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/virtward/virtward/cli"
	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/test/pages"
)

// TestMain is kubectl-virtward, and kubectl with it as its plugin, if the test is called by one of these names.
func TestMain(m *testing.M) {
	args := os.Args
	switch filepath.Base(args[0]) {
	case "kubectl":
		args = args[1:]
	case "kubectl-virtward":
	default:
		os.Exit(m.Run())
	}
	args[0] = "kubectl-virtward"
	os.Exit(cli.Run(context.Background(), "development", args, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}))
}

// TestDocumentation runs the console blocks of the pages about the CLI, and compares their output with the pages.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	this, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	for _, name := range []string{"kubectl", "kubectl-virtward"} {
		if err := os.Symlink(this, filepath.Join(programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	documents, err := pages.Documents("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range documents {
		if page.Lane != pages.Offline {
			continue
		}
		t.Run(page.Path, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			// This test reads the files itself, so that its result is not cached when one of them has changed.
			for _, name := range []string{"examples", "policies/library", "cli/testdata"} {
				if err := os.CopyFS(filepath.Join(folder, name), os.DirFS(filepath.Join("..", name))); err != nil {
					t.Fatal(err)
				}
			}
			shell := &pages.Shell{
				Folder:      filepath.Join(folder, page.Folder),
				Environment: []string{"HOME=" + folder, "PATH=" + programs + ":" + os.Getenv("PATH")},
			}
			shell.Page(t, page.Blocks)
		})
	}
}

// TestTutorial runs the calls of the page about policies that need no cluster.
func TestTutorial(t *testing.T) {
	text, err := os.ReadFile("../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("..")
	want := map[string]string{
		"policy lint examples/policy/memory-limit":                          "1 policy is valid",
		"policy test examples/policy/memory-limit -v":                       "8 passed",
		"audit --with examples/policy/memory-limit/policy.yaml -f examples": "VirtualMachine default/analytics",
		"policy new memory-limit --cel":                                     "memory-limit",
	}
	for command, says := range want {
		if !strings.Contains(string(text), "\n    kubectl virtward "+command+"\n") {
			t.Errorf("the page does not show %q", command)
		}
		if strings.HasPrefix(command, "policy new ") {
			command += " --dir " + t.TempDir()
		}
		got := clitest.Call(t, "", strings.Fields(command)...)
		if !strings.Contains(got.Out+got.ErrOut, says) {
			t.Errorf("%s says nothing of %q:\n%s%s", command, says, got.Out, got.ErrOut)
		}
	}
}

// TestCookbooks lints the policies of the pages about other engines, and evaluates each on virtual machines that it admits and
// denies.
func TestCookbooks(t *testing.T) {
	const vm = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: NAME, namespace: shop, labels: {owner: ann, cost-center: c1}}
spec:
  runStrategy: Always
  instancetype: {name: u1}
  template: {spec: {domain: {devices: {}}, volumes: [{name: a, containerDisk: {image: "quay.io/containerdisks/fedora:41"}}]}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: u1}
spec: {cpu: {guest: 1}, memory: {guest: MEMORY}}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: office, namespace: shop}
spec: {config: '{"type": "bridge", "vlan": 7}'}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: slow, namespace: shop}
spec: {storageClassName: slow, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: slow, labels: {tier: bronze}}
provisioner: csi.example.com
`
	onClaim := replacing("volumes: [", "volumes: [{name: b, persistentVolumeClaim: {claimName: slow}}, ")
	good := strings.NewReplacer("NAME", "good", "MEMORY", "2Gi").Replace(vm)
	// Each change violates one policy of the pages.
	violations := map[string]func(string) string{
		"instancetype-used": replacing("  instancetype: {name: u1}\n", ""),
		"no-own-resources":  replacing("domain: {", "domain: {memory: {guest: 1Gi}, "),
		"images-from":       replacing("quay.io", "example.org"),
		"at-most-8gi":       replacing("2Gi", "9Gi"),
		"owners":            replacing("cost-center: c1", "other: c1"),
		"repositories":      replacing("quay.io/containerdisks", "quay.io/other"),
		"limits":            replacing("2Gi", "17Gi"),
		"no-host-devices":   replacing("devices: {}", "devices: {gpus: [{name: g, deviceName: example.com/g}]}"),
		"lab-vlans":         replacing("devices: {}}", "devices: {interfaces: [{name: lab, bridge: {}}]}}, networks: [{name: lab, multus: {networkName: office}}]"),
		"gold-storage":      onClaim, "shared-volumes": onClaim, "storage-tier": onClaim,
		// They are for updates, deletions and namespaces with a label: their suites are elsewhere.
		"owner-is-fixed": nil, "protected": nil, "always-running": nil,
	}
	seen := 0
	for _, page := range []string{"../docs/from-kyverno.md", "../docs/from-gatekeeper.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
			policy, _, _ := strings.Cut(block, "```")
			_, name, _ := strings.Cut(policy, "metadata: {name: ")
			name, _, _ = strings.Cut(name, "}")
			violate, known := violations[name]
			if seen++; !known {
				t.Errorf("%s: no violation of %s is known", page, name)
				continue
			}
			t.Run(name, func(t *testing.T) {
				if got := clitest.Call(t, policy, "policy", "lint", fileOf(t, "policy.yaml", policy)); got.Code != clitest.ExitOK ||
					strings.Contains(got.Out, "[lint/image-prefix]") || strings.Contains(got.Out, "[lint/quantity-string]") {
					t.Errorf("lint: %s%s", got.Out, got.ErrOut)
				}
				if got := clitest.Call(t, "", "explain", "-o", "table", "-f", fileOf(t, "vm.yaml", policy+"---\n"+good)); got.Code != clitest.ExitOK {
					t.Errorf("it denies what it must admit: %s%s", got.Out, got.ErrOut)
				}
				if violate == nil {
					return
				}
				got := clitest.Call(t, "", "explain", "-o", "table", "-f", fileOf(t, "vm.yaml", policy+"---\n"+violate(good)))
				if got.Code != clitest.ExitFailed || !strings.Contains(got.Out, "policy/"+name) {
					t.Errorf("it admits what it must deny: %s%s", got.Out, got.ErrOut)
				}
			})
		}
	}
	if seen != len(violations) {
		t.Errorf("%d policies, and %d violations", seen, len(violations))
	}
}

// replacing returns a function that replaces a text, which must be there.
func replacing(before, after string) func(string) string {
	return func(text string) string { return strings.Replace(text, before, after, 1) }
}

// fileOf writes a file of its own.
func fileOf(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
