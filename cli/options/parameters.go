package options

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/v1beta1"
)

// Parameters are the flags that give values for the parameters of templates.
type Parameters struct {
	given      []string
	valuesFile string
}

// AddFlags adds --param and --params-file.
func (p *Parameters) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&p.given, "param", "p", nil, "Value of a parameter: NAME=VALUE; repeat it for several")
	cmd.Flags().StringVar(&p.valuesFile, "params-file", "", "File with values: lines of NAME=VALUE, or a YAML map. Those of -p replace them")
}

// Values returns the given values.
func (p *Parameters) Values() (map[string]string, error) {
	values := map[string]string{}
	if p.valuesFile != "" {
		data, err := os.ReadFile(p.valuesFile)
		if err != nil {
			return nil, fmt.Errorf("reading the values: %w", err)
		}
		if values, err = parseValues(data); err != nil {
			return nil, fmt.Errorf("%s: %w", p.valuesFile, err)
		}
	}
	for _, given := range p.given {
		name, value, ok := strings.Cut(given, "=")
		if !ok || name == "" {
			return nil, Usagef("-p %s: write NAME=VALUE", given)
		}
		values[name] = value
	}
	return values, nil
}

// parseValues reads lines of NAME=VALUE, or a YAML map of texts. Empty lines and lines that start with # mean nothing.
func parseValues(data []byte) (map[string]string, error) {
	var object map[string]any
	if yaml.Unmarshal(data, &object) == nil && len(object) > 0 {
		values := make(map[string]string, len(object))
		for name, value := range object {
			text, isText := value.(string)
			if !isText {
				written, err := json.Marshal(value)
				if err != nil {
					return nil, err
				}
				text = string(written)
			}
			values[name] = text
		}
		return values, nil
	}
	values := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, v1beta1.MaxParameterValue+1024)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("line %d: write NAME=VALUE", n)
		}
		values[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return values, lines.Err()
}
