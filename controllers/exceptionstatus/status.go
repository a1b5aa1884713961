package exceptionstatus

import (
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies"
)

// Plan returns the status of an exception in a state, given the current status. It is pure.
func Plan(state *policies.ExceptionState, before *policyv1alpha1.VirtualMachinePolicyExceptionStatus, now time.Time) *policyv1alpha1.VirtualMachinePolicyExceptionStatus {
	s := own(before)
	s.ObservedGeneration, s.Policies = state.Object.Generation, summary(state.Object.Spec.Policies)
	condition := metav1.Condition{
		Type: policyv1alpha1.ExceptionActive, Status: metav1.ConditionFalse, Reason: state.Reason, Message: state.Message,
		ObservedGeneration: state.Object.Generation, LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
	}
	if state.Active {
		condition.Status = metav1.ConditionTrue
	}
	apimeta.SetStatusCondition(&s.Conditions, condition)
	return s
}

// summary returns memory-limit, or memory-limit and 2 more.
func summary(names []string) string {
	switch len(names) {
	case 0:
		return ""
	case 1:
		return names[0]
	}
	return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
}

// own returns the part of a status that this controller writes: all but conditions of others.
func own(s *policyv1alpha1.VirtualMachinePolicyExceptionStatus) *policyv1alpha1.VirtualMachinePolicyExceptionStatus {
	part := s.DeepCopy()
	part.Conditions = nil
	if found := activeIn(s); found != nil {
		part.Conditions = []metav1.Condition{*found}
	}
	return part
}

func activeIn(s *policyv1alpha1.VirtualMachinePolicyExceptionStatus) *metav1.Condition {
	return apimeta.FindStatusCondition(s.Conditions, policyv1alpha1.ExceptionActive)
}
