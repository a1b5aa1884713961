package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/simulators"
	"github.com/virtward/virtward/webhooks"
)

// policed is the namespace that the policies of these specs are for, so that others do not meet them.
const policed = "policed"

// preparePoliced creates that namespace and another one, and an admin of both.
func preparePoliced(ctx context.Context) {
	GinkgoHelper()
	for name, tier := range map[string]string{policed: "prod", "unpoliced": "lab", controlplane.VirtwardNamespace: ""} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": tier}, Annotations: map[string]string{"owner": "blue"}}}
		Expect(client.IgnoreAlreadyExists(admin.Create(ctx, namespace))).To(Succeed())
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "policed-admins"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "policed-admins"}},
		}
		Expect(client.IgnoreAlreadyExists(admin.Create(ctx, binding))).To(Succeed())
	}
	Eventually(func(ctx context.Context) error { // the API server learns of rights a moment later
		user, _ := userOf("alice")
		return user.Create(ctx, machine(), client.DryRunAll)
	}).WithContext(ctx).Should(Succeed())
}

// policyWith returns a VirtualMachinePolicy with a spec in YAML. Without a match, it is for the policed namespace.
func policyWith(name, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	fields := map[string]any{}
	Expect(yaml.Unmarshal([]byte(spec), &fields)).To(Succeed())
	match, _ := fields["match"].(map[string]any)
	if match == nil {
		match = map[string]any{}
		fields["match"] = match
	}
	if match["namespaceSelector"] == nil {
		match["namespaceSelector"] = map[string]any{"matchLabels": map[string]any{corev1.LabelMetadataName: policed}}
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	object.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind("VirtualMachinePolicy"))
	object.SetName(name)
	return object
}

// enforce applies a policy until the end of the spec.
func enforce(ctx context.Context, name, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	policy := policyWith(name, spec)
	Expect(admin.Create(ctx, policy)).To(Succeed())
	cleanUp(policy)
	return policy
}

// userOf returns a client of a user with all permissions in the policed namespace, and the warnings that it receives.
func userOf(user string, groups ...string) (client.Client, *recordedWarnings) {
	GinkgoHelper()
	config := rest.CopyConfig(cluster.Config())
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "policed-admins")}
	return listen(config)
}

// answer returns the findings of a dry run: the causes of the rejection, then the warnings.
func answer(ctx context.Context, object client.Object, user string, groups ...string) []string {
	GinkgoHelper()
	c, heard := userOf(user, groups...)
	return findingsOf(c.Create(ctx, object.DeepCopyObject().(client.Object), client.DryRunAll), heard)
}

// findingsOf returns the causes of a rejection, without the offer of an exception, then the warnings.
func findingsOf(err error, heard *recordedWarnings) []string {
	GinkgoHelper()
	var all []string
	if err != nil {
		for _, cause := range detailed(err) {
			all = append(all, fmt.Sprintf("%s %s: %s", cause.Type, cause.Field, strings.TrimSuffix(cause.Message, " "+webhooks.ExceptionRemedy)))
		}
	}
	for _, text := range heard.texts {
		all = append(all, "warning: "+text)
	}
	return all
}

// machine is a VM of the policed namespace.
func machine(changes ...func(*build.VMIBuilder)) *kubevirtv1.VirtualMachine {
	vmi := build.VMI("evaluated").Namespace(policed)
	for _, change := range changes {
		change(vmi)
	}
	return build.VMOf(vmi).Obj()
}

func memory(guest string) func(*build.VMIBuilder) {
	return func(b *build.VMIBuilder) { b.Memory(guest) }
}

func cpus(cores uint32) func(*build.VMIBuilder) {
	return func(b *build.VMIBuilder) { b.Topology(1, cores, 1) }
}

// eventuallyAnswers waits until alice gets these findings for an object.
func eventuallyAnswers(ctx context.Context, object client.Object, what any, users ...string) {
	GinkgoHelper()
	if len(users) == 0 {
		users = []string{"alice"}
	}
	Eventually(func(ctx context.Context) []string { return answer(ctx, object, users[0], users[1:]...) }).WithContext(ctx).Should(HaveExactElements(what))
}

var _ = Describe("VirtualMachinePolicies", Serial, Ordered, func() {
	// two is a policy about two vCPUs with more fields; a VM with four violates it.
	const two = `{enforcement: Deny, validations: [{expression: "vm.spec.domain.cpu.cores <= 2", message: at most two cores, fieldPath: spec.domain.cpu.cores}], %s}`
	const tooMany = `FieldValueInvalid spec.template.spec.domain.cpu.cores: Invalid value: 4: at most two cores [virtward/policy/two]`

	BeforeAll(func(ctx SpecContext) { preparePoliced(ctx) })

	It("evaluate the effective VM, with the fields of its instancetype", func(ctx SpecContext) {
		big := sized("e2e.big")
		big.Spec.Memory.Guest = resource.MustParse("16Gi")
		install(ctx, big)
		enforce(ctx, "memory-cap", `{title: Memory is at most 8Gi, remedy: Choose a smaller instancetype., enforcement: Deny, params: {values: {max: 8Gi}, schema: {properties: {max: {type: string}}}},
		  validations: [{expression: "quantity(vm.spec.domain.memory.guest).compareTo(quantity(params.max)) <= 0", fieldPath: spec.domain.memory.guest,
		    messageExpression: "string(vm.spec.domain.memory.guest) + ' of memory is more than the ' + params.max + ' that are allowed'"}]}`)
		chosen := build.VMOf(build.VMI("evaluated").Namespace(policed)).Instancetype("e2e.big").Obj()
		chosen.Spec.Template.Spec.Domain.Memory = nil
		eventuallyAnswers(ctx, chosen, `FieldValueInvalid spec.instancetype.name: Invalid value: "16Gi": 16Gi of memory is more than the 8Gi that are allowed`+
			` (VirtualMachineClusterInstancetype e2e.big sets domain.memory.guest by its spec.memory.guest) [virtward/policy/memory-cap] Choose a smaller instancetype.`)
		Expect(answer(ctx, machine(memory("9Gi")), "alice")).To(HaveExactElements(
			`FieldValueInvalid spec.template.spec.domain.memory.guest: Invalid value: "9Gi": 9Gi of memory is more than the 8Gi that are allowed [virtward/policy/memory-cap] Choose a smaller instancetype.`))
		Expect(answer(ctx, machine(memory("8Gi")), "alice")).To(BeEmpty())
	})

	It("are evaluated for VMIs of KubeVirt's accounts, and KubeVirt writes an event on the VM", func(ctx SpecContext) {
		enforce(ctx, "two", fmt.Sprintf(two, `match: {kinds: [VirtualMachineInstance]}`))
		instance := build.VMI("evaluated").Namespace(policed).Topology(1, 4, 1).Obj()
		eventuallyAnswers(ctx, instance, `FieldValueInvalid spec.domain.cpu.cores: Invalid value: 4: at most two cores [virtward/policy/two]`)
		vm := build.VMOf(build.VMI("started").Namespace(policed).Topology(1, 4, 1)).RunStrategy(kubevirtv1.RunStrategyAlways).Obj()
		Expect(admin.Create(ctx, vm)).To(Succeed(), "no policy is about VMs")
		cleanUp(vm)
		Eventually(func(ctx context.Context) []corev1.Event { return eventsOn(ctx, vm) }).WithContext(ctx).Should(ContainElement(And(
			HaveField("Reason", simulators.ReasonFailedCreate),
			HaveField("Message", ContainSubstring("spec.domain.cpu.cores: Invalid value: 4: at most two cores [virtward/policy/two]")),
		)))
	})

	It("only warn about pre-existing violations, and deny larger ones", func(ctx SpecContext) {
		vm := machine(cpus(4))
		vm.Name = "kept"
		Expect(admin.Create(ctx, vm)).To(Succeed())
		cleanUp(vm)
		enforce(ctx, "two", fmt.Sprintf(two, ""))
		eventuallyAnswers(ctx, machine(cpus(4)), tooMany)
		user, heard := userOf("alice")
		Expect(change(ctx, user, vm, func() { vm.Labels = map[string]string{"touched": "yes"} })).To(Succeed())
		Expect(heard.texts).To(And(Not(BeEmpty()), HaveEach(`spec.template.spec.domain.cpu.cores: Invalid value: 4: at most two cores (pre-existing: tolerated on update, denied on create) [virtward/policy/two]`)),
			"a change that conflicts with another is made again")
		heard.texts = nil
		Expect(findingsOf(change(ctx, user, vm, func() { vm.Spec.Template.Spec.Domain.CPU.Cores = 5 }), heard)).To(HaveExactElements(
			`FieldValueInvalid spec.template.spec.domain.cpu.cores: Invalid value: 5: at most two cores [virtward/policy/two]`))
	})

	DescribeTable("are evaluated for objects that they match", func(ctx SpecContext, match string, matching, other client.Object, message string) {
		enforce(ctx, "two", fmt.Sprintf(two, "match: "+match))
		if matching != nil {
			eventuallyAnswers(ctx, matching, message)
		} else { // nothing would ever tell that the policy is active but another one after it
			enforce(ctx, "later", `{enforcement: Warn, match: {objectSelector: {matchLabels: {later: "yes"}}}, validations: [{expression: "false", message: it is, fieldPath: metadata.name}]}`)
			labelled := machine()
			labelled.Labels = map[string]string{"later": "yes"}
			eventuallyAnswers(ctx, labelled, HavePrefix(`warning: metadata.name: Invalid value: "evaluated": it is`))
		}
		Expect(answer(ctx, other, "alice")).To(BeEmpty())
	},
		Entry("kinds", `{kinds: [VirtualMachine]}`, machine(cpus(4)), build.VMI("evaluated").Namespace(policed).Topology(1, 4, 1).Obj(), tooMany),
		Entry("kinds: pools", `{kinds: [VirtualMachinePool]}`, pooled(machine(cpus(4))), machine(cpus(4)), strings.Replace(tooMany, "spec.template", "spec.virtualMachineTemplate.spec.template", 1)),
		Entry("namespaceSelector", `{namespaceSelector: {matchLabels: {tier: prod}}}`, machine(cpus(4)), inNamespace(machine(cpus(4)), "unpoliced"), tooMany),
		Entry("namespaceSelector: never our own", `{namespaceSelector: {}}`, machine(cpus(4)), inNamespace(machine(cpus(4)), controlplane.VirtwardNamespace), tooMany),
		Entry("objectSelector", `{objectSelector: {matchLabels: {tier: prod}}}`, labelled(machine(cpus(4)), "prod"), labelled(machine(cpus(4)), "lab"), tooMany),
		Entry("hypervisors: this one", `{hypervisors: [mshv, kvm]}`, machine(cpus(4)), machine(cpus(2)), tooMany),
		Entry("hypervisors: another one", `{hypervisors: [mshv]}`, nil, machine(cpus(4)), ""),
		Entry("architectures", `{architectures: [arm64]}`, machine(cpus(4), func(b *build.VMIBuilder) { b.Architecture("arm64") }), machine(cpus(4)), tooMany),
		Entry("matchConditions", `{matchConditions: [{name: c, expression: "object.spec.runStrategy == 'Halted'"}]}`,
			build.VMOf(build.VMI("evaluated").Namespace(policed).Topology(1, 4, 1)).RunStrategy(kubevirtv1.RunStrategyHalted).Obj(),
			build.VMOf(build.VMI("evaluated").Namespace(policed).Topology(1, 4, 1)).RunStrategy(kubevirtv1.RunStrategyManual).Obj(), tooMany),
	)

	It("are skipped for operations, users and groups that they exclude", func(ctx SpecContext) {
		vm := machine()
		vm.Name = "updated"
		Expect(admin.Create(ctx, vm)).To(Succeed())
		cleanUp(vm)
		enforce(ctx, "two", fmt.Sprintf(two, `match: {operations: [UPDATE], excludedUsers: [jane], excludedGroups: [trusted]}`))
		update := func(user string, groups ...string) []string {
			c, heard := userOf(user, groups...)
			changed := vm.DeepCopy()
			changed.Spec.Template.Spec.Domain.CPU = &kubevirtv1.CPU{Cores: 4}
			patch := client.MergeFrom(vm)
			return findingsOf(c.Patch(ctx, changed, patch, client.DryRunAll), heard)
		}
		Eventually(func() []string { return update("alice") }).Should(HaveExactElements(tooMany))
		Expect(update("jane")).To(BeEmpty())
		Expect(update("erin", "trusted")).To(BeEmpty())
		Expect(answer(ctx, machine(cpus(4)), "alice")).To(BeEmpty(), "a creation")
	})

	DescribeTable("report their message", func(ctx SpecContext, spec string, object client.Object, want ...string) {
		enforce(ctx, "said", spec)
		elements := make([]any, len(want))
		for i := range want {
			elements[i] = want[i]
		}
		Eventually(func(ctx context.Context) []string { return answer(ctx, object, "jane", "devs") }).WithContext(ctx).Should(HaveExactElements(elements...))
	},
		Entry("with variables, a message in CEL, a reason, and a remedy",
			`{enforcement: Deny, remedy: Ask for less., variables: [{name: cpu, expression: vm.spec.domain.cpu}, {name: all, expression: variables.cpu.cores * variables.cpu.sockets}],
			  validations: [{expression: variables.all <= 2, messageExpression: "'%d are too many'.format([variables.all])", reason: Forbidden, fieldPath: spec.domain.cpu.cores}]}`, machine(cpus(4)),
			`FieldValueForbidden spec.template.spec.domain.cpu.cores: Forbidden: 4 are too many [virtward/policy/said] Ask for less.`),
		Entry("all of it", `{enforcement: Deny, validations: [{expression: vm.spec.domain.cpu.cores <= 2, message: cores, fieldPath: spec.domain.cpu.cores},
			  {expression: has(vm.spec.subdomain), message: name it, fieldPath: spec.subdomain}, {expression: "true", message: never, fieldPath: spec.subdomain}]}`, machine(cpus(4)),
			`FieldValueInvalid spec.template.spec.domain.cpu.cores: Invalid value: 4: cores [virtward/policy/said]`,
			`FieldValueRequired spec.template.spec.subdomain: Required value: name it [virtward/policy/said]`),
		Entry("in Rego", `{enforcement: Deny, rego: {module: "package said\ndeny contains {\"msg\": sprintf(\"%d cores\", [c]), \"field\": \"spec.domain.cpu.cores\"} if {\n  c := input.vm.spec.domain.cpu.cores\n  c > 2\n}\nwarn contains \"from Rego\"\n"}}`, machine(cpus(4)),
			`FieldValueInvalid spec.template.spec.domain.cpu.cores: Invalid value: 4: 4 cores [virtward/policy/said]`,
			`warning: spec: Forbidden: from Rego [virtward/policy/said]`),
		Entry("as a warning", `{enforcement: Warn, validations: [{expression: "false", message: never, fieldPath: spec.subdomain}]}`, machine(),
			`warning: spec.template.spec.subdomain: Required value: never [virtward/policy/said]`),
		Entry("of the request, the namespace, the platform and where a value is from",
			`{enforcement: Warn, validations: [{expression: "false", fieldPath: metadata.name, messageExpression:
			    "[request.operation, request.userInfo.username, request.userInfo.groups[0], requester, namespaceObject.metadata.annotations.owner, namespaceObject.metadata.labels.tier, platform.hypervisor, platform.architecture, provenance['spec.domain.cpu.cores']].join(' ')"}]}`, machine(),
			`warning: metadata.name: Invalid value: "evaluated": CREATE jane devs jane blue prod kvm amd64 base [virtward/policy/said]`),
		Entry("after asking what the requester may do",
			`{enforcement: Warn, validations: [
			    {expression: "authorizer.group('').resource('pods').namespace('policed').check('get').allowed()", message: she may, fieldPath: metadata.name},
			    {expression: "authorizer.group('').resource('pods').namespace('default').check('get').allowed()", message: she may not, fieldPath: metadata.name}]}`, machine(),
			`warning: metadata.name: Invalid value: "evaluated": she may not [virtward/policy/said]`),
	)

	It("that audit write only to the audit log", func(ctx SpecContext) {
		enforce(ctx, "silent", strings.Replace(fmt.Sprintf(two, ""), "Deny", "Audit", 1))
		attempt := 0
		Eventually(func(g Gomega, ctx context.Context) {
			attempt++
			vm := renamed(machine(cpus(4)), fmt.Sprintf("audited-%d", attempt))
			user, heard := userOf("alice")
			g.Expect(user.Create(ctx, vm)).To(Succeed())
			cleanUp(vm)
			g.Expect(heard.texts).To(BeEmpty())
			g.Expect(auditAnnotations(vm.Name)).To(And(
				HaveKeyWithValue(machineCheck+"/policies-audit", "policy/silent"), Not(HaveKey(machineCheck+"/findings"))))
		}).WithContext(ctx).WithPolling(200 * time.Millisecond).Should(Succeed())
	})

	It("end their exceptions", func(ctx SpecContext) {
		const except = `exceptions: [{names: [evaluated], reason: over, expires: "2020-01-01T00:00:00Z"}, {names: [other-*], namespaces: [policed], reason: migrating, expires: %q}]`
		ends := time.Now().Add(3 * time.Second)
		enforce(ctx, "two", fmt.Sprintf(two, fmt.Sprintf(except, ends.UTC().Format(time.RFC3339))))
		eventuallyAnswers(ctx, machine(cpus(4)), tooMany)
		exempt := renamed(machine(cpus(4)), "other-1")
		if time.Now().Before(ends.Add(-time.Second)) { // the time is kept in seconds
			Expect(answer(ctx, exempt, "alice")).To(BeEmpty())
		}
		Eventually(func(ctx context.Context) []string { return answer(ctx, exempt, "alice") }).WithContext(ctx).Should(HaveExactElements(tooMany))
	})

	It("follow the ConfigMap of their parameters", func(ctx SpecContext) {
		const limited = `{enforcement: Deny, params: {configMap: {namespace: %s, name: limits}, parameterNotFoundAction: %s, schema: {properties: {cores: {type: integer}}}},
		  validations: [{expression: vm.spec.domain.cpu.cores <= params.cores, messageExpression: "'at most %%d'.format([params.cores])", fieldPath: spec.domain.cpu.cores}]}`
		cannotEvaluate := func(why string) string {
			return "InternalError spec: Internal error: the policy cannot be evaluated: spec.params.configMap: " + why + " [virtward/policy/limited] Ask an admin of the cluster to fix the policy."
		}
		user, heard := listen(cluster.Config())
		policy := policyWith("limited", fmt.Sprintf(limited, controlplane.VirtwardNamespace, "Deny"))
		Expect(user.Create(ctx, policy)).To(Succeed())
		cleanUp(policy)
		Expect(heard.texts).To(HaveExactElements(HavePrefix("spec.params.configMap: Invalid value: there is no ConfigMap virtward-system/limits [virtward/policy-compiles]")))
		eventuallyAnswers(ctx, machine(), cannotEvaluate("there is no ConfigMap virtward-system/limits"))

		limits := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: controlplane.VirtwardNamespace, Name: "limits"}, Data: map[string]string{"cores": "2"}}
		Expect(admin.Create(ctx, limits)).To(Succeed())
		cleanUp(limits)
		eventuallyAnswers(ctx, machine(cpus(4)), `FieldValueInvalid spec.template.spec.domain.cpu.cores: Invalid value: 4: at most 2 [virtward/policy/limited]`)
		limits.Data["cores"] = "3"
		Expect(admin.Update(ctx, limits)).To(Succeed())
		eventuallyAnswers(ctx, machine(cpus(4)), `FieldValueInvalid spec.template.spec.domain.cpu.cores: Invalid value: 4: at most 3 [virtward/policy/limited]`)
		limits.Data["cores"] = "many"
		Expect(admin.Update(ctx, limits)).To(Succeed())
		eventuallyAnswers(ctx, machine(), And(HavePrefix("InternalError spec: Internal error: the policy is invalid: spec.params.configMap"), ContainSubstring("[virtward/policy/limited]")))

		By("skipping the policy without the ConfigMap, with parameterNotFoundAction: Allow")
		Expect(admin.Delete(ctx, limits)).To(Succeed())
		eventuallyAnswers(ctx, machine(), cannotEvaluate("there is no ConfigMap virtward-system/limits"))
		Expect(change(ctx, admin, policy, func() { // the controller writes its status too
			Expect(unstructured.SetNestedField(policy.Object, "Allow", "spec", "params", "parameterNotFoundAction")).To(Succeed())
		})).To(Succeed())
		Eventually(func(ctx context.Context) []string { return answer(ctx, machine(cpus(4)), "alice") }).WithContext(ctx).Should(BeEmpty())

		Expect(findingsOf(admin.Create(ctx, policyWith("elsewhere", fmt.Sprintf(limited, "default", "Deny"))), heard)[0]).To(HavePrefix(
			"FieldValueInvalid spec.params.configMap.namespace: Invalid value: ConfigMaps of namespace default are not read, only those of virtward-system: the value policies.paramsNamespaces of the chart lists the namespaces"))
	})

	It("are explained by kubectl", func(ctx SpecContext) {
		got := kubectlAsAdmin(ctx, "", "explain", "virtualmachinepolicies.spec.match.hypervisors")
		Expect(got.code).To(BeZero(), got.errors)
		Expect(got.output).To(ContainSubstring("Hypervisors of the cluster. For example: kvm or mshv."))
	})
})

// pooled is a pool of a VM.
func pooled(vm *kubevirtv1.VirtualMachine) client.Object {
	labels := map[string]string{"app": "pooled"}
	vm.Spec.Template.ObjectMeta.Labels = labels
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&poolv1beta1.VirtualMachinePool{
		TypeMeta:   metav1.TypeMeta{APIVersion: poolv1beta1.SchemeGroupVersion.String(), Kind: "VirtualMachinePool"},
		ObjectMeta: metav1.ObjectMeta{Namespace: vm.Namespace, Name: "pooled"},
		Spec: poolv1beta1.VirtualMachinePoolSpec{
			Selector:               &metav1.LabelSelector{MatchLabels: labels},
			VirtualMachineTemplate: &poolv1beta1.VirtualMachineTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: vm.Spec},
		},
	})
	if err != nil {
		panic(err) // there is no running spec yet
	}
	return &unstructured.Unstructured{Object: fields}
}

func inNamespace(vm *kubevirtv1.VirtualMachine, namespace string) *kubevirtv1.VirtualMachine {
	vm.Namespace = namespace
	return vm
}

func labelled(vm *kubevirtv1.VirtualMachine, tier string) *kubevirtv1.VirtualMachine {
	vm.Labels = map[string]string{"tier": tier}
	return vm
}
