package simulators

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	queue "sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/test/simulators/liveupdates"
)

// byInstance is the index of migrations by their VMI.
const byInstance = "spec.vmiName"

// retryAfter is how long the workload updater waits after a migration that has failed.
const retryAfter = 5 * time.Second

func indexMigrations(ctx context.Context, m manager.Manager) error {
	return m.GetFieldIndexer().IndexField(ctx, &kubevirtv1.VirtualMachineInstanceMigration{}, byInstance, func(o client.Object) []string {
		return []string{o.(*kubevirtv1.VirtualMachineInstanceMigration).Spec.VMIName}
	})
}

func instanceOf(_ context.Context, o client.Object) []reconcile.Request {
	name := o.(*kubevirtv1.VirtualMachineInstanceMigration).Spec.VMIName
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}

func migrationsOf(reader client.Reader) queue.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		var requests []reconcile.Request
		list, _ := migrationsFor(ctx, reader, client.ObjectKeyFromObject(o)) // the next event tries again
		for i := range list {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list[i])})
		}
		return requests
	}
}

// migrationsFor are the migrations of a VMI.
func migrationsFor(ctx context.Context, reader client.Reader, vmi client.ObjectKey) ([]kubevirtv1.VirtualMachineInstanceMigration, error) {
	list := &kubevirtv1.VirtualMachineInstanceMigrationList{}
	err := reader.List(ctx, list, client.InNamespace(vmi.Namespace), client.MatchingFields{byInstance: vmi.Name})
	return list.Items, err
}

func migrating(vmi *kubevirtv1.VirtualMachineInstance) bool {
	m := vmi.Status.MigrationState
	return m != nil && m.StartTimestamp != nil && m.EndTimestamp == nil
}

// updateWorkload is the workload updater: it migrates or evicts a VMI whose changes wait for it, as KubeVirt is configured.
func (r *vmiReconciler) updateWorkload(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance) error {
	if !liveupdates.Waits(vmi) || migrating(vmi) {
		return nil
	}
	kubevirt := &kubevirtv1.KubeVirt{}
	if err := r.controller.Get(ctx, Name, kubevirt); err != nil {
		return client.IgnoreNotFound(err)
	}
	methods := kubevirt.Spec.WorkloadUpdateStrategy.WorkloadUpdateMethods
	migratable := holds(vmi, kubevirtv1.VirtualMachineInstanceIsMigratable)
	evicts := slices.Contains(methods, kubevirtv1.WorkloadUpdateMethodEvict)
	switch {
	case migratable && (slices.Contains(methods, kubevirtv1.WorkloadUpdateMethodLiveMigrate) || evicts && evictionMigrates(vmi, &kubevirt.Spec.Configuration)):
		return r.migrate(ctx, vmi)
	case evicts: // the pod ends, and the guest with it
		vmi.Status.Phase = kubevirtv1.Succeeded
		return r.controller.Update(ctx, vmi)
	}
	return nil
}

func evictionMigrates(vmi *kubevirtv1.VirtualMachineInstance, configuration *kubevirtv1.KubeVirtConfiguration) bool {
	strategy := vmi.Spec.EvictionStrategy
	if strategy == nil {
		strategy = configuration.EvictionStrategy
	}
	return strategy != nil && (*strategy == kubevirtv1.EvictionStrategyLiveMigrate || *strategy == kubevirtv1.EvictionStrategyLiveMigrateIfPossible)
}

func holds(vmi *kubevirtv1.VirtualMachineInstance, kind kubevirtv1.VirtualMachineInstanceConditionType) bool {
	return slices.ContainsFunc(vmi.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

// migrate creates a migration, unless one is in progress or has failed recently. The name is that of the state of the VMI,
// so that an old cache does not create a second one.
func (r *vmiReconciler) migrate(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance) error {
	existing, err := migrationsFor(ctx, r.controller, client.ObjectKeyFromObject(vmi))
	if err != nil {
		return err
	}
	for i := range existing {
		if m := &existing[i]; !m.IsFinal() || m.Status.Phase == kubevirtv1.MigrationFailed && time.Since(m.CreationTimestamp.Time) < retryAfter {
			return nil
		}
	}
	return client.IgnoreAlreadyExists(r.controller.Create(ctx, &kubevirtv1.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: vmi.Namespace, Name: "kubevirt-workload-update-" + vmi.Name + "-" + vmi.ResourceVersion,
			Annotations: map[string]string{kubevirtv1.WorkloadUpdateMigrationAnnotation: ""},
		},
		Spec: kubevirtv1.VirtualMachineInstanceMigrationSpec{VMIName: vmi.Name},
	}))
}

// nextMigrationPhase has the phases of a migration that succeeds; KubeVirt has more of them.
var nextMigrationPhase = map[kubevirtv1.VirtualMachineInstanceMigrationPhase]kubevirtv1.VirtualMachineInstanceMigrationPhase{
	kubevirtv1.MigrationPhaseUnset: kubevirtv1.MigrationPending,
	kubevirtv1.MigrationPending:    kubevirtv1.MigrationScheduling,
	kubevirtv1.MigrationScheduling: kubevirtv1.MigrationRunning,
	kubevirtv1.MigrationRunning:    kubevirtv1.MigrationSucceeded,
}

// migrationReconciler is virt-controller's and virt-handler's part for migrations.
type migrationReconciler struct {
	controller, handler client.Client
	live                client.Reader
	pacer               *pacer
}

// read reads the VMI of a migration, which can be absent. The cache can be older than the phase of the migration.
func (r *migrationReconciler) read(ctx context.Context, migration *kubevirtv1.VirtualMachineInstanceMigration, vmi *kubevirtv1.VirtualMachineInstance) error {
	key := client.ObjectKey{Namespace: migration.Namespace, Name: migration.Spec.VMIName}
	err := r.controller.Get(ctx, key, vmi)
	if err == nil && migration.Status.Phase == kubevirtv1.MigrationRunning && !isOf(migration, vmi) {
		err = r.live.Get(ctx, key, vmi)
	}
	return client.IgnoreNotFound(err)
}

// isOf reports whether a VMI has the state of a migration.
func isOf(migration *kubevirtv1.VirtualMachineInstanceMigration, vmi *kubevirtv1.VirtualMachineInstance) bool {
	return vmi.Status.MigrationState != nil && vmi.Status.MigrationState.MigrationUID == migration.UID
}

// Reconcile sets the next phase of a migration, and what it makes of its VMI.
func (r *migrationReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	migration := &kubevirtv1.VirtualMachineInstanceMigration{}
	if err := r.controller.Get(ctx, request.NamespacedName, migration); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if migration.IsFinal() {
		return again(r.finalize(ctx, migration))
	}
	key := client.ObjectKey{Namespace: migration.Namespace, Name: migration.Spec.VMIName}
	vmi, vm := &kubevirtv1.VirtualMachineInstance{}, &kubevirtv1.VirtualMachine{}
	if err := errors.Join(r.read(ctx, migration, vmi), client.IgnoreNotFound(r.controller.Get(ctx, key, vm))); err != nil {
		return ctrl.Result{}, err
	}
	phase, own := nextMigrationPhase[migration.Status.Phase], isOf(migration, vmi)
	why, fails := requested(vm, MigrationFails)
	_, gone := requested(vm, NodeGone)
	switch {
	case vmi.UID == "" || vmi.IsFinal() || vmi.DeletionTimestamp != nil:
		return again(r.end(ctx, migration, nil, "the VMI does not run"))
	case migration.DeletionTimestamp != nil:
		return again(r.end(ctx, migration, vmi, "the migration was aborted"))
	case !holds(vmi, kubevirtv1.VirtualMachineInstanceIsMigratable):
		return again(r.end(ctx, migration, vmi, "the VMI cannot be migrated"))
	case phase != kubevirtv1.MigrationPending && (gone || migrating(vmi) && !own):
		return ctrl.Result{}, nil // it waits
	case phase == kubevirtv1.MigrationSucceeded && fails:
		return again(r.end(ctx, migration, vmi, why))
	}
	if left := r.pacer.left(migration.UID); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	if err := r.migrate(ctx, migration, vmi, phase); err != nil {
		return again(err)
	}
	return again(r.write(ctx, migration, phase, vmi.Status.MigrationState))
}

// migrate changes the VMI before its migration gets a phase.
func (r *migrationReconciler) migrate(ctx context.Context, migration *kubevirtv1.VirtualMachineInstanceMigration, vmi *kubevirtv1.VirtualMachineInstance, phase kubevirtv1.VirtualMachineInstanceMigrationPhase) error {
	state, own := vmi.Status.MigrationState, isOf(migration, vmi)
	switch {
	case phase == kubevirtv1.MigrationPending && controllerutil.AddFinalizer(migration, kubevirtv1.VirtualMachineInstanceMigrationFinalizer):
		if migration.Labels == nil {
			migration.Labels = map[string]string{}
		}
		migration.Labels[kubevirtv1.MigrationSelectorLabel] = vmi.Name
		return r.controller.Update(ctx, migration)
	case phase == kubevirtv1.MigrationRunning && !own:
		vmi.Status.MigrationState = &kubevirtv1.VirtualMachineInstanceMigrationState{
			MigrationUID: migration.UID, StartTimestamp: new(metav1.Now()), SourceNode: vmi.Status.NodeName, TargetNode: otherNode(vmi.Status.NodeName), Mode: kubevirtv1.MigrationPreCopy,
		}
		return r.handler.Update(ctx, vmi)
	case phase == kubevirtv1.MigrationSucceeded && own && state.EndTimestamp == nil:
		state.EndTimestamp, state.Completed = new(metav1.Now()), true
		vmi.Status.NodeName = state.TargetNode
		liveupdates.Migrated(vmi)
		return r.handler.Update(ctx, vmi)
	}
	return nil
}

func otherNode(name string) string {
	if name == sourceNode {
		return sourceNode + "-2"
	}
	return sourceNode
}

// end fails a migration, and frees its VMI.
func (r *migrationReconciler) end(ctx context.Context, migration *kubevirtv1.VirtualMachineInstanceMigration, vmi *kubevirtv1.VirtualMachineInstance, why string) error {
	var state *kubevirtv1.VirtualMachineInstanceMigrationState
	if vmi != nil && isOf(migration, vmi) {
		state = vmi.Status.MigrationState
		if state.EndTimestamp == nil {
			state.EndTimestamp, state.Failed, state.Completed, state.FailureReason = new(metav1.Now()), true, true, why
			if err := r.handler.Update(ctx, vmi); err != nil {
				return err
			}
		}
	}
	if state == nil {
		state = &kubevirtv1.VirtualMachineInstanceMigrationState{MigrationUID: migration.UID, Failed: true, FailureReason: why}
	}
	return r.write(ctx, migration, kubevirtv1.MigrationFailed, state)
}

func (r *migrationReconciler) write(ctx context.Context, migration *kubevirtv1.VirtualMachineInstanceMigration, phase kubevirtv1.VirtualMachineInstanceMigrationPhase, state *kubevirtv1.VirtualMachineInstanceMigrationState) error {
	migration.Status.Phase = phase
	if state != nil && state.MigrationUID == migration.UID {
		migration.Status.MigrationState = state
	}
	migration.Status.PhaseTransitionTimestamps = append(migration.Status.PhaseTransitionTimestamps, kubevirtv1.VirtualMachineInstanceMigrationPhaseTransitionTimestamp{
		Phase: phase, PhaseTransitionTimestamp: metav1.Now(),
	})
	return r.controller.Status().Update(ctx, migration)
}

// finalize lets a migration go that has ended.
func (r *migrationReconciler) finalize(ctx context.Context, migration *kubevirtv1.VirtualMachineInstanceMigration) error {
	if !controllerutil.RemoveFinalizer(migration, kubevirtv1.VirtualMachineInstanceMigrationFinalizer) {
		return nil
	}
	return r.controller.Update(ctx, migration)
}
