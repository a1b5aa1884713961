package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// Cluster reads templates and creates VirtualMachines. The errors are those of the API server.
type Cluster interface {
	Template(ctx context.Context, namespace, name string) (*v1beta1.VirtualMachineTemplate, error)
	CreateVirtualMachine(ctx context.Context, vm *kubevirtv1.VirtualMachine, options metav1.CreateOptions) (*kubevirtv1.VirtualMachine, error)
}

// templateKind names templates in errors.
var templateKind = schema.GroupKind{Group: v1beta1.GroupVersion.Group, Kind: apikinds.VirtualMachineTemplate}

// parent is the resource of the subresources, which is not served.
type parent struct{}

var (
	_ rest.Storage              = parent{}
	_ rest.Scoper               = parent{}
	_ rest.SingularNameProvider = parent{}
)

func (parent) New() runtime.Object     { return &subresources.Templates{} }
func (parent) Destroy()                {}
func (parent) NamespaceScoped() bool   { return true }
func (parent) GetSingularName() string { return "virtualmachinetemplate" }

// processing is the storage of the subresources: process, and create where creates is set.
type processing struct {
	cluster    Cluster
	authorizer authorizer.Authorizer
	random     templates.Random
	version    schema.GroupVersion
	creates    bool
}

var _ rest.NamedCreater = (*processing)(nil)

// New is what a request's body is decoded into.
func (p *processing) New() runtime.Object { return &subresources.ProcessOptions{} }

// Destroy does nothing: there is nothing to release.
func (p *processing) Destroy() {}

// Create renders the named template, and creates the VirtualMachine if this is the subresource create. Admission runs
// before anything is read. Nothing is created in a dry run.
func (p *processing) Create(ctx context.Context, name string, object runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	given, ok := object.(*subresources.ProcessOptions)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body must be a ProcessOptions, not a %T", object))
	}
	if validate != nil {
		if err := validate(ctx, object.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	namespace := request.NamespaceValue(ctx)
	template, err := p.cluster.Template(ctx, namespace, name)
	if apierrors.IsForbidden(err) { // it is about the rights of Virtward, not of the user
		return nil, apierrors.NewInternalError(fmt.Errorf("virtward may not read the template: %w", err))
	}
	if err != nil {
		return nil, asAnswer(err, "read the template")
	}
	if template.DeletionTimestamp != nil && p.creates {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: templateKind.Group, Resource: subresources.Resource}, name, fmt.Errorf("the template is being deleted"))
	}
	rendered, findings := templates.Render(&template.Spec, given.Parameters, templates.Options{Random: p.random})
	warn(ctx, findings)
	if rendered == nil {
		return nil, invalid(name, findings)
	}
	answer := &subresources.ProcessedVirtualMachineTemplate{
		TemplateRef: &subresources.TemplateReference{Namespace: namespace, Name: name}, VirtualMachine: rendered.VirtualMachine, Message: rendered.Message,
	}
	if p.creates {
		if answer.VirtualMachine, err = p.create(ctx, template, rendered, given.TargetNamespace, options); err != nil {
			return nil, err
		}
	} else if given.TargetNamespace != "" {
		answer.VirtualMachine.Namespace = given.TargetNamespace
	}
	answer.SetGroupVersionKind(p.version.WithKind("ProcessedVirtualMachineTemplate"))
	return answer, nil
}

// maxWarning bounds one warning, in bytes.
const maxWarning = 1024

// warn sends the findings that do not deny as warnings.
func warn(ctx context.Context, findings []validators.Finding) {
	for i := range findings {
		if f := &findings[i]; f.Severity == validators.Warn {
			warning.AddWarning(ctx, "", texts.Shorten(fmt.Sprintf("%s [virtward/%s]", f.Error.Error(), f.Rule), maxWarning))
		}
	}
}

// maxCauses bounds the causes of an answer.
const maxCauses = 50

// invalid is the answer to values, or to a template, that cannot be rendered: 422 with a cause for each finding.
func invalid(name string, findings []validators.Finding) error {
	var causes []metav1.StatusCause
	message := ""
	for i := range findings {
		f := &findings[i]
		if f.Severity != validators.Deny {
			continue
		}
		text := fmt.Sprintf("%s [virtward/%s] %s", f.Error.ErrorBody(), f.Rule, f.Remedy)
		if message == "" {
			message = f.Error.Field + ": " + text
		}
		if len(causes) < maxCauses {
			causes = append(causes, metav1.StatusCause{Type: metav1.CauseType(f.Error.Type), Field: f.Error.Field, Message: texts.Shorten(text, maxWarning)})
		}
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: texts.Shorten(fmt.Sprintf("%s %q is invalid: %s", templateKind, name, message), maxWarning),
		Details: &metav1.StatusDetails{Group: templateKind.Group, Kind: templateKind.Kind, Name: name, Causes: causes},
	}}
}

// asAnswer is an error of the API server as the answer to the user: the same, unless it is about the rights of Virtward.
func asAnswer(err error, action string) error {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsUnauthorized(err):
		return apierrors.NewInternalError(fmt.Errorf("virtward may not %s: %w", action, err))
	case errors.As(err, &status) && status.Status().Code != 0:
		return err
	}
	return apierrors.NewInternalError(fmt.Errorf("virtward could not %s: %w", action, err))
}

// create creates the VirtualMachine of a template in the target namespace.
func (p *processing) create(ctx context.Context, template *v1beta1.VirtualMachineTemplate, rendered *templates.Rendered, target string, options *metav1.CreateOptions) (*kubevirtv1.VirtualMachine, error) {
	vm := rendered.VirtualMachine
	switch {
	case target == "" && vm.Namespace == "":
		target = template.Namespace
	case target == "":
		target = vm.Namespace
	case vm.Namespace != "" && vm.Namespace != target:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the VirtualMachine is of namespace %s, and targetNamespace is %s", texts.Shorten(vm.Namespace, 63), texts.Shorten(target, 63)))
	}
	vm.Namespace = target
	if target != template.Namespace {
		if err := p.authorizeTarget(ctx, template, target); err != nil {
			return nil, err
		}
	}
	digest, err := templates.Digest(template)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if vm.Annotations == nil {
		vm.Annotations = map[string]string{}
	}
	vm.Annotations[subresources.TemplateAnnotation] = template.Namespace + "/" + template.Name
	vm.Annotations[subresources.DigestAnnotation] = digest
	delete(vm.Annotations, subresources.RequesterAnnotation)
	if user, ok := request.UserFrom(ctx); ok {
		vm.Annotations[subresources.RequesterAnnotation] = texts.Shorten(user.GetName(), maxWarning)
	}
	created, err := p.cluster.CreateVirtualMachine(ctx, vm, metav1.CreateOptions{DryRun: options.DryRun, FieldManager: options.FieldManager})
	if err != nil {
		return nil, asAnswer(err, "create the VirtualMachine")
	}
	created.SetGroupVersionKind(kubevirtv1.VirtualMachineGroupVersionKind)
	return created, nil
}

// reviewTimeout bounds a check of a user's permissions.
const reviewTimeout = 5 * time.Second

// authorizeTarget requires that the user may create VirtualMachines of other namespaces' templates in the target.
func (p *processing) authorizeTarget(ctx context.Context, template *v1beta1.VirtualMachineTemplate, target string) error {
	user, ok := request.UserFrom(ctx)
	if !ok {
		return apierrors.NewInternalError(fmt.Errorf("the request has no user"))
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	decision, reason, err := p.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: user, Verb: "create", Namespace: target, APIGroup: subresources.Group, APIVersion: p.version.Version,
		Resource: subresources.Resource, Subresource: subresources.Instantiate, Name: template.Name, ResourceRequest: true,
	})
	if decision == authorizer.DecisionAllow {
		return nil
	}
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("virtward could not check the permission: %w", err))
	}
	message := fmt.Errorf("user %q cannot create resource %q in API group %q in the namespace %q, which is needed for templates of other namespaces", texts.Shorten(user.GetName(), maxWarning), subresources.Resource+"/"+subresources.Instantiate, subresources.Group, texts.Shorten(target, 63))
	if reason != "" {
		message = fmt.Errorf("%w: %s", message, texts.Shorten(reason, maxWarning))
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: subresources.Group, Resource: subresources.Resource}, template.Name, message)
}
