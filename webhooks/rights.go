package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/utils/clock"
)

const (
	// rightsFor is how long an answer of the API server about somebody's rights is taken for granted, yes or no.
	rightsFor = 10 * time.Second
	// maxRights and maxQuestion bound how many answers are kept, and the bytes of a question whose answer is.
	maxRights   = 4096
	maxQuestion = 8 << 10
	// questionsTime is how long the policies of one request may wait, all together, for what the API server says
	// about rights: less than the API server waits for us.
	questionsTime = time.Second
)

// Rights tell what somebody may do, by asking the API server in SubjectAccessReviews. It is safe for concurrent use.
type Rights struct {
	client authorizationv1client.SubjectAccessReviewInterface
	known  *cache.LRUExpireCache
}

var _ authorizer.UnconditionalAuthorizer = (*Rights)(nil)

// NewRights prepares to ask. The clock says how old an answer is.
func NewRights(client authorizationv1client.SubjectAccessReviewInterface, clock clock.PassiveClock) *Rights {
	return &Rights{client: client, known: cache.NewLRUExpireCacheWithClock(maxRights, clock)}
}

// Authorize asks whether somebody may do something. What cannot be asked is no opinion, with an error.
func (r *Rights) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	spec, err := question(attributes)
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	key, err := json.Marshal(spec)
	if err != nil {
		return authorizer.DecisionNoOpinion, "", fmt.Errorf("asking about rights: %w", err)
	}
	if known, ok := r.known.Get(string(key)); ok {
		if status, ok := known.(authorizationv1.SubjectAccessReviewStatus); ok {
			return decided(status)
		}
	}
	answer, err := r.client.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return authorizer.DecisionNoOpinion, "", fmt.Errorf("asking about rights: %w", err)
	}
	if len(key) <= maxQuestion {
		r.known.Add(string(key), answer.Status, rightsFor)
	}
	return decided(answer.Status)
}

// decided is what an answer means. An error of evaluation, of one authorizer among several, is told beside it.
func decided(status authorizationv1.SubjectAccessReviewStatus) (authorizer.Decision, string, error) {
	switch {
	case status.Allowed:
		return authorizer.DecisionAllow, status.Reason, nil
	case status.Denied:
		return authorizer.DecisionDeny, status.Reason, nil
	}
	return authorizer.DecisionNoOpinion, status.Reason, nil
}

// question is what the API server is asked.
func question(attributes authorizer.Attributes) (authorizationv1.SubjectAccessReviewSpec, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{}
	if user := attributes.GetUser(); user != nil {
		spec.User, spec.UID, spec.Groups = user.GetName(), user.GetUID(), user.GetGroups()
		for key, values := range user.GetExtra() {
			if spec.Extra == nil {
				spec.Extra = map[string]authorizationv1.ExtraValue{}
			}
			spec.Extra[key] = values
		}
	}
	if !attributes.IsResourceRequest() {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: attributes.GetPath(), Verb: attributes.GetVerb()}
		return spec, nil
	}
	spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Namespace: attributes.GetNamespace(), Verb: attributes.GetVerb(), Group: attributes.GetAPIGroup(), Version: attributes.GetAPIVersion(),
		Resource: attributes.GetResource(), Subresource: attributes.GetSubresource(), Name: attributes.GetName(),
	}
	byField, err := attributes.GetFieldSelector()
	if err != nil {
		return spec, fmt.Errorf("asking about rights: the selector of fields: %w", err)
	}
	byLabel, err := attributes.GetLabelSelector()
	if err != nil {
		return spec, fmt.Errorf("asking about rights: the selector of labels: %w", err)
	}
	spec.ResourceAttributes.FieldSelector, spec.ResourceAttributes.LabelSelector = fieldSelector(byField), labelSelector(byLabel)
	return spec, nil
}

// fieldSelector is nil if everything is selected.
func fieldSelector(requirements fields.Requirements) *authorizationv1.FieldSelectorAttributes {
	if len(requirements) == 0 {
		return nil
	}
	made := &authorizationv1.FieldSelectorAttributes{}
	for _, r := range requirements {
		operator := metav1.FieldSelectorOpIn
		if r.Operator == selection.NotEquals {
			operator = metav1.FieldSelectorOpNotIn
		}
		made.Requirements = append(made.Requirements, metav1.FieldSelectorRequirement{Key: r.Field, Operator: operator, Values: []string{r.Value}})
	}
	return made
}

// labelSelector is nil if everything is selected.
func labelSelector(requirements k8slabels.Requirements) *authorizationv1.LabelSelectorAttributes {
	if len(requirements) == 0 {
		return nil
	}
	operators := map[selection.Operator]metav1.LabelSelectorOperator{
		selection.In: metav1.LabelSelectorOpIn, selection.Equals: metav1.LabelSelectorOpIn, selection.DoubleEquals: metav1.LabelSelectorOpIn,
		selection.NotIn: metav1.LabelSelectorOpNotIn, selection.NotEquals: metav1.LabelSelectorOpNotIn,
		selection.Exists: metav1.LabelSelectorOpExists, selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist,
	}
	made := &authorizationv1.LabelSelectorAttributes{}
	for i := range requirements {
		r := &requirements[i]
		if operator, known := operators[r.Operator()]; known { // without one, the question is about more, and a yes harder to get
			made.Requirements = append(made.Requirements, metav1.LabelSelectorRequirement{Key: r.Key(), Operator: operator, Values: r.Values().List()})
		}
	}
	return made
}

// questions ask an authorizer on behalf of one request, and no longer than its policies may wait.
type questions struct {
	authorizer.UnconditionalAuthorizer

	// request is the context of the request; waiting is that of the questions, from the first one on.
	request, waiting context.Context
	cancel           context.CancelFunc
}

// Authorize asks within the time of the request. The context of the caller says nothing: CEL has none.
func (q *questions) Authorize(_ context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	if q.waiting == nil {
		q.waiting, q.cancel = context.WithTimeout(q.request, questionsTime)
	}
	return q.UnconditionalAuthorizer.Authorize(q.waiting, attributes)
}

// done ends what is still being asked.
func (q *questions) done() {
	if q.cancel != nil {
		q.cancel()
	}
}
