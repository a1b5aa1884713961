package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
)

// catalogOf is a catalog of the namespace default, with entries in YAML.
func catalogOf(name, entries string) *unstructured.Unstructured {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte("{spec: {namespace: default, dataImportCronTemplates: "+entries+"}}"), &object.Object)).To(Succeed())
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
	object.SetName(name)
	return object
}

// imageNamed is an entry for two architectures.
func imageNamed(name, source, schedule string) string {
	return "{metadata: {name: " + name + ", annotations: {ssp.kubevirt.io/dict.architectures: 'amd64, arm64'}}, spec: {managedDataSource: " + source +
		", schedule: '" + schedule + "', template: {spec: {source: {registry: {url: 'docker://registry.example/image'}}, storage: {resources: {requests: {storage: 1Gi}}}}}}}"
}

var _ = Describe("Catalogs of golden images", Serial, func() {
	const daily = "0 0 * * *"

	It("are validated, also against each other", func(ctx SpecContext) {
		By("rejecting what CDI would reject")
		err := admin.Create(ctx, catalogOf("invalid", "["+imageNamed("Fedora", "fedora", "whenever")+"]"))
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(causes(err)).To(Equal([]string{
			"spec.dataImportCronTemplates[0].metadata.name golden-image-catalog", "spec.dataImportCronTemplates[0].spec.schedule golden-image-catalog",
		}))

		By("rejecting the names of another catalog, with suffixes")
		first := catalogOf("first", "["+imageNamed("fedora-cron", "fedora", daily)+"]")
		Expect(admin.Create(ctx, first)).To(Succeed())
		cleanUp(first)
		second := func() error {
			return admin.Create(ctx, catalogOf("second", "["+imageNamed("arm-cron", "fedora-arm64", daily)+"]"), client.DryRunAll)
		}
		Eventually(func(context.Context) error { return second() }).WithContext(ctx).Should(SatisfyAll(
			Satisfy(apierrors.IsInvalid), MatchError(ContainSubstring(`the catalog "first" uses the DataSource "fedora-arm64"`))))

		By("keeping the namespace")
		patch := func(text string) error {
			return admin.Patch(ctx, first.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
		}
		Expect(patch(`{"spec":{"namespace":"kube-public"}}`)).To(SatisfyAll(Satisfy(apierrors.IsInvalid), MatchError(ContainSubstring("the namespace cannot change"))))

		By("releasing the names with the catalog")
		Expect(admin.Delete(ctx, first.DeepCopy())).To(Succeed())
		Eventually(func(context.Context) error { return second() }).WithContext(ctx).Should(Succeed())
	}, NodeTimeout(3*time.Minute))

	It("decide the architecture of VMs", func(ctx SpecContext) {
		for name, labels := range map[string]map[string]string{"arch-fedora": nil, "arch-fedora-arm64": {v1alpha1.ArchitectureLabel: "arm64"}} {
			source := &cdiv1beta1.DataSource{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels}}
			if labels == nil {
				source.Spec.Source.DataSource = &cdiv1beta1.DataSourceRefSourceDataSource{Namespace: "default", Name: "arch-fedora-arm64"}
			}
			Expect(admin.Create(ctx, source)).To(Succeed())
			cleanUp(source)
		}
		clones := func(architecture string) *kubevirtv1.VirtualMachine {
			vm := build.VM("arch-vm").Obj()
			vm.Spec.Template.Spec.Architecture = architecture
			template := kubevirtv1.DataVolumeTemplateSpec{Spec: cdiv1beta1.DataVolumeSpec{
				SourceRef: &cdiv1beta1.DataVolumeSourceRef{Kind: "DataSource", Name: "arch-fedora"}, Storage: &cdiv1beta1.StorageSpec{},
			}}
			template.Name = "arch-root"
			vm.Spec.DataVolumeTemplates = []kubevirtv1.DataVolumeTemplateSpec{template}
			vm.Spec.Template.Spec.Volumes = []kubevirtv1.Volume{{Name: "root", VolumeSource: kubevirtv1.VolumeSource{DataVolume: &kubevirtv1.DataVolumeSource{Name: "arch-root"}}}}
			vm.Spec.Template.Spec.Domain.Devices.Disks = []kubevirtv1.Disk{{Name: "root", DiskDevice: kubevirtv1.DiskDevice{Disk: &kubevirtv1.DiskTarget{Bus: "virtio"}}}}
			return vm
		}

		By("rejecting the image of another architecture")
		err := admin.Create(ctx, clones("amd64"), client.DryRunAll)
		Expect(causes(err)).To(Equal([]string{"spec.dataVolumeTemplates[0].spec.sourceRef golden-image-architecture"}))
		Expect(err).To(MatchError(ContainSubstring("the image of this DataSource is for arm64, and the architecture of the VM is amd64")))
		Expect(admin.Create(ctx, clones("arm64"), client.DryRunAll)).To(Succeed())

		By("taking that of the image")
		inferred := clones("")
		Expect(admin.Create(ctx, inferred, client.DryRunAll)).To(Succeed())
		Expect(inferred.Spec.Template.Spec.Architecture).To(Equal("arm64"))

		By("warning if no node has it")
		catalog := catalogOf("nodes", "[]")
		Expect(admin.Create(ctx, catalog)).To(Succeed())
		cleanUp(catalog)
		controller, err := cluster.UserConfig("system:serviceaccount:"+controlplane.VirtwardNamespace+":virtward-images", "system:masters")
		Expect(err).NotTo(HaveOccurred())
		Expect(clientFor(controller).Status().Patch(ctx, catalog.DeepCopy(), client.RawPatch(types.MergePatchType,
			[]byte(`{"status":{"nodes":{"workloadArchitectures":[{"architecture":"amd64","nodes":2},{"architecture":"s390x","nodes":0}]}}}`)))).To(Succeed())
		Eventually(func(g Gomega, ctx context.Context) {
			user, heard := listen(rest.CopyConfig(adminConfig(g)))
			g.Expect(user.Create(ctx, clones("arm64"), client.DryRunAll)).To(Succeed())
			g.Expect(heard.texts).To(ContainElement(ContainSubstring("no node for virtual machines has this architecture; nodes have amd64")))
		}).WithContext(ctx).Should(Succeed())
	}, NodeTimeout(3*time.Minute))
})

// adminConfig is the configuration of an admin.
func adminConfig(g Gomega) *rest.Config {
	config, err := cluster.UserConfig("an-admin", "system:masters")
	g.Expect(err).NotTo(HaveOccurred())
	return config
}
