package attack

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/simulators"
)

// object is one that is written as YAML.
func object(text string) *unstructured.Unstructured {
	GinkgoHelper()
	made := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte(text), &made.Object)).To(Succeed())
	return made
}

// enforce makes a policy active until the end of the spec. It waits until the policy denies mallory's probe.
func enforce(ctx context.Context, name, spec string, probe client.Object) {
	GinkgoHelper()
	policy := object("{apiVersion: policy.virtward.io/v1alpha1, kind: VirtualMachinePolicy, metadata: {name: " + name + "}, spec: " + spec + "}")
	cleanUp(policy)
	Expect(admin.Create(ctx, policy)).To(Succeed())
	Eventually(func(ctx context.Context) error {
		return mallory.Create(ctx, probe.DeepCopyObject().(client.Object), client.DryRunAll)
	}).WithContext(ctx).Should(MatchError(ContainSubstring("[virtward/policy/" + name + "]")))
}

// sized is a VM of mallory's with an amount of memory.
func sized(name, memory string) *kubevirtv1.VirtualMachine {
	vm := build.VMOf(build.VMI(name).Memory(memory)).Obj()
	vm.Namespace = attacked
	return vm
}

const (
	memoryCap = `{enforcement: Deny, match: {kinds: [VirtualMachine]}, validations: [{expression: "quantity(vm.spec.domain.memory.guest).compareTo(quantity('4Gi')) <= 0", message: at most 4Gi}]}`
	bobOnly   = `{enforcement: Deny, match: {kinds: [VirtualMachine]}, validations: [{expression: "requester == 'bob' || quantity(vm.spec.domain.memory.guest).compareTo(quantity('4Gi')) <= 0", message: only bob gets more than 4Gi}]}`
)

var _ = Describe("KubeVirt as a deputy", Serial, timed, func() {
	It("does not restore or clone a VM past a policy for VMs", func(ctx SpecContext) {
		enforce(ctx, "deputy-cap", memoryCap, sized("probe", "8Gi"))
		By("creating the VM as virt-controller, as a restore with patches does")
		err := accountOf(ctx, simulators.ControllerAccount).Create(ctx, sized("restored", "8Gi"))
		Expect(causes(err)).To(ConsistOf("spec policy/deputy-cap"))
		Expect(accountOf(ctx, simulators.ControllerAccount).Create(ctx, sized("restored", "2Gi"), client.DryRunAll)).To(Succeed())
	})

	It("is denied by a policy on the requester when a user creates a restore or a clone", func(ctx SpecContext) {
		small := sized("source", "1Gi")
		cleanUp(small)
		Expect(mallory.Create(ctx, small)).To(Succeed())
		enforce(ctx, "deputy-bob", bobOnly, sized("probe", "8Gi"))
		larger := `'{"op": "replace", "path": "/spec/template/spec/domain/memory/guest", "value": "8Gi"}'`

		clone := "{apiVersion: clone.kubevirt.io/v1beta1, kind: VirtualMachineClone, metadata: {name: copy, namespace: mallory}, spec: {source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: source}%s}}"
		Expect(mallory.Create(ctx, object(strings.Replace(clone, "%s", "", 1)), client.DryRunAll)).To(Succeed())
		err := mallory.Create(ctx, object(strings.Replace(clone, "%s", ", patches: ["+larger+"]", 1)))
		Expect(causes(err)).To(ConsistOf("spec.patches policy/deputy-bob"))
		Expect(err.Error()).NotTo(ContainSubstring("8Gi"), "a user who can clone a VM may not be able to read it")
		injected := `, newSMBiosSerial: 'x"},{"op":"replace","path":"/spec/template/spec/domain/memory/guest","value":"8Gi'`
		Expect(change(ctx, mallory, small, func() { small.Spec.Template.Spec.Domain.Firmware = &kubevirtv1.Firmware{Serial: "a"} })).To(Succeed())
		Expect(causes(mallory.Create(ctx, object(strings.Replace(clone, "%s", injected, 1))))).To(ConsistOf("spec.source policy/deputy-bob"))

		restore := "{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineRestore, metadata: {name: back, namespace: mallory}, spec: {target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: copy}, virtualMachineSnapshotName: nightly, patches: [" + larger + "]}}"
		By("ordering a restore before there is a snapshot to evaluate")
		Expect(causes(mallory.Create(ctx, object(restore)))).To(ConsistOf("spec.virtualMachineSnapshotName copy-evaluated"))

		snapshot := object("{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineSnapshot, metadata: {name: nightly, namespace: mallory}, spec: {source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: source}}}")
		cleanUp(snapshot)
		Expect(mallory.Create(ctx, snapshot)).To(Succeed())
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(small), small)).To(Succeed())
		content := object("{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineSnapshotContent, metadata: {name: nightly-content, namespace: mallory}, spec: {virtualMachineSnapshotName: nightly, source: {virtualMachine: {metadata: {name: source}, spec: {runStrategy: Always, template: {spec: {domain: {devices: {}, memory: {guest: 1Gi}}}}}}}}}")
		cleanUp(content)
		Expect(admin.Create(ctx, content)).To(Succeed())
		Expect(change(ctx, admin, snapshot, func() {})).To(Succeed())
		Expect(unstructured.SetNestedField(snapshot.Object, "nightly-content", "status", "virtualMachineSnapshotContentName")).To(Succeed())
		Expect(admin.Status().Update(ctx, snapshot)).To(Succeed())
		Eventually(func(ctx context.Context) []string {
			return causes(mallory.Create(ctx, object(restore), client.DryRunAll))
		}).WithContext(ctx).Should(
			ConsistOf("spec.patches policy/deputy-bob"))
		Expect(mallory.Create(ctx, object(strings.Replace(restore, larger, "", 1)), client.DryRunAll)).To(Succeed())
	})

	It("does not create VMs of a pool that a policy on the requester denies", func(ctx SpecContext) {
		enforce(ctx, "pool-bob", bobOnly, sized("probe", "8Gi"))
		pool := "{apiVersion: pool.kubevirt.io/v1beta1, kind: VirtualMachinePool, metadata: {name: many, namespace: mallory}, spec: {selector: {matchLabels: {a: b}}, virtualMachineTemplate: {metadata: {labels: {a: b}}, spec: {runStrategy: Halted, template: {metadata: {labels: {a: b}}, spec: {domain: {devices: {}, memory: {guest: 8Gi}}}}}}}}"
		Expect(causes(mallory.Create(ctx, object(pool)))).To(ConsistOf("spec.virtualMachineTemplate.spec policy/pool-bob"))
		Expect(mallory.Create(ctx, object(strings.Replace(pool, "8Gi", "1Gi", 1)), client.DryRunAll)).To(Succeed())
	})
})

var _ = Describe("Scaling a set through its subresource", Serial, func() {
	DescribeTable("is evaluated as a change of the set", func(ctx SpecContext, kind, of string) {
		set := object(of)
		cleanUp(set)
		Expect(mallory.Create(ctx, set)).To(Succeed())
		probe := set.DeepCopy()
		probe.SetName("probe")
		probe.SetResourceVersion("")
		Expect(unstructured.SetNestedField(probe.Object, int64(9), "spec", "replicas")).To(Succeed())
		enforce(ctx, "scale-cap-"+strings.ToLower(kind), "{enforcement: Deny, match: {kinds: ["+kind+"]}, validations: [{expression: \"object.spec.replicas <= 3\", message: three at most, fieldPath: spec.replicas}]}", probe)
		scale := func(replicas int32, uid bool) error {
			s := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: attacked, Name: set.GetName()}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
			if uid {
				s.UID = set.GetUID()
			}
			return mallory.SubResource("scale").Update(ctx, set.DeepCopy(), client.WithSubResourceBody(s))
		}
		for _, uid := range []bool{true, false} {
			Expect(causes(scale(4, uid))).To(ConsistOf("spec.replicas policy/scale-cap-" + strings.ToLower(kind)))
		}
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":9}}`))
		Expect(causes(mallory.SubResource("scale").Patch(ctx, set.DeepCopy(), patch))).NotTo(BeEmpty())
		Expect(scale(3, true)).To(Succeed())
		Expect(scale(1, true)).To(Succeed())
	},
		Entry("a pool", "VirtualMachinePool", "{apiVersion: pool.kubevirt.io/v1beta1, kind: VirtualMachinePool, metadata: {name: scaled, namespace: mallory}, spec: {replicas: 1, selector: {matchLabels: {a: b}}, virtualMachineTemplate: {metadata: {labels: {a: b}}, spec: {runStrategy: Halted, template: {metadata: {labels: {a: b}}, spec: {domain: {devices: {}, memory: {guest: 1Gi}}}}}}}}"),
	)
})
