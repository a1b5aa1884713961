package evaluator

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/validators"
)

// DecodeStored decodes an object, as an API server stores it, into a pointer to its Go type. The error is a *field.Error
// if the object exceeds a limit of package decode. DecodeStored recovers from panics, because the types of some
// fields have decoders of their own.
func DecodeStored(object []byte, into any) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("decoding the object failed: %.200v", cause)
		}
	}()
	parts := parting.Get().(*parts)
	defer parts.free()
	evaluated, limit := decode.EvaluatedIn(&parts.evaluated, object, reflect.TypeOf(into).Elem())
	if limit != nil {
		return limit
	}
	if parts.decode(evaluated, into) {
		return nil
	}
	return sigsjson.UnmarshalCaseSensitivePreserveInts(evaluated, into)
}

// parts are the bytes of an object that are decoded: without what is not evaluated, and of these what is not the spec. What is decoded
// has copies of them, so that they are used again for other objects.
type parts struct{ evaluated, rest []byte }

var parting = sync.Pool{New: func() any { return &parts{} }}

// maxParts bounds the bytes that are kept for other objects. Few objects are larger.
const maxParts = 32 << 10

func (p *parts) free() {
	if cap(p.evaluated) <= maxParts && cap(p.rest) <= maxParts {
		parting.Put(p)
	}
}

// decode decodes a virtual machine or an instance without its spec, and then the spec, whose type has a decoder of its own: as a
// part of the object, it would be read three times. It returns false, and leaves nothing behind, for objects that have an error or two
// specs.
func (p *parts) decode(object []byte, into any) bool {
	var path []string
	switch into.(type) {
	case *v1.VirtualMachineInstance:
		path = []string{"spec"}
	case *v1.VirtualMachine:
		path = []string{"spec", "template", "spec"}
	default:
		return false
	}
	place := &part{}
	place.find(object, 0, path)
	if place.times != 1 || object[place.from] != '{' {
		return false
	}
	p.rest = slices.Grow(p.rest[:0], len(object)-(place.to-place.from)+len("null"))
	p.rest = append(append(append(p.rest, object[:place.from]...), "null"...), object[place.to:]...)
	spec, failed := object[place.from:place.to], sigsjson.UnmarshalCaseSensitivePreserveInts(p.rest, into) != nil
	switch decoded := into.(type) {
	case *v1.VirtualMachineInstance:
		if failed || decoded.Spec.UnmarshalJSON(spec) != nil {
			*decoded = v1.VirtualMachineInstance{}
			return false
		}
	case *v1.VirtualMachine:
		if failed || decoded.Spec.Template == nil || decoded.Spec.Template.Spec.UnmarshalJSON(spec) != nil {
			*decoded = v1.VirtualMachine{}
			return false
		}
	}
	return true
}

// part is a value in an object: where it is, and how many values have its path.
type part struct{ from, to, times int }

func (p *part) find(object []byte, at int, path []string) (to int) {
	if len(path) == 0 {
		p.times++
		p.from, p.to = at, decode.Skip(object, at)
		return p.to
	}
	return decode.Members(object, at, func(name []byte, from int) int {
		if string(name) == path[0] {
			return p.find(object, from, path[1:])
		}
		return decode.Skip(object, from)
	})
}

func (s *Snapshot) decode(object []byte, into any) ([]string, error) {
	if s.evaluator.Decode != nil {
		return s.evaluator.Decode(object, into)
	}
	return nil, DecodeStored(object, into)
}

// decoded has the objects of a request.
type decoded struct {
	object metav1.Object
	// old is the object before an update; nil otherwise.
	old metav1.Object
	// wasUnreadable reports that old cannot be read and is empty. Then no finding is pre-existing.
	wasUnreadable bool
}

// read decodes the objects of a request. If they cannot be evaluated, ok is false, and the result has the reason.
func (s *Snapshot) read(k *kind, r *Request, result *Result) (d decoded, ok bool) {
	var err error
	d.object, result.Warnings, err = s.readOne(k, r, r.Object)
	if err != nil {
		result.Unreadable, result.Findings = err, append(result.Findings, s.Unreadable(k.typ, r, err))
		return d, false
	}
	r.Name, r.Namespace = cmp.Or(r.Name, d.object.GetName()), d.object.GetNamespace()
	if r.Stage == Stored {
		if result.Skipped = ended(d.object); result.Skipped != "" {
			return d, false
		}
	}
	if !r.updates() {
		return d, true
	}
	if d.old, _, err = s.readOne(k, r, r.OldObject); err != nil {
		d.old, d.wasUnreadable = k.empty(), true
		d.old.SetNamespace(d.object.GetNamespace())
	}
	if d.old.GetDeletionTimestamp() != nil && Unchanged(k.typ, r, "metadata", "status") {
		result.Skipped = "it is being deleted, and its spec does not change"
		return d, false
	}
	return d, true
}

func (s *Snapshot) readOne(k *kind, r *Request, raw []byte) (metav1.Object, []string, error) {
	object := k.empty()
	warnings, err := s.decode(raw, object)
	if err != nil {
		return nil, nil, err
	}
	if r.Namespace != "" || !k.namespaced {
		object.SetNamespace(r.Namespace)
	}
	return object, warnings, nil
}

// ended returns why a stored object is not evaluated, or "" if it is.
func ended(object metav1.Object) string {
	if object.GetDeletionTimestamp() != nil {
		return "it is being deleted"
	}
	if vmi, ok := object.(*v1.VirtualMachineInstance); ok && vmi.IsFinal() {
		return "it has ended"
	}
	return ""
}

// Unreadable returns the finding for an object that exceeds a limit or does not have the form of its Go type. It is a
// warning for an update that does not change the evaluated fields. KubeVirt's accounts may also change labels,
// annotations and hotplugged fields, because otherwise such an object could not be migrated or deleted.
func (s *Snapshot) Unreadable(t reflect.Type, r *Request, err error) validators.Finding {
	finding := validators.Finding{Rule: validators.RuleReadable, Severity: validators.Deny, Error: fieldError(err), Remedy: validators.RemedyReadable}
	if r.updates() && Unchanged(t, r, s.free(r)...) {
		finding.Severity, finding.PreExisting = validators.Warn, true
	}
	return finding
}

// checkSize adds a finding if the object is larger than the limit of its kind.
func (s *Snapshot) checkSize(k *kind, r *Request, result *Result) {
	if k.maxBytes == 0 {
		return
	}
	raw, limit := decode.Evaluated(r.Object, reflect.TypeFor[any]())
	if limit != nil || len(raw) <= k.maxBytes {
		return
	}
	result.Findings = append(result.Findings, s.Unreadable(reflect.TypeFor[any](), r, &field.Error{
		Type: field.ErrorTypeTooLong, Field: "spec", BadValue: field.OmitValueType{},
		Detail: fmt.Sprintf("the object has %d bytes; at most %d are allowed", len(raw), k.maxBytes),
	}))
}

// notEvaluated has the fields that rules and policies do not read. They may change in an object that cannot be read.
var notEvaluated = []string{
	"status", "metadata.managedFields", "metadata.finalizers", "metadata.ownerReferences", "metadata.resourceVersion", "metadata.generation",
	"metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds", "metadata.uid", "metadata.creationTimestamp", "metadata.selfLink",
}

// plugged has the fields of a running instance's spec that KubeVirt changes for hotplug and migration. The template of a
// VM has the same ones.
var plugged = []string{
	"domain.cpu", "domain.memory", "domain.resources", "domain.devices.disks", "domain.devices.filesystems", "domain.devices.interfaces",
	"domain.devices.hostDevices", "volumes", "utilityVolumes", "networks", "nodeSelector", "affinity", "tolerations", "evictionStrategy",
}

// free returns the fields that the user may change in an object that cannot be read. An owner would be a way to delete it.
func (s *Snapshot) free(r *Request) []string {
	if !s.deletable(r) && s.active.Policies.DeniesUnreadable(policyv1alpha1.PolicyKind(r.Kind.Kind)) {
		return slices.DeleteFunc(slices.Clone(notEvaluated), func(name string) bool { return name == ownerField })
	}
	if !s.facts.ByKubeVirt(r.User.Username) {
		return notEvaluated
	}
	fields := slices.Concat(notEvaluated, []string{"metadata.labels", "metadata.annotations"})
	spec := "spec."
	switch r.groupKind() {
	case VirtualMachine:
		spec = "spec.template.spec."
		fields = append(fields, "spec.running", "spec.runStrategy")
	case VirtualMachineInstance:
	default:
		return fields
	}
	for _, name := range plugged {
		fields = append(fields, spec+name)
	}
	return fields
}

// Unchanged reports whether an update changes no fields of an object except some. The object need not be readable. It
// returns false if the object has no normal form.
func Unchanged(t reflect.Type, r *Request, except ...string) bool {
	after, err := decode.Form(r.Object, t, except...)
	if err != nil {
		return false
	}
	before, err := decode.Form(r.OldObject, t, except...)
	return err == nil && bytes.Equal(before, after)
}

// fieldError returns an error of decoding as a field error. One without a field is at the spec.
func fieldError(err error) *field.Error {
	var named *field.Error
	if errors.As(err, &named) {
		return named
	}
	return &field.Error{Type: field.ErrorTypeInvalid, Field: "spec", BadValue: field.OmitValueType{}, Detail: err.Error()}
}
