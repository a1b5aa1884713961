package main

import (
	"context"
	"fmt"
	"strings"

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

// runningChanges shows what a change needs: before it, at it, and afterwards.
func runningChanges(ctx context.Context, s *show) error {
	for _, part := range []func(context.Context) error{s.runsOrders, s.addsSockets, s.exceedsMemory, s.changesMachine, s.cannotMigrate} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// runsOrders starts a VM of Alice.
func (s *show) runsOrders(ctx context.Context) error {
	s.prose(`KubeVirt changes running VMs. Virtward says which changes reach the guest, and when. Here, KubeVirt migrates VMs
		for changes that need it.`)
	if err := s.doesAll(ctx, s.admin,
		`kubectl patch kv/kubevirt -n kubevirt --type merge -p {"spec":{"workloadUpdateStrategy":{"workloadUpdateMethods":["LiveMigrate"]}}}`,
		"kubectl create namespace "+fleet,
		"kubectl create rolebinding alice --namespace "+fleet+" --clusterrole kubevirt.io:edit --user alice",
		"kubectl create rolebinding alice-sees --namespace "+fleet+" --clusterrole view --user alice",
	); err != nil {
		return err
	}
	if err := s.quietly(ctx, s.alice, "kubectl config set-context --current --namespace "+fleet); err != nil {
		return err
	}
	if err := s.awaitOutput(ctx, s.alice, "kubectl auth can-i create virtualmachines", "yes"); err != nil {
		return err
	}
	return s.runsVM(ctx, ordersFile, "orders")
}

// runsVM applies a VM, and waits until it runs.
func (s *show) runsVM(ctx context.Context, file, name string) error {
	if err := s.doesAll(ctx, s.alice, "kubectl apply -f "+file); err != nil {
		return err
	}
	return s.awaitOutput(ctx, s.alice, "kubectl get vm "+name+" -o jsonpath={.status.printableStatus}", "Running")
}

// addsSockets plans a change, and makes it.
func (s *show) addsSockets(ctx context.Context) error {
	s.prose("Alice considers two more sockets. The plan changes nothing.")
	output, err := s.key("FIELD|sockets|migrates").does(ctx, s.alice, "kubectl virtward rollout plan vm/orders --set domain.cpu.sockets=4")
	if err != nil {
		return err
	}
	if err := says(output, "domain.cpu.sockets", "LiveOnMigration", "KubeVirt migrates the VM"); err != nil {
		return err
	}
	if err := s.doesAll(ctx, s.alice, `kubectl patch vm orders --type merge -p {"spec":{"template":{"spec":{"domain":{"cpu":{"sockets":4}}}}}}`); err != nil {
		return err
	}
	if err := s.awaitOutput(ctx, s.alice, "kubectl get vmi orders -o jsonpath={.status.currentCPUTopology.sockets}", "4"); err != nil {
		return err
	}
	if output, err = s.does(ctx, s.alice, "kubectl virtward rollout plan vm/orders"); err != nil {
		return err
	}
	if strings.Contains(output, "LiveOnMigration") {
		return fmt.Errorf("the change is pending after the migration:\n%s", output)
	}
	s.checked("the guest has four sockets, after one live migration.")
	return nil
}

// exceedsMemory changes memory beyond the maximum of the start.
func (s *show) exceedsMemory(ctx context.Context) error {
	s.prose("More memory than the VM was started for needs a restart. The warning says so at once:")
	const patch = `kubectl patch vm orders --type merge -p {"spec":{"template":{"spec":{"domain":{"memory":{"guest":"%s"}}}}}}`
	output, err := s.does(ctx, s.alice, fmt.Sprintf(patch, "16Gi"))
	if err != nil {
		return err
	}
	if err := says(output, "Warning: spec.template.spec.domain.memory.guest: takes effect when the VM restarts. The VM was started with a maximum of 8Gi."); err != nil {
		return err
	}
	s.prose("KubeVirt announces it too, later, and with one sentence for all VMs:")
	const condition = `kubectl get vm orders -o jsonpath={.status.conditions[?(@.type=="RestartRequired")].message}`
	if err := s.awaitOutput(ctx, s.alice, condition, "memory hotplug not supported"); err != nil {
		return err
	}
	s.prose("The status of the command has the fields, and since when they are pending:")
	if err := s.awaitOutput(ctx, s.alice, "kubectl virtward rollout status orders", "domain.memory.guest"); err != nil {
		return err
	}
	if err := s.doesAll(ctx, s.alice, "kubectl virtward rollout status orders", fmt.Sprintf(patch, "2Gi")); err != nil {
		return err
	}
	return s.awaitNothing(ctx, "kubectl get vm orders -o jsonpath={.status.conditions[?(@.type==\"RestartRequired\")].status}")
}

// awaitNothing waits until a command of Alice prints nothing.
func (s *show) awaitNothing(ctx context.Context, line string) error {
	return await(ctx, func(ctx context.Context) (string, error) {
		output, err := s.call(ctx, s.alice, line)
		return strings.TrimSpace(output), err
	})
}

// changesMachine changes the machine type.
func (s *show) changesMachine(ctx context.Context) error {
	s.prose("In CI, a change that needs a restart can fail the job:")
	return s.isRejected(ctx, s.alice, "kubectl virtward rollout plan vm/orders --set domain.machine.type=pc-q35-9.0 --fail-on restart",
		"domain.machine.type", "Restart", "KubeVirt applies this field only when the VM starts.")
}

// cannotMigrate changes a VM that cannot be migrated.
func (s *show) cannotMigrate(ctx context.Context) error {
	s.prose(`A VM that cannot be migrated: KubeVirt writes the sockets to its instance, announces no restart, and the guest
		never gets them. The warning of Virtward has the reason.`)
	if err := s.runsVM(ctx, bridgedFile, "legacy-orders"); err != nil {
		return err
	}
	output, err := s.does(ctx, s.alice, `kubectl patch vm legacy-orders --type merge -p {"spec":{"template":{"spec":{"domain":{"cpu":{"sockets":4}}}}}}`)
	if err != nil {
		return err
	}
	if err := says(output, "Warning: spec.template.spec.domain.cpu.sockets: takes effect when the VM restarts.", "the VM cannot be migrated: cannot migrate VMI which does not use masquerade"); err != nil {
		return err
	}
	if err := s.awaitOutput(ctx, s.alice, `kubectl get vmi legacy-orders -o jsonpath={.status.conditions[?(@.type=="HotVCPUChange")].status}`, "True"); err != nil {
		return err
	}
	if output, err = s.call(ctx, s.alice, `kubectl get vm legacy-orders -o jsonpath={.status.conditions[?(@.type=="RestartRequired")].status}`); err != nil || output != "" {
		return fmt.Errorf("KubeVirt announces a restart: %s, %w", output, err)
	}
	s.checked("KubeVirt announces no restart, and the plan says that one is needed.")
	return s.quietly(ctx, s.alice, "kubectl config set-context --current --namespace "+namespace)
}
