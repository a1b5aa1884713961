package effective_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/validators"
)

const capableNode = `
metadata: {name: worker, labels: {kubernetes.io/arch: amd64, machine-type.node.kubevirt.io/q35: "true"}}
status: {allocatable: {cpu: "8", memory: 16Gi, ephemeral-storage: 100Gi, pods: "9", devices.kubevirt.io/kvm: 1k, devices.kubevirt.io/tun: 1k, devices.kubevirt.io/vhost-net: 1k}}
`

// TestCapacity: the findings are about the pod of the virtual machine that runs, at the field of the author, and name nothing of the cluster.
func TestCapacity(t *testing.T) {
	of := func(memory string, strategy v1.VirtualMachineRunStrategy) *v1.VirtualMachine {
		vm := build.VMOf(build.VMI("db").Memory(memory)).Obj()
		vm.Spec.RunStrategy, vm.Spec.Running = &strategy, nil
		return vm
	}
	const (
		never = "node-fits spec.template.spec.domain.memory.guest: no node of the cluster could run the virtual machine, even if nothing else ran there"
		quota = `{metadata: {name: q}, spec: {hard: {requests.memory: 8Gi, limits.cpu: "64"}}, status: {hard: {requests.memory: 8Gi, limits.cpu: "64"}, used: {requests.memory: 5Gi}}}`
	)
	large := choosing("large")
	for name, c := range map[string]struct {
		in    effective.Input
		node  string
		quota string
		want  []string
	}{
		"fits":           {in: effective.Input{VM: of("4Gi", v1.RunStrategyAlways)}, node: capableNode},
		"too large":      {in: effective.Input{VM: of("32Gi", v1.RunStrategyAlways)}, node: capableNode, want: []string{never}},
		"the overhead":   {in: effective.Input{VM: of("16Gi", v1.RunStrategyAlways)}, node: capableNode, want: []string{never}},
		"an instance":    {in: effective.Input{VMI: build.VMI("db").Memory("32Gi").Obj()}, node: capableNode, want: []string{"node-fits spec.domain.memory.guest: no node of the cluster could run the virtual machine, even if nothing else ran there"}},
		"a hypervisor":   {in: effective.Input{VM: of("1Gi", v1.RunStrategyAlways)}, node: `{metadata: {name: worker}, status: {allocatable: {cpu: "8", memory: 16Gi, pods: "9"}}}`, want: []string{"node-fits spec.template.spec.architecture: no node of the cluster could run the virtual machine, even if nothing else ran there"}},
		"instancetype":   {in: effective.Input{VM: large, References: effective.References{Instancetype: instancetypeOf("32Gi")}}, node: capableNode, want: []string{"node-fits spec.instancetype.name: no node of the cluster could run the virtual machine, even if nothing else ran there"}},
		"of KubeVirt":    {in: effective.Input{VMI: build.VMI("db").Memory("32Gi").Obj(), Requester: "system:serviceaccount:kubevirt:kubevirt-controller"}, node: capableNode},
		"quota":          {in: effective.Input{VM: of("9Gi", v1.RunStrategyAlways)}, quota: quota, want: []string{"quota-fits spec.template.spec.domain.memory.guest: the pod needs 9.31Gi of requests.memory, more than a ResourceQuota of the namespace allows"}},
		"quota in use":   {in: effective.Input{VM: of("4Gi", v1.RunStrategyAlways)}, quota: quota, want: []string{"quota-left spec.template.spec.domain.memory.guest: the pod needs 4.31Gi of requests.memory, more than a ResourceQuota of the namespace has left now"}},
		"a halted VM":    {in: effective.Input{VM: of("4Gi", v1.RunStrategyHalted)}, quota: quota},
		"an update":      {in: effective.Input{VM: of("4Gi", v1.RunStrategyAlways), OldVM: of("4Gi", v1.RunStrategyAlways)}, quota: quota},
		"a small VM":     {in: effective.Input{VM: of("1Gi", v1.RunStrategyAlways)}, quota: quota},
		"many labels":    {in: effective.Input{VM: selecting(40)}, node: capableNode, want: []string{"node-fits spec.template.spec.nodeSelector: no node of the cluster could run the virtual machine, even if nothing else ran there"}},
		"too many":       {in: effective.Input{VM: selecting(100)}, node: capableNode},
		"nothing known":  {in: effective.Input{VM: of("1Ti", v1.RunStrategyAlways)}},
		"no nodes":       {in: effective.Input{VM: of("1Ti", v1.RunStrategyAlways)}, node: "none"},
		"cannot be made": {in: effective.Input{VM: of("1Gi", v1.RunStrategyAlways), References: effective.References{}}, node: capableNode, quota: `{metadata: {name: q}, spec: {hard: {pods: "1"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			in := c.in
			in.Facts = platform.Defaults(platform.Settings{})
			in.Facts.Namespace = "kubevirt"
			if c.node != "" {
				cluster := &placement.Cluster{Unknown: placement.Nothing()}
				if c.node != "none" {
					node := &corev1.Node{}
					if err := yaml.UnmarshalStrict([]byte(c.node), node); err != nil {
						t.Fatal(err)
					}
					cluster.Nodes = append(cluster.Nodes, node)
				}
				var err error
				if in.Nodes, err = placement.NewSnapshot(cluster); err != nil {
					t.Fatal(err)
				}
			}
			if c.quota != "" {
				quota := &corev1.ResourceQuota{}
				if err := yaml.UnmarshalStrict([]byte(c.quota), quota); err != nil {
					t.Fatal(err)
				}
				quota.Namespace = "default"
				in.Quotas = []*corev1.ResourceQuota{quota}
			}
			verdict, err := pipeline(t).Decide(in)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range verdict.Findings {
				if f.Severity != validators.Warn {
					t.Errorf("a finding denies: %v", f.Error)
				}
				got = append(got, f.Rule+" "+f.Error.Field+": "+f.Error.Detail)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// selecting is a virtual machine that asks for a number of labels that no node has.
func selecting(n int) *v1.VirtualMachine {
	vm := build.VMOf(build.VMI("db").Memory("1Gi")).Obj()
	vm.Spec.Template.Spec.NodeSelector = map[string]string{}
	for i := range n {
		vm.Spec.Template.Spec.NodeSelector[fmt.Sprintf("example.com/label-%d", i)] = "x"
	}
	return vm
}
