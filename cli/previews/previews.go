package previews

import (
	"context"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/domain"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/manifests"
)

// Machine is a virtual machine with its domain.
type Machine struct {
	Instance *v1.VirtualMachineInstance
	Verdict  *effective.Verdict
	// Document is the domain as virt-launcher passes it to libvirt, with the source of each element.
	Document *domain.Element
	// Assumed is what is assumed about the node.
	Assumed []domain.Assumption
}

// Previewer makes domains.
type Previewer struct {
	evaluator *offline.Evaluator
	registry  *hypervisors.Registry
	host      *domain.Assumptions
}

// New returns a previewer with the facts and the objects of an evaluator, and assumptions about the node.
func New(w *offline.Evaluator, host *domain.Assumptions) (*Previewer, error) {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		return nil, err
	}
	return &Previewer{evaluator: w, registry: registry, host: host}, nil
}

// Machine returns the domain of a virtual machine, or of the one that a template makes. An error of package domain says that
// virt-launcher would not start it.
func (p *Previewer) Machine(ctx context.Context, subject manifests.Document) (*Machine, error) {
	result, err := p.evaluate(ctx, subject)
	if err != nil {
		return nil, err
	}
	if result.Verdict == nil || result.Verdict.Spec == nil {
		return nil, fmt.Errorf("%s %s has no instance: see explain", subject.Object.GetKind(), subject.Object.GetName())
	}
	vmi, assumed, err := domain.Preview(instanceOf(subject.Object, result), p.host)
	if err != nil {
		return nil, err
	}
	in := &domain.Input{VMI: vmi, Facts: p.evaluator.Facts(), Host: assumed, Trace: true}
	converter, err := p.registry.Converter(in.Facts.Hypervisor.Name, domain.ArchitectureOf(in))
	if err != nil {
		return nil, err
	}
	made, err := converter.Convert(in)
	if err != nil {
		return nil, err
	}
	return &Machine{Instance: vmi, Verdict: result.Verdict, Document: made.Element(), Assumed: assumed.Assumed(vmi, p.host, converter)}, nil
}

// evaluate evaluates an object of a file as on create, and one of the cluster as it is stored.
func (p *Previewer) evaluate(ctx context.Context, subject manifests.Document) (*evaluator.Result, error) {
	if subject.Source == offline.SourceCluster {
		return p.evaluator.Evaluate(ctx, subject, evaluator.Stored)
	}
	return p.evaluator.EvaluateMade(ctx, subject)
}

// instanceOf returns the instance that KubeVirt would create, with its metadata.
func instanceOf(object *unstructured.Unstructured, result *evaluator.Result) *v1.VirtualMachineInstance {
	vmi := &v1.VirtualMachineInstance{}
	switch verdict := result.Verdict; {
	case verdict.VMI != nil:
		vmi.ObjectMeta = *verdict.VMI.ObjectMeta.DeepCopy()
	case verdict.VM != nil && verdict.VM.Spec.Template != nil:
		vmi.ObjectMeta = *verdict.VM.Spec.Template.ObjectMeta.DeepCopy()
		vmi.Name = verdict.VM.Name
	}
	if vmi.Name == "" {
		vmi.Name = object.GetName()
	}
	vmi.Namespace = result.Namespace
	if vmi.UID == "" {
		vmi.UID = "UID" // KubeVirt's paths have that of the instance
	}
	for key, value := range result.Verdict.Annotations {
		if vmi.Annotations == nil {
			vmi.Annotations = map[string]string{}
		}
		vmi.Annotations[key] = value
	}
	vmi.Spec = *result.Verdict.Spec.DeepCopy()
	return vmi
}

// ReadAssumptions reads assumptions about the node from a file in YAML; none if it has no name.
func ReadAssumptions(name string, stdin io.Reader) (*domain.Assumptions, error) {
	host := &domain.Assumptions{}
	if name == "" {
		return host, nil
	}
	text, err := ReadFile(name, stdin)
	if err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalStrict(text, host); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return host, nil
}

// maxFile bounds a document of a domain, and a file with assumptions. One with 4096 vCPUs has half a megabyte.
const maxFile = 16 << 20

// ReadFile reads a file, or standard input for -.
func ReadFile(name string, stdin io.Reader) ([]byte, error) {
	reader := stdin
	if name != "-" {
		file, err := manifests.OpenFound(name, "")
		if err != nil {
			return nil, err
		}
		defer file.Close()
		reader = file
	}
	text, err := io.ReadAll(io.LimitReader(reader, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	return text, err
}
