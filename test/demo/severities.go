package main

import "context"

// severities: a rejection becomes a warning where the admin says so, and not everybody may say so of every rule.
func severities(ctx context.Context, s *show) error {
	s.prose(`What a finding of a rule means is the admin's to say. There is a lab that collects VMs of amd64 before it
		ports them, and Bob, who looks after the rules and may do nothing else.`)
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

// downgraded: the same VM is warned of in the lab, and rejected where Alice was before.
func (s *show) downgraded(ctx context.Context) error {
	s.prose("It is active a moment later, and nothing restarts. Alice applies the same file in the lab:")
	const apply = "kubectl apply -f " + legacyFile
	if err := s.awaitOutput(ctx, s.alice, apply+" --namespace lab --dry-run=server", "created"); err != nil {
		return err
	}
	output, err := s.does(ctx, s.alice, apply+" --namespace lab")
	if err != nil {
		return err
	}
	if err := says(output, "Warning: "+legacyCauses[0], "Warning: "+legacyCauses[1], "legacy created"); err != nil {
		return err
	}
	s.prose("And where she was before:")
	return s.isRejected(ctx, s.alice, apply, legacyCauses...)
}

// weakens: a security-relevant rule has a guard.
func (s *show) weakens(ctx context.Context) error {
	s.prose(`Some rules keep users from what the cluster does not grant them, such as the files of its nodes. To make
		one of these more lenient takes a right of its own, the verb weaken, which Bob does not have. A guard, of
		the same kind as those below, asks for it.`)
	const file = "examples/policy/host-disks.yaml"
	if err := s.reads(s.bob, file); err != nil {
		return err
	}
	return s.isRejected(ctx, s.bob, "kubectl apply -f "+file,
		"rule-settings-weaken: spec.rules: this makes a security-relevant rule more lenient, which takes the verb weaken on rulesettings.policy.virtward.io: volume-host-disk-gate")
}
