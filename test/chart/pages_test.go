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
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/schemas"
)

// pageOf returns a page by its path in the repository.
func pageOf(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	must(t, err)
	return string(content)
}

// rowsOf returns the first cells of the rows of a page that match a pattern: the first group of the pattern.
func rowsOf(page, pattern string) []string {
	var found []string
	for _, row := range regexp.MustCompile(`(?m)^\| `+pattern).FindAllStringSubmatch(page, -1) {
		found = append(found, row[1])
	}
	slices.Sort(found)
	return found
}

// metricNames are the names of Virtward's own metrics, and of those that HCO has too.
const metricNames = `((?:virtward|kubevirt_hco)_[a-z_]+)`

// TestMetricsAreDocumented holds that the tables of docs/metrics.md and docs/audit.md have every metric of the code once, and no
// other.
func TestMetricsAreDocumented(t *testing.T) {
	found := metricsOfPackages(t)
	documented := slices.Concat(rowsOf(pageOf(t, "docs/metrics.md"), "`"+metricNames+"[`{]"), rowsOf(pageOf(t, "docs/audit.md"), "`"+metricNames+"[`{]"))
	slices.Sort(documented)
	if diff := cmp.Diff(found, documented); diff != "" || len(found) < 50 {
		t.Errorf("metrics (-code +pages):\n%s", diff)
	}
}

// TestMetricsOfPages holds that each metric that a page names exists, also those of queries.
func TestMetricsOfPages(t *testing.T) {
	found := metricsOfPackages(t)
	name := regexp.MustCompile(`(?:^|[^-\w])` + metricNames) // not a file such as kubectl-virtward_v0.1.0.tar.gz
	series := regexp.MustCompile(`_(bucket|count|sum)$`)
	count := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/internals/*.md", "charts/*/README.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		must(t, err)
		for _, page := range pages {
			content, err := os.ReadFile(page)
			must(t, err)
			for _, match := range name.FindAllStringSubmatch(string(content), -1) {
				metric := match[1]
				count++
				if metric == "virtward_owner" { // a property of images in Glance
					continue
				}
				isPrefix := strings.HasSuffix(metric, "_") && slices.ContainsFunc(found, func(other string) bool { return strings.HasPrefix(other, metric) })
				if !isPrefix && !slices.Contains(found, metric) && !slices.Contains(found, series.ReplaceAllString(metric, "")) {
					t.Errorf("%s: there is no metric %s", page, metric)
				}
			}
		}
	}
	if count < 50 {
		t.Errorf("the pages name %d metrics", count)
	}
}

// TestCountsOfPages holds that numbers in the text of pages are those of the code.
func TestCountsOfPages(t *testing.T) {
	values := chartValues(t)
	converted, err := filepath.Glob(filepath.Join(root, "examples", "converted", "*", "original.yaml"))
	must(t, err)
	for _, c := range []struct {
		page, text string
		count      any
	}{
		{"docs/policy-convert.md", "has %v patterns of public policies", len(converted)},
		{"docs/virtual-images.md", "%v images are imported at the same time", valueAt(values, "virtualImages.limits.imports")},
		{"docs/golden-images.md", "    interval: %v\n", valueAt(values, "goldenImages.registries.interval")},
		{"docs/policy-exceptions.md", "the chart's value `policies.exceptions.maxDays`, by default %v", valueAt(values, "policies.exceptions.maxDays")},
		{"docs/export.md", "`policies.export.enabled` is `true`. The default is `%v`", valueAt(values, "policies.export.enabled")},
	} {
		if want := fmt.Sprintf(c.text, c.count); !strings.Contains(pageOf(t, c.page), want) {
			t.Errorf("%s lacks %q", c.page, want)
		}
	}
}

// TestUninstallPage holds that docs/uninstall.md lists the objects of the chart that stay after an uninstallation.
func TestUninstallPage(t *testing.T) {
	var kept []string
	for _, object := range renderFor(t, nil, `templates.mode="manage"`, "audit.reports.installCRDs=true") {
		if object.GetAnnotations()["helm.sh/resource-policy"] == "keep" {
			kept = append(kept, object.GetName())
		}
	}
	slices.Sort(kept)
	if diff := cmp.Diff(kept, rowsOf(pageOf(t, "docs/uninstall.md"), "(?:CustomResourceDefinition|Secret) \\| `([^`]+)`")); diff != "" {
		t.Errorf("objects that stay (-chart +docs/uninstall.md):\n%s", diff)
	}
}

// TestInstallPage holds that docs/install.md has the ports of values.yaml, and the supported versions.
func TestInstallPage(t *testing.T) {
	page, values := pageOf(t, "docs/install.md"), chartValues(t)
	ports := regexp.MustCompile("(?m)^\\| `([A-Za-z.]+)` \\| `([0-9]+)` \\|").FindAllStringSubmatch(page, -1)
	if len(ports) < 7 {
		t.Errorf("the page has the ports %v", ports)
	}
	for _, port := range ports {
		want, err := json.Marshal(valueAt(values, port[1]))
		must(t, err)
		if port[2] != string(want) {
			t.Errorf("%s is %s, and the page says %s", port[1], want, port[2])
		}
	}
	var chart struct {
		KubeVersion string `json:"kubeVersion"`
	}
	must(t, yaml.Unmarshal([]byte(pageOf(t, folder+"/Chart.yaml")), &chart))
	kubernetes := strings.TrimSuffix(strings.TrimPrefix(chart.KubeVersion, ">="), ".0-0")
	helmModule := regexp.MustCompile(`helm\.sh/helm/v(\d+) v([0-9.]+)`).FindStringSubmatch(pageOf(t, "tools/helm/go.mod"))
	minors := schemas.Minors()
	for _, row := range []string{
		"| Kubernetes | " + kubernetes + " or later |",
		"| Helm | " + helmModule[1] + "; the tests use " + helmModule[2] + " |",
		"| KubeVirt | " + minors[0] + " or later |",
		"| before " + minors[0] + " | no",
		"| " + strings.Join(minors, ", ") + " | yes",
		"| later than " + schemas.Newest() + " | not yet",
	} {
		if !strings.Contains(page, "\n"+row) {
			t.Errorf("docs/install.md lacks the row %q", row)
		}
	}
	if version := "You need Kubernetes " + kubernetes + " or later, KubeVirt " + minors[0] + " or later, and Helm " + helmModule[1] + " "; !strings.Contains(pageOf(t, "README.md"), version) {
		t.Errorf("README.md lacks %q", version)
	}
}

// TestHelmCommands holds that the commands of Helm on these pages name the namespace of the release, and keep the values that users set
// without those of an older chart.
func TestHelmCommands(t *testing.T) {
	command := regexp.MustCompile(`(?m)^(?: +|\$ )helm (?:[^\n\\]|\\\n)*`)
	for _, name := range []string{
		"README.md", "charts/virtward/README.md", "docs/backup-and-restore.md", "docs/golden-images.md", "docs/install.md", "docs/policy-rights.md", "docs/switching-off.md", "docs/template-api.md", "docs/uninstall.md",
		"docs/upgrade.md", "docs/virtual-images.md", "docs/virtual-images-glance.md",
	} {
		commands := command.FindAllString(pageOf(t, name), -1)
		if len(commands) == 0 {
			t.Errorf("%s has no command of Helm", name)
		}
		for _, one := range commands {
			words := strings.Fields(one)
			if !slices.Contains(words, "--namespace") && !slices.Contains(words, "-n") {
				t.Errorf("%s: %q names no namespace", name, one)
			}
			if slices.Contains(words, "--reuse-values") {
				t.Errorf("%s: %q keeps the defaults of the older chart: use --reset-then-reuse-values", name, one)
			}
		}
	}
}

// TestQuotedMessages holds that the pages quote messages and lines of the log as the code has them.
func TestQuotedMessages(t *testing.T) {
	for _, c := range []struct {
		page, quote, source string
		// parts are the literals of the source; the quote if there are none.
		parts []string
	}{
		{page: "docs/troubleshooting.md", quote: "facts active", source: "cmd/virtward/cluster.go"},
		{page: "docs/troubleshooting.md", quote: "the configuration of KubeVirt cannot be used; the previous facts stay active", source: "cmd/virtward/cluster.go"},
		{page: "docs/troubleshooting.md", quote: "settings of the rules active", source: "cmd/virtward/cluster.go", parts: []string{`"settings"`, `" of the "`, `"rules"`, `" active"`}},
		{page: "docs/troubleshooting.md", quote: "… try again: virtward is busy with other requests", source: "limits/memory/shares.go", parts: []string{"virtward is busy with other requests"}},
		{page: "docs/troubleshooting.md", quote: "virtward could not check this object, try again: …", source: "webhooks/failures.go", parts: []string{"virtward could not ", " this object, try again: "}},
		{page: "docs/rule-settings.md", quote: "settings of the rules active", source: "cmd/virtward/cluster.go", parts: []string{" of the ", " active"}},
		{page: "docs/rule-settings.md", quote: "some RuleSettings cannot be used; the previous settings stay active", source: "cmd/virtward/cluster.go", parts: []string{`"some "`, `" cannot be used; the previous "`, `" stay active"`}},
	} {
		if !strings.Contains(pageOf(t, c.page), "`"+c.quote+"`") {
			t.Errorf("%s does not quote %q", c.page, c.quote)
		}
		source := pageOf(t, c.source)
		for _, part := range append(c.parts, c.quote)[:max(1, len(c.parts))] {
			if !strings.Contains(source, part) {
				t.Errorf("%s: %s does not have %q", c.page, c.source, part)
			}
		}
	}
}
