package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
)

// rolloutOf is a rollout that waits, so that no controller acts.
func rolloutOf(name, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte(spec), &object.Object)).To(Succeed())
	object.Object = map[string]any{"spec": object.Object}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
	object.SetNamespace("default")
	object.SetName(name)
	return object
}

// grantRollouts grants a user the ClusterRole of the chart in the namespace default, and more rules.
func grantRollouts(ctx context.Context, user, role string, rules ...rbacv1.PolicyRule) {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Namespace: "default", Name: "rollouts-of-" + user}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	binding := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: subjects}
	Expect(admin.Create(ctx, binding)).To(Succeed())
	cleanUp(binding)
	if len(rules) == 0 {
		return
	}
	meta.Name = "vms-of-" + user
	own := &rbacv1.Role{ObjectMeta: meta, Rules: rules}
	bound := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}, Subjects: subjects}
	for _, object := range []client.Object{own, bound} {
		Expect(admin.Create(ctx, object)).To(Succeed())
		cleanUp(object)
	}
}

var _ = Describe("The rights of rollouts", Serial, Ordered, func() {
	const paused = "{selector: {matchLabels: {none: such}}, paused: true}"
	patch := rbacv1.PolicyRule{APIGroups: []string{"kubevirt.io"}, Resources: []string{"virtualmachines"}, Verbs: []string{"get", "patch"}}
	restart := rbacv1.PolicyRule{APIGroups: []string{"subresources.kubevirt.io"}, Resources: []string{"virtualmachines/restart"}, Verbs: []string{"update"}}
	migrate := rbacv1.PolicyRule{APIGroups: []string{"kubevirt.io"}, Resources: []string{"virtualmachineinstancemigrations"}, Verbs: []string{"create"}}
	users := map[string]client.Client{}

	BeforeAll(func(ctx SpecContext) {
		for user, rules := range map[string][]rbacv1.PolicyRule{
			"roll-patcher": {patch}, "roll-editor": {patch, restart}, "roll-operator": {patch, restart, migrate}, "roll-none": nil,
		} {
			grantRollouts(ctx, user, "virtward-rollouts-edit", rules...)
			users[user] = clientOf(user)
		}
		grantRollouts(ctx, "roll-viewer", "virtward-rollouts-view", patch, restart, migrate)
		users["roll-viewer"] = clientOf("roll-viewer")
		Eventually(func(ctx context.Context) error {
			return users["roll-none"].Create(ctx, rolloutOf("probe", paused), client.DryRunAll)
		}).WithContext(ctx).Should(MatchError(ContainSubstring("rollout-patch: ")))
		for user, action := range map[string]string{"roll-patcher": "[Live]", "roll-editor": "[Live, Restart]", "roll-operator": "[Live, Migrate, Restart]"} {
			Eventually(func(ctx context.Context) error {
				return users[user].Create(ctx, rolloutOf("probe", fmt.Sprintf("{selector: {}, paused: true, allow: %s}", action)), client.DryRunAll)
			}).WithContext(ctx).Should(Succeed())
		}
	})

	It("are those of their authors", func(ctx SpecContext) {
		const noPatch, noRestart, noMigrate, noRole = "rollout-patch: ", "rollout-restart: ", "rollout-migrate: ", "virtualmachinerollouts.rollout.virtward.io is forbidden"
		for action, want := range map[string]map[string]string{
			"[Live]":                   {"roll-none": noPatch, "roll-patcher": "", "roll-editor": "", "roll-operator": "", "roll-viewer": noRole},
			"[Live, Restart]":          {"roll-none": noPatch, "roll-patcher": noRestart, "roll-editor": "", "roll-operator": "", "roll-viewer": noRole},
			"[Live, Migrate]":          {"roll-none": noPatch, "roll-patcher": noMigrate, "roll-editor": noMigrate, "roll-operator": "", "roll-viewer": noRole},
			"[Live, Migrate, Restart]": {"roll-none": noPatch, "roll-patcher": noMigrate, "roll-editor": noMigrate, "roll-operator": "", "roll-viewer": noRole},
		} {
			for user, denied := range want {
				err := users[user].Create(ctx, rolloutOf("matrix", fmt.Sprintf("{selector: {}, paused: true, allow: %s}", action)), client.DryRunAll)
				if denied == "" {
					Expect(err).NotTo(HaveOccurred(), "%s by %s", action, user)
					continue
				}
				Expect(err).To(SatisfyAll(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring(denied))), "%s by %s", action, user)
			}
		}
	})

	It("follow the recorded requester, whom nothing but a change of the spec changes", func(ctx SpecContext) {
		rollout := rolloutOf("recorded", "{selector: {matchLabels: {none: such}}, paused: true, allow: [Live, Restart]}")
		rollout.SetAnnotations(map[string]string{v1alpha1.AnnotationRequester: `{"username":"admin","groups":["system:masters"]}`})
		cleanUp(rollout)
		Expect(users["roll-editor"].Create(ctx, rollout)).To(Succeed())
		requester := func() string {
			object := &v1alpha1.VirtualMachineRollout{}
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(rollout), object)).To(Succeed())
			user, err := v1alpha1.RequesterOf(object)
			Expect(err).NotTo(HaveOccurred())
			Expect(user.Groups).NotTo(ContainElement("system:masters"))
			return user.Username
		}
		change := func(user, text string) error {
			return users[user].Patch(ctx, rollout.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
		}
		Expect(requester()).To(Equal("roll-editor"), "a forged record is replaced")

		Expect(change("roll-none", `{"metadata":{"labels":{"a":"b"},"annotations":{"`+v1alpha1.AnnotationRequester+`":"{}"}}}`)).To(Succeed())
		Expect(requester()).To(Equal("roll-editor"), "metadata does not change the requester")
		Expect(change("roll-none", `{"spec":{"maxFailures":5}}`)).To(MatchError(ContainSubstring("rollout-patch: ")))
		Expect(change("roll-none", `{"spec":{"paused":false}}`)).To(MatchError(ContainSubstring("rollout-patch: ")))
		Expect(change("roll-patcher", `{"spec":{"paused":false}}`)).To(MatchError(ContainSubstring("rollout-restart: ")))
		Expect(change("roll-operator", `{"spec":{"paused":false}}`)).To(Succeed())
		Expect(requester()).To(Equal("roll-operator"), "a change of the spec does")
		Expect(change("roll-none", `{"spec":{"paused":true}}`)).To(Succeed(), "every editor of rollouts can pause")
		Expect(requester()).To(Equal("roll-operator"))
		Expect(users["roll-none"].Status().Patch(ctx, rollout.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Complete"}}`)))).
			To(Satisfy(apierrors.IsForbidden))
		Expect(admin.Status().Patch(ctx, rollout.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Complete"}}`)))).
			To(MatchError(ContainSubstring("rollout-status: ")), "not even an admin writes statuses")
		Expect(users["roll-viewer"].Delete(ctx, rollout.DeepCopy())).To(Satisfy(apierrors.IsForbidden))
		Expect(users["roll-none"].Delete(ctx, rollout.DeepCopy())).To(Succeed())
	}, NodeTimeout(3*time.Minute))

	It("do not suffice for a spec that cannot be carried out", func(ctx SpecContext) {
		err := users["roll-operator"].Create(ctx, rolloutOf("invalid", `{selector: {}, patch: {runStrategy: Always, template: {spec: {domain: {cpu: {socket: 4}}}}}, windows: [{schedule: "0 25 * * *", duration: 1h, timeZone: Mars/Base}]}`))
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(causes(err)).To(Equal([]string{
			"spec.patch.runStrategy rollout-valid", "spec.patch.template.spec.domain.cpu.socket rollout-valid",
			"spec.windows[0].schedule rollout-valid", "spec.windows[0].timeZone rollout-valid",
		}))

		By("warning of fields without effect")
		user, heard := listening("roll-operator")
		Expect(user.Create(ctx, rolloutOf("ineffective", `{selector: {}, paused: true, windows: [{schedule: "0 2 * * *", duration: 1h}]}`), client.DryRunAll)).To(Succeed())
		Expect(heard.texts).To(ContainElement(ContainSubstring("spec.windows has no effect")))
	})

	It("are needed until the end", func(ctx SpecContext) {
		process, err := cluster.RunVirtward(ctx, controlplane.Workload{
			Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardRollouts, Args: []string{controlplane.ShortLease},
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(process.Kill)
		grantRollouts(ctx, "roll-leaver", "virtward-rollouts-edit", patch, restart)
		vm := build.VMOf(build.Typical("roll-kept").With(func(spec *kubevirtv1.VirtualMachineInstanceSpec) {
			spec.Domain.Firmware = &kubevirtv1.Firmware{UUID: "11111111-2222-4333-8444-555555555555"}
		})).RunStrategy(kubevirtv1.RunStrategyManual).Obj()
		vm.Labels = map[string]string{"rolled": "leaver"}
		cleanUp(vm)
		Expect(alice.Create(ctx, vm)).To(Succeed())
		started(ctx, vm)
		rollout := rolloutOf("leaver", "{selector: {matchLabels: {rolled: leaver}}, patch: {template: {spec: {subdomain: changed}}}, allow: [Live, Restart], strategy: {partition: 100%}}")
		cleanUp(rollout)
		leaver := clientOf("roll-leaver")
		Eventually(func(ctx context.Context) error { return leaver.Create(ctx, rollout) }).WithContext(ctx).Should(Succeed())
		degraded := func(g Gomega, ctx context.Context) string {
			object := &v1alpha1.VirtualMachineRollout{}
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(rollout), object)).To(Succeed())
			condition := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionDegraded)
			if condition == nil {
				return ""
			}
			return condition.Reason + ": " + condition.Message
		}
		Eventually(degraded).WithContext(ctx).Should(HavePrefix(v1alpha1.ReasonHealthy))

		By("taking the permission to restart away")
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "vms-of-roll-leaver"}}
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(role), role)).To(Succeed())
		role.Rules = []rbacv1.PolicyRule{patch}
		Expect(admin.Update(ctx, role)).To(Succeed())
		Eventually(degraded).WithContext(ctx).WithTimeout(time.Minute).Should(Equal(v1alpha1.ReasonNotAuthorized +
			": the requester roll-leaver is not permitted to update virtualmachines/restart.subresources.kubevirt.io"))
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(vm), vm)).To(Succeed())
		Expect(vm.Spec.Template.Spec.Subdomain).To(BeEmpty())
	}, NodeTimeout(3*time.Minute))

	It("are verified while the webhook that records the requester is away", func(ctx SpecContext) {
		without(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}}, webhook)
		forged := rolloutOf("forged", paused)
		forged.SetAnnotations(map[string]string{v1alpha1.AnnotationRequester: `{"username":"admin","groups":["system:masters"]}`})
		plain := rolloutOf("plain", paused)
		for _, object := range []*unstructured.Unstructured{forged, plain} {
			Eventually(func(ctx context.Context) error {
				return users["roll-operator"].Create(ctx, object.DeepCopy(), client.DryRunAll)
			}).WithContext(ctx).Should(SatisfyAll(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("rollout-requester: "))), object.GetName())
		}
	}, NodeTimeout(3*time.Minute))
})
