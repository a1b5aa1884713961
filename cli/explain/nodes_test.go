package explain_test

import (
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/clitest"
)

// TestNodes: a policy that reads migrationTargets knows the nodes of the files.
func TestNodes(t *testing.T) {
	const machine = `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: db, namespace: shop}, spec: {runStrategy: Halted, template: {spec: {networks: [{name: default, pod: {}}], domain: {cpu: {model: Skylake}, memory: {guest: 1Gi}, devices: {interfaces: [{name: default, masquerade: {}}]}}}}}}
---
apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: movable}
spec:
  enforcement: Deny
  validations: [{expression: migrationTargets > 0, message: it could not move}]
`
	node := func(name, labels string) string {
		return `---
{apiVersion: v1, kind: Node, metadata: {name: ` + name + `, labels: {kubernetes.io/arch: amd64, kubevirt.io/schedulable: "true", machine-type.node.kubevirt.io/q35: "true"` + labels + `}}, status: {allocatable: {cpu: "8", memory: 16Gi, pods: "110", ephemeral-storage: 100Gi, devices.kubevirt.io/kvm: 1k, devices.kubevirt.io/tun: 1k, devices.kubevirt.io/vhost-net: 1k}}}
`
	}
	const skylake = `, cpu-model.node.kubevirt.io/Skylake: "true"`
	for _, c := range []struct {
		name, files, want string
		code              int
	}{
		{"two nodes", node("a", skylake) + node("b", skylake), "", clitest.ExitOK},
		{"one of them has the CPU", node("a", skylake) + node("b", ""), "it could not move", clitest.ExitFailed},
		{"no nodes", "", "the nodes of the cluster are not known", clitest.ExitFailed},
		{"a node that cannot be read", node("a", skylake) + "---\n{apiVersion: v1, kind: Node, metadata: {name: b}, spec: 1}\n", "Node b: ", clitest.ExitFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Call(t, machine+c.files, "explain", "-f", "-", "-o", "table")
			if got.Code != c.code || !strings.Contains(got.Out+got.ErrOut, c.want) || strings.Contains(got.ErrOut, "skipped Node") {
				t.Errorf("code %d\n%s%s", got.Code, got.Out, got.ErrOut)
			}
		})
	}
}
