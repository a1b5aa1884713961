package apiserver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/templates/approvals"
	"github.com/virtward/virtward/texts"
)

// maxText bounds the message of an approval, in bytes.
const maxText = 1024

// approving is the storage of approve.
type approving struct {
	storage
	producing
}

var _ rest.NamedCreater = (*approving)(nil)

// New is what a request's body is decoded into.
func (*approving) New() runtime.Object { return &subresources.ApproveOptions{} }

// Create approves the named template if it has the digest that the approver reviewed. A dry run without a digest only shows
// the review.
func (a *approving) Create(ctx context.Context, name string, object runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	given, ok := object.(*subresources.ApproveOptions)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body must be an ApproveOptions, not a %T", object))
	}
	approver, err := requester(ctx, name)
	if err != nil {
		return nil, err
	}
	template, end, err := a.begin(ctx, name, object, nil, validate)
	if err != nil {
		return nil, err
	}
	defer end()
	review, err := a.review(ctx, template)
	if err != nil {
		return nil, err
	}
	if review.Source, review.SourceReason, err = a.source(ctx, template); err != nil {
		return nil, err
	}
	digest := review.Digest
	review.SetGroupVersionKind(a.version.WithKind("TemplateReview"))
	dry := len(options.DryRun) > 0
	if dry && given.Digest == "" {
		return review, nil
	}
	if err := checkApproval(template, given, review); err != nil {
		return nil, err
	}
	if dry {
		return review, nil
	}
	approval := &v1beta1.TemplateApproval{Digest: digest, ApprovedBy: approver, ApprovedAt: metav1.NewTime(a.Clock.Now()), Message: given.Message, Source: review.Source}
	keys, err := a.sign(ctx, template, approval)
	if err != nil {
		return nil, keysAnswer(err)
	}
	template.Status.Approval, template.ResourceVersion = approval, "" // the digest was compared; another status does not matter
	if err := a.write(ctx, template, approval, templates.ApprovalCondition(template, digest, keys)); err != nil {
		return nil, err
	}
	event := fmt.Sprintf("%s approved the digest %s", approval.ApprovedBy, digest)
	audit.AddAuditAnnotation(ctx, digestAuditAnnotation, digest)
	if approval.Source != nil {
		from := templates.SourceText(approval.Source)
		event += " from " + from
		audit.AddAuditAnnotation(ctx, sourceAuditAnnotation, from)
	}
	a.Events.Event(template, corev1.EventTypeNormal, v1beta1.ReasonApproved, texts.ShortenCharacters(event, maxText-24))
	review.Approved, review.Approval, review.Reason = true, approval, ""
	return review, nil
}

// sign signs an approval. It ends all approvals of the template before, so that a copy of one never counts again.
func (a *approving) sign(ctx context.Context, template *v1beta1.VirtualMachineTemplate, approval *v1beta1.TemplateApproval) (*approvals.Keyring, error) {
	var err error
	keys, changeErr := a.Keys.Change(ctx, func(keys *approvals.Keyring) {
		keys.End(template.UID)
		approval.Signature, err = keys.Sign(template.UID, approval)
	})
	return keys, errors.Join(err, changeErr)
}

// review computes what an approver must know of a template.
func (s *storage) review(ctx context.Context, template *v1beta1.VirtualMachineTemplate) (review *subresources.TemplateReview, err error) {
	keys, err := s.Keys.Read(ctx)
	if err != nil {
		return nil, keysAnswer(err)
	}
	err = s.memory.compute(ctx, func() error {
		digest, err := templates.Digest(template)
		if err != nil {
			return unrenderable(template.Name, err)
		}
		review = reviewOf(template, digest, templates.ApprovalCondition(template, digest, keys))
		return nil
	})
	return review, err
}

// reviewOf is what an approver must know of a template.
func reviewOf(template *v1beta1.VirtualMachineTemplate, digest string, approved metav1.Condition) *subresources.TemplateReview {
	review := &subresources.TemplateReview{
		TemplateRef: reference(template), Digest: digest, Approved: approved.Status == metav1.ConditionTrue, Approval: template.Status.Approval, ObjectParameters: templates.ObjectParameters(&template.Spec),
	}
	if !review.Approved && review.Approval != nil {
		review.Reason = approved.Message
	}
	for _, u := range templates.FindUncovered(&template.Spec) {
		review.Uncovered = append(review.Uncovered, subresources.Uncovered{Path: u.Path, Reason: u.Reason})
	}
	return review
}

// checkApproval denies an approval of another digest, and one that does not acknowledge each parameter of type object.
func checkApproval(template *v1beta1.VirtualMachineTemplate, given *subresources.ApproveOptions, review *subresources.TemplateReview) error {
	var causes []metav1.StatusCause
	cause := func(kind field.ErrorType, at, message string) {
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseType(kind), Field: at, Message: message})
	}
	if given.Digest == "" {
		cause(field.ErrorTypeRequired, "digest", "the digest that you reviewed; a dry run shows it")
	}
	if len(given.Message) > maxText {
		cause(field.ErrorTypeTooLong, "message", fmt.Sprintf("it must have at most %d bytes", maxText))
	}
	for _, name := range review.ObjectParameters {
		if !slices.Contains(given.ObjectParameters, name) {
			cause(field.ErrorTypeRequired, "objectParameters", fmt.Sprintf("acknowledge parameter %s: its values can add fields to the VirtualMachine", texts.Shorten(name, maxWarning)))
		}
	}
	for i, name := range given.ObjectParameters {
		if len(causes) < maxCauses && !slices.Contains(review.ObjectParameters, name) {
			cause(field.ErrorTypeInvalid, fmt.Sprintf("objectParameters[%d]", i), fmt.Sprintf("%s is not a parameter of type object", texts.Shorten(name, maxWarning)))
		}
	}
	switch {
	case template.DeletionTimestamp != nil:
		return apierrors.NewConflict(templateResource, template.Name, fmt.Errorf("the template is being deleted"))
	case given.Digest != "" && given.Digest != review.Digest:
		return apierrors.NewConflict(templateResource, template.Name, fmt.Errorf("the template changed after your review: its digest is %s, and you reviewed %s; review it again", review.Digest, texts.Shorten(given.Digest, maxWarning)))
	case len(causes) > 0:
		return unprocessable(template.Name, causes)
	}
	return nil
}

// write writes an approval, or removes it, together with the condition.
func (s *storage) write(ctx context.Context, template *v1beta1.VirtualMachineTemplate, approval *v1beta1.TemplateApproval, condition metav1.Condition) error {
	condition.LastTransitionTime = metav1.NewTime(s.Clock.Now())
	for i := range template.Status.Conditions {
		if before := &template.Status.Conditions[i]; before.Type == condition.Type && before.Status == condition.Status {
			condition.LastTransitionTime = before.LastTransitionTime
		}
	}
	if err := s.Cluster.WriteApproval(ctx, template, approval, condition); err != nil {
		return asAnswer(err, "write the status of the template")
	}
	return nil
}

// refresh corrects the condition Approved of a template that changed after its approval. Nothing depends on the condition:
// it is for users, so a failure is no failure of their request.
func (s *storage) refresh(ctx context.Context, template *v1beta1.VirtualMachineTemplate) {
	present := meta.FindStatusCondition(template.Status.Conditions, v1beta1.TemplateApproved)
	if present == nil {
		return
	}
	keys, err := s.Keys.Read(ctx)
	if err != nil {
		return
	}
	digest, err := templates.Digest(template)
	if err != nil {
		return
	}
	if condition := templates.ApprovalCondition(template, digest, keys); outdated(present, condition, template.Status.Approval) {
		_ = s.write(ctx, template, template.Status.Approval, condition)
	}
}

// revoking is the storage of revoke.
type revoking struct {
	storage
	producing
}

var _ rest.NamedCreater = (*revoking)(nil)

// New is what a request's body is decoded into.
func (*revoking) New() runtime.Object { return &subresources.RevokeOptions{} }

// Create ends the approval of the named template, whatever its digest is.
func (r *revoking) Create(ctx context.Context, name string, object runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	given, ok := object.(*subresources.RevokeOptions)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body must be a RevokeOptions, not a %T", object))
	}
	revoker, err := requester(ctx, name)
	if err != nil {
		return nil, err
	}
	template, end, err := r.begin(ctx, name, object, nil, validate)
	if err != nil {
		return nil, err
	}
	defer end()
	if len(given.Message) > maxText {
		return nil, unprocessable(name, []metav1.StatusCause{{Type: metav1.CauseType(field.ErrorTypeTooLong), Field: "message", Message: fmt.Sprintf("it must have at most %d bytes", maxText)}})
	}
	review, err := r.review(ctx, template)
	if err != nil {
		return nil, err
	}
	review.SetGroupVersionKind(r.version.WithKind("TemplateReview"))
	if len(options.DryRun) > 0 {
		return review, nil
	}
	message := revoker + " revoked the approval"
	if given.Message != "" {
		message += ": " + given.Message
	}
	condition := metav1.Condition{Type: v1beta1.TemplateApproved, Status: metav1.ConditionFalse, Reason: v1beta1.ReasonRevoked, Message: message, ObservedGeneration: template.Generation}
	template.ResourceVersion = "" // whatever the template is
	if _, err := r.Keys.Change(ctx, func(keys *approvals.Keyring) { keys.End(template.UID) }); err != nil {
		return nil, keysAnswer(err)
	}
	if err := r.write(ctx, template, nil, condition); err != nil {
		return nil, err
	}
	r.Events.Event(template, corev1.EventTypeNormal, v1beta1.ReasonRevoked, texts.ShortenCharacters(message, maxText-24))
	audit.AddAuditAnnotation(ctx, digestAuditAnnotation, review.Digest)
	review.Approved, review.Approval, review.Reason = false, nil, ""
	return review, nil
}
