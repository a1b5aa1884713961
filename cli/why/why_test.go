package why_test

import (
	"encoding/json"
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
      nodeSelector: {disk: ssd}
      domain:
        cpu: {cores: 2}
        memory: {guest: 1Gi}
        devices:
          disks: [{name: data, disk: {bus: virtio}}]
          interfaces: [{name: default, masquerade: {}}]
      networks: [{name: default, pod: {}}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`

// cluster has a node that can run the virtual machine, and one that lacks the label disk.
const cluster = `
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: a, labels: {disk: ssd, kubernetes.io/arch: amd64, kubevirt.io/schedulable: "true", machine-type.node.kubevirt.io/q35: "true"}}
  status: &status {allocatable: {cpu: "8", memory: 16Gi, pods: "110", ephemeral-storage: 100Gi, devices.kubevirt.io/kvm: 1k, devices.kubevirt.io/tun: 1k, devices.kubevirt.io/vhost-net: 1k}}
- apiVersion: v1
  kind: Node
  metadata: {name: b, labels: {kubernetes.io/arch: amd64, kubevirt.io/schedulable: "true", machine-type.node.kubevirt.io/q35: "true"}}
  status: *status
- {apiVersion: v1, kind: ConfigMap, metadata: {name: skipped}}
`

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOffline(t *testing.T) {
	const quota = `
---
{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: shop}, spec: {hard: {requests.memory: 1Gi}}, status: {hard: {requests.memory: 1Gi}, used: {requests.memory: "0"}}}
`
	const network = `
---
{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: lake, namespace: shop, annotations: {k8s.v1.cni.cncf.io/resourceName: example.com/lake}}, spec: {config: "{}"}}
`
	const nodeNetwork = `
---
{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: lake, namespace: shop, annotations: {k8s.v1.cni.cncf.io/nodeSelector: "lake = north"}}, spec: {config: "{}"}}
`
	const allocated = `
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: fpga, namespace: shop}, status: {allocation: {nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [b]}]}]}}}}
`
	lake := strings.Replace(strings.Replace(vm, "networks: [", "networks: [{name: lake, multus: {networkName: lake}}, ", 1), "interfaces: [", "interfaces: [{name: lake, bridge: {}}, ", 1)
	claimed := strings.Replace(vm, "      nodeSelector:", "      resourceClaims: [{name: dev, resourceClaimName: fpga}]\n      nodeSelector:", 1)
	counters := strings.ReplaceAll(cluster, "kubernetes.io/arch: amd64,", `kubernetes.io/arch: amd64, cpu-model.node.kubevirt.io/Haswell: "true", cpu-feature.node.kubevirt.io/invtsc: "true", cpu-timer.node.kubevirt.io/tsc-frequency: "3000000000", scheduling.node.kubevirt.io/tsc-frequency-3000000000: "true",`)
	counters = strings.Replace(counters, `"3000000000", scheduling.node.kubevirt.io/tsc-frequency-3000000000: "true"`, `"2000000000"`, 1)
	for _, c := range []struct {
		name, vm, nodes, want string
		code                  int
		parts                 []string
	}{
		{"fits", vm, cluster, "VirtualMachine shop/db: 1 of 2 nodes can run it", clitest.ExitOK, []string{
			"assumed: the claims of the virtual machine exist, and nodes can mount their volumes", "not read: the files have no pods: nodes count as empty",
			"1      1     b        the node lacks the label disk=ssd  spec.nodeSelector",
		}},
		{"an instancetype that is not in the files", strings.Replace(vm, "spec:\n", "spec:\n  instancetype: {name: big}\n", 1), cluster, "VirtualMachine shop/db: 1 of 2 nodes can run it, as far as it is known without spec.instancetype: VirtualMachineClusterInstancetype big", clitest.ExitOK, nil},
		{"a claim of a device", strings.Replace(vm, "      nodeSelector:", "      resourceClaims: [{name: dev, resourceClaimName: fpga}]\n      nodeSelector:", 1), cluster, "VirtualMachine shop/db: 1 of 2 nodes can run it, as far as it is known without spec.template.spec.volumes[0].persistentVolumeClaim.claimName: PersistentVolumeClaim data, the ResourceClaim fpga", clitest.ExitOK, []string{
			"assumed: a node can allocate the devices of the ResourceClaim dev of spec.resourceClaims",
		}},
		{"a claim of a device of another node", claimed, cluster + allocated, "VirtualMachine shop/db: none of 2 nodes can run it. The nearest is b: the node lacks the label disk=ssd", clitest.ExitFailed, []string{
			"1      1     a        the devices of the ResourceClaim fpga are allocated on nodes with metadata.name in b  spec.resourceClaims[0]",
		}},
		{"a network of other nodes", lake, cluster + nodeNetwork, "VirtualMachine shop/db: none of 2 nodes can run it. The nearest is a: the node lacks the label lake=north", clitest.ExitFailed, []string{
			"assumed: the webhook of the network operator adds the node selector lake=north to the pod, for the NetworkAttachmentDefinition shop/lake", "field: spec.networks[0].multus.networkName, set by its author",
		}},
		{"a time stamp counter", strings.Replace(vm, "cpu: {cores: 2}", "cpu: {cores: 2, model: Haswell, features: [{name: invtsc, policy: require}]}", 1), counters, "VirtualMachine shop/db: 1 of 2 nodes can run it", clitest.ExitOK, []string{
			"assumed: KubeVirt chooses a frequency of 2000000000 Hz for the time stamp counter", "the time stamp counter of the node has 3000000000 Hz, and the guest needs 2000000000 Hz",
		}},
		{"no node", strings.Replace(vm, "guest: 1Gi", "guest: 20Gi", 1), cluster, "VirtualMachine shop/db: none of 2 nodes can run it. The nearest is a: needs 20.32Gi of memory", clitest.ExitFailed, []string{
			"field: spec.domain.memory.guest, set by its author", "change: request 4.32Gi less with spec.domain.memory.guest: the node is too small even when it is empty",
		}},
		{"a quota", vm, cluster + quota, "VirtualMachine shop/db: the API server does not create its pod: ResourceQuota q: the pod needs 1.32Gi of requests.memory; 0 of 1Gi is used", clitest.ExitFailed, []string{
			"change: raise the quota by 329.38Mi, stop another virtual machine, or request 329.38Mi less",
		}},
		{"a network that does not exist", strings.Replace(strings.Replace(vm, "networks: [", "networks: [{name: sea, multus: {networkName: sea}}, ", 1), "interfaces: [", "interfaces: [{name: sea, bridge: {}}, ", 1), cluster + network, "VirtualMachine shop/db: KubeVirt does not make its pod: there is no NetworkAttachmentDefinition shop/sea", clitest.ExitFailed, []string{
			"field: spec.networks[0].multus.networkName, set by its author", "change: create it, or name another one",
		}},
		{"a network that no node has", strings.Replace(strings.Replace(vm, "networks: [", "networks: [{name: lake, multus: {networkName: lake}}, ", 1), "interfaces: [", "interfaces: [{name: lake, bridge: {}}, ", 1), cluster + network, "VirtualMachine shop/db: none of 2 nodes can run it. The nearest is a: the node has no example.com/lake, and the pod needs 1", clitest.ExitFailed, []string{
			"assumed: the webhook of the network operator adds example.com/lake to the pod, for the NetworkAttachmentDefinition shop/lake",
			"field: spec.networks, set by its author",
		}},
		{"rejected", strings.Replace(vm, "name: data, disk", "name: gone, disk", 1), cluster, "VirtualMachine shop/db: Virtward rejects it: ", clitest.ExitFailed, []string{"change: see kubectl virtward explain"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Call(t, c.vm, "why", "-f", "-", "--nodes", file(t, "nodes.yaml", c.nodes))
			if got.Code != c.code || !strings.HasPrefix(got.Out, c.want) {
				t.Errorf("code %d, errors %q\n%s", got.Code, got.ErrOut, got.Out)
			}
			for _, part := range c.parts {
				if !strings.Contains(got.Out, part) {
					t.Errorf("the output has no %q:\n%s", part, got.Out)
				}
			}
		})
	}
}

func TestDocuments(t *testing.T) {
	nodes := file(t, "nodes.yaml", cluster)
	got := clitest.Call(t, vm, "why", "-f", "-", "--nodes", nodes, "-o", "json")
	var report struct {
		Kind, State string
		Fitting     int
		Nodes       []struct {
			Name    string
			Fits    bool
			Reasons []struct{ Plugin, Kind, Field string }
		}
	}
	clitest.Decode(t, json.Unmarshal, got.Out, &report)
	if report.Kind != "Why" || report.State != "CanRun" || report.Fitting != 1 || len(report.Nodes) != 2 || !report.Nodes[0].Fits || report.Nodes[1].Fits || report.Nodes[1].Reasons[0].Plugin != "NodeAffinity" {
		t.Errorf("%+v", report)
	}
	got = clitest.Call(t, vm+"---"+strings.Replace(vm, "name: db", "name: web", 1), "why", "-f", "-", "--nodes", nodes, "-o", "table")
	if strings.Count(got.Out, "\nNODE  FITS") != 2 || !strings.Contains(got.Out, "VirtualMachine shop/web: ") || got.Code != clitest.ExitOK {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		want string
		args []string
		code int
	}{
		{"name a virtual machine, or a file with -f", nil, clitest.ExitUsage},
		{"name one virtual machine", []string{"a", "b"}, clitest.ExitUsage},
		{`"pod/a": name a virtual machine, as NAME, vm/NAME or vmi/NAME`, []string{"pod/a"}, clitest.ExitUsage},
		{"--nodes needs a virtual machine in a file", []string{"a", "--nodes", "x"}, clitest.ExitUsage},
		{"unknown output", []string{"-f", "-", "-o", "xml"}, clitest.ExitUsage},
		{"have no Node", []string{"-f", "-", "--nodes", file(t, "empty.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")}, clitest.ExitFailed},
		{"Node a: ", []string{"-f", "-", "--nodes", file(t, "wrong.yaml", "{apiVersion: v1, kind: Node, metadata: {name: a}, spec: {unschedulable: maybe}}")}, clitest.ExitFailed},
	} {
		got := clitest.Call(t, vm, append([]string{"why"}, c.args...)...)
		if got.Code != c.code || !strings.Contains(got.ErrOut, c.want) {
			t.Errorf("%v: code %d, errors %q, want %s", c.args, got.Code, got.ErrOut, c.want)
		}
	}
}

// TestHostile: no output has characters that a terminal interprets.
func TestHostile(t *testing.T) {
	hostile := strings.Replace(cluster, "disk: ssd, kubernetes.io/arch", `disk: "x\u001b[2J\u009b31m\u202e", kubernetes.io/arch`, 1)
	for _, output := range []string{"text", "table"} {
		got := clitest.Call(t, vm, "why", "-f", "-", "--nodes", file(t, "nodes.yaml", hostile), "-o", output)
		if !strings.Contains(got.Out, "disk=x") {
			t.Errorf("the label is not in\n%s%s", got.Out, got.ErrOut)
		}
		for _, r := range got.Out + got.ErrOut {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%s prints %q", output, r)
			}
		}
	}
}
