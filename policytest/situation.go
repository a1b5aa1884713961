package policytest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
)

// DefaultUser is the requester of cases without userInfo.
const DefaultUser = "suite"

// defaultNamespace is the namespace of objects that name none.
const defaultNamespace = "default"

// Situation is a case, with all files read: the objects of the cluster, and the request.
type Situation struct {
	// Policies are in the order of the test, with the parameters of the case.
	Policies []*policyv1alpha1.VirtualMachinePolicy
	// Objects are the objects of the cluster. An object of the case replaces one of the test with its name.
	Objects []*unstructured.Unstructured
	// Object is the object of the request, also of a deletion. Old is the old object of an update, or nil. Both have a namespace.
	Object, Old *unstructured.Unstructured
	Operation   string
	User        authenticationv1.UserInfo
	May         []Permission
	// Namespace is the namespace of the object, with its labels.
	Namespace *corev1.Namespace
	Now       time.Time
	Facts     *platform.Facts
	// PostMutation reports whether a VirtualMachineInstance is evaluated as the validating webhook receives it, without
	// completion.
	PostMutation bool
	// Running reports whether Old is a VirtualMachine that runs.
	Running bool

	written []written
	around  []manifests.Document
	// document and oldDocument are those of Object and Old, before patches.
	document, oldDocument manifests.Document
}

// Situation reads a case. The error is a Problem.
func (s *Suite) Situation(test, one int) (*Situation, error) {
	t := &s.Tests[test]
	c := &t.Cases[one]
	inTest := index("tests", test)
	inCase := index(inTest+".cases", one)
	situation := &Situation{May: c.May, Operation: create, User: authenticationv1.UserInfo{Username: DefaultUser, Groups: []string{"system:authenticated"}}, PostMutation: c.PostMutation, Running: c.Running}
	if c.UserInfo != nil {
		situation.User = *c.UserInfo
	}
	for _, step := range []func() error{
		func() error { return s.readPolicies(situation, inTest, inCase, t, c) },
		func() error { return s.readObjects(situation, inTest, inCase, t, c) },
		func() error { return s.readSubject(situation, inTest, inCase, t, c) },
		func() error { return s.readNamespace(situation, inCase, c) },
		func() error { return s.readFacts(situation, inCase, t, c) },
		situation.served,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	situation.Now = start
	if c.Now != nil {
		situation.Now = c.Now.Time
	} else if name := situation.expiring(); name != "" {
		return nil, s.problem(inCase, name+" expires: set now, the time of the case")
	}
	return situation, nil
}

// served rejects objects in a version that the KubeVirt of the situation does not serve.
func (s *Situation) served() error {
	served := offline.NewServed(s.Facts.KubeVirtVersion)
	reject := func(d manifests.Document, object *unstructured.Unstructured) error {
		if err := served.Match(object.GroupVersionKind()); err != nil {
			d.Object = object
			return at(d, "apiVersion", strings.TrimPrefix(err.Error(), "apiVersion: "))
		}
		return nil
	}
	for _, d := range s.around {
		if err := reject(d, d.Object); err != nil {
			return err
		}
	}
	if s.Old != nil {
		if err := reject(s.oldDocument, s.Old); err != nil {
			return err
		}
	}
	return reject(s.document, s.Object)
}

// start is the time of cases without now. It is fixed, so that outcomes do not depend on the day.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// expiring names an exception for the object whose effect depends on the time.
func (s *Situation) expiring() string {
	for _, object := range s.Objects {
		if kind := object.GroupVersionKind().GroupKind(); kind == apikinds.PolicyExceptions.GroupKind() && cmp.Or(object.GetNamespace(), s.Namespace.Name) == s.Namespace.Name {
			return fmt.Sprintf("%s %s", kind.Kind, object.GetName())
		}
	}
	for _, p := range s.Policies {
		if slices.ContainsFunc(p.Spec.Exceptions, func(e policyv1alpha1.PolicyException) bool {
			return e.Expires != nil && policies.Covers(&e, s.Object.GetNamespace(), cmp.Or(s.Object.GetName(), s.Object.GetGenerateName()))
		}) {
			return fmt.Sprintf("an exception of the policy %s", p.Name)
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

// readObjects reads the objects of the test and of the case, which take precedence.
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
