package main

// severities shows that an admin can change the severity of a rule, which needs a permission for some rules.
func severities() []step {
	const (
		labFile   = "examples/policy/lab.yaml"
		disksFile = "examples/policy/host-disks.yaml"
		apply     = "kubectl apply -f " + legacyFile
	)
	return []step{
		{
			prose: `RuleSettings set the severity of a rule. There is a lab, which collects VMs of amd64 to port them later. Bob
				has only the permission to write RuleSettings.`,
			as: admin, runs: []string{
				"kubectl create namespace lab",
				"kubectl label namespace lab tier=lab",
				"kubectl create rolebinding alice --namespace lab --clusterrole kubevirt.io:edit --user alice",
				"kubectl create clusterrole rule-settings-editor --resource rulesettings.policy.virtward.io --verb get,list,create,patch,delete",
				"kubectl create clusterrolebinding bob --clusterrole rule-settings-editor --user bob",
			},
		},
		{as: bob, await: "kubectl auth can-i create rulesettings.policy.virtward.io", until: "yes", reads: labFile, runs: []string{"kubectl apply -f " + labFile}},
		{
			prose: "The setting is active a moment later, without a restart. Alice applies the same file in the lab:",
			as:    alice, await: apply + " --namespace lab --dry-run=server", until: "created",
			tour: "bios|created", runs: []string{apply + " --namespace lab"},
			says: []string{"Warning: " + legacyCauses[0], "Warning: " + legacyCauses[1], "legacy created"},
		},
		{prose: "In the other namespace, it is still rejected:", as: alice, rejects: apply, says: legacyCauses},
		{
			prose: `Some rules protect the cluster from its users, for example the files of its nodes. To make one of these rules
				more lenient, you need the verb weaken, which Bob does not have. A guard verifies it, as those in later
				chapters do.`,
			as: bob, reads: disksFile, rejects: "kubectl apply -f " + disksFile,
			says: []string{"rule-settings-weaken: spec.rules: this makes a security-relevant rule more lenient: you need the verb weaken on rulesettings.policy.virtward.io: volume-host-disk-gate"},
		},
	}
}
