package evaluator

import (
	"context"
	"slices"

	"github.com/tidwall/gjson"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/validators"
)

// deletes reports whether the request is a deletion.
func (r *Request) deletes() bool { return r.Operation == admissionv1.Delete }

// ownerField is the field of a finding about a change of the owners.
const ownerField = "metadata.ownerReferences"

// Deletable reports whether no policy is evaluated on deletions of a kind by a user. It also answers before there are
// facts.
func (e *Evaluator) Deletable(kind, user string) bool {
	if e.Configuration == nil || !e.Configuration.Active().Policies.Deletes(policyv1alpha1.PolicyKind(kind)) {
		return true
	}
	return deletable(e.Facts.Facts(), user)
}

// DeniesUnevaluated reports whether a policy denies deletions of a kind that cannot be evaluated.
func (e *Evaluator) DeniesUnevaluated(kind policyv1alpha1.PolicyKind) bool {
	return e.Configuration != nil && e.Configuration.Active().Policies.DeniesUnreadable(kind)
}

// deletable reports whether deletions by a user are never evaluated.
func deletable(facts *platform.Facts, user string) bool {
	return policies.DeletesForSystem(user) || facts != nil && facts.ByKubeVirt(user)
}

// deletable reports whether no policy is evaluated on the deletion of the object of a request.
func (s *Snapshot) deletable(r *Request) bool {
	return !s.active.Policies.Deletes(policyv1alpha1.PolicyKind(r.Kind.Kind)) || deletable(s.facts, r.User.Username)
}

// deletion evaluates the policies on the deletion of OldObject. Rules are not evaluated.
func (s *Snapshot) deletion(ctx context.Context, k *kind, r *Request, result *Result) error {
	if k.machine == nil || s.deletable(r) {
		result.Skipped = "no policy is evaluated on this deletion"
		return nil
	}
	object, _, err := s.readOne(k, r, r.OldObject)
	if err != nil {
		result.Unreadable, result.Findings = err, append(result.Findings, s.undeletable(r, err))
		return nil
	}
	if object.GetDeletionTimestamp() != nil {
		result.Skipped = "it is being deleted already"
		return nil
	}
	if r.Name == "" {
		r.Name = object.GetName()
	}
	r.Namespace, r.Stage = object.GetNamespace(), Stored
	result.Namespace = r.Namespace
	around, err := s.namespaceContext(ctx, r.Namespace)
	if err != nil {
		return err
	}
	e := &evaluation{Snapshot: s, kind: k, request: r, around: around, result: result}
	m := k.machine(object, nil)
	if m.none() {
		return nil
	}
	in, err := e.input(ctx, m, r.OldObject)
	if err != nil {
		return err
	}
	verdict, err := s.evaluator.Pipeline.DecideDeletion(in)
	if err != nil {
		return err
	}
	result.Verdict, result.Findings = verdict, append(result.Findings, verdict.Findings...)
	result.Warnings = around.warnings // those about missing references do not help
	return nil
}

// undeletable returns the finding for a deleted object that cannot be read. It denies if a policy denies what it cannot
// evaluate.
func (s *Snapshot) undeletable(r *Request, err error) validators.Finding {
	finding := validators.Finding{Rule: validators.RuleReadable, Severity: validators.Warn, Error: fieldError(err), Remedy: validators.RemedyReadable}
	if s.active.Policies.DeniesUnreadable(policyv1alpha1.PolicyKind(r.Kind.Kind)) {
		finding.Severity = validators.Deny
	}
	return finding
}

// ownership evaluates an update that adds or changes owners as the deletion of the object before the update: the garbage
// collector deletes an object without one of its owners, and policies are not evaluated then.
func (s *Snapshot) ownership(ctx context.Context, k *kind, r *Request, d decoded, result *Result) error {
	if !ownersChange(r, d) {
		return nil
	}
	deletion := *r
	deletion.Operation, deletion.Object, deletion.Options = admissionv1.Delete, nil, nil
	deleted := &Result{}
	if err := s.deletion(ctx, k, &deletion, deleted); err != nil {
		return err
	}
	for i := range deleted.Findings {
		f := deleted.Findings[i]
		moved := *f.Error
		moved.Field, moved.BadValue = ownerField, field.OmitValueType{}
		moved.Detail = "the garbage collector deletes the object together with its owners: " + moved.Detail
		f.Error, f.Effective, f.Source = &moved, "", ""
		result.Findings = append(result.Findings, f)
	}
	return nil
}

// rawOwners returns the owner references of an object in JSON.
func rawOwners(object []byte) string { return gjson.GetBytes(object, ownerField).Raw }

// ownersChange reports whether an update leaves an object with owners that are not those of before. Without owners, the
// garbage collector does not delete it. Not all references of a long list are decoded, so any change of it counts. An object
// that could not be read is taken for one without owners.
func ownersChange(r *Request, d decoded) bool {
	if decode.ManyOwners(rawOwners(r.Object)) || decode.ManyOwners(rawOwners(r.OldObject)) {
		return true
	}
	now := owners(d.object)
	return len(now) > 0 && !equality.Semantic.DeepEqual(owners(d.old), now)
}

// owners returns the owners of an object, sorted. Of a reference, these fields decide what the garbage collector does.
func owners(object metav1.Object) []metav1.OwnerReference {
	var found []metav1.OwnerReference
	for _, o := range object.GetOwnerReferences() {
		found = append(found, metav1.OwnerReference{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: o.UID})
	}
	slices.SortFunc(found, func(a, b metav1.OwnerReference) int {
		return slices.Compare([]string{string(a.UID), a.APIVersion, a.Kind, a.Name}, []string{string(b.UID), b.APIVersion, b.Kind, b.Name})
	})
	return found
}
