package main

// admission has what the API server and the webhooks count.
func admission() dashboard {
	const (
		denied   = `apiserver_admission_webhook_rejection_count{name=~".*[.]validate[.]virtward[.]io",error_type="calling_webhook_error"}`
		bypassed = `apiserver_admission_webhook_fail_open_count{name=~"(.*[.])?(mutate|validate)[.]virtward[.]io"}`
		requests = `virtward_admission_requests_total{kind=~"$kind"}`
		buckets  = `virtward_admission_duration_seconds_bucket{kind=~"$kind"}`
	)
	return dashboard{
		name: "admission", title: "Admission",
		description: "The webhooks of Virtward: whether they are reached, what they answer, how long it takes, and what they need for it.",
		variables:   []variable{{"kind", "Kind", "virtward_admission_requests_total"}},
		rows: []row{
			{"Availability", []panel{
				stat("Denied without an answer", "Requests that the API server denied in the selected time because Virtward did not answer. Prometheus must scrape the API server.", unitCount, "sum(increase("+denied+"[$__range]))").over(1).orZero().alerting("VirtwardNotReached"),
				stat("Admitted without Virtward", "Requests that the API server admitted in the selected time because a webhook that fails open did not answer. Prometheus must scrape the API server.", unitCount, "sum(increase("+bypassed+"[$__range]))").over(1).orZero().alerting("VirtwardBypassed"),
				stat("Answered without a result", "Requests that a replica could not process in the selected time.", unitCount, `sum(increase(virtward_admission_requests_total{verdict=~"failed|skipped|malformed",kind=~"$kind"}[$__range]))`).over(1).orZero().alerting("VirtwardRequestsFailed"),
				stat("Certificate ends in", "Time until the first serving certificate of a replica ends. It is negative if a replica has none.", unitSeconds, "min(virtward_certificate_expiry_timestamp_seconds) - time()").below(14 * 86400).alerting("VirtwardCertificateExpires"),
				series("Calls that failed", "Calls of webhooks that were not answered, as the API server counts them.", unitRequests,
					query{"sum by (name) (rate(" + denied + "[$__rate_interval]))", "denied: {{name}}"},
					query{"sum by (name) (rate(" + bypassed + "[$__rate_interval]))", "admitted: {{name}}"}).alerting("VirtwardNotReached", "VirtwardBypassed"),
				series("Age of the KubeVirt configuration", "Time since the configuration that a replica uses last changed. A large age is normal. Replicas that differ have read different configurations.", unitSeconds,
					query{"max(virtward_facts_age_seconds)", "oldest"}, query{"min(virtward_facts_age_seconds)", "newest"}),
			}},
			{"Requests", []panel{
				series("Requests by verdict", "Requests answered by all replicas.", unitRequests, query{"sum by (webhook, verdict) (rate(" + requests + "[$__rate_interval]))", "{{webhook}}: {{verdict}}"}).sum(),
				series("Requests by kind", "Requests answered by all replicas. One that both webhooks receive counts twice.", unitRequests, query{"sum by (kind, operation) (rate(" + requests + "[$__rate_interval]))", "{{operation}} {{kind}}"}).sum(),
				series("Requests without a result", "The webhook validate denies these requests, and the webhook mutate admits most of them without completion. The log has the reasons.", unitRequests,
					query{`sum by (webhook, verdict) (rate(virtward_admission_requests_total{verdict=~"failed|busy|skipped|malformed",kind=~"$kind"}[$__rate_interval]))`, "{{webhook}}: {{verdict}}"}).alerting("VirtwardRequestsFailed"),
				series("Denied share", "Part of the validated requests that rules and policies deny.", unitShare,
					query{`sum(rate(virtward_admission_requests_total{webhook="validate",verdict="denied",kind=~"$kind"}[$__rate_interval])) / sum(rate(virtward_admission_requests_total{webhook="validate",verdict=~"allowed|denied",kind=~"$kind"}[$__rate_interval]))`, "denied"}),
				series("Duration", "Time from the request to the answer.", unitSeconds, quantiles(buckets, "webhook", "{{webhook}}")...).over(0.5).alerting("VirtwardSlow"),
				series("Duration by kind", "99 of 100 requests are answered within this time.", unitSeconds,
					query{"histogram_quantile(0.99, sum by (le, kind, operation) (rate(" + buckets + "[$__rate_interval])))", "{{operation}} {{kind}}"}).over(0.5).alerting("VirtwardSlow"),
			}},
			{"Findings of rules", []panel{
				series("Denials", "The built-in rules that deny most. Dry runs and each attempt of virt-controller count.", unitRate,
					query{`topk(10, sum by (rule) (rate(virtward_findings_total{rule!~"policy/.*",severity="Deny",kind=~"$kind"}[$__rate_interval])))`, "{{rule}}"}),
				series("Warnings", "The built-in rules that warn most. Errors that an object had before its update count as warnings.", unitRate,
					query{`topk(10, sum by (rule) (rate(virtward_findings_total{rule!~"policy/.*",severity="Warn",kind=~"$kind"}[$__rate_interval])))`, "{{rule}}"}),
			}},
			{"Memory and reads", []panel{
				series("Memory of evaluations", "Memory reserved for evaluations in progress, of the replica with most. A replica reserves at most 64 MiB.", unitBytes,
					query{"max(virtward_policy_evaluations_memory_bytes)", "reserved"}).alerting("VirtwardPolicyMemoryExhausted"),
				series("Requests without memory", "Requests that wait for memory to evaluate policies, and requests that were answered with 429 in an interval.", unitCount,
					query{"sum(virtward_policy_evaluations_waiting)", "waiting"}, query{"sum(increase(virtward_policy_evaluations_rejected_total[$__rate_interval]))", "answered with 429"}).alerting("VirtwardPolicyMemoryExhausted"),
				series("Reads of referenced objects", "Objects that virtual machines refer to.", unitRate,
					query{"sum(rate(virtward_reference_cache_hits_total[$__rate_interval]))", "from the cache"},
					query{"sum(rate(virtward_reference_cache_misses_total[$__rate_interval]))", "from the API server"},
					query{"sum(rate(virtward_reference_cache_evictions_total[$__rate_interval]))", "evicted"}),
				series("Reads that failed", "Objects that are too large, and reads that got no memory before the deadline of their request.", unitRate,
					query{"sum(rate(virtward_reference_too_large_total[$__rate_interval]))", "too large"},
					query{"sum(rate(virtward_reference_reads_rejected_total[$__rate_interval]))", "without memory"}),
				series("Memory of the cache", "Estimated memory of the cached objects, of the replica with most.", unitBytes, query{"max(virtward_reference_cache_bytes)", "cached"}),
			}},
			{"Connections", []panel{
				series("Open connections", "Connections of all processes. Proven ones have called a valid path.", unitCount, query{"sum by (server, state) (virtward_connections)", "{{server}}: {{state}}"}).alerting("VirtwardPortFull"),
				series("Closed connections", "Connections that were closed to protect a server.", unitRate, query{"sum by (server, reason) (rate(virtward_connections_rejected_total[$__rate_interval]))", "{{server}}: {{reason}}"}).alerting("VirtwardPortAttacked", "VirtwardPortFull"),
				series("Requests for a wrong path", "Requests for an unknown path, or with a wrong token.", unitRequests, query{"sum by (server) (rate(virtward_requests_wrong_path_total[$__rate_interval]))", "{{server}}"}).alerting("VirtwardPortAttacked"),
			}},
		},
	}
}

// policies has what policies find in requests and in the audit.
func policies() dashboard {
	findings := func(severity string) string {
		return `topk(10, sum by (rule) (rate(virtward_findings_total{rule=~"policy/$policy",severity="` + severity + `"}[$__rate_interval])))`
	}
	return dashboard{
		name: "policies", title: "Policies and audit",
		description: "VirtualMachinePolicies: what they find in requests, whether they can be evaluated, their exceptions, and the objects that violate them in the last audit.",
		variables:   []variable{{"policy", "Policy", "virtward_policy_violations"}},
		rows: []row{
			{"State", []panel{
				stat("Suspended", "Policies that are no longer evaluated, because they exceeded their limits in most evaluations.", unitCount, "sum(max by (policy) (virtward_policy_suspended))").over(1).orZero().alerting("VirtwardPolicySuspended"),
				stat("Exceptions that end", "Exceptions of policies that end within seven days.", unitCount, `max(virtward_policy_exceptions{state="Expiring"})`).over(1).alerting("VirtwardPolicyExceptionExpires"),
				stat("Last audit", "Time since the end of the last complete audit. It should be less than two intervals; one is an hour by default.", unitSeconds, "time() - max(virtward_audit_last_success_timestamp_seconds)").over(7200),
				stat("Audited objects", "Virtual machines, instances and pools that the last audit evaluated.", unitCount, "max(virtward_audit_objects)"),
			}},
			{"Requests", []panel{
				series("Denials", "The policies that deny most.", unitRate, query{findings("Deny"), "{{rule}}"}),
				series("Warnings", "The policies that warn most.", unitRate, query{findings("Warn"), "{{rule}}"}),
				series("Findings that appear only in reports", "The policies with enforcement Audit that find most.", unitRate, query{findings("Audit"), "{{rule}}"}),
				series("Findings without an effect", "Findings that an exception of the policy exempts.", unitRate, query{`sum by (policy) (rate(virtward_policy_exempted_total{policy=~"$policy"}[$__rate_interval]))`, "{{policy}}"}),
				series("Evaluation errors", "Evaluations that failed. If the policy denies and has failurePolicy Fail, each of them denies a request.", unitRate,
					query{`sum by (policy, reason) (rate(virtward_policy_errors_total{policy=~"$policy"}[$__rate_interval]))`, "{{policy}}: {{reason}}"}).alerting("VirtwardPolicyFails", "VirtwardPolicyBudgetExceeded"),
				series("Skipped policies", "Policies that do not deny are skipped if the budget or the time that they share is exhausted.", unitRate,
					query{`sum by (policy) (rate(virtward_policy_skipped_total{policy=~"$policy"}[$__rate_interval]))`, "{{policy}}"}).alerting("VirtwardPoliciesSkipped"),
				series("Duration of evaluations", "Duration of all policies together for one object.", unitSeconds, quantiles("virtward_policy_evaluation_seconds_bucket", "", "")...).alerting("VirtwardSlow"),
				series("Checks of permissions", "Checks of policies that use authorizer: SubjectAccessReviews by their result, and answers from the cache.", unitRate,
					query{"sum by (result) (rate(virtward_subject_access_review_duration_seconds_count[$__rate_interval]))", "{{result}}"},
					query{"sum(rate(virtward_subject_access_review_cache_hits_total[$__rate_interval]))", "from the cache"}),
				series("Duration of SubjectAccessReviews", "With their retries.", unitSeconds, quantiles("virtward_subject_access_review_duration_seconds_bucket", "", "")...),
			}},
			{"Controller", []panel{
				table("Suspended policies", "A change of its spec resumes a policy.", "max by (policy) (virtward_policy_suspended) > 0", "").alerting("VirtwardPolicySuspended"),
				series("Exceptions", "Exceptions of policies by their state.", unitCount, query{"max by (state) (virtward_policy_exceptions)", "{{state}}"}).alerting("VirtwardPolicyExceptionExpires", "VirtwardPolicyExceptionNotPermitted"),
				series("Reads of evaluation errors", "Reads of the counts of evaluation errors from the webhooks, by their result.", unitRate, query{"sum by (result) (rate(virtward_policy_counts_reads_total[$__rate_interval]))", "{{result}}"}).alerting("VirtwardPolicyCountsUnread"),
			}},
			{"Audit", []panel{
				series("Objects that violate a policy", "Of the last audit, by policy.", unitCount, query{`topk(20, max by (policy, enforcement) (virtward_policy_violations{policy=~"$policy"}))`, "{{policy}} ({{enforcement}})"}),
				table("Violations", "Of the last audit, by policy, severity and enforcement.", `sort_desc(max by (policy, severity, enforcement) (virtward_policy_violations{policy=~"$policy"}) > 0)`, "Objects"),
				series("Objects that a policy cannot be evaluated on", "Of the last audit, by policy.", unitCount, query{`topk(20, max by (policy) (virtward_policy_errors{policy=~"$policy"}))`, "{{policy}}"}).alerting("VirtwardPolicyFails"),
				series("Objects with findings of a rule", "Of the last audit, by built-in rule.", unitCount, query{"topk(20, max by (rule) (virtward_rule_violations))", "{{rule}}"}),
				series("Instances by migration targets", "Running instances by how many other nodes could receive them by live migration, in the last audit; only with checks.nodes. A drain cannot move those with none.", unitCount, query{"max by (targets) (virtward_instances_by_migration_targets)", "{{targets}}"}).alerting("VirtwardInstancesWithoutMigrationTarget"),
				series("Duration of the audit", "Duration of the last complete audit.", unitSeconds, query{"max(virtward_audit_duration_seconds)", "last audit"}),
				series("Problems of the audit", "Audits that failed in an interval, and namespaces without a Report because another component owns the Report of that name.", unitCount,
					query{"sum(increase(virtward_audit_failures_total[$__rate_interval]))", "failed audits"}, query{"max(virtward_audit_foreign_reports)", "namespaces without a Report"}),
			}},
		},
	}
}

// rollouts has changes of running virtual machines, and VM templates.
func rollouts() dashboard {
	return dashboard{
		name: "rollouts", title: "Rollouts and templates",
		description: "Changes of running virtual machines and the VirtualMachineRollouts that apply them, and captures of VM templates.",
		rows: []row{
			{"Pending changes", []panel{
				stat("Compared", "Running virtual machines that are compared with their instances.", unitCount, "sum(virtward_vm_compared)"),
				stat("Restart required", "Running virtual machines with a change that needs a restart.", unitCount, "sum(virtward_vm_restart_required)"),
				stat("Waiting for a migration that never starts", "Running virtual machines with a change that waits for a live migration which KubeVirt does not start.", unitCount, "sum(virtward_vm_migration_never_comes)").over(1).alerting("VirtwardMigrationNeverComes"),
				stat("Failed changes", "Virtual machines whose change by a rollout failed in the selected time.", unitCount, `sum(increase(virtward_rollout_machines_total{result="failed"}[$__range]))`).over(1).orZero(),
				series("Pending changes", "Of all running virtual machines, by when they take effect.", unitCount, query{"sum by (kind) (virtward_vm_pending_changes)", "{{kind}}"}).sum(),
				series("Migrations that never start", "Virtual machines by why KubeVirt does not migrate them.", unitCount, query{"sum by (reason) (virtward_vm_migration_never_comes)", "{{reason}}"}).alerting("VirtwardMigrationNeverComes"),
			}},
			{"Rollouts", []panel{
				series("Rollouts", "VirtualMachineRollouts by their phase.", unitCount, query{"sum by (phase) (virtward_rollouts)", "{{phase}}"}).sum(),
				series("Changed virtual machines", "Virtual machines whose change by a rollout has ended in an interval, by the result.", unitCount, query{"sum by (result) (increase(virtward_rollout_machines_total[$__rate_interval]))", "{{result}}"}),
			}},
			{"Templates", []panel{
				stat("APIs that do not answer", "Versions of the API of templates that the API server cannot reach. Meanwhile no namespace is deleted. Prometheus must scrape the API server.", unitCount, `sum(max by (name) (aggregator_unavailable_apiservice{name=~"v1(alpha|beta)1[.]subresources[.]template[.]kubevirt[.]io"}))`).over(1).orZero().alerting("VirtwardTemplateAPIUnavailable"),
				series("Captures", "Captures of virtual machines that ended in an interval, by the reason of their condition Completed.", unitCount, query{"sum by (result) (increase(virtward_template_captures_total[$__rate_interval]))", "{{result}}"}),
				series("Duration of the steps of captures", "Duration of the snapshot and of the clone.", unitSeconds, quantiles("virtward_template_capture_step_seconds_bucket", "step", "{{step}}")...),
				series("Imports of appliances", "Imports of virtual appliances that ended in an interval, by the reason of their condition Completed.", unitCount, query{"sum by (result) (increase(virtward_template_imports_total[$__rate_interval]))", "{{result}}"}).alerting("VirtwardTemplateImportsFailing", "VirtwardTemplateImportVerificationFails"),
				series("Imports in progress", "Imports of virtual appliances that have not ended, by the reason of their condition Progressing.", unitCount, query{"sum by (reason) (virtward_template_imports_active)", "{{reason}}"}),
				series("Imports without progress", "Time since the last progress of the import that has made none for the longest time, by the reason of its condition Progressing.", unitSeconds, query{"max by (reason) (virtward_template_import_stalled_seconds)", "{{reason}}"}).over(3600).alerting("VirtwardTemplateImportStuck"),
				series("Imported bytes", "Bytes of the disks of completed imports.", unitBytes, query{"sum(increase(virtward_template_import_bytes_total[$__rate_interval]))", "bytes"}),
				series("Duration of imports of appliances", "Of completed imports.", unitSeconds, quantiles("virtward_template_import_seconds_bucket", "", "")...),
				series("Exports of templates", "Exports of VM templates that became ready or failed in an interval, by the reason of their condition Ready.", unitCount, query{"sum by (result) (increase(virtward_template_exports_total[$__rate_interval]))", "{{result}}"}).alerting("VirtwardTemplateExportsFailing"),
				series("Exported bytes", "Bytes of the files of exports that became ready.", unitBytes, query{"sum(increase(virtward_template_export_bytes_total[$__rate_interval]))", "bytes"}),
				series("Duration of exports of templates", "From the creation of an export to its readiness.", unitSeconds, quantiles("virtward_template_export_seconds_bucket", "", "")...),
				stat("Managed by virt-operator", "Definitions and APIServices of VM templates that virt-operator manages. While there are any, Virtward writes no templates.", unitCount, "max(virtward_templates_foreign_objects)").over(1),
			}},
		},
	}
}

// images has golden images and VirtualImages.
func images() dashboard {
	return dashboard{
		name: "images", title: "Images",
		description: "Golden images by catalog, and VirtualImages by class: whether they are imported, how long it takes, and why it fails.",
		variables:   []variable{{"catalog", "Catalog", "virtward_golden_image_catalog_ready"}, {"class", "Class", "virtward_virtual_image_imports_total"}},
		rows: []row{
			{"Golden images", []panel{
				stat("Unready catalogs", "Catalogs with an image that is not imported.", unitCount, `sum(1 - max by (catalog) (virtward_golden_image_catalog_ready{catalog=~"$catalog"}))`).over(1).alerting("VirtwardGoldenImageCatalogNotReady"),
				stat("Imports that fail", "Images and architectures whose import fails.", unitCount, `sum(virtward_golden_image_import_failing{catalog=~"$catalog"})`).over(1).orZero().alerting("VirtwardGoldenImageImportFailing"),
				stat("Imported", "Part of the images and architectures that is imported.", unitShare, `avg(virtward_golden_image_imported{catalog=~"$catalog"})`),
				stat("Golden images without metrics", "Golden images above the number that has metrics.", unitCount, "max(virtward_golden_images_uncounted)").over(1),
				table("Catalogs that are not ready", "The condition Ready of the catalog says what is missing.", `max by (catalog, reason) (virtward_golden_image_catalog_ready{catalog=~"$catalog"} == 0)`, "").alerting("VirtwardGoldenImageCatalogNotReady"),
				table("Images whose import fails", "ImagePullFailed: the image or its architecture is missing in the registry. Unschedulable: no node can run the import.", `max by (catalog, image, architecture, reason) (virtward_golden_image_import_failing{catalog=~"$catalog"} > 0)`, "").alerting("VirtwardGoldenImageImportFailing"),
				series("Imported images", "Part of the images and architectures of a catalog that is imported.", unitShare, query{`avg by (catalog) (virtward_golden_image_imported{catalog=~"$catalog"})`, "{{catalog}}"}),
				series("Age of imports", "Time since the last import of the image of a catalog whose import is oldest.", unitSeconds, query{`max by (catalog) (virtward_golden_image_import_age_seconds{catalog=~"$catalog"})`, "{{catalog}}"}),
				series("Nodes", "Nodes on which virtual machines run, by their architecture.", unitCount, query{`sum by (catalog, architecture) (virtward_golden_image_nodes{catalog=~"$catalog"})`, "{{catalog}}: {{architecture}}"}),
				table("Manifests that could not be verified", "ArchitecturesMissing: the entry lists architectures that its image does not have.", `max by (catalog, image, reason) (virtward_golden_image_manifest_verified{catalog=~"$catalog"} == 0)`, "").alerting("VirtwardGoldenImageManifestDiffers"),
				series("Architectures", "Images that no node can use, images that do not list their architectures, and catalogs that import each image once.", unitCount,
					query{`sum(1 - kubevirt_hco_dataimportcrontemplate_with_supported_architectures{catalog=~"$catalog",catalog!=""})`, "images without a node"},
					query{`sum(1 - kubevirt_hco_dataimportcrontemplate_with_architecture_annotation{catalog=~"$catalog",catalog!=""})`, "images without a list"},
					query{`sum(1 - kubevirt_hco_multi_arch_boot_images_enabled{catalog=~"$catalog",catalog!=""})`, "catalogs without multiArch"}).alerting("HCOGoldenImageWithNoSupportedArchitecture", "HCOGoldenImageWithNoArchitectureAnnotation", "HCOMultiArchGoldenImagesDisabled"),
			}},
			{"VirtualImages", []panel{
				stat("Images", "VirtualImages of all states.", unitCount, `sum(virtward_virtual_images{class=~"$class"})`),
				stat("Unreachable or unavailable", "Images whose backend does not answer, or that were removed or deactivated there.", unitCount, `sum(virtward_virtual_images{class=~"$class",state=~"Unreachable|Unavailable"})`).over(1).alerting("VirtwardVirtualImageBackendUnreachable", "VirtwardVirtualImageUnavailable"),
				stat("Blocked deletions", "Images that their backend does not delete.", unitCount, `sum(virtward_virtual_images{class=~"$class",state="DeletionBlocked"})`).over(1).alerting("VirtwardVirtualImageDeletionBlocked"),
				stat("VirtualImages without metrics", "VirtualImages above the number that has metrics.", unitCount, "max(virtward_virtual_images_uncounted)").over(1),
				series("Images by state", "VirtualImages by their state.", unitCount, query{`sum by (state) (virtward_virtual_images{class=~"$class"})`, "{{state}}"}).sum().alerting("VirtwardVirtualImageBackendUnreachable", "VirtwardVirtualImageUnavailable", "VirtwardVirtualImageDeletionBlocked"),
				series("Bytes", "Bytes of the stored images.", unitBytes, query{`sum by (class) (virtward_virtual_image_bytes{class=~"$class"})`, "{{class}}"}).sum(),
				series("Imports", "Imports that ended in an interval.", unitCount, query{`sum by (class, result) (increase(virtward_virtual_image_imports_total{class=~"$class"}[$__rate_interval]))`, "{{class}}: {{result}}"}).alerting("VirtwardVirtualImagesFailing"),
				series("Failures of imports", "Also of imports that are tried again.", unitCount, query{`sum by (class, reason) (increase(virtward_virtual_image_import_failures_total{class=~"$class"}[$__rate_interval]))`, "{{class}}: {{reason}}"}).alerting("VirtwardVirtualImagesFailing"),
				series("Duration of imports", "Time from the creation of an image to the end of its import.", unitSeconds, quantiles(`virtward_virtual_image_import_seconds_bucket{class=~"$class"}`, "class", "{{class}}")...),
				series("Imports at the same time", "Images of all classes that are imported, others that wait, and how many are imported at most.", unitCount,
					query{`sum(virtward_virtual_images{state="Importing"})`, "importing"},
					query{`sum(virtward_virtual_images{state="Pending"})`, "waiting"},
					query{"max(virtward_virtual_image_imports_limit)", "limit"}).alerting("VirtwardVirtualImageImportsSaturated"),
				series("Users in OpenStack", "Images in OpenStack by which of their users there are counted.", unitCount, query{`sum by (class, counted) (virtward_virtual_image_cloud_users{class=~"$class"})`, "{{class}}: {{counted}}"}),
			}},
			{"Servers of imports of VM templates, if Prometheus scrapes their pods", []panel{
				stat("Failed answers", "Answers of all servers that failed in the selected time. /status of the server has the reason of each disk.", unitCount, `sum(increase(virtward_import_server_failures_total[$__range]))`).over(1).orZero(),
				stat("Answers", "Disks that are being sent.", unitCount, `sum(virtward_import_server_answers)`).orZero(),
				series("Bytes of disks", "Read from sources, and sent to importers, each second.", unitBytes,
					query{"sum(rate(virtward_import_server_received_bytes_total[$__rate_interval]))", "read"},
					query{"sum(rate(virtward_import_server_sent_bytes_total[$__rate_interval]))", "sent"}),
				series("Broken connections", "Connections to sources that broke, and after which the transfer continued.", unitRate, query{"sum(rate(virtward_import_server_resumptions_total[$__rate_interval]))", "continued"}),
			}},
			{"Servers of exports of VM templates, if Prometheus scrapes their pods", []panel{
				stat("Errors of exports", "Errors of disks of all servers in the selected time. /status of the server has the reason.", unitCount, `sum(increase(virtward_export_server_failures_total[$__range]))`).over(1).orZero(),
				stat("Downloads", "OVAs that are being sent.", unitCount, `sum(virtward_export_server_answers)`).orZero(),
				stat("Measured", "Bytes of disks that the servers have read before the first download.", unitBytes, `sum(virtward_export_server_measured_bytes)`).orZero(),
				series("Bytes of OVAs", "Sent to clients, each second.", unitBytes, query{"sum(rate(virtward_export_server_sent_bytes_total[$__rate_interval]))", "sent"}),
			}},
		},
	}
}

// nodes has what the processes on each node do.
func nodes() dashboard {
	return dashboard{
		name: "nodes", title: "Nodes",
		description: "The processes of Virtward that run on each node.",
		rows: []row{
			{"Labels", []panel{
				stat("Comparisons that failed", "Comparisons of the labels of all nodes that failed in the selected time. The log of the pod on the node has the reason.", unitCount, `sum(increase(virtward_node_labeller_passes_total{result="failed"}[$__range]))`).over(1).orZero(),
				series("Comparisons of labels", "By their result. A node that has changed counts once.", unitRate, query{"sum by (result) (rate(virtward_node_labeller_passes_total[$__rate_interval]))", "{{result}}"}).sum(),
			}},
			{"Tuning", []panel{
				stat("Hooks that failed", "Calls of virt-handler that failed in the selected time. virt-handler repeats them.", unitCount, `sum(increase(virtward_node_tuner_hooks_total{result="failed"}[$__range]))`).over(1).orZero(),
				series("Hooks", "Calls of virt-handler, by their result.", unitRate, query{"sum by (result) (rate(virtward_node_tuner_hooks_total[$__rate_interval]))", "{{result}}"}).sum(),
			}},
		},
	}
}
