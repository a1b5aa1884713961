package explain_test

import (
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/clitest"
)

const template = `
apiVersion: template.kubevirt.io/v1beta1
kind: VirtualMachineTemplate
metadata: {name: web}
spec:
  virtualMachine:
    metadata: {name: "${NAME}"}
    spec:
      runStrategy: Halted
      template:
        spec:
          architecture: arm64
          domain: {devices: {disks: [{name: root, disk: {bus: "${BUS}"}}]}, memory: {guest: "${MEMORY}"}}
          volumes: [{name: root, containerDisk: {image: registry.example/a}}]
  parameters: [{name: NAME, required: true}, {name: BUS, value: sata}, {name: MEMORY, value: 2Gi}]
`

// A template is explained as the virtual machine that it makes, with the policies for virtual machines and for templates.
func TestTemplates(t *testing.T) {
	const bus = "spec.virtualMachine.spec.template.spec.domain.devices.disks[0].disk.bus"
	const kinds = "match: {kinds: [VirtualMachineTemplate]}, "
	for name, c := range map[string]struct {
		more, in string
		args     []string
		code     int
		want     []string
		errOut   string
	}{
		"its defaults":            {"", template, nil, 1, []string{bus, "virtward/arm64-disk-bus", "required parameter NAME is not validated"}, "rejected"},
		"values":                  {"", template, []string{"-p", "NAME=db", "-p", "BUS=virtio"}, 0, []string{"name: db", "bus: virtio", "guest: 2Gi", "sockets: 1"}, ""},
		"a value that is unknown": {"", template, []string{"-p", "NOM=db", "-p", "NAME=db", "-p", "BUS=virtio"}, 1, []string{"template-unknown-given-parameter"}, "rejected"},
		"a policy for VMs":        {clitest.MemoryPolicy("Deny", ""), template, []string{"-p", "NAME=db", "-p", "BUS=virtio"}, 1, []string{"spec.virtualMachine.spec.template.spec.domain.memory.guest", "policy/cap"}, "rejected"},
		"it holds for a value":    {clitest.MemoryPolicy("Deny", ""), template, []string{"-p", "NAME=db", "-p", "BUS=virtio", "-p", "MEMORY=512Mi"}, 0, []string{"guest: 512Mi"}, ""},
		"a policy for templates":  {clitest.MemoryPolicy("Deny", kinds), template, []string{"-p", "NAME=db", "-p", "BUS=virtio"}, 1, []string{"policy/cap"}, "rejected"},
		"no template":             {"", clitest.VM, []string{"-p", "NAME=db"}, 2, nil, "-p gives values to a VirtualMachineTemplate, and there is none"},
		"no value":                {"", template, []string{"-p", "NAME"}, 2, nil, "-p NAME: write NAME=VALUE"},
	} {
		t.Run(name, func(t *testing.T) {
			got := clitest.Call(t, c.in+c.more, append([]string{"explain", "-f", "-"}, c.args...)...)
			if got.Code != c.code || !strings.Contains(got.ErrOut, c.errOut) {
				t.Errorf("code %d, want %d; errors %s\n%s", got.Code, c.code, got.ErrOut, got.Out)
			}
			for _, want := range c.want {
				if !strings.Contains(got.Out, want) {
					t.Errorf("want %q in\n%s", want, got.Out)
				}
			}
		})
	}
}
