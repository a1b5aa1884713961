package attack

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/policies/library"
	"github.com/virtward/virtward/test/simulators"
)

// enforceFromLibrary makes a policy of the library active until the end of the spec. It waits until it denies mallory's probe.
func enforceFromLibrary(ctx context.Context, name string, probe *unstructured.Unstructured) {
	GinkgoHelper()
	entry, found := library.Find(name)
	Expect(found).To(BeTrue())
	policy := object(string(entry.YAML))
	cleanUp(policy)
	Expect(admin.Create(ctx, policy)).To(Succeed())
	Eventually(func(ctx context.Context) error {
		return mallory.Create(ctx, probe.DeepCopy(), client.DryRunAll)
	}).WithContext(ctx).Should(MatchError(ContainSubstring("[virtward/policy/" + name + "]")))
}

// The objects of mallory, each with a part that the attacks vary.
const (
	ownedInstance = "{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: hand-made, namespace: mallory%s}, spec: {domain: {devices: {}, memory: {guest: 64Mi}}}}"
	imageDisk     = `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: spelt, namespace: mallory}, spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}, memory: {guest: 64Mi}}, volumes: [{name: root, containerDisk: {image: "%s"}}]}}}}`
	importedDisk  = `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: spelt, namespace: mallory}, spec: {runStrategy: Halted, dataVolumeTemplates: [{metadata: {name: root}, spec: {storage: {resources: {requests: {storage: 1Gi}}}, source: {registry: {%s}}}}], template: {spec: {domain: {devices: {}, memory: {guest: 64Mi}}, volumes: [{name: root, dataVolume: {name: root}}]}}}}`
	sizedInstance = "{apiVersion: kubevirt.io/v1, kind: %s, metadata: {name: sized, namespace: mallory}, spec: %s}"
)

func filled(text, part string) *unstructured.Unstructured {
	GinkgoHelper()
	return object(strings.Replace(text, "%s", part, 1))
}

var _ = Describe("Other spellings and false claims", Serial, func() {
	It("does not allow an instance that names a VM as its owner", func(ctx SpecContext) {
		enforceFromLibrary(ctx, "instances-owned", filled(ownedInstance, ""))
		small := sized("owner", "64Mi")
		cleanUp(small)
		Expect(mallory.Create(ctx, small)).To(Succeed())

		claim := ", ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: owner, uid: " + string(small.UID) + ", controller: true}]"
		Expect(causes(mallory.Create(ctx, filled(ownedInstance, claim)))).To(ConsistOf("spec policy/instances-owned"))
		By("creating it as virt-controller")
		Expect(accountOf(ctx, simulators.ControllerAccount).Create(ctx, filled(ownedInstance, claim), client.DryRunAll)).To(Succeed())
	})

	It("pulls no image by another spelling of its place", func(ctx SpecContext) {
		enforceFromLibrary(ctx, "container-disk-registries", filled(imageDisk, "evil.example/disk"))
		const url = "spec.dataVolumeTemplates[0].spec.source.registry.url policy/container-disk-registries"
		for _, source := range []string{
			`url: "docker://evil.example/disk"`,
			`url: "DOCKER://evil.example/disk"`,
			`url: "DOCKER://evil.example/disk", pullMethod: node`,
			`url: "oci-archive://evil.example/disk", pullMethod: node`,
			`url: "docker://quay.io@evil.example/containerdisks/disk", pullMethod: node`,
			`url: "docker://evil.example/disk#quay.io/containerdisks/", pullMethod: node`,
		} {
			Expect(causes(mallory.Create(ctx, filled(importedDisk, source)))).To(ConsistOf(url), source)
		}
		Expect(causes(mallory.Create(ctx, filled(importedDisk, "imageStream: disk, pullMethod: node")))).
			To(ConsistOf("spec.dataVolumeTemplates[0].spec.source.registry.imageStream policy/container-disk-registries"))
		Expect(mallory.Create(ctx, filled(importedDisk, `url: "Docker://QUAY.io:443/containerdisks/fedora"`), client.DryRunAll)).To(Succeed())

		const image = "spec.template.spec.volumes[0].containerDisk.image policy/container-disk-registries"
		for _, text := range []string{
			"EVIL.example/disk", "fedora", "quay.io/containerdisks/../evil/disk", "quay.io./containerdisks/disk", "evil.example/quay.io/containerdisks/disk",
			"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		} {
			Expect(causes(mallory.Create(ctx, filled(imageDisk, text)))).To(ContainElement(image), text) // volume-image rejects some too
		}
		Expect(mallory.Create(ctx, filled(imageDisk, "QUAY.IO/containerdisks/fedora:42"), client.DryRunAll)).To(Succeed())
	})

	DescribeTable("does not bypass a limit with a negative amount", func(ctx SpecContext, kind, spec, field string) {
		enforceFromLibrary(ctx, "memory-cap", object(strings.Replace(strings.Replace(sizedInstance, "%s", "VirtualMachine", 1), "%s",
			"{runStrategy: Halted, template: {spec: {domain: {devices: {}, memory: {guest: 65Gi}}}}}", 1)))
		err := mallory.Create(ctx, object(strings.Replace(strings.Replace(sizedInstance, "%s", kind, 1), "%s", spec, 1)))
		Expect(causes(err)).To(ContainElements(field+" memory-not-negative", field+" policy/memory-cap"))
	},
		Entry("in a VM", "VirtualMachine", "{runStrategy: Halted, template: {spec: {domain: {devices: {}, memory: {guest: -1Gi}}}}}", "spec.template.spec.domain.memory.guest"),
		Entry("in an instance", "VirtualMachineInstance", "{domain: {devices: {}, memory: {guest: -1Gi}}}", "spec.domain.memory.guest"),
	)

	It("does not accept a negative amount of an instancetype", func(ctx SpecContext) {
		err := mallory.Create(ctx, object("{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineInstancetype, metadata: {name: less, namespace: mallory}, spec: {cpu: {guest: 1}, memory: {guest: -1Gi}}}"))
		Expect(causes(err)).To(ConsistOf("spec.memory.guest instancetype-memory-not-negative"))
	})
})
