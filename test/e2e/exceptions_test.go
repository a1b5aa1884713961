package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/admissionpolicies"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/webhooks"
)

// The guard of exceptions, and the message to a user without the verb.
const (
	exceptionsGuard = "ValidatingAdmissionPolicy 'virtward-policy-exceptions' with binding 'virtward-policy-exceptions' denied request: "
	needsExempt     = exceptionsGuard + "exception-exempt: spec.policies: you need the verb exempt on virtualmachinepolicies.policy.virtward.io/"
)

// getting waits until alice gets these findings for an object, and no others.
func getting(ctx context.Context, object client.Object, findings ...string) {
	GinkgoHelper()
	want := BeEmpty()
	if len(findings) > 0 {
		want = HaveExactElements(findings)
	}
	Eventually(func(ctx context.Context) []string { return answer(ctx, object, "alice") }).WithContext(ctx).Should(want)
}

// becoming waits until the status of an exception has a reason.
func becoming(ctx context.Context, e *policyv1alpha1.VirtualMachinePolicyException, status metav1.ConditionStatus, reason string) {
	GinkgoHelper()
	Eventually(func(g Gomega, ctx context.Context) {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(e), e)).To(Succeed())
		g.Expect(e.Status.Conditions).To(ConsistOf(And(
			HaveField("Type", policyv1alpha1.ExceptionActive), HaveField("Status", status), HaveField("Reason", reason))))
	}).WithContext(ctx).Should(Succeed())
}

// guardIsOlder waits until the guard is older than a new exception.
func guardIsOlder(ctx context.Context) {
	GinkgoHelper()
	By("waiting until the guard is older than an exception")
	guard := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: admissionpolicies.PolicyExceptions}, guard)).To(Succeed())
	time.Sleep(time.Until(guard.CreationTimestamp.Add(12 * time.Second)))
}

// exceptionOf exempts VMs of the policed namespace from a policy.
func exceptionOf(name, policy string, machines ...string) *policyv1alpha1.VirtualMachinePolicyException {
	return &policyv1alpha1.VirtualMachinePolicyException{
		ObjectMeta: metav1.ObjectMeta{Namespace: policed, Name: name},
		Spec: policyv1alpha1.VirtualMachinePolicyExceptionSpec{
			Policies: []string{policy}, VirtualMachines: machines, Reason: "year's end", Expires: metav1.NewTime(time.Now().Add(30 * 24 * time.Hour)),
		},
	}
}

// called is a VM of the policed namespace with four cores.
func called(name string, labels map[string]string) *kubevirtv1.VirtualMachine {
	vm := machine(cpus(4))
	vm.Name, vm.Labels = name, labels
	return vm
}

// instanceOf is the instance that a user claims to be of a VM.
func instanceOf(vm *kubevirtv1.VirtualMachine, name string) *kubevirtv1.VirtualMachineInstance {
	vmi := build.VMI(name).Namespace(policed).Topology(1, 4, 1).Obj()
	vmi.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(vm, kubevirtv1.VirtualMachineGroupVersionKind)}
	return vmi
}

var _ = Describe("VirtualMachinePolicyExceptions", Serial, Ordered, func() {
	const (
		two        = `{enforcement: Deny, validations: [{expression: "vm.spec.domain.cpu.cores <= 2", message: at most two cores, fieldPath: spec.domain.cpu.cores}]}`
		denied     = `FieldValueInvalid spec.template.spec.domain.cpu.cores: Invalid value: 4: at most two cores [virtward/policy/two]`
		deniedInVM = `FieldValueInvalid spec.domain.cpu.cores: Invalid value: 4: at most two cores [virtward/policy/two]`
	)
	var exempter client.Client

	BeforeAll(func(ctx SpecContext) {
		preparePoliced(ctx)
		for _, object := range []client.Object{
			&rbacv1.ClusterRole{
				ObjectMeta: metav1.ObjectMeta{Name: "exempter-of-two"},
				Rules: []rbacv1.PolicyRule{{
					APIGroups: []string{policyv1alpha1.GroupVersion.Group}, Resources: []string{"virtualmachinepolicies"}, Verbs: []string{policyv1alpha1.VerbExempt}, ResourceNames: []string{"two", "caps"},
				}},
			},
			&rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "exempter-of-two"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "exempter-of-two"},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "bob"}},
			},
		} {
			Expect(admin.Create(ctx, object)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, object)).To(Succeed()) })
		}
		exempter, _ = userOf("bob")
		guardIsOlder(ctx)
		Eventually(func(ctx context.Context) error {
			return exempter.Create(ctx, exceptionOf("allowed", "two", "any"), client.DryRunAll)
		}).WithContext(ctx).Should(Succeed())
		enforce(ctx, "two", two)
		getting(ctx, called("legacy", nil), denied)
	})

	It("need the verb exempt on each policy, at each change of the spec", func(ctx SpecContext) {
		user, _ := userOf("alice")
		Expect(user.Create(ctx, exceptionOf("mine", "two", "legacy"))).To(MatchError(ContainSubstring(needsExempt + "two")))
		Expect(exempter.Create(ctx, exceptionOf("other", "other", "legacy"))).To(MatchError(ContainSubstring(needsExempt + "other")))

		e := exceptionOf("granted", "two", "legacy")
		Expect(exempter.Create(ctx, e)).To(Succeed())
		cleanUp(e)
		Expect(e.Annotations).To(HaveKeyWithValue(policyv1alpha1.AnnotationExemptedBy, "bob"))

		Expect(change(ctx, user, e, func() { e.Spec.Reason = "mine" })).To(MatchError(ContainSubstring(needsExempt + "two")))
		Expect(change(ctx, user, e, func() { e.Annotations[policyv1alpha1.AnnotationExemptedBy] = "alice" })).To(Succeed(), "the webhook keeps the author")
		Expect(e.Annotations).To(HaveKeyWithValue(policyv1alpha1.AnnotationExemptedBy, "bob"))
		Expect(change(ctx, user, e, func() { e.Labels = map[string]string{"team": "shop"} })).To(Succeed())
	})

	It("are offered in a denial", func(ctx SpecContext) {
		user, _ := userOf("alice")
		causes := detailed(user.Create(ctx, called("legacy", nil), client.DryRunAll))
		Expect(causes).To(HaveExactElements(HaveField("Message", HaveSuffix("[virtward/policy/two] "+webhooks.ExceptionRemedy))))
	})

	It("exempt the VM, its instance and no other", func(ctx SpecContext) {
		e := exceptionOf("granted", "two", "legacy")
		Expect(exempter.Create(ctx, e)).To(Succeed())
		cleanUp(e)
		getting(ctx, called("legacy", nil))
		Expect(answer(ctx, called("legacy2", nil), "alice")).To(HaveExactElements(denied))
		becoming(ctx, e, metav1.ConditionTrue, policyv1alpha1.ExceptionReasonActive)
		generated := called("", nil)
		generated.GenerateName = "legacy"
		Expect(answer(ctx, generated, "alice")).To(HaveExactElements(denied))

		vm := called("legacy", nil)
		vm.Spec.RunStrategy = new(kubevirtv1.RunStrategyAlways)
		Expect(admin.Create(ctx, vm)).To(Succeed())
		cleanUp(vm)
		Eventually(func(ctx context.Context) error {
			return admin.Get(ctx, client.ObjectKeyFromObject(vm), &kubevirtv1.VirtualMachineInstance{})
		}).WithContext(ctx).Should(Succeed(), "KubeVirt starts the VM")
		Expect(answer(ctx, instanceOf(vm, "evil"), "alice")).To(HaveExactElements(deniedInVM), "the name is not that of the VM")
		forged := instanceOf(vm, "legacy")
		forged.OwnerReferences[0].UID = "forged"
		Expect(answer(ctx, forged, "alice")).To(HaveExactElements(deniedInVM), "there is no VM of this UID")

		By("deleting the exception")
		Expect(exempter.Delete(ctx, e)).To(Succeed())
		getting(ctx, called("legacy", nil), denied)
	})

	It("are created, explained and audited by kubectl virtward", func(ctx SpecContext) {
		run := func(args ...string) []byte {
			GinkgoHelper()
			output, err := exec.CommandContext(ctx, cluster.Binary("kubectl-virtward"), append(args, "-n", policed, "--kubeconfig", cluster.Kubeconfig())...).Output()
			Expect(err).NotTo(HaveOccurred(), "%s", output)
			return output
		}
		type exempted struct {
			Exempted struct{ Exception, Reason string }
		}
		var explained struct{ Findings []exempted }
		var audited struct{ Violations []exempted }
		want := exempted{}
		want.Exempted.Exception, want.Exempted.Reason = "called-two", "year's end"

		created := exceptionOf("called-two", "two", "called")
		cleanUp(created)
		Expect(string(run("policy", "exempt", "two", "vm/called", "--for", "30d", "--reason", "year's end"))).To(Equal("virtualmachinepolicyexception.policy.virtward.io/called-two created\n"))
		becoming(ctx, created, metav1.ConditionTrue, policyv1alpha1.ExceptionReasonActive)
		vm := called("called", nil)
		written, err := json.Marshal(vm)
		Expect(err).NotTo(HaveOccurred())
		file := filepath.Join(GinkgoT().TempDir(), "vm.json")
		Expect(os.WriteFile(file, written, 0o600)).To(Succeed())
		Expect(json.Unmarshal(run("explain", "--from-cluster", "-f", file, "-o", "json"), &explained)).To(Succeed())
		Expect(explained.Findings).To(ContainElement(want))

		getting(ctx, vm)
		Expect(admin.Create(ctx, vm)).To(Succeed())
		cleanUp(vm)
		Expect(json.Unmarshal(run("audit", "-o", "json"), &audited)).To(Succeed())
		Expect(audited.Violations).To(ContainElement(want))
	})

	It("select VMs by their labels, and instances by those of their VM", func(ctx SpecContext) {
		e := exceptionOf("labelled", "two")
		e.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "legacy"}}
		Expect(exempter.Create(ctx, e)).To(Succeed())
		cleanUp(e)
		legacy := map[string]string{"tier": "legacy"}
		getting(ctx, called("x", legacy))
		Expect(answer(ctx, called("x", nil), "alice")).To(HaveExactElements(denied))
		vm := called("x", legacy)
		Expect(admin.Create(ctx, vm)).To(Succeed())
		cleanUp(vm)
		Expect(answer(ctx, instanceOf(vm, "x"), "alice")).To(BeEmpty())
		forged := instanceOf(vm, "x")
		forged.OwnerReferences[0].UID = "forged"
		Expect(answer(ctx, forged, "alice")).To(HaveExactElements(deniedInVM))
	})

	It("end by themselves, and warn before that", func(ctx SpecContext) {
		past, late := exceptionOf("past", "two", "legacy"), exceptionOf("late", "two", "legacy")
		past.Spec.Expires = metav1.NewTime(time.Now().Add(-time.Minute))
		late.Spec.Expires = metav1.NewTime(time.Now().Add(91 * 24 * time.Hour))
		Expect(exempter.Create(ctx, past)).To(MatchError(ContainSubstring("must be in the future [virtward/policy-exception-valid]")))
		Expect(exempter.Create(ctx, late)).To(MatchError(ContainSubstring("must be at most 90 days in the future [virtward/policy-exception-valid]")))

		brief, long := exceptionOf("brief", "two", "brief"), exceptionOf("long", "two", "long")
		brief.Spec.Expires = metav1.NewTime(time.Now().Add(4 * time.Second))
		long.Spec.Expires = metav1.NewTime(time.Now().Add(6 * 24 * time.Hour))
		for _, e := range []client.Object{brief, long} {
			Expect(exempter.Create(ctx, e)).To(Succeed())
			cleanUp(e)
		}
		getting(ctx, called("long", nil), "warning: policy two: exempted until "+long.Spec.Expires.UTC().Format(time.RFC3339)+" by VirtualMachinePolicyException long: year's end; a restart afterwards is denied")
		getting(ctx, called("brief", nil), denied)
		becoming(ctx, brief, metav1.ConditionFalse, policyv1alpha1.ExceptionReasonExpired)
		becoming(ctx, long, metav1.ConditionTrue, policyv1alpha1.ExceptionReasonExpiring)
	})

	It("are not active without the guard, or if they are older than it", func(ctx SpecContext) {
		e := exceptionOf("granted", "two", "legacy")
		Expect(exempter.Create(ctx, e)).To(Succeed())
		cleanUp(e)
		getting(ctx, called("legacy", nil))

		By("switching the guard off, and on again")
		guard := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: admissionpolicies.PolicyExceptions}}
		Expect(change(ctx, admin, guard, func() {
			guard.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: admissionpolicies.Disabled, Expression: "false"}}
		})).To(Succeed())
		getting(ctx, called("legacy", nil), denied)
		becoming(ctx, e, metav1.ConditionFalse, policyv1alpha1.ExceptionReasonNotPermitted)
		Expect(change(ctx, admin, guard, func() { guard.Spec.MatchConditions = nil })).To(Succeed())
		getting(ctx, called("legacy", nil))

		By("deleting the guard, and creating it again")
		Expect(admin.Delete(ctx, guard)).To(Succeed())
		getting(ctx, called("legacy", nil), denied)
		user, _ := userOf("alice")
		unguarded := exceptionOf("unguarded", "two", "legacy")
		Eventually(func(ctx context.Context) error { return user.Create(ctx, unguarded) }).WithContext(ctx).Should(Succeed())
		cleanUp(unguarded)
		guard.ResourceVersion, guard.UID = "", ""
		Expect(admin.Create(ctx, guard)).To(Succeed())
		Eventually(func(ctx context.Context) error {
			return user.Create(ctx, exceptionOf("guarded", "two", "legacy"), client.DryRunAll)
		}).WithContext(ctx).Should(MatchError(ContainSubstring(needsExempt + "two")))
		Expect(answer(ctx, called("legacy", nil), "alice")).To(HaveExactElements(denied))
	})
})
