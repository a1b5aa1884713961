package simulators

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

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
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/virtward/virtward/test/controlplane"
)

// ReasonFailedCreate is that of virt-controller's event on a VM whose VMI is rejected; its message quotes the rejection.
const ReasonFailedCreate = "FailedCreate"

// VirtController simulates KubeVirt's virt-controller and virt-handler: it makes VMIs from VMs that are to
// run, walks VMIs through their phases, and takes away what a deletion waits for.
type VirtController struct {
	stop context.CancelFunc
	done chan error
	log  *os.File
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
		Controller: config.Controller{SkipNameValidation: new(true)}, // one process may simulate many clusters
	})
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		ctrl.NewControllerManagedBy(manager).For(&kubevirtv1.VirtualMachine{}).Owns(&kubevirtv1.VirtualMachineInstance{}).
			Complete(&vmReconciler{
				client: manager.GetClient(), live: manager.GetAPIReader(), expand: expand,
				events: events.NewRecorder(scheme, corev1.EventSource{Component: "virtualmachine-controller"}),
			}),
		ctrl.NewControllerManagedBy(manager).For(&kubevirtv1.VirtualMachineInstance{}).
			Complete(&vmiReconciler{controller: manager.GetClient(), handler: handler}),
	)
	if err != nil {
		return nil, fmt.Errorf("simulating virt-controller: %w", err)
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	v := &VirtController{stop: stop, done: make(chan error, 1), log: log}
	go func() {
		defer events.Shutdown()
		v.done <- manager.Start(background)
	}()
	return v, nil
}

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
	events record.EventRecorder
}

// Reconcile creates, updates or deletes the VMI of one VM.
func (r *vmReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	vm := &kubevirtv1.VirtualMachine{}
	if err := r.client.Get(ctx, request.NamespacedName, vm); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	vmi := &kubevirtv1.VirtualMachineInstance{}
	err := r.client.Get(ctx, request.NamespacedName, vmi)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err != nil {
		vmi = nil
	}
	if vm.DeletionTimestamp != nil {
		return ctrl.Result{}, r.release(ctx, vm, vmi)
	}
	vmi, failure := r.converge(ctx, vm, vmi)
	return ctrl.Result{}, errors.Join(failure, r.writeStatus(ctx, vm, vmi, failure))
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
	switch strategy {
	case kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyOnce:
		if vmi != nil {
			return vmi, nil
		}
		return r.create(ctx, vm)
	case kubevirtv1.RunStrategyHalted:
		if vmi != nil && vmi.DeletionTimestamp == nil {
			return vmi, client.IgnoreNotFound(r.client.Delete(ctx, vmi))
		}
	}
	return vmi, nil
}

func (r *vmReconciler) create(ctx context.Context, vm *kubevirtv1.VirtualMachine) (*kubevirtv1.VirtualMachineInstance, error) {
	template, err := r.templateOf(ctx, vm)
	if err != nil {
		return nil, fmt.Errorf("expanding VM %s/%s: %w", vm.Namespace, vm.Name, err)
	}
	vmi := &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       vm.Namespace,
			Name:            vm.Name,
			Labels:          template.ObjectMeta.Labels,
			Annotations:     template.ObjectMeta.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vm, kubevirtv1.VirtualMachineGroupVersionKind)},
		},
		Spec: template.Spec,
	}
	if err := r.client.Create(ctx, vmi); err != nil {
		if apierrors.IsAlreadyExists(err) { // the cache is behind
			return nil, nil
		}
		r.events.Eventf(vm, corev1.EventTypeWarning, ReasonFailedCreate, "Error creating virtual machine instance: %v", err)
		return nil, err
	}
	return vmi, nil
}

func (r *vmReconciler) templateOf(ctx context.Context, vm *kubevirtv1.VirtualMachine) (*kubevirtv1.VirtualMachineInstanceTemplateSpec, error) {
	vm = vm.DeepCopy()
	if vm.Spec.Instancetype == nil && vm.Spec.Preference == nil {
		return vm.Spec.Template, nil
	}
	return r.expand(ctx, r.live, vm)
}
