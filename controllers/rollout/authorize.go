package rollout

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
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
	return nil
}
