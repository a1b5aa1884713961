package webhooks

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// maxCauses bounds the causes of one rejection. The last one says how many more there are.
const maxCauses = 50

// maxText bounds the text of one cause or warning, in bytes: it may quote a value of the user.
const maxText = 1 << 10

// maxAnnotation bounds the value of an audit annotation, in bytes.
const maxAnnotation = 10 << 10

// answerTo turns findings into the response: denied with all causes, or allowed with warnings. The policies have the
// exceptions that can be requested.
func answerTo(request *admissionv1.AdmissionRequest, set *policies.Set, findings []validators.Finding, warnings []string) *admissionv1.AdmissionResponse {
	var denied, warned, audited, skipped, exempted []validators.Finding
	for _, f := range findings {
		switch {
		case policies.IsSkipped(&f):
			skipped = append(skipped, f)
		case f.Exempted != nil:
			exempted = append(exempted, f)
		case f.Severity == validators.Deny:
			denied = append(denied, f)
		case f.Severity == validators.Audit:
			audited = append(audited, f)
		default:
			warned = append(warned, f)
		}
	}
	if len(skipped) > 0 {
		warnings = append(warnings, fmt.Sprintf("%d policies that warn or audit were skipped: there was no time for them, or the cost budget that they share is exhausted", len(ruleIDs(skipped))))
	}
	warnings = append(warnings, ending(exempted)...)
	shown := warned[:min(len(warned), maxWarnings)]
	for i := range shown {
		warnings = append(warnings, shortened(shown[i].Error.Field+": "+shown[i].Message()))
	}
	response := &admissionv1.AdmissionResponse{Allowed: len(denied) == 0, Warnings: bounded(warnings, len(warned)-len(shown))}
	if len(denied) > 0 {
		response.Result = rejection(request, set, denied)
	}
	response.AuditAnnotations = annotations(append(denied, warned...), audited, skipped, exempted)
	return response
}

// ending returns a warning for each policy whose exception ends soon: a restart afterwards is denied.
func ending(exempted []validators.Finding) []string {
	var warnings []string
	for i := range exempted {
		if f := &exempted[i]; f.Exempted.Soon {
			warnings = append(warnings, shortened("policy "+strings.TrimPrefix(f.Rule, policies.RulePrefix)+": "+f.Exempted.Warning()))
		}
	}
	slices.Sort(warnings)
	return slices.Compact(warnings)
}

// annotations returns the annotations for the API server's audit log: the rules that denied or warned, the policies that
// only audit, the policies that were skipped, and those from which an exception exempts the object.
func annotations(shown, audited, skipped, exempted []validators.Finding) map[string]string {
	if len(shown)+len(audited)+len(skipped)+len(exempted) == 0 {
		return nil
	}
	all := map[string]string{}
	if len(shown) > 0 {
		all["findings"] = texts.Shorten(strings.Join(ruleIDs(shown), ","), maxAnnotation)
	}
	if len(audited) > 0 {
		all["policies-audit"] = texts.Shorten(strings.Join(ruleIDs(audited), ","), maxAnnotation)
	}
	if len(skipped) > 0 {
		all["policies-skipped"] = texts.Shorten(strings.Join(ruleIDs(skipped), ","), maxAnnotation)
	}
	if len(exempted) > 0 {
		all["policies-exempted"] = texts.Shorten(strings.Join(ruleIDs(exempted), ","), maxAnnotation)
	}
	return all
}

// rejection returns the Status that the API server also sends for an object that violates its schema: 422 with causes. The
// last cause of a policy from which the object can be exempted says so.
func rejection(request *admissionv1.AdmissionRequest, set *policies.Set, denied []validators.Finding) *metav1.Status {
	more := len(denied) - maxCauses
	if more > 0 {
		denied = denied[:maxCauses]
	}
	status := &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Details: &metav1.StatusDetails{Group: request.Kind.Group, Kind: request.Kind.Kind, Name: request.Name, UID: ""},
	}
	lines, exemptable := make([]string, 0, len(denied)+1), lastExemptable(set, request.Kind.Kind, denied)
	for i := range denied {
		f := &denied[i]
		text := shortened(f.Message())
		if i == exemptable {
			text += " " + ExceptionRemedy
		}
		if i == len(denied)-1 && more > 0 {
			text += fmt.Sprintf(" (and %d more findings, which kubectl virtward explain shows)", more)
		}
		status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{Type: metav1.CauseType(f.Error.Type), Field: f.Error.Field, Message: text})
		lines = append(lines, f.Error.Field+": "+text)
	}
	status.Message = strings.Join(lines, "\n* ")
	if len(lines) > 1 {
		status.Message = "\n* " + status.Message
	}
	return status
}

// shortened bounds the text of a cause or a warning.
func shortened(text string) string { return texts.Shorten(text, maxText) }

// ruleIDs returns the rules of findings, each once, sorted.
func ruleIDs(findings []validators.Finding) []string {
	ids := make([]string, 0, len(findings))
	for i := range findings {
		ids = append(ids, findings[i].Rule)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
