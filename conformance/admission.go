package conformance

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/references"
)

// The kinds that cases are about.
const (
	kindVM  = "VirtualMachine"
	kindVMI = "VirtualMachineInstance"
)

// kubevirtNamespace is where KubeVirt was installed when the cases were recorded.
const kubevirtNamespace = "kubevirt"

// requestNamespace is the namespace that the recorded requests were made in.
const requestNamespace = "default"

// informativeArea holds cases that a real API server rejects by the schema of the CRD before any webhook.
const informativeArea = "schema"

// AdmissionCase is one recorded admission request: a line of admission.jsonl.
type AdmissionCase struct {
	ID   string `json:"id"`
	Area string `json:"area"`
	// Kind of the object, and what was done with it: CREATE or UPDATE.
	Kind      string `json:"kind"`
	Operation string `json:"operation"`
	// KubeVirt is the spec.configuration of the KubeVirt resource.
	KubeVirt map[string]any `json:"kubevirt"`
	// KubeVirtAnnotations are the annotations of the KubeVirt resource.
	KubeVirtAnnotations map[string]string `json:"kubevirtAnnotations,omitempty"`
	// DefaultArchitecture is the status.defaultArchitecture of the KubeVirt resource; amd64 if empty.
	DefaultArchitecture string `json:"defaultArchitecture,omitempty"`
	// Object is the one that is admitted.
	Object json.RawMessage `json:"object"`
	// OldObject is the one before an update.
	OldObject json.RawMessage `json:"oldObject,omitempty"`
	// User and UserExtra of the requester; empty for a user without permissions of KubeVirt.
	User      string              `json:"user,omitempty"`
	UserExtra map[string][]string `json:"userExtra,omitempty"`
	// Cluster holds the other objects that exist.
	Cluster []map[string]any `json:"cluster,omitempty"`
	Expect  AdmissionAnswer  `json:"expect"`
}

// AdmissionAnswer is what KubeVirt answered.
type AdmissionAnswer struct {
	// Allowed, and if not, why not.
	Allowed bool    `json:"allowed"`
	Causes  []Cause `json:"causes"`
	// Mutated is the spec after the mutating webhook; null when there was none.
	Mutated json.RawMessage `json:"mutated"`
	Extra   struct {
		// Status is what the mutating webhook put into the status of a VMI. It is no part of Mutated.
		Status json.RawMessage `json:"status"`
	} `json:"extra"`
}

// evaluatesMutation reports whether KubeVirt gave an answer to compare the completed spec with.
func (c *AdmissionCase) evaluatesMutation() bool {
	return len(c.Expect.Mutated) > 0 && string(c.Expect.Mutated) != "null"
}

// Check replays the case through the pipeline and returns what differs from KubeVirt's answer, one line
// each; nothing if all agrees, or if there is nothing to compare with. A case that the pipeline cannot
// take, or panics on, differs.
func (c *AdmissionCase) Check(pipeline *effective.Pipeline) (found []string) {
	defer func() {
		if cause := recover(); cause != nil {
			found = append(found, fmt.Sprintf("the pipeline panicked: %v", cause))
		}
	}()
	verdict, err := c.evaluate(pipeline)
	switch {
	case !c.evaluatesMutation():
		return nil
	case err != nil:
		return []string{fmt.Sprintf("the pipeline does not take it: %v", err)}
	case verdict.VM != nil:
		return specDifferences(c.Expect.Mutated, &v1.VirtualMachineSpec{}, &verdict.VM.Spec)
	}
	return specDifferences(c.Expect.Mutated, &v1.VirtualMachineInstanceSpec{}, &verdict.VMI.Spec)
}

// evaluate runs the pipeline as the webhook would.
func (c *AdmissionCase) evaluate(pipeline *effective.Pipeline) (*effective.Verdict, error) {
	input, err := c.input()
	if err != nil {
		return nil, err
	}
	input.Facts = c.facts()
	cluster := make([]*unstructured.Unstructured, 0, len(c.Cluster))
	for _, object := range c.Cluster {
		cluster = append(cluster, &unstructured.Unstructured{Object: object})
	}
	known, err := references.NewMemory(requestNamespace, cluster...)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	if input.References, _, err = references.For(context.Background(), known, input.VM, input.VMI); err != nil {
		return nil, err
	}
	if input.VM != nil {
		if input.Running, err = references.Running(context.Background(), known, input.VM); err != nil {
			return nil, err
		}
	}
	return pipeline.Decide(*input)
}

// input is the request without the cluster around it.
func (c *AdmissionCase) input() (*effective.Input, error) {
	in := &effective.Input{Requester: c.User, RequesterExtra: c.UserExtra, Raw: c.Object}
	var err error
	switch c.Kind {
	case kindVM:
		if in.VM, in.OldVM, err = objects[v1.VirtualMachine](c); err != nil {
			return nil, err
		}
		if in.VM.Namespace == "" {
			in.VM.Namespace = requestNamespace // as the API server does
		}
		return in, nil
	case kindVMI:
		in.VMI, in.OldVMI, err = objects[v1.VirtualMachineInstance](c)
		return in, err
	}
	return nil, fmt.Errorf("kind: %q is not %s or %s", c.Kind, kindVM, kindVMI)
}

// objects are the object of the request and, of an update, the one before.
func objects[T any](c *AdmissionCase) (object, old *T, err error) {
	object = new(T)
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(c.Object, object); err != nil {
		return nil, nil, fmt.Errorf("object: %w", err)
	}
	if c.Operation != "UPDATE" {
		return object, nil, nil
	}
	old = new(T)
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(c.OldObject, old); err != nil {
		return nil, nil, fmt.Errorf("oldObject: %w", err)
	}
	return object, old, nil
}

// facts are those of the recorded cluster. A configuration that KubeVirt rejects as a whole leaves it with
// its defaults, as there was no good one before.
func (c *AdmissionCase) facts() *platform.Facts {
	kubevirt := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"configuration": c.KubeVirt}}}
	kubevirt.SetNamespace(kubevirtNamespace)
	kubevirt.SetName(kubevirtNamespace)
	kubevirt.SetAnnotations(c.KubeVirtAnnotations)
	facts, err := platform.FromKubeVirt(kubevirt, platform.Settings{})
	if err != nil {
		facts = platform.Defaults(platform.Settings{})
	}
	if c.DefaultArchitecture != "" {
		facts = facts.WithDefaultArchitecture(c.DefaultArchitecture)
	}
	return facts
}

// specDifferences compares a recorded spec, converted to the current Go type, with that of Virtward.
func specDifferences(recorded json.RawMessage, typed, virtward any) []string {
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(recorded, typed); err != nil {
		return []string{fmt.Sprintf("KubeVirt's answer is not readable: %v", err)}
	}
	want, err := ToJSON(typed)
	if err != nil {
		return []string{err.Error()}
	}
	got, err := ToJSON(virtward)
	if err != nil {
		return []string{err.Error()}
	}
	var all []string
	for _, d := range Differences(Normalize(want), Normalize(got)) {
		all = append(all, "spec."+d)
	}
	return all
}
