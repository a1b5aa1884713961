package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/test/controlplane"
)

// Counts of evaluations reach the controller as in a cluster, except that no kubelet and no controller of EndpointSlices
// publish the address of the webhook.
var _ = Describe("Evaluation errors of policies", Serial, Ordered, func() {
	var metricsPort int

	BeforeAll(func(ctx SpecContext) {
		address, kind := controlplane.HostAddress()
		if address == "" {
			Skip("this machine has no address but loopback, which EndpointSlices reject")
		}
		preparePoliced(ctx)
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: controlplane.VirtwardNamespace, Name: "policy-counts-of-the-sandbox",
				Labels: map[string]string{discoveryv1.LabelServiceName: "virtward-webhook-policy-counts"},
			},
			AddressType: kind,
			Ports:       []discoveryv1.EndpointPort{{Name: new("policy-counts"), Port: new(countsPort())}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
		}
		cleanUp(slice)
		Expect(admin.Create(ctx, slice)).To(Succeed())

		By("running the controller with short intervals")
		Expect(cluster.VirtwardControllerProcess().Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(cluster.VirtwardControllerProcess().Start(ctx)).To(Succeed()) })
		var err error
		metricsPort, err = cluster.TakePort()
		Expect(err).NotTo(HaveOccurred())
		controller, err := cluster.RunVirtward(ctx, controlplane.Workload{
			Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardController,
			Args: []string{"--policy-counts-interval=200ms", "--audit-delay=200ms", controlplane.ShortLease, fmt.Sprintf("--metrics-address=:%d", metricsPort)},
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(controller.Stop()).To(Succeed()) })
	}, NodeTimeout(3*time.Minute))

	// conditionOf is the status and the reason of a condition.
	conditionOf := func(status *policyv1alpha1.VirtualMachinePolicyStatus, kind string) string {
		found := meta.FindStatusCondition(status.Conditions, kind)
		if found == nil {
			return ""
		}
		return fmt.Sprintf("%s %s %d", found.Status, found.Reason, found.ObservedGeneration)
	}
	// eventsOf are the reasons of the events on a policy.
	eventsOf := func(ctx context.Context, name string) []string {
		GinkgoHelper()
		list := &corev1.EventList{}
		Expect(admin.List(ctx, list)).To(Succeed())
		var reasons []string
		for i := range list.Items {
			if list.Items[i].InvolvedObject.Name == name {
				reasons = append(reasons, list.Items[i].Reason)
			}
		}
		return reasons
	}
	// evaluatedBy waits until these policies, and no others, warn that they cannot be evaluated.
	evaluatedBy := func(ctx context.Context, names ...string) {
		GinkgoHelper()
		var warnings []any
		for _, name := range names {
			warnings = append(warnings, And(ContainSubstring("the policy cannot be evaluated: spec.validations[0].expression"), ContainSubstring("[virtward/policy/"+name+"]")))
		}
		Eventually(func(ctx context.Context) []string { return answer(ctx, machine(), "alice") }).WithContext(ctx).Should(ConsistOf(warnings...))
	}
	suspended := func(ctx context.Context, name string) float64 {
		GinkgoHelper()
		return scrapeAt(ctx, fmt.Sprintf("http://127.0.0.1:%d/metrics", metricsPort)).sum("virtward_policy_suspended", map[string]string{"policy": name})
	}

	It("are shown for a policy that is valid and fails on every VM", func(ctx SpecContext) {
		policy := policyWith("fails-at-run-time", `{enforcement: Warn, validations: [{expression: "object.metadata.labels['none'] == ''", message: m}]}`)
		cleanUp(policy)
		Expect(admin.Create(ctx, policy)).To(Succeed())
		evaluatedBy(ctx, policy.GetName())
		Eventually(func(g Gomega, ctx context.Context) {
			status, err := statusOf(ctx, policy.GetName())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(status.EvaluationErrors).To(HaveValue(BeNumerically(">=", 1)))
			g.Expect(status.Errors).To(HaveLen(1))
			g.Expect(status.Errors[0].Field).To(Equal("spec.validations[0].expression"))
			g.Expect(status.Errors[0].Reason).To(BeEquivalentTo("failed"))
			g.Expect(conditionOf(status, policyv1alpha1.PolicyEvaluated)).To(Equal("False EvaluationErrors 1"))
			g.Expect(conditionOf(status, policyv1alpha1.PolicyReady)).To(Equal("True Ready 1"))
			g.Expect(conditionOf(status, policyv1alpha1.PolicySuspended)).To(Equal("False WithinLimits 1"))
		}).WithContext(ctx).Should(Succeed())
		Eventually(eventsOf).WithContext(ctx).WithArguments(policy.GetName()).Should(ContainElement("EvaluationErrors"))
		shown := kubectlAsAdmin(ctx, "", "get", "vmpol", policy.GetName())
		Expect(shown.code).To(BeZero(), shown.errors)
		lines := strings.Split(strings.TrimSpace(shown.output), "\n")
		Expect(lines).To(HaveLen(2))
		headings := strings.Fields(lines[0])
		Expect(headings).To(ContainElement("ERRORS"))
		Expect(lines[1]).To(MatchRegexp(`True\s+0?\s*[1-9][0-9]*\s`), "%v: %s", headings, lines[1])
	}, NodeTimeout(3*time.Minute))

	It("are listed by kubectl virtward status, with the policies that deny most", func(ctx SpecContext) {
		const match = `match: {kinds: [VirtualMachine], objectSelector: {matchLabels: {status: counted}}}, `
		fails := policyWith("denies-and-fails", `{enforcement: Deny, `+match+`validations: [{expression: "object.metadata.annotations['none'] == ''", message: m}]}`)
		denies := policyWith("denies-often", `{enforcement: Deny, `+match+`validations: [{expression: "false", message: never}]}`)
		for _, policy := range []client.Object{fails, denies} {
			cleanUp(policy)
			Expect(admin.Create(ctx, policy)).To(Succeed())
		}
		vm := machine()
		vm.Labels = map[string]string{"status": "counted"}
		Eventually(func(ctx context.Context) []string { return answer(ctx, vm, "alice") }).WithContext(ctx).Should(
			ConsistOf(ContainSubstring("[virtward/policy/denies-and-fails]"), ContainSubstring("[virtward/policy/denies-often]")))
		Eventually(func(g Gomega, ctx context.Context) {
			status, err := statusOf(ctx, denies.GetName())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(status.Denials).NotTo(BeNil())
			g.Expect(status.EvaluationErrors).To(HaveValue(BeZero()), "a denial is no error")
			status, err = statusOf(ctx, fails.GetName())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(conditionOf(status, policyv1alpha1.PolicyEvaluated)).To(Equal("False EvaluationErrors 1"))
		}).WithContext(ctx).Should(Succeed())
		Eventually(eventsOf).WithContext(ctx).WithArguments(fails.GetName()).Should(ContainElement("EvaluationErrors"))

		results, failed := checked(kubectlAsAdmin(ctx, "", "virtward", "status", "-o", "json"))
		Expect(failed).To(BeTrue())
		Expect(results).To(ContainElements(
			HaveField("Line", MatchRegexp(`^policies error denies-and-fails: \d+ evaluations? failed: spec\.validations\[0\]\.expression \(failed\) \d+, the last at .*; the policy denies these requests$`)),
			HaveField("Line", MatchRegexp(`^denials ok denies-often: \d+ requests? denied since 20\d\d-`)),
		))
		shown := kubectlAsAdmin(ctx, "", "get", "vmpol", denies.GetName(), "-o", "wide")
		Expect(shown.output).To(ContainSubstring("DENIED"))
	}, NodeTimeout(3*time.Minute))

	It("suspend a policy that exceeds its units and does not deny, until its spec changes", func(ctx SpecContext) {
		const ten = "[1,2,3,4,5,6,7,8,9,10]"
		costly := "a + b + c + d + e + f > 0"
		for _, variable := range []string{"f", "e", "d", "c", "b", "a"} {
			costly = ten + ".all(" + variable + ", " + costly + ")"
		}
		spec := `{enforcement: %s, failurePolicy: Ignore, title: %s, validations: [{expression: "` + costly + `", message: m}]}`
		policy, denies := policyWith("too-costly", fmt.Sprintf(spec, "Warn", "first")), policyWith("too-costly-and-denies", fmt.Sprintf(spec, "Deny", "first"))
		for _, object := range []client.Object{policy, denies} {
			cleanUp(object)
			Expect(admin.Create(ctx, object)).To(Succeed())
		}
		evaluatedBy(ctx, policy.GetName(), denies.GetName())
		requests := 0
		Eventually(func(g Gomega, ctx context.Context) {
			for range 5 { // an update or two of each interval
				answer(ctx, machine(), "alice")
				requests++
			}
			status, err := statusOf(ctx, policy.GetName())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(conditionOf(status, policyv1alpha1.PolicySuspended)).To(Equal("True ExceedsLimits 1"))
			g.Expect(conditionOf(status, policyv1alpha1.PolicyReady)).To(Equal("False Suspended 1"))
			g.Expect(status.Errors[0].Reason).To(BeEquivalentTo("limit"))
		}).WithContext(ctx).Should(Succeed())
		Expect(requests).To(BeNumerically(">=", 10), "fewer requests do not suspend a policy")

		By("no longer evaluating it, while the one that denies is evaluated")
		evaluatedBy(ctx, denies.GetName())
		errorsOf := func() float64 {
			return scrape(ctx).sum("virtward_policy_errors_total", map[string]string{"policy": policy.GetName()})
		}
		before := errorsOf()
		for range 5 {
			Expect(answer(ctx, machine(), "alice")).To(HaveLen(1))
		}
		Expect(errorsOf()).To(Equal(before))
		Eventually(eventsOf).WithContext(ctx).WithArguments(policy.GetName()).Should(ContainElement("ExceedsLimits"))
		Eventually(suspended).WithContext(ctx).WithArguments(policy.GetName()).Should(Equal(1.0))
		Eventually(func(g Gomega, ctx context.Context) {
			status, err := statusOf(ctx, denies.GetName())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(conditionOf(status, policyv1alpha1.PolicySuspended)).To(Equal("False WithinLimits 1"))
			g.Expect(suspended(ctx, denies.GetName())).To(BeZero())
		}).WithContext(ctx).Should(Succeed())

		By("resuming it with another spec")
		Expect(admin.Patch(ctx, policy, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"title":"second"}}`)))).To(Succeed())
		evaluatedBy(ctx, policy.GetName(), denies.GetName())
		Eventually(func(g Gomega, ctx context.Context) {
			status, err := statusOf(ctx, policy.GetName())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(conditionOf(status, policyv1alpha1.PolicySuspended)).To(Equal("False WithinLimits 2"))
			g.Expect(eventsOf(ctx, policy.GetName())).To(ContainElement("WithinLimits"))
		}).WithContext(ctx).Should(Succeed())
	}, NodeTimeout(3*time.Minute))

	It("cannot be written by users", func(ctx SpecContext) {
		policy := policyWith("not-yours", `{enforcement: Audit, validations: [{expression: "true", message: m}]}`)
		cleanUp(policy)
		Expect(admin.Create(ctx, policy)).To(Succeed())
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"evaluationErrors":7}}`))
		Expect(admin.Status().Patch(ctx, policy, patch)).To(MatchError(ContainSubstring("policy-status: ")), "not even an admin writes statuses")
	}, NodeTimeout(3*time.Minute))
})

// countsPort is the port at which the webhook serves its counts.
func countsPort() int32 {
	GinkgoHelper()
	for _, argument := range virtward.Args() {
		if rest, found := strings.CutPrefix(argument, "--policy-counts-address=:"); found {
			port, err := strconv.ParseInt(rest, 10, 32)
			Expect(err).NotTo(HaveOccurred())
			return int32(port)
		}
	}
	Fail("the webhook serves no counts")
	return 0
}
