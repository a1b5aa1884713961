package policies

import (
	"maps"
	"slices"
	"time" //nolint:depguard // the time comes in as a value; there is no clock here

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/validators"
)

// Set has the active policies. It is immutable and safe for concurrent use; nil is an empty set.
type Set struct {
	// namespace is Virtward's own.
	namespace string
	policies  []*Policy
	// readsNamespaces reports whether one of the policies reads the namespace of the object.
	readsNamespaces bool
	index           map[question][]*Policy
	// observe is nil except in tests of policies.
	observe Observer
}

// question is the key of the index of policies.
type question struct {
	kind      policyv1alpha1.PolicyKind
	operation policyv1alpha1.PolicyOperation
}

// The budget that the policies that do not deny share, in one request or for one object of an audit, in units of CEL
// and in bytes. It is a few tenths of a second, and more than hundreds of policies need. Users with the enforce verb
// can deny every request. The budget keeps other users from delaying requests and audits with many or costly policies.
const (
	spareLimit  = cel.PolicyLimit / 5
	spareMemory = 4 * cel.MemoryLimit
)

// NewSet indexes policies. No policy applies to namespace, which is Virtward's own. If two policies have the same name,
// the later one is used.
func NewSet(namespace string, policies ...*Policy) *Set {
	byName := make(map[string]*Policy, len(policies))
	for _, p := range policies {
		byName[p.name] = p
	}
	s := &Set{namespace: namespace, index: map[question][]*Policy{}}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		p := byName[name]
		s.policies = append(s.policies, p)
		s.readsNamespaces = s.readsNamespaces || p.readsNamespace
		for _, kind := range p.matcher.kinds {
			for _, operation := range p.matcher.operations {
				q := question{kind, operation}
				s.index[q] = append(s.index[q], p)
			}
		}
	}
	return s
}

// Policies returns the policies, sorted by name. The list is shared: do not change it.
func (s *Set) Policies() []*Policy {
	if s == nil {
		return nil
	}
	return s.policies
}

// ReadsNamespaces reports whether one of the policies selects namespaces by their labels, or reads namespaceObject. If
// not, evaluation needs only the name of the namespace.
func (s *Set) ReadsNamespaces() bool { return s != nil && s.readsNamespaces }

// Find returns the policy with a name; nil if there is none.
func (s *Set) Find(name string) *Policy {
	i, found := slices.BinarySearchFunc(s.Policies(), name, func(p *Policy, name string) int {
		switch {
		case p.name < name:
			return -1
		case p.name > name:
			return 1
		}
		return 0
	})
	if !found {
		return nil
	}
	return s.policies[i]
}

// Evaluate evaluates every matching policy on an object, and returns all findings, sorted by field, then by rule. The
// time decides which exceptions have expired. During the evaluation of a policy, the documents have its Params.
//
// KubeVirt's own accounts create what users ask for, and must be able to complete it. An instance that they create is
// evaluated by every policy. A virtual machine, which they create from a pool, a snapshot or another virtual machine,
// is evaluated by the policies that do not read the request: its requester is checked when the pool, the restore or the
// clone is created. Their updates of virtual machines are never denied, and findings appear only in reports. Their
// updates of other objects are not evaluated.
func (s *Set) Evaluate(d *cel.Documents, now time.Time) []validators.Finding {
	q := question{policyv1alpha1.PolicyKind(d.Kind), policyv1alpha1.PolicyOperation(d.Request.Operation)}
	if q.operation == "" {
		q.operation = policyv1alpha1.PolicyCreate
		if d.OldObject != nil {
			q.operation = policyv1alpha1.PolicyUpdate
		}
	}
	if s == nil || len(s.index[q]) == 0 {
		return nil
	}
	subject := newSubject(d, now, false)
	if subject.byKubeVirt {
		return s.evaluateKubeVirt(subject, q)
	}
	return s.evaluateAll(subject, s.index[q])
}

// evaluateKubeVirt evaluates a request of one of KubeVirt's own accounts: see Evaluate.
func (s *Set) evaluateKubeVirt(subject *subject, q question) []validators.Finding {
	switch {
	case q.operation == policyv1alpha1.PolicyCreate && q.kind == policyv1alpha1.PolicyVirtualMachineInstance:
		return s.evaluateAll(subject, s.index[q])
	case q.operation == policyv1alpha1.PolicyCreate:
		return s.evaluateAll(subject, withoutRequest(s.index[q]))
	case q.operation == policyv1alpha1.PolicyUpdate && q.kind == policyv1alpha1.PolicyVirtualMachine:
		findings := s.evaluateAll(subject, withoutRequest(s.index[q]))
		for i := range findings {
			findings[i].Severity = validators.Audit
		}
		return findings
	}
	return nil
}

// withoutRequest returns the policies that do not read the request.
func withoutRequest(policies []*Policy) []*Policy {
	return slices.DeleteFunc(slices.Clone(policies), func(p *Policy) bool { return p.readsRequest })
}

// ReadsRequest reports whether one of the policies for an operation on a kind reads the request. Such a policy cannot
// be evaluated for a request of another user.
func (s *Set) ReadsRequest(kind policyv1alpha1.PolicyKind, operation policyv1alpha1.PolicyOperation) bool {
	return s != nil && slices.ContainsFunc(s.index[question{kind, operation}], func(p *Policy) bool { return p.readsRequest })
}

// Audit evaluates policies on an existing object: those that do not read the request, as if a user whom no policy
// excludes created the object now. The documents' Request has no operation.
func (s *Set) Audit(d *cel.Documents, now time.Time) []validators.Finding {
	if s == nil {
		return nil
	}
	asked := slices.DeleteFunc(slices.Clone(s.index[question{policyv1alpha1.PolicyKind(d.Kind), policyv1alpha1.PolicyCreate}]), func(p *Policy) bool {
		return len(p.unauditable) > 0
	})
	if len(asked) == 0 {
		return nil
	}
	return s.evaluateAll(newSubject(d, now, true), asked)
}

func (s *Set) evaluateAll(subject *subject, policies []*Policy) []validators.Finding {
	if subject.namespace == kubeSystem || subject.namespace == s.namespace && s.namespace != "" {
		return nil
	}
	subject.observe, subject.spare = s.observe, cel.NewBudgetOf(spareLimit, spareMemory)
	var findings []validators.Finding
	input := &input{}
	for _, denies := range []bool{true, false} { // policies that deny are evaluated first
		for _, p := range policies {
			if p.denies() != denies {
				continue
			}
			if d := subject.documents; d.Gone != nil && d.Gone() {
				return nil
			}
			findings = append(findings, p.evaluate(subject, input)...)
		}
	}
	validators.Sort(findings)
	return findings
}
