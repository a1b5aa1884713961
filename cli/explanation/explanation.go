package explanation

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
)

// The type of an Explanation in JSON.
const (
	APIVersion = "cli.virtward.io/v1alpha1"
	Kind       = "Explanation"
)

// Explanation describes how one virtual machine will run, and why. Its JSON form is documented, and fields are only
// ever added to it.
type Explanation struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Source is where the object was read: "vm.yaml: document 1", or "cluster".
	Source string `json:"source"`
	// Object names it.
	Object Object `json:"object"`
	// Hypervisor and Architecture are those that it was completed for.
	Hypervisor   string `json:"hypervisor"`
	Architecture string `json:"architecture"`
	// Facts are the facts of the cluster.
	Facts Facts `json:"facts"`
	// Effective is the object with all filled fields.
	Effective map[string]any `json:"effective"`
	// Changes are the changes from the object as written to the effective one, in their order.
	Changes []provenance.Change `json:"changes"`
	// Allowed reports whether no finding rejects the object.
	Allowed bool `json:"allowed"`
	// Findings are the findings of the rules and the policies, sorted by field, then by rule.
	Findings []Finding `json:"findings"`
	// Warnings are the warnings of the facts, then those of the object.
	Warnings []string `json:"warnings"`
	// Notes name configuration of the cluster without an effect.
	Notes []string `json:"notes"`
	// Unknown are the objects that the object refers to and that are not in the files, each with its field.
	Unknown []string `json:"unknown,omitempty"`

	factsWarnings int
	written       manifests.Document
	// pod is the pod that KubeVirt makes, or podError is why it cannot.
	pod      *launcher.Result
	podError error
	// podUnread is what the user may not read for the pod.
	podUnread []string
}

// Object names a Kubernetes object.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
}

// ObjectOf returns the name of an object in a namespace, which the object may lack.
func ObjectOf(object *unstructured.Unstructured, namespace string) Object {
	return Object{APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: namespace, Name: nameOf(object)}
}

// String returns VirtualMachine default/db, or VirtualMachineClusterPreference fedora.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Facts are facts of a cluster.
type Facts struct {
	// Source is their source.
	Source string `json:"source"`
	// Hypervisor is the hypervisor, by its name in the KubeVirt resource, with its device and libvirt's type.
	Hypervisor platform.Hypervisor `json:"hypervisor"`
	// DefaultArchitecture is the architecture of virtual machines that name none.
	DefaultArchitecture string `json:"defaultArchitecture"`
}

// FactsOf returns the facts to show.
func FactsOf(facts *platform.Facts) Facts {
	return Facts{Source: facts.Source, Hypervisor: facts.Hypervisor, DefaultArchitecture: facts.DefaultArchitecture}
}

// New returns the explanation of a result.
func New(written manifests.Document, facts *platform.Facts, result *evaluator.Result) (*Explanation, error) {
	object := written.Object
	e := &Explanation{
		APIVersion: APIVersion,
		Kind:       Kind,
		Source:     written.Location(),
		Object:     ObjectOf(object, result.Namespace),
		Hypervisor: facts.Hypervisor.Name,
		Facts:      FactsOf(facts),
		Effective:  object.DeepCopy().Object,
		Changes:    []provenance.Change{},
		Allowed:    result.Allowed(),
		Findings:   FindingsOf(written, result.Findings),
		Warnings:   append(append([]string{}, facts.Warnings...), result.Warnings...),
		Notes:      append([]string{}, facts.Notes...),
		written:    written,

		factsWarnings: len(facts.Warnings),
	}
	if verdict := result.Verdict; verdict != nil {
		e.Architecture = verdict.Architecture
		for _, change := range verdict.Changes {
			change.Path = prefixOf(verdict) + change.Path
			e.Changes = append(e.Changes, change)
		}
		var err error
		if e.Effective, err = effectiveObject(verdict, e.Effective); err != nil {
			return nil, err
		}
	}
	tidy(e.Effective, object.Object, pathsOf(e.Changes))
	return e, nil
}

// prefixOf returns the prefix of the fields of a machine in its object, such as spec.template. for a replica set.
func prefixOf(verdict *effective.Verdict) string {
	if verdict.Container == nil {
		return ""
	}
	return verdict.Container.Template.String() + "."
}

// Forget frees the memory of the written and the effective object. Findings do not need them.
func (e *Explanation) Forget() {
	e.Effective, e.Changes, e.pod, e.podUnread = nil, nil, nil, nil
	e.written = manifests.Document{Source: e.written.Source, File: e.written.File, Index: e.written.Index}
}

// FactsWarnings returns the Warnings about the cluster.
func (e *Explanation) FactsWarnings() []string { return e.Warnings[:e.factsWarnings] }

// OwnWarnings returns the Warnings about this object.
func (e *Explanation) OwnWarnings() []string { return e.Warnings[e.factsWarnings:] }

// nameOf returns the name, or generateName with an asterisk.
func nameOf(object *unstructured.Unstructured) string {
	if name := object.GetName(); name != "" {
		return name
	}
	if prefix := object.GetGenerateName(); prefix != "" {
		return prefix + "*"
	}
	return "(no name)"
}

// effectiveObject returns the object as it will run: a VM with the effective spec in its template, or a set with the
// effective VM or VMI in its template.
func effectiveObject(verdict *effective.Verdict, written map[string]any) (map[string]any, error) {
	var object any = verdict.VMI
	if verdict.VM != nil {
		vm := verdict.VM.DeepCopy()
		if vm.Spec.Template != nil && verdict.Spec != nil {
			vm.Spec.Template.Spec = *verdict.Spec
		}
		addAnnotations(vm, verdict.Annotations)
		object = vm
	}
	data, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding the effective object: %w", err)
	}
	var fields map[string]any
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(data, &fields); err != nil {
		return nil, fmt.Errorf("encoding the effective object: %w", err)
	}
	if verdict.Container == nil {
		return fields, nil
	}
	for _, name := range []string{"apiVersion", "kind", "status"} {
		delete(fields, name)
	}
	unstructured.RemoveNestedField(fields, "metadata", "namespace") // the template has the namespace of the set
	if err := unstructured.SetNestedField(written, fields, fieldpath.Split(verdict.Container.Template.String())...); err != nil {
		return nil, fmt.Errorf("encoding the effective object: %w", err)
	}
	return written, nil
}

// addAnnotations adds the annotations of the instancetype and the preference to the template.
func addAnnotations(vm *v1.VirtualMachine, annotations map[string]string) {
	if len(annotations) == 0 || vm.Spec.Template == nil {
		return
	}
	metadata := &vm.Spec.Template.ObjectMeta
	if metadata.Annotations == nil {
		metadata.Annotations = map[string]string{}
	}
	for key, value := range annotations {
		if _, taken := metadata.Annotations[key]; !taken {
			metadata.Annotations[key] = value
		}
	}
}

// tidy removes what neither the author nor a layer wrote: empty values that Go's types add, and what kubectl does not
// show.
func tidy(object, written map[string]any, changed []path) {
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
		if _, ok, _ := unstructured.NestedString(written, "metadata", "namespace"); !ok {
			delete(metadata, "namespace")
		}
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
			if len(annotations) == 0 {
				delete(metadata, "annotations")
			}
		}
	}
	prune(object, written, nil, changed)
}

// prune removes empty values from a map or a list, but no elements of lists: their indices must not change.
func prune(value, written any, at path, changed []path) {
	switch v := value.(type) {
	case map[string]any:
		before, _ := written.(map[string]any)
		for name, below := range v {
			here := append(slices.Clip(at), name)
			was, mentioned := before[name]
			prune(below, was, here, changed)
			if !mentioned && blank(below) && !here.within(changed) {
				delete(v, name)
			}
		}
	case []any:
		before, _ := written.([]any)
		for i, below := range v {
			var was any
			if i < len(before) {
				was = before[i]
			}
			prune(below, was, append(slices.Clip(at), index(i)), changed)
		}
	}
}

func blank(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return value == "" || value == false || value == int64(0) || value == 0.0
}
