package simulators

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	kubevirtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	queue "sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/virtward/virtward/test/controlplane"
)

// ReasonFailedCreate is that of virt-controller's event on a VM whose VMI is rejected; its message quotes the rejection.
const ReasonFailedCreate = "FailedCreate"

// VirtController simulates KubeVirt's virt-controller and virt-handler: it makes VMIs from VMs that are to
// run, walks VMIs through their phases, applies live updates, migrates VMIs, and takes away what a deletion waits for.
type VirtController struct {
	stop  context.CancelFunc
	done  chan error
	log   *os.File
	pacer *pacer
	// volumes is true after CreateVolumes.
	volumes *atomic.Bool
}

// StartVirtController runs the simulation under KubeVirt's own service accounts, until Stop. A nil
// expand reads instancetypes and preferences from the cluster, as virt-controller does.
func StartVirtController(ctx context.Context, c *controlplane.ControlPlane, expand Expand) (*VirtController, error) {
	if expand == nil {
		expand = expandFromCluster
	}
	if err := ensureAccounts(ctx, c); err != nil {
		return nil, err
	}
	controllerConfig, err := c.ServiceAccountConfig(ctx, Namespace, ControllerAccount)
	if err != nil {
		return nil, err
	}
	handlerConfig, err := c.ServiceAccountConfig(ctx, Namespace, HandlerAccount)
	if err != nil {
		return nil, err
	}
	scheme, err := controlplane.Scheme()
	if err != nil {
		return nil, err
	}
	controllerConfig.QPS, handlerConfig.QPS = -1, -1
	handler, err := client.New(handlerConfig, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	accounts, err := kubernetes.NewForConfig(controllerConfig)
	if err != nil {
		return nil, err
	}
	events := record.NewBroadcaster()
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: accounts.CoreV1().Events("")})
	log, err := os.Create(filepath.Join(c.Dir(), "virt-controller-simulator.log"))
	if err != nil {
		return nil, err
	}
	manager, err := ctrl.NewManager(controllerConfig, ctrl.Options{
		Logger:     logTo(log),
		Scheme:     scheme,
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true), MaxConcurrentReconciles: 4}, // one process may simulate many clusters
	})
	if err != nil {
		return nil, err
	}
	pacer, volumes := newPacer(), &atomic.Bool{}
	err = errors.Join(
		indexMigrations(ctx, manager),
		ctrl.NewControllerManagedBy(manager).For(&kubevirtv1.VirtualMachine{}).Owns(&kubevirtv1.VirtualMachineInstance{}).
			Complete(&vmReconciler{
				client: manager.GetClient(), live: manager.GetAPIReader(), expand: expand, starts: newStarts(manager.GetAPIReader()), volumes: volumes,
				events: events.NewRecorder(scheme, corev1.EventSource{Component: "virtualmachine-controller"}),
			}),
		ctrl.NewControllerManagedBy(manager).For(&kubevirtv1.VirtualMachineInstance{}).
			Watches(&kubevirtv1.VirtualMachine{}, &queue.EnqueueRequestForObject{}). // an annotation may ask for a failure
			Watches(&kubevirtv1.VirtualMachineInstanceMigration{}, queue.EnqueueRequestsFromMapFunc(instanceOf)).
			Complete(&vmiReconciler{controller: manager.GetClient(), live: manager.GetAPIReader(), handler: handler, pacer: pacer}),
		ctrl.NewControllerManagedBy(manager).For(&kubevirtv1.VirtualMachineInstanceMigration{}).
			Watches(&kubevirtv1.VirtualMachineInstance{}, queue.EnqueueRequestsFromMapFunc(migrationsOf(manager.GetClient()))).
			Complete(&migrationReconciler{controller: manager.GetClient(), handler: handler, live: manager.GetAPIReader(), pacer: pacer}),
	)
	if err != nil {
		return nil, fmt.Errorf("simulating virt-controller: %w", err)
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	v := &VirtController{stop: stop, done: make(chan error, 1), log: log, pacer: pacer, volumes: volumes}
	go func() {
		defer events.Shutdown()
		v.done <- manager.Start(background)
	}()
	return v, nil
}

// Pace sets how long each phase of a VMI and of a migration lasts from now on. Without it, a phase lasts no time.
func (v *VirtController) Pace(phase time.Duration) { v.pacer.set(phase) }

// logTo writes one line for each message.
func logTo(file *os.File) logr.Logger {
	return funcr.New(func(_, line string) { _, _ = fmt.Fprintln(file, line) }, funcr.Options{LogTimestamp: true})
}

// Stop ends the simulation; VMs stay as they are. Its log is virt-controller-simulator.log in the sandbox.
func (v *VirtController) Stop() error {
	v.stop()
	return errors.Join(<-v.done, v.log.Close())
}

// vmReconciler is virt-controller's part for VMs.
type vmReconciler struct {
	client client.Client
	live   client.Reader
	expand Expand
	starts *starts
	events record.EventRecorder
	// volumes is true after CreateVolumes.
	volumes *atomic.Bool
}

// Reconcile creates, updates or deletes the VMI of one VM.
func (r *vmReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	vm := &kubevirtv1.VirtualMachine{}
	if err := r.client.Get(ctx, request.NamespacedName, vm); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	vmi, err := r.instance(ctx, vm)
	if err != nil {
		return ctrl.Result{}, err
	}
	if vm.DeletionTimestamp != nil {
		return again(r.release(ctx, vm, vmi))
	}
	before := vm.DeepCopy()
	vmi, failure := r.converge(ctx, vm, vmi)
	if failure == nil && vmi != nil && vmi.DeletionTimestamp == nil && vmi.Status.Phase == kubevirtv1.Running {
		failure = r.update(ctx, vm, vmi)
	}
	return again(errors.Join(failure, r.writeStatus(ctx, before, vm, vmi, failure)))
}

// instance reads the VMI of a VM. Before a request for a start or a stop counts as done, the cache is not enough.
func (r *vmReconciler) instance(ctx context.Context, vm *kubevirtv1.VirtualMachine) (*kubevirtv1.VirtualMachineInstance, error) {
	vmi := &kubevirtv1.VirtualMachineInstance{}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(vm), vmi)
	if apierrors.IsNotFound(err) && len(vm.Status.StateChangeRequests) > 0 {
		err = r.live.Get(ctx, client.ObjectKeyFromObject(vm), vmi)
	}
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return vmi, nil
}

// release lets a VM go once its VMI is gone.
func (r *vmReconciler) release(ctx context.Context, vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) error {
	if vmi != nil {
		return client.IgnoreNotFound(r.client.Delete(ctx, vmi))
	}
	base := vm.DeepCopy()
	if !controllerutil.RemoveFinalizer(vm, kubevirtv1.VirtualMachineControllerFinalizer) {
		return nil
	}
	return client.IgnoreNotFound(r.client.Patch(ctx, vm, client.MergeFrom(base)))
}

// converge creates or deletes the VMI according to the run strategy, and returns the VMI.
func (r *vmReconciler) converge(ctx context.Context, vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) (*kubevirtv1.VirtualMachineInstance, error) {
	base := vm.DeepCopy()
	if controllerutil.AddFinalizer(vm, kubevirtv1.VirtualMachineControllerFinalizer) {
		if err := r.client.Patch(ctx, vm, client.MergeFrom(base)); err != nil {
			return vmi, err
		}
	}
	strategy, err := vm.RunStrategy()
	if err != nil {
		return vmi, err
	}
	if err := r.createVolumes(ctx, vm); err != nil {
		return vmi, err
	}
	switch next(vm, vmi, strategy) {
	case starting:
		return r.create(ctx, vm)
	case stopping:
		return vmi, client.IgnoreNotFound(r.client.Delete(ctx, vmi, client.Preconditions{UID: &vmi.UID}))
	}
	return vmi, nil
}

func (r *vmReconciler) create(ctx context.Context, vm *kubevirtv1.VirtualMachine) (*kubevirtv1.VirtualMachineInstance, error) {
	template, err := r.templateOf(ctx, vm)
	if err != nil {
		return nil, fmt.Errorf("expanding VM %s/%s: %w", vm.Namespace, vm.Name, err)
	}
	unrecorded := vm.Status.DeepCopy()
	if err := r.recordKinds(ctx, vm); err != nil {
		return nil, err
	}
	revision, err := r.starts.store(ctx, r.client, vm)
	if err != nil {
		return nil, err
	}
	vmi := &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       vm.Namespace,
			Name:            vm.Name,
			Labels:          template.ObjectMeta.Labels,
			Annotations:     template.ObjectMeta.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vm, kubevirtv1.VirtualMachineGroupVersionKind)},
		},
		Spec:   template.Spec,
		Status: kubevirtv1.VirtualMachineInstanceStatus{VirtualMachineRevisionName: revision},
	}
	if vmi.Annotations == nil {
		vmi.Annotations = map[string]string{}
	}
	vmi.Annotations[kubevirtv1.VirtualMachineGenerationAnnotation] = strconv.FormatInt(vm.Generation, 10)
	removeCondition(vm, kubevirtv1.VirtualMachineRestartRequired)
	if err := r.client.Create(ctx, vmi); err != nil {
		if apierrors.IsAlreadyExists(err) { // the cache is behind
			return nil, nil
		}
		// A VM that has never started is not bound to a revision, so that a test can correct its preference. KubeVirt binds it.
		vm.Status.InstancetypeRef, vm.Status.PreferenceRef = unrecorded.InstancetypeRef, unrecorded.PreferenceRef
		r.events.Eventf(vm, corev1.EventTypeWarning, ReasonFailedCreate, "Error creating virtual machine instance: %v", err)
		return nil, err
	}
	return vmi, nil
}

func (r *vmReconciler) templateOf(ctx context.Context, vm *kubevirtv1.VirtualMachine) (*kubevirtv1.VirtualMachineInstanceTemplateSpec, error) {
	vm = vm.DeepCopy()
	if vm.Spec.Instancetype == nil && vm.Spec.Preference == nil {
		return vm.Spec.Template.DeepCopy(), nil
	}
	return r.expand(ctx, r.live, vm)
}
