package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/pages"
	"github.com/virtward/virtward/test/planes"
	"github.com/virtward/virtward/test/ports"
	"github.com/virtward/virtward/test/soak"
)

// quiet are metrics and values of labels in the queries of the dashboards that neither the commands of README.md nor the faults of TestSoakPrometheus cause.
var quiet = []string{
	`verdict=~"failed`, "kubevirt_hco_dataimportcrontemplate_with_architecture_annotation", "virtward_golden_image_import_failing",
	"virtward_golden_image_manifest_verified", "virtward_policy_exempted_total", "virtward_policy_skipped_total", "virtward_policy_suspended",
	"virtward_policy_violations", "virtward_policy_errors", "virtward_rule_violations", "virtward_instances_by_migration_targets",
	"virtward_subject_access_review_duration_seconds_bucket", "virtward_virtual_image_import_failures_total",
}

// failing is a policy that cannot be evaluated on a VM without the annotation.
const failing = `
apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata:
  name: failing
spec:
  title: A policy that cannot be evaluated
  enforcement: Warn
  validations:
    - expression: vm.metadata.annotations["absent"] == ""
      message: the annotation is set
`

// TestSoakPrometheus: Debian's Prometheus loads the alerts of the chart, reads the metrics of the real processes and of the API
// server, and answers every query of the dashboards. After faults, panels have the values that they are for, and alerts fire.
// Only it finds metrics whose text Prometheus rejects, and labels that Prometheus and the processes both set.
func TestSoakPrometheus(t *testing.T) {
	planes.Skip(t)
	soak.Only(t)
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not installed: .ci/system-packages")
	}
	s := startSandbox(t, "-audit")
	defer s.stop(t)
	sh := newShell(t, s)
	admin := adminOf(t, s.kubeconfig)
	p := startPrometheus(t, program, s, sh, admin)

	documents, err := pages.Documents(root)
	must(t, err)
	sh.Page(t, documents[0].Blocks) // README.md
	p.becomes(t, "Denials", `sum by (rule) (virtward_findings_total{severity="Deny"})`, "arm64-disk-bus")

	if err := os.WriteFile(filepath.Join(sh.Folder, "failing.yaml"), []byte(failing), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"kubectl apply -f failing.yaml", "kubectl wait vmpol/failing --for condition=Ready --timeout 60s"} {
		if output, err := sh.Run(t.Context(), command); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, output)
		}
	}
	p.repeat(t, "the failing policy", "kubectl annotate vm/orders --overwrite counted=$RANDOM", func() bool {
		return slices.Contains(p.firing(t), "VirtwardPolicyFails{policy=failing}")
	})

	if output, err := s.call(t, "kill", controlplane.VirtwardService); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	p.repeat(t, "the webhook that is down", "kubectl annotate vm/orders --overwrite counted=$RANDOM", func() bool {
		return slices.Contains(p.firing(t), "VirtwardNotReached{}")
	})
	p.becomes(t, "Calls that failed", `sum by (name) (increase(apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error"}[5m])) > 0`, "virtualmachines.validate.virtward.io")
	p.repeat(t, "deletions without the webhook", "kubectl delete vm/orders --dry-run=server", func() bool {
		return slices.Contains(p.firing(t), "VirtwardBypassed{}")
	})
	if output, err := s.call(t, "start", controlplane.VirtwardService); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	webhookIs(t, admin, true)

	queries, silent := queriesOfDashboards(t), 0
	await.Until(t, func() error {
		silent = 0
		var missing []string
		for _, query := range queries {
			values := p.query(t, query)
			switch {
			case slices.ContainsFunc(quiet, func(part string) bool { return strings.Contains(query, part) }):
				silent++
			case len(values) == 0:
				missing = append(missing, query)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("no value for\n%s", strings.Join(missing, "\n"))
		}
		return nil
	})
	t.Logf("%d of %d queries of the dashboards have values; these alerts fire: %v", len(queries)-silent, len(queries), p.firing(t))
}

// prometheus is a server of Debian's Prometheus.
type prometheus struct {
	address string
	sh      *pages.Shell
}

// startPrometheus starts one that reads all processes of the sandbox each second, and has the alerts of the chart without their
// waiting times.
func startPrometheus(t *testing.T, program string, s *sandbox, sh *pages.Shell, admin client.Client) *prometheus {
	t.Helper()
	folder := t.TempDir()
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	targets := []map[string]any{}
	deployments := &appsv1.DeploymentList{}
	if err := admin.List(t.Context(), deployments, client.InNamespace(controlplane.VirtwardNamespace)); err != nil {
		t.Fatal(err)
	}
	for i := range deployments.Items {
		for _, port := range deployments.Items[i].Spec.Template.Spec.Containers[0].Ports {
			if port.Name == "metrics" {
				targets = append(targets, map[string]any{
					"targets": []string{fmt.Sprintf("127.0.0.1:%d", port.ContainerPort)},
					"labels":  map[string]string{"namespace": controlplane.VirtwardNamespace, "pod": deployments.Items[i].Name + "-0"},
				})
			}
		}
	}
	write := func(name string, content []byte) {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("alerts.yaml", alertsOfChart(t, sh))
	settings, err := yaml.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{"alerts.yaml"},
		"scrape_configs": []map[string]any{
			{"job_name": "virtward", "static_configs": targets},
			apiServer(config, write),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	write("prometheus.yaml", settings)
	p := &prometheus{address: ports.Address(t), sh: sh}
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		t.Fatal(err)
	}
	server := exec.Command(program, "--config.file=prometheus.yaml", "--storage.tsdb.path=data", "--web.listen-address="+p.address)
	server.Dir, server.Stdout, server.Stderr = folder, log, log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("Prometheus:\n%s", text)
		}
	})
	await.Until(t, func() error {
		var result struct {
			ActiveTargets []struct {
				ScrapeURL, Health, LastError string
			} `json:"activeTargets"`
		}
		if err := p.get(t.Context(), "targets?state=active", &result); err != nil {
			return err
		}
		if len(result.ActiveTargets) != len(targets)+1 {
			return fmt.Errorf("%d targets, want %d", len(result.ActiveTargets), len(targets)+1)
		}
		for _, target := range result.ActiveTargets {
			if target.Health != "up" {
				return fmt.Errorf("%s is %s: %s", target.ScrapeURL, target.Health, target.LastError)
			}
		}
		return nil
	})
	return p
}

// apiServer returns how Prometheus reads the metrics of the API server.
func apiServer(config *rest.Config, write func(name string, content []byte)) map[string]any {
	host := strings.TrimPrefix(config.Host, "https://")
	secure := map[string]any{"ca_file": "ca.crt"}
	write("ca.crt", config.CAData)
	scrape := map[string]any{"job_name": "apiserver", "scheme": "https", "static_configs": []map[string]any{{"targets": []string{host}}}, "tls_config": secure}
	if config.BearerToken != "" {
		scrape["authorization"] = map[string]string{"credentials": config.BearerToken}
		return scrape
	}
	write("client.crt", config.CertData)
	write("client.key", config.KeyData)
	secure["cert_file"], secure["key_file"] = "client.crt", "client.key"
	return scrape
}

// alertsOfChart returns the rules of all PrometheusRules of the chart. They do not wait, so that they fire within the test.
func alertsOfChart(t *testing.T, sh *pages.Shell) []byte {
	t.Helper()
	text, err := sh.Run(t.Context(), "helm template virtward charts/virtward --set image.repository=virtward,metrics.prometheusRule.enabled=true,goldenImages.enabled=true,virtualImages.enabled=true")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var groups []any
	for document := range strings.SplitSeq(text, "\n---\n") {
		var object struct {
			Kind string
			Spec struct {
				Groups []struct {
					Name  string           `json:"name"`
					Rules []map[string]any `json:"rules"`
				} `json:"groups"`
			}
		}
		if yaml.Unmarshal([]byte(document), &object) != nil || object.Kind != "PrometheusRule" {
			continue
		}
		for _, group := range object.Spec.Groups {
			for _, rule := range group.Rules {
				delete(rule, "for")
			}
			groups = append(groups, group)
		}
	}
	content, err := yaml.Marshal(map[string]any{"groups": groups})
	if err != nil || len(groups) < 3 {
		t.Fatalf("%d groups: %v", len(groups), err)
	}
	return content
}

// get reads data of Prometheus' API.
func (p *prometheus) get(ctx context.Context, path string, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/api/v1/"+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return nil
}

// query returns the values of an expression by the labels of their series.
func (p *prometheus) query(t *testing.T, expression string) map[string]string {
	t.Helper()
	var result struct {
		Result []struct {
			Metric map[string]string `json:"metric"`
			Value  [2]any            `json:"value"`
		} `json:"result"`
	}
	if err := p.get(t.Context(), "query?query="+url.QueryEscape(expression), &result); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, series := range result.Result {
		values[labelled(series.Metric)] = fmt.Sprint(series.Value[1])
	}
	return values
}

// labelled returns labels in the notation of Prometheus, without quotes.
func labelled(labels map[string]string) string {
	var all []string
	for name, value := range labels {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return "{" + strings.Join(all, ",") + "}"
}

// firing returns the alerts that fire, with their own labels.
func (p *prometheus) firing(t *testing.T) []string {
	t.Helper()
	var result struct {
		Alerts []struct {
			Labels map[string]string `json:"labels"`
			State  string            `json:"state"`
		} `json:"alerts"`
	}
	if err := p.get(t.Context(), "alerts", &result); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, alert := range result.Alerts {
		name := alert.Labels["alertname"]
		delete(alert.Labels, "alertname")
		delete(alert.Labels, "severity")
		if alert.State == "firing" {
			all = append(all, name+labelled(alert.Labels))
		}
	}
	slices.Sort(all)
	return all
}

// becomes waits until a series of an expression has a value of a label.
func (p *prometheus) becomes(t *testing.T, panel, expression, value string) {
	t.Helper()
	await.Until(t, func() error {
		got := p.query(t, expression)
		for labels := range got {
			if strings.Contains(labels, "="+value+"}") {
				return nil
			}
		}
		return fmt.Errorf("%s: no series has the value %s: %v", panel, value, got)
	})
}

// repeat runs a command once a second until a condition holds. It can fail, because the fault is there.
func (p *prometheus) repeat(t *testing.T, fault, command string, holds func() bool) {
	t.Helper()
	for range 60 {
		output, err := p.sh.Run(t.Context(), command)
		if holds() {
			return
		}
		t.Logf("%s: %v %s", fault, err, output)
		time.Sleep(time.Second)
	}
	t.Fatalf("%s: firing are %v", fault, p.firing(t))
}
