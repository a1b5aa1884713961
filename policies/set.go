package policies

import (
	"maps"
	"slices"
	"sync"
	"time" //nolint:depguard // the time comes in as a value; there is no clock here

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/policies/rego"
	"github.com/virtward/virtward/validators"
)

// Set has the active policies. It is immutable and safe for concurrent use; nil is an empty set.
type Set struct {
	// namespace is Virtward's own.
	namespace string
	policies  []*Policy
	// readsNamespaces reports whether one of the policies reads the namespace of the object.
	readsNamespaces bool
	// pods, domains and targets report which previews the policies read.
	pods, domains, targets bool
	index                  map[question]*asked
	// references are the kinds of referenced objects that policies which deny read, and others those that only other
	// policies read.
	references, others map[question][]string
	// fields returns the fields that modules read. It computes them once.
	fields func() *rego.Fields
	// observe is nil except in tests of policies.
	observe Observer
	// exceptions are nil for none.
	exceptions *Exceptions
}

// question is the key of the index of policies.
type question struct {
	kind      policyv1alpha1.PolicyKind
	operation policyv1alpha1.PolicyOperation
}

// NewSet indexes policies. No policy applies to namespace, which is Virtward's own. If two policies have the same name,
// the later one is used.
func NewSet(namespace string, policies ...*Policy) *Set {
	byName := make(map[string]*Policy, len(policies))
	for _, p := range policies {
		byName[p.name] = p
	}
	s := &Set{namespace: namespace, index: map[question]*asked{}, references: map[question][]string{}, others: map[question][]string{}}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		p := byName[name]
		s.policies = append(s.policies, p)
		s.readsNamespaces = s.readsNamespaces || p.readsNamespace
		s.pods, s.domains, s.targets = s.pods || p.readsPod, s.domains || p.readsDomain, s.targets || p.readsTargets
		for _, kind := range p.matcher.kinds {
			for _, operation := range p.matcher.operations {
				q := question{kind, operation}
				if s.index[q] == nil {
					s.index[q] = &asked{}
				}
				s.index[q].add(p)
			}
		}
	}
	s.fields = sync.OnceValue(s.readFields)
	for q, asked := range s.index {
		s.references[q] = referencesOf(asked.all, true)
		s.others[q] = slices.DeleteFunc(referencesOf(asked.all, false), func(kind string) bool { return slices.Contains(s.references[q], kind) })
	}
	return s
}

// readFields returns the fields that modules read.
func (s *Set) readFields() *rego.Fields {
	var modules []*rego.Module
	for _, p := range s.policies {
		if m, ok := p.evaluator.(*module); ok {
			modules = append(modules, m.compiled)
		}
	}
	return rego.FieldsOf(modules...)
}

// referencesOf returns the kinds of referenced objects that policies read, sorted: those that deny, or the others.
func referencesOf(policies []*Policy, denies bool) []string {
	var kinds []string
	for _, p := range policies {
		if p.denies() == denies {
			kinds = append(kinds, p.gathered...)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// Exempting returns the same policies with exceptions.
func (s *Set) Exempting(exceptions *Exceptions) *Set {
	if s == nil {
		return nil
	}
	with := *s
	with.exceptions = exceptions
	return &with
}

// Exceptions returns the exceptions of the policies; nil for none.
func (s *Set) Exceptions() *Exceptions {
	if s == nil {
		return nil
	}
	return s.exceptions
}

// References returns the kinds of referenced objects that policies, and variables that they read, need of a kind of objects, for an operation; the audit
// has none. denying are those that policies which deny read, and others those that only other policies read. The rest need not
// be gathered.
func (s *Set) References(kind policyv1alpha1.PolicyKind, operation policyv1alpha1.PolicyOperation) (denying, others []string) {
	if s == nil {
		return nil, nil
	}
	if operation == "" {
		operation = policyv1alpha1.PolicyCreate
	}
	q := question{kind, operation}
	return s.references[q], s.others[q]
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

// ReadsPod reports whether one of the policies reads the pod. If not, evaluation does not need it.
func (s *Set) ReadsPod() bool { return s != nil && s.pods }

// ReadsDomain reports whether one of the policies reads the domain. If not, evaluation does not need it.
func (s *Set) ReadsDomain() bool { return s != nil && s.domains }

// ReadsMigrationTargets reports whether one of the policies reads the number of nodes that could receive a virtual machine.
func (s *Set) ReadsMigrationTargets() bool { return s != nil && s.targets }

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
// is evaluated by the policies that do not read the request. Those that read it are evaluated when a user writes the pool,
// the restore or the clone; and again with the Author of a restore or a clone, when KubeVirt creates the virtual machine or
// restores it. Other findings on their updates of virtual machines appear only in reports. Their updates of other objects are
// not evaluated.
func (s *Set) Evaluate(d *cel.Documents, now time.Time) []validators.Finding {
	q := question{policyv1alpha1.PolicyKind(d.Kind), policyv1alpha1.PolicyOperation(d.Request.Operation)}
	if q.operation == "" {
		q.operation = policyv1alpha1.PolicyCreate
		if d.OldObject != nil {
			q.operation = policyv1alpha1.PolicyUpdate
		}
	}
	if s == nil || s.index[q] == nil {
		return nil
	}
	if q.operation == policyv1alpha1.PolicyDelete && DeletesForSystem(d.Request.UserInfo.Username) {
		return nil
	}
	subject := newSubject(d, now, false)
	if subject.byKubeVirt {
		findings := s.evaluateKubeVirt(subject, q)
		validators.Sort(findings)
		return findings
	}
	return s.evaluateAll(subject, q, everyPolicy)
}

// evaluateKubeVirt evaluates a request of one of KubeVirt's own accounts: see Evaluate.
func (s *Set) evaluateKubeVirt(subject *subject, q question) []validators.Finding {
	switch {
	case q.operation == policyv1alpha1.PolicyCreate && q.kind == policyv1alpha1.PolicyVirtualMachineInstance:
		return s.evaluateAll(subject, q, everyPolicy)
	case q.operation == policyv1alpha1.PolicyCreate:
		return append(s.evaluateAll(subject, q, withoutRequest), s.evaluateAuthor(subject, q)...)
	case q.operation == policyv1alpha1.PolicyUpdate && q.kind == policyv1alpha1.PolicyVirtualMachine:
		findings := s.evaluateAll(subject, q, withoutRequest)
		for i := range findings {
			findings[i].Severity = validators.Audit
		}
		return append(findings, s.evaluateAuthor(subject, q)...)
	}
	return nil
}

// evaluateAuthor evaluates the policies that read the request as if the author of a restore or a clone sent it. If the author
// is not known, those that deny cannot be evaluated.
func (s *Set) evaluateAuthor(subject *subject, q question) []validators.Finding {
	author := subject.documents.Author
	if author == nil {
		return nil
	}
	readers := func(p *Policy) bool { return p.readsRequest }
	if author.Unknown == "" {
		return s.evaluateAll(newSubject(subject.documents.As(author.User), subject.now, false), q, readers)
	}
	if s.exempt(subject.namespace) {
		return nil
	}
	deny, _ := s.index[q].matching(subject, readers)
	exemptions := s.exceptions.of(subject)
	var findings []validators.Finding
	for _, p := range deny {
		findings = append(findings, exempted([]validators.Finding{p.authorless(subject, author.Unknown)}, exemptions[p.name])...)
	}
	return findings
}

// exempt reports whether no policy applies to a namespace.
func (s *Set) exempt(namespace string) bool {
	return namespace == kubeSystem || namespace == s.namespace && s.namespace != ""
}

func everyPolicy(*Policy) bool { return true }

// withoutRequest reports whether a policy does not read the request.
func withoutRequest(p *Policy) bool { return !p.readsRequest }

// ReadsRequest reports whether one of the policies for an operation on a kind reads the request. Such a policy cannot
// be evaluated for a request of another user.
func (s *Set) ReadsRequest(kind policyv1alpha1.PolicyKind, operation policyv1alpha1.PolicyOperation) bool {
	return s != nil && s.index[question{kind, operation}].contains(func(p *Policy) bool { return p.readsRequest })
}

// Deletes reports whether a policy is evaluated on deletions of a kind. Templates and Plugins are not evaluated.
func (s *Set) Deletes(kind policyv1alpha1.PolicyKind) bool {
	return s != nil && kind != policyv1alpha1.PolicyVirtualMachineTemplate && kind != policyv1alpha1.PolicyPlugin && s.index[question{kind, policyv1alpha1.PolicyDelete}] != nil
}

// DeniesUnreadable reports whether a policy denies deletions of a kind if it cannot be evaluated.
func (s *Set) DeniesUnreadable(kind policyv1alpha1.PolicyKind) bool {
	return s.Deletes(kind) && s.index[question{kind, policyv1alpha1.PolicyDelete}].contains(func(p *Policy) bool {
		return p.denies() && p.spec.FailurePolicy != policyv1alpha1.PolicyIgnore
	})
}

// systemDeleters are the accounts that delete objects because of an earlier request: the garbage collector, and the
// controller that empties a namespace. The last name is that of both if kube-controller-manager has one account.
var systemDeleters = []string{
	"system:serviceaccount:kube-system:generic-garbage-collector",
	"system:serviceaccount:kube-system:namespace-controller",
	"system:kube-controller-manager",
}

// SystemDeleters returns the accounts whose deletions are not evaluated.
func SystemDeleters() []string { return slices.Clone(systemDeleters) }

// DeletesForSystem reports whether deletions by a user are not evaluated.
func DeletesForSystem(user string) bool { return slices.Contains(systemDeleters, user) }

// Audit evaluates policies on an existing object: those that do not read the request, as if a user whom no policy
// excludes created the object now. The documents' Request has no operation.
func (s *Set) Audit(d *cel.Documents, now time.Time) []validators.Finding {
	if s == nil {
		return nil
	}
	q, auditable := question{policyv1alpha1.PolicyKind(d.Kind), policyv1alpha1.PolicyCreate}, func(p *Policy) bool { return len(p.unauditable) == 0 }
	if !s.index[q].contains(auditable) {
		return nil
	}
	return s.evaluateAll(newSubject(d, now, true), q, auditable)
}

// evaluateAll evaluates the policies of a question that match, if they are to be evaluated.
func (s *Set) evaluateAll(subject *subject, q question, evaluated func(*Policy) bool) []validators.Finding {
	if s.exempt(subject.namespace) {
		return nil
	}
	subject.observe, subject.spare = s.observe, cel.NewBudgetOf(spareLimit/evaluationsOf(subject.documents), spareMemory)
	deny, others := s.index[q].matching(subject, evaluated)
	budget := newDenying(subject, len(deny))
	var findings []validators.Finding
	input, exemptions := &input{fields: s.fields()}, s.exceptions.of(subject)
	for i, p := range slices.Concat(deny, others) { // policies that deny are evaluated first
		denies := i < len(deny)
		if d := subject.documents; denies && d.Gone != nil && d.Gone() {
			return nil
		}
		if subject.budget = subject.spare; denies {
			subject.budget = budget.next()
		}
		findings = append(findings, exempted(p.evaluate(subject, input), exemptions[p.name])...)
	}
	validators.Sort(findings)
	return findings
}
