package worstcase

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// Chart has the values of the chart.
type Chart map[string]any

// Values are those of one process.
type Values struct {
	Resources struct {
		Limits struct {
			Memory resource.Quantity `json:"memory"`
		} `json:"limits"`
	} `json:"resources"`
	// Limits are those of VirtualImages.
	Limits struct {
		Imports int `json:"imports"`
	} `json:"limits"`
}

// ReadChart reads values.yaml.
func ReadChart(file string) (Chart, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the values of the chart: %w", err)
	}
	var c Chart
	if err := yaml.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return c, nil
}

// Of returns the values of a process. The error says that it has no memory limit.
func (c Chart) Of(p *Process) (Values, error) {
	at := map[string]any(c)
	for _, key := range p.Values {
		at, _ = at[key].(map[string]any)
	}
	raw, err := json.Marshal(at)
	if err != nil {
		return Values{}, fmt.Errorf("reading the values of %s: %w", p.Name, err)
	}
	var v Values
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("reading the values of %s: %w", p.Name, err)
	}
	if v.Resources.Limits.Memory.IsZero() {
		return v, fmt.Errorf("the chart has no value %s for %s", strings.Join(append(p.Values, "resources.limits.memory"), "."), p.Name)
	}
	return v, nil
}
