package export

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/inforce"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/export"
)

// AnnotationGeneration on a native form is the generation of the policy that it was made of.
const AnnotationGeneration = "policy.virtward.io/generation"

// wanted tells whether a policy asks to be exported.
func wanted(c *inforce.Compiled) bool {
	return slices.Contains(c.Object.Spec.ExportTo, policyv1alpha1.PolicyExportAPIServer)
}

// owner is the reference of a native form to its policy.
func owner(c *inforce.Compiled) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: policyv1alpha1.GroupVersion.String(), Kind: "VirtualMachinePolicy",
		Name: c.Object.Name, UID: c.Object.UID, Controller: new(true),
	}
}

// ownedBy tells whether an object belongs to the policy with a uid.
func ownedBy(object metav1.Object, uid types.UID) bool {
	controller := metav1.GetControllerOf(object)
	return controller != nil && controller.UID == uid && controller.Kind == "VirtualMachinePolicy"
}

// dress gives the metadata of a native form what belongs to it in the cluster, and returns it with what others wrote
// into the one that is there.
func dress(made, there *metav1.ObjectMeta, c *inforce.Compiled) metav1.ObjectMeta {
	dressed := metav1.ObjectMeta{Name: made.Name, OwnerReferences: []metav1.OwnerReference{owner(c)}}
	if there != nil {
		dressed = *there.DeepCopy()
	}
	if dressed.Labels == nil {
		dressed.Labels = map[string]string{}
	}
	if dressed.Annotations == nil {
		dressed.Annotations = map[string]string{}
	}
	maps.Copy(dressed.Labels, made.Labels)
	dressed.Annotations[AnnotationGeneration] = strconv.FormatInt(c.Object.Generation, 10)
	return dressed
}

// outcome is what became of a policy.
type outcome struct {
	// wanted tells that the policy asks to be exported; otherwise there is nothing to say.
	wanted bool
	// native is nil if there is none.
	native *export.Native
	// reason and message say why there is none.
	reason, message string
}

// The bounds of a status, as in the definition.
const (
	maxNotes   = 16
	maxMessage = 1024
)

// status is the part of a policy's status that is ours, given the one that it has.
func (o *outcome) status(c *inforce.Compiled, before *policyv1alpha1.VirtualMachinePolicyStatus, now time.Time) *policyv1alpha1.VirtualMachinePolicyStatus {
	s := &policyv1alpha1.VirtualMachinePolicyStatus{}
	if !o.wanted {
		return s
	}
	if found := meta.FindStatusCondition(before.Conditions, policyv1alpha1.PolicyExported); found != nil {
		s.Conditions = append(s.Conditions, *found)
	}
	condition := metav1.Condition{
		Type: policyv1alpha1.PolicyExported, Status: metav1.ConditionFalse, Reason: o.reason, Message: shortened(o.message),
		ObservedGeneration: c.Object.Generation, LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
	}
	if o.native != nil {
		condition.Status, condition.Reason = metav1.ConditionTrue, policyv1alpha1.PolicyReasonInOrder
		condition.Message = "the API server judges by the ValidatingAdmissionPolicy " + o.native.Policy.Name
		s.ExportNotes = o.native.Notes[:min(len(o.native.Notes), maxNotes)]
		if c.Policy.Spec().Enforcement != policyv1alpha1.PolicyAudit { // which keeps nobody from anything
			s.EnforcedBy = []policyv1alpha1.PolicyEnforcer{policyv1alpha1.PolicyByAPIServer}
		}
	}
	meta.SetStatusCondition(&s.Conditions, condition)
	return s
}

// ours is the part of a status that this controller writes.
func ours(s *policyv1alpha1.VirtualMachinePolicyStatus) *policyv1alpha1.VirtualMachinePolicyStatus {
	part := &policyv1alpha1.VirtualMachinePolicyStatus{ExportNotes: s.ExportNotes}
	if found := meta.FindStatusCondition(s.Conditions, policyv1alpha1.PolicyExported); found != nil {
		part.Conditions = []metav1.Condition{*found}
	}
	if slices.Contains(s.EnforcedBy, policyv1alpha1.PolicyByAPIServer) {
		part.EnforcedBy = []policyv1alpha1.PolicyEnforcer{policyv1alpha1.PolicyByAPIServer}
	}
	return part
}

// refused is the outcome for a policy that cannot be exported.
func refused(problems []policies.Problem) outcome {
	texts := make([]string, len(problems))
	for i := range problems {
		texts[i] = problems[i].String()
	}
	return outcome{wanted: true, reason: policyv1alpha1.PolicyReasonNotExportable, message: strings.Join(texts, "; ")}
}

// taken is the outcome for a policy whose native form has a name that something else has.
func taken(kind, name string) outcome {
	return outcome{
		wanted: true, reason: policyv1alpha1.PolicyReasonNameTaken,
		message: fmt.Sprintf("there is a %s %s that is not made of this policy: rename one of them", kind, name),
	}
}

func shortened(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage-len("…")], "") + "…"
}
