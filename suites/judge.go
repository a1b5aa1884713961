package suites

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	v1 "kubevirt.io/api/core/v1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/documents"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/lookup"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/validators"
)

// Judge judges situations. It is safe for concurrent use.
type Judge struct {
	environment *cel.Environment
	pipeline    *effective.Pipeline
	rules       validators.Table
}

// NewJudge prepares one, which takes some tens of milliseconds. An error is a mistake in the program.
func NewJudge() (*Judge, error) {
	environment, err := cel.NewEnvironment()
	if err != nil {
		return nil, err
	}
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		return nil, err
	}
	return &Judge{environment, effective.NewPipeline(registry), registry.Rules()}, nil
}

// problem is a problem of a policy, in its file.
func (w *written) problem(p policies.Problem) Problem {
	found := at(w.document, p.Field, p.Message)
	if position, ok := w.document.InText(p.Field, p.Line, p.Column); ok {
		found.Line, found.Column = position.Line, position.Column
	}
	found.Warning = p.Warning
	return found
}

// configMap finds the parameters of policies.
func (s *Situation) configMap(namespace, name string) (map[string]string, bool) {
	for _, object := range s.Objects {
		if kind := object.GroupVersionKind(); kind.Group != "" || kind.Kind != kindConfigMap || object.GetName() != name || cmp.Or(object.GetNamespace(), s.Namespace.Name) != namespace {
			continue
		}
		found := &corev1.ConfigMap{}
		if _, err := documents.Decode(object.Object, found); err != nil {
			return nil, false // it was read before
		}
		return found.Data, true
	}
	return nil, false
}

// judge says what the policies and the checks find in a situation. The notes name what the object refers to and is not
// there: a cluster accepts that.
func (j *Judge) judge(ctx context.Context, s *Situation, set *policies.Set) (findings []validators.Finding, notes []string, err error) {
	if s.unchanged() {
		return nil, []string{"the update changes neither the spec nor labels or annotations, and so nobody is asked about it"}, nil
	}
	references, err := s.references()
	if err != nil {
		return nil, nil, err
	}
	b, err := j.bench(s, set, references)
	if err != nil {
		return nil, nil, err
	}
	in, notes, err := b.input(ctx, s.Object)
	if err != nil {
		return nil, nil, err
	}
	var before func() (effective.Input, error)
	if s.Old != nil {
		old, _, err := b.input(ctx, s.Old)
		if err != nil {
			return nil, nil, fmt.Errorf("the old object: %w", err)
		}
		in.OldVM, in.OldVMI = old.VM, old.VMI
		if in.Container != nil {
			in.Container.Old, in.OldVM = old.Container.Object, nil
		}
		if in.VMI == nil { // nobody but KubeVirt updates an instance, and what it changes is compared as a whole
			before = func() (effective.Input, error) { return old, nil }
		}
	}
	verdict, err := j.pipeline.Judge(in, before)
	if err != nil {
		return nil, nil, err
	}
	return verdict.Findings, notes, nil
}

// unchanged tells of an update that the API server does not ask about, by the match conditions of the chart.
func (s *Situation) unchanged() bool {
	if s.Old == nil {
		return false
	}
	return equality.Semantic.DeepEqual(s.Object.Object["spec"], s.Old.Object["spec"]) &&
		maps.Equal(s.Object.GetLabels(), s.Old.GetLabels()) && maps.Equal(s.Object.GetAnnotations(), s.Old.GetAnnotations())
}

// references are the objects that virtual machines refer to. Those that name no namespace are beside the object.
func (s *Situation) references() (*lookup.Memory, error) {
	var found []*unstructured.Unstructured
	for _, object := range s.Objects {
		switch object.GetKind() {
		case kindKubeVirt, kindNamespace, kindConfigMap, kindRuleSettings, kindDefaults:
		default:
			found = append(found, object)
		}
	}
	return lookup.NewMemory(s.Namespace.Name, found...)
}

// bench holds what is the same for the object and the one before.
type bench struct {
	pipeline  *effective.Pipeline
	situation *Situation
	objects   lookup.Objects
	in        effective.Input
}

func (j *Judge) bench(s *Situation, set *policies.Set, objects lookup.Objects) (*bench, error) {
	settings, err := j.settings(s)
	if err != nil {
		return nil, err
	}
	site, err := siteOf(s)
	if err != nil {
		return nil, err
	}
	extra := make(map[string][]string, len(s.User.Extra))
	for key, values := range s.User.Extra {
		extra[key] = values
	}
	return &bench{pipeline: j.pipeline, situation: s, objects: objects, in: effective.Input{
		Facts: s.Facts, Severities: settings.For(s.Namespace.Labels), Site: site.For(s.Namespace.Labels),
		Requester: s.User.Username, RequesterExtra: extra, Policies: set, Request: requestOf(s), Namespace: s.Namespace,
		Authorizer: permissions{s.User.Username, s.May}, Now: s.Now,
	}}, nil
}

// settings are the admin's severities. One that has no effect is a mistake of the suite.
func (j *Judge) settings(s *Situation) (*validators.Settings, error) {
	objects, err := decodedAs[policyv1alpha1.RuleSettings](s, kindRuleSettings)
	if err != nil {
		return nil, err
	}
	settings, notes := validators.NewSettings(j.rules, objects...)
	if len(notes) > 0 {
		return nil, errors.New(notes[0])
	}
	return settings, nil
}

func siteOf(s *Situation) (*mutators.Site, error) {
	objects, err := decodedAs[policyv1alpha1.VirtualMachineDefaults](s, kindDefaults)
	if err != nil {
		return nil, err
	}
	site, notes := mutators.NewSite(objects...)
	if len(notes) > 0 {
		return nil, errors.New(notes[0])
	}
	return site, nil
}

func decodedAs[T any](s *Situation, kind string) ([]T, error) {
	var all []T
	for _, object := range s.Objects {
		if object.GetKind() != kind || object.GroupVersionKind().Group != policyv1alpha1.GroupVersion.Group {
			continue
		}
		one := new(T)
		if _, err := documents.Decode(object.Object, one); err != nil {
			return nil, fmt.Errorf("%s %s: %w", kind, object.GetName(), err)
		}
		all = append(all, *one)
	}
	return all, nil
}

// requestOf is the request that a situation is about.
func requestOf(s *Situation) cel.Request {
	kind := s.Object.GroupVersionKind()
	resource := map[string]string{kindVM: "virtualmachines", kindVMI: "virtualmachineinstances", kindPool: "virtualmachinepools"}[kind.Kind]
	return cel.Request{
		Operation: s.Operation,
		Kind:      metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind},
		Resource:  metav1.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: resource},
		Name:      s.Object.GetName(), Namespace: s.Object.GetNamespace(), UserInfo: s.User,
	}
}

// input is what the pipeline is asked about an object, and what of it is missing.
func (b *bench) input(ctx context.Context, object *unstructured.Unstructured) (in effective.Input, notes []string, err error) {
	in = b.in
	if in.Raw, err = json.Marshal(object.Object); err != nil {
		return in, nil, err
	}
	switch object.GetKind() {
	case kindVM:
		in.VM = &v1.VirtualMachine{}
		err = typed(object, in.VM)
		in.Arrived = b.situation.Operation == update // its site's defaults were persisted when it was created
	case kindVMI:
		in.VMI = &v1.VirtualMachineInstance{}
		err = typed(object, in.VMI)
		in.Arrived = b.situation.Arrived || b.situation.Operation == update
	default:
		err = b.pool(object, &in)
	}
	if err != nil || in.VMI != nil && in.Arrived {
		return in, nil, err
	}
	if in.References, notes, err = lookup.For(ctx, b.objects, in.VM, in.VMI); err != nil {
		return in, notes, err
	}
	if in.VM != nil {
		if in.Running, err = lookup.Running(ctx, b.objects, in.VM); err != nil {
			return in, notes, err
		}
	}
	return in, notes, b.arrive(&in)
}

// arrive makes of an object what the webhooks that check it get to see: those that complete it were asked before, and
// what they wrote is as if the author had. KubeVirt's own, too, at every update of a VM.
func (b *bench) arrive(in *effective.Input) error {
	if in.Container != nil || in.VM != nil && in.VM.Spec.Template == nil {
		return nil // nobody completes it
	}
	verdict, err := b.pipeline.Complete(*in)
	if err != nil {
		return err
	}
	in.VM, in.VMI, in.Arrived = verdict.VM, verdict.VMI, true
	return nil
}

// pool is the VirtualMachine that a pool makes.
func (b *bench) pool(object *unstructured.Unstructured, in *effective.Input) error {
	made := &poolv1beta1.VirtualMachinePool{}
	if err := typed(object, made); err != nil {
		return err
	}
	if in.VM, in.Container = effective.OfPool(made); in.VM == nil {
		return errors.New("spec.virtualMachineTemplate: a pool needs a template")
	}
	in.Raw = nil
	return nil
}

// typed decodes an object whose fields are known to be those of its type.
func typed(object *unstructured.Unstructured, into any) error {
	_, err := documents.Decode(object.Object, into)
	return err
}

// permissions answer what somebody may do by a list.
type permissions struct {
	requester string
	all       []Permission
}

var _ authorizer.UnconditionalAuthorizer = permissions{}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (p permissions) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if slices.ContainsFunc(p.all, func(one Permission) bool { return p.grants(&one, a) }) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "the case does not say that this is allowed", nil
}

func (p permissions) grants(one *Permission, a authorizer.Attributes) bool {
	if a.GetUser() == nil || a.GetUser().GetName() != cmp.Or(one.User, p.requester) || !fits(one.Verb, a.GetVerb()) {
		return false
	}
	if !a.IsResourceRequest() {
		return one.Path != "" && fits(one.Path, a.GetPath())
	}
	return one.Path == "" && fits(one.Group, a.GetAPIGroup()) && fits(one.Resource, a.GetResource()) &&
		fits(one.Subresource, a.GetSubresource()) && fits(one.Namespace, a.GetNamespace()) && fits(one.Name, a.GetName())
}

// fits tells whether a value is the one that is meant, which may be any.
func fits(meant, value string) bool { return meant == "" || meant == "*" || meant == value }
