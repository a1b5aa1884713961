package webhooks

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	v1 "kubevirt.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/limits"
	"github.com/virtward/virtward/lookup"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/platform"
)

// MutatePath is where the Mutator is served.
const MutatePath = "/mutate"

// maxPatch bounds an answer, in bytes. A patch does not grow with the object, but with its number of disks.
const maxPatch = 1 << 20

// Mutator completes virtual machines when they are created. It answers every well-formed request with
// "allowed": what it cannot complete passes as it is.
type Mutator struct {
	Pipeline *effective.Pipeline
	// Facts returns the present facts; nil while there are none.
	Facts   func() *platform.Facts
	Objects lookup.Objects
	// Reading prepares for what a request about a namespace reads of them, until its end; nil if nothing bounds that.
	Reading func(ctx context.Context, namespace string) (_ context.Context, end func())
	// Site returns the admin's defaults; nil where there are none.
	Site func() *mutators.Site
	// NamespaceLabels finds the labels of a namespace, for defaults that select namespaces.
	NamespaceLabels func(ctx context.Context, namespace string) (k8slabels.Set, error)

	Metrics *Metrics
	Log     logr.Logger
	Clock   clock.PassiveClock

	// Room is shared with other webhooks of the process; its own if nil.
	Room *Room

	*door
}

// NewMutator prepares a Mutator for serving.
func NewMutator(m Mutator) *Mutator {
	if m.Room == nil {
		m.Room = NewRoom()
	}
	m.door = &door{name: "mutate", answer: m.respond, metrics: m.Metrics, log: m.Log, clock: m.Clock, room: m.Room}
	return &m
}

func (m *Mutator) respond(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, string) {
	response := &admissionv1.AdmissionResponse{Allowed: true}
	if request.Operation != admissionv1.Create || request.SubResource != "" {
		return response, verdictIgnored
	}
	input, err := m.input(request)
	var outOfProportion *field.Error
	if errors.As(err, &outOfProportion) {
		return m.skip(request, response, limits.Describe(outOfProportion)), verdictSkipped
	}
	if err != nil { // the API server will refuse it by its schema, which says it better
		m.Log.V(1).Info("passed an object that does not decode", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name, "reason", err.Error())
		return response, verdictUnchanged
	}
	if input == nil {
		return response, verdictIgnored
	}
	if err := m.complete(ctx, request, input, response); err != nil {
		m.Log.Error(err, "passed an object that could not be completed", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name)
		return &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{"virtward could not complete this object: " + err.Error()}}, verdictFailed
	}
	switch {
	case len(response.Patch) > maxPatch:
		response = &admissionv1.AdmissionResponse{Allowed: true}
		return m.skip(request, response, "what would have to be added is larger than 1 MiB"), verdictSkipped
	case response.Patch == nil:
		return response, verdictUnchanged
	}
	return response, verdictPatched
}

// skip lets an object pass that is out of all proportion. Whoever sent it is told, and so is the admin.
func (m *Mutator) skip(request *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse, why string) *admissionv1.AdmissionResponse {
	m.Log.Info("passed an object that is out of all proportion", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name, "reason", why)
	response.Warnings = []string{"virtward did not complete this object: " + why}
	return response
}

// input decodes the object of a request; nil for one that is not ours. A deletion timestamp says nothing at a
// creation: whoever writes the object can set one, and the API server drops it later.
func (m *Mutator) input(request *admissionv1.AdmissionRequest) (*effective.Input, error) {
	if request.Kind.Group != v1.GroupVersion.Group {
		return nil, nil
	}
	in := &effective.Input{}
	switch request.Kind.Kind {
	case kindVM:
		in.VM = &v1.VirtualMachine{}
		if err := decode(request.Object.Raw, in.VM); err != nil {
			return nil, err
		}
		if in.VM.Spec.Template == nil {
			return nil, nil
		}
		in.VM.Namespace = request.Namespace
	case kindVMI:
		in.VMI = &v1.VirtualMachineInstance{}
		if err := decode(request.Object.Raw, in.VMI); err != nil {
			return nil, err
		}
		in.VMI.Namespace = request.Namespace
	default:
		return nil, nil
	}
	return in, nil
}

// decode reads an object, unless doing so would take all day: a *field.Error names the field then.
func decode[T any](object []byte, into *T) error {
	evaluated, outOfProportion := limits.Evaluated(object, reflect.TypeFor[T]())
	if outOfProportion != nil {
		return outOfProportion
	}
	return sigsjson.UnmarshalCaseSensitivePreserveInts(evaluated, into)
}

// complete evaluates the input and writes its changes, warnings and audit annotations into the response.
func (m *Mutator) complete(ctx context.Context, request *admissionv1.AdmissionRequest, in *effective.Input, response *admissionv1.AdmissionResponse) error {
	if in.Facts = m.Facts(); in.Facts == nil {
		return errors.New("the KubeVirt resource has not been read yet")
	}
	if m.Reading != nil {
		reading, end := m.Reading(ctx, request.Namespace)
		defer end()
		ctx = reading
	}
	references, warnings, err := lookup.For(ctx, m.Objects, in.VM, in.VMI)
	if errors.Is(err, lookup.ErrPresets) {
		response.Warnings = []string{"virtward did not complete this object: " + err.Error()}
		return nil
	}
	if err != nil {
		return err
	}
	in.References = references
	if in.Site, err = siteIn(ctx, m.Site, m.NamespaceLabels, request.Namespace); err != nil {
		return err
	}
	verdict, err := m.Pipeline.Complete(*in)
	if err != nil {
		return err
	}
	patch, err := Patch(request.Object.Raw, verdict.Persist)
	if err != nil {
		return err
	}
	response.Warnings = bounded(slices.Concat(in.Facts.Warnings, warnings), 0)
	if patch == nil { // annotations of an earlier call for the same request must not be written again
		return nil
	}
	kind := admissionv1.PatchTypeJSONPatch
	response.Patch, response.PatchType = patch, &kind
	response.AuditAnnotations = map[string]string{
		"hypervisor": verdict.Hypervisor + "/" + verdict.Architecture,
		"layers":     strings.Join(effective.Layers(verdict.Persist), ","),
	}
	return nil
}
