package monitoring

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// scenario is a test of promtool.
type scenario struct {
	Name     string        `json:"name"`
	Interval string        `json:"interval"`
	Input    []input       `json:"input_series"`
	Alerts   []expectation `json:"alert_rule_test"`
}

type input struct {
	Series string `json:"series"`
	Values string `json:"values"`
}

type expectation struct {
	Time   string  `json:"eval_time"`
	Name   string  `json:"alertname"`
	Alerts []alert `json:"exp_alerts"`
}

// alert has the labels and the annotations of an alert that fires, but for the name.
type alert struct {
	Labels      map[string]string `json:"exp_labels"`
	Annotations map[string]string `json:"exp_annotations"`
}

// TestPromtool: promtool finds the rules of the chart valid, and its own engine fires the same alerts, with the same labels and
// annotations, for all cases.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: .ci/system-packages")
	}
	folder := t.TempDir()
	write := func(name string, content any) {
		text, err := yaml.Marshal(content)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	run := func(arguments ...string) {
		command := exec.CommandContext(t.Context(), promtool, arguments...)
		command.Dir = folder
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", arguments, err, output)
		}
	}
	write("rules.yaml", map[string]any{"groups": groups(t)})
	run("check", "rules", "rules.yaml")

	// Each alert has a file of its own, because promtool evaluates all rules of a file in each test.
	arguments := []string{"test", "rules"}
	for _, r := range rules(t) {
		write(r.Alert+".yaml", map[string]any{"groups": []group{{r.Alert, []rule{r}}}})
		write(r.Alert+".tests.yaml", map[string]any{
			"rule_files": []string{r.Alert + ".yaml"}, "evaluation_interval": "1m", "tests": scenarios(t, r),
		})
		arguments = append(arguments, r.Alert+".tests.yaml")
	}
	run(arguments...)
}

// scenarios returns the cases of an alert. The expectation is what the engine of this package fires.
func scenarios(t *testing.T, r rule) []scenario {
	t.Helper()
	var all []scenario
	for _, tc := range cases {
		if tc.alert != r.Alert {
			continue
		}
		s := scenario{Name: tc.name, Interval: "1m", Alerts: []expectation{{"3h", r.Alert, firing(t, r, tc.series, 3*time.Hour)}}}
		for _, line := range tc.series {
			metric, values := described(t, line)
			s.Input = append(s.Input, input{metric, values})
		}
		all = append(all, s)
	}
	return all
}
