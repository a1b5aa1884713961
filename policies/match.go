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

// kubeSystem is a namespace that no policy is asked about, as Virtward's own: the webhooks do not see it either.
const kubeSystem = "kube-system"

// subject is what matching looks at; it is made once for an object, and shared by all policies.
type subject struct {
	documents *cel.Documents
	now       time.Time
	// audit tells that nobody asks: the object is there already.
	audit bool

	name, namespace string
	// namespaceLabels, labels and oldLabels are those of the namespace, of the object, and of the object before;
	// oldLabels are nil if there was none.
	namespaceLabels, labels, oldLabels labels.Set
	// user asked, as a member of groups. byKubeVirt tells that it is one of KubeVirt's own accounts.
	user       string
	groups     []string
	byKubeVirt bool
	// spare is what the policies that do not deny may still cost together; nil if that has no limit.
	spare *cel.Budget
	// observe is nil if nobody looks on.
	observe Observer
}

// newSubject gathers what the documents say about these.
func newSubject(d *cel.Documents, now time.Time, audit bool) *subject {
	s := &subject{documents: d, now: now, audit: audit, name: d.Request.Name, namespace: d.Request.Namespace}
	if object := metaOf(d.Object); object != nil {
		s.labels = object.GetLabels()
		s.namespace = firstOf(s.namespace, object.GetNamespace())
		s.name = firstOf(s.name, object.GetName(), object.GetGenerateName())
	}
	if old := metaOf(d.OldObject); old != nil {
		s.oldLabels = labels.Set(old.GetLabels())
		if s.oldLabels == nil {
			s.oldLabels = labels.Set{}
		}
	}
	s.namespaceLabels = labels.Set{corev1.LabelMetadataName: s.namespace} // what every namespace has
	if d.Namespace != nil {
		s.namespaceLabels = d.Namespace.Labels
		s.namespace = firstOf(s.namespace, d.Namespace.Name)
	}
	if audit {
		return s
	}
	s.user, s.groups = d.Request.UserInfo.Username, d.Request.UserInfo.Groups
	if d.Requester != "" && d.Requester != s.user { // an account of ours acts for somebody, whose groups we do not know
		s.user, s.groups = d.Requester, nil
	}
	s.byKubeVirt = d.Facts != nil && d.Facts.ByKubeVirt(firstOf(d.Request.UserInfo.Username, d.Requester))
	return s
}

// metaOf is the metadata of an object; nil if there is no object.
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

// matcher tells what a policy is asked about, except its conditions in CEL.
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

// newMatcher reads spec.match and the exceptions of a policy that is in bounds.
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
			return nil // the policy is broken, and asked about whatever it could be for
		}
		if from == nil || len(from.MatchLabels) == 0 && len(from.MatchExpressions) == 0 {
			return nil
		}
		made, err := metav1.LabelSelectorAsSelector(from)
		if err != nil {
			problems = append(problems, problemsOf(field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())})...)
			return nil // the policy is broken, and asked about whatever it could be for
		}
		return made
	}
	m.namespaces = selector(match.NamespaceSelector, matchPath.Child("namespaceSelector"))
	m.objects = selector(match.ObjectSelector, matchPath.Child("objectSelector"))
	return m, append(problems, m.doubts()...)
}

// doubts are warnings about what is probably not meant.
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
	if len(m.kinds) == 1 && m.kinds[0] == policyv1alpha1.PolicyVirtualMachineInstance && !slices.Contains(m.operations, policyv1alpha1.PolicyCreate) {
		doubt(matchPath.Child("operations"), "a VirtualMachineInstance is updated by KubeVirt alone, which is not asked about: the policy will hardly be asked")
	}
	for i := range m.exceptions {
		for j, namespace := range m.exceptions[i].Namespaces {
			if namespace == "*" && len(m.exceptions[i].Names) == 0 {
				doubt(field.NewPath("spec", "exceptions").Index(i).Child("namespaces").Index(j), "this exempts everything")
			}
		}
	}
	return problems
}

// NeverAsked warns of a policy that selects only namespaces about which no policy is asked: kube-system, and Virtward's
// own.
func NeverAsked(policy *policyv1alpha1.VirtualMachinePolicy, namespace string) []diagnostics.Problem {
	selector, err := metav1.LabelSelectorAsSelector(policy.Spec.Match.NamespaceSelector)
	if err != nil || policy.Spec.Match.NamespaceSelector == nil {
		return nil
	}
	names, found := selector.RequiresExactMatch(corev1.LabelMetadataName)
	if !found {
		requirements, _ := selector.Requirements()
		for _, r := range requirements {
			if r.Key() == corev1.LabelMetadataName && r.Operator() == selection.In {
				return neverAsked(r.Values().UnsortedList(), namespace)
			}
		}
		return nil
	}
	return neverAsked([]string{names}, namespace)
}

func neverAsked(names []string, namespace string) []diagnostics.Problem {
	for _, name := range names {
		if name != kubeSystem && (name != namespace || namespace == "") {
			return nil
		}
	}
	slices.Sort(names)
	return []diagnostics.Problem{{
		Field: matchPath.Child("namespaceSelector").String(), Warning: true,
		Message: "the policy is never asked: of " + strings.Join(names, " and ") + " no policy is, so that the cluster and Virtward themselves can always work",
	}}
}

// matches reports whether the policy is asked about an object of one of its kinds, but for its conditions.
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

// architecture is the one that the VM will have.
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

// excluded reports whether the policy is not asked about what this user sends. KubeVirt's own accounts make the
// instances of everybody's VMs: who excludes them, by name or as the group of all service accounts, would let
// everything through.
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

// Covers reports whether an exception is for an object, as long as it lasts.
func Covers(e *policyv1alpha1.PolicyException, namespace, name string) bool {
	return covers(e.Namespaces, namespace) && covers(e.Names, name)
}

func expired(e *policyv1alpha1.PolicyException, now time.Time) bool {
	return e.Expires != nil && !now.Before(e.Expires.Time)
}

// covers reports whether one of the patterns is for a name; without patterns, any name is meant.
func covers(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(pattern string) bool {
		if beginning, open := strings.CutSuffix(pattern, "*"); open {
			return strings.HasPrefix(name, beginning)
		}
		return pattern == name
	})
}
