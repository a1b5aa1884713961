package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/validators"
)

type setting = policyv1alpha1.RuleSetting

// settings are RuleSettings that are not applied yet.
func settings(name string, rules ...setting) client.Object {
	GinkgoHelper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&policyv1alpha1.RuleSettings{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1alpha1.RuleSettingsSpec{Rules: rules},
	})
	Expect(err).NotTo(HaveOccurred())
	object := &unstructured.Unstructured{Object: fields}
	object.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind("RuleSettings"))
	return object
}

// setRules applies RuleSettings until they are removed, at the end of the spec at the latest.
func setRules(ctx context.Context, name string, rules ...setting) (remove func(context.Context)) {
	GinkgoHelper()
	object := settings(name, rules...)
	Expect(admin.Create(ctx, object)).To(Succeed())
	remove = func(ctx context.Context) {
		Expect(client.IgnoreNotFound(admin.Delete(ctx, object))).To(Succeed())
	}
	DeferCleanup(func(ctx SpecContext) { remove(ctx) })
	return remove
}

var _ = Describe("RuleSettings", Serial, func() {
	const bus, path = "arm64-disk-bus", "spec.template.spec.domain.devices.disks[0].disk.bus"

	// apply applies a VM with a disk on a bus that arm64 has not, dry, in a namespace, and returns the warnings.
	apply := func(ctx context.Context, namespace string) ([]string, error) {
		user, heard := listen(cluster.Config())
		vm := build.VMOf(build.VMI("set").Namespace(namespace).Architecture("arm64").Disk("root", kubevirtv1.DiskBusSATA)).Obj()
		err := user.Create(ctx, vm, client.DryRunAll)
		return heard.texts, err
	}
	rejects := func(ctx context.Context, namespace string) {
		GinkgoHelper()
		Eventually(func(g Gomega, ctx context.Context) {
			_, err := apply(ctx, namespace)
			g.Expect(err).To(MatchError(ContainSubstring(path + `: Unsupported value: "sata"`)))
		}).WithContext(ctx).Should(Succeed())
	}
	warns := func(ctx context.Context, namespace string) {
		GinkgoHelper()
		Eventually(func(g Gomega, ctx context.Context) {
			warnings, err := apply(ctx, namespace)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(warnings).To(ConsistOf(And(HavePrefix(path+`: Unsupported value: "sata"`), ContainSubstring("[virtward/"+bus+"]"))))
		}).WithContext(ctx).Should(Succeed())
	}
	isSilent := func(ctx context.Context, namespace string) {
		GinkgoHelper()
		Eventually(func(g Gomega, ctx context.Context) {
			warnings, err := apply(ctx, namespace)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(warnings).To(BeEmpty())
		}).WithContext(ctx).Should(Succeed())
	}

	It("turn a rejection into a warning or switch the rule off, in all namespaces or in some, and back", func(ctx SpecContext) {
		Expect(cluster.EnsureNamespace(ctx, "lab")).To(Succeed())
		rejects(ctx, "default")
		rejects(ctx, "lab")

		By("warning everywhere")
		everywhere := setRules(ctx, "everywhere", setting{Rule: bus, Severity: policyv1alpha1.Warn})
		warns(ctx, "default")
		warns(ctx, "lab")

		By("keeping still in one namespace")
		inLab := setRules(ctx, "lab", setting{Rule: bus, Severity: policyv1alpha1.Off, NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"kubernetes.io/metadata.name": "lab"},
		}})
		isSilent(ctx, "lab")
		warns(ctx, "default")

		By("removing the settings of all namespaces, then the others")
		everywhere(ctx)
		rejects(ctx, "default")
		isSilent(ctx, "lab")
		inLab(ctx)
		rejects(ctx, "lab")
	})

	It("may make every rule warn at once, but for the security-relevant ones", func(ctx SpecContext) {
		registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
		Expect(err).NotTo(HaveOccurred())
		var all []setting
		for _, rule := range registry.Rules() {
			if !rule.Security && rule.Severity == validators.Deny {
				all = append(all, setting{Rule: rule.ID, Severity: policyv1alpha1.Warn})
			}
		}
		Expect(len(all)).To(BeNumerically(">", 100))
		setRules(ctx, "warn-first", all...)
		user, heard := listening("alice")
		Eventually(func(g Gomega, ctx context.Context) {
			heard.texts = nil
			g.Expect(user.Create(ctx, impossible("warned"), client.DryRunAll)).To(Succeed())
			g.Expect(heard.texts).To(HaveLen(2))
		}).WithContext(ctx).Should(Succeed())
	})

	Describe("of people with rights of their own", Ordered, func() {
		BeforeAll(func(ctx SpecContext) {
			grantSettings(ctx, "editor", []string{"rosa"}, "get", "list", "create", "update", "patch", "delete")
			grantSettings(ctx, "weakener", []string{"will"}, "get", "list", "create", "update", "patch", "delete", "weaken")
			for user, rule := range map[string]string{"rosa": bus, "will": "hostdevice-gate"} { // first, the API server learns of the rights
				Eventually(func(ctx context.Context) error {
					return clientOf(user).Create(ctx, settings("probe", setting{Rule: rule, Severity: policyv1alpha1.Warn}), client.DryRunAll)
				}).WithContext(ctx).Should(Succeed())
			}
		})

		It("are rejected with an unknown rule, and a suggestion", func(ctx SpecContext) {
			got := kubectl(ctx, "rosa", `
apiVersion: policy.virtward.io/v1alpha1
kind: RuleSettings
metadata: {name: misspelt}
spec:
  rules:
    - {rule: arm64-disc-bus, severity: Warn}
`, "apply", "--filename=-")
			Expect(got.code).To(Equal(1))
			Expect(got.errors).To(MatchRegexp(`^The RuleSettings "misspelt" is invalid: spec\.rules\[0\]\.rule: Invalid value: "arm64-disc-bus": there is no such rule: did you mean "arm64-disk-bus"\? \[virtward/rule-settings\]`))
		})

		It("weaken a security-relevant rule for holders of the verb weaken only", func(ctx SpecContext) {
			const rule = "hostdevice-gate"
			rosa, will := clientOf("rosa"), clientOf("will")
			object := settings("devices", setting{Rule: rule, Severity: policyv1alpha1.Warn})
			err := rosa.Create(ctx, object)
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
			Expect(err).To(MatchError(ContainSubstring("rule-settings-weaken: spec.rules: this makes a security-relevant rule more lenient: you need the verb weaken on rulesettings.policy.virtward.io: " + rule)))

			Expect(rosa.Create(ctx, settings("harmless", setting{Rule: bus, Severity: policyv1alpha1.Deny}))).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, settings("harmless"))).To(Succeed()) })
			Expect(will.Create(ctx, object)).To(Succeed())
			Expect(rosa.Delete(ctx, object)).To(MatchError(ContainSubstring("rule-settings-weaken")), "taking a warning away may leave less")
			Expect(will.Delete(ctx, object)).To(Succeed())
		})
	})
})

// grantSettings lets users do something to RuleSettings.
func grantSettings(ctx context.Context, name string, users []string, verbs ...string) {
	GinkgoHelper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "rule-settings-" + name}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{policyv1alpha1.GroupVersion.Group}, Resources: []string{"rulesettings"}, Verbs: verbs,
	}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}}
	for _, user := range users {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user})
	}
	Expect(admin.Create(ctx, role)).To(Succeed())
	Expect(admin.Create(ctx, binding)).To(Succeed())
}

func clientOf(user string) client.Client {
	GinkgoHelper()
	config, err := cluster.UserConfig(user)
	Expect(err).NotTo(HaveOccurred())
	return clientFor(config)
}
