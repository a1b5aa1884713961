package guards

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/admissionpolicies"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

const exceptionsDoc = "docs/policy-exceptions.md"

// exceptionCases prepares the users of exceptions and the objects of the cases, before the guard is there. It returns
// the cases.
func (c *policyCluster) exceptionCases(t *testing.T) []admissionpolicies.PolicyExceptionCase {
	t.Helper()
	cases, err := admissionpolicies.PolicyExceptionCases()
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range documented(t, exceptionsDoc, "ClusterRole") {
		c.create(t, role)
	}
	c.user(t, "writer", "exception-writer")
	c.user(t, "exempter", "exception-writer", "exempter-of-all")
	c.user(t, "exempter-of-caps", "exception-writer", "exempter-of-caps")
	c.user(t, "exempter-of-16", "exception-writer", "exempter-of-16")
	for i := range cases {
		if cases[i].Old != nil {
			c.create(t, exceptionOf(i, cases[i].Old, "exempter"))
		}
	}
	return cases
}

func exceptionOf(i int, content *admissionpolicies.PolicyExceptionContent, user string) *policyv1alpha1.VirtualMachinePolicyException {
	e := &policyv1alpha1.VirtualMachinePolicyException{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("case-%d", i)},
		Spec: policyv1alpha1.VirtualMachinePolicyExceptionSpec{
			VirtualMachines: []string{"legacy"}, Reason: "a reason", Expires: metav1.NewTime(time.Date(2126, 1, 2, 3, 4, 5, 0, time.UTC)),
		},
	}
	apply(e, content, user)
	return e
}

// numbered returns the names of policies that cases count: policy-0, policy-1 and so on.
func numbered(count int) []string {
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("policy-%d", i)
	}
	return names
}

// eachExempted denies an exception of sixteen policies if the verb is missing for one of them, at any place.
func (c *policyCluster) eachExempted(t *testing.T) {
	const user = "exempter-of-16"
	create := func(policies []string) error {
		return c.users[user].Create(t.Context(), exceptionOf(0, &admissionpolicies.PolicyExceptionContent{Policies: policies, By: user}, user), client.DryRunAll)
	}
	if err := create(numbered(16)); err != nil {
		t.Fatalf("the verb for all sixteen does not count: %v", err)
	}
	for i := range 16 {
		policies := numbered(16)
		policies[i] = "other"
		expectFrom(t, admissionpolicies.PolicyExceptions, "virtualmachinepolicyexceptions", create(policies), "case-0",
			"exception-exempt: spec.policies: you need the verb exempt on virtualmachinepolicies.policy.virtward.io/other")
	}
}

// apply sets what a case says of an exception.
func apply(e *policyv1alpha1.VirtualMachinePolicyException, content *admissionpolicies.PolicyExceptionContent, user string) {
	e.Spec.Policies = slices.Concat(content.Policies, numbered(content.Count))
	if content.Reason != "" {
		e.Spec.Reason = content.Reason
	}
	e.Labels, e.Annotations = content.Labels, nil
	switch content.By {
	case "none":
		return
	case "":
	default:
		user = content.By
	}
	e.Annotations = map[string]string{policyv1alpha1.AnnotationExemptedBy: user}
}

func (c *policyCluster) evaluateException(t *testing.T, i int, each admissionpolicies.PolicyExceptionCase) {
	user := c.users[each.User]
	if user == nil {
		t.Fatalf("there is no user %s", each.User)
	}
	object := exceptionOf(i, &admissionpolicies.PolicyExceptionContent{}, each.User)
	var err error
	switch {
	case each.Old == nil:
		err = user.Create(t.Context(), exceptionOf(i, each.New, each.User), client.DryRunAll)
	case each.New == nil:
		err = user.Delete(t.Context(), object, client.DryRunAll)
	default:
		if err := user.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		apply(object, each.New, each.User)
		err = user.Update(t.Context(), object, client.DryRunAll)
	}
	expectFrom(t, admissionpolicies.PolicyExceptions, "virtualmachinepolicyexceptions", err, object.Name, each.Denied)
}
