package webhooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/test/build"
)

// reviewStatus answers a SubjectAccessReview.
type reviewStatus func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error)

// authorizerOf returns an Authorizer whose reviews a function answers, and the reviews that it received.
func authorizerOf(clock *testingclock.FakePassiveClock, metrics *Metrics, answer reviewStatus) (*Authorizer, *[]authorizationv1.SubjectAccessReviewSpec) {
	client := fake.NewClientset()
	var reviews []authorizationv1.SubjectAccessReviewSpec
	client.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		reviews = append(reviews, review.Spec)
		var err error
		review.Status, err = answer(review.Spec)
		return true, review, err
	})
	return NewAuthorizer(client.AuthorizationV1().SubjectAccessReviews(), clock, metrics), &reviews
}

func TestPolicyChecksThePermissionsOfTheRequester(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Now())
	var fails error
	v := newValidator(t)
	checks, reviews := authorizerOf(clock, v.Metrics, func(spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: spec.User == "jane", Denied: spec.User == "mallory"}, fails
	})
	v.Authorizer = checks
	under(t, v, `{enforcement: Deny, validations: [{message: you may not use it, fieldPath: spec.domain,
	  expression: "authorizer.group('g').resource('r').subresource('s').namespace('n').name('x').check('use').allowed()"}]}`)
	as := func(user string) []byte {
		return reviewOf(t, apikinds.VirtualMachine, build.VM("db").Obj(), func(r *admissionv1.AdmissionRequest) {
			r.UserInfo = authenticationv1.UserInfo{Username: user, UID: "7", Groups: []string{"devs"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"a"}}}
		})
	}
	for user, allowed := range map[string]bool{"jane": true, "eve": false, "mallory": false} {
		*reviews = nil
		for range 2 {
			if response := evaluated(t, v, as(user)); response.Allowed != allowed {
				t.Errorf("%s: allowed %v, %q", user, response.Allowed, complaints(response))
			}
		}
		want := []authorizationv1.SubjectAccessReviewSpec{{
			User: user, UID: "7", Groups: []string{"devs"}, Extra: map[string]authorizationv1.ExtraValue{"scopes": {"a"}},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "use", Group: "g", Version: "*", Resource: "r", Subresource: "s", Namespace: "n", Name: "x"},
		}}
		if diff := cmp.Diff(want, *reviews); diff != "" {
			t.Errorf("reviews of two checks for %s (-want +got):\n%s", user, diff)
		}
	}
	*reviews, fails = nil, errors.New("no connection")
	if response := evaluated(t, v, as("jane")); !response.Allowed || len(*reviews) != 0 {
		t.Errorf("a cached decision is not used: allowed %v", response.Allowed)
	}
	clock.SetTime(clock.Now().Add(decisionTTL + time.Second))
	if response := evaluated(t, v, as("jane")); response.Allowed || len(*reviews) != 1 {
		t.Errorf("an expired decision is used: allowed %v, %d reviews", response.Allowed, len(*reviews))
	}
	fails = nil
	if response := evaluated(t, v, as("jane")); !response.Allowed || len(*reviews) != 2 {
		t.Errorf("a failure is cached: %q", complaints(response))
	}

	v.Authorizer = nil
	response := evaluated(t, v, as("jane"))
	if got := complaints(response); response.Allowed || len(got) != 1 || !strings.Contains(got[0], "the policy cannot be evaluated: spec.validations[0].expression: ") {
		t.Errorf("without an authorizer: allowed %v, %q", response.Allowed, got)
	}
}

func TestSubjectAccessReviews(t *testing.T) {
	v := newValidator(t)
	checks, reviews := authorizerOf(testingclock.NewFakePassiveClock(time.Now()), v.Metrics, func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true}, nil
	})
	v.Authorizer = checks
	for expression, want := range map[string]authorizationv1.SubjectAccessReviewSpec{
		`authorizer.path('/healthz').check('get').allowed()`: {NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/healthz", Verb: "get"}},
		`authorizer.serviceAccount('shop', 'robot').group('').resource('pods').check('list').allowed()`: {
			User: "system:serviceaccount:shop:robot", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:shop"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Version: "*", Resource: "pods"},
		},
		`authorizer.requestResource.check('update').allowed()`: {ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "update", Group: "kubevirt.io", Version: "*", Resource: "virtualmachines", Namespace: "default", Name: "db",
		}},
		`authorizer.group('').resource('pods').fieldSelector('spec.nodeName=a,status.phase!=b').check('list').allowed()`: {ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "list", Version: "*", Resource: "pods", FieldSelector: &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{
				{Key: "spec.nodeName", Operator: "In", Values: []string{"a"}}, {Key: "status.phase", Operator: "NotIn", Values: []string{"b"}},
			}},
		}},
		`authorizer.group('').resource('pods').labelSelector('a=1,b in (1,2),c!=1,d,!e,f>1').check('list').allowed()`: {ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "list", Version: "*", Resource: "pods", LabelSelector: &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{
				{Key: "a", Operator: "In", Values: []string{"1"}},
				{Key: "b", Operator: "In", Values: []string{"1", "2"}},
				{Key: "c", Operator: "NotIn", Values: []string{"1"}},
				{Key: "d", Operator: "Exists", Values: []string{}},
				{Key: "e", Operator: "DoesNotExist", Values: []string{}},
			}},
		}},
	} {
		if want.User == "" {
			want.User = "jane"
		}
		*reviews = nil
		under(t, v, fmt.Sprintf(`{enforcement: Deny, validations: [{message: m, fieldPath: spec.domain, expression: %q}]}`, expression))
		response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, build.VM("db").Obj(), func(r *admissionv1.AdmissionRequest) {
			r.UserInfo.Username, r.Resource = "jane", metav1.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"}
		}))
		if diff := cmp.Diff([]authorizationv1.SubjectAccessReviewSpec{want}, *reviews); diff != "" || !response.Allowed {
			t.Errorf("%s: allowed %v, %q, reviews (-want +got):\n%s", expression, response.Allowed, complaints(response), diff)
		}
	}
}

// The answers of the API server that need care.
func TestAuthorizerDecisions(t *testing.T) {
	internal := apierrors.NewInternalError(errors.New("no leader"))
	long := strings.Repeat("r", maxReason+1)
	for name, c := range map[string]struct {
		status   authorizationv1.SubjectAccessReviewStatus
		failures []error // of the first attempts
		want     authorizer.Decision
		err      string
		reviews  int // of two checks
	}{
		"allowed":                 {status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}, want: authorizer.DecisionAllow, reviews: 1},
		"denied":                  {status: authorizationv1.SubjectAccessReviewStatus{Denied: true}, want: authorizer.DecisionDeny, reviews: 1},
		"no opinion":              {want: authorizer.DecisionNoOpinion, reviews: 1},
		"both":                    {status: authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}, want: authorizer.DecisionDeny, reviews: 1},
		"long reason":             {status: authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: long}, want: authorizer.DecisionAllow, reviews: 2},
		"transient failure":       {status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}, failures: []error{internal, syscall.ECONNRESET}, want: authorizer.DecisionAllow, reviews: 3},
		"lasting failure":         {failures: slices.Repeat([]error{internal}, 2*reviewBackoff.Steps), want: authorizer.DecisionNoOpinion, err: "creating a SubjectAccessReview: Internal error occurred: no leader", reviews: 2 * reviewBackoff.Steps},
		"failure without a retry": {failures: []error{errors.New("forbidden"), errors.New("forbidden")}, want: authorizer.DecisionNoOpinion, err: "creating a SubjectAccessReview: forbidden", reviews: 2},
	} {
		t.Run(name, func(t *testing.T) {
			v, failures := newValidator(t), c.failures
			a, reviews := authorizerOf(testingclock.NewFakePassiveClock(time.Now()), v.Metrics, func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
				if len(failures) == 0 {
					return c.status, nil
				}
				err := failures[0]
				failures = failures[1:]
				return authorizationv1.SubjectAccessReviewStatus{}, err
			})
			for range 2 {
				got, reason, err := a.Authorize(t.Context(), authorizer.AttributesRecord{Verb: "use", ResourceRequest: true})
				if got != c.want || reason != c.status.Reason || (c.err == "") != (err == nil) || err != nil && err.Error() != c.err {
					t.Errorf("decision %v, reason %q, error %v; want %v and %q", got, reason, err, c.want, c.err)
				}
			}
			if len(*reviews) != c.reviews {
				t.Errorf("%d reviews, want %d", len(*reviews), c.reviews)
			}
			if hits, want := testutil.ToFloat64(v.Metrics.reviewHits), map[bool]float64{true: 1}[c.reviews != 2 && c.err == ""]; hits != want {
				t.Errorf("%v cache hits, want %v", hits, want)
			}
		})
	}
}

// A label selector that a SubjectAccessReview cannot express is left out: the API server rejects an empty one.
func TestLabelSelectorWithoutAnExpressibleRequirement(t *testing.T) {
	requirements, err := labels.ParseToRequirements("f>1")
	if err != nil {
		t.Fatal(err)
	}
	if got := labelSelector(requirements); got != nil {
		t.Errorf("selector %v", got)
	}
}

// All checks of a request together take less time than the timeout of the webhook. Those of policies that do not deny take a quarter
// of it, and none of the time of policies that deny.
func TestAuthorizationTimeout(t *testing.T) {
	const policy = `{enforcement: %s, validations: [{message: m, fieldPath: spec.domain, expression: "['a', 'b', 'c'].exists(v, authorizer.group('g').resource('%s').check(v).allowed())"}]}`
	for name, c := range map[string]struct {
		policies []string
		// want are the times of the first checks, by the resource that they are about. checks is the number of all.
		want    map[string]time.Duration
		checks  int
		allowed bool
	}{
		"a policy that denies": {policies: []string{"Deny"}, want: map[string]time.Duration{"Deny0": authorizationTimeout}, checks: 3},
		"a policy that warns":  {policies: []string{"Warn"}, want: map[string]time.Duration{"Warn0": apartTimeout}, checks: 3, allowed: true},
		"a policy that audits": {policies: []string{"Audit"}, want: map[string]time.Duration{"Audit0": apartTimeout}, checks: 3, allowed: true},
		"several":              {policies: []string{"Audit", "Warn", "Deny", "Warn"}, want: map[string]time.Duration{"Deny2": authorizationTimeout, "Audit0": apartTimeout}, checks: 12},
	} {
		t.Run(name, func(t *testing.T) {
			v, first, checks := newValidator(t), map[string]time.Duration{}, 0
			v.Authorizer = authorizerFunc(func(ctx context.Context, attributes authorizer.Attributes) error {
				deadline, _ := ctx.Deadline()
				// What the first check leaves of its time, a later one may get.
				if left := time.Until(deadline).Round(apartTimeout); left > first[attributes.GetResource()] {
					first[attributes.GetResource()] = left
				}
				checks++
				<-ctx.Done()
				return ctx.Err()
			})
			var specs []string
			for i, enforcement := range c.policies {
				specs = append(specs, fmt.Sprintf(policy, enforcement, fmt.Sprintf("%s%d", enforcement, i)))
			}
			under(t, v, specs...)
			response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, build.VM("db").Obj()))
			if diff := cmp.Diff(c.want, first); diff != "" || checks != c.checks || response.Allowed != c.allowed {
				t.Errorf("allowed %v, %d checks, with these times (-want +got):\n%s", response.Allowed, checks, diff)
			}
		})
	}
}

// authorizerFunc returns NoOpinion and an error.
type authorizerFunc func(context.Context, authorizer.Attributes) error

func (f authorizerFunc) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", f(ctx, a)
}
