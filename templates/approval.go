package templates

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates/approvals"
)

// Verifier returns nil if an approval of the template with a UID is signed and has not ended. See approvals.Keyring.
type Verifier interface {
	Verify(template types.UID, approval *v1beta1.TemplateApproval) error
}

// ApprovalCondition is the condition Approved of a template, without the time of its transition. The digest is that of the
// template. Only a template whose condition is true is approved as it is: with its spec and its UID.
func ApprovalCondition(template *v1beta1.VirtualMachineTemplate, digest string, verifier Verifier) metav1.Condition {
	condition := metav1.Condition{Type: v1beta1.TemplateApproved, Status: metav1.ConditionFalse, ObservedGeneration: template.Generation}
	approval := template.Status.Approval
	if approval == nil {
		condition.Reason, condition.Message = v1beta1.ReasonNotApproved, "no approval is valid"
		return condition
	}
	if err := verifier.Verify(template.UID, approval); err != nil {
		condition.Reason = invalidApproval(err)
		condition.Message = fmt.Sprintf("the approval does not count: %s. To approve the template again: kubectl virtward template approve %s -n %s", err, template.Name, template.Namespace)
		return condition
	}
	if approval.Digest != digest {
		condition.Reason = v1beta1.ReasonChanged
		condition.Message = fmt.Sprintf("the template changed after its approval: its digest is %s, and %s is approved", digest, approval.Digest)
		return condition
	}
	condition.Status, condition.Reason = metav1.ConditionTrue, v1beta1.ReasonApproved
	condition.Message = fmt.Sprintf("%s approved the digest %s", approval.ApprovedBy, digest)
	return condition
}

// invalidApproval is the reason for an approval that does not count.
func invalidApproval(err error) string {
	switch {
	case errors.Is(err, approvals.ErrUnsigned):
		return v1beta1.ReasonNotSigned
	case errors.Is(err, approvals.ErrEnded):
		return v1beta1.ReasonEnded
	}
	return v1beta1.ReasonSignatureInvalid
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
