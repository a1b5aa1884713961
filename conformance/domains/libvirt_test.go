package domains

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/conformance"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/test/soak"
)

// documents writes the domains of kvm on amd64 to files, in the form of libvirt's schema.
func documents(t *testing.T) []string {
	t.Helper()
	file, err := os.Open("../testdata/domains/domain.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	dir, registry := t.TempDir(), newRegistry(t)
	var files []string
	err = conformance.Lines(file, func(line []byte) error {
		c, err := Read(line)
		if err != nil {
			return err
		}
		if c.VMI.Spec.Architecture != architectures.AMD64 || c.Context.HostArch != "" || c.Input().Facts.Hypervisor.Name != platform.KVM {
			return nil
		}
		result, err := c.Convert(registry)
		if err != nil {
			return nil //nolint:nilerr // there is no domain
		}
		if result.Domain.MaximumMemory != nil {
			result.Domain.MaximumMemory.Slots = 16 // the test driver of libvirt rejects 0, which QEMU's accepts
		}
		document := result.Element()
		document.Clean()
		var text strings.Builder
		if err := document.XML(&text); err != nil {
			return err
		}
		name := filepath.Join(dir, strings.ReplaceAll(c.ID, "/", "_")+".xml")
		files = append(files, name)
		return os.WriteFile(name, []byte(text.String()), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestSoakLibvirt finds documents that libvirt itself rejects: those of its schema, and those that its test driver does not
// define. It needs libvirt-clients and libxml2-utils of Debian 12 or later; older schemas reject newer elements.
func TestSoakLibvirt(t *testing.T) {
	soak.Only(t)
	accepted(t, documents(t), 500)
}

// TestLibvirt is TestSoakLibvirt for one document of ten.
func TestLibvirt(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a program for each document")
	}
	var some []string
	for i, file := range documents(t) {
		if i%10 == 0 {
			some = append(some, file)
		}
	}
	accepted(t, some, 50)
}

// accepted compares how many files libvirt accepts with what it did accept. There must be at least so many.
func accepted(t *testing.T, files []string, count int) {
	t.Helper()
	for _, tool := range []struct {
		name string
		args []string
		// least is the share that libvirt 9.0 accepts: it lacks elements that KubeVirt uses, such as pvpanic.
		least float64
	}{
		{"virt-xml-validate", []string{"FILE", "domain"}, 0.94},
		{"virsh", []string{"-c", "test:///default", "define", "FILE"}, 0.94},
	} {
		t.Run(tool.name, func(t *testing.T) {
			program, err := exec.LookPath(tool.name)
			if err != nil {
				t.Skipf("%s is not installed: apt-get install libvirt-clients libxml2-utils", tool.name)
			}
			accepted := conformance.Ratio{Of: len(files)}
			for _, file := range files {
				args := strings.Split(strings.ReplaceAll(strings.Join(tool.args, "\n"), "FILE", file), "\n")
				output, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
				if err == nil {
					accepted.Agree++
				} else {
					t.Logf("%s: %s", filepath.Base(file), output)
				}
			}
			t.Logf("accepted: %s", accepted)
			if accepted.Of < count || accepted.Share() < tool.least {
				t.Errorf("%s of %s are accepted", accepted, tool.name)
			}
		})
	}
}
