package main

// The files of the policy, of the VM, and of the instancetype of the VM.
const (
	policySuite   = "examples/policy/memory-limit"
	policyFile    = policySuite + "/policy.yaml"
	largeFile     = "examples/instancetype-m1-large.yaml"
	analyticsFile = "examples/vm-analytics.yaml"
)

// tooLarge is the message of the policy for the VM, whose spec does not set its memory.
const tooLarge = `Invalid value: "16Gi": the VM would run with 16Gi of memory; the limit is 8Gi ` +
	"(VirtualMachineClusterInstancetype m1.large sets domain.memory.guest by its spec.memory.guest)"

// policies shows a policy of the admin on the effective VM: tested, tried, enforced and reported.
func policies() []step {
	const (
		update  = "kubectl label vm/analytics team=blue"
		reports = "kubectl get reports.openreports.io"
		listed  = "kubectl get vmpol"
	)
	return []step{
		{
			prose: "Alice has a VM that does not set its memory. Its instancetype sets 16Gi.",
			as:    admin, runs: []string{"kubectl apply -f " + largeFile},
		},
		{as: alice, reads: analyticsFile, runs: []string{"kubectl apply -f " + analyticsFile}},
		{
			prose: `The admin wants to limit memory to 8Gi, regardless of which object sets it. The admin writes a policy on the
				effective VM, and a suite with the expected results. The suite runs without a cluster.`,
			as: admin, reads: policyFile, runs: []string{"kubectl virtward policy test " + policySuite + " -v"},
			says: []string{"16Gi from the instancetype", "8 passed"},
		},
		{
			prose: "The audit shows what the policy would report in this cluster, before it is installed:",
			as:    admin, rejects: "kubectl virtward audit --all-namespaces --with " + policyFile,
			says:    []string{"VirtualMachine demo/analytics", "policy/memory-limit", "spec.instancetype.name", tooLarge},
			checked: "the audit reports one VM and its instancetype.",
		},
		{as: admin, runs: []string{"kubectl apply -f " + policyFile}},
		{
			prose: "A moment later, the policy is active. Alice can still change VMs that are older than the policy, with a warning:",
			as:    alice, await: update + " --dry-run=server", until: "Warning:", runs: []string{update},
			says: []string{"Warning: spec.instancetype.name: " + tooLarge, "(pre-existing: tolerated on update, denied on create) [virtward/policy/memory-limit]", "analytics labeled"},
		},
		{
			prose: "A new VM is rejected, at the field with which Alice chose the memory:",
			as:    alice, tour: top, rejects: "kubectl create -f " + analyticsFile + " --namespace lab",
			says: []string{`"analytics" is invalid`, "spec.instancetype.name: " + tooLarge, "[virtward/policy/memory-limit] Choose a smaller instancetype. Exceptions are possible: kubectl explain vmpolex."},
		},
		{
			prose: `The controller evaluates all existing objects with the policies. It writes one Report of OpenReports for each
				namespace, with the message that the author wrote, and without values of the VM: others read Reports than VMs.`,
			as: admin, await: reports + " --namespace demo -o yaml", until: "policy: memory-limit", runs: []string{reports + " --all-namespaces"},
		},
		{
			as: admin, runs: []string{reports + " virtward --namespace demo -o yaml"}, grep: "(message|policy|field): .*",
			says: []string{"the VM would run with more memory than the limit"},
		},
		{as: admin, await: listed + " memory-limit --no-headers", until: "1", runs: []string{listed}},
		{
			prose: `The same command shows which VMs could not run on another hypervisor. Alice sets the CPU model of the host,
				which Microsoft's hypervisor does not support.`,
			as: alice, runs: []string{`kubectl patch vm/analytics --type merge -p '{"spec":{"template":{"spec":{"domain":{"cpu":{"model":"host-passthrough"}}}}}}'`},
		},
		{
			as: admin, rejects: "kubectl virtward audit --all-namespaces --hypervisor mshv",
			says:    []string{"VirtualMachine demo/analytics", "mshv-cpu-model"},
			checked: "the audit reports the VM before the hypervisor changes.",
		},
	}
}
