package main

import (
	"context"
	"regexp"
)

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

// aboutMemory matches the lines of a report with the policy's results.
var aboutMemory = regexp.MustCompile(`(message|policy|field): .*`)

// policies shows a policy of the admin on the effective VM: tested, tried, enforced and reported.
func policies(ctx context.Context, s *show) error {
	s.prose(`Alice has a VM that does not set its memory. Its instancetype sets 16Gi.`)
	if err := s.doesAll(ctx, s.admin, "kubectl apply -f "+largeFile); err != nil {
		return err
	}
	if err := s.reads(s.alice, analyticsFile); err != nil {
		return err
	}
	if err := s.doesAll(ctx, s.alice, "kubectl apply -f "+analyticsFile); err != nil {
		return err
	}
	for _, part := range []func(context.Context) error{s.testsPolicy, s.asksWhatIf, s.enforces, s.reports, s.asksAboutAnother} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// testsPolicy runs the suite of a policy.
func (s *show) testsPolicy(ctx context.Context) error {
	s.prose(`The admin wants to limit memory to 8Gi, regardless of which object sets it. The admin writes a policy on the
		effective VM, and a suite with the expected results. The suite runs without a cluster.`)
	if err := s.reads(s.admin, policyFile); err != nil {
		return err
	}
	output, err := s.does(ctx, s.admin, "kubectl virtward policy test "+policySuite+" -v")
	if err != nil {
		return err
	}
	return says(output, "16Gi from the instancetype", "8 passed")
}

// asksWhatIf shows what the policy would report before it is installed.
func (s *show) asksWhatIf(ctx context.Context) error {
	s.prose("The audit shows what the policy would report in this cluster, before it is installed:")
	if err := s.isRejected(ctx, s.admin, "kubectl virtward audit --all-namespaces --with "+policyFile,
		"VirtualMachine demo/analytics", "policy/memory-limit", "spec.instancetype.name", tooLarge); err != nil {
		return err
	}
	s.checked("the audit reports one VM and its instancetype.")
	return nil
}

// enforces shows that a new VM is rejected, and that an existing one can be changed.
func (s *show) enforces(ctx context.Context) error {
	if err := s.doesAll(ctx, s.admin, "kubectl apply -f "+policyFile); err != nil {
		return err
	}
	s.prose("A moment later, the policy is active. Alice can still change VMs that are older than the policy, with a warning:")
	const update = "kubectl label vm/analytics team=blue"
	if err := s.awaitOutput(ctx, s.alice, update+" --dry-run=server", "Warning:"); err != nil {
		return err
	}
	output, err := s.does(ctx, s.alice, update)
	if err != nil {
		return err
	}
	if err := says(output, "Warning: spec.instancetype.name: "+tooLarge, "(pre-existing: tolerated on update, denied on create) [virtward/policy/memory-limit]", "analytics labeled"); err != nil {
		return err
	}
	s.prose("A new VM is rejected, at the field with which Alice chose the memory:")
	return s.key("").isRejected(ctx, s.alice, "kubectl create -f "+analyticsFile+" --namespace lab",
		`"analytics" is invalid`, "spec.instancetype.name: "+tooLarge, "[virtward/policy/memory-limit] Choose a smaller instancetype. Exceptions are possible: kubectl explain vmpolex.")
}

// reports shows the reports of the audit.
func (s *show) reports(ctx context.Context) error {
	s.prose(`The controller evaluates all existing objects with the policies. It writes one Report of OpenReports for each
		namespace, with the message that the author wrote, and without values of the VM: others read Reports than VMs.`)
	const list = "kubectl get reports.openreports.io"
	if err := s.awaitOutput(ctx, s.admin, list+" --namespace demo -o yaml", "policy: memory-limit"); err != nil {
		return err
	}
	if err := s.doesAll(ctx, s.admin, list+" --all-namespaces"); err != nil {
		return err
	}
	found, err := s.greps(ctx, s.admin, list+" virtward --namespace demo -o yaml", aboutMemory, true)
	if err != nil {
		return err
	}
	if err := says(found, "the VM would run with more memory than the limit"); err != nil {
		return err
	}
	if err := s.awaitOutput(ctx, s.admin, "kubectl get vmpol memory-limit --no-headers", "1"); err != nil {
		return err
	}
	return s.doesAll(ctx, s.admin, "kubectl get vmpol")
}

// asksAboutAnother shows which VMs could not run on another hypervisor.
func (s *show) asksAboutAnother(ctx context.Context) error {
	s.prose(`The same command shows which VMs could not run on another hypervisor. Alice sets the CPU model of the host,
		which Microsoft's hypervisor does not support.`)
	const patch, model = "kubectl patch vm/analytics --type merge -p ", `{"spec":{"template":{"spec":{"domain":{"cpu":{"model":"host-passthrough"}}}}}}`
	s.prompt(s.alice.name, patch+"'"+model+"'")
	output, err := s.call(ctx, s.alice, patch+model)
	if err != nil {
		return failed(s.alice, patch+model, output, err)
	}
	s.output(output)
	if err := s.isRejected(ctx, s.admin, "kubectl virtward audit --all-namespaces --hypervisor mshv",
		"VirtualMachine demo/analytics", "mshv-cpu-model"); err != nil {
		return err
	}
	s.checked("the audit reports the VM before the hypervisor changes.")
	return nil
}
