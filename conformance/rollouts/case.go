package rollouts

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/rollouts"
)

// Case is a change of a VM, and what KubeVirt's controllers did.
type Case struct {
	ID                    string                       `json:"id"`
	Area                  string                       `json:"area"`
	KubeVirt              map[string]any               `json:"kubevirt"`
	WorkloadUpdateMethods []any                        `json:"workloadUpdateMethods"`
	DefaultArchitecture   string                       `json:"defaultArchitecture"`
	ControllerFlags       map[string][]string          `json:"controllerFlags"`
	LastStarted           *v1.VirtualMachineSpec       `json:"lastStarted"`
	OldVM                 *v1.VirtualMachine           `json:"oldVM"`
	VM                    *v1.VirtualMachine           `json:"vm"`
	VMI                   *v1.VirtualMachineInstance   `json:"vmi"`
	Cluster               []*unstructured.Unstructured `json:"cluster"`
	ClusterRemoved        []string                     `json:"clusterRemoved"`
	Expect                Answer                       `json:"expect"`
}

// Answer is what KubeVirt's controllers did.
type Answer struct {
	Admission struct {
		Allowed bool `json:"allowed"`
	} `json:"admission"`
	RestartRequired *struct {
		Message string `json:"message"`
	} `json:"restartRequired"`
	VMIPatched         map[string]any    `json:"vmiPatched"`
	VMIConditions      []Condition       `json:"vmiConditions"`
	VMIConditionsLater []Condition       `json:"vmiConditionsLater"`
	NotOnVMI           []string          `json:"notOnVMI"`
	Subresources       []json.RawMessage `json:"subresources"`
	Error              *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// Condition of the running instance.
type Condition struct {
	Type   string                 `json:"type"`
	Status corev1.ConditionStatus `json:"status"`
	Reason string                 `json:"reason"`
}

// Input is the input of the planner.
func (c *Case) Input() (*rollouts.Input, error) {
	facts, err := c.facts()
	if err != nil {
		return nil, err
	}
	in := &rollouts.Input{LastStarted: c.LastStarted, Desired: c.VM, Running: c.VMI, Facts: facts, Storage: c.storage()}
	objects, err := c.objects()
	if err != nil {
		return nil, err
	}
	if in.DesiredKinds, err = kinds(objects, c.VM); err != nil {
		return nil, err
	}
	if c.LastStarted != nil {
		started := &v1.VirtualMachine{ObjectMeta: c.VM.ObjectMeta, Spec: *c.LastStarted}
		in.StartedKinds, err = kinds(objects, started)
	}
	return in, err
}

func (c *Case) facts() (*platform.Facts, error) {
	return platform.FromKubeVirt(c.KubeVirtObject(), platform.Settings{})
}

// KubeVirtObject is the KubeVirt resource of the cluster.
func (c *Case) KubeVirtObject() *unstructured.Unstructured {
	flags := map[string]any{}
	for name, values := range c.ControllerFlags {
		flags[name] = strings.Join(values, ",")
	}
	architecture := c.DefaultArchitecture
	if architecture == "" {
		architecture = architectures.AMD64
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
		"metadata": map[string]any{"name": "kubevirt", "namespace": "kubevirt"},
		"spec": map[string]any{
			"configuration":          c.KubeVirt,
			"workloadUpdateStrategy": map[string]any{"workloadUpdateMethods": c.WorkloadUpdateMethods},
			"customizeComponents":    map[string]any{"flags": map[string]any{"controller": flags}},
		},
		"status": map[string]any{"defaultArchitecture": architecture},
	}}
}

// objects are the instancetypes, preferences and revisions that exist when the controllers run.
func (c *Case) objects() (*references.Memory, error) {
	kept := slices.DeleteFunc(c.Existing(), func(object *unstructured.Unstructured) bool {
		return object.GetKind() == "PersistentVolumeClaim" || object.GetKind() == "DataVolume"
	})
	return references.NewMemory("default", kept...)
}

// Existing are the other objects of the cluster when the controllers run.
func (c *Case) Existing() []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(c.Cluster), c.removed)
}

// removed reports whether an object was deleted before the controllers ran. Revisions are named by a prefix.
func (c *Case) removed(object *unstructured.Unstructured) bool {
	for _, removed := range c.ClusterRemoved {
		kind, name, _ := strings.Cut(removed, "/")
		if kind == object.GetKind() && (name == object.GetName() || kind == "ControllerRevision" && strings.HasPrefix(object.GetName(), name+"-")) {
			return true
		}
	}
	return false
}

func kinds(objects references.Objects, vm *v1.VirtualMachine) (rollouts.Kinds, error) {
	refs, _, err := references.References(context.Background(), objects, vm)
	if err != nil {
		return rollouts.Kinds{}, err
	}
	return references.KindsOf(refs), nil
}

func (c *Case) storage() rollouts.Storage {
	s := rollouts.Storage{Known: true, Claims: map[string]rollouts.Claim{}, DataVolumes: map[string]rollouts.DataVolume{}}
	for _, object := range c.Cluster {
		switch object.GetKind() {
		case "PersistentVolumeClaim":
			_, populated, _ := unstructured.NestedMap(object.Object, "spec", "dataSourceRef")
			s.Claims[object.GetName()] = rollouts.Claim{Populated: populated}
		case "DataVolume":
			phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
			s.DataVolumes[object.GetName()] = rollouts.DataVolume{Phase: cdiv1beta1.DataVolumePhase(phase)}
		}
	}
	return s
}
