package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/clitest"
)

// TestMistakes makes the mistakes that newcomers make, and requires a message that says what to do.
func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("KUBECONFIG", filepath.Join(dir, "absent"))
	config := func(server string) string {
		return "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: '" + server + "'}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
	}
	closed := write("closed", config("http://127.0.0.1:1"))
	forbidden := clitest.APIServer(t, map[string]string{"/apis/kubevirt.io/v1/kubevirts": clitest.Forbidden, "/apis/kubevirt.io/v1/namespaces/shop/virtualmachines/a": clitest.Forbidden})
	empty := clitest.APIServer(t, nil)
	vm, below := write("vm.yaml", clitest.VM), filepath.Dir(write("above/below/vm.yaml", clitest.VM))
	above := filepath.Dir(below)
	policy := write("policy.yaml", clitest.MemoryPolicy("Deny", ""))
	kyverno := write("kyverno.yaml", "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: x}\n")
	noKind := strings.Replace(clitest.VM, "kind: VirtualMachine\n", "", 1)

	const failed, usage = clitest.ExitFailed, clitest.ExitUsage
	for _, c := range []struct {
		name, stdin string
		args        string
		code        int
		want        string
	}{
		{"no file flag", "", "explain " + vm, usage, "use -f for a file: -f "},
		{"a missing file", "", "explain -f absent.yaml", failed, "absent.yaml: no such file or directory"},
		{"a missing file of several", "", "explain -f " + vm + " -f absent.yaml", failed, "absent.yaml: no such file or directory"},
		{"a directory without YAML", "", "explain -f " + above, failed, "the directory holds no .yaml, .yml or .json files: use -R to read its subdirectories"},
		{"a directory without a kustomization", "", "explain -k " + above, failed, "unable to find one of 'kustomization.yaml'"},
		{"a missing directory", "", "explain -k absent", failed, "rendering the kustomization absent: "},
		{"a long flag with one dash", "", "explain -filename " + vm, usage, "name virtual machines or files, not both"},
		{"a flag of another name", "", "explain --file " + vm, usage, "unknown flag: --file: see kubectl virtward explain --help"},
		{"a flag without a value", "", "explain -f", usage, "flag needs an argument: 'f' in -f: see kubectl virtward explain --help"},
		{"a misspelt output", "", "explain -f " + vm + " -o yml", usage, `unknown output "yml": the known ones are yaml, table, json, junit, sarif, github, pod`},
		{"a misspelt command", "", "explian", usage, `unknown command "explian": did you mean "explain"?: see kubectl virtward --help`},
		{"a command without its group", "", "lint policies", usage, `unknown command "lint": did you mean "plugin lint" or "policy lint"?: see kubectl virtward --help`},
		{"a misspelt subcommand", "", "policy aply", usage, `unknown command "aply": did you mean "apply"?: see kubectl virtward policy --help`},
		{"a command of kubectl", "", "get", usage, `unknown command "get": `},
		{"a name without a type", "", "explain db", usage, `"db": add a type, such as vm/db, or use -f db for a file`},
		{"a type without a name", "", "explain vm", usage, "add the name of the virtual machine: vm/NAME, or labels with -l"},
		{"an unknown type", "", "explain pod/a", usage, `unknown type "pod": the known ones are vm, vmi`},
		{"a misspelt rule", "", "rules arm64-disc-bus", usage, `did you mean "arm64-disk-bus"?`},
		{"a misspelt kind", strings.Replace(clitest.VM, "kind: VirtualMachine", "kind: VirtualMachin", 1), "explain -f -", failed, "kind: VirtualMachin is not a kind of kubevirt.io/v1: did you mean VirtualMachine?"},
		{"a kind in lower case", strings.Replace(clitest.VM, "kind: VirtualMachine", "kind: virtualmachine", 1), "explain -f -", failed, "did you mean VirtualMachine?"},
		{"a misspelt group", strings.Replace(clitest.VM, "kubevirt.io/v1", "kubevirt/v1", 1), "explain -f -", failed, `apiVersion: no matches for kind "VirtualMachine" in version "kubevirt/v1": use kubevirt.io/v1`},
		{"the version of pods", strings.Replace(clitest.VM, "kubevirt.io/v1", "v1", 1), "explain -f -", failed, `apiVersion: no matches for kind "VirtualMachine" in version "v1": use kubevirt.io/v1`},
		{"another version", strings.Replace(clitest.VM, "kubevirt.io/v1", "kubevirt.io/v2", 1), "explain -f -", failed, `apiVersion: no matches for kind "VirtualMachine" in version "kubevirt.io/v2": use kubevirt.io/v1`},
		{"no kind", noKind, "explain -f -", failed, "must have apiVersion and kind"},
		{"a field that is there twice", strings.Replace(clitest.VM, "spec:\n", "spec:\n  runStrategy: Manual\n", 1), "explain -f -", clitest.ExitOK, "warning: spec.runStrategy: Duplicate value: is set in line 5 and again in line 6: kubectl uses the last value silently, and Kustomize rejects the file [virtward/schema]"},
		{"a field of a policy that is there twice", "", "policy lint " + write("twice.yaml", clitest.MemoryPolicy("Deny", "enforcement: Warn, ")), failed, ": spec.enforcement is already set in line "},
		{"a tab", strings.Replace(clitest.VM, "  runStrategy", "\trunStrategy", 1), "explain -f -", failed, "line 5: found character that cannot start any token"},
		{"the template of a chart", "{{ if .Values.vm }}\n" + clitest.VM + "{{ end }}\n", "explain -f -", failed, "standard input: document 1: is a template with {{: render it first, such as with helm template"},
		{"no text", "", "explain -f -", clitest.ExitOK, "note: standard input: no virtual machine to explain"},
		{"a policy as a virtual machine", "", "explain -f " + policy, clitest.ExitOK, "no virtual machine to explain"},
		{"a virtual machine as a policy", "", "audit -f " + vm + " --with " + vm, failed, "use -f for objects to evaluate, --with is for the configuration"},
		{"a virtual machine to apply", "", "policy apply -f " + vm + " --kubeconfig " + closed, failed, "no VirtualMachinePolicy to apply"},
		{"a policy of Kyverno to apply", "", "policy apply -f " + kyverno + " --kubeconfig " + closed, failed, "it is a policy of Kyverno: kubectl virtward policy convert"},
		{"a virtual machine to lint", "", "policy lint " + vm, usage, "no VirtualMachinePolicy was found: explain -f evaluates virtual machines"},
		{"a virtual machine to test", "", "policy test " + vm, usage, "has no suite: no object of the kind Suite of policy.virtward.io/v1alpha1"},
		{"no suite", "", "policy test " + below, usage, "has no suite: no object of the kind Suite"},
		{"no files to apply", "", "policy apply " + policy, usage, "use -f for files"},
		{"a policy that is not in the library", "", "policy install absent", usage, `there is no policy "absent" in the library: kubectl virtward policy install --list lists them`},
		{"no kubeconfig", "", "explain vm/a", failed, "no kubeconfig names a cluster: give one with --kubeconfig or KUBECONFIG, or files with -f"},
		{"a context that is not there", "", "explain vm/a --kubeconfig " + closed + " --context absent", failed, `context "absent" does not exist`},
		{"a cluster that does not answer", "", "explain vm/a --kubeconfig " + closed, failed, "connection refused: the API server does not answer: check the kubeconfig, --context and the network"},
		{"a cluster that does not answer, for an audit", "", "audit --kubeconfig " + closed, failed, "the API server does not answer: check the kubeconfig"},
		{"a cluster without KubeVirt", "", "audit --kubeconfig " + empty, failed, "the cluster has no KubeVirt"},
		{"a virtual machine that is not there", "", "explain vm/absent --kubeconfig " + empty, failed, "reading virtualmachines shop/absent: "},
		{"no rights", "", "explain vm/a --kubeconfig " + forbidden, failed, "reading virtualmachines shop/a: you may not"},
		{"a server that is not there", "", "explain -f http://127.0.0.1:1/vm.yaml", failed, "http://127.0.0.1:1/vm.yaml: dial tcp 127.0.0.1:1: connect: connection refused"},
		{"values without a template", "", "explain -f " + vm + " -p NAME=a", usage, "-p gives values to a VirtualMachineTemplate, and there is none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Call(t, c.stdin, strings.Fields(c.args)...)
			if said := got.Out + got.ErrOut; got.Code != c.code || !strings.Contains(said, c.want) {
				t.Errorf("code %d, want %d with %q in\n%s", got.Code, c.code, c.want, said)
			}
			if lines := strings.Count("\n"+got.ErrOut, "\nerror: "); (c.code != clitest.ExitOK) != (lines == 1) {
				t.Errorf("%d lines of errors in %q", lines, got.ErrOut)
			}
		})
	}
}

// TestPublicMistakes makes the mistakes that the page on conformance lists, each with its finding.
func TestPublicMistakes(t *testing.T) {
	page, err := os.ReadFile("../docs/internals/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	in := func(field, with string) string { return strings.Replace(clitest.VM, field, with, 1) }
	for mistake, c := range map[string]struct{ manifest, want, without string }{
		"`disk` without a value, and `bus` beside it": {
			in("devices: {}", "devices: {disks: [{name: root, disk: , bus: virtio}]}"),
			"spec.template.spec.domain.devices.disks[0].bus: Forbidden: is not a field of VirtualMachine: did you mean spec.template.spec.domain.devices.disks[0].disk.bus?", "cdrom",
		},
		"`version: v1` beside `apiVersion`": {in("spec:", "version: v1\nspec:"), "version: Forbidden: is not a field of VirtualMachine [virtward/unknown-field]", "did you mean"},
		"a field twice": {
			in("memory: {guest: 1Gi}", "memory: {guest: 1Gi}\n        memory: {guest: 2Gi}"),
			"warning: spec.template.spec.domain.memory: Duplicate value: is set in line 10 and again in line 11: kubectl uses the last value silently", "unreadable",
		},
		"a label that is `true`":              {in("namespace: shop}", "namespace: shop, labels: {x: true}}"), "metadata.labels.x: is true or false where a text is expected", ""},
		"neither `runStrategy` nor `running`": {in("  runStrategy: Always\n", ""), "spec.runStrategy: not set: a VM must have a run strategy", "spec.running: "},
		"an interface with masquerade, and no network of its name": {
			in("devices: {}", "devices: {interfaces: [{name: lan, masquerade: {}}]}"), `interfaces[0].name: Invalid value: "lan": no network has this name`, "works with the pod network only",
		},
		"Secure Boot on arm64": {
			in("domain:\n", "architecture: arm64\n      domain:\n        firmware: {bootloader: {efi: {secureBoot: true}}}\n"), "spec.template.spec.domain: Invalid value: arm64 has no Secure Boot: ", "",
		},
		"`preferredCPUTopology: Cores`": {
			"apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachinePreference\nmetadata: {name: a}\nspec: {cpu: {preferredCPUTopology: Cores}}\n",
			`supported values: "sockets", "cores", "threads", "spread", "any"`, "",
		},
		"a probe without a handler": {in("      domain:\n", "      readinessProbe: {}\n      domain:\n"), "spec.template.spec.readinessProbe: Required value: the probe has no handler", "filled by"},
	} {
		got := clitest.Call(t, c.manifest, "explain", "-f", "-")
		if said := got.Out + got.ErrOut; !strings.Contains(said, c.want) || c.without != "" && strings.Contains(said, c.without) {
			t.Errorf("%s: want %q and not %q in\n%s", mistake, c.want, c.without, said)
		}
		if !strings.Contains(string(page), "\n| "+mistake+" | ") {
			t.Errorf("%s: the page does not list it", mistake)
		}
	}
}
