package policies

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time" //nolint:depguard // the time comes in as a value; there is no clock here

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// MaxExceptions bounds the active exceptions of a namespace. The oldest ones are active.
const MaxExceptions = 100

// ExpiresSoon is how long before the end of an exception users get warnings.
const ExpiresSoon = 7 * 24 * time.Hour

// maxReason bounds the reason of an exception in messages, in bytes.
const maxReason = 256

// ExceptionTerms decide which exceptions are active.
type ExceptionTerms struct {
	// Trusted reports that the exceptions are active without a guard: those of files.
	Trusted bool
	// GuardedSince is the time since which the guard checks the authors of exceptions; zero if it does not.
	GuardedSince time.Time
	// MaxDuration bounds the time from now until an exception ends; 0 for no bound.
	MaxDuration time.Duration
}

// Exceptions are all VirtualMachinePolicyExceptions. They are immutable and safe for concurrent use; nil for none.
type Exceptions struct {
	terms ExceptionTerms
	// namespaces have the exceptions by namespace, the oldest first.
	namespaces map[string][]exception
}

type exception struct {
	object *policyv1alpha1.VirtualMachinePolicyException
	// selector is nil if the exception names its virtual machines.
	selector labels.Selector
	// invalid is why it cannot be active; empty if it can.
	invalid string
}

// NewExceptions indexes exceptions. The objects are shared: do not change them.
func NewExceptions(terms ExceptionTerms, objects ...*policyv1alpha1.VirtualMachinePolicyException) *Exceptions {
	x := &Exceptions{terms: terms, namespaces: map[string][]exception{}}
	for _, object := range objects {
		x.namespaces[object.Namespace] = append(x.namespaces[object.Namespace], newException(object))
	}
	for _, all := range x.namespaces {
		slices.SortFunc(all, func(a, b exception) int { return age(a.object, b.object) })
	}
	return x
}

// age orders exceptions by age, then by name.
func age(a, b *policyv1alpha1.VirtualMachinePolicyException) int {
	if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
		return order
	}
	return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
}

func newException(object *policyv1alpha1.VirtualMachinePolicyException) exception {
	e, spec := exception{object: object}, &object.Spec
	if (spec.Selector == nil) == (len(spec.VirtualMachines) == 0) {
		e.invalid = "exactly one of spec.virtualMachines and spec.selector is required"
		return e
	}
	if spec.Selector == nil {
		return e
	}
	errs := validators.CheckSelector(spec.Selector, field.NewPath("spec", "selector"))
	if len(errs) == 0 {
		var err error
		if e.selector, err = metav1.LabelSelectorAsSelector(spec.Selector); err == nil {
			return e
		}
		errs = field.ErrorList{field.Invalid(field.NewPath("spec", "selector"), field.OmitValueType{}, err.Error())}
	}
	e.invalid = texts.Shorten(errs[0].Error(), maxReason)
	return e
}

// CheckException returns what keeps a new exception from having an effect at a time.
func CheckException(object *policyv1alpha1.VirtualMachinePolicyException, maxDuration time.Duration, now time.Time) field.ErrorList {
	var errs field.ErrorList
	e, spec := newException(object), field.NewPath("spec")
	if e.invalid != "" {
		errs = append(errs, field.Invalid(spec, field.OmitValueType{}, e.invalid))
	}
	end, path := object.Spec.Expires.Time, spec.Child("expires")
	switch {
	case !now.Before(end):
		errs = append(errs, field.Invalid(path, text(end), "must be in the future"))
	case maxDuration > 0 && end.Sub(now) > maxDuration:
		errs = append(errs, field.Invalid(path, text(end), fmt.Sprintf("must be at most %d days in the future", maxDuration/(24*time.Hour))))
	}
	return errs
}

// ExceptionState is whether an exception is active at a time, and why.
type ExceptionState struct {
	Object *policyv1alpha1.VirtualMachinePolicyException
	Active bool
	// Reason is one of the reasons of the condition Active, and Message explains it.
	Reason, Message string
	// Next is the time of the next change of the state without a change of the exception; zero if there is none.
	Next time.Time
}

// States returns the states of all exceptions at a time, by namespace and age.
func (x *Exceptions) States(now time.Time) []ExceptionState {
	if x == nil {
		return nil
	}
	var states []ExceptionState
	for _, namespace := range slices.Sorted(maps.Keys(x.namespaces)) {
		x.each(namespace, now, func(e *exception, reason string) { states = append(states, x.terms.state(e, reason)) })
	}
	return states
}

// State returns the state of one exception at a time; found is false if there is none of the name.
func (x *Exceptions) State(namespace, name string, now time.Time) (state ExceptionState, found bool) {
	if x != nil {
		x.each(namespace, now, func(e *exception, reason string) {
			if e.object.Name == name {
				state, found = x.terms.state(e, reason), true
			}
		})
	}
	return state, found
}

// each calls a function with the exceptions of a namespace and the reasons of their states.
func (x *Exceptions) each(namespace string, now time.Time, do func(e *exception, reason string)) {
	active, all := 0, x.namespaces[namespace]
	for i := range all {
		reason := x.terms.reason(&all[i], now)
		if isActive(reason) {
			if active++; active > MaxExceptions {
				reason = policyv1alpha1.ExceptionReasonTooMany
			}
		}
		do(&all[i], reason)
	}
}

func isActive(reason string) bool {
	return reason == policyv1alpha1.ExceptionReasonActive || reason == policyv1alpha1.ExceptionReasonExpiring
}

// reason returns the reason of the state of one exception.
func (t *ExceptionTerms) reason(e *exception, now time.Time) string {
	left := e.object.Spec.Expires.Sub(now)
	switch {
	case !t.Trusted && (t.GuardedSince.IsZero() || !e.object.CreationTimestamp.After(t.GuardedSince)):
		return policyv1alpha1.ExceptionReasonNotPermitted
	case e.omitted():
		return policyv1alpha1.ExceptionReasonTooMany
	case e.invalid != "":
		return policyv1alpha1.ExceptionReasonInvalid
	case left <= 0:
		return policyv1alpha1.ExceptionReasonExpired
	case t.MaxDuration > 0 && left > t.MaxDuration:
		return policyv1alpha1.ExceptionReasonTooLong
	case left <= ExpiresSoon:
		return policyv1alpha1.ExceptionReasonExpiring
	}
	return policyv1alpha1.ExceptionReasonActive
}

// omitted reports whether the cache left the spec out, because there is no memory for it.
func (e *exception) omitted() bool { return len(e.object.Spec.Policies) == 0 }

// state explains a reason, and when it changes.
func (t *ExceptionTerms) state(e *exception, reason string) ExceptionState {
	end := e.object.Spec.Expires.Time
	s := ExceptionState{Object: e.object, Active: isActive(reason), Reason: reason}
	switch reason {
	case policyv1alpha1.ExceptionReasonActive:
		s.Next, s.Message = end.Add(-ExpiresSoon), "active until "+text(end)
	case policyv1alpha1.ExceptionReasonExpiring:
		s.Next, s.Message = end, "ends at "+text(end)+"; a restart afterwards is denied"
	case policyv1alpha1.ExceptionReasonExpired:
		s.Message = "expired at " + text(end)
	case policyv1alpha1.ExceptionReasonTooLong:
		s.Next, s.Message = end.Add(-t.MaxDuration), fmt.Sprintf("spec.expires is more than %d days in the future", t.MaxDuration/(24*time.Hour))
	case policyv1alpha1.ExceptionReasonInvalid:
		s.Message = e.invalid
	case policyv1alpha1.ExceptionReasonTooMany:
		s.Message = fmt.Sprintf("the namespace has %d older active exceptions", MaxExceptions)
		if e.omitted() {
			s.Message = "the exceptions of the cluster are too large together"
		}
	case policyv1alpha1.ExceptionReasonNotPermitted:
		s.Message = "the guard of exceptions is missing or switched off: no exception is active"
		if !t.GuardedSince.IsZero() {
			s.Message = fmt.Sprintf("created before %s, when the guard of exceptions became active: delete the exception and create it again", text(t.GuardedSince))
		}
	}
	return s
}

func text(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// Has reports whether a namespace has exceptions.
func (x *Exceptions) Has(namespace string) bool { return x != nil && len(x.namespaces[namespace]) > 0 }

// Active returns the number of active exceptions of a namespace at a time.
func (x *Exceptions) Active(namespace string, now time.Time) int {
	active := 0
	if x != nil {
		x.each(namespace, now, func(_ *exception, reason string) {
			if isActive(reason) {
				active++
			}
		})
	}
	return active
}

// Possible reports whether an exception can become active: there is a guard, or none is required.
func (x *Exceptions) Possible() bool {
	return x != nil && (x.terms.Trusted || !x.terms.GuardedSince.IsZero())
}

// Exemptable reports whether an exception can exempt an object of a kind from a finding: it is a violation of a policy that
// the API server does not enforce too.
func (s *Set) Exemptable(kind string, f *validators.Finding) bool {
	name, ofPolicy := strings.CutPrefix(f.Rule, RulePrefix)
	if !ofPolicy || IsEvaluationError(f) || !exempts(kind) || !s.Exceptions().Possible() {
		return false
	}
	p := s.Find(name)
	return p != nil && !slices.Contains(p.spec.ExportTo, policyv1alpha1.PolicyExportAPIServer)
}

// exempts reports whether exceptions apply to objects of a kind.
func exempts(kind string) bool {
	return kind == string(policyv1alpha1.PolicyVirtualMachine) || kind == string(policyv1alpha1.PolicyVirtualMachineInstance)
}

// of returns the exemptions of an object, by policy. Of several exceptions, the one that ends last is used.
func (x *Exceptions) of(s *subject) map[string]*validators.Exemption {
	if !x.Has(s.namespace) {
		return nil
	}
	name, set, ok := s.machine()
	if !ok {
		return nil
	}
	found := map[string]*validators.Exemption{}
	x.each(s.namespace, s.now, func(e *exception, reason string) {
		if !isActive(reason) || !e.covers(name, set) {
			return
		}
		spec := &e.object.Spec
		for _, policy := range spec.Policies {
			if other := found[policy]; other == nil || other.Until.Before(spec.Expires.Time) {
				found[policy] = &validators.Exemption{
					Exception: e.object.Name, Until: spec.Expires.Time,
					Soon: reason == policyv1alpha1.ExceptionReasonExpiring, Reason: texts.Shorten(spec.Reason, maxReason),
				}
			}
		}
	})
	return found
}

// covers reports whether an exception is for a virtual machine.
func (e *exception) covers(name string, set labels.Set) bool {
	if e.selector != nil {
		return e.selector.Matches(set)
	}
	return name != "" && slices.Contains(e.object.Spec.VirtualMachines, name)
}

// machine returns the name and the labels of the virtual machine that the object is, or that controls the instance. ok is
// false for other objects. An instance was not created by KubeVirt if its virtual machine does not exist or has another name.
// A virtual machine whose name the API server generates has no name yet.
func (s *subject) machine() (name string, set labels.Set, ok bool) {
	d := s.documents
	object := metaOf(d.Object)
	if object == nil { // a deletion
		object = metaOf(d.OldObject)
	}
	if object == nil || !exempts(d.Kind) {
		return "", nil, false
	}
	name = firstOf(object.GetName(), d.Request.Name)
	owner := OwningMachine(object)
	if d.Kind == string(policyv1alpha1.PolicyVirtualMachine) || owner == nil {
		return name, s.labels, true
	}
	return name, labels.Set(d.OwnerLabels), name == owner.Name && d.OwnerLabels != nil
}

// OwningMachine returns the reference of an instance to the VirtualMachine that controls it; nil if there is none.
func OwningMachine(object metav1.Object) *metav1.OwnerReference {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Kind != apikinds.VirtualMachine {
		return nil
	}
	if version, err := kubeschema.ParseGroupVersion(owner.APIVersion); err != nil || version.Group != v1.GroupVersion.Group {
		return nil
	}
	return owner
}

// exempted turns the findings of an exempted policy into ones that only reports show.
func exempted(findings []validators.Finding, by *validators.Exemption) []validators.Finding {
	if by == nil {
		return findings
	}
	for i := range findings {
		if !IsSkipped(&findings[i]) {
			findings[i].Severity, findings[i].Exempted = validators.Audit, by
		}
	}
	return findings
}
