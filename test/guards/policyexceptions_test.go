package guards

import (
	"fmt"
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

// apply sets what a case says of an exception.
func apply(e *policyv1alpha1.VirtualMachinePolicyException, content *admissionpolicies.PolicyExceptionContent, user string) {
	e.Spec.Policies = append([]string{}, content.Policies...)
	for i := range content.Count {
		e.Spec.Policies = append(e.Spec.Policies, fmt.Sprintf("policy-%d", i))
	}
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
