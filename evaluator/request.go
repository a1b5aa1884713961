package evaluator

import (
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

// Stage says how far an object has come. It decides what is still filled in, and whether a field that is not filled in
// is a finding.
type Stage int

const (
	// Written is an object as its author wrote it. With an operation, it is completed first, as the mutating webhook
	// does, and then evaluated as Admitted. Without one, it is evaluated as it would be completed, so that the result
	// tells which value comes from where.
	Written Stage = iota
	// Admitted is an object that has passed every mutating webhook, as a validating webhook receives it.
	Admitted
	// Stored is an object that exists. A virtual machine instance may have been admitted before Virtward was
	// installed, so what it lacks is no finding.
	Stored
)

// Request is an object, and the circumstances under which it is evaluated.
type Request struct {
	// Object as JSON, and OldObject before an update; nil otherwise.
	Object, OldObject []byte
	// Kind, Resource and SubResource of the object.
	Kind        metav1.GroupVersionKind
	Resource    metav1.GroupVersionResource
	SubResource string
	// Namespace and Name of the object; empty for those in the object.
	Namespace, Name string
	// Operation is CREATE or UPDATE. It is empty for an object that exists and that no request is about: policies that
	// read the request are skipped then.
	Operation admissionv1.Operation
	Stage     Stage
	// User sends the request.
	User authenticationv1.UserInfo
	// Requester is the user on whose behalf rules are evaluated; the name of User if empty.
	Requester string
	DryRun    bool
	// Authorizer answers policies what users may do; policies that use it fail without one.
	Authorizer authorizer.UnconditionalAuthorizer
	Observer   Observer
	// Former are the facts under which a stored virtual machine was admitted; nil if they are those of the snapshot.
	// Defaults that it got from them are replaced by those of the snapshot.
	Former *platform.Facts
}

// Observer follows an evaluation. Each function may be nil.
type Observer struct {
	// Policies is called before policies are evaluated, and what it returns afterwards.
	Policies func() (done func())
	// Gone reports that nothing waits for the result any more, Hurry that there is no time left for policies that do
	// not deny.
	Gone, Hurry func() bool
}

// Result is what an evaluation finds.
type Result struct {
	// Namespace of the object; empty if its kind has none.
	Namespace string
	// Skipped says why there is nothing to evaluate; empty if the object was evaluated.
	Skipped string
	// Unreadable says why the object cannot be read; nil if it can. It is a finding, too.
	Unreadable error
	// Verdict is about the virtual machine that the object is or makes; nil if there is none.
	Verdict *effective.Verdict
	// Findings are those of all rules and policies, sorted by field.
	Findings []validators.Finding
	// References are the objects that the virtual machine refers to.
	References []effective.Reference
	// Warnings are about references that are missing, and about fields and configuration that are ignored.
	Warnings []string
}

// Allowed reports whether no finding denies the object.
func (r *Result) Allowed() bool {
	for i := range r.Findings {
		if r.Findings[i].Severity == validators.Deny {
			return false
		}
	}
	return true
}

// groupKind is that of the object.
func (r *Request) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: r.Kind.Group, Kind: r.Kind.Kind}
}

// updates reports whether there is an object before.
func (r *Request) updates() bool { return r.Operation == admissionv1.Update }

func (r *Request) requester() string {
	if r.Requester != "" {
		return r.Requester
	}
	return r.User.Username
}

// forPolicies is the request as policies see it.
func (r *Request) forPolicies() cel.Request {
	return cel.Request{
		Operation: string(r.Operation), Kind: r.Kind, Resource: r.Resource, SubResource: r.SubResource,
		Name: r.Name, Namespace: r.Namespace, UserInfo: r.User, DryRun: r.DryRun,
	}
}
