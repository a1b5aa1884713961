package evaluator

import (
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/rollouts"
	"github.com/virtward/virtward/validators"
)

// Stage is the stage of admission that an object has reached. It decides whether fields are still filled, and whether a
// missing field is a finding.
type Stage int

const (
	// Written is an object as its author wrote it. With an operation, it is completed first, as the mutating webhook does,
	// and then evaluated as Admitted. Without one, it is completed and evaluated at once, and the verdict has the
	// provenance of each value.
	Written Stage = iota
	// Admitted is an object after all mutating webhooks, as a validating webhook receives it.
	Admitted
	// Stored is an existing object. An instance may be older than the installation of Virtward, so a missing field is not
	// a finding.
	Stored
)

// Request is an object and the circumstances of its evaluation.
type Request struct {
	// Object as JSON, and OldObject before an update; nil otherwise. A deletion has only OldObject.
	Object, OldObject []byte
	// Kind, Resource and SubResource of the object.
	Kind        metav1.GroupVersionKind
	Resource    metav1.GroupVersionResource
	SubResource string
	// Namespace and Name of the object; empty for those in the object.
	Namespace, Name string
	// Operation is CREATE, UPDATE or DELETE. It is empty for an existing object without a request. Policies that read the request
	// are skipped then.
	Operation admissionv1.Operation
	Stage     Stage
	// User is the sender of the request.
	User authenticationv1.UserInfo
	// Requester is the user name for rules; empty for the name of User.
	Requester string
	// Author is the user for whom KubeVirt creates or restores a virtual machine, for policies that read the request; nil if
	// that is not to be known.
	Author *cel.Author
	DryRun bool
	// Options are those of the operation in JSON; nil if they are unknown. Only policies read them.
	Options []byte
	// Authorizer reports what users may do; nil makes policies fail that use it.
	Authorizer authorizer.UnconditionalAuthorizer
	// AuthorizerApart is that of policies that do not deny; nil for Authorizer.
	AuthorizerApart authorizer.UnconditionalAuthorizer
	Observer        Observer
	// Former are the facts when a stored VM was created; nil if they are those of the snapshot. The defaults of the
	// snapshot replace those of Former.
	Former *platform.Facts
	// Values are values for the parameters of a VirtualMachineTemplate.
	Values map[string]string

	// maker is the request for the object that an instance is made from; nil for others. Policies see its kind and its resource
	// as those of the request, to distinguish its author from a user who creates an instance.
	maker *Request
	// apart is the time for what only policies that do not deny read; Evaluate sets it.
	apart *apart
}

// Observer has callbacks of an evaluation. Each function may be nil.
type Observer struct {
	// Policies is called before policies are evaluated, and done afterwards. previews are the bytes of the pod and the domain
	// that policies read.
	Policies func(previews int64) (done func())
	// Gone reports that the caller no longer waits for the result. Hurry reports that there is no time for policies that
	// do not deny.
	Gone, Hurry func() bool
}

// Result is the result of an evaluation.
type Result struct {
	// Namespace of the object; empty if its kind has none.
	Namespace string
	// Skipped says why the object was not evaluated; empty if it was.
	Skipped string
	// Unreadable says why the object cannot be read; nil if it can. Findings has it too.
	Unreadable error
	// Verdict of the virtual machine that the object is or creates; nil if there is none.
	Verdict *effective.Verdict
	// Findings of all rules and policies, sorted by field.
	Findings []validators.Finding
	// References are the objects that the virtual machine refers to.
	References []effective.Reference
	// Rollout is what an update of a running VM changes, and when the guest gets it; nil for other requests, and if the
	// running instance cannot be read.
	Rollout *rollouts.Result
	// Warnings about missing references, ignored fields and configuration, and about changes that do not reach the running
	// VM at once.
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

// groupKind returns the kind of the object.
func (r *Request) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: r.Kind.Group, Kind: r.Kind.Kind}
}

// updates reports whether the request is an update.
func (r *Request) updates() bool { return r.Operation == admissionv1.Update }

func (r *Request) requester() string {
	if r.Requester != "" {
		return r.Requester
	}
	return r.User.Username
}

// forPolicies returns the request for policies.
func (r *Request) forPolicies() cel.Request {
	of := r
	if r.maker != nil {
		of = r.maker
	}
	return cel.Request{
		Operation: string(r.Operation), Kind: of.Kind, Resource: of.Resource, SubResource: r.SubResource,
		Name: r.Name, Namespace: r.Namespace, UserInfo: r.User, DryRun: r.DryRun, Options: r.options(),
	}
}

// maxOptions bounds the options of a request that policies can read, in bytes. Larger ones are unknown to policies.
const maxOptions = 8 << 10

// options returns the options of the operation; nil if they are unknown.
func (r *Request) options() map[string]any {
	var options map[string]any
	if len(r.Options) == 0 || len(r.Options) > maxOptions || sigsjson.UnmarshalCaseSensitivePreserveInts(r.Options, &options) != nil {
		return nil
	}
	return options
}
