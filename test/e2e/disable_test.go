package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/admissionpolicies"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/test/build"
)

var _ = Describe("kubectl virtward disable", Serial, Ordered, func() {
	var before admissionState

	// admits waits until the API server has taken notice.
	admits := func(ctx context.Context, object client.Object) {
		GinkgoHelper()
		Eventually(func(ctx context.Context) error {
			return admin.Create(ctx, object, client.DryRunAll)
		}).WithContext(ctx).Should(Succeed())
	}

	BeforeAll(func(ctx SpecContext) {
		before = stateOfAdmission(ctx)
		grantWeakSettings(ctx, "carol")
		virtward.Kill()
	})

	AfterAll(func(ctx SpecContext) { // whatever went wrong
		Expect(kubectlAsAdmin(ctx, "", "virtward", "enable").code).To(BeZero())
		if virtward.PID() == 0 {
			Expect(virtward.Start(ctx)).To(Succeed())
		}
		awaitChecks(ctx)
	}, NodeTimeout(3*time.Minute))

	It("is needed: without virtward, no user can create a VM", func(ctx SpecContext) {
		Expect(alice.Create(ctx, build.VM("off-before").Obj())).To(MatchError(ContainSubstring(notCalled)))
		Expect(clientOf("carol").Create(ctx, weakSettings("off-guarded"), client.DryRunAll)).To(MatchError(ContainSubstring("rule-settings-weaken: ")))
	})

	It("requires permissions", func(ctx SpecContext) {
		said := kubectl(ctx, "alice", "", "virtward", "disable", "--reason", "mine")
		Expect(said.code).To(Equal(1))
		Expect(said.errors).To(ContainSubstring("error: listing validatingwebhookconfigurations: "))
		Expect(said.errors).To(HaveSuffix("error: some objects of Virtward are not off: see above\n"))
	})

	It("prints the changes of a dry run", func(ctx SpecContext) {
		said := kubectlAsAdmin(ctx, "", "virtward", "disable", "--reason", "a rehearsal", "--dry-run")
		Expect(said.code).To(BeZero(), said.errors)
		Expect(said.output).To(ContainSubstring("ValidatingWebhookConfiguration validate.virtward.io: would be switched off\n"))
		Expect(stateOfAdmission(ctx)).To(Equal(before))
	})

	It("switches everything off while virtward is dead", func(ctx SpecContext) {
		said := kubectlAsAdmin(ctx, "", "virtward", "disable", "--reason", "no replica starts")
		Expect(said.code).To(BeZero(), said.errors)
		for _, line := range []string{
			"MutatingWebhookConfiguration mutate.virtward.io: switched off\n",
			"ValidatingWebhookConfiguration validate.virtward.io: switched off\n",
			"ValidatingAdmissionPolicy " + admissionpolicies.RuleSettings + ": switched off\n",
			"ValidatingAdmissionPolicy " + admissionpolicies.Policies + ": switched off\n",
			"ValidatingAdmissionPolicy " + admissionpolicies.KubeVirtHypervisor + ": switched off\n",
			"ValidatingAdmissionPolicy " + admissionpolicies.KubeVirtHypervisorEffect + ": switched off\n",
			"KubeVirt's own checks stay",
		} {
			Expect(said.output).To(ContainSubstring(line))
		}

		admits(ctx, build.VM("off").Obj())
		vm := build.VM("off").Obj()
		cleanUp(vm)
		Expect(alice.Create(ctx, vm)).To(Succeed())
		Expect(alice.Create(ctx, impossible("off"), client.DryRunAll)).To(Succeed())
		calls := failedCalls(ctx)
		Expect(alice.Create(ctx, build.VM("off-uncalled").Obj(), client.DryRunAll)).To(Succeed())
		Expect(failedCalls(ctx)).To(Equal(calls), "the first webhook is not called in vain")
		Eventually(func(ctx context.Context) error {
			return clientOf("carol").Create(ctx, weakSettings("off-guarded"), client.DryRunAll)
		}).WithContext(ctx).Should(Succeed())
	})

	It("leaves the guards of rollouts active: a rollout acts for the user that they verify", func(ctx SpecContext) {
		forged := rolloutOf("off-forged", "{selector: {}, paused: true}")
		forged.SetAnnotations(map[string]string{v1alpha1.AnnotationRequester: `{"username":"admin","groups":["system:masters"]}`})
		Expect(admin.Create(ctx, forged, client.DryRunAll)).To(MatchError(ContainSubstring("rollout-requester: ")))
	})

	It("leaves the guards active without which state would be trusted that no guard has checked", func(ctx SpecContext) {
		guards := &admissionv1.ValidatingAdmissionPolicyList{}
		Expect(admin.List(ctx, guards, client.MatchingLabels{"app.kubernetes.io/part-of": "virtward"})).To(Succeed())
		on := map[string]bool{}
		for i := range guards.Items {
			on[guards.Items[i].Name] = !slices.ContainsFunc(guards.Items[i].Spec.MatchConditions, func(c admissionv1.MatchCondition) bool { return c.Name == admissionpolicies.Disabled })
		}
		for _, name := range []string{
			admissionpolicies.TemplateApprovedOnly, admissionpolicies.TemplateNamespaces, admissionpolicies.TemplateProvenance, admissionpolicies.TemplateStatus,
			admissionpolicies.Rollouts, admissionpolicies.PolicyExceptions,
		} {
			Expect(on).To(HaveKeyWithValue(name, true))
		}
		Expect(on).To(HaveKeyWithValue(admissionpolicies.Policies, false))
	})

	It("shows the reason, the user and the time", func(ctx SpecContext) {
		configuration := &admissionv1.ValidatingWebhookConfiguration{}
		Expect(admin.Get(ctx, client.ObjectKey{Name: checks}, configuration)).To(Succeed())
		note := map[string]string{}
		Expect(json.Unmarshal([]byte(configuration.Annotations[admissionpolicies.Disabled]), &note)).To(Succeed())
		Expect(note).To(HaveKeyWithValue("reason", "no replica starts"))
		Expect(note["by"]).NotTo(BeElementOf("", "unknown"))
		at, err := time.Parse(time.RFC3339, note["at"])
		Expect(err).NotTo(HaveOccurred())
		Expect(at).To(BeTemporally("~", time.Now(), time.Minute))

		results, _ := checked(kubectlAsAdmin(ctx, "", "virtward", "status", "-o", "json"))
		Expect(results).To(ContainElements(
			HaveField("Line", MatchRegexp(`^switch warning ValidatingWebhookConfiguration validate\.virtward\.io: off: no replica starts, by \S+ at 2`)),
			HaveField("Line", MatchRegexp(`^guards warning ValidatingAdmissionPolicy virtward-rule-settings: off: no replica starts, by `)),
			HaveField("Line", "answers ok webhook: not called: the webhook is switched off"),
		))
		Expect(results).NotTo(ContainElement(HaveField("Line", MatchRegexp(`^(switch|guards|answers|certificates|definitions) error `))), "a deliberate disable is no error")
	})

	It("is not reverted by virtward", func(ctx SpecContext) {
		off := stateOfAdmission(ctx)
		Expect(virtward.Start(ctx)).To(Succeed())
		Consistently(stateOfAdmission).WithContext(ctx).WithTimeout(2 * time.Second).Should(Equal(off))
		Expect(alice.Create(ctx, impossible("off"), client.DryRunAll)).To(Succeed())
	})

	It("is undone by enable", func(ctx SpecContext) {
		said := kubectlAsAdmin(ctx, "", "virtward", "enable")
		Expect(said.code).To(BeZero(), said.errors)
		Expect(said.output).To(ContainSubstring("ValidatingWebhookConfiguration validate.virtward.io: switched on\n"))
		Expect(said.output).To(HaveSuffix("Virtward is on. It takes effect within seconds.\n"))
		Expect(stateOfAdmission(ctx)).To(Equal(before), "enable takes away what disable added, and nothing else")
		awaitChecks(ctx)
		Expect(causes(alice.Create(ctx, impossible("on")))).To(HaveLen(2))
		Eventually(func(ctx context.Context) error {
			return clientOf("carol").Create(ctx, weakSettings("on"), client.DryRunAll)
		}).WithContext(ctx).Should(SatisfyAll(
			Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("rule-settings-weaken: "))))
		Expect(kubectlAsAdmin(ctx, "", "virtward", "status").output).To(MatchRegexp(`(?m)^switch +ok +ValidatingWebhookConfiguration validate\.virtward\.io +on$`))
	})
})

// admissionState has the content of Virtward's objects that take part in admission, by kind and name.
type admissionState map[string]string

func stateOfAdmission(ctx context.Context) admissionState {
	GinkgoHelper()
	state := admissionState{}
	note := func(kind string, meta metav1.ObjectMeta, content any) {
		text, err := json.Marshal([]any{meta.Annotations, meta.Labels, content})
		Expect(err).NotTo(HaveOccurred())
		state[kind+" "+meta.Name] = string(text)
	}
	labelled := client.MatchingLabels{"app.kubernetes.io/part-of": "virtward"}
	mutating, validating := &admissionv1.MutatingWebhookConfigurationList{}, &admissionv1.ValidatingWebhookConfigurationList{}
	policies := &admissionv1.ValidatingAdmissionPolicyList{}
	for _, list := range []client.ObjectList{mutating, validating, policies} {
		Expect(admin.List(ctx, list, labelled)).To(Succeed(), fmt.Sprintf("%T", list))
	}
	for _, item := range mutating.Items {
		note("mutating", item.ObjectMeta, item.Webhooks)
	}
	for _, item := range validating.Items {
		note("validating", item.ObjectMeta, item.Webhooks)
	}
	for _, item := range policies.Items {
		note("policy", item.ObjectMeta, item.Spec)
	}
	Expect(state).To(HaveKey("mutating " + webhook))
	Expect(state).To(HaveKey("validating " + checks))
	Expect(state).To(HaveKey("policy " + admissionpolicies.RuleSettings))
	return state
}

// grantWeakSettings grants a user to write RuleSettings, but not the verb weaken.
func grantWeakSettings(ctx context.Context, user string) {
	GinkgoHelper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "settings-of-" + user},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{policyv1alpha1.GroupVersion.Group}, Resources: []string{"rulesettings"}, Verbs: []string{"create"},
		}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	for _, object := range []client.Object{role, binding} {
		Expect(admin.Create(ctx, object)).To(Succeed())
		cleanUp(object)
	}
}

// weakSettings make a security-relevant rule more lenient, which their guard rejects.
func weakSettings(name string) client.Object {
	return settings(name, setting{Rule: "hostdevice-gate", Severity: policyv1alpha1.Warn})
}
