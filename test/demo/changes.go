package main

import (
	"context"
	"fmt"

	"github.com/virtward/virtward/test/controlplane"
)

// The files of the chapter about changes of running VMs, and its namespace.
const (
	ordersFile  = "examples/rollouts/database.yaml"
	bridgedFile = "examples/rollouts/bridged.yaml"

	fleet = "fleet"
)

// runRollouts runs the process of rollouts.
func (s *show) runRollouts(ctx context.Context) error {
	_, err := s.cluster.RunVirtward(ctx, controlplane.Workload{Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardRollouts})
	return err
}

// use is a command that changes the namespace of a user's kubeconfig.
func use(namespace string) string {
	return "kubectl config set-context --current --namespace " + namespace
}

// runningChanges shows what a change needs: before it, at it, and afterwards.
func runningChanges() []step {
	const (
		plan       = "kubectl virtward rollout plan vm/orders"
		sockets    = ` --type merge -p {"spec":{"template":{"spec":{"domain":{"cpu":{"sockets":4}}}}}}`
		memory     = `kubectl patch vm orders --type merge -p {"spec":{"template":{"spec":{"domain":{"memory":{"guest":"%s"}}}}}}`
		condition  = `kubectl get %s %s -o jsonpath={.status.conditions[?(@.type=="%s")].%s}`
		rolloutsOf = "kubectl virtward rollout status orders"
		restart    = "RestartRequired"
	)
	return []step{
		{
			prose: `KubeVirt changes running VMs. Virtward says which changes reach the guest, and when. Here, KubeVirt migrates VMs
				for changes that need it.`,
			as: admin, runs: []string{
				`kubectl patch kv/kubevirt -n kubevirt --type merge -p {"spec":{"workloadUpdateStrategy":{"workloadUpdateMethods":["LiveMigrate"]}}}`,
				"kubectl create namespace " + fleet,
				"kubectl create rolebinding alice --namespace " + fleet + " --clusterrole kubevirt.io:edit --user alice",
				"kubectl create rolebinding alice-sees --namespace " + fleet + " --clusterrole view --user alice",
			},
		},
		{as: alice, hidden: true, runs: []string{use(fleet)}},
		{as: alice, await: "kubectl auth can-i create virtualmachines", until: "yes", runs: []string{"kubectl apply -f " + ordersFile}},
		{
			prose: "Alice considers two more sockets. The plan changes nothing.",
			as:    alice, await: statusOf("orders"), until: "Running",
			tour: "FIELD|sockets|migrates", runs: []string{plan + " --set domain.cpu.sockets=4"},
			says: []string{"domain.cpu.sockets", "LiveOnMigration", "KubeVirt migrates the VM"},
		},
		{as: alice, runs: []string{"kubectl patch vm orders" + sockets}},
		{
			as: alice, await: "kubectl get vmi orders -o jsonpath={.status.currentCPUTopology.sockets}", until: "4",
			runs: []string{plan}, lacks: "LiveOnMigration",
			checked: "the guest has four sockets, after one live migration.",
		},
		{
			prose: "More memory than the VM was started for needs a restart. The warning says so at once:",
			as:    alice, runs: []string{fmt.Sprintf(memory, "16Gi")},
			says: []string{"Warning: spec.template.spec.domain.memory.guest: takes effect when the VM restarts. The VM was started with a maximum of 8Gi."},
		},
		{
			prose: "KubeVirt announces it too, later, and with one sentence for all VMs:",
			as:    alice, await: fmt.Sprintf(condition, "vm", "orders", restart, "message"), until: "memory hotplug not supported",
		},
		{
			prose: "The status of the command has the fields, and since when they are pending:",
			as:    alice, await: rolloutsOf, until: "domain.memory.guest", runs: []string{rolloutsOf, fmt.Sprintf(memory, "2Gi")},
		},
		{as: alice, await: fmt.Sprintf(condition, "vm", "orders", restart, "status")},
		{
			prose: "In CI, a change that needs a restart can fail the job:",
			as:    alice, rejects: plan + " --set domain.machine.type=pc-q35-9.0 --fail-on restart",
			says: []string{"domain.machine.type", "Restart", "KubeVirt applies this field only when the VM starts."},
		},
		{
			prose: `A VM that cannot be migrated: KubeVirt writes the sockets to its instance, announces no restart, and the guest
				never gets them. The warning of Virtward has the reason.`,
			as: alice, runs: []string{"kubectl apply -f " + bridgedFile},
		},
		{
			as: alice, await: statusOf("legacy-orders"), until: "Running", runs: []string{"kubectl patch vm legacy-orders" + sockets},
			says: []string{"Warning: spec.template.spec.domain.cpu.sockets: takes effect when the VM restarts.", "the VM cannot be migrated: cannot migrate VMI which does not use masquerade"},
		},
		{
			as: alice, await: fmt.Sprintf(condition, "vmi", "legacy-orders", "HotVCPUChange", "status"), until: "True",
			hidden: true, runs: []string{fmt.Sprintf(condition, "vm", "legacy-orders", restart, "status"), use(namespace)}, lacks: "True",
			checked: "KubeVirt announces no restart, and the plan says that one is needed.",
		},
	}
}

// statusOf is a command that prints the status of a VM.
func statusOf(name string) string {
	return "kubectl get vm " + name + " -o jsonpath={.status.printableStatus}"
}
