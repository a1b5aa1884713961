package policytest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/validators"
)

// Runner evaluates situations. It is safe for concurrent use.
type Runner struct {
	environment *cel.Environment
	pipeline    *effective.Pipeline
	rules       validators.Table
	schemas     *schemaSets
}

// NewRunner returns a runner. The first one of a process takes some tens of milliseconds. An error is a defect of Virtward.
func NewRunner() (*Runner, error) {
	environment, err := cel.Shared()
	if err != nil {
		return nil, err
	}
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		return nil, err
	}
	return &Runner{environment, effective.NewPipeline(registry), registry.Rules(), &schemaSets{}}, nil
}

// problem returns a problem of a policy with its position in the file.
func (w *written) problem(p diagnostics.Problem) Problem {
	found := at(w.document, p.Field, p.Message)
	if position, ok := w.document.InText(p.Field, p.Line, p.Column); ok {
		found.Line, found.Column = position.Line, position.Column
	}
	found.Warning = p.Warning
	return found
}

// configMap returns the data of a ConfigMap of the situation.
func (s *Situation) configMap(namespace, name string) (map[string]string, bool) {
	for _, object := range s.Objects {
		if kind := object.GroupVersionKind(); kind.Group != "" || kind.Kind != apikinds.ConfigMap || object.GetName() != name || cmp.Or(object.GetNamespace(), s.Namespace.Name) != namespace {
			continue
		}
		found := &corev1.ConfigMap{}
		if _, err := manifests.Decode(object.Object, found); err != nil {
			return nil, false // reading the situation reports the error
		}
		return found.Data, true
	}
	return nil, false
}

// evaluate returns what the policies and the rules find in a situation. The warnings name references that are missing, which a
// cluster accepts, and exceptions that are not active.
func (j *Runner) evaluate(ctx context.Context, s *Situation, set *policies.Set) (*evaluator.Result, error) {
	if s.unchanged() {
		return &evaluator.Result{Warnings: []string{"the update changes neither the spec nor labels, annotations or owners: the API server does not call the webhooks"}}, nil
	}
	exceptions, notes, err := exceptionsOf(s)
	if err != nil {
		return nil, err
	}
	evaluates, err := j.evaluatorFor(s, set.Exempting(exceptions))
	if err != nil {
		return nil, err
	}
	request, err := requestOf(s)
	if err != nil {
		return nil, err
	}
	snapshot, err := evaluates.Snapshot(s.Now)
	if err != nil {
		return nil, err
	}
	if s.Running {
		if err := s.run(ctx, evaluates, snapshot, &request); err != nil {
			return nil, err
		}
	}
	result, err := snapshot.Evaluate(ctx, request)
	if err != nil {
		return nil, err
	}
	if limit := (*field.Error)(nil); result.Unreadable != nil && !errors.As(result.Unreadable, &limit) {
		return nil, result.Unreadable // an API server rejects it before
	}
	result.Warnings = append(notes, result.Warnings...)
	return result, nil
}

// unchanged reports whether the match conditions of the chart exclude an update.
func (s *Situation) unchanged() bool {
	if s.Old == nil {
		return false
	}
	return equality.Semantic.DeepEqual(s.Object.Object["spec"], s.Old.Object["spec"]) &&
		maps.Equal(s.Object.GetLabels(), s.Old.GetLabels()) && maps.Equal(s.Object.GetAnnotations(), s.Old.GetAnnotations()) &&
		equality.Semantic.DeepEqual(s.Object.GetOwnerReferences(), s.Old.GetOwnerReferences())
}

// references returns the objects that virtual machines refer to. The default namespace is that of the object.
func (s *Situation) references() (*references.Memory, error) {
	var found []*unstructured.Unstructured
	for _, object := range s.Objects {
		switch object.GetKind() {
		case apikinds.KubeVirt, apikinds.Namespace, apikinds.RuleSettings, apikinds.VirtualMachineDefaults, apikinds.VirtualMachinePolicyException:
		default:
			found = append(found, object)
		}
	}
	return references.NewMemory(s.Namespace.Name, found...)
}

// evaluatorFor returns an evaluator for a situation.
func (j *Runner) evaluatorFor(s *Situation, set *policies.Set) (*evaluator.Evaluator, error) {
	objects, err := s.references()
	if err != nil {
		return nil, err
	}
	settings, err := j.settings(s)
	if err != nil {
		return nil, err
	}
	site, err := siteOf(s)
	if err != nil {
		return nil, err
	}
	nodes, err := nodesOf(s)
	if err != nil {
		return nil, err
	}
	return evaluator.New(j.pipeline, objects, &evaluator.Live{
		GetFacts:           func() *platform.Facts { return s.Facts },
		GetSettings:        func() *validators.Settings { return settings },
		GetSite:            func() *mutators.Site { return site },
		GetPolicies:        func() *policies.Set { return set },
		GetNodes:           func() *placement.Snapshot { return nodes },
		GetNamespaceLabels: func(context.Context, string) (k8slabels.Set, error) { return s.Namespace.Labels, nil },
		GetNamespace:       func(context.Context, string) (*corev1.Namespace, error) { return s.Namespace, nil },
	}), nil
}

// settings compiles the RuleSettings of the situation. One without an effect is an error.
func (j *Runner) settings(s *Situation) (*validators.Settings, error) {
	objects, err := decodedAs[policyv1alpha1.RuleSettings](s, schema.GroupKind{Group: policyv1alpha1.GroupVersion.Group, Kind: apikinds.RuleSettings})
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
	objects, err := decodedAs[policyv1alpha1.VirtualMachineDefaults](s, schema.GroupKind{Group: policyv1alpha1.GroupVersion.Group, Kind: apikinds.VirtualMachineDefaults})
	if err != nil {
		return nil, err
	}
	site, notes := mutators.NewSite(objects...)
	if len(notes) > 0 {
		return nil, errors.New(notes[0])
	}
	return site, nil
}

// exceptionsOf returns the exceptions of policies of the situation, as if a user created them who may. The notes name those
// that are not active. An invalid one is an error.
func exceptionsOf(s *Situation) (exceptions *policies.Exceptions, notes []string, err error) {
	objects, err := decodedAs[policyv1alpha1.VirtualMachinePolicyException](s, schema.GroupKind{Group: policyv1alpha1.GroupVersion.Group, Kind: apikinds.VirtualMachinePolicyException})
	if err != nil {
		return nil, nil, err
	}
	given := make([]*policyv1alpha1.VirtualMachinePolicyException, len(objects))
	for i := range objects {
		given[i] = &objects[i]
		given[i].Namespace = cmp.Or(given[i].Namespace, s.Namespace.Name)
	}
	exceptions = policies.NewExceptions(policies.ExceptionTerms{Trusted: true}, given...)
	for _, state := range exceptions.States(s.Now) {
		text := fmt.Sprintf("%s %s is not active: %s", apikinds.VirtualMachinePolicyException, state.Object.Name, state.Message)
		switch {
		case state.Reason == policyv1alpha1.ExceptionReasonInvalid:
			return nil, nil, errors.New(text)
		case !state.Active:
			notes = append(notes, text)
		}
	}
	return exceptions, notes, nil
}

// decodedAs decodes the objects of a kind.
func decodedAs[T any](s *Situation, kind schema.GroupKind) ([]T, error) {
	var all []T
	for _, object := range s.Objects {
		if object.GroupVersionKind().GroupKind() != kind {
			continue
		}
		one := new(T)
		if _, err := manifests.Decode(object.Object, one); err != nil {
			return nil, fmt.Errorf("%s %s: %w", kind.Kind, object.GetName(), err)
		}
		all = append(all, *one)
	}
	return all, nil
}

// requestOf returns the request of a situation.
func requestOf(s *Situation) (r evaluator.Request, err error) {
	kind := s.Object.GroupVersionKind()
	info, _ := evaluator.Info(kind.GroupKind()) // the kind was checked before
	r = evaluator.Request{
		Kind:      metav1.GroupVersionKind(kind),
		Resource:  metav1.GroupVersionResource(kind.GroupVersion().WithResource(info.Resource.Resource)),
		Namespace: s.Object.GetNamespace(), Name: s.Object.GetName(), Operation: admissionv1.Operation(s.Operation),
		User: s.User, Authorizer: permissions{s.User.Username, s.May},
	}
	if s.PostMutation {
		r.Stage = evaluator.Admitted
	}
	r.Object, err = json.Marshal(s.Object.Object)
	if s.Operation == remove {
		r.Object, r.OldObject = nil, r.Object
	}
	if err != nil || s.Old == nil {
		return r, err
	}
	r.OldObject, err = json.Marshal(s.Old.Object)
	return r, err
}

// permissions authorize requests by a list.
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
	return authorizer.DecisionNoOpinion, "the case does not allow this", nil
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

// fits reports whether a value matches. An empty pattern and * match all values.
func fits(meant, value string) bool { return meant == "" || meant == "*" || meant == value }

// nodesOf prepares the Nodes of a situation, which are empty; nil if it has none, as in a cluster whose nodes are not watched.
func nodesOf(s *Situation) (*placement.Snapshot, error) {
	cluster := &placement.Cluster{Unknown: placement.Nothing()}
	nodes, err := decodedAs[corev1.Node](s, schema.GroupKind{Kind: apikinds.Node})
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	for i := range nodes {
		cluster.Nodes = append(cluster.Nodes, placement.TrimNode(&nodes[i]))
	}
	return placement.NewSnapshot(cluster)
}
