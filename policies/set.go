package policies

import (
	"maps"
	"slices"
	"time" //nolint:depguard // the time comes in as a value; there is no clock here

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/validators"
)

// Set are the policies that are active. It is immutable and safe for concurrent use; nil has none.
type Set struct {
	// namespace is Virtward's own.
	namespace string
	policies  []*Policy
	// readsNamespaces tells that one of them does.
	readsNamespaces bool
	index           map[question][]*Policy
	// observe is nil but in tests of policies.
	observe Observer
}

// question is what policies are looked up by.
type question struct {
	kind      policyv1alpha1.PolicyKind
	operation policyv1alpha1.PolicyOperation
}

// What the policies that do not deny may take together, in one request or about one object of an audit, in units of CEL
// and in bytes: a few tenths of a second, and more than hundreds of them need. Who may make a policy deny may make
// requests fail; others write policies too, and however many and costly theirs are, requests are answered in time and
// audits come to an end.
const (
	spareLimit  = cel.PolicyLimit / 5
	spareMemory = 4 * cel.MemoryLimit
)

// NewSet indexes policies. namespace is Virtward's own, about which no policy is asked. Of two policies with the
// same name, the later one counts.
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

// Policies are those of the set, by name. They are shared: do not change the list.
func (s *Set) Policies() []*Policy {
	if s == nil {
		return nil
	}
	return s.policies
}

// ReadsNamespaces reports whether one of the policies selects namespaces by their labels, or reads namespaceObject. If
// none does, nothing has to be known of the namespace of an object but its name.
func (s *Set) ReadsNamespaces() bool { return s != nil && s.readsNamespaces }

// Find is the policy with a name; nil if there is none.
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

// Evaluate asks every policy that matches about an object, and returns all that they find, sorted by field, then by
// rule. The time decides which exceptions are over. The documents' Params are each policy's while it is asked.
//
// KubeVirt's own accounts make what users ask for, and must be able to finish what they began. So what they create is
// evaluated, whoever asked for it: an instance by every policy, and a virtual machine, which they make of a pool, a
// snapshot or another virtual machine, by all that do not read the request, since its user is decided about where the
// pool, the restore or the clone is created. What they change in a virtual machine is never denied, and appears only in
// reports; what they change elsewhere is not evaluated.
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
	return s.ask(subject, s.index[q])
}

// evaluateKubeVirt evaluates what one of KubeVirt's own accounts sends: see Evaluate.
func (s *Set) evaluateKubeVirt(subject *subject, q question) []validators.Finding {
	switch {
	case q.operation == policyv1alpha1.PolicyCreate && q.kind == policyv1alpha1.PolicyVirtualMachineInstance:
		return s.ask(subject, s.index[q])
	case q.operation == policyv1alpha1.PolicyCreate:
		return s.ask(subject, withoutRequest(s.index[q]))
	case q.operation == policyv1alpha1.PolicyUpdate && q.kind == policyv1alpha1.PolicyVirtualMachine:
		findings := s.ask(subject, withoutRequest(s.index[q]))
		for i := range findings {
			findings[i].Severity = validators.Audit
		}
		return findings
	}
	return nil
}

// withoutRequest are the policies that do not read the request.
func withoutRequest(policies []*Policy) []*Policy {
	return slices.DeleteFunc(slices.Clone(policies), func(p *Policy) bool { return p.readsRequest })
}

// ReadsRequest reports whether one of the policies for an operation on a kind decides by who sends the request, so that
// it cannot be evaluated where somebody else does.
func (s *Set) ReadsRequest(kind policyv1alpha1.PolicyKind, operation policyv1alpha1.PolicyOperation) bool {
	return s != nil && slices.ContainsFunc(s.index[question{kind, operation}], func(p *Policy) bool { return p.readsRequest })
}

// Audit asks the policies about an object that exists already: those that can be asked without a request, as if
// the object were created now by somebody whom no policy excludes. The documents' Request holds no operation.
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
	return s.ask(newSubject(d, now, true), asked)
}

func (s *Set) ask(subject *subject, policies []*Policy) []validators.Finding {
	if subject.namespace == kubeSystem || subject.namespace == s.namespace && s.namespace != "" {
		return nil
	}
	subject.observe, subject.spare = s.observe, cel.NewBudgetOf(spareLimit, spareMemory)
	var findings []validators.Finding
	input := &input{}
	for _, denies := range []bool{true, false} { // those that deny never wait for others
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
