package policies

import (
	"reflect"
	"slices"
	"strings"
	"time" //nolint:depguard // the time comes in as a value; there is no clock here

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

// kubeSystem is a namespace that no policy applies to, as Virtward's own. The webhooks do not match it either.
const kubeSystem = "kube-system"

// subject has what matching reads. It is created once for an object, and shared by all policies.
type subject struct {
	documents *cel.Documents
	now       time.Time
	// audit reports whether there is no request: the object exists.
	audit bool

	name, namespace string
	// namespaceLabels, labels and oldLabels are the labels of the namespace, of the object, and of the object before
	// the update; oldLabels are nil on a create, and on a deletion, where labels are those of the deleted object.
	namespaceLabels, labels, oldLabels labels.Set
	// user is the requester, a member of groups. byKubeVirt reports whether it is one of KubeVirt's own accounts.
	user       string
	groups     []string
	byKubeVirt bool
	// spare is the budget that the policies that do not deny share.
	spare *cel.Budget
	// budget is the budget of the policy that is evaluated.
	budget *cel.Budget
	// extent is the hash of the effective VM; nil until it is needed.
	extent *string
	// observe is called for each policy; nil for none.
	observe Observer
}

// newSubject returns what matching reads of the documents.
func newSubject(d *cel.Documents, now time.Time, audit bool) *subject {
	s := &subject{documents: d, now: now, audit: audit, name: d.Request.Name, namespace: d.Request.Namespace}
	object, old := metaOf(d.Object), metaOf(d.OldObject)
	if object == nil {
		object, old = old, nil
	}
	if object != nil {
		s.labels = object.GetLabels()
		s.namespace = firstOf(s.namespace, object.GetNamespace())
		s.name = firstOf(s.name, object.GetName(), object.GetGenerateName())
	}
	if old != nil {
		s.oldLabels = labels.Set(old.GetLabels())
		if s.oldLabels == nil {
			s.oldLabels = labels.Set{}
		}
	}
	s.namespaceLabels = labels.Set{corev1.LabelMetadataName: s.namespace} // every namespace has this label
	if d.Namespace != nil {
		s.namespaceLabels = d.Namespace.Labels
		s.namespace = firstOf(s.namespace, d.Namespace.Name)
	}
	if audit {
		return s
	}
	s.user, s.groups = d.Request.UserInfo.Username, d.Request.UserInfo.Groups
	if d.Requester != "" && d.Requester != s.user { // an account of Virtward acts for a user, whose groups are unknown
		s.user, s.groups = d.Requester, nil
	}
	s.byKubeVirt = d.Facts != nil && d.Facts.ByKubeVirt(firstOf(d.Request.UserInfo.Username, d.Requester))
	return s
}

// metaOf returns the metadata of an object; nil if there is no object.
func metaOf(object any) metav1.Object {
	if fields, ok := object.(map[string]any); ok {
		return &unstructured.Unstructured{Object: fields}
	}
	if v := reflect.ValueOf(object); v.Kind() != reflect.Pointer || v.IsNil() {
		return nil
	}
	found, _ := object.(metav1.Object)
	return found
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// matcher reports whether a policy applies to an object, without its conditions in CEL.
type matcher struct {
	// namespaces and objects are nil if they select everything.
	namespaces, objects labels.Selector
	users, groups       []string
	hypervisors         []string
	architectures       []string
	exceptions          []policyv1alpha1.PolicyException
	kinds               []policyv1alpha1.PolicyKind
	operations          []policyv1alpha1.PolicyOperation
}

var matchPath = field.NewPath("spec", "match")

// newMatcher reads spec.match and the exceptions of a policy that fits its definition.
func newMatcher(spec *policyv1alpha1.VirtualMachinePolicySpec) (*matcher, []diagnostics.Problem) {
	match := &spec.Match
	m := &matcher{
		users: match.ExcludedUsers, groups: match.ExcludedGroups, hypervisors: match.Hypervisors,
		kinds: match.Kinds, operations: match.Operations, exceptions: spec.Exceptions,
	}
	for _, architecture := range match.Architectures {
		m.architectures = append(m.architectures, string(architecture))
	}
	var problems []diagnostics.Problem
	selector := func(from *metav1.LabelSelector, path *field.Path) labels.Selector {
		if errs := validators.CheckSelector(from, path); len(errs) > 0 {
			problems = append(problems, problemsOf(errs)...)
			return nil // the policy is broken, and applies to everything that it could match
		}
		if from == nil || len(from.MatchLabels) == 0 && len(from.MatchExpressions) == 0 {
			return nil
		}
		made, err := metav1.LabelSelectorAsSelector(from)
		if err != nil {
			problems = append(problems, problemsOf(field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())})...)
			return nil // the policy is broken, and applies to everything that it could match
		}
		return made
	}
	m.namespaces = selector(match.NamespaceSelector, matchPath.Child("namespaceSelector"))
	m.objects = selector(match.ObjectSelector, matchPath.Child("objectSelector"))
	return m, append(problems, m.doubts()...)
}

// doubts returns warnings about settings that are probably mistakes.
func (m *matcher) doubts() []diagnostics.Problem {
	var problems []diagnostics.Problem
	doubt := func(path *field.Path, message string) {
		problems = append(problems, diagnostics.Problem{Field: path.String(), Message: message, Warning: true})
	}
	for i, name := range m.hypervisors {
		if _, err := platform.HypervisorByName(name); err != nil {
			doubt(matchPath.Child("hypervisors").Index(i), err.Error())
		}
	}
	if len(m.kinds) == 1 && m.kinds[0] == policyv1alpha1.PolicyVirtualMachineInstance && slices.Equal(m.operations, []policyv1alpha1.PolicyOperation{policyv1alpha1.PolicyUpdate}) {
		doubt(matchPath.Child("operations"), "only KubeVirt updates VirtualMachineInstances, and policies are not evaluated on its updates: add CREATE")
	}
	if slices.Contains(m.operations, policyv1alpha1.PolicyDelete) && slices.Contains(m.kinds, policyv1alpha1.PolicyVirtualMachineTemplate) {
		doubt(matchPath.Child("operations"), "deletions of a VirtualMachineTemplate are not evaluated")
	}
	if slices.Contains(m.kinds, policyv1alpha1.PolicyPlugin) {
		if slices.Contains(m.operations, policyv1alpha1.PolicyDelete) {
			doubt(matchPath.Child("operations"), "deletions of a Plugin are not evaluated")
		}
		if m.namespaces != nil && !m.namespaces.Matches(labels.Set{corev1.LabelMetadataName: ""}) {
			doubt(matchPath.Child("namespaceSelector"), "a Plugin has no namespace: the policy is not evaluated on it")
		}
	}
	for i := range m.exceptions {
		for j, namespace := range m.exceptions[i].Namespaces {
			if namespace == "*" && len(m.exceptions[i].Names) == 0 {
				doubt(field.NewPath("spec", "exceptions").Index(i).Child("namespaces").Index(j), "the exception exempts all objects")
			}
		}
	}
	return problems
}

// OnlyExempt warns if a policy selects only namespaces that no policy applies to: kube-system, and Virtward's own.
func OnlyExempt(policy *policyv1alpha1.VirtualMachinePolicy, namespace string) []diagnostics.Problem {
	selector, err := metav1.LabelSelectorAsSelector(policy.Spec.Match.NamespaceSelector)
	if err != nil || policy.Spec.Match.NamespaceSelector == nil {
		return nil
	}
	names, found := selector.RequiresExactMatch(corev1.LabelMetadataName)
	if !found {
		requirements, _ := selector.Requirements()
		for _, r := range requirements {
			if r.Key() == corev1.LabelMetadataName && r.Operator() == selection.In {
				return onlyExempt(r.Values().UnsortedList(), namespace)
			}
		}
		return nil
	}
	return onlyExempt([]string{names}, namespace)
}

func onlyExempt(names []string, namespace string) []diagnostics.Problem {
	for _, name := range names {
		if name != kubeSystem && (name != namespace || namespace == "") {
			return nil
		}
	}
	slices.Sort(names)
	return []diagnostics.Problem{{
		Field: matchPath.Child("namespaceSelector").String(), Warning: true,
		Message: "the policy is never evaluated: no policy applies to " + strings.Join(names, " and "),
	}}
}

// matches reports whether the policy applies to an object of one of its kinds, without its conditions.
func (m *matcher) matches(s *subject) bool {
	return m.fits(s) && !m.excluded(s) && !m.exempts(s)
}

func (m *matcher) fits(s *subject) bool {
	if m.namespaces != nil && !m.namespaces.Matches(s.namespaceLabels) {
		return false
	}
	if m.objects != nil && !m.objects.Matches(s.labels) && (s.oldLabels == nil || !m.objects.Matches(s.oldLabels)) {
		return false
	}
	facts := s.documents.Facts
	if len(m.hypervisors) > 0 && (facts == nil ||
		!slices.Contains(m.hypervisors, facts.Hypervisor.Name) && !slices.Contains(m.hypervisors, facts.Hypervisor.ConfiguredName)) {
		return false
	}
	return len(m.architectures) == 0 || slices.Contains(m.architectures, s.architecture())
}

// architecture returns the architecture of the effective VM.
func (s *subject) architecture() string {
	d := s.documents
	if d.VM != nil && d.VM.Spec.Architecture != "" {
		return d.VM.Spec.Architecture
	}
	if d.Facts != nil {
		return d.Facts.DefaultArchitecture
	}
	return ""
}

// excluded reports whether the requests of this user are excluded. KubeVirt's own accounts are not: they create the
// instances of all VMs, so a policy that excludes them, by name or as the group of all service accounts, would deny
// nothing.
func (m *matcher) excluded(s *subject) bool {
	if s.audit || s.byKubeVirt {
		return false
	}
	return slices.Contains(m.users, s.user) || slices.ContainsFunc(m.groups, func(group string) bool { return slices.Contains(s.groups, group) })
}

// exempts reports whether an exception is active for the object.
func (m *matcher) exempts(s *subject) bool {
	return slices.ContainsFunc(m.exceptions, func(e policyv1alpha1.PolicyException) bool {
		return !expired(&e, s.now) && Covers(&e, s.namespace, s.name)
	})
}

// Covers reports whether an exception is for an object; it does not check whether the exception has expired.
func Covers(e *policyv1alpha1.PolicyException, namespace, name string) bool {
	return covers(e.Namespaces, namespace) && covers(e.Names, name)
}

func expired(e *policyv1alpha1.PolicyException, now time.Time) bool {
	return e.Expires != nil && !now.Before(e.Expires.Time)
}

// covers reports whether one of the patterns matches a name. Without patterns, every name matches.
func covers(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(pattern string) bool {
		if beginning, open := strings.CutSuffix(pattern, "*"); open {
			return strings.HasPrefix(name, beginning)
		}
		return pattern == name
	})
}
