package labels

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/conformance"
	"github.com/virtward/virtward/nodelabels"
	"github.com/virtward/virtward/platform"
)

// Case is a node before and after KubeVirt set labels.
type Case struct {
	ID           string         `json:"id"`
	Area         string         `json:"area"`
	Architecture string         `json:"arch"`
	KubeVirt     map[string]any `json:"kubevirt"`

	DomainCapabilities *string           `json:"domcapabilities"`
	SupportedFeatures  *string           `json:"supportedFeatures"`
	Capabilities       *string           `json:"capabilities"`
	Foreign            map[string]string `json:"crossArchDomcapabilities"`
	HypervFeatures     []string          `json:"hypervFeatures"`
	RealtimeRuntime    string            `json:"schedRtRuntime"`

	Labels      map[string]string `json:"nodeLabels"`
	Annotations map[string]string `json:"nodeAnnotations"`

	Expect struct {
		Labels map[string]string `json:"labels"`
		Events []string          `json:"events"`
		Error  string            `json:"error"`
	} `json:"expect"`
}

// Report is the comparison of a number of cases.
type Report struct{ conformance.Tally }

// NewReport returns a report without cases.
func NewReport() *Report { return &Report{conformance.NewTally("labels")} }

// IsCase reports whether a line is a case of this package: it has labels of a node and an architecture.
func IsCase(line []byte) bool {
	var c struct {
		Architecture json.RawMessage `json:"arch"`
		Capabilities json.RawMessage `json:"capabilities"`
		Domain       json.RawMessage `json:"domcapabilities"`
		VMI          json.RawMessage `json:"vmi"`
	}
	return json.Unmarshal(line, &c) == nil && c.Architecture != nil && (c.Capabilities != nil || c.Domain != nil) && c.VMI == nil
}

// Replay runs the cases of a file.
func (r *Report) Replay(file io.Reader) error { return conformance.Lines(file, r.ReplayLine) }

// ReplayLine runs one case.
func (r *Report) ReplayLine(line []byte) error {
	c := &Case{}
	if err := json.Unmarshal(line, c); err != nil {
		return fmt.Errorf("not a case of labels: %w", err)
	}
	r.Count(c.Area, c.ID, c.compare())
	return nil
}

// compare returns the first difference; empty if there is none.
func (c *Case) compare() string {
	labels, events, err := c.run()
	switch {
	case err != nil && c.Expect.Error == "":
		return fmt.Sprintf("error: %v; KubeVirt has labels", err)
	case err != nil:
		return ""
	case c.Expect.Error != "":
		return "no error; KubeVirt: " + c.Expect.Error
	case !slices.Equal(events, c.Expect.Events):
		return fmt.Sprintf("events: KubeVirt %q, Virtward %q", c.Expect.Events, events)
	}
	for _, key := range slices.Sorted(maps.Keys(c.Expect.Labels)) {
		if got, found := labels[key]; !found || got != c.Expect.Labels[key] {
			return fmt.Sprintf("%s: KubeVirt %q, Virtward %q (%t)", key, c.Expect.Labels[key], got, found)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if _, found := c.Expect.Labels[key]; !found {
			return fmt.Sprintf("%s: KubeVirt does not set it", key)
		}
	}
	return ""
}

// run computes the labels of the node afterwards, and the reasons of events.
func (c *Case) run() (labels map[string]string, events []string, err error) {
	node, err := c.node()
	if err != nil {
		return nil, nil, err
	}
	kubeVirt := &unstructured.Unstructured{Object: map[string]any{}}
	if c.KubeVirt != nil {
		kubeVirt.Object = map[string]any{"spec": map[string]any{"configuration": c.KubeVirt}}
	}
	facts, err := platform.FromKubeVirt(kubeVirt, platform.Settings{})
	if err != nil {
		return nil, nil, err
	}
	computed, err := nodelabels.KubeVirt(node, facts)
	if err != nil {
		return nil, nil, err
	}
	if computed.ObsoleteHostModel != "" {
		events = []string{"Warning HostModelIsObsolete"}
	}
	labels, err = computed.On(c.Labels, c.Annotations)
	return labels, events, err
}

func (c *Case) node() (*nodelabels.Node, error) {
	node := &nodelabels.Node{Architecture: c.Architecture, HypervFeatures: c.HypervFeatures, RealtimeRuntime: c.RealtimeRuntime}
	for _, d := range []struct {
		text *string
		to   **nodelabels.Document
	}{{c.DomainCapabilities, &node.Domain}, {c.SupportedFeatures, &node.Baseline}, {c.Capabilities, &node.Host}} {
		if d.text == nil {
			continue
		}
		document, err := nodelabels.ParseDocument([]byte(*d.text))
		if err != nil {
			return nil, err
		}
		*d.to = document
	}
	node.Foreign = map[string]*nodelabels.Document{}
	for name, text := range c.Foreign {
		if document, err := nodelabels.ParseDocument([]byte(text)); err == nil { // KubeVirt ignores those that are empty
			node.Foreign[name] = document
		}
	}
	return node, nil
}
