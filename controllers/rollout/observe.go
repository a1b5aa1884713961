package rollout

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/rollouts/fleet"
)

// observed is what one reconciliation works with.
type observed struct {
	input     fleet.Input
	requester authenticationv1.UserInfo
	// vms are the selected virtual machines, by the index of their machines.
	vms []*vmRecord
}

// observe reads what the decision needs. Virtual machines are read before their instances: a restart that a virtual
// machine no longer shows is visible in its instance.
func (r *Reconciler) observe(ctx context.Context, rollout *v1alpha1.VirtualMachineRollout) (*observed, error) {
	o := &observed{input: fleet.Input{Rollout: rollout, Now: r.Clock.Now()}}
	selector, err := metav1.LabelSelectorAsSelector(&rollout.Spec.Selector)
	if err != nil {
		o.input.Invalid = fmt.Sprintf("spec.selector: %s", err)
		return o, nil
	}
	if o.input.Invalid = invalid(rollout); o.input.Invalid != "" {
		return o, nil
	}
	others, err := r.others(ctx, rollout)
	if err != nil {
		return nil, err
	}
	if tooMany(others) {
		o.input.Invalid = fmt.Sprintf("the namespace has more than %d active rollouts: this one waits for older ones", maxActive)
		return o, nil
	}
	if err := r.authorize(ctx, o); err != nil {
		return nil, err
	}
	if o.vms, err = r.selected(ctx, rollout, selector); err != nil {
		return nil, err
	}
	return o, r.join(ctx, o, others)
}

// selected reads the virtual machines that a rollout selects, sorted by name as the API server lists them.
func (r *Reconciler) selected(ctx context.Context, rollout *v1alpha1.VirtualMachineRollout, selector labels.Selector) (found []*vmRecord, err error) {
	list := pages.List{Resource: apikinds.VirtualMachines.GroupVersionResource(), Form: pages.JSON, Namespace: rollout.Namespace, LabelSelector: selector.String()}
	_, err = r.Pages.Each(ctx, list, func(object pages.Object) error {
		record, ok, err := readVM(&object)
		if err != nil {
			return fmt.Errorf("reading VirtualMachine %s: %w", object.Name, err)
		}
		if ok {
			found = append(found, record)
		}
		return nil
	})
	return found, err
}

// join reads instances, migrations and budgets, and makes the machines of the decision.
func (r *Reconciler) join(ctx context.Context, o *observed, others []other) error {
	rollout := o.input.Rollout
	wanted := make(map[string]*vmiRecord, len(o.vms))
	for _, vm := range o.vms {
		wanted[vm.name] = nil
	}
	if err := r.instances(ctx, rollout.Namespace, wanted); err != nil {
		return err
	}
	migrations, err := r.migrations(ctx, rollout.Namespace)
	if err != nil {
		return err
	}
	selectors, err := r.budgets(ctx, o)
	if err != nil {
		return err
	}
	for _, vm := range o.vms {
		m := machineOf(rollout, vm, wanted[vm.name])
		m.WaitsFor = waitsFor(others, vm)
		if vmi := wanted[vm.name]; vmi != nil && m.Instance.UID != "" {
			for b := range selectors {
				if selectors[b].Matches(vmi.launcher) {
					m.Budgets = append(m.Budgets, b)
				}
			}
		}
		o.input.Machines = append(o.input.Machines, m)
	}
	o.migrations(migrations)
	return r.outcomes(ctx, o, wanted)
}

// machineOf is a machine without its outcome and its migrations.
func machineOf(rollout *v1alpha1.VirtualMachineRollout, vm *vmRecord, vmi *vmiRecord) fleet.Machine {
	m := fleet.Machine{Name: vm.name, UID: vm.uid, Generation: vm.generation, Marked: vm.isMarked(rollout)}
	if vmi != nil && vmi.owner == vm.uid {
		m.Instance, m.VolumesMigrate = vmi.instance, vmi.volumesMigrate
		m.Migration.Active, m.Migration.Ended = vmi.migrates, vmi.migrated
		m.RestartRequested = fleet.RestartRequested(vm.vm(), vmi.instance.UID)
	}
	if state := vm.status.VolumeUpdateState; state != nil && state.VolumeMigrationState != nil && len(state.VolumeMigrationState.MigratedVolumes) > 0 {
		m.VolumesMigrate = true
	}
	if strategy, err := vm.vm().RunStrategy(); err == nil {
		m.Strategy = strategy
	}
	m.Stopped = fleet.Stopped(vm.vm(), m.Instance.UID != "" && !m.Instance.Deleting || m.Instance.UID != "" && m.Strategy == kubevirtv1.RunStrategyAlways)
	return m
}

// instances reads the instances of the virtual machines in the map.
func (r *Reconciler) instances(ctx context.Context, namespace string, wanted map[string]*vmiRecord) error {
	list := pages.List{Resource: apikinds.VirtualMachineInstances.GroupVersionResource(), Form: pages.JSON, Namespace: namespace}
	_, err := r.Pages.Each(ctx, list, func(object pages.Object) error {
		if object.JSON == nil {
			return nil // its virtual machine counts as down
		}
		var name struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if err := decodeInto(object.JSON, &name); err != nil {
			return err
		}
		if _, ok := wanted[name.Metadata.Name]; !ok {
			return nil
		}
		record, err := readVMI(&object)
		if err != nil {
			return fmt.Errorf("reading VirtualMachineInstance %s: %w", name.Metadata.Name, err)
		}
		wanted[strings.Clone(name.Metadata.Name)] = record
		return nil
	})
	return err
}

// migrations reads the migrations of the namespace.
func (r *Reconciler) migrations(ctx context.Context, namespace string) (found []migrationRecord, err error) {
	list := pages.List{Resource: apikinds.Migrations.GroupVersionResource(), Form: pages.JSON, Namespace: namespace}
	_, err = r.Pages.Each(ctx, list, func(object pages.Object) error {
		if object.JSON == nil {
			return nil
		}
		m, err := readMigration(&object)
		if err != nil {
			return fmt.Errorf("reading a VirtualMachineInstanceMigration: %w", err)
		}
		if !m.final || m.rollout != "" {
			found = append(found, m)
		}
		return nil
	})
	return found, err
}

// migrations adds migrations to the machines.
func (o *observed) migrations(found []migrationRecord) {
	index := make(map[string]*fleet.Machine, len(o.input.Machines))
	for i := range o.input.Machines {
		index[o.input.Machines[i].Name] = &o.input.Machines[i]
	}
	rollout := o.input.Rollout
	awaited := make(map[string]bool, len(rollout.Status.VirtualMachines))
	for i := range rollout.Status.VirtualMachines {
		awaited[rollout.Status.VirtualMachines[i].Migration] = true
	}
	for i := range found {
		f := &found[i]
		m := index[f.instance]
		if m != nil && !f.final {
			m.Migration.Active = true
		}
		if f.rollout != string(rollout.UID) {
			continue
		}
		o.input.Migrations = append(o.input.Migrations, fleet.OwnMigration{Name: f.name, Machine: f.instance, Final: f.final})
		if m != nil && awaited[f.name] {
			m.Migration.Name, m.Migration.Succeeded, m.Migration.Failed, m.Migration.Reason = f.name, f.succeeded, f.final && !f.succeeded, f.reason
		}
	}
}

// budgets reads the PodDisruptionBudgets of the namespace, without those of KubeVirt.
func (r *Reconciler) budgets(ctx context.Context, o *observed) (selectors []labels.Selector, err error) {
	list := &policyv1.PodDisruptionBudgetList{}
	for more := true; more; more = list.Continue != "" {
		if err := r.Client.List(ctx, list, client.InNamespace(o.input.Rollout.Namespace), client.Limit(100), client.Continue(list.Continue)); err != nil {
			return nil, fmt.Errorf("listing PodDisruptionBudgets: %w", err)
		}
		for i := range list.Items {
			b := &list.Items[i]
			if owner := metav1.GetControllerOf(b); owner != nil && strings.HasPrefix(owner.APIVersion, apikinds.VirtualMachines.Group+"/") {
				continue
			}
			selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
			if err != nil {
				continue // the API server validates it
			}
			allowed := b.Status.DisruptionsAllowed
			if b.Status.ObservedGeneration < b.Generation {
				allowed = 0 // it is not known yet
			}
			o.input.Budgets, selectors = append(o.input.Budgets, fleet.Budget{Name: b.Name, Allowed: allowed}), append(selectors, selector)
		}
	}
	return selectors, nil
}
