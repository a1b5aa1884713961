package exceptionstatus

import (
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/conditions"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/texts"
)

// Plan returns the status of an exception in a state, given the current status. It is pure.
func Plan(state *policies.ExceptionState, before *policyv1alpha1.VirtualMachinePolicyExceptionStatus, now time.Time) *policyv1alpha1.VirtualMachinePolicyExceptionStatus {
	s := own(before)
	s.ObservedGeneration, s.Policies = state.Object.Generation, texts.First(state.Object.Spec.Policies, 1)
	condition := metav1.Condition{Type: policyv1alpha1.ExceptionActive, Status: metav1.ConditionFalse, Reason: state.Reason, Message: state.Message}
	if state.Active {
		condition.Status = metav1.ConditionTrue
	}
	conditions.Set(&s.Conditions, condition, state.Object.Generation, metav1.NewTime(now))
	return s
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
