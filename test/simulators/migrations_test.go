package simulators

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/virtward/virtward/test/controlplane"
)

// TestReadsTheStateOfAMigration: a migration that runs has its state in the VMI, also if the cache is older.
func TestReadsTheStateOfAMigration(t *testing.T) {
	scheme, err := controlplane.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	const uid types.UID = "m"
	old := &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	now := old.DeepCopy()
	now.Status.MigrationState = &kubevirtv1.VirtualMachineInstanceMigrationState{MigrationUID: uid}
	r := &migrationReconciler{
		controller: fake.NewClientBuilder().WithScheme(scheme).WithObjects(old).Build(),
		live:       fake.NewClientBuilder().WithScheme(scheme).WithObjects(now).Build(),
	}
	for phase, want := range map[kubevirtv1.VirtualMachineInstanceMigrationPhase]bool{
		kubevirtv1.MigrationScheduling: false, // the state comes with the next phase
		kubevirtv1.MigrationRunning:    true,
	} {
		migration := &kubevirtv1.VirtualMachineInstanceMigration{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m", UID: uid}}
		migration.Spec.VMIName, migration.Status.Phase = "web", phase
		vmi := &kubevirtv1.VirtualMachineInstance{}
		if err := r.read(t.Context(), migration, vmi); err != nil || isOf(migration, vmi) != want {
			t.Errorf("%s: %v, the state of the VMI is %+v", phase, err, vmi.Status.MigrationState)
		}
	}
}
