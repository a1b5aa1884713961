package explain_test

import (
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/clitest"
)

// podOf calls explain -o pod, and removes the spaces of columns.
func podOf(t *testing.T, document string) (string, clitest.Result) {
	t.Helper()
	result := clitest.Call(t, document, "explain", "-f", "-", "-o", "pod")
	var lines []string
	for line := range strings.Lines(result.Out) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n"), result
}

func TestPod(t *testing.T) {
	got, result := podOf(t, `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: db, namespace: shop}, spec: {runStrategy: Halted, template: {spec: {
		volumes: [{name: root, persistentVolumeClaim: {claimName: root}}],
		domain: {cpu: {cores: 2}, memory: {guest: 64Gi}, devices: {disks: [{name: root}]}}}}}}`)
	if result.Code != clitest.ExitOK {
		t.Fatalf("%+v", result)
	}
	for _, want := range []string{
		"VirtualMachine shop/db on kvm/amd64",
		"assumed: the PersistentVolumeClaim root exists, with a file system that one node mounts",
		"remark: spec.domain.memory.guest: KubeVirt adds no memory for the page tables of memory.guest, only of requests.memory. They need 128Mi, so that the overhead would be 424Mi.",
		"compute cpu 200m -",
		"compute devices.kubevirt.io/kvm - 1",
		"compute devices.kubevirt.io/vhost-net - 1 spec.domain.devices.interfaces",
		"compute memory 65832Mi -",
		"guest-console-log cpu 5m 15m",
		"8Mi for each vCPU 16Mi spec.domain.cpu",
		"total 296Mi",
		"kubernetes.io/arch amd64 the architecture of the guest spec.architecture base",
		"machine-type.node.kubevirt.io/q35 true the machine type spec.domain.machine.type amd64",
		"node-labeller.kubevirt.io/obsolete-host-model DoesNotExist the CPU model of the host must not be obsolete spec.domain.cpu.model base",
	} {
		if !strings.Contains("\n"+got+"\n", "\n"+want+"\n") {
			t.Errorf("no line %q in\n%s", want, result.Out)
		}
	}
}

func TestNoPod(t *testing.T) {
	for name, tc := range map[string]struct{ document, want string }{
		"a broken hook": {`{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: a, annotations: {hooks.kubevirt.io/hookSidecars: "["}}, spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}`, "KubeVirt cannot make a pod: annotation hooks.kubevirt.io/hookSidecars: unexpected end of JSON input"},
		"no machine":    {`{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineInstancetype, metadata: {name: a}, spec: {cpu: {guest: 1}, memory: {guest: 1Gi}}}`, "KubeVirt makes no pod of it."},
	} {
		t.Run(name, func(t *testing.T) {
			if got, result := podOf(t, tc.document); !strings.Contains("\n"+got+"\n", "\n"+tc.want+"\n") {
				t.Errorf("no line %q in\n%s%s", tc.want, result.Out, result.ErrOut)
			}
		})
	}
}
