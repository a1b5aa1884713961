package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/clock"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/lookup"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/validators"
)

// ValidatePath is where the Validator is served.
const ValidatePath = "/validate"

// Validator refuses virtual machines that could never run, and what they are made from. What it cannot decide
// about, because the cluster cannot be asked or nothing is known of it yet, it refuses too, with 503.
type Validator struct {
	Pipeline *effective.Pipeline
	// Rules are all there are, for RuleSettings.
	Rules validators.Table
	// Facts returns the present facts; nil while there are none.
	Facts   func() *platform.Facts
	Objects lookup.Objects
	// Settings returns the admin's severities; nil where nothing is set.
	Settings func() *validators.Settings
	// Site returns the admin's defaults; nil where there are none.
	Site func() *mutators.Site
	// NamespaceLabels finds the labels of a namespace, for settings and defaults that select namespaces.
	NamespaceLabels func(ctx context.Context, namespace string) (k8slabels.Set, error)
	// Policies returns the admin's policies; nil where there are none. Namespace finds a namespace for those that
	// read it, and Authorizer answers what a requester may do; without one, policies that ask cannot be decided.
	Policies   func() *policies.Set
	Namespace  func(ctx context.Context, name string) (*corev1.Namespace, error)
	Authorizer authorizer.UnconditionalAuthorizer
	// CompilePolicy compiles a policy that is to be stored.
	CompilePolicy func(*policyv1alpha1.VirtualMachinePolicy) (*policies.Policy, []policies.Problem)
	// Refused is told when a VMI is refused that an object owns, such as its VM; not on a dry run.
	Refused func(owner Owner, message string)

	Metrics *Metrics
	Log     logr.Logger
	Clock   clock.PassiveClock
	// Room is shared with other webhooks of the process; its own if nil.
	Room *Room

	*door
}

// Owner is an object that owns another one.
type Owner struct {
	metav1.OwnerReference
	Namespace string
}

// NewValidator prepares a Validator for serving.
func NewValidator(v Validator) *Validator {
	if v.Room == nil {
		v.Room = NewRoom()
	}
	v.door = &door{name: "validate", answer: v.respond, metrics: v.Metrics, log: v.Log, clock: v.Clock, room: v.Room}
	return &v
}

func (v *Validator) respond(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, string) {
	examine := kinds[groupKind(request)]
	written := request.Operation == admissionv1.Create || request.Operation == admissionv1.Update
	if examine == nil || !written || request.SubResource != "" {
		return &admissionv1.AdmissionResponse{Allowed: true}, verdictIgnored
	}
	e := &examination{Validator: v, ctx: ctx, request: request, asks: &questions{UnconditionalAuthorizer: v.Authorizer, request: ctx}}
	defer e.asks.done()
	if err := e.prepare(); err != nil {
		return v.failed(request, err), verdictFailed
	}
	if err := examine(e); err != nil {
		return v.failed(request, err), verdictFailed
	}
	response := answerTo(request, e.findings, e.warnings)
	v.Metrics.found(request.Kind.Kind, e.findings)
	if response.Allowed {
		return response, verdictAllowed
	}
	v.Log.Info("refused", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name,
		"operation", request.Operation, "user", request.UserInfo.Username, "rules", response.AuditAnnotations["findings"])
	if e.owner != nil && !dryRun(request) {
		v.Refused(*e.owner, eventText(request, response.Result))
	}
	return response, verdictDenied
}

// failed refuses a request that cannot be decided now, so that whoever asked tries again.
func (v *Validator) failed(request *admissionv1.AdmissionRequest, err error) *admissionv1.AdmissionResponse {
	v.Log.Error(err, "refused an object that could not be checked", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name)
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable,
		Message: "virtward could not check this object, try again: " + err.Error(),
	}}
}

// examination is that of one request.
type examination struct {
	*Validator

	ctx        context.Context
	request    *admissionv1.AdmissionRequest
	facts      *platform.Facts
	severities validators.Severities
	site       []mutators.SiteDefaults
	policies   *policies.Set
	// namespace is that of the object, if a policy reads it.
	namespace *corev1.Namespace
	asks      *questions

	findings []validators.Finding
	warnings []string
	// owner of what is refused, if it is to be told.
	owner *Owner
}

// prepare gathers what every examination needs.
func (e *examination) prepare() error {
	if e.facts = e.Facts(); e.facts == nil {
		return errors.New("the KubeVirt resource has not been read yet")
	}
	settings := e.Settings()
	var namespace k8slabels.Set
	if settings.SelectsNamespaces() && e.request.Namespace != "" {
		var err error
		if namespace, err = e.NamespaceLabels(e.ctx, e.request.Namespace); err != nil {
			return fmt.Errorf("reading the labels of namespace %s: %w", e.request.Namespace, err)
		}
	}
	e.severities = settings.For(namespace)
	var err error
	if e.site, err = siteIn(e.ctx, e.Site, e.NamespaceLabels, e.request.Namespace); err != nil {
		return err
	}
	if e.Policies == nil {
		return nil
	}
	if e.policies = e.Policies(); e.policies.ReadsNamespaces() && e.request.Namespace != "" {
		if e.namespace, err = e.Namespace(e.ctx, e.request.Namespace); err != nil {
			return fmt.Errorf("reading namespace %s: %w", e.request.Namespace, err)
		}
	}
	return nil
}

// updates tells whether there is an object before.
func (e *examination) updates() bool { return e.request.Operation == admissionv1.Update }

// eventText is what an event says of a refusal: one line, within the bounds of events.
func eventText(request *admissionv1.AdmissionRequest, refusal *metav1.Status) string {
	causes := make([]string, 0, len(refusal.Details.Causes))
	for _, c := range refusal.Details.Causes {
		causes = append(causes, c.Field+": "+c.Message)
	}
	return cut(fmt.Sprintf("%s %s was refused: %s", request.Kind.Kind, nameIn(request), strings.Join(causes, "; ")), 1000)
}

// nameIn is the object's name, or the beginning of the one that the API server will make.
func nameIn(request *admissionv1.AdmissionRequest) string {
	if request.Name == "" {
		return "(not named yet)"
	}
	return request.Name
}
