package main

import "context"

// severities shows that an admin can change the severity of a rule, which needs a permission for some rules.
func severities(ctx context.Context, s *show) error {
	s.prose(`RuleSettings set the severity of a rule. There is a lab, which collects VMs of amd64 to port them later. Bob
		has only the permission to write RuleSettings.`)
	if err := s.doesAll(ctx, s.admin,
		"kubectl create namespace lab",
		"kubectl label namespace lab tier=lab",
		"kubectl create rolebinding alice --namespace lab --clusterrole kubevirt.io:edit --user alice",
		"kubectl create clusterrole rule-settings-editor --resource rulesettings.policy.virtward.io --verb get,list,create,patch,delete",
		"kubectl create clusterrolebinding bob --clusterrole rule-settings-editor --user bob",
	); err != nil {
		return err
	}
	const file = "examples/policy/lab.yaml"
	if err := s.reads(s.bob, file); err != nil {
		return err
	}
	if err := s.doesAll(ctx, s.bob, "kubectl apply -f "+file); err != nil {
		return err
	}
	if err := s.downgraded(ctx); err != nil {
		return err
	}
	return s.weakens(ctx)
}

// downgraded shows that the same VM causes a warning in the lab, and is rejected in the other namespace.
func (s *show) downgraded(ctx context.Context) error {
	s.prose("The setting is active a moment later, without a restart. Alice applies the same file in the lab:")
	const apply = "kubectl apply -f " + legacyFile
	if err := s.awaitOutput(ctx, s.alice, apply+" --namespace lab --dry-run=server", "created"); err != nil {
		return err
	}
	output, err := s.key("bios|created").does(ctx, s.alice, apply+" --namespace lab")
	if err != nil {
		return err
	}
	if err := says(output, "Warning: "+legacyCauses[0], "Warning: "+legacyCauses[1], "legacy created"); err != nil {
		return err
	}
	s.prose("In the other namespace, it is still rejected:")
	return s.isRejected(ctx, s.alice, apply, legacyCauses...)
}

// weakens shows the guard of security-relevant rules.
func (s *show) weakens(ctx context.Context) error {
	s.prose(`Some rules protect the cluster from its users, for example the files of its nodes. To make one of these rules
		more lenient, you need the verb weaken, which Bob does not have. A guard verifies it, as those in later
		chapters do.`)
	const file = "examples/policy/host-disks.yaml"
	if err := s.reads(s.bob, file); err != nil {
		return err
	}
	return s.isRejected(ctx, s.bob, "kubectl apply -f "+file,
		"rule-settings-weaken: spec.rules: this makes a security-relevant rule more lenient: you need the verb weaken on rulesettings.policy.virtward.io: volume-host-disk-gate")
}
