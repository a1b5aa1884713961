package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/controllers/reports"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
)

// memoryCap is a policy on the effective memory.
const memoryCap = `
title: Memory is at most 8Gi
category: resources
severity: high
enforcement: Warn
validations:
- expression: quantity(vm.spec.domain.memory.guest).compareTo(quantity('8Gi')) <= 0
  messageExpression: "'there are ' + vm.spec.domain.memory.guest + ' of memory, at most 8Gi are allowed'"
  fieldPath: spec.domain.memory.guest
`

// policyObject is a VirtualMachinePolicy that is not applied yet.
func policyObject(name, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}}
	object.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind("VirtualMachinePolicy"))
	fields := map[string]any{}
	Expect(yaml.Unmarshal([]byte(spec), &fields)).To(Succeed())
	object.Object["spec"] = fields
	return object
}

// statusOf is the status of a policy.
func statusOf(ctx context.Context, name string) (*policyv1alpha1.VirtualMachinePolicyStatus, error) {
	object := policyObject(name, "{}")
	if err := admin.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
		return nil, err
	}
	policy := &policyv1alpha1.VirtualMachinePolicy{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, policy)
	return &policy.Status, err
}

var _ = Describe("The audit", Serial, Ordered, func() {
	const namespace, quiet = "audited", "audited-quiet"
	var first, second *controlplane.Virtward
	var metricsPort, secondPort int
	var reporter client.Client

	// begin runs the controller with the metrics on a port.
	begin := func(ctx context.Context, metrics int, more ...string) *controlplane.Virtward {
		GinkgoHelper()
		v, err := cluster.RunVirtward(ctx, controlplane.Workload{
			Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardController,
			Args: append([]string{
				"--audit-min-interval=100ms", "--audit-delay=200ms", controlplane.ShortLease, fmt.Sprintf("--metrics-address=:%d", metrics),
			}, more...),
		})
		Expect(err).NotTo(HaveOccurred())
		return v
	}
	// gauge is the sum of the samples of a metric with some labels; -1 if there are none.
	gauge := func(g Gomega, ctx context.Context, port int, name string, labels map[string]string) float64 {
		GinkgoHelper()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/metrics", port), nil)
		g.Expect(err).NotTo(HaveOccurred())
		response, err := http.DefaultClient.Do(request)
		g.Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		g.Expect(err).NotTo(HaveOccurred())
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(string(body)))
		g.Expect(err).NotTo(HaveOccurred())
		sum, found := 0.0, false
	samples:
		for _, m := range families[name].GetMetric() {
			for key, want := range labels {
				matches := false
				for _, l := range m.GetLabel() {
					matches = matches || l.GetName() == key && l.GetValue() == want
				}
				if !matches {
					continue samples
				}
			}
			sum, found = sum+m.GetGauge().GetValue(), true
		}
		if !found {
			return -1
		}
		return sum
	}
	violations := func(g Gomega, ctx context.Context, port int, policy string) float64 {
		GinkgoHelper()
		return gauge(g, ctx, port, "virtward_policy_violations", map[string]string{"policy": policy})
	}
	soon := func(ctx context.Context, check func(g Gomega, ctx context.Context)) {
		GinkgoHelper()
		Eventually(check).WithContext(ctx).WithPolling(100 * time.Millisecond).Should(Succeed())
	}
	report := func(g Gomega, ctx context.Context, namespace string) *openreports.Report {
		GinkgoHelper()
		r := &openreports.Report{}
		g.Expect(reporter.Get(ctx, client.ObjectKey{Namespace: namespace, Name: reports.Name}, r)).To(Succeed())
		return r
	}
	resultsOf := func(r *openreports.Report) []string {
		var list []string
		for i := range r.Results {
			x := &r.Results[i]
			list = append(list, fmt.Sprintf("%s %s %s/%s %s", x.Result, x.Policy, x.Subjects[0].Kind, x.Subjects[0].Name, x.Properties["field"]))
		}
		return list
	}
	events := func(ctx context.Context, namespace, reason, name string) []corev1.Event {
		GinkgoHelper()
		list := &corev1.EventList{}
		Expect(admin.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		var found []corev1.Event
		for i := range list.Items {
			if list.Items[i].Reason == reason && list.Items[i].InvolvedObject.Name == name {
				found = append(found, list.Items[i])
			}
		}
		return found
	}
	vm := func(name, memory string) *build.VMBuilder {
		return build.VMOf(build.VMI(name).Namespace(namespace).Memory(memory))
	}

	BeforeAll(func(ctx SpecContext) {
		By("stopping the controller that keeps the certificates, for these take over")
		Expect(cluster.VirtwardControllerProcess().Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(cluster.VirtwardControllerProcess().Start(ctx)).To(Succeed()) })
		scheme, err := controlplane.Scheme()
		Expect(err).NotTo(HaveOccurred())
		Expect(openreports.Install(scheme)).To(Succeed())
		reporter, err = client.New(cluster.Config(), client.Options{Scheme: scheme})
		Expect(err).NotTo(HaveOccurred())
		for _, name := range []string{namespace, quiet} {
			Expect(cluster.EnsureNamespace(ctx, name)).To(Succeed())
		}
		instancetype := &instancetypev1beta1.VirtualMachineClusterInstancetype{
			ObjectMeta: metav1.ObjectMeta{Name: "audited-16g"},
			Spec: instancetypev1beta1.VirtualMachineInstancetypeSpec{
				CPU: instancetypev1beta1.CPUInstancetype{Guest: 2}, Memory: instancetypev1beta1.MemoryInstancetype{Guest: resource.MustParse("16Gi")},
			},
		}
		cleanUp(instancetype)
		Expect(admin.Create(ctx, instancetype)).To(Succeed())
		for _, vm := range []*kubevirtv1.VirtualMachine{vm("small", "2Gi").Obj(), vm("expanded", "1Gi").Instancetype("audited-16g").Obj()} {
			cleanUp(vm)
			Expect(admin.Create(ctx, vm)).To(Succeed())
		}
		metricsPort, err = cluster.TakePort()
		Expect(err).NotTo(HaveOccurred())
		first = begin(ctx, metricsPort)
		DeferCleanup(func() {
			Expect(first.Stop()).To(Succeed())
			if second != nil {
				Expect(second.Stop()).To(Succeed())
			}
		})
		soon(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(gauge(g, ctx, metricsPort, "virtward_audit_objects", nil)).To(BeNumerically(">=", 2))
		})
		policy := policyObject("audited-memory", memoryCap)
		cleanUp(policy)
		Expect(admin.Create(ctx, policy)).To(Succeed())
	})

	It("finds VMs that were there before the policy, in a cluster without OpenReports", func(ctx SpecContext) {
		soon(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(violations(g, ctx, metricsPort, "audited-memory")).To(Equal(1.0))
			status, err := statusOf(ctx, "audited-memory")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(status.Violations).To(HaveValue(Equal(int64(1))))
			g.Expect(status.LastAudit).NotTo(BeNil())
		})
		status, err := statusOf(ctx, "audited-memory")
		Expect(err).NotTo(HaveOccurred())
		Expect(status.ObservedGeneration).To(Equal(int64(1)))
		for _, kind := range []string{policyv1alpha1.PolicyCompiled, policyv1alpha1.PolicyReady} {
			found := meta.FindStatusCondition(status.Conditions, kind) // the reason of a true condition is its type
			Expect(found).NotTo(BeNil())
			Expect([]any{found.Status, found.Reason, found.ObservedGeneration}).To(Equal([]any{metav1.ConditionTrue, kind, int64(1)}))
		}
		Expect(status.Auditable).To(HaveValue(BeTrue()))
		Expect(status.EnforcedBy).To(ConsistOf(policyv1alpha1.PolicyByWebhook))
		Expect(status.EstimatedCost).To(HaveValue(BeNumerically(">", 0)))
		Eventually(events).WithContext(ctx).WithArguments(namespace, "PolicyViolation", "expanded").
			Should(HaveLen(1), "the violation is new to the leader")
		Expect(events(ctx, namespace, "PolicyViolation", "expanded")[0].Message).To(HavePrefix(
			"spec.instancetype.name: Invalid value: the object violates the policy: Memory is at most 8Gi (the message has values: kubectl virtward audit shows it) [virtward/policy/audited-memory]"))
		Expect(events(ctx, namespace, "PolicyViolation", "small")).To(BeEmpty())
	})

	It("writes a report of each namespace once there are OpenReports", func(ctx SpecContext) {
		installReports(ctx, cluster)
		Expect(cluster.InstallCRDs(ctx, policyReports())).To(Succeed())
		Expect(admin.Create(ctx, vm("large", "9Gi").Obj())).To(Succeed())
		soon(ctx, func(g Gomega, ctx context.Context) {
			r := report(g, ctx, namespace)
			g.Expect(resultsOf(r)).To(Equal([]string{
				"warn audited-memory VirtualMachine/expanded spec.instancetype.name",
				"warn audited-memory VirtualMachine/large spec.template.spec.domain.memory.guest",
			}))
			g.Expect(r.Summary).To(Equal(openreports.ReportSummary{Pass: 1, Warn: 2}))
			g.Expect(r.Results[0].Description).To(Equal("Invalid value: the object violates the policy: Memory is at most 8Gi (the message has values: kubectl virtward audit shows it)"))
			g.Expect([]string{string(r.Results[0].Severity), r.Results[0].Category, r.Results[0].Source}).To(Equal([]string{"high", "resources", "virtward"}))
		})
		Eventually(events).WithContext(ctx).WithArguments(namespace, "PolicyViolation", "large").Should(HaveLen(1))
		Expect(events(ctx, namespace, "PolicyViolation", "expanded")).To(HaveLen(1), "a known violation has no second event")
	})

	It("writes the same results as PolicyReports", func(ctx SpecContext) {
		of := report(Default, ctx, namespace)
		soon(ctx, func(g Gomega, ctx context.Context) {
			other := &unstructured.Unstructured{}
			other.SetGroupVersionKind(schema.GroupVersionKind{Group: "wgpolicyk8s.io", Version: "v1alpha2", Kind: "PolicyReport"})
			g.Expect(reporter.Get(ctx, client.ObjectKey{Namespace: namespace, Name: reports.Name}, other)).To(Succeed())
			r := &openreports.Report{}
			g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(other.Object, r)).To(Succeed())
			g.Expect(resultsOf(r)).To(Equal(resultsOf(of)))
			g.Expect([]any{r.Summary, r.Scope.Name, r.Source, r.Configuration}).To(Equal([]any{of.Summary, namespace, "", (*openreports.ReportConfiguration)(nil)}))
			g.Expect(r.Results[0].Description).To(Equal(of.Results[0].Description))
			g.Expect(r.Results[0].Subjects).To(Equal(of.Results[0].Subjects))
		})
	})

	It("reports an exempted VM as skipped until its exception is gone", func(ctx SpecContext) {
		without := []string{
			"warn audited-memory VirtualMachine/expanded spec.instancetype.name",
			"warn audited-memory VirtualMachine/large spec.template.spec.domain.memory.guest",
		}
		exception := exceptionOf("granted", "audited-memory", "large")
		exception.Namespace = namespace
		guardIsOlder(ctx)
		cleanUp(exception)
		Expect(admin.Create(ctx, exception)).To(Succeed())
		soon(ctx, func(g Gomega, ctx context.Context) {
			r := report(g, ctx, namespace)
			g.Expect(resultsOf(r)).To(Equal([]string{without[0], strings.Replace(without[1], "warn", "skip", 1)}))
			g.Expect(r.Summary).To(Equal(openreports.ReportSummary{Pass: 1, Warn: 1, Skip: 1}))
			g.Expect(r.Results[1].Description).To(ContainSubstring("exempted until " + exception.Spec.Expires.UTC().Format(time.RFC3339) + " by VirtualMachinePolicyException granted: year's end"))
			g.Expect(violations(g, ctx, metricsPort, "audited-memory")).To(Equal(1.0))
			g.Expect(gauge(g, ctx, metricsPort, "virtward_policy_exceptions", map[string]string{"state": policyv1alpha1.ExceptionReasonActive})).To(Equal(1.0))
			g.Expect(gauge(g, ctx, metricsPort, "virtward_policy_exceptions", nil)).To(Equal(1.0))
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(exception), exception)).To(Succeed())
			g.Expect(exception.Status.Policies).To(Equal("audited-memory"))
		})
		Expect(admin.Delete(ctx, exception)).To(Succeed())
		soon(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(resultsOf(report(g, ctx, namespace))).To(Equal(without))
			g.Expect(violations(g, ctx, metricsPort, "audited-memory")).To(Equal(2.0))
			g.Expect(gauge(g, ctx, metricsPort, "virtward_policy_exceptions", nil)).To(Equal(0.0))
		})
	})

	It("does not change a report of another source, and counts it in a metric", func(ctx SpecContext) {
		foreign := &openreports.Report{ObjectMeta: metav1.ObjectMeta{Namespace: quiet, Name: reports.Name}, Source: "another"}
		Expect(reporter.Create(ctx, foreign)).To(Succeed())
		other := build.VMOf(build.VMI("other").Namespace(quiet).Memory("10Gi")).Obj()
		cleanUp(other)
		Expect(admin.Create(ctx, other)).To(Succeed())
		soon(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(violations(g, ctx, metricsPort, "audited-memory")).To(Equal(3.0))
			g.Expect(gauge(g, ctx, metricsPort, "virtward_audit_foreign_reports", nil)).To(Equal(1.0))
		})
		r := report(Default, ctx, quiet)
		Expect(r.Source).To(Equal("another"))
		Expect(r.Results).To(BeEmpty())
		Expect(reporter.Delete(ctx, r)).To(Succeed())
	})

	It("removes a violation that is corrected", func(ctx SpecContext) {
		large := vm("large", "9Gi").Obj()
		Expect(change(ctx, admin, large, func() {
			mended := resource.MustParse("8Gi")
			large.Spec.Template.Spec.Domain.Memory.Guest = &mended
		})).To(Succeed())
		soon(ctx, func(g Gomega, ctx context.Context) {
			r := report(g, ctx, namespace)
			g.Expect(resultsOf(r)).To(Equal([]string{"warn audited-memory VirtualMachine/expanded spec.instancetype.name"}))
			g.Expect(r.Summary).To(Equal(openreports.ReportSummary{Pass: 2, Warn: 1}))
			g.Expect(violations(g, ctx, metricsPort, "audited-memory")).To(Equal(1.0))
			status, err := statusOf(ctx, "audited-memory")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(status.Violations).To(HaveValue(Equal(int64(1))))
		})
	})

	It("reports replica sets, and instancetypes and preferences of a namespace", func(ctx SpecContext) {
		const kinds = "audited-kinds"
		Expect(cluster.EnsureNamespace(ctx, kinds)).To(Succeed())
		template := build.VMI("").Memory("1Gi").Obj()
		template.Spec.NodeSelector = map[string]string{"not a label": "x"}
		set := &kubevirtv1.VirtualMachineInstanceReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: kinds, Name: "set"}}
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "set"}}
		set.Spec.Template = &kubevirtv1.VirtualMachineInstanceTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "set"}}, Spec: template.Spec}
		preference := &instancetypev1beta1.VirtualMachinePreference{ObjectMeta: metav1.ObjectMeta{Namespace: kinds, Name: "old"}}
		preference.Spec.CPU = &instancetypev1beta1.CPUPreferences{PreferredCPUTopology: ptr.To(instancetypev1beta1.DeprecatedPreferSockets)}
		small := &instancetypev1beta1.VirtualMachineInstancetype{ObjectMeta: metav1.ObjectMeta{Namespace: kinds, Name: "small"}}
		small.Spec.CPU.Guest, small.Spec.Memory.Guest = 1, resource.MustParse("1Gi")
		for _, object := range []client.Object{set, preference, small} {
			cleanUp(object)
			Expect(admin.Create(ctx, object)).To(Succeed())
		}
		soon(ctx, func(g Gomega, ctx context.Context) {
			r := report(g, ctx, kinds)
			g.Expect(resultsOf(r)).To(ConsistOf(
				"warn scheduling-node-selector VirtualMachineInstanceReplicaSet/set spec.template.spec.nodeSelector",
				"warn preference-topology-deprecated VirtualMachinePreference/old spec.cpu.preferredCPUTopology",
			))
			g.Expect(r.Summary).To(Equal(openreports.ReportSummary{Pass: 1, Warn: 2}))
		})
		By("changing the replica set")
		Expect(change(ctx, admin, set, func() { set.Spec.Template.Spec.NodeSelector = nil })).To(Succeed())
		soon(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(resultsOf(report(g, ctx, kinds))).To(ConsistOf("warn preference-topology-deprecated VirtualMachinePreference/old spec.cpu.preferredCPUTopology"))
		})
	})

	It("reports templates by what they make", func(ctx SpecContext) {
		const kinds = "audited-templates"
		Expect(cluster.EnsureNamespace(ctx, kinds)).To(Succeed())
		template := templateObject("v1beta1", "VirtualMachineTemplate", "old", strings.Replace(soundTemplate, `"devices":{}`, `"devices":{},"cpu":{"cores":8}`, 1))
		template.SetNamespace(kinds)
		cleanUp(template)
		Expect(admin.Create(ctx, template)).To(Succeed())
		policy := policyObject("audited-cores", `{enforcement: Deny, match: {kinds: [VirtualMachineTemplate]}, validations: [{expression: "vm.spec.domain.cpu.cores <= 4u", message: cores, fieldPath: spec.domain.cpu.cores}]}`)
		cleanUp(policy)
		Expect(admin.Create(ctx, policy)).To(Succeed())
		soon(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(resultsOf(report(g, ctx, kinds))).To(ContainElement("fail audited-cores VirtualMachineTemplate/old spec.virtualMachine.spec.template.spec.domain.cpu.cores"))
		})
		By("correcting the template")
		Expect(change(ctx, admin, template, func() {
			Expect(unstructured.SetNestedField(template.Object, int64(2), "spec", "virtualMachine", "spec", "template", "spec", "domain", "cpu", "cores")).To(Succeed())
		})).To(Succeed())
		soon(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(resultsOf(report(g, ctx, kinds))).NotTo(ContainElement(ContainSubstring("audited-cores")))
		})
	})

	It("evaluates again when an instancetype changes", func(ctx SpecContext) {
		instancetype := &instancetypev1beta1.VirtualMachineClusterInstancetype{ObjectMeta: metav1.ObjectMeta{Name: "audited-16g"}}
		set := func(memory string) {
			GinkgoHelper()
			Expect(change(ctx, admin, instancetype, func() { instancetype.Spec.Memory.Guest = resource.MustParse(memory) })).To(Succeed())
		}
		set("4Gi")
		soon(ctx, func(g Gomega, ctx context.Context) { g.Expect(resultsOf(report(g, ctx, namespace))).To(BeEmpty()) })
		set("16Gi")
		soon(ctx, func(g Gomega, ctx context.Context) { g.Expect(resultsOf(report(g, ctx, namespace))).To(HaveLen(1)) })
	})

	It("reports the error of a policy, and evaluates the others", func(ctx SpecContext) {
		broken := policyObject("audited-broken", memoryCap)
		cleanUp(broken)
		Expect(admin.Create(ctx, broken)).To(Succeed())
		// The webhook rejects such a policy: it comes from a time before, or while the webhook was away.
		without(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{}, checks)
		Eventually(func(ctx context.Context) error {
			return change(ctx, admin, broken, func() {
				Expect(unstructured.SetNestedSlice(broken.Object, []any{map[string]any{
					"expression": "vm.spec.domain.memmory.guest != ''", "message": "no memory",
				}}, "spec", "validations")).To(Succeed())
			})
		}).WithContext(ctx).Should(Succeed())
		soon(ctx, func(g Gomega, ctx context.Context) {
			status, err := statusOf(ctx, "audited-broken")
			g.Expect(err).NotTo(HaveOccurred())
			found := meta.FindStatusCondition(status.Conditions, policyv1alpha1.PolicyCompiled)
			g.Expect(found).NotTo(BeNil())
			g.Expect(found.Status).To(Equal(metav1.ConditionFalse))
			g.Expect(found.Reason).To(Equal(policyv1alpha1.PolicyReasonCompileFailed))
			g.Expect(status.Problems).NotTo(BeEmpty())
			g.Expect(status.Problems[0].Field).To(Equal("spec.validations[0].expression"))
			g.Expect(status.Problems[0].Line).To(Equal(int32(1)))
			g.Expect(status.Problems[0].Message).To(ContainSubstring("memmory"))
			g.Expect(meta.IsStatusConditionFalse(status.Conditions, policyv1alpha1.PolicyReady)).To(BeTrue())
			r := report(g, ctx, namespace)
			g.Expect(r.Summary).To(Equal(openreports.ReportSummary{Pass: 2, Warn: 1, Skip: 1}), "a broken policy is skipped")
			g.Expect(status.Auditable).To(HaveValue(BeFalse()))
			g.Expect(status.Violations).To(BeNil())
			g.Expect(resultsOf(r)).To(ContainElement("warn audited-memory VirtualMachine/expanded spec.instancetype.name"))
		})
		Eventually(events).WithContext(ctx).WithArguments("default", "CompileFailed", "audited-broken").Should(HaveLen(1))
		Expect(admin.Delete(ctx, broken)).To(Succeed())
		soon(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(report(g, ctx, namespace).Summary).To(Equal(openreports.ReportSummary{Pass: 2, Warn: 1}))
		})
	})

	It("continues in another replica if the leader is killed", func(ctx SpecContext) {
		var err error
		secondPort, err = cluster.TakePort()
		Expect(err).NotTo(HaveOccurred())
		health, err := cluster.TakePort()
		Expect(err).NotTo(HaveOccurred())
		began := time.Now()
		second = begin(ctx, secondPort, fmt.Sprintf("--health-address=:%d", health))
		soon(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(violations(g, ctx, secondPort, "audited-memory")).To(Equal(-1.0), "it does not lead")
		})

		Expect(admin.Create(ctx, vm("late", "12Gi").Obj())).To(Succeed())
		first.Kill() // maybe while it evaluates
		soon(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(violations(g, ctx, secondPort, "audited-memory")).To(Equal(2.0))
			g.Expect(resultsOf(report(g, ctx, namespace))).To(Equal([]string{
				"warn audited-memory VirtualMachine/expanded spec.instancetype.name",
				"warn audited-memory VirtualMachine/late spec.template.spec.domain.memory.guest",
			}))
		})
		for _, name := range []string{"expanded", "large"} {
			found := events(ctx, namespace, "PolicyViolation", name)
			Expect(found).NotTo(BeEmpty())
			for _, e := range found {
				Expect(e.LastTimestamp.After(began)).To(BeFalse(), "a new leader tells nothing that the report says already")
			}
		}
	})

	It("forgets a policy that is deleted, and a namespace without virtual machines", func(ctx SpecContext) {
		Expect(admin.Delete(ctx, policyObject("audited-memory", "{}"))).To(Succeed())
		soon(ctx, func(g Gomega, ctx context.Context) {
			r := report(g, ctx, namespace)
			g.Expect(resultsOf(r)).To(BeEmpty())
			g.Expect(r.Summary).To(Equal(openreports.ReportSummary{Pass: 4}))
			g.Expect(violations(g, ctx, secondPort, "audited-memory")).To(Equal(-1.0))
		})
		Expect(admin.DeleteAllOf(ctx, &kubevirtv1.VirtualMachine{}, client.InNamespace(namespace))).To(Succeed())
		soon(ctx, func(g Gomega, ctx context.Context) {
			err := reporter.Get(ctx, client.ObjectKey{Namespace: namespace, Name: reports.Name}, &openreports.Report{})
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		})
	})
})

// installReports defines the kinds of OpenReports, as the chart carries them.
func installReports(ctx context.Context, c *controlplane.ControlPlane) {
	GinkgoHelper()
	files, err := filepath.Glob("../../charts/virtward/openreports/*.yaml")
	Expect(err).NotTo(HaveOccurred())
	Expect(files).To(HaveLen(2))
	for _, file := range files {
		content, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		definition := &apiextensionsv1.CustomResourceDefinition{}
		Expect(yaml.UnmarshalStrict(content, definition)).To(Succeed())
		Expect(c.InstallCRDs(ctx, definition)).To(Succeed())
	}
}

// policyReports is a definition of PolicyReports with the fields that v1alpha2 has. The API server removes others.
func policyReports() *apiextensionsv1.CustomResourceDefinition {
	type fields = map[string]apiextensionsv1.JSONSchemaProps
	object := func(f fields) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: f}
	}
	list := func(items apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}}
	}
	choice := func(values ...string) apiextensionsv1.JSONSchemaProps {
		p := apiextensionsv1.JSONSchemaProps{Type: "string"}
		for _, v := range values {
			p.Enum = append(p.Enum, apiextensionsv1.JSON{Raw: []byte(strconv.Quote(v))})
		}
		return p
	}
	text, count, flag := apiextensionsv1.JSONSchemaProps{Type: "string"}, apiextensionsv1.JSONSchemaProps{Type: "integer"}, apiextensionsv1.JSONSchemaProps{Type: "boolean"}
	texts := apiextensionsv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &text}}
	reference := object(fields{"apiVersion": text, "kind": text, "namespace": text, "name": text, "uid": text, "fieldPath": text, "resourceVersion": text})
	result := object(fields{
		"source": text, "policy": text, "rule": text, "category": text, "message": text, "scored": flag, "properties": texts, "resources": list(reference),
		"severity": choice("critical", "high", "low", "medium", "info"), "result": choice("pass", "fail", "warn", "error", "skip"),
		"timestamp": object(fields{"seconds": count, "nanos": count}),
	})
	result.Required = []string{"policy"}
	summary := object(fields{"pass": count, "fail": count, "warn": count, "error": count, "skip": count})
	whole := object(fields{"apiVersion": text, "kind": text, "metadata": {Type: "object"}, "scope": reference, "summary": summary, "results": list(result)})
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "policyreports.wgpolicyk8s.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "wgpolicyk8s.io", Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "policyreports", Singular: "policyreport", Kind: "PolicyReport", ListKind: "PolicyReportList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1alpha2", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &whole}}},
		},
	}
}
