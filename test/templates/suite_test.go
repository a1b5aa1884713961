// Package templates has the end-to-end tests of VM templates: on a real API server, with Virtward's chart and processes,
// RBAC users, and simulated controllers of KubeVirt and CDI.
package templates

import (
	"context"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
	"github.com/virtward/virtward/test/simulators"
)

// The namespaces of the tests: of VMs, and of templates.
const (
	machines  = "shop"
	catalogue = "catalogue"
)

// pool has one control plane: the cases need it without the chart, or with it.
var pool planes.Pool

func TestMain(m *testing.M) { os.Exit(planes.Only(m, pool.Main)) }

// fixture is a cluster with simulated KubeVirt and CDI.
type fixture struct {
	*controlplane.ControlPlane

	snapshots *simulators.Snapshots
	cdi       *simulators.CDI
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newFixture starts the cluster, with the definitions of templates.
func newFixture(t testing.TB) *fixture {
	t.Helper()
	plane := pool.Take(t)
	var err error
	f := &fixture{ControlPlane: plane}
	f.snapshots, err = simulators.StartSnapshots(t.Context(), plane)
	must(t, err)
	t.Cleanup(func() { must(t, f.snapshots.Stop()) })
	f.cdi, err = simulators.StartCDI(t.Context(), plane)
	must(t, err)
	t.Cleanup(func() { must(t, f.cdi.Stop(context.Background())) })
	must(t, plane.EnsureNamespace(t.Context(), machines))
	must(t, plane.EnsureNamespace(t.Context(), catalogue))
	return f
}

// machine makes a VM with a disk for each claim, which exists.
func (f *fixture) machine(t testing.TB, name string, claims ...string) *kubevirtv1.VirtualMachine {
	t.Helper()
	guest := resource.MustParse("1Gi")
	vm := &kubevirtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: machines, Name: name},
		Spec: kubevirtv1.VirtualMachineSpec{
			RunStrategy: new(kubevirtv1.RunStrategyHalted),
			Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{Spec: kubevirtv1.VirtualMachineInstanceSpec{
				Domain: kubevirtv1.DomainSpec{Memory: &kubevirtv1.Memory{Guest: &guest}, Firmware: &kubevirtv1.Firmware{Serial: "only-one"}},
			}},
		},
	}
	for _, claim := range claims {
		spec := &vm.Spec.Template.Spec
		spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, kubevirtv1.Disk{Name: claim, DiskDevice: kubevirtv1.DiskDevice{Disk: &kubevirtv1.DiskTarget{Bus: kubevirtv1.DiskBusVirtio}}})
		spec.Volumes = append(spec.Volumes, kubevirtv1.Volume{Name: claim, VolumeSource: kubevirtv1.VolumeSource{
			PersistentVolumeClaim: &kubevirtv1.PersistentVolumeClaimVolumeSource{PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}},
		}})
		f.claim(t, machines, claim, "")
	}
	must(t, f.Client().Create(t.Context(), vm))
	return vm
}

// claim makes a PersistentVolumeClaim of 10Gi.
func (f *fixture) claim(t testing.TB, namespace, name, class string) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}},
		},
	}
	if class != "" {
		claim.Spec.StorageClassName = &class
	}
	must(t, client.IgnoreAlreadyExists(f.Client().Create(t.Context(), claim)))
}

// request makes a request for a template of a VM.
func (f *fixture) request(t testing.TB, name, vm string, change ...func(*v1beta1.VirtualMachineTemplateRequest)) *v1beta1.VirtualMachineTemplateRequest {
	t.Helper()
	request := &v1beta1.VirtualMachineTemplateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: name},
		Spec:       v1beta1.VirtualMachineTemplateRequestSpec{VirtualMachineRef: v1beta1.VirtualMachineReference{Namespace: machines, Name: vm}},
	}
	for _, c := range change {
		c(request)
	}
	must(t, f.Client().Create(t.Context(), request))
	return request
}

// condition returns a condition of a request; an empty one if there is none.
func (f *fixture) condition(t testing.TB, request *v1beta1.VirtualMachineTemplateRequest, kind string) metav1.Condition {
	t.Helper()
	must(t, f.Client().Get(t.Context(), client.ObjectKeyFromObject(request), request))
	if c := meta.FindStatusCondition(request.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// until waits until a condition of a request has a status and a reason.
func (f *fixture) until(t testing.TB, request *v1beta1.VirtualMachineTemplateRequest, kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	t.Helper()
	var c metav1.Condition
	await.Until(t, func() error {
		if c = f.condition(t, request, kind); c.Status != status || c.Reason != reason {
			return fmt.Errorf("%s of %s is %s, %s: %s; want %s, %s", kind, request.Name, c.Status, c.Reason, c.Message, status, reason)
		}
		return nil
	})
	return c
}

// left are the objects that a capture must not leave behind, and those that its end has.
func (f *fixture) left(t testing.TB, request *v1beta1.VirtualMachineTemplateRequest) (intermediate, result []string) {
	t.Helper()
	labelled := client.MatchingLabels{v1beta1.LabelRequestUID: string(request.UID)}
	snapshots := &snapshotv1beta1.VirtualMachineSnapshotList{}
	must(t, f.Client().List(t.Context(), snapshots, labelled))
	for i := range snapshots.Items {
		intermediate = append(intermediate, "VirtualMachineSnapshot "+snapshots.Items[i].Name)
	}
	templates := &v1beta1.VirtualMachineTemplateList{}
	must(t, f.Client().List(t.Context(), templates, labelled))
	owners := map[string]bool{}
	for i := range templates.Items {
		owners[string(templates.Items[i].UID)] = true
		result = append(result, "VirtualMachineTemplate "+templates.Items[i].Name)
	}
	volumes := &cdiv1beta1.DataVolumeList{}
	must(t, f.Client().List(t.Context(), volumes, labelled))
	for i := range volumes.Items {
		owner := metav1.GetControllerOf(&volumes.Items[i])
		if owner != nil && owners[string(owner.UID)] {
			result = append(result, "DataVolume of the template")
		} else {
			intermediate = append(intermediate, "DataVolume "+volumes.Items[i].Name)
		}
	}
	return intermediate, result
}

// gone waits until an object does not exist.
func (f *fixture) gone(t testing.TB, object client.Object) {
	t.Helper()
	await.Until(t, func() error {
		err := f.Client().Get(t.Context(), client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%T %s is still there: %w", object, object.GetName(), err)
	})
}

func quantity(text string) resource.Quantity { return resource.MustParse(text) }
