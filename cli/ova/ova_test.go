package ova_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/ovf/appliance"
)

const example = "../testdata/ova/harbour-light.ovf"

// TestInspect holds the exit codes, the verdicts and the JSON.
func TestInspect(t *testing.T) {
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, before, after string) string {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(strings.Replace(string(text), before, after, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	several := write("several.ovf", `<VirtualSystem ovf:id="harbour">`, `<VirtualSystem ovf:id="other"/><VirtualSystem ovf:id="harbour">`)
	rejected := write("rejected.ovf", "harbour-light-disk1.vmdk", "../disk.vmdk")
	for _, c := range []struct {
		args    string
		code    int
		verdict string
		says    string
	}{
		{example, clitest.ExitOK, appliance.Importable, ""},
		{several, clitest.ExitFailed, appliance.NeedsChoice, "choose one with --virtual-system"},
		{several + " --virtual-system harbour", clitest.ExitOK, appliance.Importable, ""},
		{several + " --virtual-system none", clitest.ExitUsage, "", `the descriptor has no such id: virtual system "none"`},
		{rejected, clitest.ExitFailed, appliance.Rejected, "href leaves the folder"},
		{"absent.ova", clitest.ExitFailed, "", "no such file"},
		{"http://example.com/a.ova?token=secret", clitest.ExitUsage, "", "http://example.com/a.ova?redacted: the connection has no TLS"},
		{"ftp://example.com/a.ova", clitest.ExitUsage, "", "the scheme is not https or http"},
		{"https://me:secret@example.com/a.ova", clitest.ExitUsage, "", "the URL contains credentials"},
		{"", clitest.ExitUsage, "", "name one OVA or OVF file"},
	} {
		got := clitest.Call(t, "", append([]string{"ova", "inspect", "-o", "json"}, strings.Fields(c.args)...)...)
		if got.Code != c.code || !strings.Contains(got.ErrOut, c.says) || (c.code != 0) != strings.HasPrefix(got.ErrOut, "error: ") {
			t.Errorf("%s: got %d: %s", c.args, got.Code, got.ErrOut)
		}
		if c.verdict == "" {
			continue
		}
		var found appliance.Appliance
		clitest.Decode(t, json.Unmarshal, got.Out, &found)
		if found.Verdict != c.verdict || (found.VirtualSystem == nil) != (c.verdict == appliance.NeedsChoice) {
			t.Errorf("%s: got %+v", c.args, found)
		}
	}
}

// TestConvert holds that the template is printed, and that networks must be mapped.
func TestConvert(t *testing.T) {
	got := clitest.Call(t, "", "ova", "convert", example, "-n", "shop", "--network", "Sea=lab/sea")
	for _, want := range []string{"name: harbour-light\n", "namespace: shop", "networkName: lab/sea", "storage: 6Gi", "masquerade: {}"} {
		if got.Code != clitest.ExitOK || !strings.Contains(got.Out, want) {
			t.Errorf("no %q: %d %s%s", want, got.Code, got.Out, got.ErrOut)
		}
	}
	for _, want := range []string{"the serial port 1 is not imported", "upload harbour-light-disk1.vmdk to the PersistentVolumeClaim shop/harbour-light-disk-1 with at least 6442450944 bytes"} {
		if !strings.Contains(got.ErrOut, want) {
			t.Errorf("no %q: %s", want, got.ErrOut)
		}
	}
	if got := clitest.Call(t, "", "ova", "convert", example); got.Code != clitest.ExitFailed || got.Out != "" || !strings.Contains(got.ErrOut, "networks without a mapping: Sea") {
		t.Errorf("got %d %s%s", got.Code, got.Out, got.ErrOut)
	}
	for flags, want := range map[string]string{
		"--network Sea=none --network Lake=lab/lake": "--network Lake: no network adapter of the virtual system is in this network",
		"--network Sea=none --name BAD_N":            "--name BAD_N: a lowercase RFC 1123 subdomain must consist of",
		"--network Sea=none --namespace a.b":         "--namespace a.b: must not contain dots",
	} {
		if got := clitest.Call(t, "", append([]string{"ova", "convert", example}, strings.Fields(flags)...)...); got.Code != clitest.ExitUsage || got.Out != "" || !strings.Contains(got.ErrOut, want) {
			t.Errorf("%s: got %d %s%s", flags, got.Code, got.Out, got.ErrOut)
		}
	}
}
