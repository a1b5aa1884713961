package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// dashboardsWith returns the ConfigMaps with dashboards that the chart installs with values.
func dashboardsWith(t *testing.T, values ...string) []*corev1.ConfigMap {
	t.Helper()
	return slices.DeleteFunc(every[*corev1.ConfigMap](renderFor(t, nil, values...)), func(m *corev1.ConfigMap) bool {
		return m.Labels["app.kubernetes.io/component"] != "dashboards"
	})
}

// TestDashboards: the chart installs the dashboards of what is enabled, with the files' content.
func TestDashboards(t *testing.T) {
	const enabled = "metrics.dashboards.enabled=true"
	for name, tc := range map[string]struct {
		values, want []string
	}{
		"defaults":      {[]string{}, nil},
		"dashboards":    {[]string{enabled}, []string{"admission", "policies", "rollouts"}},
		"no rollouts":   {[]string{enabled, "rollouts.enabled=false"}, []string{"admission", "policies", "rollouts"}},
		"neither":       {[]string{enabled, "rollouts.enabled=false", `templates.mode="observe"`}, []string{"admission", "policies"}},
		"golden images": {[]string{enabled, "goldenImages.enabled=true"}, []string{"admission", "images", "policies", "rollouts"}},
		"VirtualImages": {[]string{enabled, "virtualImages.enabled=true"}, []string{"admission", "images", "policies", "rollouts"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, m := range dashboardsWith(t, tc.values...) {
				name, _ := strings.CutPrefix(m.Name, "virtward-dashboard-")
				got = append(got, name)
				want, err := os.ReadFile(filepath.Join(root, folder, "dashboards", name+".json"))
				must(t, err)
				if diff := cmp.Diff(map[string]string{"virtward-" + name + ".json": string(want)}, m.Data); diff != "" {
					t.Errorf("%s (-want +got):\n%s", m.Name, diff)
				}
				if m.Labels["grafana_dashboard"] != "1" || m.Annotations["grafana_folder"] != "Virtward" || len(m.Annotations) != 1 {
					t.Errorf("%s has the labels %v and the annotations %v", m.Name, m.Labels, m.Annotations)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestDashboardValues: labels, annotations, namespace and folder are those of the values, and links refer to the runbook of the value.
func TestDashboardValues(t *testing.T) {
	found := dashboardsWith(t,
		`metrics.dashboards={"enabled":true,"namespace":"monitoring","labels":{"grafana_dashboard":null,"dashboard":"yes"},"annotations":{"a":"b"},"folder":"VMs","folderAnnotation":"k8s-sidecar-target-directory"}`,
		`metrics.prometheusRule.runbookURL="https://wiki.example/a\"b&c"`)
	for _, m := range found {
		_, kept := m.Labels["grafana_dashboard"]
		if m.Namespace != "monitoring" || m.Labels["dashboard"] != "yes" || kept {
			t.Errorf("%s/%s has the labels %v", m.Namespace, m.Name, m.Labels)
		}
		if diff := cmp.Diff(map[string]string{"a": "b", "k8s-sidecar-target-directory": "VMs"}, m.Annotations); diff != "" {
			t.Errorf("%s has the annotations (-want +got):\n%s", m.Name, diff)
		}
		for _, content := range m.Data {
			if !json.Valid([]byte(content)) || !strings.Contains(content, `"https://wiki.example/a\"b`) || strings.Contains(content, "docs/runbook.md") {
				t.Errorf("%s has the content %s", m.Name, content)
			}
		}
	}
	if len(found) != 3 {
		t.Errorf("%d dashboards", len(found))
	}
	for _, m := range dashboardsWith(t, `metrics.dashboards={"enabled":true,"folder":""}`) {
		if len(m.Annotations) > 0 {
			t.Errorf("%s has the annotations %v without a folder", m.Name, m.Annotations)
		}
	}
}
