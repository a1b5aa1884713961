package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/pages"
)

// absent are metrics of the dashboards that begin with an event which the commands of README.md do not cause.
var absent = map[string]string{ //nolint:gosec // names of metrics
	"apiserver_admission_webhook_fail_open_count":            "the mutating webhook always answers",
	"virtward_golden_image_import_failing":                   "no import fails",
	"virtward_golden_image_manifest_verified":                "no catalog verifies manifests",
	"virtward_connections_rejected_total":                    "no connection is rejected",
	"virtward_export_server_answers":                         "no template is exported",
	"virtward_export_server_failures_total":                  "no template is exported",
	"virtward_export_server_measured_bytes":                  "no template is exported",
	"virtward_export_server_sent_bytes_total":                "no template is exported",
	"virtward_import_server_answers":                         "no appliance is imported",
	"virtward_import_server_failures_total":                  "no appliance is imported",
	"virtward_import_server_received_bytes_total":            "no appliance is imported",
	"virtward_import_server_resumptions_total":               "no appliance is imported",
	"virtward_import_server_sent_bytes_total":                "no appliance is imported",
	"virtward_instances_by_migration_targets":                "the nodes are not watched",
	"virtward_node_labeller_passes_total":                    "no DaemonSet runs in a sandbox",
	"virtward_node_tuner_hooks_total":                        "no DaemonSet runs in a sandbox",
	"virtward_policy_errors":                                 "the audit begins before the policy exists",
	"virtward_policy_errors_total":                           "no policy fails",
	"virtward_policy_exempted_total":                         "no policy has an exception",
	"virtward_policy_skipped_total":                          "no policy is skipped",
	"virtward_policy_suspended":                              "no policy is suspended",
	"virtward_policy_violations":                             "the audit begins before the policy exists",
	"virtward_requests_wrong_path_total":                     "no client calls a wrong path",
	"virtward_rule_violations":                               "the audit begins before the objects exist",
	"virtward_subject_access_review_duration_seconds_bucket": "no policy uses authorizer",
	"virtward_subject_access_review_duration_seconds_count":  "no policy uses authorizer",
	"virtward_template_exports_total":                        "no template is exported",
	"virtward_template_export_bytes_total":                   "no template is exported",
	"virtward_template_export_seconds_bucket":                "no template is exported",
	"virtward_template_imports_total":                        "no appliance is imported",
	"virtward_template_imports_active":                       "no appliance is imported",
	"virtward_template_import_stalled_seconds":               "no appliance is imported",
	"virtward_template_import_bytes_total":                   "no appliance is imported",
	"virtward_template_import_seconds_bucket":                "no appliance is imported",
	"virtward_virtual_image_import_failures_total":           "no import fails",
}

// testMetrics: after the commands of README.md, the processes have the metrics and labels that the dashboards of the chart name.
func testMetrics(t *testing.T, sh *pages.Shell, admin client.Client) {
	t.Helper()
	want := metricsOfDashboards(t)
	for name := range absent {
		if _, exists := want[name]; !exists {
			t.Errorf("no dashboard has the metric %s", name)
		}
	}
	await.Until(t, func() error {
		found := map[string][]string{}
		text, err := sh.Run(t.Context(), "kubectl get --raw /metrics")
		if err != nil {
			return err
		}
		if err := labelsOf(found, strings.NewReader(text)); err != nil {
			return err
		}
		deployments := &appsv1.DeploymentList{}
		if err := admin.List(t.Context(), deployments, client.InNamespace(controlplane.VirtwardNamespace)); err != nil {
			return err
		}
		for i := range deployments.Items {
			if err := scrape(t, found, &deployments.Items[i]); err != nil {
				return err
			}
		}
		var missing []string
		for _, name := range slices.Sorted(maps.Keys(want)) {
			labels, exists := found[name]
			if !exists && absent[name] == "" {
				missing = append(missing, name)
			}
			for _, label := range want[name] {
				if exists && !slices.Contains(labels, label) {
					missing = append(missing, name+"{"+label+"}")
				}
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("no process has %v", missing)
		}
		return nil
	})
}

// scrape adds the metrics of a process.
func scrape(t *testing.T, to map[string][]string, process *appsv1.Deployment) error {
	t.Helper()
	for _, port := range process.Spec.Template.Spec.Containers[0].Ports {
		if port.Name != "metrics" {
			continue
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/metrics", port.ContainerPort), nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		return labelsOf(to, response.Body)
	}
	return nil
}

// labelsOf adds the labels of each metric in the text format of Prometheus.
func labelsOf(to map[string][]string, text io.Reader) error {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return err
	}
	for name, family := range families {
		for _, sample := range family.GetMetric() {
			var labels []string
			for _, label := range sample.GetLabel() {
				labels = append(labels, label.GetName())
			}
			if family.GetType() == dto.MetricType_HISTOGRAM {
				to[name+"_bucket"], to[name+"_count"] = append(slices.Clone(labels), "le"), labels
				continue
			}
			to[name] = labels
		}
	}
	return nil
}

// metricsOfDashboards returns the labels that the dashboards use of each metric.
func metricsOfDashboards(t *testing.T) map[string][]string {
	t.Helper()
	selector := regexp.MustCompile(`\b((?:virtward|kubevirt_hco|apiserver)_\w+)(?:{([^}]*)})?`)
	matcher := regexp.MustCompile(`(\w+)(?:=|!)`)
	grouping := regexp.MustCompile(`\bby \(([^)]*)\)`)
	metrics := map[string][]string{}
	for _, query := range queriesOfDashboards(t) {
		var shared []string
		for _, by := range grouping.FindAllStringSubmatch(query, -1) {
			shared = append(shared, strings.Split(by[1], ", ")...)
		}
		for _, metric := range selector.FindAllStringSubmatch(query, -1) {
			metrics[metric[1]] = append(metrics[metric[1]], shared...)
			for _, label := range matcher.FindAllStringSubmatch(metric[2], -1) {
				metrics[metric[1]] = append(metrics[metric[1]], label[1])
			}
		}
	}
	return metrics
}

// queriesOfDashboards returns the expressions of all panels, with the variables that Grafana sets.
func queriesOfDashboards(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "charts", "virtward", "dashboards", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	var all []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var dashboard struct {
			Templating struct {
				List []struct{ Name string }
			}
			Panels []struct {
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(content, &dashboard); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		variables := []string{"$__rate_interval", "1m", "$__range", "1h"}
		for _, v := range dashboard.Templating.List {
			variables = append(variables, "$"+v.Name, ".*")
		}
		for _, panel := range dashboard.Panels {
			for _, target := range panel.Targets {
				all = append(all, strings.NewReplacer(variables...).Replace(target.Expr))
			}
		}
	}
	return all
}
