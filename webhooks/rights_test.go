package webhooks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/virtward/virtward/test/build"
)

// reviewed makes Rights that are answered by a function, and notes the questions.
func reviewed(clock *testingclock.FakePassiveClock, answer func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error)) (*Rights, *[]authorizationv1.SubjectAccessReviewSpec) {
	client := fake.NewClientset()
	var asked []authorizationv1.SubjectAccessReviewSpec
	client.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		asked = append(asked, review.Spec)
		var err error
		review.Status, err = answer(review.Spec)
		return true, review, err
	})
	return NewRights(client.AuthorizationV1().SubjectAccessReviews(), clock), &asked
}

func TestAPolicyAsksWhatTheRequesterMay(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Now())
	var fails error
	rights, asked := reviewed(clock, func(spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: spec.User == "jane", Denied: spec.User == "mallory"}, fails
	})
	v := newValidator(t)
	v.Authorizer = rights
	under(t, v, `{enforcement: Deny, validations: [{message: you may not use it, fieldPath: spec.domain,
	  expression: "authorizer.group('g').resource('r').subresource('s').namespace('n').name('x').check('use').allowed()"}]}`)
	as := func(user string) []byte {
		return reviewOf(t, kindVM, build.VM("db").Obj(), func(r *admissionv1.AdmissionRequest) {
			r.UserInfo = authenticationv1.UserInfo{Username: user, UID: "7", Groups: []string{"devs"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"a"}}}
		})
	}
	for user, allowed := range map[string]bool{"jane": true, "eve": false, "mallory": false} {
		*asked = nil
		for range 2 {
			if response := evaluated(t, v, as(user)); response.Allowed != allowed {
				t.Errorf("%s: allowed %v, %q", user, response.Allowed, complaints(response))
			}
		}
		want := []authorizationv1.SubjectAccessReviewSpec{{
			User: user, UID: "7", Groups: []string{"devs"}, Extra: map[string]authorizationv1.ExtraValue{"scopes": {"a"}},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "use", Group: "g", Version: "*", Resource: "r", Subresource: "s", Namespace: "n", Name: "x"},
		}}
		if diff := cmp.Diff(want, *asked); diff != "" {
			t.Errorf("asked about %s, twice (-want +got):\n%s", user, diff)
		}
	}
	*asked, fails = nil, errors.New("no connection")
	if response := evaluated(t, v, as("jane")); !response.Allowed || len(*asked) != 0 {
		t.Errorf("what was answered a moment ago is asked again: allowed %v", response.Allowed)
	}
	clock.SetTime(clock.Now().Add(rightsFor + time.Second))
	if response := evaluated(t, v, as("jane")); response.Allowed || len(*asked) != 1 {
		t.Errorf("an answer that is too old counts: allowed %v, asked %d times", response.Allowed, len(*asked))
	}
	fails = nil
	if response := evaluated(t, v, as("jane")); !response.Allowed || len(*asked) != 2 {
		t.Errorf("a failure was kept: %q", complaints(response))
	}

	v.Authorizer = nil
	response := evaluated(t, v, as("jane"))
	if got := complaints(response); response.Allowed || len(got) != 1 || !strings.Contains(got[0], "the policy cannot be decided: spec.validations[0].expression: ") {
		t.Errorf("without an authorizer: allowed %v, %q", response.Allowed, got)
	}
}

func TestQuestionsAboutRights(t *testing.T) {
	rights, asked := reviewed(testingclock.NewFakePassiveClock(time.Now()), func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true}, nil
	})
	v := newValidator(t)
	v.Authorizer = rights
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
		*asked = nil
		under(t, v, fmt.Sprintf(`{enforcement: Deny, validations: [{message: m, fieldPath: spec.domain, expression: %q}]}`, expression))
		response := evaluated(t, v, reviewOf(t, kindVM, build.VM("db").Obj(), func(r *admissionv1.AdmissionRequest) {
			r.UserInfo.Username, r.Resource = "jane", metav1.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"}
		}))
		if diff := cmp.Diff([]authorizationv1.SubjectAccessReviewSpec{want}, *asked); diff != "" || !response.Allowed {
			t.Errorf("%s: allowed %v, %q, asked (-want +got):\n%s", expression, response.Allowed, complaints(response), diff)
		}
	}
}

// All questions of a request together take no longer than the API server waits for us.
func TestQuestionsAboutRightsEnd(t *testing.T) {
	v := newValidator(t)
	asked := 0
	v.Authorizer = authorizerFunc(func(ctx context.Context) error {
		asked++
		<-ctx.Done()
		return ctx.Err()
	})
	under(t, v, `{enforcement: Deny, validations: [{message: m, fieldPath: spec.domain, expression: "['a', 'b', 'c'].exists(v, authorizer.group('g').resource('r').check(v).allowed())"}]}`)
	started := time.Now()
	response := evaluated(t, v, reviewOf(t, kindVM, build.VM("db").Obj()))
	if took := time.Since(started); response.Allowed || took > 2*questionsTime || took < questionsTime/2 || asked != 3 {
		t.Errorf("allowed %v after %v and %d questions", response.Allowed, took, asked)
	}
}

// authorizerFunc answers with an error, and with no opinion.
type authorizerFunc func(context.Context) error

func (f authorizerFunc) Authorize(ctx context.Context, _ authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", f(ctx)
}
