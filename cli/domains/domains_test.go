package domains_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

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
        cpu: {cores: 2}
        memory: {guest: 1Gi}
        devices:
          disks: [{name: data, disk: {bus: virtio}}]
          interfaces: [{name: default, masquerade: {}}]
      networks: [{name: default, pod: {}}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func row(text, element string) string {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == element {
			return strings.Join(fields[1:], " ")
		}
	}
	return ""
}

func TestDocument(t *testing.T) {
	got := clitest.Call(t, vm, "domain", "-f", "-")
	for _, part := range []string{
		"<!-- assumed about the node:\n", "  blockVolumes: none\n", `<domain type="kvm" xmlns:qemu=`, "<name>shop_db</name>",
		`<source file="/var/run/kubevirt-private/vmi-disks/data/disk.img"/>`, `<topology sockets="1" cores="2" threads="1"/>`,
	} {
		if !strings.Contains(got.Out, part) {
			t.Errorf("the document has no %s", part)
		}
	}
	if got.Code != clitest.ExitOK || strings.Contains(got.Out, "capacity") {
		t.Errorf("code %d, errors %q\n%s", got.Code, got.ErrOut, got.Out)
	}
}

func TestTable(t *testing.T) {
	got := clitest.Call(t, vm, "domain", "-f", "-", "-o", "table", "--assume", file(t, "assume.yaml", "blockVolumes: [data]"))
	for element, want := range map[string]string{
		"cpu/topology@cores":        "2 spec.domain.cpu.cores written",
		"os/type@machine":           "q35 spec.domain.machine.type amd64",
		"devices/disk/source@dev":   "/dev/data spec.volumes[0] written",
		"devices/disk/driver@cache": "none assumption noDirectIO kubevirt",
		"blockVolumes":              `["data"] yes`,
		"podMTU":                    "1500 no",
	} {
		if row := row(got.Out, element); row != want {
			t.Errorf("%s is %q, want %q", element, row, want)
		}
	}
	if got.Code != clitest.ExitOK {
		t.Errorf("code %d, errors %q\n%s", got.Code, got.ErrOut, got.Out)
	}
}

func TestDifferences(t *testing.T) {
	got := clitest.Call(t, vm, "domain", "-f", "-", "--diff", "hyperv-direct")
	if row := row(got.Out, "@type"); row != "hyperv kvm virt-launcher kubevirt" {
		t.Errorf("the type is %q\n%s%s", row, got.Out, got.ErrOut)
	}
	other := file(t, "vm.yaml", strings.Replace(vm, "cores: 2", "cores: 3", 1))
	got = clitest.Call(t, vm, "domain", "-f", "-", "--diff", other)
	if row := row(got.Out, "cpu/topology@cores"); row != "3 2 spec.domain.cpu.cores written" {
		t.Errorf("the cores are %q\n%s%s", row, got.Out, got.ErrOut)
	}
	document := clitest.Call(t, vm, "domain", "-f", "-").Out
	running := file(t, "running.xml", document[strings.Index(document, "<domain"):])
	got = clitest.Call(t, vm, "domain", "-f", "-", "--diff", running)
	if lines := strings.Count(got.Out, "\n"); got.Code != clitest.ExitOK || lines != 1 {
		t.Errorf("a domain differs from itself:\n%s%s", got.Out, got.ErrOut)
	}
}

func TestRejected(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		args             []string
		code             int
	}{
		{"too many vCPUs", strings.Replace(vm, "cores: 2", "sockets: 200000", 1), "are more than 4096 vCPUs", []string{"-f", "-"}, clitest.ExitFailed},
		{"a disk without a volume", strings.Replace(vm, "name: data, disk", "name: gone, disk", 1), "spec.domain.devices.disks[0].name: there is no volume gone", []string{"-f", "-"}, clitest.ExitFailed},
		{"no file", vm, "add files with -f", nil, clitest.ExitUsage},
		{"another output", vm, "json", []string{"-f", "-", "-o", "json"}, clitest.ExitUsage},
		{"an unknown assumption", vm, `unknown field "cpus"`, []string{"-f", "-", "--assume", file(t, "assume.yaml", "cpus: [1]")}, clitest.ExitFailed},
	} {
		got := clitest.Call(t, c.text, append([]string{"domain"}, c.args...)...)
		if got.Code != c.code || !strings.Contains(got.ErrOut, c.want) {
			t.Errorf("%s: code %d, errors %q, want %s", c.name, got.Code, got.ErrOut, c.want)
		}
	}
}

// TestHostile: no output has characters that a terminal interprets, and a document is the same after it is read.
func TestHostile(t *testing.T) {
	const escapes = `\u001b[2J\u001b]0;title\u0007\r\u009b31m\u007f\u202e`
	hostile := strings.Replace(vm, "cores: 2", `cores: 2, model: "a`+escapes+`"`, 1)
	if hostile == vm {
		t.Fatal("the virtual machine has no CPU")
	}
	for _, args := range [][]string{{"-o", "xml"}, {"-o", "table"}, {"--diff", "hyperv-direct"}, {"--diff", file(t, "vm.yaml", vm)}} {
		got := clitest.Call(t, hostile, append([]string{"domain", "-f", "-"}, args...)...)
		if got.Code != clitest.ExitOK || !strings.Contains(got.Out, "a") {
			t.Errorf("%v: code %d\n%s", args, got.Code, got.ErrOut)
		}
		for _, r := range got.Out + got.ErrOut {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%v prints %q", args, r)
			}
		}
		if args[1] == "xml" && !strings.Contains(got.Out, "&#x9B;31m&#x7F;&#x202E;") {
			t.Errorf("the model is not in\n%s", got.Out)
		}
	}
}

const plugins = `
apiVersion: plugin.kubevirt.io/v1alpha1
kind: Plugin
metadata: {name: sound}
spec:
  domainHooks:
  - cel: {expression: 'Domain{Title: "--> a", Devices: DomainDeviceList{Sounds: [DomainSound{Model: "ich9"}]}}'}
  - sidecar: {socketPath: "/var/run/kubevirt-plugin/sound/--hook.sock"}
`

// TestPlugins holds that values of hooks have them as their source, and that what cannot be previewed is listed.
func TestPlugins(t *testing.T) {
	path := file(t, "plugin.yaml", plugins)
	got := clitest.Call(t, vm, "domain", "-f", "-", "--plugins", path, "-o", "table")
	for element, want := range map[string]string{
		"devices/sound@model": "ich9 plugin sound/domainHooks[0] plugins", "cpu/topology@cores": "2 spec.domain.cpu.cores written",
		"sound": "domainHooks[0] Applied",
	} {
		if row := row(got.Out, element); row != want {
			t.Errorf("%s is %q, want %q", element, row, want)
		}
	}
	if got.Code != clitest.ExitOK || !strings.Contains(got.Out, "domainHooks[1]  Unpreviewable  a sidecar at") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	got = clitest.Call(t, vm, "domain", "-f", "-", "--plugins", path)
	if !strings.Contains(got.Out, "<title>--&gt; a</title>") || strings.Count(got.Out, "-->") != 1 || !strings.Contains(got.Out, "  sound domainHooks[1]: Unpreviewable") {
		t.Errorf("the document is\n%s", got.Out)
	}
	failing := file(t, "plugin.yaml", strings.Replace(plugins, `Title: "--> a"`, `Title: domainSpec.Devices.Disks[9].Device`, 1))
	if got := clitest.Call(t, vm, "domain", "-f", "-", "--plugins", failing); got.Code != clitest.ExitFailed || !strings.Contains(got.ErrOut, "plugin sound, domainHooks[0]: index out of bounds: 9") {
		t.Errorf("code %d, %s", got.Code, got.ErrOut)
	}
	if got := clitest.Call(t, vm, "domain", "-f", "-", "--plugins", file(t, "vm.yaml", vm)); got.Code != clitest.ExitUsage || !strings.Contains(got.ErrOut, "there is no Plugin") {
		t.Errorf("code %d, %s", got.Code, got.ErrOut)
	}
}
