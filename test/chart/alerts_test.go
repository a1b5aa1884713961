package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// alert is a rule of a PrometheusRule.
type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// anchor is the fragment of a heading with the name of the alert.
func (a *alert) anchor() string { return strings.ToLower(a.Alert) }

// alertsWith returns the alerts that the chart installs with values, by the name of their PrometheusRule.
func alertsWith(t *testing.T, values ...string) map[string][]alert {
	t.Helper()
	found := map[string][]alert{}
	for _, object := range renderFor(t, nil, values...) {
		rule, is := object.(*unstructured.Unstructured)
		if !is || rule.GetKind() != "PrometheusRule" {
			continue
		}
		var spec struct {
			Groups []struct {
				Name  string  `json:"name"`
				Rules []alert `json:"rules"`
			} `json:"groups"`
		}
		content, err := json.Marshal(rule.Object["spec"])
		must(t, err)
		must(t, json.Unmarshal(content, &spec))
		for _, group := range spec.Groups {
			found[group.Name] = append(found[group.Name], group.Rules...)
		}
		if labels := rule.GetLabels(); labels["release"] != "prometheus" || labels["app.kubernetes.io/part-of"] != "virtward" {
			t.Errorf("%s has the labels %v", rule.GetName(), labels)
		}
	}
	return found
}

// monitored are the values of a release with alerts.
func monitored(values ...string) []string {
	return append([]string{"metrics.prometheusRule.enabled=true", `metrics.prometheusRule.labels={"release":"prometheus"}`}, values...)
}

// everyAlert returns all alerts of the chart.
func everyAlert(t *testing.T) []alert {
	t.Helper()
	var all []alert
	found := alertsWith(t, monitored("checks.nodes=true", "goldenImages.enabled=true", "virtualImages.enabled=true", `templates.mode="manage"`, "templates.imports.enabled=true", "templates.exports.enabled=true")...)
	for _, name := range []string{"virtward-webhook", "virtward-policies", "virtward-templates", "virtward-rollouts", "virtward-images", "virtward-virtualimages", "virtward-templateimports", "virtward-templateexports"} {
		if len(found[name]) == 0 {
			t.Errorf("%s has no alerts", name)
		}
		all = append(all, found[name]...)
		delete(found, name)
	}
	if len(found) > 0 {
		t.Errorf("other rules: %v", found)
	}
	return all
}

// TestAlerts: each alert has metrics of the code, what a receiver of it needs, and its section of the runbook. There are no other
// sections.
func TestAlerts(t *testing.T) {
	const url = "https://github.com/virtward/virtward/blob/main/docs/runbook.md#"
	var names []string
	metrics := metricsOfPackages(t)
	for _, a := range everyAlert(t) {
		names = append(names, a.Alert)
		for _, metric := range metricName.FindAllString(a.Expr, -1) {
			if !slices.Contains(metrics, strings.TrimSuffix(metric, "_bucket")) {
				t.Errorf("%s: no metric %s", a.Alert, metric)
			}
		}
		if severity := a.Labels["severity"]; !slices.Contains([]string{"critical", "warning", "info"}, severity) || len(a.Labels) != 1 {
			t.Errorf("%s has the labels %v", a.Alert, a.Labels)
		}
		if got := a.Annotations["runbook_url"]; got != url+a.anchor() {
			t.Errorf("%s has the runbook %s", a.Alert, got)
		}
		summary, description := a.Annotations["summary"], a.Annotations["description"]
		if summary == "" || strings.HasSuffix(summary, ".") || strings.Contains(summary, "\n") || !strings.HasSuffix(description, ".") {
			t.Errorf("%s has the summary %q and the description %q", a.Alert, summary, description)
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "runbook.md"))
	must(t, err)
	var headings []string
	for i, section := range strings.Split(string(page), "\n## ")[1:] {
		heading, text, _ := strings.Cut(section, "\n")
		headings = append(headings, heading)
		for _, part := range []string{"**Users see**", "**Confirm**", "**Do:**", "**It has ended**"} {
			if i > 1 && strings.Count(text, part) != 1 {
				t.Errorf("docs/runbook.md: %s lacks one %s", heading, part)
			}
		}
	}
	want := append([]string{"Switch it off first", "Before the first alert"}, names...)
	if diff := cmp.Diff(want, headings); diff != "" {
		t.Errorf("docs/runbook.md has the sections (-want +got):\n%s", diff)
	}
}

// TestRunbookURL renders the address of another runbook.
func TestRunbookURL(t *testing.T) {
	found := alertsWith(t, monitored(`metrics.prometheusRule.runbookURL="https://wiki.example/virtward"`)...)
	if got := found["virtward-webhook"][0].Annotations["runbook_url"]; got != "https://wiki.example/virtward#virtwardnotreached" {
		t.Error(got)
	}
}

// TestAlertGates: the chart installs the alerts of what is enabled.
func TestAlertGates(t *testing.T) {
	for name, tc := range map[string]struct {
		values []string
		want   []string
	}{
		"defaults":           {[]string{}, nil},
		"alerts":             {monitored(), []string{"virtward-policies 4", "virtward-rollouts 1", "virtward-templates 1", "virtward-webhook 11"}},
		"without exceptions": {monitored("policies.exceptions.enabled=false"), []string{"virtward-policies 2", "virtward-rollouts 1", "virtward-templates 1", "virtward-webhook 11"}},
		"with nodes":         {monitored("checks.nodes=true"), []string{"virtward-policies 5", "virtward-rollouts 1", "virtward-templates 1", "virtward-webhook 11"}},
		"without rollouts":   {monitored("rollouts.enabled=false"), []string{"virtward-policies 4", "virtward-templates 1", "virtward-webhook 11"}},
		"without templates":  {monitored(`templates.mode="observe"`), []string{"virtward-policies 4", "virtward-rollouts 1", "virtward-webhook 11"}},
		"golden images":      {monitored("goldenImages.enabled=true"), []string{"virtward-images 6", "virtward-policies 4", "virtward-rollouts 1", "virtward-templates 1", "virtward-webhook 11"}},
		"VirtualImages":      {monitored("virtualImages.enabled=true"), []string{"virtward-policies 4", "virtward-rollouts 1", "virtward-templates 1", "virtward-virtualimages 5", "virtward-webhook 11"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for rule, alerts := range alertsWith(t, tc.values...) {
				got = append(got, fmt.Sprintf("%s %d", rule, len(alerts)))
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAlertTable compares the table in docs/alerts.md with the chart, or writes it with -update.
func TestAlertTable(t *testing.T) {
	table := "| Alert | Severity | For | Meaning |\n|---|---|---|---|\n"
	for _, a := range everyAlert(t) {
		table += fmt.Sprintf("| [`%s`](runbook.md#%s) | %s | %s | %s |\n", a.Alert, a.anchor(), a.Labels["severity"], a.For, a.Annotations["description"])
	}
	file := filepath.Join(root, "docs", "alerts.md")
	page, err := os.ReadFile(file)
	must(t, err)
	generated := regexp.MustCompile(`(?s)(<!-- generated: alerts -->\n)(.*?)(<!-- end -->)`)
	found := generated.FindSubmatch(page)
	if found == nil {
		t.Fatalf("%s has no table of alerts", file)
	}
	if *update {
		must(t, os.WriteFile(file, generated.ReplaceAll(page, []byte("${1}"+table+"${3}")), 0o644))
		return
	}
	if diff := cmp.Diff(table, string(found[2])); diff != "" {
		t.Errorf("go test ./test/chart -run TestAlertTable -update writes the table (-want +got):\n%s", diff)
	}
}
