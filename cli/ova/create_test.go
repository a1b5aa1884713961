package ova_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/cli/ova"
	"github.com/virtward/virtward/ovf/appliance"
)

const millTemplate = `
apiVersion: template.kubevirt.io/v1beta1
kind: VirtualMachineTemplate
metadata: {name: mill}
spec:
  parameters: [{name: NAME, required: true, pattern: "[a-z]+"}]
  virtualMachine:
    apiVersion: kubevirt.io/v1
    kind: VirtualMachine
    metadata: {name: "${NAME}"}
    spec:
      runStrategy: Halted
      instancetype: {name: u1.large}
      preference: {name: debian}
      dataVolumeTemplates:
      - {metadata: {name: "${NAME}-root"}, spec: {sourceRef: {kind: DataSource, name: debian}, storage: {storageClassName: fast, resources: {requests: {storage: 1Gi}}}}}
      template:
        spec:
          domain: {devices: {disks: [{name: root, disk: {}}], interfaces: [{name: a, masquerade: {}, macAddress: "02:00:00:00:00:01"}]}}
          networks: [{name: a, pod: {}}]
          volumes: [{name: root, dataVolume: {name: "${NAME}-root"}}]
`

// TestCreate makes an OVA, inspects it, and converts it back.
func TestCreate(t *testing.T) {
	folder := t.TempDir()
	at := func(name string) string { return filepath.Join(folder, name) }
	write := func(name, content string) {
		if err := os.WriteFile(at(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("template.yaml", millTemplate)
	write("disk.raw", "\xeb\x63\x90\x00"+strings.Repeat("the mill turns\n", 200_000)[:2_560_000])
	if err := os.Truncate(at("disk.raw"), 50<<20); err != nil { // a hole
		t.Fatal(err)
	}
	write("disk.qcow2", "QFI\xfb\x00\x00\x00\x03"+strings.Repeat("\x00", 12)+"\x00\x00\x00\x10\x00\x00\x00\x00\x40\x00\x00\x00"+strings.Repeat("\x00", 68)+"\x00\x00\x00\x68"+strings.Repeat("\x00", 4096))
	args := []string{"ova", "create", at("template.yaml"), "--disk", "root=" + at("disk.raw"), "--to", at("mill.ova"), "--cpus", "2", "--memory", "8Gi", "-o", "json"}
	got := clitest.Call(t, "", args...)
	if got.Code != clitest.ExitOK {
		t.Fatal(got.Code, got.ErrOut)
	}
	var created ova.Created
	clitest.Decode(t, json.Unmarshal, got.Out, &created)
	file, err := os.ReadFile(at("mill.ova"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(file)
	if created.Size != int64(len(file)) || created.SHA256 != hex.EncodeToString(sum[:]) || len(created.Files) != 3 || created.Files[0].Name != "mill.ovf" {
		t.Errorf("got %+v", created)
	}
	for _, want := range []string{
		"warning: spec.virtualMachine.spec.template.spec.domain.devices.interfaces[0].macAddress: it is an identity of one virtual machine\n",
		"warning: spec.virtualMachine.spec.dataVolumeTemplates[0].spec.storage.storageClassName: ",
	} {
		if !strings.Contains(got.ErrOut, want) {
			t.Errorf("no %q: %s", want, got.ErrOut)
		}
	}
	inspected := clitest.Call(t, "", "ova", "inspect", at("mill.ova"), "-o", "json")
	var found appliance.Appliance
	clitest.Decode(t, json.Unmarshal, inspected.Out, &found)
	if found.Verdict != appliance.Importable || !found.Package.Manifest.Verified || found.VirtualSystem.MemoryMiB != 8192 {
		t.Errorf("got %+v", found)
	}
	raw, err := os.ReadFile(at("disk.raw"))
	if err != nil {
		t.Fatal(err)
	}
	if want := sha256.Sum256(raw); found.VirtualSystem.Disks[0].ContentSHA256 != hex.EncodeToString(want[:]) {
		t.Errorf("the disk has another content")
	}
	converted := clitest.Call(t, "", "ova", "convert", at("mill.ova"), "-n", "shop")
	for _, want := range []string{"name: u1.large", `pattern: '[a-z]+'`, "name: mill-root", "namespace: shop"} {
		if converted.Code != clitest.ExitOK || !strings.Contains(converted.Out, want) {
			t.Errorf("no %q: %s%s", want, converted.Out, converted.ErrOut)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 4 {
		t.Errorf("got the files %v, %v", left, err)
	}

	with := func(changes ...string) []string {
		changed := strings.Join(args, "\n")
		for i := 0; i < len(changes); i += 2 {
			changed = strings.Replace(changed, changes[i], changes[i+1], 1)
		}
		return strings.Split(changed, "\n")
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{args, clitest.ExitFailed, "exists: use --overwrite"},
		{append(with(), "--overwrite"), clitest.ExitOK, ""},
		{with("root=", "other=", "mill.ova", "b.ova"), clitest.ExitUsage, "the template needs --disk root=FILE, no --disk other"},
		{with("disk.raw", "disk.qcow2", "mill.ova", "b.ova"), clitest.ExitFailed, "it is qcow2: convert it with qemu-img convert -O raw"},
		{with("disk.raw", "gone.raw", "mill.ova", "b.ova"), clitest.ExitFailed, "no such file"},
		{with("mill.ova", "gone/b.ova"), clitest.ExitFailed, "no such file"},
		{with("8Gi", "much"), clitest.ExitUsage, "--memory must be"},
		{with("\n--memory\n8Gi", ""), clitest.ExitUsage, "give --cpus and --memory together"},
		{with("\n--to\n"+at("mill.ova"), ""), clitest.ExitUsage, "--to is required"},
	} {
		got := clitest.Call(t, "", c.args...)
		if got.Code != c.code || !strings.Contains(got.ErrOut, c.says) {
			t.Errorf("%q: got %d %s", c.args, got.Code, got.ErrOut)
		}
	}
	if again, err := os.ReadFile(at("mill.ova")); err != nil || !bytes.Equal(again, file) {
		t.Error("the second OVA differs", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 4 {
		t.Errorf("got the files %v, %v", left, err)
	}
}
