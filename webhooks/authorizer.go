package webhooks

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/cache"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/utils/clock"

	"github.com/virtward/virtward/references"
)

const (
	// decisionTTL is how long a decision is cached, allowed or not. It is the default of Kubernetes' delegating authorizer.
	decisionTTL = 10 * time.Second
	// maxDecisions bounds the cached decisions, maxReason the bytes of the reason of each. A decision with a longer reason
	// is not cached.
	maxDecisions = 4096
	maxReason    = 1 << 10
	// MaxDecisions is the most memory of the cached decisions, in bytes: a reason, and the key and the entries of the
	// cache, which take less than half a kilobyte.
	MaxDecisions = maxDecisions * (maxReason + 512)
	// authorizationTimeout bounds the time that all SubjectAccessReviews of one request take together. It is shorter than
	// the timeout of the webhook. The reviews of policies that do not deny have apartTimeout instead: these policies are
	// evaluated after all that deny, and every user with the right to write policies can write one.
	authorizationTimeout = time.Second
	apartTimeout         = references.ApartTimeout
)

// reviewBackoff is the backoff between attempts of one SubjectAccessReview. All attempts fit into authorizationTimeout.
var reviewBackoff = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 4}

// Authorizer reports what a user may do. It sends SubjectAccessReviews to the API server, and caches the decisions. It
// is safe for concurrent use.
type Authorizer struct {
	client  authorizationv1client.SubjectAccessReviewInterface
	cache   *cache.LRUExpireCache // the SHA-256 of a review to its decision
	clock   clock.PassiveClock
	metrics *Metrics
}

var _ authorizer.UnconditionalAuthorizer = (*Authorizer)(nil)

// decision is the answer to a SubjectAccessReview.
type decision struct {
	verdict authorizer.Decision
	reason  string
}

// NewAuthorizer returns an Authorizer with an empty cache.
func NewAuthorizer(client authorizationv1client.SubjectAccessReviewInterface, clock clock.PassiveClock, metrics *Metrics) *Authorizer {
	return &Authorizer{client: client, cache: cache.NewLRUExpireCacheWithClock(maxDecisions, clock), clock: clock, metrics: metrics}
}

// Authorize returns the API server's decision and its reason. With an error, the decision is NoOpinion.
func (a *Authorizer) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	spec, err := reviewSpec(attributes)
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	encoded, err := json.Marshal(spec)
	if err != nil {
		return authorizer.DecisionNoOpinion, "", fmt.Errorf("encoding a SubjectAccessReview: %w", err)
	}
	key := sha256.Sum256(encoded)
	if cached, ok := a.cache.Get(key); ok {
		if d, ok := cached.(decision); ok {
			a.metrics.reviewHits.Inc()
			return d.verdict, d.reason, nil
		}
	}
	d, err := a.review(ctx, spec)
	if err != nil {
		return authorizer.DecisionNoOpinion, "", fmt.Errorf("creating a SubjectAccessReview: %w", err)
	}
	if len(d.reason) <= maxReason {
		a.cache.Add(key, d, decisionTTL)
	}
	return d.verdict, d.reason, nil
}

// review sends a SubjectAccessReview. It repeats one that fails transiently.
func (a *Authorizer) review(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (d decision, err error) {
	started, result := a.clock.Now(), "failed"
	defer func() { a.metrics.reviews.WithLabelValues(result).Observe(a.clock.Since(started).Seconds()) }()
	var review *authorizationv1.SubjectAccessReview
	waitErr := wait.ExponentialBackoffWithContext(ctx, reviewBackoff, func(ctx context.Context) (bool, error) {
		review, err = a.client.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		return !transient(err), nil
	})
	switch {
	case err != nil: // says more than that the attempts or the time are exhausted
		return decision{}, err
	case waitErr != nil:
		return decision{}, waitErr
	case review.Status.Denied: // before Allowed: a status with both is invalid
		result = "denied"
		return decision{authorizer.DecisionDeny, review.Status.Reason}, nil
	case review.Status.Allowed:
		result = "allowed"
		return decision{authorizer.DecisionAllow, review.Status.Reason}, nil
	}
	result = "denied"
	return decision{authorizer.DecisionNoOpinion, review.Status.Reason}, nil
}

// transient reports whether a repeated request may succeed. The list is that of Kubernetes' delegating authorizer.
func transient(err error) bool {
	_, delayed := apierrors.SuggestsClientDelay(err)
	return delayed || utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err)
}

// reviewSpec returns the SubjectAccessReview for attributes.
func reviewSpec(attributes authorizer.Attributes) (authorizationv1.SubjectAccessReviewSpec, error) {
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
		return spec, fmt.Errorf("reading the field selector of a check: %w", err)
	}
	byLabel, err := attributes.GetLabelSelector()
	if err != nil {
		return spec, fmt.Errorf("reading the label selector of a check: %w", err)
	}
	spec.ResourceAttributes.FieldSelector, spec.ResourceAttributes.LabelSelector = fieldSelector(byField), labelSelector(byLabel)
	return spec, nil
}

// fieldSelector returns nil without requirements.
func fieldSelector(requirements fields.Requirements) *authorizationv1.FieldSelectorAttributes {
	if len(requirements) == 0 {
		return nil
	}
	selector := &authorizationv1.FieldSelectorAttributes{}
	for _, r := range requirements {
		operator := metav1.FieldSelectorOpIn
		if r.Operator == selection.NotEquals {
			operator = metav1.FieldSelectorOpNotIn
		}
		selector.Requirements = append(selector.Requirements, metav1.FieldSelectorRequirement{Key: r.Field, Operator: operator, Values: []string{r.Value}})
	}
	return selector
}

// labelSelector returns nil without requirements that a SubjectAccessReview can express.
func labelSelector(requirements k8slabels.Requirements) *authorizationv1.LabelSelectorAttributes {
	operators := map[selection.Operator]metav1.LabelSelectorOperator{
		selection.In: metav1.LabelSelectorOpIn, selection.Equals: metav1.LabelSelectorOpIn, selection.DoubleEquals: metav1.LabelSelectorOpIn,
		selection.NotIn: metav1.LabelSelectorOpNotIn, selection.NotEquals: metav1.LabelSelectorOpNotIn,
		selection.Exists: metav1.LabelSelectorOpExists, selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist,
	}
	selector := &authorizationv1.LabelSelectorAttributes{}
	for i := range requirements {
		r := &requirements[i]
		// Without a requirement, the review asks for a broader permission, so it never allows too much.
		if operator, known := operators[r.Operator()]; known {
			selector.Requirements = append(selector.Requirements, metav1.LabelSelectorRequirement{Key: r.Key(), Operator: operator, Values: r.Values().List()})
		}
	}
	if len(selector.Requirements) == 0 {
		return nil
	}
	return selector
}

// requestAuthorizer bounds the time that checks of one request take together. Only the time of the checks counts, not that between
// them. It belongs to one goroutine.
type requestAuthorizer struct {
	authorizer.UnconditionalAuthorizer

	// request is the context of the request, and left the time that is left.
	request context.Context
	left    time.Duration
}

// Authorize calls the authorizer with the context of the request. It ignores the context of the caller, because CEL
// passes none. Without time, only the cache answers.
func (r *requestAuthorizer) Authorize(_ context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	limited, cancel := context.WithTimeout(r.request, r.left)
	defer cancel()
	began := time.Now()
	decision, reason, err := r.UnconditionalAuthorizer.Authorize(limited, attributes)
	r.left -= time.Since(began)
	return decision, reason, err
}
