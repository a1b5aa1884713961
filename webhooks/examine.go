package webhooks

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/validators"
)

// evaluate evaluates an object of a kind that the evaluator knows.
func (e *examination) evaluate() error {
	result, err := e.snapshot.Evaluate(e.ctx, e.evaluationOf(evaluator.Admitted))
	if err != nil {
		return err
	}
	e.findings = append(e.findings, result.Findings...)
	e.warnings = append(e.warnings, result.Warnings...)
	return nil
}

// evaluationOf returns the request for the evaluator.
func (e *examination) evaluationOf(stage evaluator.Stage) evaluator.Request {
	r := e.request
	evaluation := evaluator.Request{
		Object: r.Object.Raw, OldObject: r.OldObject.Raw, Kind: r.Kind, Resource: r.Resource, SubResource: r.SubResource,
		Namespace: r.Namespace, Name: r.Name, Operation: r.Operation, Stage: stage, User: r.UserInfo, DryRun: dryRun(r), Options: r.Options.Raw, Author: e.author,
		Observer: evaluator.Observer{Policies: e.evaluating, Gone: e.gone, Hurry: e.hurry},
	}
	if requester, acts := e.requester(); acts {
		evaluation.User = requester
	}
	if e.Authorizer != nil {
		evaluation.Authorizer, evaluation.AuthorizerApart = e.authorizer, e.authorizerApart
	}
	return evaluation
}

// decoded returns the object of a request. ok is false if there is nothing to evaluate: the object cannot be read, which
// is a finding, or it is being deleted and does not change.
func decoded[T any, P interface {
	*T
	metav1.Object
}](e *examination) (object P, ok bool) {
	object = new(T)
	if err := evaluator.DecodeStored(e.request.Object.Raw, object); err != nil {
		e.unreadable(reflect.TypeFor[T](), err)
		return nil, false
	}
	object.SetNamespace(e.request.Namespace)
	if e.updates() {
		old, request := P(new(T)), e.evaluationOf(evaluator.Admitted)
		if evaluator.DecodeStored(e.request.OldObject.Raw, (*T)(old)) == nil && old.GetDeletionTimestamp() != nil && evaluator.Unchanged(reflect.TypeFor[T](), &request, "metadata", "status") {
			return nil, false
		}
	}
	return object, true
}

// unreadable adds a finding about an object of a Go type that exceeds a limit or has another form.
func (e *examination) unreadable(t reflect.Type, err error) {
	request := e.evaluationOf(evaluator.Admitted)
	e.findings = append(e.findings, e.snapshot.Unreadable(t, &request, err))
}

// ruleSettings rejects RuleSettings that can have no effect.
func (e *examination) ruleSettings() error {
	settings := &policyv1alpha1.RuleSettings{}
	if err := evaluator.DecodeStored(e.request.Object.Raw, settings); err != nil {
		e.unreadable(reflect.TypeOf(*settings), err)
		return nil
	}
	for _, err := range validators.CheckSettings(e.Rules, settings) {
		e.findings = append(e.findings, validators.Finding{Rule: validators.RuleSettingsKnown, Severity: validators.Deny, Error: err})
	}
	return nil
}
