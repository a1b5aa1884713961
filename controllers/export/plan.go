package export

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/conditions"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/controllers/statuses"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/export"
	"github.com/virtward/virtward/texts"
)

// AnnotationGeneration has the generation of the policy that an object was exported from.
const AnnotationGeneration = "policy.virtward.io/generation"

// wanted reports whether a policy has exportTo.
func wanted(c *configcache.Compiled) bool {
	return slices.Contains(c.Object.Spec.ExportTo, policyv1alpha1.PolicyExportAPIServer)
}

// memo is an exported policy, and what it was exported from.
type memo struct {
	policy   *policies.Policy
	cluster  export.Cluster
	native   *export.Native
	problems []diagnostics.Problem
}

// still reports whether exporting again would have the same result.
func (m *memo) still(c *configcache.Compiled, cluster *export.Cluster, now time.Time) bool {
	over := m.native != nil && m.native.Until != nil && !now.Before(*m.native.Until)
	return !over && m.policy == c.Policy && m.cluster.Namespace == cluster.Namespace && slices.Equal(m.cluster.KubeVirt, cluster.KubeVirt)
}

// observed are the objects that have the name of an exported policy; nil if there is none.
type observed struct {
	policy  *admissionregistrationv1.ValidatingAdmissionPolicy
	binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

// verb is what a step does, for errors.
type verb string

const (
	create verb = "creating"
	update verb = "updating"
	remove verb = "deleting"
)

// step is one write.
type step struct {
	verb   verb
	object client.Object
}

// plan returns the writes that update an exported policy, and the outcome for its policy. It is pure.
func plan(c *configcache.Compiled, made *memo, there observed) ([]step, outcome) {
	switch {
	case !wanted(c):
		return removal(c, there), outcome{}
	case made.native == nil:
		return removal(c, there), rejected(made.problems)
	case there.policy != nil && !ownedBy(there.policy, c.Object.UID):
		return removal(c, there), taken(kindOf(there.policy), there.policy.Name)
	case there.binding != nil && !ownedBy(there.binding, c.Object.UID):
		return removal(c, there), taken(kindOf(there.binding), there.binding.Name)
	}
	return append(keepPolicy(c, made.native.Policy, there.policy), keepBinding(c, made.native.Binding, there.binding)...), outcome{wanted: true, native: made.native}
}

// removal deletes the objects of a policy, the binding first: without a binding, the API server does not evaluate the
// policy. It does not delete other objects.
func removal(c *configcache.Compiled, there observed) []step {
	var steps []step
	if there.binding != nil && ownedBy(there.binding, c.Object.UID) && there.binding.DeletionTimestamp == nil {
		steps = append(steps, step{remove, there.binding})
	}
	if there.policy != nil && ownedBy(there.policy, c.Object.UID) && there.policy.DeletionTimestamp == nil {
		steps = append(steps, step{remove, there.policy})
	}
	return steps
}

func keepPolicy(c *configcache.Compiled, wanted, there *admissionregistrationv1.ValidatingAdmissionPolicy) []step {
	object := &admissionregistrationv1.ValidatingAdmissionPolicy{Spec: *wanted.Spec.DeepCopy()}
	if there == nil {
		object.ObjectMeta = dress(&wanted.ObjectMeta, nil, c)
		return []step{{create, object}}
	}
	object.ObjectMeta = dress(&wanted.ObjectMeta, &there.ObjectMeta, c)
	object.Spec.MatchConditions = admissionpolicies.KeepDisabled(object.Spec.MatchConditions, there.Spec.MatchConditions)
	if equality.Semantic.DeepEqual(&object.Spec, &there.Spec) && equality.Semantic.DeepEqual(&object.ObjectMeta, &there.ObjectMeta) {
		return nil
	}
	return []step{{update, object}}
}

func keepBinding(c *configcache.Compiled, wanted, there *admissionregistrationv1.ValidatingAdmissionPolicyBinding) []step {
	object := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{Spec: *wanted.Spec.DeepCopy()}
	if there == nil {
		object.ObjectMeta = dress(&wanted.ObjectMeta, nil, c)
		return []step{{create, object}}
	}
	object.ObjectMeta = dress(&wanted.ObjectMeta, &there.ObjectMeta, c)
	if equality.Semantic.DeepEqual(&object.Spec, &there.Spec) && equality.Semantic.DeepEqual(&object.ObjectMeta, &there.ObjectMeta) {
		return nil
	}
	return []step{{update, object}}
}

// kindOf returns the kind of an object, for messages.
func kindOf(object client.Object) string {
	if _, ok := object.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding); ok {
		return "ValidatingAdmissionPolicyBinding"
	}
	return "ValidatingAdmissionPolicy"
}

// owner returns the owner reference to a policy.
func owner(c *configcache.Compiled) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: policyv1alpha1.GroupVersion.String(), Kind: apikinds.VirtualMachinePolicy,
		Name: c.Object.Name, UID: c.Object.UID, Controller: new(true),
	}
}

// ownedBy reports whether an object belongs to the policy with a uid.
func ownedBy(object metav1.Object, uid types.UID) bool {
	controller := metav1.GetControllerOf(object)
	return controller != nil && controller.UID == uid && controller.Kind == apikinds.VirtualMachinePolicy
}

// dress returns the metadata of an exported object, and keeps what others added to the existing one.
func dress(made, there *metav1.ObjectMeta, c *configcache.Compiled) metav1.ObjectMeta {
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

// outcome is the result for a policy.
type outcome struct {
	// wanted reports whether the policy has exportTo; otherwise there is no condition.
	wanted bool
	// native is nil if there is none.
	native *export.Native
	// reason and message are why there is none.
	reason, message string
	// failure says why it is not known whether there is one; empty if it is known.
	failure string
}

// writeError is the error of a step.
type writeError struct {
	step step
	err  error
}

func (e *writeError) Error() string {
	return fmt.Sprintf("%s %s %s: %s", e.step.verb, kindOf(e.step.object), e.step.object.GetName(), e.err)
}

func (e *writeError) Unwrap() error { return e.err }

// failed returns the outcome after an error: what the API server rejected is not exported, and after other errors it is not known.
// Without exportTo there is no outcome, and the status stays.
func (o *outcome) failed(c *configcache.Compiled, err error) *outcome {
	var write *writeError
	wrote := errors.As(err, &write)
	switch {
	case err == nil:
		return o
	case !wanted(c):
		return nil
	case wrote && statuses.Rejected(err):
		return &outcome{wanted: true, reason: policyv1alpha1.PolicyReasonRejected, message: err.Error()}
	case wrote:
		return &outcome{wanted: true, failure: statuses.Failure("the exported policy could not be written", err)}
	}
	return &outcome{wanted: true, failure: statuses.Failure("the exported policy could not be read", err)}
}

// The bounds of a status, as in the definition.
const (
	maxNotes   = 16
	maxMessage = 1024
)

// status returns the part of a policy's status that this controller writes, given the current one.
func (o *outcome) status(c *configcache.Compiled, before *policyv1alpha1.VirtualMachinePolicyStatus, now time.Time) *policyv1alpha1.VirtualMachinePolicyStatus {
	s := &policyv1alpha1.VirtualMachinePolicyStatus{}
	if !o.wanted {
		return s
	}
	if o.failure != "" {
		s = own(before)
		conditions.Set(&s.Conditions, statuses.Unobserved(s.Conditions, policyv1alpha1.PolicyExported, policyv1alpha1.PolicyReasonNotObserved, c.Object.Generation, o.failure), c.Object.Generation, metav1.NewTime(now))
		return s
	}
	if found := meta.FindStatusCondition(before.Conditions, policyv1alpha1.PolicyExported); found != nil {
		s.Conditions = append(s.Conditions, *found)
	}
	condition := metav1.Condition{
		Type: policyv1alpha1.PolicyExported, Status: metav1.ConditionFalse, Reason: o.reason, Message: texts.Shorten(o.message, maxMessage),
	}
	if o.native != nil {
		condition.Status, condition.Reason = metav1.ConditionTrue, policyv1alpha1.PolicyReasonExported
		condition.Message = "the API server enforces the ValidatingAdmissionPolicy " + o.native.Policy.Name
		s.ExportNotes = o.native.Notes[:min(len(o.native.Notes), maxNotes)]
		if c.Policy.Spec().Enforcement != policyv1alpha1.PolicyAudit { // Audit denies nothing
			s.EnforcedBy = []policyv1alpha1.PolicyEnforcer{policyv1alpha1.PolicyByAPIServer}
		}
	}
	conditions.Set(&s.Conditions, condition, c.Object.Generation, metav1.NewTime(now))
	return s
}

// own returns the part of a status that this controller writes.
func own(s *policyv1alpha1.VirtualMachinePolicyStatus) *policyv1alpha1.VirtualMachinePolicyStatus {
	part := &policyv1alpha1.VirtualMachinePolicyStatus{ExportNotes: s.ExportNotes}
	if found := meta.FindStatusCondition(s.Conditions, policyv1alpha1.PolicyExported); found != nil {
		part.Conditions = []metav1.Condition{*found}
	}
	if slices.Contains(s.EnforcedBy, policyv1alpha1.PolicyByAPIServer) {
		part.EnforcedBy = []policyv1alpha1.PolicyEnforcer{policyv1alpha1.PolicyByAPIServer}
	}
	return part
}

// rejected returns the outcome for a policy that cannot be exported.
func rejected(problems []diagnostics.Problem) outcome {
	texts := make([]string, len(problems))
	for i := range problems {
		texts[i] = problems[i].String()
	}
	return outcome{wanted: true, reason: policyv1alpha1.PolicyReasonNotExportable, message: strings.Join(texts, "; ")}
}

// taken returns the outcome for a policy if another object has the name.
func taken(kind, name string) outcome {
	return outcome{
		wanted: true, reason: policyv1alpha1.PolicyReasonNameTaken,
		message: fmt.Sprintf("there is a %s %s that this policy does not own: rename one of them", kind, name),
	}
}
