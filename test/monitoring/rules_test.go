package monitoring

import (
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"
)

const root = "../.."

// rule is an alert of a PrometheusRule.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// output is what Helm renders with all alerts and dashboards.
var output = sync.OnceValues(func() (string, error) {
	binary, err := filepath.Abs(filepath.Join(root, "bin", "tools", "helm"))
	if err != nil {
		return "", err
	}
	command := exec.Command(binary, "template", "virtward", "charts/virtward", "--set", "image.repository=virtward/virtward,metrics.prometheusRule.enabled=true,metrics.dashboards.enabled=true,goldenImages.enabled=true,virtualImages.enabled=true,templates.mode=manage,templates.imports.enabled=true,templates.exports.enabled=true,checks.nodes=true,nodes.labeller.enabled=true,nodes.tuner.enabled=true")
	command.Dir = root
	rendered, err := command.Output()
	return string(rendered), err
})

// rendered returns the objects of a kind, as YAML. Short runs skip the test where bin/ lacks Helm.
func rendered(t *testing.T, kind string) []string {
	t.Helper()
	all, err := output()
	if errors.Is(err, fs.ErrNotExist) && testing.Short() {
		t.Skip("Helm is not built: make bin/tools/helm")
	} else if err != nil {
		t.Fatalf("%v; make bin/tools/helm", err)
	}
	var found []string
	for document := range strings.SplitSeq(all, "\n---\n") {
		if strings.Contains(document, "\nkind: "+kind+"\n") {
			found = append(found, document)
		}
	}
	return found
}

// rules returns all alerts of the chart.
func rules(t *testing.T) []rule {
	t.Helper()
	var all []rule
	for _, group := range groups(t) {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("the chart has no alerts")
	}
	return all
}

// group is a group of alerts.
type group struct {
	Name  string `json:"name"`
	Rules []rule `json:"rules"`
}

// groups returns the groups of all PrometheusRules of the chart.
func groups(t *testing.T) []group {
	t.Helper()
	var all []group
	for _, document := range rendered(t, "PrometheusRule") {
		var object struct {
			Spec struct {
				Groups []group `json:"groups"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		all = append(all, object.Spec.Groups...)
	}
	return all
}
