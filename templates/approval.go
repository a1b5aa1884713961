package templates

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/template/v1beta1"
)

// Approved reports whether a template is approved as it is: with its spec and its UID. The digest is that of the template.
func Approved(template *v1beta1.VirtualMachineTemplate) (approved bool, digest string, err error) {
	digest, err = Digest(template)
	if err != nil {
		return false, "", err
	}
	approval := template.Status.Approval
	return approval != nil && approval.Digest == digest, digest, nil
}

// ApprovalCondition is the condition Approved of a template, without the time of its transition.
func ApprovalCondition(template *v1beta1.VirtualMachineTemplate) (metav1.Condition, error) {
	condition := metav1.Condition{Type: v1beta1.TemplateApproved, Status: metav1.ConditionFalse, ObservedGeneration: template.Generation}
	approved, digest, err := Approved(template)
	switch {
	case err != nil:
		return condition, err
	case approved:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1beta1.ReasonApproved
		condition.Message = fmt.Sprintf("%s approved the digest %s", template.Status.Approval.ApprovedBy, digest)
	case template.Status.Approval != nil:
		condition.Reason = v1beta1.ReasonChanged
		condition.Message = fmt.Sprintf("the template changed after its approval: its digest is %s, and %s is approved", digest, template.Status.Approval.Digest)
	default:
		condition.Reason, condition.Message = v1beta1.ReasonNotApproved, "no approval is valid"
	}
	return condition, nil
}

// ObjectParameters are the names of the parameters of type object, as a template lists them. Their values can add fields
// to the VirtualMachine of an approved template.
func ObjectParameters(spec *v1beta1.VirtualMachineTemplateSpec) []string {
	var names []string
	for i := range spec.Parameters {
		if p := &spec.Parameters[i]; p.Type == v1beta1.ParameterObject {
			names = append(names, p.Name)
		}
	}
	return names
}
