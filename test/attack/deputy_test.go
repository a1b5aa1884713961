package attack

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/copies"
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

// take makes a snapshot ready, with a content that has a VM with an amount of memory, as KubeVirt does.
func take(ctx context.Context, snapshot *unstructured.Unstructured, name, memory string) *unstructured.Unstructured {
	GinkgoHelper()
	made := contentOf(name, snapshot.GetName(), memory)
	cleanUp(made)
	Expect(accountOf(ctx, simulators.ControllerAccount).Create(ctx, made)).To(Succeed())
	Expect(change(ctx, admin, snapshot, func() {})).To(Succeed())
	Expect(unstructured.SetNestedField(snapshot.Object, name, "status", "virtualMachineSnapshotContentName")).To(Succeed())
	Expect(admin.Status().Update(ctx, snapshot)).To(Succeed())
	return made
}

func contentOf(name, snapshot, memory string) *unstructured.Unstructured {
	return object("{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineSnapshotContent, metadata: {name: " + name + ", namespace: mallory}, spec: {virtualMachineSnapshotName: " + snapshot + ", source: {virtualMachine: {metadata: {name: source}, spec: {runStrategy: Always, template: {spec: {domain: {devices: {}, memory: {guest: " + memory + "}}}}}}}}}")
}

// marked is a VM that KubeVirt creates for a restore.
func marked(name, memory string, restore client.Object) *kubevirtv1.VirtualMachine {
	vm := sized(name, memory)
	vm.Annotations = map[string]string{copies.AnnotationRestore: restore.GetName() + "-" + string(restore.GetUID())}
	return vm
}

// authorsAreGuarded waits until records of authors count: the guard exists for some seconds.
func authorsAreGuarded(ctx context.Context) {
	GinkgoHelper()
	policy, binding := &admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: admissionpolicies.CopyAuthors}, policy)).To(Succeed())
	Expect(admin.Get(ctx, client.ObjectKey{Name: admissionpolicies.CopyAuthors}, binding)).To(Succeed())
	since := admissionpolicies.ActiveSince(apikinds.Restores.GroupVersionResource().GroupResource(), policy, binding)
	Expect(since.IsZero()).To(BeFalse())
	Eventually(func() bool { return time.Now().After(since.Add(time.Second)) }).Should(BeTrue())
}

// author is the recorded author of a restore or a clone.
func author(ctx context.Context, of client.Object) string {
	GinkgoHelper()
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(of), of)).To(Succeed())
	record, err := copies.RecordOf(of.GetAnnotations())
	Expect(err).NotTo(HaveOccurred())
	return record.Username
}

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
		take(ctx, snapshot, "nightly-content", "1Gi")
		Eventually(func(ctx context.Context) []string {
			return causes(mallory.Create(ctx, object(restore), client.DryRunAll))
		}).WithContext(ctx).Should(
			ConsistOf("spec.patches policy/deputy-bob"))
		Expect(mallory.Create(ctx, object(strings.Replace(restore, larger, "", 1)), client.DryRunAll)).To(Succeed())
	})

	It("does not restore what changed after the author was evaluated", func(ctx SpecContext) {
		authorsAreGuarded(ctx)
		kubevirt := accountOf(ctx, simulators.ControllerAccount)
		small := sized("source", "1Gi")
		cleanUp(small)
		Expect(mallory.Create(ctx, small)).To(Succeed())
		enforce(ctx, "restored-bob", bobOnly, sized("probe", "8Gi"))
		const ofSource = "{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineSnapshot, metadata: {name: weekly, namespace: mallory}, spec: {source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: source}}}"
		snapshot := object(ofSource)
		cleanUp(snapshot)
		Expect(mallory.Create(ctx, snapshot)).To(Succeed())
		content := take(ctx, snapshot, "weekly-content", "1Gi")

		By("editing the content, or creating it again")
		larger := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"source":{"virtualMachine":{"spec":{"template":{"spec":{"domain":{"memory":{"guest":"8Gi"}}}}}}}}}`))
		Expect(mallory.Patch(ctx, content.DeepCopy(), larger)).To(MatchError(ContainSubstring("snapshot-content: spec: only KubeVirt")))
		Expect(mallory.Create(ctx, contentOf("weekly-content-2", "weekly", "8Gi"))).To(MatchError(ContainSubstring("snapshot-content: metadata.name: only KubeVirt")))

		By("ordering a restore, which records its author")
		restore := object("{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineRestore, metadata: {name: weekly-back, namespace: mallory}, spec: {target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: back}, virtualMachineSnapshotName: weekly}}")
		cleanUp(restore)
		Eventually(func(ctx context.Context) error { return mallory.Create(ctx, restore) }).WithContext(ctx).Should(Succeed())
		Expect(author(ctx, restore)).To(Equal("mallory"))
		for _, record := range []string{`null`, `"{\"username\":\"bob\"}"`} {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"copy.virtward.io/author":`+record+`}}}`))
			Expect(mallory.Patch(ctx, restore.DeepCopy(), patch)).To(Succeed(), "the mutating webhook keeps the record")
			Expect(author(ctx, restore)).To(Equal("mallory"))
		}

		By("creating the VM as virt-controller")
		Eventually(func(ctx context.Context) error {
			return kubevirt.Create(ctx, marked("back", "1Gi", restore), client.DryRunAll)
		}).WithContext(ctx).Should(Succeed())
		Expect(causes(kubevirt.Create(ctx, marked("back", "8Gi", restore)))).To(ConsistOf("spec policy/restored-bob"))
		Expect(kubevirt.Create(ctx, sized("back", "1Gi"))).To(MatchError(ContainSubstring("the author of the virtual machine is not known")))
		Expect(kubevirt.Create(ctx, marked("other", "1Gi", restore))).To(MatchError(ContainSubstring("its target is another object")))

		By("restoring in place")
		existing := sized("back", "1Gi")
		cleanUp(existing)
		Expect(mallory.Create(ctx, existing)).To(Succeed())
		Expect(causes(change(ctx, kubevirt, existing, func() {
			existing.Annotations = marked("back", "1Gi", restore).Annotations
			existing.Spec = sized("back", "8Gi").Spec
		}))).To(ConsistOf("spec policy/restored-bob"))

		By("taking another snapshot of the same name")
		Expect(admin.Patch(ctx, snapshot.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		Expect(mallory.Delete(ctx, snapshot.DeepCopy())).To(Succeed())
		again := object(ofSource)
		Expect(mallory.Create(ctx, again)).To(Succeed())
		take(ctx, again, "weekly-content-3", "1Gi")
		Eventually(func(ctx context.Context) error { // an object that was read is kept for a second
			if err := admin.Get(ctx, client.ObjectKeyFromObject(existing), existing); err != nil {
				return err
			}
			existing.Annotations = marked("back", "1Gi", restore).Annotations
			existing.Spec = sized("back", "2Gi").Spec
			return kubevirt.Update(ctx, existing, client.DryRunAll)
		}).WithContext(ctx).Should(MatchError(ContainSubstring("its snapshot has changed since it was created")))
	})

	It("evaluates the author of a clone when KubeVirt restores it", func(ctx SpecContext) {
		authorsAreGuarded(ctx)
		kubevirt := accountOf(ctx, simulators.ControllerAccount)
		small := sized("source", "1Gi")
		cleanUp(small)
		Expect(mallory.Create(ctx, small)).To(Succeed())
		enforce(ctx, "cloned-bob", bobOnly, sized("probe", "8Gi"))
		clone := object("{apiVersion: clone.kubevirt.io/v1beta1, kind: VirtualMachineClone, metadata: {name: copied, namespace: mallory}, spec: {source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: source}, target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: copy}}}")
		cleanUp(clone)
		Expect(mallory.Create(ctx, clone)).To(Succeed())
		Expect(author(ctx, clone)).To(Equal("mallory"))

		By("taking the snapshot of the clone, and restoring it, as virt-controller")
		snapshot := object("{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineSnapshot, metadata: {name: tmp-snapshot, namespace: mallory}, spec: {source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: source}}}")
		cleanUp(snapshot)
		Expect(kubevirt.Create(ctx, snapshot)).To(Succeed())
		take(ctx, snapshot, "tmp-content", "1Gi")
		const target = ", namespace: mallory}, spec: {target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: copy}, virtualMachineSnapshotName: tmp-snapshot}}"
		restore := object("{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineRestore, metadata: {name: tmp-restore" + target)
		controls := true
		restore.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "clone.kubevirt.io/v1beta1", Kind: "VirtualMachineClone", Name: clone.GetName(), UID: clone.GetUID(), Controller: &controls}})
		cleanUp(restore)
		Expect(kubevirt.Create(ctx, restore)).To(Succeed())
		Expect(author(ctx, restore)).To(Equal("mallory"))
		Eventually(func(ctx context.Context) error {
			return kubevirt.Create(ctx, marked("copy", "1Gi", restore), client.DryRunAll)
		}).WithContext(ctx).Should(Succeed())
		Expect(causes(kubevirt.Create(ctx, marked("copy", "8Gi", restore)))).To(ConsistOf("spec policy/cloned-bob"))

		By("restoring without a clone")
		unowned := object("{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineRestore, metadata: {name: tmp-restore-2" + target)
		cleanUp(unowned)
		Expect(kubevirt.Create(ctx, unowned)).To(Succeed())
		Expect(kubevirt.Create(ctx, marked("copy", "1Gi", unowned))).To(MatchError(ContainSubstring("the annotation copy.virtward.io/author is missing")))
	})

	It("does not create instances of a set that a policy on the requester denies", func(ctx SpecContext) {
		enforce(ctx, "set-bob", strings.NewReplacer("[VirtualMachine]", "[VirtualMachine, VirtualMachineInstance]", "requester == 'bob'", "requester == 'bob' || requester in platform.kubeVirtUsers").Replace(bobOnly), sized("probe", "8Gi"))
		const set = "{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstanceReplicaSet, metadata: {name: instances, namespace: mallory}, spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {domain: {devices: {}, memory: {guest: 8Gi}}}}}}"
		Expect(causes(mallory.Create(ctx, object(set)))).To(ConsistOf("spec.template.spec policy/set-bob"))
		small := object(strings.Replace(set, "8Gi", "1Gi", 1))
		cleanUp(small)
		Expect(mallory.Create(ctx, small)).To(Succeed())
		grows := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"template":{"spec":{"domain":{"memory":{"guest":"8Gi"}}}}}}`))
		Expect(causes(mallory.Patch(ctx, small.DeepCopy(), grows))).To(ConsistOf("spec.template.spec policy/set-bob"))
		Expect(mallory.Patch(ctx, small.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":2}}`)))).To(Succeed())
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
