package rejections

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"

	"github.com/virtward/virtward/api/apikinds"
	imagev1alpha1 "github.com/virtward/virtward/api/image/v1alpha1"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	rolloutv1alpha1 "github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/cli/catalogue/examples"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/goldenimages"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/plugins"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/rollouts/fleet"
	"github.com/virtward/virtward/validators"
)

// longestException is how long an exception of a policy may be in the examples.
const longestException = 1000 * time.Hour

// Evaluator evaluates examples.
type Evaluator struct {
	registry *hypervisors.Registry
	pipeline *effective.Pipeline
	schemas  *offline.Schemas
}

// New returns an evaluator with the rules of a registry.
func New(registry *hypervisors.Registry) *Evaluator {
	schemas, _ := offline.NewSchemas("")
	return &Evaluator{registry: registry, pipeline: effective.NewPipeline(registry), schemas: schemas}
}

// Evaluate returns what is wrong with an object in the circumstances of an example. The findings have the remedies of their rules.
func (v *Evaluator) Evaluate(ctx context.Context, e *examples.Example, object map[string]any) ([]validators.Finding, error) {
	found, err := v.evaluate(ctx, e, object)
	if err != nil {
		return nil, err
	}
	for i := range found {
		if rule, err := v.registry.Rules().Find(found[i].Rule); err == nil && found[i].Remedy == "" {
			found[i].Remedy = rule.Remedy
		}
	}
	return found, nil
}

// Messages returns the messages about a rule that users see for its example, each with its field.
func (v *Evaluator) Messages(ctx context.Context, rule string, e *examples.Example) (messages []string, err error) {
	if e == nil {
		return nil, nil
	}
	found, err := v.Evaluate(ctx, e, e.Object)
	if err != nil {
		return nil, fmt.Errorf("the example of %s: %w", rule, err)
	}
	for i := range found {
		if found[i].Rule == rule {
			messages = append(messages, found[i].Error.Field+": "+found[i].Message())
		}
	}
	return messages, nil
}

func (v *Evaluator) evaluate(ctx context.Context, e *examples.Example, object map[string]any) ([]validators.Finding, error) {
	snapshot, err := v.snapshot(e)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding the object: %w", err)
	}
	kind := (&unstructured.Unstructured{Object: object}).GroupVersionKind()
	if check := configuration()[kind.Kind]; check != nil {
		return check(v.registry, snapshot, encoded)
	}
	request, err := requestFor(e, kind, encoded)
	if err != nil {
		return nil, err
	}
	result, err := snapshot.Evaluate(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("evaluating the object: %w", err)
	}
	if err := v.schemas.Validate(ctx, offline.Written{Object: object, Old: e.Old, Namespace: metav1.NamespaceDefault}, result); err != nil {
		return nil, fmt.Errorf("validating the schema: %w", err)
	}
	return result.Findings, nil
}

// snapshot returns a snapshot of a cluster in the circumstances of an example.
func (v *Evaluator) snapshot(e *examples.Example) (*evaluator.Snapshot, error) {
	facts, err := platform.FromKubeVirt(&unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "kubevirt", "namespace": "kubevirt"}, "spec": map[string]any{"configuration": e.KubeVirt},
	}}, platform.Settings{})
	if err != nil {
		return nil, fmt.Errorf("the configuration of KubeVirt: %w", err)
	}
	around, architectures, nodes := []*unstructured.Unstructured{}, []string{}, []*corev1.Node{}
	for _, fields := range e.Objects {
		other := &unstructured.Unstructured{Object: fields}
		if other.GetKind() == "Node" {
			architectures = append(architectures, other.GetLabels()["kubernetes.io/arch"])
			node := &corev1.Node{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, node); err != nil {
				return nil, fmt.Errorf("the node beside it: %w", err)
			}
			if len(node.Status.Allocatable) > 0 {
				nodes = append(nodes, node)
			}
			continue
		}
		around = append(around, other)
	}
	memory, err := references.NewMemory(metav1.NamespaceDefault, around...)
	if err != nil {
		return nil, fmt.Errorf("the objects beside it: %w", err)
	}
	known, err := placement.NewSnapshot(&placement.Cluster{Nodes: nodes, Unknown: placement.Nothing()})
	if err != nil {
		return nil, err
	}
	made := evaluator.New(v.pipeline, memory, &evaluator.Live{
		GetFacts: func() *platform.Facts { return facts }, GetNodeArchitectures: func() []string { return architectures },
		GetNodes: func() *placement.Snapshot { return known },
	})
	made.VirtualImages, made.Quotas = true, true
	return made.Snapshot(time.Unix(0, 0))
}

// requestFor returns the request that writes the object of an example.
func requestFor(e *examples.Example, kind schema.GroupVersionKind, object []byte) (evaluator.Request, error) {
	info, known := evaluator.Info(kind.GroupKind())
	if !known {
		return evaluator.Request{}, fmt.Errorf("%s is not evaluated", kind)
	}
	request := evaluator.Request{
		Object: object, Kind: metav1.GroupVersionKind(kind), Resource: metav1.GroupVersionResource(kind.GroupVersion().WithResource(info.Resource.Resource)),
		Operation: admissionv1.Create, User: authenticationv1.UserInfo{Username: e.User},
	}
	if info.Namespaced {
		request.Namespace = metav1.NamespaceDefault
	}
	if e.Old != nil {
		old, err := json.Marshal(e.Old)
		if err != nil {
			return evaluator.Request{}, fmt.Errorf("encoding the object before the update: %w", err)
		}
		request.Operation, request.OldObject = admissionv1.Update, old
	}
	return request, nil
}

// check validates an object of configuration.
type check = func(registry *hypervisors.Registry, snapshot *evaluator.Snapshot, object []byte) ([]validators.Finding, error)

// configuration returns the checks of the kinds of configuration.
func configuration() map[string]check {
	return map[string]check{
		apikinds.RuleSettings: func(registry *hypervisors.Registry, _ *evaluator.Snapshot, object []byte) ([]validators.Finding, error) {
			settings, err := decoded[policyv1alpha1.RuleSettings](object)
			if err != nil {
				return nil, err
			}
			return findings(validators.RuleSettingsKnown, validators.CheckSettings(registry.Rules(), settings)...), nil
		},
		apikinds.VirtualMachineDefaults: func(_ *hypervisors.Registry, snapshot *evaluator.Snapshot, object []byte) ([]validators.Finding, error) {
			defaults, err := decoded[policyv1alpha1.VirtualMachineDefaults](object)
			if err != nil {
				return nil, err
			}
			errs, err := snapshot.CheckDefaults(defaults)
			return findings(validators.RuleSiteDefaults, errs...), err
		},
		apikinds.VirtualMachinePolicy: compiled,
		"VirtualMachineRollout": func(_ *hypervisors.Registry, _ *evaluator.Snapshot, object []byte) ([]validators.Finding, error) {
			rollout, err := decoded[rolloutv1alpha1.VirtualMachineRollout](object)
			if err != nil {
				return nil, err
			}
			return findings(validators.RuleRollout, fleet.Validate(&rollout.Spec)...), nil
		},
		apikinds.VirtualMachinePolicyException: func(_ *hypervisors.Registry, _ *evaluator.Snapshot, object []byte) ([]validators.Finding, error) {
			exception, err := decoded[policyv1alpha1.VirtualMachinePolicyException](object)
			if err != nil {
				return nil, err
			}
			return findings(validators.RulePolicyException, policies.CheckException(exception, longestException, time.Unix(0, 0))...), nil
		},
		"GoldenImageCatalog": func(_ *hypervisors.Registry, _ *evaluator.Snapshot, object []byte) ([]validators.Finding, error) {
			catalog, err := decoded[imagev1alpha1.GoldenImageCatalog](object)
			if err != nil {
				return nil, err
			}
			return findings(validators.RuleCatalog, goldenimages.Validate(catalog)...), nil
		},
		plugins.Kind: func(_ *hypervisors.Registry, _ *evaluator.Snapshot, object []byte) ([]validators.Finding, error) {
			plugin, err := decoded[pluginv1alpha1.Plugin](object)
			if err != nil {
				return nil, err
			}
			denied, _ := plugins.Validate(plugin)
			return findings(validators.RulePlugin, denied...), nil
		},
	}
}

// compiled returns the errors of a policy.
func compiled(_ *hypervisors.Registry, _ *evaluator.Snapshot, object []byte) (found []validators.Finding, err error) {
	environment, err := cel.Shared()
	if err != nil {
		return nil, fmt.Errorf("the environment of expressions: %w", err)
	}
	policy, err := decoded[policyv1alpha1.VirtualMachinePolicy](object)
	if err != nil {
		return nil, err
	}
	_, problems := policies.Compile(environment, policy, nil)
	for _, p := range problems {
		if !p.Warning {
			found = append(found, findings(validators.RulePolicy, field.Invalid(field.NewPath(p.Field), field.OmitValueType{}, p.Message))...)
		}
	}
	return found, nil
}

func decoded[T any](data []byte) (*T, error) {
	object := new(T)
	if err := json.Unmarshal(data, object); err != nil {
		return nil, fmt.Errorf("decoding the object: %w", err)
	}
	return object, nil
}

func findings(rule string, errs ...*field.Error) (found []validators.Finding) {
	for _, err := range errs {
		found = append(found, validators.Finding{Rule: rule, Severity: validators.Deny, Error: err})
	}
	return found
}
