package bench

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/test/build"
)

// celPolicies are typical policies of admins. The typical VM violates none of them.
var celPolicies = []string{
	`{title: Memory is capped, params: {values: {max: 64Gi}, schema: {properties: {max: {type: string}}}}, validations: [
    {expression: "quantity(vm.spec.domain.memory.guest).compareTo(quantity(params.max)) <= 0", messageExpression: "'at most ' + params.max", fieldPath: spec.domain.memory.guest}]}`,
	`{title: vCPUs are capped, params: {values: {max: 64}, schema: {properties: {max: {type: integer}}}}, variables: [{name: cpu, expression: vm.spec.domain.cpu}], validations: [
    {expression: "variables.cpu.?sockets.orValue(1) * variables.cpu.?cores.orValue(1) * variables.cpu.?threads.orValue(1) <= params.max", messageExpression: "'at most ' + string(params.max)", fieldPath: spec.domain.cpu}]}`,
	`{title: Labels are there, params: {values: {labels: [app]}, schema: {properties: {labels: {type: array, items: {type: string}}}}}, validations: [
    {expression: "params.labels.all(l, has(vm.metadata.labels) && l in vm.metadata.labels)", messageExpression: "'the labels are ' + params.labels.join(', ')", fieldPath: vm.metadata.labels}]}`,
	`{title: Disks are on virtio or scsi, validations: [
    {expression: "vm.spec.domain.devices.disks.all(d, !has(d.disk) || d.disk.bus in ['virtio', 'scsi', 'sata'])", message: other buses are slow, fieldPath: spec.domain.devices.disks}]}`,
	`{title: Images are from our registries, params: {values: {registries: [quay.io/containerdisks/, registry.local/]}, schema: {properties: {registries: {type: array, items: {type: string}}}}}, validations: [
    {expression: "vm.spec.volumes.all(v, !has(v.containerDisk) || params.registries.exists(r, v.containerDisk.image.startsWith(r)))", message: not from there, fieldPath: spec.volumes}]}`,
	`{title: The machine type is known, validations: [
    {expression: "vm.spec.domain.machine.type.matches('^(pc-)?q35')", message: q35 only, fieldPath: spec.domain.machine.type}]}`,
	`{title: Nothing of the host, validations: [
    {expression: "vm.spec.volumes.all(v, !has(v.hostDisk))", message: no disks of the host, fieldPath: spec.volumes},
    {expression: "!has(vm.spec.domain.devices.hostDevices) && !has(vm.spec.domain.devices.gpus)", message: no devices of the host, fieldPath: spec.domain.devices}]}`,
	`{title: Networks are known, match: {matchConditions: [{name: networks, expression: "has(vm.spec.networks)"}]}, validations: [
    {expression: "vm.spec.networks.all(n, has(n.pod) || (has(n.multus) && n.multus.networkName in ['storage-net', 'backup-net']))", message: another network, fieldPath: spec.networks},
    {expression: "vm.spec.domain.devices.interfaces.all(i, !has(i.macAddress))", message: addresses are given out, fieldPath: spec.domain.devices.interfaces}]}`,
	`{title: No dedicated CPUs outside of their namespaces, match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}}, validations: [
    {expression: "!vm.spec.domain.cpu.?dedicatedCpuPlacement.orValue(false) && !has(vm.spec.domain.memory.hugepages)", message: not here, fieldPath: spec.domain.cpu.dedicatedCpuPlacement}]}`,
	`{title: Secrets are in Secrets, validations: [
    {expression: "vm.spec.volumes.all(v, !has(v.cloudInitNoCloud) || !has(v.cloudInitNoCloud.userData) || !v.cloudInitNoCloud.userData.contains('password'))", message: put it into a Secret, fieldPath: spec.volumes}]}`,
}

// policyOf compiles a policy that is valid.
func policyOf(tb testing.TB, env *cel.Environment, policy *policyv1alpha1.VirtualMachinePolicy) *policies.Policy {
	tb.Helper()
	policy.Spec.Enforcement = policyv1alpha1.PolicyDeny
	compiled, problems := policies.Compile(env, policy, nil)
	if diagnostics.Broken(problems) {
		tb.Fatalf("%s: %v", policy.Name, problems)
	}
	return compiled
}

func environment(tb testing.TB) *cel.Environment {
	tb.Helper()
	env, err := cel.NewEnvironment()
	if err != nil {
		tb.Fatal(err)
	}
	return env
}

// celSet returns a number of policies in CEL.
func celSet(tb testing.TB, count int) *policies.Set {
	tb.Helper()
	env := environment(tb)
	compiled := make([]*policies.Policy, 0, count)
	for i := range count {
		policy := &policyv1alpha1.VirtualMachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("cel-%d", i)}}
		if err := yaml.UnmarshalStrict([]byte(celPolicies[i%len(celPolicies)]), &policy.Spec); err != nil {
			tb.Fatal(err)
		}
		compiled = append(compiled, policyOf(tb, env, policy))
	}
	return policies.NewSet("virtward-system", compiled...)
}

// regoSet returns a number of policies in Rego.
func regoSet(tb testing.TB, count int) *policies.Set {
	tb.Helper()
	env := environment(tb)
	modules := regoLibrary()
	compiled := make([]*policies.Policy, 0, count)
	for i := range count {
		policy := &policyv1alpha1.VirtualMachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("rego-%d", i)}}
		if err := yaml.UnmarshalStrict([]byte(`params: {values: {architectures: [amd64, arm64]}}`), &policy.Spec); err != nil {
			tb.Fatal(err)
		}
		policy.Spec.Rego = &policyv1alpha1.PolicyRego{Module: fmt.Sprintf("package bench%d\n", i) + modules[i%len(modules)]}
		compiled = append(compiled, policyOf(tb, env, policy))
	}
	return policies.NewSet("virtward-system", compiled...)
}

// evaluated is what policies see of the typical VMI. Documents are for one admission: what is read of them is kept.
func evaluated(vmi *v1.VirtualMachineInstance, facts *platform.Facts) *cel.Documents {
	return &cel.Documents{
		Kind: "VirtualMachineInstance", Object: vmi, VM: vmi, Facts: facts, Requester: "alice",
		Request:   cel.Request{Operation: "CREATE", Name: vmi.Name, Namespace: vmi.Namespace, UserInfo: authenticationv1.UserInfo{Username: "alice"}},
		Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"kubernetes.io/metadata.name": "default"}}},
	}
}

func benchmarkPolicies(b *testing.B, set *policies.Set, tooMuch int) {
	b.Helper()
	typical := build.Typical("db").Label("team", "blue").Label("cost-centre", "42")
	vmi, facts, now := complete(b, typical.Obj()), platform.Defaults(platform.Settings{}), time.Now()
	if findings := set.Evaluate(evaluated(vmi, facts), now); len(findings) != 0 {
		b.Fatalf("%d findings, the first: %s", len(findings), findings[0].Message())
	}
	if findings := set.Evaluate(evaluated(complete(b, typical.Memory("65Gi").Obj()), facts), now); len(findings) != tooMuch {
		b.Fatalf("%d findings about too much memory, want %d", len(findings), tooMuch)
	}
	b.ReportAllocs()
	for b.Loop() {
		set.Evaluate(evaluated(vmi, facts), now)
	}
}

// loadedSet returns policies in CEL of which those after the first ones are for namespaces of others.
func loadedSet(tb testing.TB, matching, loaded int) *policies.Set {
	tb.Helper()
	env := environment(tb)
	compiled := make([]*policies.Policy, 0, loaded)
	for i := range loaded {
		policy := &policyv1alpha1.VirtualMachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("cel-%d", i)}}
		if err := yaml.UnmarshalStrict([]byte(celPolicies[i%len(celPolicies)]), &policy.Spec); err != nil {
			tb.Fatal(err)
		}
		if i >= matching {
			policy.Spec.Match.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: fmt.Sprintf("team-%d", i)}}
		}
		compiled = append(compiled, policyOf(tb, env, policy))
	}
	return policies.NewSet("virtward-system", compiled...)
}

// differentSet returns policies in CEL no two of which have an expression in common.
func differentSet(tb testing.TB, count int) *policies.Set {
	tb.Helper()
	env := environment(tb)
	compiled := make([]*policies.Policy, 0, count)
	for i := range count {
		policy := &policyv1alpha1.VirtualMachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("cel-%d", i)}}
		if err := yaml.UnmarshalStrict([]byte(celPolicies[i%len(celPolicies)]), &policy.Spec); err != nil {
			tb.Fatal(err)
		}
		for j := range policy.Spec.Validations {
			policy.Spec.Validations[j].Expression += fmt.Sprintf(" || vm.metadata.name == 'exempt-%d'", i)
		}
		compiled = append(compiled, policyOf(tb, env, policy))
	}
	return policies.NewSet("virtward-system", compiled...)
}

// BenchmarkPoliciesLoaded evaluates the typical VMI with policies of which a part matches, without the webhook.
func BenchmarkPoliciesLoaded(b *testing.B) {
	for _, c := range []struct{ matching, loaded int }{{10, 10}, {10, 1000}, {100, 100}, {1000, 1000}} {
		b.Run(fmt.Sprintf("%d-of-%d", c.matching, c.loaded), func(b *testing.B) { benchmarkPolicies(b, loadedSet(b, c.matching, c.loaded), c.matching/10) })
	}
}

// BenchmarkPoliciesHeap measures the live heap of a compiled policy: of policies with ten texts in CEL, of policies that have no
// expression in common, and of modules in Rego.
func BenchmarkPoliciesHeap(b *testing.B) {
	const shared, count = 20, 500
	for _, c := range []struct {
		name string
		make func(testing.TB, int) *policies.Set
	}{{"equal", celSet}, {"different", differentSet}, {"rego", regoSet}} {
		b.Run(c.name, func(b *testing.B) {
			heapOf := func(count int) float64 {
				before := heapInUse()
				set := c.make(b, count)
				made := heapInUse() - before
				runtime.KeepAlive(set)
				return made
			}
			heapOf(shared) // what is made once in a process
			total, n := 0.0, 0
			for b.Loop() {
				total, n = total+heapOf(shared+count)-heapOf(shared), n+1
			}
			b.ReportMetric(total*1024/float64(count*n), "KB/policy")
		})
	}
}

// BenchmarkPoliciesCEL50 evaluates the typical VMI with 50 policies in CEL, without the webhook.
func BenchmarkPoliciesCEL50(b *testing.B) { benchmarkPolicies(b, celSet(b, 50), 5) }

// BenchmarkPoliciesRego50 evaluates the typical VMI with 50 policies in Rego, without the webhook.
func BenchmarkPoliciesRego50(b *testing.B) { benchmarkPolicies(b, regoSet(b, 50), 3) }

// BenchmarkCompilePoliciesCEL and BenchmarkCompilePoliciesRego compile one policy after the other, as when Virtward
// starts.
func BenchmarkCompilePoliciesCEL(b *testing.B) {
	env := environment(b)
	var specs []policyv1alpha1.VirtualMachinePolicySpec
	for _, text := range celPolicies {
		var spec policyv1alpha1.VirtualMachinePolicySpec
		if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
			b.Fatal(err)
		}
		specs = append(specs, spec)
	}
	benchmarkCompile(b, env, specs)
}

// BenchmarkCompilePoliciesRego is BenchmarkCompilePoliciesCEL in Rego.
func BenchmarkCompilePoliciesRego(b *testing.B) {
	var specs []policyv1alpha1.VirtualMachinePolicySpec
	for _, text := range regoLibrary() {
		specs = append(specs, policyv1alpha1.VirtualMachinePolicySpec{Rego: &policyv1alpha1.PolicyRego{Module: "package bench\n" + text}})
	}
	benchmarkCompile(b, environment(b), specs)
}

func benchmarkCompile(b *testing.B, env *cel.Environment, specs []policyv1alpha1.VirtualMachinePolicySpec) {
	b.Helper()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		policyOf(b, env, &policyv1alpha1.VirtualMachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: specs[i%len(specs)]})
		i++
	}
}
