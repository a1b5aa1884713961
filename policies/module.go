package policies

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/policies/rego"
)

// module is the Evaluator of Rego.
type module struct {
	compiled *rego.Module
	// params are the values of the parameters that the module reads; nil if it reads none.
	params *rego.Converted
}

const moduleField = "spec.rego.module"

func compileModule(name string, spec *policyv1alpha1.VirtualMachinePolicySpec, p *params) (Evaluator, []diagnostics.Problem) {
	var kinds []string
	for _, kind := range spec.Match.Kinds {
		kinds = append(kinds, string(kind))
	}
	compiled, issues := rego.Compile(name, spec.Rego.Module, kinds...)
	if compiled == nil {
		return nil, diagnostics.In(moduleField, issues)
	}
	made := &module{compiled: compiled}
	if p.value != nil && compiled.Reads("params") {
		made.params = rego.Convert(p.value)
	}
	return made, nil
}

// FindViolations implements Evaluator.
func (m *module) FindViolations(c *Case) ([]diagnostics.Violation, []EvaluationError) {
	if err := c.Documents.References.Of(m.References()); err != nil {
		return nil, []EvaluationError{{moduleField, err}}
	}
	if err := m.preview(c); err != nil {
		return nil, []EvaluationError{{moduleField, err}}
	}
	in, err := c.input.forModule(c.Documents, m)
	if err != nil {
		return nil, []EvaluationError{{moduleField, err}}
	}
	limits := rego.Limits{Violations: maxViolations, Gone: c.Documents.Gone}
	limits.Steps = max(1, min(rego.DefaultSteps(), int(c.budget.Left()/rego.StepUnits))) //nolint:gosec // far below the bound
	if c.spare != nil {
		limits.Gone = c.Documents.OutOfTime
		limits.Left = max(1, int(c.spare.Memory())) //nolint:gosec // far below the bound
	}
	violations, spent, err := m.compiled.Measure(in, limits)
	c.budget.Spend(uint64(spent.Steps) * rego.StepUnits) //nolint:gosec // no count is negative
	if c.spare != nil {
		c.spare.Take(uint64(spent.Bytes)) //nolint:gosec // no count is negative
	}
	if err != nil {
		return nil, []EvaluationError{{moduleField, err}}
	}
	return violations, nil
}

// preview computes the pod and the domain if the module reads them. Each module pays for them, also if another policy has read
// them before.
func (m *module) preview(c *Case) error {
	for _, name := range cel.PreviewNames() {
		if !m.compiled.Reads(name) {
			continue
		}
		made := c.Documents.Preview(name)
		if !c.budget.Spend(made.Units) {
			return fmt.Errorf("%w, in %s", cel.ErrBudget, name)
		}
		if made.Err != nil {
			return made.Err
		}
	}
	return nil
}

// Unauditable implements Evaluator.
func (m *module) Unauditable() []string {
	var reasons []string
	for _, document := range []string{"request", "requester"} {
		if m.compiled.Reads(document) {
			reasons = append(reasons, fmt.Sprintf("%s reads input.%s", moduleField, document))
		}
	}
	return reasons
}

// Reads implements Evaluator.
func (m *module) Reads(document string) bool { return m.compiled.Reads(document) }

// References implements Evaluator.
func (m *module) References() []string { return m.compiled.References(cel.ReferenceKinds()) }

// EstimatedCost implements Evaluator.
func (m *module) EstimatedCost() uint64 { return 0 }

// input has the documents in the form that modules read. It is created for the first module, and shared by all except
// for the parameters. It belongs to one goroutine.
type input struct {
	// fields are those that the modules read; nil for all of them.
	fields *rego.Fields
	shared *rego.Input
	// references are those of shared. more reports that they were read later than the other documents: no module pays for them.
	references *cel.References
	more       bool
	// object and vm are the bytes of the JSON of the object and of the effective VM; 0 until they are needed.
	object, vm int
}

func (in *input) of(d *cel.Documents) (*rego.Input, error) {
	shared, err := in.withoutParams(d)
	if err != nil {
		return nil, err
	}
	return shared.With("params", d.Params), nil
}

// forModule returns the input of a module. Modules that read no parameters have the same.
func (in *input) forModule(d *cel.Documents, m *module) (*rego.Input, error) {
	shared, err := in.withoutParams(d)
	switch {
	case err != nil:
		return nil, err
	case !m.compiled.Reads("params") && !in.more:
		return shared, nil
	case m.params != nil:
		return shared.With("params", m.params), nil
	}
	return shared.With("params", d.Params), nil
}

func (in *input) withoutParams(d *cel.Documents) (*rego.Input, error) {
	if in.shared == nil {
		made, err := rego.NewInput(regoDocuments(d))
		if err != nil {
			return nil, err
		}
		in.shared, in.references = made.For(in.fields), d.References
	}
	if in.references != d.References { // more were read
		in.shared, in.references, in.more = in.shared.With("references", d.References), d.References, true
	}
	return in.shared, nil
}

// regoDocuments returns the documents that expressions in CEL can read, by the same names.
func regoDocuments(d *cel.Documents) map[string]any {
	documents := map[string]any{
		"object": d.Object, "oldObject": d.OldObject, "instancetype": d.Instancetype, "preference": d.Preference,
		"provenance": rego.Later(func() any { return layers(d) }), "platform": rego.Later(func() any { return described(d) }),
		"rollout": d.Rollout.Complete(),
	}
	for _, name := range cel.PreviewNames() {
		documents[name] = rego.Computed(func() (any, error) {
			made := d.Preview(name)
			return made.Value, made.Err
		})
	}
	if d.References != nil {
		documents["references"] = d.References
	}
	if d.VM != nil {
		documents["vm"] = &effectiveVM{"kubevirt.io/v1", apikinds.VirtualMachineInstance, withoutManagedFields(&d.VM.ObjectMeta), &d.VM.Spec}
	}
	if d.Namespace != nil {
		documents["namespaceObject"] = &namespace{"v1", apikinds.Namespace, withoutManagedFields(&d.Namespace.ObjectMeta)}
	}
	if d.Request.Operation != "" {
		documents["request"] = &d.Request
	}
	if d.Requester != "" {
		documents["requester"] = d.Requester
	}
	return documents
}

// effectiveVM and namespace are the parts that modules can read.
type effectiveVM struct {
	APIVersion string                         `json:"apiVersion"`
	Kind       string                         `json:"kind"`
	Metadata   *metav1.ObjectMeta             `json:"metadata"`
	Spec       *v1.VirtualMachineInstanceSpec `json:"spec"`
}

type namespace struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Metadata   *metav1.ObjectMeta `json:"metadata"`
}

func withoutManagedFields(meta *metav1.ObjectMeta) *metav1.ObjectMeta {
	bare := *meta
	bare.ManagedFields = nil
	return &bare
}

// layers maps the paths of fields to the layers that set them; if there are two, the last one is used.
func layers(d *cel.Documents) map[string]string {
	set := make(map[string]string, len(d.Provenance))
	for i := range d.Provenance {
		set[d.Provenance[i].Path] = d.Provenance[i].Layer
	}
	return set
}

// described returns the facts about the cluster; nil if there are none.
func described(d *cel.Documents) any {
	if d.Facts == nil {
		return nil
	}
	architecture := d.Facts.DefaultArchitecture
	if d.VM != nil && d.VM.Spec.Architecture != "" {
		architecture = d.VM.Spec.Architecture
	}
	return map[string]any{
		"hypervisor": d.Facts.Hypervisor.Name, "hypervisorDevice": d.Facts.Hypervisor.Device, "architecture": architecture,
		"defaultArchitecture": d.Facts.DefaultArchitecture, "featureGates": d.Facts.EnabledGates(), "kubeVirtUsers": d.Facts.KubeVirtUsers(),
	}
}

// RegoInput returns documents in the form that modules read, with their parameters.
func RegoInput(d *cel.Documents) (*rego.Input, error) { return (&input{}).of(d) }
