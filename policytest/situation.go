package policytest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
)

// DefaultUser sends the objects of cases that name nobody.
const DefaultUser = "suite"

// defaultNamespace is where objects are that name no namespace.
const defaultNamespace = "default"

// Situation is all that a case says, read and put together: what a cluster would have to hold, and what is sent to it.
type Situation struct {
	// Policies in the order in which the test names them, with the parameters of the case.
	Policies []*policyv1alpha1.VirtualMachinePolicy
	// Objects are those around the virtual machine. One of the case replaces one of the test that has its name.
	Objects []*unstructured.Unstructured
	// Object is what is sent, and Old what was there before an update; nil otherwise. Both have a namespace.
	Object, Old *unstructured.Unstructured
	Operation   string
	User        authenticationv1.UserInfo
	May         []Permission
	// Namespace is that of the object, with its labels.
	Namespace *corev1.Namespace
	Now       time.Time
	Facts     *platform.Facts
	// Arrived tells that a VirtualMachineInstance is evaluated as it is.
	Arrived bool

	written []written
	around  []manifests.Document
}

// Situation puts together what a case says. The error is a Problem.
func (s *Suite) Situation(test, one int) (*Situation, error) {
	t := &s.Tests[test]
	c := &t.Cases[one]
	inTest := index("tests", test)
	inCase := index(inTest+".cases", one)
	situation := &Situation{May: c.May, Operation: create, User: authenticationv1.UserInfo{Username: DefaultUser, Groups: []string{"system:authenticated"}}, Arrived: c.Arrived}
	if c.UserInfo != nil {
		situation.User = *c.UserInfo
	}
	for _, step := range []func() error{
		func() error { return s.readPolicies(situation, inTest, inCase, t, c) },
		func() error { return s.readObjects(situation, inTest, inCase, t, c) },
		func() error { return s.readSubject(situation, inTest, inCase, t, c) },
		func() error { return s.readNamespace(situation, inCase, c) },
		func() error { return s.readFacts(situation, inCase, t, c) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	situation.Now = start
	if c.Now != nil {
		situation.Now = c.Now.Time
	} else if name := situation.expiring(); name != "" {
		return nil, s.problem(inCase, fmt.Sprintf("the policy %s has an exception that expires: say by now at what time the case happens", name))
	}
	return situation, nil
}

// start is the time of cases that say none: any would do, as long as it is the same one tomorrow.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// expiring names a policy about which the time decides: one with an exception that is for the object, and ends.
func (s *Situation) expiring() string {
	for _, p := range s.Policies {
		if slices.ContainsFunc(p.Spec.Exceptions, func(e policyv1alpha1.PolicyException) bool {
			return e.Expires != nil && policies.Covers(&e, s.Object.GetNamespace(), cmp.Or(s.Object.GetName(), s.Object.GetGenerateName()))
		}) {
			return p.Name
		}
	}
	return ""
}

func (s *Suite) readPolicies(situation *Situation, inTest, inCase string, t *Test, c *Case) error {
	read, err := s.policies(inTest+".policies", t.Policies)
	if err != nil {
		return err
	}
	for i := range read {
		read[i].policy = read[i].policy.DeepCopy()
	}
	if err := s.replaceParams(inTest+".params", t.Params, read); err != nil {
		return err
	}
	if err := s.replaceParams(inCase+".params", c.Params, read); err != nil {
		return err
	}
	situation.written = read
	for i := range read {
		situation.Policies = append(situation.Policies, read[i].policy)
	}
	return nil
}

// readObjects puts those of the case over those of the test.
func (s *Suite) readObjects(situation *Situation, inTest, inCase string, t *Test, c *Case) error {
	own, err := s.around(inCase+".objects", c.Objects)
	if err != nil {
		return err
	}
	common, err := s.around(inTest+".objects", t.Objects)
	if err != nil {
		return err
	}
	taken := map[address]bool{}
	for _, d := range own {
		taken[addressOf(d.Object)] = true
	}
	common = slices.DeleteFunc(slices.Clone(common), func(d manifests.Document) bool { return taken[addressOf(d.Object)] })
	situation.around = slices.Concat(common, own)
	for _, d := range situation.around {
		situation.Objects = append(situation.Objects, d.Object)
	}
	return nil
}

type address struct {
	kind            schema.GroupKind
	namespace, name string
}

func addressOf(object *unstructured.Unstructured) address {
	return address{object.GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName()}
}
