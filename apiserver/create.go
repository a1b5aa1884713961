package apiserver

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/audit"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// digestAuditAnnotation is the digest of the template, in an audit event.
const digestAuditAnnotation = "template.virtward.io/digest"

// sourceAuditAnnotation is where the approved template comes from, in an audit event.
const sourceAuditAnnotation = "template.virtward.io/source"

// create creates the VirtualMachine of a template in the target namespace. The approval is that of the template as it is
// rendered: it is read once.
func (p *processing) create(ctx context.Context, template *v1beta1.VirtualMachineTemplate, given *subresources.ProcessOptions, options *metav1.CreateOptions, answer *subresources.ProcessedVirtualMachineTemplate) error {
	if template.DeletionTimestamp != nil {
		return apierrors.NewConflict(templateResource, template.Name, fmt.Errorf("the template is being deleted"))
	}
	user, err := requester(ctx, template.Name)
	if err != nil {
		return err
	}
	drawn := &draft{}
	if err := p.memory.compute(ctx, func() (err error) {
		if drawn.digest, err = templates.Digest(template); err != nil {
			return unrenderable(template.Name, err)
		}
		drawn.rendered, drawn.findings = templates.Render(&template.Spec, given.Parameters, templates.Options{Random: p.Random})
		return nil
	}); err != nil {
		return err
	}
	rendered, err := p.admit(ctx, template, given, drawn)
	if err != nil {
		return err
	}
	vm := rendered.VirtualMachine
	if err := p.authorizeClones(ctx, template.Name, vm); err != nil {
		return err
	}
	annotate(ctx, vm, template, drawn.digest, user)
	created, err := p.Cluster.CreateVirtualMachine(ctx, vm, metav1.CreateOptions{DryRun: options.DryRun, FieldManager: options.FieldManager})
	if err != nil {
		return asAnswer(err, "create the VirtualMachine")
	}
	created.SetGroupVersionKind(kubevirtv1.VirtualMachineGroupVersionKind)
	answer.VirtualMachine, answer.Message = created, rendered.Message
	return nil
}

// draft is a rendered template, before it is known where its VirtualMachine is created.
type draft struct {
	digest string
	// rendered is nil if a finding denies it.
	rendered *templates.Rendered
	findings []validators.Finding
}

// admit finds the target namespace of a VirtualMachine, which a value can choose and in which the user must be allowed to
// create VirtualMachines. Where approval is required, the restrictions of approved templates apply.
func (p *processing) admit(ctx context.Context, template *v1beta1.VirtualMachineTemplate, given *subresources.ProcessOptions, d *draft) (*templates.Rendered, error) {
	rendered := d.rendered
	if rendered == nil {
		warn(ctx, d.findings)
		return nil, invalid(template.Name, d.findings)
	}
	target, err := targetOf(template, rendered.VirtualMachine.Namespace, given.TargetNamespace)
	if err != nil {
		return nil, err
	}
	if faults := validation.ValidateNamespaceName(target, false); len(faults) > 0 {
		return nil, unprocessable(template.Name, []metav1.StatusCause{{Type: metav1.CauseType(field.ErrorTypeInvalid), Field: "targetNamespace", Message: faults[0]}})
	}
	if target != template.Namespace {
		if err := p.authorizeTarget(ctx, template, target); err != nil {
			return nil, err
		}
	}
	required, err := p.requireApproval(ctx, template, target, d.digest)
	if err != nil {
		return nil, err
	}
	if required {
		d.findings = rendered.Restrict(d.findings)
	}
	warn(ctx, d.findings)
	if templates.Denied(d.findings) {
		return nil, invalid(template.Name, d.findings)
	}
	rendered.VirtualMachine.Namespace = target
	return rendered, nil
}

// targetOf is the namespace of the VirtualMachine: that of the request, that of the rendered VirtualMachine, or that of the
// template.
func targetOf(template *v1beta1.VirtualMachineTemplate, rendered, requested string) (string, error) {
	switch {
	case requested == "" && rendered == "":
		return template.Namespace, nil
	case requested == "":
		return rendered, nil
	case rendered != "" && rendered != requested:
		return "", apierrors.NewBadRequest(fmt.Sprintf("the VirtualMachine is of namespace %s, and targetNamespace is %s", texts.Shorten(rendered, maxName), texts.Shorten(requested, maxName)))
	}
	return requested, nil
}

// annotate notes where a VirtualMachine is from and who requested it, in its annotations and in the audit event.
func annotate(ctx context.Context, vm *kubevirtv1.VirtualMachine, template *v1beta1.VirtualMachineTemplate, digest, requester string) {
	if vm.Annotations == nil {
		vm.Annotations = map[string]string{}
	}
	vm.Annotations[subresources.TemplateAnnotation] = template.Namespace + "/" + template.Name
	vm.Annotations[subresources.DigestAnnotation] = digest
	vm.Annotations[subresources.RequesterAnnotation] = requester
	audit.AddAuditAnnotation(ctx, digestAuditAnnotation, digest)
}
