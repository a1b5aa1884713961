package main

import (
	"context"
	"regexp"
)

// The files of the policy, of the VM that it is about, and of what that one names.
const (
	policySuite   = "examples/policy/memory-limit"
	policyFile    = policySuite + "/policy.yaml"
	largeFile     = "examples/instancetype-m1-large.yaml"
	analyticsFile = "examples/vm-analytics.yaml"
)

// tooLarge is what the policy says of the VM, which does not say a word about memory.
const tooLarge = `Invalid value: "16Gi": the VM would run with 16Gi of memory; the limit is 8Gi ` +
	"(VirtualMachineClusterInstancetype m1.large sets domain.memory.guest by its spec.memory.guest)"

// aboutMemory are the lines of a report that say what the policy found.
var aboutMemory = regexp.MustCompile(`(message|policy|field): .*`)

// policies: the admin's own rules, on the VM as it will run; tested, tried out, enforced, and reported.
func policies(ctx context.Context, s *show) error {
	s.prose(`Alice has a VM that says nothing about its memory: its instancetype does, and gives 16Gi.`)
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

// testsPolicy: a policy and its suite, in the terminal.
func (s *show) testsPolicy(ctx context.Context) error {
	s.prose(`From now on 8Gi is to be the most, whoever decides about it. The admin writes a policy about the VM as it
		will run, and a suite that says what must come out. That takes no cluster.`)
	if err := s.reads(s.admin, policyFile); err != nil {
		return err
	}
	output, err := s.does(ctx, s.admin, "kubectl virtward policy test "+policySuite+" -v")
	if err != nil {
		return err
	}
	return says(output, "16Gi from the instancetype", "8 passed")
}

// asksWhatIf: what the policy would find, before it is there.
func (s *show) asksWhatIf(ctx context.Context) error {
	s.prose("What would it do here? Nothing is changed yet, and already known:")
	if err := s.isRejected(ctx, s.admin, "kubectl virtward audit --all-namespaces --with "+policyFile,
		"VirtualMachine demo/analytics", "policy/memory-limit", "spec.instancetype.name", tooLarge); err != nil {
		return err
	}
	s.checked("one VM, and the instancetype that is behind it.")
	return nil
}

// enforces: what is new is rejected, and what was there can be worked with.
func (s *show) enforces(ctx context.Context) error {
	if err := s.doesAll(ctx, s.admin, "kubectl apply -f "+policyFile); err != nil {
		return err
	}
	s.prose("A moment later it is active. What was there before the policy can still be changed, with a warning:")
	const update = "kubectl label vm/analytics team=blue"
	if err := s.awaitOutput(ctx, s.alice, update+" --dry-run=server", "Warning:"); err != nil {
		return err
	}
	output, err := s.does(ctx, s.alice, update)
	if err != nil {
		return err
	}
	if err := says(output, "Warning: spec.instancetype.name: "+tooLarge, "(it was so before this update; a new object would be rejected) [virtward/policy/memory-limit]", "analytics labeled"); err != nil {
		return err
	}
	s.prose("A new one is rejected, at the field where Alice chose the memory:")
	return s.isRejected(ctx, s.alice, "kubectl create -f "+analyticsFile+" --namespace lab",
		`"analytics" is invalid`, "spec.instancetype.name: "+tooLarge, "[virtward/policy/memory-limit] Choose a smaller instancetype, or ask the platform team for an exception.")
}

// reports: the audit lists what was there before.
func (s *show) reports(ctx context.Context) error {
	s.prose(`The controller asks the policies about everything that exists, and keeps one report for each namespace, in
		the form of OpenReports.`)
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
	if err := says(found, "16Gi"); err != nil {
		return err
	}
	if err := s.awaitOutput(ctx, s.admin, "kubectl get vmpol memory-limit --no-headers", "1"); err != nil {
		return err
	}
	return s.doesAll(ctx, s.admin, "kubectl get vmpol")
}

// asksAboutAnother: what would become of everything on another hypervisor.
func (s *show) asksAboutAnother(ctx context.Context) error {
	s.prose(`The same command answers what would become of everything on another hypervisor. Alice wants the CPU of the
		host, which Microsoft's hypervisor does not pass on.`)
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
	s.checked("the VM that could not move is known before anything moves.")
	return nil
}
