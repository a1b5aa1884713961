package rollout

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/rollouts/fleet"
	"github.com/virtward/virtward/texts"
)

// Authorizer reports whether a user has a permission now.
type Authorizer interface {
	// Authorize returns why a user does not have a permission; empty if the user has it.
	Authorize(ctx context.Context, user authenticationv1.UserInfo, permission authorizationv1.ResourceAttributes) (denied string, err error)
}

// Reviews authorizes by SubjectAccessReviews. They are not cached.
type Reviews struct{ Client client.Client }

// Authorize implements Authorizer.
func (r Reviews) Authorize(ctx context.Context, user authenticationv1.UserInfo, permission authorizationv1.ResourceAttributes) (string, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, ResourceAttributes: &permission,
	}}
	for key, values := range user.Extra {
		if review.Spec.Extra == nil {
			review.Spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		review.Spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	if err := r.Client.Create(ctx, review); err != nil {
		return "", fmt.Errorf("reviewing the permissions of %s: %w", user.Username, err)
	}
	if review.Status.Allowed {
		return "", nil
	}
	resource := permission.Resource
	if permission.Subresource != "" {
		resource += "/" + permission.Subresource
	}
	return fmt.Sprintf("the requester %s is not permitted to %s %s.%s", texts.Shorten(user.Username, 128), permission.Verb, resource, permission.Group), nil
}

// permissionFor is the permission that the requester of a rollout needs for a write.
func permissionFor(verb fleet.Verb, namespace, name string) authorizationv1.ResourceAttributes {
	p := authorizationv1.ResourceAttributes{Namespace: namespace, Group: apikinds.VirtualMachines.Group, Version: "v1", Resource: apikinds.VirtualMachines.Plural, Verb: "patch", Name: name}
	switch verb {
	case fleet.Restart:
		p.Group, p.Subresource, p.Verb = subresources, "restart", "update"
	case fleet.Migrate:
		p.Resource, p.Verb, p.Name = apikinds.Migrations.Plural, "create", ""
	}
	return p
}

// authorize reads the requester, and finds out whether the requester has all permissions that the rollout uses.
func (r *Reconciler) authorize(ctx context.Context, o *observed) error {
	rollout := o.input.Rollout
	missing, err := r.Guards.Missing(ctx, rollout)
	if err != nil {
		return err
	}
	if missing != "" {
		o.input.NotAuthorized = "the requester is not verified: " + missing
		return nil
	}
	requester, err := v1alpha1.RequesterOf(rollout)
	if err != nil {
		o.input.NotAuthorized = fmt.Sprintf("the requester is unknown: %s", err)
		return nil
	}
	o.requester = requester
	verbs := []fleet.Verb{fleet.Change}
	for _, allowed := range rollout.Spec.Allow {
		switch allowed {
		case v1alpha1.AllowMigrate:
			verbs = append(verbs, fleet.Migrate)
		case v1alpha1.AllowRestart:
			verbs = append(verbs, fleet.Restart)
		}
	}
	for _, verb := range verbs {
		if o.input.NotAuthorized, err = r.Authorizer.Authorize(ctx, requester, permissionFor(verb, rollout.Namespace, "")); err != nil || o.input.NotAuthorized != "" {
			return err
		}
	}
	return r.authorizeApprovedOnly(ctx, o)
}

// authorizeApprovedOnly checks the permission that changes of virtual machines need in an approved-only namespace. Virtward's
// account has it.
func (r *Reconciler) authorizeApprovedOnly(ctx context.Context, o *observed) (err error) {
	namespace := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: o.input.Rollout.Namespace}}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace); err != nil {
		return fmt.Errorf("reading the namespace %s: %w", namespace.Name, err)
	}
	if namespace.Labels[v1beta1.ApprovedOnlyLabel] != "true" {
		return nil
	}
	o.input.NotAuthorized, err = r.Authorizer.Authorize(ctx, o.requester, authorizationv1.ResourceAttributes{
		Namespace: namespace.Name, Group: v1beta1.GroupVersion.Group, Version: v1beta1.GroupVersion.Version, Resource: apikinds.Templates.Plural, Verb: admissionpolicies.VerbBypassApproval,
	})
	return err
}
