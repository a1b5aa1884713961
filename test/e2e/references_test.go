package e2e

import (
	"context"
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypeapi "kubevirt.io/api/instancetype"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/test/build"
)

// determines matches the conflict that shows which instancetype was found: build.VM also sets the memory.
func determines(instancetype string) types.GomegaMatcher {
	return MatchError(ContainSubstring(`spec.template.spec.domain.memory.guest: Invalid value: must not be set: instancetype "` + instancetype + `" determines it [virtward/instancetype-conflict]`))
}

var _ = Describe("Objects that a VM refers to", func() {
	It("is inferred from the labels of a claim", func(ctx SpecContext) {
		instancetype, preference := sized("e2e.inferred"), preferring("e2e.inferred", "pc-q35-9.1")
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: "labelled", Namespace: "default", Labels: map[string]string{
				instancetypeapi.DefaultInstancetypeLabel: instancetype.Name,
				instancetypeapi.DefaultPreferenceLabel:   preference.Name,
			}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}
		install(ctx, instancetype, preference, claim)
		vm := build.VM("inferring").Obj()
		vm.Spec.Instancetype = &kubevirtv1.InstancetypeMatcher{InferFromVolume: "root"}
		vm.Spec.Preference = &kubevirtv1.PreferenceMatcher{InferFromVolume: "root"}
		vm.Spec.Template.Spec.Volumes = []kubevirtv1.Volume{{Name: "root", VolumeSource: kubevirtv1.VolumeSource{
			PersistentVolumeClaim: &kubevirtv1.PersistentVolumeClaimVolumeSource{
				PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
			},
		}}}
		eventuallyPersists(ctx, vm, "amd64", "pc-q35-9.1", determines(instancetype.Name))
	})

	It("is read from the ControllerRevisions that the VM names, whatever the objects have become", func(ctx SpecContext) {
		instancetype, preference := sized("e2e.moved"), preferring("e2e.moved", "pc-q35-9.2")
		install(ctx, instancetype, preference,
			frozen("moved-instancetype", instancetype, "VirtualMachineClusterInstancetype"),
			frozen("moved-preference", preferring("e2e.moved", "pc-q35-8.2"), "VirtualMachineClusterPreference"))
		vm := build.VM("revised").Obj()
		vm.Spec.Instancetype = &kubevirtv1.InstancetypeMatcher{Name: "e2e.moved", RevisionName: "moved-instancetype"}
		vm.Spec.Preference = &kubevirtv1.PreferenceMatcher{Name: "e2e.moved", RevisionName: "moved-preference"}
		eventuallyPersists(ctx, vm, "amd64", "pc-q35-8.2", determines("e2e.moved"))
	})

	It("is read from the ControllerRevisions that KubeVirt noted in the VM's status", func(ctx SpecContext) {
		instancetype, preference := sized("e2e.restored"), preferring("e2e.restored", "pc-q35-9.2")
		install(ctx, instancetype, preference,
			frozen("restored-instancetype", instancetype, "VirtualMachineClusterInstancetype"),
			frozen("restored-preference", preferring("e2e.restored", "pc-q35-8.1"), "VirtualMachineClusterPreference"))
		vm := build.VM("restored").Instancetype("e2e.restored").Preference("e2e.restored").Obj()
		vm.Status.InstancetypeRef = noted("e2e.restored", "restored-instancetype")
		vm.Status.PreferenceRef = noted("e2e.restored", "restored-preference")
		eventuallyPersists(ctx, vm, "amd64", "pc-q35-8.1", Succeed())
	})

	It("set the architecture of its golden image", func(ctx SpecContext) {
		Expect(cluster.EnsureNamespace(ctx, "images")).To(Succeed())
		install(ctx, &cdiv1beta1.DataSource{
			ObjectMeta: metav1.ObjectMeta{Name: "fedora", Namespace: "images", Labels: map[string]string{references.ArchitectureLabel: "arm64"}},
			Spec:       cdiv1beta1.DataSourceSpec{Source: cdiv1beta1.DataSourceSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Namespace: "images", Name: "fedora"}}},
		})
		vm := build.VMOf(build.VMI("golden").Disk("root", "")).Obj()
		vm.Spec.Template.Spec.Volumes[0].VolumeSource = kubevirtv1.VolumeSource{DataVolume: &kubevirtv1.DataVolumeSource{Name: "golden"}}
		vm.Spec.DataVolumeTemplates = []kubevirtv1.DataVolumeTemplateSpec{{
			ObjectMeta: metav1.ObjectMeta{Name: "golden"},
			Spec: cdiv1beta1.DataVolumeSpec{
				SourceRef: &cdiv1beta1.DataVolumeSourceRef{Kind: "DataSource", Namespace: new("images"), Name: "fedora"},
				Storage:   &cdiv1beta1.StorageSpec{},
			},
		}}
		eventuallyPersists(ctx, vm, "arm64", "virt", Succeed())

		By("applying it for good")
		cleanUp(vm)
		Expect(alice.Create(ctx, vm)).To(Succeed())
		Eventually(func() map[string]string { return auditAnnotations("golden") }).Should(And(
			HaveKeyWithValue(webhook+"/hypervisor", "kvm/arm64"),
			HaveKeyWithValue(webhook+"/layers", "datasource/images/fedora,arm64"),
		))
	})
})

// eventuallyPersists applies a VM, as a dry run, until the webhook sets this architecture and machine type, and alice
// gets such an answer without a warning. virt-api's mutator receives the VM with these values.
func eventuallyPersists(ctx context.Context, vm *kubevirtv1.VirtualMachine, architecture, machine string, answer types.GomegaMatcher) {
	GinkgoHelper()
	warned, heard := listening("alice")
	Eventually(func(g Gomega, ctx context.Context) { // the watches of virtward catch up
		kubevirt.API.Forget()
		heard.texts = nil
		g.Expect(warned.Create(ctx, vm.DeepCopy(), client.DryRunAll)).To(answer)
		var seen kubevirtv1.VirtualMachine
		for _, call := range kubevirt.API.Calls() {
			if call.Name == vm.Name && call.Webhook == "virtualmachines-mutator.kubevirt.io" {
				g.Expect(json.Unmarshal(call.Object, &seen)).To(Succeed())
				break
			}
		}
		g.Expect(seen.Spec.Template).NotTo(BeNil())
		g.Expect(seen.Spec.Template.Spec.Architecture).To(Equal(architecture))
		g.Expect(seen.Spec.Template.Spec.Domain.Machine).NotTo(BeNil())
		g.Expect(seen.Spec.Template.Spec.Domain.Machine.Type).To(Equal(machine))
		g.Expect(seen.Spec.Template.Spec.Domain.CPU).To(BeNil(), "what can be computed is not persisted in a VM")
		g.Expect(heard.texts).To(BeEmpty())
	}).WithContext(ctx).Should(Succeed())
}

// install creates objects, and deletes them at the end of the spec.
func install(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		Expect(admin.Create(ctx, object)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(admin.Delete(ctx, object))).To(Succeed())
		})
	}
}

// sized is an instancetype of two vCPUs and 4Gi.
func sized(name string) *instancetypev1beta1.VirtualMachineClusterInstancetype {
	return &instancetypev1beta1.VirtualMachineClusterInstancetype{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: instancetypev1beta1.VirtualMachineInstancetypeSpec{
			CPU:    instancetypev1beta1.CPUInstancetype{Guest: 2},
			Memory: instancetypev1beta1.MemoryInstancetype{Guest: resource.MustParse("4Gi")},
		},
	}
}

// preferring is a preference for a machine type.
func preferring(name, machine string) *instancetypev1beta1.VirtualMachineClusterPreference {
	return &instancetypev1beta1.VirtualMachineClusterPreference{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       instancetypev1beta1.VirtualMachinePreferenceSpec{Machine: &instancetypev1beta1.MachinePreferences{PreferredMachineType: machine}},
	}
}

// frozen is the ControllerRevision in which KubeVirt keeps an object of a kind.
func frozen(name string, object client.Object, kind string) *appsv1.ControllerRevision {
	GinkgoHelper()
	kept := object.DeepCopyObject().(client.Object)
	kept.GetObjectKind().SetGroupVersionKind(instancetypev1beta1.SchemeGroupVersion.WithKind(kind))
	data, err := json.Marshal(kept)
	Expect(err).NotTo(HaveOccurred())
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{
			instancetypeapi.ControllerRevisionObjectNameLabel: object.GetName(),
			instancetypeapi.ControllerRevisionObjectKindLabel: kind,
		}},
		Data: runtime.RawExtension{Raw: data},
	}
}

func noted(name, revision string) *kubevirtv1.InstancetypeStatusRef {
	return &kubevirtv1.InstancetypeStatusRef{
		Name:                  name,
		ControllerRevisionRef: &kubevirtv1.ControllerRevisionRef{Name: revision},
	}
}
