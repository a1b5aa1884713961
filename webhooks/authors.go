package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/tidwall/gjson"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/copies"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/references"
)

// The mutating webhook records the author of each VirtualMachineRestore and VirtualMachineClone in an annotation. A guard
// allows only records of the user of the request. KubeVirt creates a VirtualMachineRestore for each clone: its record is that
// of the clone. When KubeVirt then creates the virtual machine, or restores it, the validating webhook reads the record, and
// the policies that read the request are evaluated again, with the author.

var (
	restoreKind = apikinds.Restores.GroupKind()
	cloneKind   = apikinds.Clones.GroupKind()
)

// copyReader reads what the records of copies in a namespace depend on.
type copyReader struct {
	ctx       context.Context
	objects   references.Objects
	namespace string
}

// find reads an object. It returns nil if the object does not exist or is too large.
func (r *copyReader) find(kind references.Kind, name string) (*unstructured.Unstructured, error) {
	return r.findIn(kind, r.namespace, name)
}

func (r *copyReader) findIn(kind references.Kind, namespace, name string) (*unstructured.Unstructured, error) {
	if name == "" {
		return nil, nil
	}
	found, err := references.Find(r.ctx, r.objects, kind, namespace, name)
	if errors.Is(err, platform.ErrTooLarge) {
		return nil, nil
	}
	return found, err
}

// content returns a snapshot and its content; nil if one of them does not exist yet.
func (r *copyReader) content(name string) (snapshot, content *unstructured.Unstructured, err error) {
	snapshot, err = r.find(references.Snapshot, name)
	if snapshot == nil || err != nil {
		return nil, nil, err
	}
	named, found, _ := unstructured.NestedString(snapshot.Object, "status", "virtualMachineSnapshotContentName")
	if !found {
		return nil, nil, nil
	}
	content, err = r.find(references.SnapshotContent, named)
	return snapshot, content, err
}

// source returns the content of a snapshot for a record; it is empty if there is none yet.
func (r *copyReader) source(name string) (copies.Source, error) {
	snapshot, content, err := r.content(name)
	if content == nil || err != nil {
		return copies.Source{}, err
	}
	digest, err := copies.DigestOf(content.Object["spec"])
	return copies.Source{Snapshot: snapshot.GetUID(), Content: digest}, err
}

// recordOf returns the record of a restore or a clone, or why it does not count: there is none, or it can be older than its
// guard, so that any user could have written it.
func (r *copyReader) recordOf(object *unstructured.Unstructured) (record copies.Record, why string, err error) {
	record, unreadable := copies.RecordOf(object.GetAnnotations())
	if unreadable != nil {
		return record, unreadable.Error(), nil //nolint:nilerr // the text has the error
	}
	since, err := r.guardedSince(object)
	switch {
	case err != nil:
		return record, "", err
	case since.IsZero():
		return record, "the guard " + admissionpolicies.CopyAuthors + " does not exist, or does not deny", nil
	case object.GetCreationTimestamp().Time.Before(since):
		return record, "it was created before the guard " + admissionpolicies.CopyAuthors, nil
	}
	return record, "", nil
}

// guardedSince returns the time since which the record of a restore or a clone is guarded.
func (r *copyReader) guardedSince(object *unstructured.Unstructured) (time.Time, error) {
	policy, err := guardObject[admissionregistrationv1.ValidatingAdmissionPolicy](r, apikinds.AdmissionPolicies.GroupVersionKind)
	if policy == nil || err != nil {
		return time.Time{}, err
	}
	binding, err := guardObject[admissionregistrationv1.ValidatingAdmissionPolicyBinding](r, apikinds.AdmissionBindings.GroupVersionKind)
	if binding == nil || err != nil {
		return time.Time{}, err
	}
	resource := apikinds.Restores
	if object.GetKind() == apikinds.VirtualMachineClone {
		resource = apikinds.Clones
	}
	return admissionpolicies.ActiveSince(resource.GroupVersionResource().GroupResource(), policy, binding), nil
}

// guardObject reads the policy of the guard, or its binding; nil if it does not exist or cannot be decoded.
func guardObject[T any](r *copyReader, kind references.Kind) (*T, error) {
	found, err := r.findIn(kind, "", admissionpolicies.CopyAuthors)
	if found == nil || err != nil {
		return nil, err
	}
	decoded := new(T)
	if runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, decoded) != nil {
		return nil, nil //nolint:nilerr // it is of another form, so it does not count
	}
	return decoded, nil
}

// recordAuthor records the author of a restore or a clone. Without a record, the object works as in KubeVirt, but policies
// that read the request deny its virtual machine.
func (m *Mutator) recordAuthor(ctx context.Context, request *admissionv1.AdmissionRequest, waits time.Time) (*admissionv1.AdmissionResponse, string) {
	ctx, cancel := context.WithDeadline(ctx, waits)
	defer cancel()
	ctx, end := m.ReserveReads.Begin(ctx, request.Namespace)
	defer end()
	wants, err := m.authorWanted(&copyReader{ctx, m.Evaluator.References, request.Namespace}, request)
	return m.record(request, copies.AnnotationAuthor, wants, err)
}

// authorWanted returns the annotation that a restore or a clone must have; empty for none.
func (m *Mutator) authorWanted(reader *copyReader, request *admissionv1.AdmissionRequest) (string, error) {
	facts := m.Evaluator.Facts.Facts()
	if facts == nil {
		return "", evaluator.ErrNoFacts
	}
	byKubeVirt := facts.ByKubeVirt(request.UserInfo.Username)
	if request.Operation == admissionv1.Update && (byKubeVirt || sameSpec(request)) {
		kept, _ := annotationOf(request.OldObject.Raw, copies.AnnotationAuthor)
		return kept, nil
	}
	if byKubeVirt {
		return reader.authorOfOwner(request)
	}
	source, err := reader.source(snapshotOf(request))
	if err != nil {
		return "", err
	}
	return copies.Record{Source: source, Requester: v1alpha1.RequesterFrom(request.UserInfo)}.Text()
}

// sameSpec reports whether an update leaves the spec.
func sameSpec(request *admissionv1.AdmissionRequest) bool {
	after, before := member(gjson.ParseBytes(request.Object.Raw), "spec").Raw, member(gjson.ParseBytes(request.OldObject.Raw), "spec").Raw
	if after == before {
		return true
	}
	var x, y any
	return json.Unmarshal([]byte(after), &x) == nil && json.Unmarshal([]byte(before), &y) == nil && reflect.DeepEqual(x, y)
}

// snapshotOf returns the name of the snapshot that a restore or a clone names; empty for none.
func snapshotOf(request *admissionv1.AdmissionRequest) string {
	spec := member(gjson.ParseBytes(request.Object.Raw), "spec")
	if groupKind(request) == restoreKind {
		return member(spec, "virtualMachineSnapshotName").Str
	}
	source := member(spec, "source")
	if member(source, "kind").Str != apikinds.VirtualMachineSnapshot {
		return ""
	}
	return member(source, "name").Str
}

// authorOfOwner returns the record for the restore that KubeVirt creates for a clone: the author of the clone, and the content
// of the snapshot; that of the clone, if the clone is one of a snapshot. It is empty if no clone with a record owns the
// restore.
func (r *copyReader) authorOfOwner(request *admissionv1.AdmissionRequest) (string, error) {
	owner := ownerOf(request.Object.Raw)
	if groupKind(request) != restoreKind || owner == nil || ownedKind(owner) != cloneKind {
		return "", nil
	}
	clone, err := r.find(references.Clone, owner.Name)
	if clone == nil || err != nil || clone.GetUID() != owner.UID {
		return "", err
	}
	record, why, err := r.recordOf(clone)
	if why != "" || err != nil {
		return "", err
	}
	if record.Content == "" {
		if record.Source, err = r.source(snapshotOf(request)); err != nil {
			return "", err
		}
	}
	return record.Text()
}

// ownerOf returns the owner that controls an object in JSON; nil for none.
func ownerOf(object []byte) *metav1.OwnerReference {
	owners := member(member(gjson.ParseBytes(object), "metadata"), "ownerReferences")
	if !owners.IsArray() {
		return nil
	}
	var all []metav1.OwnerReference
	if json.Unmarshal([]byte(owners.Raw), &all) != nil {
		return nil
	}
	for i := range all {
		if all[i].Controller != nil && *all[i].Controller {
			return &all[i]
		}
	}
	return nil
}

func ownedKind(owner *metav1.OwnerReference) schema.GroupKind {
	return schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
}

// findAuthor finds the user for whom KubeVirt creates or restores a virtual machine, if a policy reads the request. The error
// means that the cluster cannot be read.
func (e *examination) findAuthor() error {
	r := e.request
	if groupKind(r) != evaluator.VirtualMachine || r.SubResource != "" || !e.snapshot.Facts().ByKubeVirt(r.UserInfo.Username) ||
		!e.snapshot.Policies().ReadsRequest(policyv1alpha1.PolicyVirtualMachine, policyv1alpha1.PolicyOperation(r.Operation)) {
		return nil
	}
	restore, found := annotationOf(r.Object.Raw, copies.AnnotationRestore)
	switch r.Operation {
	case admissionv1.Update:
		if before, _ := annotationOf(r.OldObject.Raw, copies.AnnotationRestore); !found || restore == before {
			return nil // it is no restore
		}
	case admissionv1.Create:
		set, err := e.ofSet()
		switch {
		case err != nil:
			return err
		case set != "" && !found:
			return nil // the author of the set was evaluated
		case set != "":
			e.author = &cel.Author{Unknown: "a " + set + " owns it, and it has the annotation " + copies.AnnotationRestore}
			return nil
		}
	default:
		return nil
	}
	user, why, err := e.authorOf(restore)
	if err != nil {
		return fmt.Errorf("reading the author of the virtual machine: %w", err)
	}
	e.author = &cel.Author{User: user, Unknown: why}
	return nil
}

// setsOfVMs are the kinds of sets from which KubeVirt makes virtual machines.
var setsOfVMs = apikinds.MachineKinds(func(m *apikinds.Machine) bool { return m.Set() && m.Makes == apikinds.VirtualMachine })

// ofSet returns the kind of the set, such as a VirtualMachinePool, that owns the virtual machine; empty if none does.
func (e *examination) ofSet() (string, error) {
	owner := ownerOf(e.request.Object.Raw)
	if owner == nil {
		return "", nil
	}
	i := slices.IndexFunc(setsOfVMs, func(m apikinds.Machine) bool { return m.GroupKind() == ownedKind(owner) })
	if i < 0 {
		return "", nil
	}
	set, err := e.find(setsOfVMs[i].GroupVersionKind, owner.Name)
	if err != nil || set == nil || set.GetUID() != owner.UID {
		return "", err
	}
	return setsOfVMs[i].Kind, nil
}

// authorOf returns the recorded author of a restore, which AnnotationRestore names, or why the author is not known.
func (e *examination) authorOf(mark string) (user authenticationv1.UserInfo, why string, err error) {
	name, uid, ok := copies.RestoreOf(mark)
	if !ok {
		return user, "the annotation " + copies.AnnotationRestore + " names no VirtualMachineRestore", nil
	}
	restore, err := e.find(references.Restore, name)
	if err != nil {
		return user, "", err
	}
	if restore == nil || restore.GetUID() != uid {
		return user, "the VirtualMachineRestore of the annotation " + copies.AnnotationRestore + " does not exist", nil
	}
	of := "the VirtualMachineRestore " + name + ": "
	if why := unrelated(restore, e.request); why != "" {
		return user, of + why, nil
	}
	record, why, err := e.copies().recordOf(restore)
	if why != "" || err != nil {
		return user, of + why, err
	}
	named, _, _ := unstructured.NestedString(restore.Object, "spec", "virtualMachineSnapshotName")
	source, err := e.copies().source(named)
	switch {
	case err != nil:
		return user, "", err
	case record.Content == "" || record.Snapshot == "":
		return user, of + "its snapshot was not ready, or too large, when it was created", nil
	case record.Source != source:
		return user, of + "its snapshot has changed since it was created", nil
	}
	return record.User(), "", nil
}

// unrelated returns why a restore does not create or change the virtual machine of a request; empty if it does.
func unrelated(restore *unstructured.Unstructured, request *admissionv1.AdmissionRequest) string {
	target, _, _ := unstructured.NestedStringMap(restore.Object, "spec", "target")
	complete, _, _ := unstructured.NestedBool(restore.Object, "status", "complete")
	switch {
	case target["kind"] != apikinds.VirtualMachine || target["name"] != request.Name || request.Name == "":
		return "its target is another object"
	case complete:
		return "it is complete"
	}
	return ""
}

// copies returns the reader of the records of the request's namespace.
func (e *examination) copies() *copyReader {
	return &copyReader{e.ctx, e.Evaluator.References, e.request.Namespace}
}
