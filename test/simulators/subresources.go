package simulators

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// subresources is KubeVirt's aggregated API. The API server authorizes its requests, and forwards them.
var subresources = schema.GroupVersion{Group: "subresources.kubevirt.io", Version: "v1"}

// virtualMachines is the resource of VMs in that API.
var virtualMachines = schema.GroupResource{Group: "kubevirt.io", Resource: "virtualmachines"}

// action changes a VM, or requests a change in its status.
type action func(*kubevirtv1.VirtualMachine, *kubevirtv1.VirtualMachineInstance) error

// actions of virt-api on VMs, by the name of the subresource.
var actions = map[string]action{"start": startMachine, "stop": stopMachine, "restart": restartMachine}

// conflict is what virt-api answers if the state of the VM does not allow an action.
func conflict(vm *kubevirtv1.VirtualMachine, format string, arguments ...any) error {
	return apierrors.NewConflict(virtualMachines, vm.Name, fmt.Errorf(format, arguments...))
}

func startMachine(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) error {
	strategy, err := vm.RunStrategy()
	switch {
	case err != nil:
		return err
	case vmi != nil && !vmi.IsFinal():
		return conflict(vm, "VM is already running")
	case strategy == kubevirtv1.RunStrategyHalted:
		vm.Spec.Running, vm.Spec.RunStrategy = nil, new(kubevirtv1.RunStrategyAlways)
		return nil
	case strategy == kubevirtv1.RunStrategyAlways || strategy == kubevirtv1.RunStrategyOnce:
		return conflict(vm, "%s does not support manual start requests", strategy)
	}
	return request(vm, kubevirtv1.VirtualMachineStateChangeRequest{Action: kubevirtv1.StartRequest})
}

func stopMachine(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) error {
	strategy, err := vm.RunStrategy()
	switch {
	case err != nil:
		return err
	case strategy == kubevirtv1.RunStrategyAlways || strategy == kubevirtv1.RunStrategyOnce:
		vm.Spec.Running, vm.Spec.RunStrategy = nil, new(kubevirtv1.RunStrategyHalted)
		return nil
	case vmi == nil || vmi.IsFinal():
		return conflict(vm, "VM is not running")
	}
	return request(vm, kubevirtv1.VirtualMachineStateChangeRequest{Action: kubevirtv1.StopRequest, UID: &vmi.UID})
}

func restartMachine(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) error {
	strategy, err := vm.RunStrategy()
	switch {
	case err != nil:
		return err
	case strategy == kubevirtv1.RunStrategyHalted || strategy == kubevirtv1.RunStrategyOnce:
		return conflict(vm, "%s does not support manual restart requests", strategy)
	case vmi == nil:
		return conflict(vm, "VM is not running: %s", strategy)
	}
	return request(vm,
		kubevirtv1.VirtualMachineStateChangeRequest{Action: kubevirtv1.StopRequest, UID: &vmi.UID},
		kubevirtv1.VirtualMachineStateChangeRequest{Action: kubevirtv1.StartRequest})
}

// request adds requests to a VM that has none.
func request(vm *kubevirtv1.VirtualMachine, requests ...kubevirtv1.VirtualMachineStateChangeRequest) error {
	if len(vm.Status.StateChangeRequests) > 0 {
		return conflict(vm, "unable to complete request: stop/start already underway")
	}
	vm.Status.StateChangeRequests = requests
	return nil
}

// serveSubresources adds the paths of the aggregated API.
func (v *VirtAPI) serveSubresources(mux *http.ServeMux) {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: subresources.String()}
	for _, name := range []string{"start", "stop", "restart", "migrate"} {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: "virtualmachines/" + name, Namespaced: true, Verbs: metav1.Verbs{"update"}})
	}
	root := "/apis/" + subresources.String()
	mux.HandleFunc("GET "+root, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, list) })
	mux.HandleFunc("PUT "+root+"/namespaces/{namespace}/virtualmachines/{name}/{action}", func(w http.ResponseWriter, r *http.Request) {
		err := v.act(r.Context(), client.ObjectKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}, r.PathValue("action"))
		if err == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		status := apierrors.APIStatus(apierrors.NewInternalError(err))
		_ = errors.As(err, &status)
		answer(w, int(status.Status().Code), status.Status())
	})
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the API server has gone away; it reports that itself
}

// act executes an action on a VM.
func (v *VirtAPI) act(ctx context.Context, key client.ObjectKey, name string) error {
	vm, vmi := &kubevirtv1.VirtualMachine{}, &kubevirtv1.VirtualMachineInstance{}
	if err := v.account.Get(ctx, key, vm); err != nil {
		return err
	}
	err := v.account.Get(ctx, key, vmi)
	if apierrors.IsNotFound(err) {
		vmi, err = nil, nil
	}
	if err != nil {
		return err
	}
	if name == "migrate" {
		return v.migrateMachine(ctx, vm, vmi)
	}
	do, found := actions[name]
	if !found {
		return apierrors.NewNotFound(virtualMachines, key.Name+"/"+name)
	}
	if code, fails := requested(vm, RestartFails); fails && name == "restart" {
		return failure(vm, code)
	}
	before := vm.DeepCopy()
	if err := do(vm, vmi); err != nil {
		return err
	}
	optimistic := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if len(vm.Status.StateChangeRequests) > 0 {
		return v.account.Status().Patch(ctx, vm, optimistic)
	}
	return v.account.Patch(ctx, vm, optimistic)
}

// failure is an error with a status code.
func failure(vm *kubevirtv1.VirtualMachine, code string) error {
	number, err := strconv.Atoi(code)
	if err != nil || number < 400 || number > 599 {
		number = http.StatusInternalServerError
	}
	return apierrors.NewGenericServerResponse(number, "update", virtualMachines, vm.Name, "a simulated failure", 0, false)
}

func (v *VirtAPI) migrateMachine(ctx context.Context, vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) error {
	if vmi == nil || vmi.Status.Phase != kubevirtv1.Running {
		return conflict(vm, "VM is not running")
	}
	return v.account.Create(ctx, &kubevirtv1.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{Namespace: vm.Namespace, GenerateName: "kubevirt-migrate-vm-"},
		Spec:       kubevirtv1.VirtualMachineInstanceMigrationSpec{VMIName: vm.Name},
	})
}

// apiService registers the aggregated API.
func (v *VirtAPI) apiService(bundle []byte) client.Object {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	object.SetName(subresources.Version + "." + subresources.Group)
	object.Object["spec"] = map[string]any{
		"group": subresources.Group, "version": subresources.Version, "groupPriorityMinimum": int64(1000), "versionPriority": int64(15),
		"caBundle": base64.StdEncoding.EncodeToString(bundle),
		"service":  map[string]any{"namespace": Namespace, "name": virtAPIService, "port": int64(v.port)},
	}
	return object
}
