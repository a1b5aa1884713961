package planes

import (
	"context"
	"fmt"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sentinel is the name of objects whose effect shows that the API server has noticed all earlier changes of their kinds.
const sentinel = "restored"

// noticed waits until the control plane has noticed that roles, guards and webhooks are deleted: it reads them a moment later. It
// creates one object of each of their kinds, waits until it takes effect, and deletes it. A role takes effect through another one,
// which has its rules, so the controller of these has noticed the changes too.
func (b *baseline) noticed(ctx context.Context) error {
	objects := append(roles(), guards()...)
	for _, object := range objects {
		if err := b.plane.Client().Create(ctx, object); err != nil {
			return err
		}
	}
	for _, effective := range []func(context.Context) (bool, error){
		b.allows(""), b.allows(metav1.NamespaceDefault),
		b.denies("policy", policyDenies(sentinel)), b.denies("validating", webhookFails("validating")), b.denies("mutating", webhookFails("mutating")),
	} {
		if err := until(ctx, effective); err != nil {
			return err
		}
	}
	for _, object := range objects {
		if err := b.plane.Client().Delete(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

func until(ctx context.Context, holds func(context.Context) (bool, error)) error {
	for {
		if done, err := holds(ctx); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until the API server notices a change: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// roles grant the user of the sentinel two permissions: one in a namespace, and one by a role that has the rules of another.
func roles() []client.Object {
	const others = sentinel + "-aggregated"
	label := map[string]string{sentinel: "true"}
	meta, namespaced := metav1.ObjectMeta{Name: sentinel, Labels: label}, metav1.ObjectMeta{Name: sentinel, Namespace: metav1.NamespaceDefault}
	rule := func(resource string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{APIGroups: []string{sentinel}, Resources: []string{resource}, Verbs: []string{"get"}}}
	}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: sentinel}}
	return []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rule("cluster")},
		&rbacv1.ClusterRole{
			ObjectMeta:      metav1.ObjectMeta{Name: others},
			AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: label}}},
		},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: others}},
		&rbacv1.Role{ObjectMeta: namespaced, Rules: rule(metav1.NamespaceDefault)},
		&rbacv1.RoleBinding{ObjectMeta: namespaced, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: sentinel}},
	}
}

// allows reports whether the user of the sentinel has its permission in a namespace, or in the cluster.
func (b *baseline) allows(namespace string) func(context.Context) (bool, error) {
	resource := namespace
	if resource == "" {
		resource = "cluster"
	}
	return func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: sentinel, ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Group: sentinel, Resource: resource, Verb: "get"},
		}}
		err := b.plane.Client().Create(ctx, review)
		return review.Status.Allowed, err
	}
}

// guards deny one ConfigMap each, by its name. No server answers the webhooks.
func guards() []client.Object {
	meta := metav1.ObjectMeta{Name: sentinel}
	rule := admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}
	rules, fail, none := []admissionregistrationv1.RuleWithOperations{rule}, admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	closed := admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")}
	only := func(name string) []admissionregistrationv1.MatchCondition {
		return []admissionregistrationv1.MatchCondition{{Name: "only", Expression: fmt.Sprintf("object.metadata.name == '%s-%s'", sentinel, name)}}
	}
	return []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail, MatchConditions: only("policy"), Validations: []admissionregistrationv1.Validation{{Expression: "false"}},
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: rule}}},
		}},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: sentinel, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: webhookName("validating"), ClientConfig: closed, Rules: rules, FailurePolicy: &fail, SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"}, MatchConditions: only("validating"),
		}}},
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: webhookName("mutating"), ClientConfig: closed, Rules: rules, FailurePolicy: &fail, SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"}, MatchConditions: only("mutating"),
		}}},
	}
}

func webhookName(name string) string { return name + "." + sentinel + ".example" }

// policyDenies is what the API server answers where a policy with a binding of its name denies a request.
func policyDenies(name string) string {
	return fmt.Sprintf("ValidatingAdmissionPolicy '%[1]s' with binding '%[1]s' denied request", name)
}

// webhookFails is what the API server answers where a webhook of the sentinel has no server.
func webhookFails(name string) string {
	return fmt.Sprintf("failed calling webhook %q", webhookName(name))
}

// denies reports whether a guard of the sentinel denies its ConfigMap with a message.
func (b *baseline) denies(name, message string) func(context.Context) (bool, error) {
	return b.denied(sentinel+"-"+name, message)
}

// denied reports whether a ConfigMap of a name is denied with a message. Another guard, whose deletion the API server has not noticed,
// has another message.
func (b *baseline) denied(name, message string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
		err := b.plane.Client().Create(ctx, object, client.DryRunAll)
		if err == nil || apierrors.IsAlreadyExists(err) {
			return false, nil
		}
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsInternalError(err) {
			return strings.Contains(err.Error(), message), nil
		}
		return false, err
	}
}
