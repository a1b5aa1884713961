package admissionpolicies

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Disabled is the name of a match condition that never holds. It switches off the webhook, or the policy of the API
// server, that has it. An annotation of that name on the object says who did that, when and why.
const Disabled = "virtward.io/disabled"

// StayActive are the policies that kubectl virtward disable leaves active. Otherwise a user could record another user as the
// requester of a rollout, and the rollout would act for that user; a catalog of golden images, a template with variants or a
// VirtualImage would act for users without its rights; a restore would be evaluated for another user; exceptions of users
// without the verb would be active afterwards; and approved-only namespaces would have virtual machines that no approved template
// describes, and captures of virtual machines that their authors cannot read; and a namespace could be exempt afterwards.
func StayActive() []string {
	return []string{
		NodeLabels, PolicyExceptions, Rollouts, RolloutStatus, CopyAuthors, ExemptNamespaces, GoldenImageCatalogs, GoldenImageDeletes, GoldenImageStatus, GoldenImageTemplates, VirtualImages, VirtualImageStatus, VirtualImageCopies,
		TemplateApprovedOnly, TemplateCapture, TemplateClusterKinds, TemplateExport, TemplateExportLabels, TemplateExportObjects, TemplateExportPods, TemplateExportServers, TemplateExportStatus, TemplateImport, TemplateImportLabels, TemplateImportObjects, TemplateImportPods, TemplateImportServers, TemplateImportStatus, TemplateNamespaces, TemplateProvenance, TemplateRequestLabels, TemplateStatus,
	}
}

// KeepDisabled returns the wanted match conditions of a policy, and also Disabled if the existing ones have it. So a policy
// that a user switched off stays off until a user switches it on.
func KeepDisabled(wanted, there []admissionregistrationv1.MatchCondition) []admissionregistrationv1.MatchCondition {
	at := slices.IndexFunc(there, func(c admissionregistrationv1.MatchCondition) bool { return c.Name == Disabled })
	if at < 0 {
		return wanted
	}
	return slices.Concat(wanted, there[at:at+1])
}
