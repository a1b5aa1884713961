package apiserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/texts"
)

// reviewTimeout bounds a check of permissions.
const reviewTimeout = 5 * time.Second

// maxName bounds the names of namespaces in messages, in bytes.
const maxName = 63

// requireApproval reports whether the target namespace takes VirtualMachines of approved templates only. The error denies
// a template that is not approved, or is not from a namespace that the target trusts.
func (p *processing) requireApproval(ctx context.Context, template *v1beta1.VirtualMachineTemplate, target, digest string) (bool, error) {
	namespace, err := p.Cluster.Namespace(ctx, target)
	if err != nil {
		return false, asReadAnswer(err, "read the namespace")
	}
	labelled := v1beta1.ApprovedOnly(namespace.Labels)
	if !labelled && !p.RequireApproval {
		return false, nil
	}
	trusted, listed := v1beta1.TrustedNamespaces(namespace.Annotations)
	if (labelled || listed) && template.Namespace != target && !slices.Contains(trusted, template.Namespace) {
		return true, forbidden(template.Name, fmt.Sprintf("namespace %s does not trust templates of namespace %s; it trusts: %s",
			target, template.Namespace, texts.Shorten(strings.Join(append([]string{target}, trusted...), ", "), maxWarning/2)))
	}
	keys, err := p.Keys.Read(ctx)
	if err != nil {
		return true, keysAnswer(err)
	}
	condition := templates.ApprovalCondition(template, digest, keys)
	if condition.Status == metav1.ConditionTrue {
		return true, nil
	}
	where := "this cluster requires approved templates"
	if labelled {
		where = fmt.Sprintf("namespace %s requires approved templates", target)
	}
	state := fmt.Sprintf("template %s/%s is not approved", template.Namespace, template.Name)
	switch {
	case condition.Reason == v1beta1.ReasonChanged:
		state = fmt.Sprintf("template %s/%s changed after its approval", template.Namespace, template.Name)
	case condition.Reason != v1beta1.ReasonNotApproved:
		state += ": " + condition.Message
	}
	return true, forbidden(template.Name, fmt.Sprintf("%s, and %s; an approver must approve the digest %s", where, state, digest))
}

// forbidden is a denial.
func forbidden(name, message string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: subresources.Group, Resource: subresources.Resource}, name, fmt.Errorf("%s", message))
}

// authorizeTarget requires that the user may create VirtualMachines of other namespaces' templates in the target.
func (p *processing) authorizeTarget(ctx context.Context, template *v1beta1.VirtualMachineTemplate, target string) error {
	user, ok := request.UserFrom(ctx)
	if !ok {
		return apierrors.NewInternalError(fmt.Errorf("the request has no user"))
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	decision, reason, err := p.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: user, Verb: "create", Namespace: target, APIGroup: subresources.Group, APIVersion: p.version.Version,
		Resource: subresources.Resource, Subresource: subresources.Instantiate, Name: template.Name, ResourceRequest: true,
	})
	if decision == authorizer.DecisionAllow {
		return nil
	}
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("virtward could not check the permission: %w", err))
	}
	message := fmt.Sprintf("user %q cannot create resource %q in API group %q in the namespace %q, which is needed for templates of other namespaces",
		texts.Shorten(user.GetName(), maxWarning), subresources.Resource+"/"+subresources.Instantiate, subresources.Group, texts.Shorten(target, maxName))
	if reason != "" {
		message += ": " + texts.Shorten(reason, maxWarning)
	}
	return forbidden(template.Name, message)
}
