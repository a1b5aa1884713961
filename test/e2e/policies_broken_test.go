package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// regoPolicy is a policy with a module.
func regoPolicy(enforcement, module string) string {
	GinkgoHelper()
	spec, err := yaml.Marshal(map[string]any{"enforcement": enforcement, "rego": map[string]any{"module": module}})
	Expect(err).NotTo(HaveOccurred())
	return string(spec)
}

var _ = Describe("A VirtualMachinePolicy that is no good", Serial, func() {
	BeforeEach(func(ctx SpecContext) { preparePoliced(ctx) })

	const fine = `{enforcement: Deny, validations: [{expression: "vm.spec.domain.cpu.cores <= 2", message: at most two cores, fieldPath: spec.domain.cpu.cores}]}`
	const tooMany = `FieldValueInvalid spec.template.spec.domain.cpu.cores: Invalid value: 4: at most two cores [virtward/policy/fine]`

	DescribeTable("is rejected when it is applied, with the place of each mistake", func(ctx SpecContext, spec func() string, want ...any) {
		user, heard := listen(cluster.Config())
		err := user.Create(ctx, policyWith("wrong", spec()))
		Expect(err).To(HaveOccurred())
		Expect(findingsOf(err, heard)).To(HaveExactElements(want...))
	},
		Entry("a field that there is not", validation("vm.spec.domain.memroy.guest == '1Gi'"),
			HavePrefix("FieldValueInvalid spec.validations[0].expression: Invalid value: 1:15: undefined field 'memroy'; did you mean 'memory'? [virtward/policy-compiles] ")),
		Entry("a type that does not fit, in the second line", validation("true &&\nvm.spec.domain.cpu.cores == 'two'"),
			HavePrefix("FieldValueInvalid spec.validations[0].expression: Invalid value: 2:26: found no matching overload for '_==_'")),
		Entry("no condition", validation("vm.spec.domain.cpu.cores"),
			MatchRegexp(`^FieldValueInvalid spec\.validations\[0\]\.expression: Invalid value: 1:\d+: must result in a bool`)),
		Entry("a text that is no CEL", validation("vm.spec.("), ContainSubstring("spec.validations[0].expression: Invalid value: 1:9: ")),
		Entry("a pattern that is none", validation("vm.metadata.name.matches('[a-')"),
			HavePrefix("FieldValueInvalid spec.validations[0].expression: Invalid value: 1:26: invalid matches argument: error parsing regexp: missing closing ]: `[a-` [virtward/policy-compiles]")),
		Entry("a field path that leads nowhere", func() string {
			return `{enforcement: Deny, validations: [{expression: "true", message: m, fieldPath: spec.domain.memroy}]}`
		}, ContainSubstring("spec.validations[0].fieldPath: Invalid value: ")),
		Entry("Rego that cannot be parsed", func() string { return regoPolicy("Deny", "package p\n\ndeny contains \"a\" if {\n  input.vm ==\n}\n") },
			MatchRegexp(`^FieldValueInvalid spec\.rego\.module: Invalid value: 5:1: unexpected } token`)),
		Entry("Rego that reaches out", func() string {
			return regoPolicy("Deny", "package p\n\ndeny contains \"a\" if http.send({\"url\": \"http://example.org\", \"method\": \"get\"}).status_code == 200\n")
		}, MatchRegexp(`^FieldValueInvalid spec\.rego\.module: Invalid value: 3:\d+: .*http\.send`)),
		Entry("a module of more than ten thousand lines", func() string {
			return regoPolicy("Deny", "package p\n\ndeny contains \"a\" if input.vm.metadata.name == \"a\"\n"+strings.Repeat("# a line\n", 10_000))
		}, MatchRegexp(`^FieldValueInvalid spec\.rego\.module: Invalid value: \d+:1: the module has 10003 lines: at most \d+ \[virtward/policy-compiles\]`)),
		Entry("parameters that their schema does not fit", func() string {
			return `{enforcement: Deny, params: {values: {max: many}, schema: {properties: {max: {type: integer}}}}, validations: [{expression: "params.max > 1", message: m, fieldPath: spec.domain}]}`
		}, ContainSubstring("spec.params.values.max: Invalid value: ")),
	)

	It("is rejected by kubectl apply as any other error", func(ctx SpecContext) {
		manifest, err := yaml.Marshal(policyWith("wrong", validation("true &&\nvm.spec.domain.memroy == ''")()).Object)
		Expect(err).NotTo(HaveOccurred())
		got := kubectlAsAdmin(ctx, string(manifest), "apply", "--filename=-")
		Expect(got.code).To(Equal(1))
		Expect(got.errors).To(HavePrefix(`The VirtualMachinePolicy "wrong" is invalid: spec.validations[0].expression: Invalid value: 2:15: undefined field 'memroy'; did you mean 'memory'? [virtward/policy-compiles]`))
	})

	DescribeTable("cannot be evaluated where it costs too much, and affects no other", func(ctx SpecContext, spec func(enforcement string) string, why string) {
		const remedy = " Ask an admin of the cluster to fix the policy."
		enforce(ctx, "fine", fine)
		policy := enforce(ctx, "endless", spec("Deny"))
		eventuallyAnswers(ctx, machine(cpus(2)), And(HavePrefix("InternalError spec: Internal error: the policy cannot be evaluated: "), ContainSubstring(why), HaveSuffix(" [virtward/policy/endless]"+remedy)))
		Expect(answer(ctx, machine(cpus(4)), "alice")).To(HaveExactElements(ContainSubstring("[virtward/policy/endless]"), tooMany))

		By("only warning, once it is to be ignored")
		Expect(change(ctx, admin, policy, func() { policy.Object["spec"].(map[string]any)["failurePolicy"] = "Ignore" })).To(Succeed())
		Eventually(func(ctx context.Context) []string { return answer(ctx, machine(cpus(4)), "alice") }).WithContext(ctx).Should(
			HaveExactElements(tooMany, And(HavePrefix("warning: spec: "), ContainSubstring(why), ContainSubstring("[virtward/policy/endless]"))))
	},
		Entry("in CEL", func(enforcement string) string {
			return fmt.Sprintf(`{enforcement: %s, validations: [{message: m, fieldPath: spec.domain, expression: "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, a + b + c >= 0)))"}]}`, enforcement)
		}, "spec.validations[0].expression: "),
		Entry("with a pattern that explodes", func(enforcement string) string {
			return fmt.Sprintf(`{enforcement: %s, validations: [{message: m, fieldPath: spec.domain, expression: "lists.range(1000).all(a, lists.range(1000).all(b, !'aaaaaaaaaaaaaaaaaaaaaaaaaa'.matches('(a*)*b')))"}]}`, enforcement)
		}, "is too expensive"),
		Entry("in Rego", func(enforcement string) string {
			return regoPolicy(enforcement, "package endless\n\ndeny contains \"a\" if {\n  some a in numbers.range(1, 9999)\n  some b in numbers.range(1, 9999)\n  some c in numbers.range(1, 9999)\n  a + b + c == 0\n}\n")
		}, "spec.rego.module: "),
	)

	// A broken policy can be stored without the webhook, or by an older version. The other policies stay active.
	It("stays and cannot be evaluated if it is there already, and can be mended or taken out of the way", func(ctx SpecContext) {
		enforce(ctx, "fine", fine)
		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		Expect(admin.Get(ctx, client.ObjectKey{Name: checks}, configuration)).To(Succeed())
		Expect(admin.Delete(ctx, configuration)).To(Succeed())
		policy := policyWith("stale", validation("vm.spec.domain.memroy == ''")())
		Eventually(func(ctx context.Context) error { return admin.Create(ctx, policy) }).WithContext(ctx).Should(Succeed())
		cleanUp(policy)
		configuration.SetResourceVersion("")
		configuration.SetUID("")
		Expect(admin.Create(ctx, configuration)).To(Succeed())
		awaitChecks(ctx)

		eventuallyAnswers(ctx, machine(cpus(2)), And(HavePrefix("InternalError spec: Internal error: the policy is invalid: spec.validations[0].expression:1:15: undefined field 'memroy'"), ContainSubstring("[virtward/policy/stale]")))
		Expect(answer(ctx, machine(cpus(4)), "alice")).To(HaveExactElements(ContainSubstring("[virtward/policy/stale]"), tooMany))
		labelled := policy.DeepCopy()
		labelled.SetLabels(map[string]string{"seen": "yes"})
		user, heard := listen(cluster.Config())
		Expect(user.Patch(ctx, labelled, client.MergeFrom(policy))).To(Succeed())
		Expect(heard.texts).To(BeEmpty(), "the spec is the same")
		lenient := labelled.DeepCopy()
		lenient.Object["spec"].(map[string]any)["enforcement"] = "Audit"
		Expect(user.Patch(ctx, lenient, client.MergeFrom(labelled))).To(Succeed())
		Expect(heard.texts).To(HaveExactElements(ContainSubstring("(pre-existing: tolerated on update, denied on create) [virtward/policy-compiles]")))
		Eventually(func(ctx context.Context) []string { return answer(ctx, machine(cpus(2)), "alice") }).WithContext(ctx).Should(BeEmpty())
	}, NodeTimeout(3*time.Minute))
})

// validation is the spec of a policy that denies by one expression.
func validation(expression string) func() string {
	return func() string {
		GinkgoHelper()
		spec, err := yaml.Marshal(map[string]any{"enforcement": "Deny", "validations": []any{map[string]any{"expression": expression, "message": "m", "fieldPath": "spec.domain"}}})
		Expect(err).NotTo(HaveOccurred())
		return string(spec)
	}
}
