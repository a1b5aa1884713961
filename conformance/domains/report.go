package domains

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/conformance"
	"github.com/virtward/virtward/domain"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/platform"
)

// Case is an instance, and the domain that virt-launcher computed.
type Case struct {
	ID       string                     `json:"id"`
	Area     string                     `json:"area"`
	KubeVirt map[string]any             `json:"kubevirt"`
	Context  domain.Assumptions         `json:"context"`
	Admitted bool                       `json:"admitted"`
	VMI      *v1.VirtualMachineInstance `json:"vmi"`

	XML          string               `json:"xml"`
	HotplugPorts *domain.HotplugPorts `json:"hotplugPorts"`
	CreateFlags  []string             `json:"createFlags"`
	Error        string               `json:"error"`
	ErrorStage   domain.Stage         `json:"errorStage"`
}

// Report is the comparison of a number of cases.
type Report struct {
	conformance.Tally

	registry *hypervisors.Registry
}

// NewReport returns a report without cases.
func NewReport(registry *hypervisors.Registry) *Report {
	return &Report{Tally: conformance.NewTally("domain"), registry: registry}
}

// IsCase reports whether a line is a case of this package: it has what virt-handler passes to virt-launcher.
func IsCase(line []byte) bool {
	var c struct {
		Options json.RawMessage `json:"options"`
		VMI     json.RawMessage `json:"vmi"`
		Stage   json.RawMessage `json:"errorStage"`
		XML     json.RawMessage `json:"xml"`
	}
	return json.Unmarshal(line, &c) == nil && c.Options != nil && c.VMI != nil && (c.XML != nil || c.Stage != nil)
}

// Replay runs the cases of a file.
func (r *Report) Replay(file io.Reader) error { return conformance.Lines(file, r.ReplayLine) }

// ReplayLine runs one case.
func (r *Report) ReplayLine(line []byte) error {
	c, err := Read(line)
	if err != nil {
		return err
	}
	difference, err := c.compare(r.registry)
	if err != nil {
		return fmt.Errorf("%s: %w", c.ID, err)
	}
	r.Count(c.Area, c.ID, difference)
	return nil
}

// Read reads a case.
func Read(line []byte) (*Case, error) {
	c := &Case{}
	if err := json.Unmarshal(line, c); err != nil {
		return nil, fmt.Errorf("not a case of a domain: %w", err)
	}
	if c.VMI == nil {
		return nil, fmt.Errorf("%s: no vmi", c.ID)
	}
	return c, nil
}

// Input is the input of the conversion.
func (c *Case) Input() *domain.Input {
	kubeVirt := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"configuration": c.KubeVirt}}}
	if c.KubeVirt == nil {
		kubeVirt.Object = map[string]any{}
	}
	facts, err := platform.FromKubeVirt(kubeVirt, platform.Settings{})
	if err != nil { // KubeVirt uses its defaults instead of a configuration that it cannot read
		facts = platform.Defaults(platform.Settings{})
	}
	return &domain.Input{VMI: c.VMI, Facts: facts, Host: &c.Context}
}

// Convert converts the instance.
func (c *Case) Convert(registry *hypervisors.Registry) (*domain.Result, error) {
	in := c.Input()
	converter, err := registry.Converter(in.Facts.Hypervisor.Name, domain.ArchitectureOf(in))
	if err != nil {
		return nil, err
	}
	return converter.Convert(in)
}

// compare returns the first difference; empty if there is none.
func (c *Case) compare(registry *hypervisors.Registry) (string, error) {
	result, err := c.Convert(registry)
	var failed *domain.Error
	switch {
	case errors.As(err, &failed):
		if failed.Stage != c.ErrorStage {
			return fmt.Sprintf("error at the stage %q: %v; KubeVirt at the stage %q: %s", failed.Stage, failed, c.ErrorStage, c.Error), nil
		}
		return "", nil
	case err != nil:
		return "", err
	case c.Error != "":
		return fmt.Sprintf("no error; KubeVirt at the stage %q: %s", c.ErrorStage, c.Error), nil
	}
	recorded, err := domain.ParseElement(strings.NewReader(c.XML))
	if err != nil {
		return "", err
	}
	if differences := domain.Diff(recorded, result.Element()); len(differences) > 0 {
		d := differences[0]
		return fmt.Sprintf("%s: KubeVirt %q, Virtward %q; %d differences", d.Path, d.Before, d.After, len(differences)), nil
	}
	if (result.Ports == nil) != (c.HotplugPorts == nil) || result.Ports != nil && *result.Ports != *c.HotplugPorts {
		return fmt.Sprintf("ports for hotplug: KubeVirt %+v, Virtward %+v", c.HotplugPorts, result.Ports), nil
	}
	if paused := slices.Contains(c.CreateFlags, "paused"); paused != result.Paused {
		return fmt.Sprintf("created paused: KubeVirt %v, Virtward %v", paused, result.Paused), nil
	}
	return "", nil
}
