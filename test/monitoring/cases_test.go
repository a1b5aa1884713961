package monitoring

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// cases are series of an alert, which fires three hours after their begin with these summaries, or not.
var cases = []struct {
	alert, name string
	series      []string
	want        []string
}{
	{"VirtwardNotReached", "calls fail", repeated(`apiserver_admission_webhook_rejection_count{name="%.validate.virtward.io",error_type="calling_webhook_error"} 0+1x180`, "virtualmachines", "deletions"), []string{"virtual machines are denied because Virtward does not answer"}},
	{"VirtwardNotReached", "calls failed an hour ago", repeated(`apiserver_admission_webhook_rejection_count{name="%.validate.virtward.io",error_type="calling_webhook_error"} 0+1x120 120x60`, "virtualmachines"), nil},
	{"VirtwardNotReached", "one call since the start of the API server", repeated(`apiserver_admission_webhook_rejection_count{name="%.validate.virtward.io",error_type="calling_webhook_error"} _x177 1x3`, "virtualmachines"), nil},
	{"VirtwardNotReached", "Virtward denies", repeated(`apiserver_admission_webhook_rejection_count{name="%.validate.virtward.io",error_type="no_error"} 0+1x180`, "virtualmachines"), nil},
	{"VirtwardNotReached", "another webhook", repeated(`apiserver_admission_webhook_rejection_count{name="%.example.com",error_type="calling_webhook_error"} 0+1x180`, "validate"), nil},

	{"VirtwardBypassed", "the mutating webhook", []string{`apiserver_admission_webhook_fail_open_count{name="mutate.virtward.io"} 0+1x180`}, []string{"requests for virtual machines were admitted without Virtward"}},
	{"VirtwardBypassed", "deletions", []string{`apiserver_admission_webhook_fail_open_count{name="deletions.validate.virtward.io"} 0+1x180`}, []string{"requests for virtual machines were admitted without Virtward"}},
	{"VirtwardBypassed", "none since", []string{`apiserver_admission_webhook_fail_open_count{name="mutate.virtward.io"} 7x180`}, nil},
	{"VirtwardBypassed", "another webhook", []string{`apiserver_admission_webhook_fail_open_count{name="mutate.example.com"} 0+1x180`}, nil},

	{"VirtwardRequestsFailed", "503", []string{`virtward_admission_requests_total{webhook="validate",verdict="failed",pod="a"} 0+1x180`, `virtward_admission_requests_total{webhook="mutate",verdict="patched",pod="a"} 0+1x180`}, []string{"Virtward could not process some requests of the webhook validate"}},
	{"VirtwardRequestsFailed", "denied", []string{`virtward_admission_requests_total{webhook="validate",verdict="denied"} 0+1x180`}, nil},

	{"VirtwardPolicyFails", "an expression fails", []string{`virtward_policy_errors_total{policy="memory",reason="failed",pod="a"} 0+1x180`, `virtward_policy_errors_total{policy="memory",reason="parameters",pod="b"} 0+1x180`}, []string{"the policy memory cannot be evaluated on some virtual machines"}},
	{"VirtwardPolicyFails", "the budget", []string{`virtward_policy_errors_total{policy="memory",reason="limit"} 0+1x180`}, nil},
	{"VirtwardPolicyFails", "it began a minute ago", []string{`virtward_policy_errors_total{policy="memory",reason="failed"} 0x179 1`}, nil},

	{"VirtwardPolicyBudgetExceeded", "the budget", []string{`virtward_policy_errors_total{policy="memory",reason="limit"} 0+1x180`}, []string{"the policy memory exceeds its budget on some virtual machines"}},
	{"VirtwardPolicyBudgetExceeded", "an expression fails", []string{`virtward_policy_errors_total{policy="memory",reason="failed"} 0+1x180`}, nil},

	{"VirtwardPoliciesSkipped", "skipped", []string{`virtward_policy_skipped_total{policy="memory"} 0+1x180`}, []string{"policies that do not deny are skipped"}},
	{"VirtwardPoliciesSkipped", "not since", []string{`virtward_policy_skipped_total{policy="memory"} 0+1x90 90x90`}, nil},

	{"VirtwardPolicyMemoryExhausted", "429", []string{`virtward_policy_evaluations_rejected_total 0+1x180`}, []string{"requests wait for memory to evaluate policies, or are answered with 429"}},
	{"VirtwardPolicyMemoryExhausted", "requests wait all the time", []string{`virtward_policy_evaluations_waiting{pod="a"} 3x180`, `virtward_policy_evaluations_waiting{pod="b"} 2x180`}, []string{"requests wait for memory to evaluate policies, or are answered with 429"}},
	{"VirtwardPolicyMemoryExhausted", "requests wait for a moment", []string{`virtward_policy_evaluations_rejected_total 5x180`, `virtward_policy_evaluations_waiting 0x178 3 0`}, nil},

	{"VirtwardPortAttacked", "no valid path", []string{`virtward_connections_rejected_total{server="webhook",reason="too-slow"} 0+60x180`}, []string{"a client other than the API server calls the ports of the webhooks"}},
	{"VirtwardPortAttacked", "no token", []string{`virtward_requests_wrong_path_total{server="deletions"} 0+60x180`}, []string{"a client other than the API server calls the ports of the webhooks"}},
	{"VirtwardPortAttacked", "few", []string{`virtward_connections_rejected_total{server="webhook",reason="too-slow"} 0+2x180`, `virtward_requests_wrong_path_total{server="webhook"} 0+2x180`}, nil},
	{"VirtwardPortAttacked", "the port of metrics", []string{`virtward_requests_wrong_path_total{server="metrics"} 0+60x180`}, nil},

	{"VirtwardPortFull", "full", []string{`virtward_connections_rejected_total{server="deletions",reason="full"} 0+1x180`}, []string{"all connections of the port deletions are in use"}},
	{"VirtwardPortFull", "unproven ones are closed", []string{`virtward_connections_rejected_total{server="webhook",reason="too-slow"} 0+1x180`}, nil},

	{"VirtwardSlow", "most take a second", []string{`virtward_admission_duration_seconds_bucket{webhook="validate",le="0.5"} 0+10x180`, `virtward_admission_duration_seconds_bucket{webhook="validate",le="1"} 0+90x180`, `virtward_admission_duration_seconds_bucket{webhook="validate",le="+Inf"} 0+90x180`}, []string{"the webhook validate of Virtward answers slowly"}},
	{"VirtwardSlow", "one of a thousand", []string{`virtward_admission_duration_seconds_bucket{webhook="validate",le="0.5"} 0+999x180`, `virtward_admission_duration_seconds_bucket{webhook="validate",le="1"} 0+1000x180`, `virtward_admission_duration_seconds_bucket{webhook="validate",le="+Inf"} 0+1000x180`}, nil},

	// The series begin in 1970: the day 14 begins 1,209,600 seconds after the time 0.
	{"VirtwardCertificateExpires", "in 13 days", []string{`virtward_certificate_expiry_timestamp_seconds{pod="a"} 9000000x180`, `virtward_certificate_expiry_timestamp_seconds{pod="b"} 1123200x180`}, []string{"the certificate of Virtward was not renewed"}},
	{"VirtwardCertificateExpires", "none", []string{`virtward_certificate_expiry_timestamp_seconds 0x180`}, []string{"the certificate of Virtward was not renewed"}},
	{"VirtwardCertificateExpires", "in 90 days", []string{`virtward_certificate_expiry_timestamp_seconds 7776000x180`}, nil},
	{"VirtwardCertificateExpires", "a replica starts", []string{`virtward_certificate_expiry_timestamp_seconds 0x150 7776000x30`}, nil},

	{"VirtwardPolicySuspended", "suspended", repeated(`virtward_policy_suspended{policy="memory",pod="%"} 1x180`, "a", "b"), []string{"the policy memory is suspended because it exceeded its limits in most evaluations"}},
	{"VirtwardPolicySuspended", "resumed", []string{`virtward_policy_suspended{policy="memory"} 1x170`}, nil},

	{"VirtwardPolicyCountsUnread", "reads fail", []string{`virtward_policy_counts_reads_total{result="failed"} 0+1x180`}, []string{"the controller cannot read from some webhooks how often policies fail"}},
	{"VirtwardPolicyCountsUnread", "an upgrade", []string{`virtward_policy_counts_reads_total{result="other-version"} 0+1x180`, `virtward_policy_counts_reads_total{result="failed"} 0x160 0+1x20`}, nil},

	{"VirtwardPolicyExceptionExpires", "two", repeated(`virtward_policy_exceptions{state="Expiring",pod="%"} 2x180`, "a", "b"), []string{"2 exceptions of policies end within seven days"}},
	{"VirtwardPolicyExceptionExpires", "none", []string{`virtward_policy_exceptions{state="Expiring"} 0x180`, `virtward_policy_exceptions{state="Active"} 2x180`}, nil},

	{"VirtwardPolicyExceptionNotPermitted", "one", []string{`virtward_policy_exceptions{state="NotPermitted"} 1x180`}, []string{"1 exceptions of policies are not active because the guard has not checked their authors"}},
	{"VirtwardPolicyExceptionNotPermitted", "none", []string{`virtward_policy_exceptions{state="NotPermitted"} 0x180`}, nil},

	{"VirtwardInstancesWithoutMigrationTarget", "two", []string{`virtward_instances_by_migration_targets{targets="none",pod="a"} 2x180`, `virtward_instances_by_migration_targets{targets="one",pod="a"} 3x180`}, []string{"2 running virtual machines cannot migrate to any other node"}},
	{"VirtwardInstancesWithoutMigrationTarget", "others", []string{`virtward_instances_by_migration_targets{targets="none"} 0x180`, `virtward_instances_by_migration_targets{targets="one"} 3x180`, `virtward_instances_by_migration_targets{targets="unknown"} 3x180`}, nil},
	{"VirtwardInstancesWithoutMigrationTarget", "for an hour", []string{`virtward_instances_by_migration_targets{targets="none"} 0x120 2x60`}, nil},

	{"VirtwardTemplateAPIUnavailable", "one version", []string{`aggregator_unavailable_apiservice{name="v1alpha1.subresources.template.kubevirt.io",instance="a"} 1x180`, `aggregator_unavailable_apiservice{name="v1beta1.subresources.template.kubevirt.io",instance="a"} 0x180`}, []string{"the API v1alpha1.subresources.template.kubevirt.io of VM templates does not answer, so no namespace is deleted"}},
	{"VirtwardTemplateAPIUnavailable", "a replica starts", []string{`aggregator_unavailable_apiservice{name="v1beta1.subresources.template.kubevirt.io"} 0x177 1x3`}, nil},
	{"VirtwardTemplateAPIUnavailable", "another API", []string{`aggregator_unavailable_apiservice{name="v1beta1.metrics.k8s.io"} 1x180`}, nil},

	{"VirtwardMigrationNeverComes", "three", []string{`virtward_vm_migration_never_comes{reason="NotMigratable"} 3x180`, `virtward_vm_migration_never_comes{reason="NoLiveMigrate"} 0x180`}, []string{"changes of 3 virtual machines wait for a live migration that KubeVirt does not start (NotMigratable)"}},
	{"VirtwardMigrationNeverComes", "for half an hour", []string{`virtward_vm_migration_never_comes{reason="NotMigratable"} 0x150 3x30`}, nil},

	{"HCOGoldenImageWithNoSupportedArchitecture", "no node", []string{`kubevirt_hco_dataimportcrontemplate_with_supported_architectures{catalog="os/common",data_import_cron_name="fedora"} 0x180`}, []string{"no node has an architecture of the golden image fedora of the catalog os/common"}},
	{"HCOGoldenImageWithNoSupportedArchitecture", "of HCO, without a catalog", []string{`kubevirt_hco_dataimportcrontemplate_with_supported_architectures{data_import_cron_name="fedora"} 0x180`}, nil},
	{"HCOGoldenImageWithNoSupportedArchitecture", "a node", []string{`kubevirt_hco_dataimportcrontemplate_with_supported_architectures{catalog="os/common",data_import_cron_name="fedora"} 1x180`}, nil},

	{"HCOGoldenImageWithNoArchitectureAnnotation", "two architectures", append(repeated(`virtward_golden_image_nodes{catalog="os/common",architecture="%"} 2x180`, "amd64", "arm64"), `kubevirt_hco_dataimportcrontemplate_with_architecture_annotation{catalog="os/common",data_import_cron_name="fedora"} 0x180`, `kubevirt_hco_multi_arch_boot_images_enabled{catalog="os/common"} 1x180`), []string{"the golden image fedora of the catalog os/common is imported once, for nodes of several architectures"}},
	{"HCOGoldenImageWithNoArchitectureAnnotation", "one architecture", append(repeated(`virtward_golden_image_nodes{catalog="os/common",architecture="%"} 2x180`, "amd64"), `kubevirt_hco_dataimportcrontemplate_with_architecture_annotation{catalog="os/common",data_import_cron_name="fedora"} 0x180`, `kubevirt_hco_multi_arch_boot_images_enabled{catalog="os/common"} 1x180`), nil},

	{"HCOMultiArchGoldenImagesDisabled", "two architectures", append(repeated(`virtward_golden_image_nodes{catalog="os/common",architecture="%"} 2x180`, "amd64", "arm64"), `kubevirt_hco_multi_arch_boot_images_enabled{catalog="os/common"} 0x180`), []string{"the catalog os/common imports each golden image once, for nodes of several architectures"}},
	{"HCOMultiArchGoldenImagesDisabled", "enabled", append(repeated(`virtward_golden_image_nodes{catalog="os/common",architecture="%"} 2x180`, "amd64", "arm64"), `kubevirt_hco_multi_arch_boot_images_enabled{catalog="os/common"} 1x180`), nil},

	{"VirtwardGoldenImageImportFailing", "it fails", []string{`virtward_golden_image_import_failing{catalog="os/common",image="fedora",architecture="arm64",reason="ImagePullFailed"} 1x180`}, []string{"the golden image fedora of the catalog os/common is not imported for arm64 (ImagePullFailed)"}},
	{"VirtwardGoldenImageImportFailing", "for ten minutes", []string{`virtward_golden_image_import_failing{catalog="os/common",image="fedora",architecture="arm64",reason="ImagePullFailed"} _x170 1x10`}, nil},

	{"VirtwardGoldenImageManifestDiffers", "missing", []string{`virtward_golden_image_manifest_verified{catalog="os/common",image="fedora",reason="ArchitecturesMissing"} 0x180`}, []string{"the entry fedora of the catalog os/common lists architectures that its image does not have"}},
	{"VirtwardGoldenImageManifestDiffers", "the registry does not answer", []string{`virtward_golden_image_manifest_verified{catalog="os/common",image="fedora",reason="Unreadable"} 0x180`}, nil},

	{"VirtwardGoldenImageCatalogNotReady", "not ready", []string{`virtward_golden_image_catalog_ready{catalog="os/common",reason="NotDeployed"} 0x180`}, []string{"the catalog os/common of golden images is not ready (NotDeployed)"}},
	{"VirtwardGoldenImageCatalogNotReady", "ready", []string{`virtward_golden_image_catalog_ready{catalog="os/common",reason="Imported"} 1x180`}, nil},

	{"VirtwardVirtualImageBackendUnreachable", "two wait", []string{`virtward_virtual_images{class="glance",state="Unreachable"} 2x180`}, []string{"the backend of the class glance does not answer: 2 VirtualImages wait"}},
	{"VirtwardVirtualImageBackendUnreachable", "ready", []string{`virtward_virtual_images{class="glance",state="Unreachable"} 0x180`, `virtward_virtual_images{class="glance",state="Ready"} 2x180`}, nil},

	{"VirtwardVirtualImagesFailing", "most fail", []string{`virtward_virtual_image_imports_total{class="cluster",result="failed"} 0+1x180`, `virtward_virtual_image_imports_total{class="cluster",result="imported"} 0x180`}, []string{"most imports of VirtualImages of the class cluster fail"}},
	{"VirtwardVirtualImagesFailing", "most do not", []string{`virtward_virtual_image_imports_total{class="cluster",result="failed"} 0+1x180`, `virtward_virtual_image_imports_total{class="cluster",result="imported"} 0+2x180`}, nil},
	{"VirtwardVirtualImagesFailing", "two fail", []string{`virtward_virtual_image_imports_total{class="cluster",result="failed"} 0x150 2x30`, `virtward_virtual_image_imports_total{class="cluster",result="imported"} 0x180`}, nil},

	{"VirtwardVirtualImageUnavailable", "removed", []string{`virtward_virtual_images{class="glance",state="Unavailable"} 1x180`}, []string{"1 VirtualImages of the class glance were removed or deactivated in their backend"}},
	{"VirtwardVirtualImageUnavailable", "available", []string{`virtward_virtual_images{class="glance",state="Unavailable"} 0x180`}, nil},

	{"VirtwardVirtualImageDeletionBlocked", "blocked", []string{`virtward_virtual_images{class="glance",state="DeletionBlocked"} 1x180`}, []string{"the backend of the class glance does not delete 1 VirtualImages"}},
	{"VirtwardVirtualImageDeletionBlocked", "deleted", []string{`virtward_virtual_images{class="glance",state="DeletionBlocked"} 1x170 0x10`}, nil},

	{"VirtwardVirtualImageImportsSaturated", "others wait", []string{`virtward_virtual_images{class="cluster",state="Importing"} 15x180`, `virtward_virtual_images{class="glance",state="Importing"} 5x180`, `virtward_virtual_images{class="cluster",state="Pending"} 1x180`, `virtward_virtual_image_imports_limit 20x180`}, []string{"20 VirtualImages are imported at the same time, and others wait"}},
	{"VirtwardVirtualImageImportsSaturated", "no other waits", []string{`virtward_virtual_images{class="cluster",state="Importing"} 20x180`, `virtward_virtual_images{class="cluster",state="Pending"} 0x180`, `virtward_virtual_image_imports_limit 20x180`}, nil},

	{"VirtwardTemplateImportsFailing", "all fail", []string{`virtward_template_imports_total{result="ImportFailed"} 0+1x180`}, []string{"most imports of virtual appliances fail"}},
	{"VirtwardTemplateImportsFailing", "most fail, for different reasons", []string{`virtward_template_imports_total{result="DeadlineExceeded"} 0+1x180`, `virtward_template_imports_total{result="Rejected"} 0+1x180`, `virtward_template_imports_total{result="Reconciled"} 0+1x180`}, []string{"most imports of virtual appliances fail"}},
	{"VirtwardTemplateImportsFailing", "most do not", []string{`virtward_template_imports_total{result="ImportFailed"} 0+1x180`, `virtward_template_imports_total{result="Reconciled"} 0+2x180`}, nil},
	{"VirtwardTemplateImportsFailing", "two fail", []string{`virtward_template_imports_total{result="ImportFailed"} 0x150 2x30`}, nil},
	{"VirtwardTemplateImportsFailing", "users make mistakes", []string{`virtward_template_imports_total{result="NotImportable"} 0+1x180`, `virtward_template_imports_total{result="NameTaken"} 0+1x180`}, nil},

	{"VirtwardTemplateExportsFailing", "all fail", []string{`virtward_template_exports_total{result="CloneFailed"} 0+1x180`}, []string{"most exports of VM templates fail"}},
	{"VirtwardTemplateExportsFailing", "most do not", []string{`virtward_template_exports_total{result="ExportFailed"} 0+1x180`, `virtward_template_exports_total{result="Serving"} 0+2x180`}, nil},
	{"VirtwardTemplateExportsFailing", "users make mistakes", []string{`virtward_template_exports_total{result="SourceNotPermitted"} 0+1x180`, `virtward_template_exports_total{result="TemplateNotFound"} 0+1x180`}, nil},

	{"VirtwardTemplateImportVerificationFails", "a file differs", []string{`virtward_template_imports_total{result="VerificationFailed"} 0x170 1x10`}, []string{"a virtual appliance does not have the digests that its manifest or its import states"}},
	{"VirtwardTemplateImportVerificationFails", "two hours ago", []string{`virtward_template_imports_total{result="VerificationFailed"} 0x30 1x150`}, nil},

	{"VirtwardTemplateImportStuck", "no progress for two hours", []string{`virtward_template_import_stalled_seconds{reason="Importing",pod="a"} 0+60x180`, `virtward_template_import_stalled_seconds{reason="Blocked",pod="a"} 30x180`}, []string{"an import of a virtual appliance makes no progress (Importing)"}},
	{"VirtwardTemplateImportStuck", "progress after half an hour", []string{`virtward_template_import_stalled_seconds{reason="Importing"} 0+60x150 0+60x30`}, nil},
}

// TestCases evaluates each alert where it fires, and where it does not.
func TestCases(t *testing.T) {
	all := map[string]rule{}
	for _, r := range rules(t) {
		all[r.Alert] = r
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, tc := range cases {
		t.Run(tc.alert+"/"+tc.name, func(t *testing.T) {
			r, exists := all[tc.alert]
			if !exists {
				t.Fatal("the chart has no such alert")
			}
			if diff := cmp.Diff(tc.want, summaries(firing(t, r, tc.series, 3*time.Hour))); diff != "" {
				t.Errorf("%s for %s (-want +got):\n%s", r.Expr, r.For, diff)
			}
		})
		if len(tc.want) > 0 {
			fires[tc.alert] = true
		} else {
			silent[tc.alert] = true
		}
	}
	for name := range all {
		if !fires[name] || !silent[name] {
			t.Errorf("%s has not a case in which it fires and one in which it does not", name)
		}
	}
}
