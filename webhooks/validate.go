package webhooks

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"

	imagev1alpha1 "github.com/virtward/virtward/api/image/v1alpha1"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/goldenimages"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/validators"
)

// The paths of the Validator: of deletions and changes of owners, and of all other requests.
const (
	ValidatePath  = "/validate"
	DeletionsPath = "/deletions"
)

// Validator denies requests whose virtual machines could never run or violate a policy, also in templates and references
// of VMs. It denies a request that it cannot evaluate now with 503, because it cannot read from the cluster, or with 429,
// because other requests have all memory. Clients send such a request again.
type Validator struct {
	// Evaluator evaluates virtual machines, and the objects that they are created from.
	Evaluator *evaluator.Evaluator
	// Rules are all rules, to validate RuleSettings.
	Rules validators.Table
	// ReserveReads bounds what a request reads of the objects that a VM refers to.
	ReserveReads platform.ReserveReads
	// TemplateServer is the user name of the API of templates, which creates virtual machines for other users; empty for
	// none.
	TemplateServer string
	// RolloutController is the user name of the controller of rollouts, which changes virtual machines for other users;
	// empty for none.
	RolloutController string
	// Authorizer reports what a user may do; nil makes policies fail that use it.
	Authorizer authorizer.UnconditionalAuthorizer
	// Counts returns the counts of running virtual machines, for changes of the KubeVirt resource; nil if there are none.
	Counts func(ctx context.Context) (*v1alpha1.RunningCounts, error)
	// Catalogs returns the names that GoldenImageCatalogs use; nil for none.
	Catalogs func() []goldenimages.Claims
	// CommonImages are those of catalogs that have the common images.
	CommonImages []imagev1alpha1.DataImportCronTemplate
	// RolloutStrategy is that of a KubeVirt resource which names none; empty for KubeVirt's default.
	RolloutStrategy kubevirtv1.VMRolloutStrategy
	// ExceptionDuration is the longest time until a VirtualMachinePolicyException ends; 0 if there are none.
	ExceptionDuration time.Duration
	// CompilePolicy compiles a policy that is to be stored.
	CompilePolicy func(*policyv1alpha1.VirtualMachinePolicy) (*policies.Policy, []diagnostics.Problem)

	Metrics *Metrics
	Log     logr.Logger
	Clock   clock.PassiveClock
	// Limits are shared by the webhooks of a process; nil for a new one.
	Limits *Limits

	*handler
	// Deletions answers deletions and changes of owners, on a port of its own: with its own limits, and in time, as the
	// failurePolicy of the policies says.
	Deletions http.Handler
}

// NewValidator returns a Validator that can serve requests.
func NewValidator(v Validator) *Validator {
	if v.Limits == nil {
		v.Limits = NewLimits()
	}
	v.handler = &handler{name: "validate", answer: v.respond, early: v.ignored, unevaluated: v.unevaluated, metrics: v.Metrics, log: v.Log, clock: v.Clock, limits: v.Limits}
	deletions := *v.handler
	deletions.unevaluated, deletions.punctual, deletions.limits = v.unevaluatedDeletion, true, NewDeletionLimits(v.Limits)
	v.Deletions = &deletions
	return &v
}

// ignored admits a request that is not evaluated whatever its object is.
func (v *Validator) ignored(head *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	if head.Operation != admissionv1.Delete || !v.deletable(head) {
		return nil
	}
	return &admissionv1.AdmissionResponse{Allowed: true}
}

func (v *Validator) respond(ctx context.Context, r *review) (*admissionv1.AdmissionResponse, string) {
	request := r.request
	if request.Operation == admissionv1.Delete && v.deletable(request) {
		return &admissionv1.AdmissionResponse{Allowed: true}, verdictIgnored
	}
	if request.Operation == admissionv1.Connect || request.SubResource != "" && request.SubResource != subresourceScale {
		return &admissionv1.AdmissionResponse{Allowed: true}, verdictIgnored
	}
	if groupKind(request) == kubeVirtKind {
		return v.kubeVirt(ctx, request)
	}
	waiting, cancel := context.WithDeadline(ctx, r.waits)
	defer cancel()
	waiting, end := v.ReserveReads.Begin(waiting, request.Namespace)
	defer end()
	e := &examination{Validator: v, review: r, ctx: waiting, whole: ctx, began: v.Clock.Now(), request: request, progress: &progress{}}
	e.authorizer = &requestAuthorizer{UnconditionalAuthorizer: v.Authorizer, request: waiting, left: authorizationTimeout}
	e.authorizerApart = &requestAuthorizer{UnconditionalAuthorizer: v.Authorizer, request: waiting, left: apartTimeout}
	if request.SubResource == subresourceScale {
		set, err := v.scaled(e)
		switch {
		case errors.Is(err, errConflict):
			return conflict(err), verdictDenied
		case err != nil:
			return v.failed(request, err)
		case set == nil:
			return &admissionv1.AdmissionResponse{Allowed: true}, verdictIgnored
		}
		e.request, request = set, set
	}
	examine := examinationOf(groupKind(request))
	if examine == nil {
		return &admissionv1.AdmissionResponse{Allowed: true}, verdictIgnored
	}
	var err error
	if e.snapshot, err = v.Evaluator.Snapshot(e.began); err != nil {
		return v.failed(request, err)
	}
	if err := errors.Join(e.findRollout(), e.findAuthor()); err != nil {
		return v.failed(request, err)
	}
	if err := e.within(examine); err != nil {
		return v.failed(request, err)
	}
	response := answerTo(request, e.snapshot.Policies(), e.findings, e.warnings)
	v.Metrics.found(request.Kind.Kind, e.findings)
	if response.Allowed {
		return response, verdictAllowed
	}
	e.snapshot.Policies().Denied(e.began, e.findings)
	v.Log.Info("denied", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name,
		"operation", request.Operation, "user", request.UserInfo.Username, "rules", response.AuditAnnotations["findings"])
	return response, verdictDenied
}

// deletable reports whether no policy is evaluated on a deletion. It reads nothing of the object, so that deletions cost
// little if no policy names them.
func (v *Validator) deletable(request *admissionv1.AdmissionRequest) bool {
	return request.SubResource != "" || !evaluator.Evaluates(groupKind(request)) || v.Evaluator.Deletable(request.Kind.Kind, request.UserInfo.Username)
}

// failed returns the response to a request that cannot be evaluated now: 429 or 503, so that the client sends it again. Of
// deletions, the policies decide.
func (v *Validator) failed(request *admissionv1.AdmissionRequest, err error) (*admissionv1.AdmissionResponse, string) {
	why := failureOf(err)
	v.Log.Error(err, "denied a request that could not be evaluated", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name)
	if request.Operation == admissionv1.Delete {
		return v.unevaluatedDeletion(request, why), why.verdict
	}
	return why.response(), why.verdict
}

// examination is that of one request.
type examination struct {
	*Validator
	*review

	// ctx ends when the request stops waiting, for others and for what it reads. whole ends with the timeout of the caller.
	ctx, whole context.Context
	began      time.Time
	request    *admissionv1.AdmissionRequest
	progress   *progress
	snapshot   *evaluator.Snapshot
	// authorizer is for policies that deny, and authorizerApart for the others. They are unused if the Validator has none.
	authorizer, authorizerApart *requestAuthorizer
	// ofRollout is the requester of the rollout that sends the request; nil if no rollout does.
	ofRollout *authenticationv1.UserInfo
	// author is the user for whom KubeVirt creates or restores a virtual machine; nil if that is not to be known.
	author *cel.Author

	findings []validators.Finding
	warnings []string
}

// within examines the object. A verdict of all policies that deny is complete, also if the others took too long.
func (e *examination) within(examine func(*examination) error) error {
	if err := examine(e); err != nil {
		return err
	}
	return e.progress.failed
}

// updates reports whether the request is an update.
func (e *examination) updates() bool { return e.request.Operation == admissionv1.Update }
