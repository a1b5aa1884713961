package plugin_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/clitest"
)

const vm = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: db, namespace: shop}
spec:
  runStrategy: Always
  template:
    spec:
      domain:
        memory: {guest: 1Gi}
        devices: {disks: [{name: root, disk: {bus: virtio}}]}
      volumes: [{name: root, containerDisk: {image: registry.example/fedora:42}}]
`

const plugin = `
apiVersion: plugin.kubevirt.io/v1alpha1
kind: Plugin
metadata: {name: sound}
spec:
  domainHooks:
  - cel: {expression: 'Domain{Devices: DomainDeviceList{Sounds: domainSpec.Devices.Sounds + [DomainSound{Model: "ich9"}]}}'}
  - sidecar: {socketPath: /var/run/kubevirt-plugin/sound/hook.sock}
`

const failing = `
apiVersion: plugin.kubevirt.io/v1alpha1
kind: Plugin
metadata: {name: failing}
spec: {domainHooks: [{cel: {expression: 'Domain{Title: domainSpec.Devices.Disks[7].Device}'}}]}
`

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// row returns the rest of the row of an element.
func row(text, element string) string {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == element {
			return strings.Join(fields[1:], " ")
		}
	}
	return ""
}

// TestExamples runs the suites of the example Plugins, one for each hypervisor, and lints them.
func TestExamples(t *testing.T) {
	if got := clitest.Call(t, "", "plugin", "test", "../../examples/plugins"); got.Code != clitest.ExitOK || !strings.Contains(got.Out, "hypervisors: 4 passed") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	if got := clitest.Call(t, "", "plugin", "lint", "--strict", "../../examples/plugins"); got.Code != clitest.ExitOK || got.Out != "2 Plugins are valid\n" {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
}

// TestLint holds the place, the rule and the exit code of problems, in each output.
func TestLint(t *testing.T) {
	path := file(t, "p.yaml", plugin+"---"+failing+"---"+strings.Replace(failing, "Title", "Titel", 1)+"---"+strings.Replace(failing, "domainHooks", "domainHook", 1))
	got := clitest.Call(t, "", "plugin", "lint", path)
	for _, want := range []string{
		":8:5: warning: sound: spec.domainHooks[1].sidecar: a sidecar changes the domain when the virtual machine starts, and cannot be previewed [plugin-not-previewed]\n",
		":15:1: failing: metadata.name: there are two Plugins of the name failing [plugin-unreadable]\n",
		`: failing: not a Plugin: unknown field "spec.domainHook" [plugin-unreadable]`,
	} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("no %s in\n%s", want, got.Out)
		}
	}
	if got.Code != clitest.ExitFailed || got.ErrOut != "error: 2 errors and 1 warning\n" {
		t.Errorf("code %d, %s", got.Code, got.ErrOut)
	}
	path = file(t, "p.yaml", strings.Replace(failing, "Title", "Titel", 1))
	for output, want := range map[string]string{
		"table": ":5:29: failing: spec.domainHooks[0].cel.expression: line 1, column 13: undefined field 'Titel' [plugin-expression]\n",
		"json":  `"rule": "plugin-expression"`,
		"yaml":  "rule: plugin-expression",
		"sarif": `"ruleId": "plugin-expression"`, "github": "::error file=",
	} {
		if got := clitest.Call(t, "", "plugin", "lint", path, "-o", output); got.Code != clitest.ExitFailed || !strings.Contains(got.Out, want) {
			t.Errorf("%s: code %d, no %s in\n%s", output, got.Code, want, got.Out)
		}
	}
	if got := clitest.Call(t, plugin, "plugin", "lint", "-"); got.Code != clitest.ExitOK {
		t.Errorf("a warning: code %d\n%s", got.Code, got.Out)
	}
	if got := clitest.Call(t, plugin, "plugin", "lint", "-", "--strict"); got.Code != clitest.ExitFailed {
		t.Errorf("a warning with --strict: code %d\n%s", got.Code, got.Out)
	}
}

// TestDiff holds the changes with their hooks, and the exit code of a Plugin that keeps a virtual machine from starting.
func TestDiff(t *testing.T) {
	machine := file(t, "vm.yaml", vm)
	got := clitest.Call(t, plugin, "plugin", "diff", "-", "-f", machine)
	if row := row(got.Out, "devices/sound@model"); got.Code != clitest.ExitOK || row != "ich9 sound/domainHooks[0]" {
		t.Errorf("code %d, the sound is %q\n%s%s", got.Code, row, got.Out, got.ErrOut)
	}
	if !strings.HasSuffix(got.Out, "1 virtual machine: 1 changed, 0 would not start, 1 incomplete, 0 without a domain\n") || !strings.Contains(got.Out, "sound domainHooks[1]: Unpreviewable, a sidecar") {
		t.Errorf("the summary is\n%s", got.Out)
	}
	var report struct {
		Machines []struct {
			Name    string
			Changes []struct{ Element, After, Hook string }
		}
	}
	clitest.Decode(t, json.Unmarshal, clitest.Call(t, plugin, "plugin", "diff", "-", "-f", machine, "-o", "json").Out, &report)
	if len(report.Machines) != 1 || report.Machines[0].Name != "db" || len(report.Machines[0].Changes) != 2 || report.Machines[0].Changes[0].Hook != "sound/domainHooks[0]" ||
		report.Machines[0].Changes[1].Element != "maxMemory@slots" || report.Machines[0].Changes[1].Hook != "libvirtxml" {
		t.Errorf("%+v", report)
	}
	got = clitest.Call(t, failing, "plugin", "diff", "-", "-f", machine)
	if got.Code != clitest.ExitFailed || !strings.Contains(got.Out, "would not start: plugin failing, domainHooks[0]: index out of bounds: 7") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
}

// TestDiffOfCluster compares with the Plugins of the cluster, of which the file replaces one.
func TestDiffOfCluster(t *testing.T) {
	objects := clitest.ClusterObjects()
	objects["/apis/kubevirt.io/v1/kubevirts"] = strings.Replace(objects["/apis/kubevirt.io/v1/kubevirts"], `"cpuModel"`, `"developerConfiguration":{"featureGates":["Plugins"]},"cpuModel"`, 1)
	objects["/apis/kubevirt.io/v1/virtualmachines"] = `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineList","items":[` + objects["/apis/kubevirt.io/v1/namespaces/shop/virtualmachines/db"] + `]}`
	objects["/apis/kubevirt.io/v1/virtualmachineinstances"] = `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstanceList","items":[]}`
	const present = `{"apiVersion":"plugin.kubevirt.io/v1alpha1","kind":"Plugin","metadata":{"name":"NAME"},"spec":{"domainHooks":[{"cel":{"expression":"EXPRESSION"}}]}}`
	item := func(name, expression string) string {
		return strings.NewReplacer("NAME", name, "EXPRESSION", expression).Replace(present)
	}
	objects["/apis/plugin.kubevirt.io/v1alpha1/plugins"] = `{"apiVersion":"plugin.kubevirt.io/v1alpha1","kind":"PluginList","items":[` +
		item("sound", "Domain{Title: 'old'}") + "," + item("last", "Domain{Description: domainSpec.Title + '!'}") + `]}`
	kubeconfig := clitest.APIServer(t, objects)
	changed := item("sound", "Domain{Title: 'new'}")
	got := clitest.Call(t, changed, "plugin", "diff", "-", "--kubeconfig", kubeconfig)
	for element, want := range map[string]string{"title": "old new sound/domainHooks[0]", "description": ""} {
		if row := row(got.Out, element); row != want {
			t.Errorf("%s is %q, want %q\n%s%s", element, row, want, got.Out, got.ErrOut)
		}
	}
	if got.Code != clitest.ExitOK || !strings.Contains(got.Out, "VirtualMachine shop/db") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	got = clitest.Call(t, vm, "domain", "-f", "-", "--from-cluster", "--kubeconfig", kubeconfig, "-o", "table")
	if row := row(got.Out, "title"); row != "old plugin sound/domainHooks[0] plugins" {
		t.Errorf("the title is %q\n%s%s", row, got.Out, got.ErrOut)
	}
	objects["/apis/kubevirt.io/v1/kubevirts"] = clitest.ClusterObjects()["/apis/kubevirt.io/v1/kubevirts"]
	got = clitest.Call(t, vm, "domain", "-f", "-", "--from-cluster", "--kubeconfig", clitest.APIServer(t, objects), "-o", "table")
	if row := row(got.Out, "title"); row != "" || !strings.Contains(got.ErrOut, "note: KubeVirt calls no Plugins: its feature gate Plugins is off") {
		t.Errorf("without the gate the title is %q\n%s", row, got.ErrOut)
	}
}

// TestSuites holds how cases fail.
func TestSuites(t *testing.T) {
	const head = `
apiVersion: policy.virtward.io/v1alpha1
kind: PluginSuite
metadata: {name: s}
tests:
- name: sound
  plugins: [plugin.yaml]
  base: vm.yaml
  cases:
  - name: c
    expect: `
	for _, c := range []struct {
		name, expect, want string
		code               int
	}{
		{"as expected", `{domain: {devices/sound@model: ich9, title: null}, changes: 1, hooks: {"sound/domainHooks[1]": Unpreviewable}}`, "s: 1 passed", clitest.ExitOK},
		{"another value", `{domain: {devices/sound@model: ich6}}`, `devices/sound@model is "ich9", and must be "ich6"`, clitest.ExitFailed},
		{"no value", `{domain: {title: a}}`, `title is absent, and must be "a"`, clitest.ExitFailed},
		{"a value", `{domain: {devices/sound@model: null}}`, `devices/sound@model is "ich9", and must be absent`, clitest.ExitFailed},
		{"no changes", `{changes: 0}`, "1 value changes, and must be 0", clitest.ExitFailed},
		{"an outcome", `{hooks: {"sound/domainHooks[0]": Skipped}}`, "the hook sound/domainHooks[0] is Applied, and must be Skipped", clitest.ExitFailed},
		{"no such hook", `{hooks: {"sound/domainHooks[9]": Skipped}}`, "the hook sound/domainHooks[9] was not called", clitest.ExitFailed},
		{"an error", `{error: index}`, "the virtual machine starts", clitest.ExitFailed},
		{"nothing", `{}`, "expect at least one of domain, changes, hooks and error", clitest.ExitUsage},
		{"an unknown field", `{domains: {}}`, `tests[0].cases[0].expect.domains: unknown field`, clitest.ExitUsage},
		{"a file elsewhere", "{changes: 1}\n- name: other\n  plugins: [/etc/passwd]\n  base: vm.yaml\n  cases: [{name: c, expect: {changes: 0}}]", "/etc/passwd", clitest.ExitUsage},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"plugin.yaml": plugin, "vm.yaml": vm, "suite.yaml": head + c.expect + "\n"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := clitest.Call(t, "", "plugin", "test", dir)
			if got.Code != c.code || !strings.Contains(got.Out+got.ErrOut, c.want) {
				t.Errorf("code %d, want %s in\n%s%s", got.Code, c.want, got.Out, got.ErrOut)
			}
		})
	}
}

// TestUsage holds the exit code of wrong command lines.
func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		{"lint"},
		{"test"},
		{"diff"},
		{"lint", "-o", "xml", "p.yaml"},
		{"test", "--run", "(", "p.yaml"},
		{"diff", "--from-cluster", "p.yaml"},
		{"lint", "plugin_test.go"},
		{"diff", "--max", "-1", "p.yaml"},
	} {
		if got := clitest.Call(t, "", append([]string{"plugin"}, args...)...); got.Code == clitest.ExitOK || got.ErrOut == "" {
			t.Errorf("%v: code %d", args, got.Code)
		}
	}
}
