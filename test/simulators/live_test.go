package simulators

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/simulators/liveupdates"
)

func TestLiveUpdates(t *testing.T) {
	c := pool.Take(t)
	kubevirt, err := InstallKubeVirt(t.Context(), c, kubevirtv1.KubeVirtConfiguration{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kubevirt.Stop(context.WithoutCancel(t.Context())) })
	l := &liveCluster{t: t, c: c, client: c.Client()}
	t.Run("sockets wait for a migration, and get it", l.sockets)
	t.Run("memory beyond the maximum needs a restart, and a revert clears it", l.memory)
	t.Run("a cold field needs a restart, which is once", l.restart)
	t.Run("a VM with the strategy Manual stops, starts and restarts", l.manual)
	t.Run("subresources need their permissions", l.permissions)
	t.Run("failures on demand", l.failures)
}

type liveCluster struct {
	t      *testing.T
	c      *controlplane.ControlPlane
	client client.Client
}

// sized is a VM with two sockets and 2 GiB.
func sized(name string, strategy kubevirtv1.VirtualMachineRunStrategy) *kubevirtv1.VirtualMachine {
	vm := machine(name, strategy)
	vm.Spec.Template.Spec.Domain.CPU = &kubevirtv1.CPU{Sockets: 2, Cores: 1, Threads: 1}
	vm.Spec.Template.Spec.Domain.Memory = &kubevirtv1.Memory{Guest: new(resource.MustParse("2Gi"))}
	return vm
}

func (l *liveCluster) create(t *testing.T, vm *kubevirtv1.VirtualMachine) *kubevirtv1.VirtualMachineInstance {
	t.Helper()
	if err := l.client.Create(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	return awaitRunning(t, l.c, vm.Name)
}

func (l *liveCluster) change(t *testing.T, name string, edit func(*kubevirtv1.VirtualMachine)) {
	t.Helper()
	eventually(t, "changing "+name, func(ctx context.Context) error {
		vm := &kubevirtv1.VirtualMachine{}
		if err := l.client.Get(ctx, key(name), vm); err != nil {
			return err
		}
		edit(vm)
		return l.client.Update(ctx, vm)
	})
}

// vmi waits until the VMI of a VM is as expected.
func (l *liveCluster) vmi(t *testing.T, name string, check func(*kubevirtv1.VirtualMachineInstance) error) {
	t.Helper()
	eventually(t, "VMI "+name, func(ctx context.Context) error {
		vmi := &kubevirtv1.VirtualMachineInstance{}
		if err := l.client.Get(ctx, key(name), vmi); err != nil {
			return err
		}
		return check(vmi)
	})
}

// vm waits until a VM has a message in its condition RestartRequired; empty means that it does not have the condition.
func (l *liveCluster) restartRequired(t *testing.T, name, message string) {
	t.Helper()
	eventually(t, "RestartRequired of "+name, func(ctx context.Context) error {
		vm := &kubevirtv1.VirtualMachine{}
		if err := l.client.Get(ctx, key(name), vm); err != nil {
			return err
		}
		got := ""
		for _, c := range vm.Status.Conditions {
			if c.Type == kubevirtv1.VirtualMachineRestartRequired {
				got = c.Message
			}
		}
		if got != message {
			return fmt.Errorf("message %q, want %q", got, message)
		}
		return nil
	})
}

func (l *liveCluster) methods(t *testing.T, methods ...kubevirtv1.WorkloadUpdateMethod) {
	t.Helper()
	kubevirt := &kubevirtv1.KubeVirt{}
	if err := l.client.Get(t.Context(), Name, kubevirt); err != nil {
		t.Fatal(err)
	}
	kubevirt.Spec.WorkloadUpdateStrategy.WorkloadUpdateMethods = methods
	if err := l.client.Update(t.Context(), kubevirt); err != nil {
		t.Fatal(err)
	}
}

func (l *liveCluster) sockets(t *testing.T) {
	vmi := l.create(t, sized("plug", kubevirtv1.RunStrategyAlways))
	if vmi.Spec.Domain.CPU.MaxSockets != 8 || vmi.Spec.Domain.Memory.MaxGuest.String() != "8Gi" {
		t.Fatalf("the maxima are %d sockets and %s", vmi.Spec.Domain.CPU.MaxSockets, vmi.Spec.Domain.Memory.MaxGuest)
	}
	l.change(t, "plug", func(vm *kubevirtv1.VirtualMachine) { vm.Spec.Template.Spec.Domain.CPU.Sockets = 4 })
	l.vmi(t, "plug", func(vmi *kubevirtv1.VirtualMachineInstance) error {
		if vmi.Spec.Domain.CPU.Sockets != 4 || !holds(vmi, kubevirtv1.VirtualMachineInstanceVCPUChange) || vmi.Status.CurrentCPUTopology.Sockets != 2 {
			return fmt.Errorf("sockets %d, conditions %+v", vmi.Spec.Domain.CPU.Sockets, vmi.Status.Conditions)
		}
		return nil
	})
	l.methods(t, kubevirtv1.WorkloadUpdateMethodLiveMigrate)
	defer l.methods(t)
	l.vmi(t, "plug", func(vmi *kubevirtv1.VirtualMachineInstance) error {
		state := vmi.Status.MigrationState
		if state == nil || !state.Completed || state.Failed || vmi.Status.NodeName != "sandbox-2" || liveupdates.Waits(vmi) || vmi.Status.CurrentCPUTopology.Sockets != 4 {
			return fmt.Errorf("migration %+v, node %s, conditions %+v", state, vmi.Status.NodeName, vmi.Status.Conditions)
		}
		return nil
	})
	list := &kubevirtv1.VirtualMachineInstanceMigrationList{}
	if err := l.client.List(t.Context(), list); err != nil || len(list.Items) != 1 {
		t.Fatalf("%d migrations, want one: %v", len(list.Items), err)
	}
	l.restartRequired(t, "plug", "")
}

func (l *liveCluster) memory(t *testing.T) {
	l.create(t, sized("memory", kubevirtv1.RunStrategyAlways))
	guest := func(size string) func(*kubevirtv1.VirtualMachine) {
		return func(vm *kubevirtv1.VirtualMachine) {
			vm.Spec.Template.Spec.Domain.Memory.Guest = new(resource.MustParse(size))
		}
	}
	for size, message := range map[string]string{
		"16Gi":       "memory hotplug not supported, Guest memory is greater than the configured maxGuest memory",
		"1Gi":        "memory updated in template spec to a value lower than what the VM started with",
		"2148532225": "memory hotplug not supported, Guest memory must be 2Mi aligned",
	} {
		l.change(t, "memory", guest(size))
		l.restartRequired(t, "memory", message)
		l.change(t, "memory", guest("2Gi"))
		l.restartRequired(t, "memory", "")
	}
}

func (l *liveCluster) restart(t *testing.T) {
	first := l.create(t, sized("cold", kubevirtv1.RunStrategyAlways))
	l.change(t, "cold", func(vm *kubevirtv1.VirtualMachine) { vm.Spec.Template.Spec.Hostname = "other" })
	l.restartRequired(t, "cold", liveupdates.ColdMessage)
	if err := put(l.c.Config(), "cold", "restart"); err != nil {
		t.Fatal(err)
	}
	l.restartRequired(t, "cold", "")
	l.restarted(t, "cold", first.UID, "other")
}

// restarted waits until a VM has another VMI than before, and no request.
func (l *liveCluster) restarted(t *testing.T, name string, before types.UID, hostname string) {
	t.Helper()
	l.vmi(t, name, func(vmi *kubevirtv1.VirtualMachineInstance) error {
		if vmi.UID == before || vmi.Status.Phase != kubevirtv1.Running || vmi.Spec.Hostname != hostname {
			return fmt.Errorf("VMI %s in the phase %s", vmi.UID, vmi.Status.Phase)
		}
		vm := &kubevirtv1.VirtualMachine{}
		if err := l.client.Get(t.Context(), key(name), vm); err != nil {
			return err
		}
		if len(vm.Status.StateChangeRequests) > 0 || !vm.Status.Ready {
			return fmt.Errorf("status %+v", vm.Status)
		}
		return nil
	})
}

// put calls a subresource of a VM.
func put(config *rest.Config, name, subresource string) error {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return clients.RESTClient().Put().AbsPath("/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines", name, subresource).
		Body([]byte("{}")).Do(context.Background()).Error()
}

func (l *liveCluster) manual(t *testing.T) {
	vm := sized("manual", kubevirtv1.RunStrategyManual)
	if err := l.client.Create(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	admin := l.c.Config()
	if err := put(admin, "manual", "restart"); !apierrors.IsConflict(err) {
		t.Errorf("restart of a stopped VM: %v", err)
	}
	eventually(t, "starting", func(context.Context) error { return put(admin, "manual", "start") })
	first := awaitRunning(t, l.c, "manual")
	eventually(t, "restarting", func(context.Context) error { return put(admin, "manual", "restart") })
	l.restarted(t, "manual", first.UID, "")
	if err := put(admin, "manual", "stop"); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, l.c, &kubevirtv1.VirtualMachineInstance{}, "manual")
	if err := put(admin, "manual", "stop"); !apierrors.IsConflict(err) {
		t.Errorf("stop of a stopped VM: %v", err)
	}
}

func (l *liveCluster) permissions(t *testing.T) {
	l.create(t, sized("guarded", kubevirtv1.RunStrategyAlways))
	config, err := l.c.UserConfig("operator")
	if err != nil {
		t.Fatal(err)
	}
	if err := put(config, "guarded", "restart"); !apierrors.IsForbidden(err) {
		t.Fatalf("without the permission: %v", err)
	}
	meta := metav1.ObjectMeta{Namespace: "default", Name: "restarts"}
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{allow("subresources.kubevirt.io", []string{"virtualmachines/restart"}, "update")}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "operator"}},
		},
	} {
		if err := l.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "restarting", func(context.Context) error { return put(config, "guarded", "restart") })
	if err := put(config, "guarded", "stop"); !apierrors.IsForbidden(err) {
		t.Errorf("stop with the permission to restart: %v", err)
	}
}

func (l *liveCluster) failures(t *testing.T) {
	vm := sized("failing", kubevirtv1.RunStrategyAlways)
	vm.Annotations = map[string]string{NeverReady: "no boot device", NoAgent: "", RestartFails: "409", MigrationFails: "no space"}
	vmi := l.create(t, vm)
	if holds(vmi, kubevirtv1.VirtualMachineInstanceReady) || holds(vmi, kubevirtv1.VirtualMachineInstanceAgentConnected) {
		t.Errorf("conditions %+v", vmi.Status.Conditions)
	}
	for code, want := range map[string]int32{"409": http.StatusConflict, "500": http.StatusInternalServerError} {
		l.annotate(t, RestartFails, code)
		var status apierrors.APIStatus
		if err := put(l.c.Config(), "failing", "restart"); !errors.As(err, &status) || status.Status().Code != want {
			t.Errorf("restart: %v, want %d", err, want)
		}
	}
	l.methods(t, kubevirtv1.WorkloadUpdateMethodLiveMigrate)
	defer l.methods(t)
	l.change(t, "failing", func(vm *kubevirtv1.VirtualMachine) { vm.Spec.Template.Spec.Domain.CPU.Sockets = 3 })
	l.vmi(t, "failing", func(vmi *kubevirtv1.VirtualMachineInstance) error {
		if m := vmi.Status.MigrationState; m == nil || !m.Failed || m.FailureReason != "no space" || !holds(vmi, kubevirtv1.VirtualMachineInstanceVCPUChange) {
			return fmt.Errorf("migration %+v", m)
		}
		return nil
	})
	l.change(t, "failing", func(vm *kubevirtv1.VirtualMachine) { vm.Annotations = map[string]string{NotMigratable: "a device"} })
	l.vmi(t, "failing", func(vmi *kubevirtv1.VirtualMachineInstance) error {
		if !holds(vmi, kubevirtv1.VirtualMachineInstanceReady) || holds(vmi, kubevirtv1.VirtualMachineInstanceIsMigratable) {
			return fmt.Errorf("conditions %+v", vmi.Status.Conditions)
		}
		return nil
	})
	if err := put(l.c.Config(), "failing", "migrate"); !apierrors.IsInvalid(err) {
		t.Errorf("a migration of a VMI that cannot be migrated: %v", err)
	}
	l.annotate(t, NodeGone, "")
	l.vmi(t, "failing", func(vmi *kubevirtv1.VirtualMachineInstance) error {
		if slices.ContainsFunc(vmi.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool {
			return c.Type == kubevirtv1.VirtualMachineInstanceReady && c.Status == corev1.ConditionFalse
		}) {
			return nil
		}
		return errors.New("it is ready")
	})
	if err := put(l.c.Config(), "failing", "restart"); err != nil {
		t.Fatal(err)
	}
	l.vmi(t, "failing", func(vmi *kubevirtv1.VirtualMachineInstance) error {
		if vmi.DeletionTimestamp == nil {
			return errors.New("it is not deleted")
		}
		return nil
	})
	before := vmi.UID
	l.change(t, "failing", func(vm *kubevirtv1.VirtualMachine) { vm.Annotations = nil })
	l.restarted(t, "failing", before, "")
}

func (l *liveCluster) annotate(t *testing.T, annotation, value string) {
	t.Helper()
	l.change(t, "failing", func(vm *kubevirtv1.VirtualMachine) {
		if vm.Annotations == nil {
			vm.Annotations = map[string]string{}
		}
		vm.Annotations[annotation] = value
	})
}
