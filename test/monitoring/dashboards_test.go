package monitoring

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files")

// dashboard has the fields of Grafana's classic model that are tested.
type dashboard struct {
	UID           string          `json:"uid"`
	Title         string          `json:"title"`
	Description   string          `json:"description"`
	SchemaVersion int             `json:"schemaVersion"`
	Timezone      string          `json:"timezone"`
	Refresh       string          `json:"refresh"`
	Editable      *bool           `json:"editable"`
	ID            json.RawMessage `json:"id"`
	Version       int             `json:"version"`
	GraphTooltip  int             `json:"graphTooltip"`
	Tags          []string        `json:"tags"`
	Links         []any           `json:"links"`
	Time          struct {
		From string `json:"from"`
		To   string `json:"to"`
	} `json:"time"`
	Annotations struct {
		List []any `json:"list"`
	} `json:"annotations"`
	Templating struct {
		List []variable `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

// variable is a field that the reader selects.
type variable struct {
	Name       string          `json:"name"`
	Label      string          `json:"label"`
	Type       string          `json:"type"`
	Query      json.RawMessage `json:"query"`
	Definition string          `json:"definition"`
	Datasource *source         `json:"datasource"`
	Multi      bool            `json:"multi"`
	IncludeAll bool            `json:"includeAll"`
	AllValue   string          `json:"allValue"`
}

// source refers to a data source.
type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// panel is a visualization, or the heading of a row.
type panel struct {
	ID          int     `json:"id"`
	Type        string  `json:"type"`
	Title       string  `json:"title"`
	Description string  `json:"description"`
	Datasource  *source `json:"datasource"`
	GridPos     struct {
		X, Y, W, H int
	} `json:"gridPos"`
	Links []struct {
		Title string `json:"title"`
		URL   string `json:"url"`
	} `json:"links"`
	FieldConfig struct {
		Defaults struct {
			Unit       string `json:"unit"`
			Thresholds struct {
				Mode  string `json:"mode"`
				Steps []struct {
					Color string   `json:"color"`
					Value *float64 `json:"value"`
				} `json:"steps"`
			} `json:"thresholds"`
		} `json:"defaults"`
		Overrides []any `json:"overrides"`
	} `json:"fieldConfig"`
	Options map[string]any `json:"options"`
	Targets []target       `json:"targets"`
}

// target is a query.
type target struct {
	RefID      string  `json:"refId"`
	Expr       string  `json:"expr"`
	Legend     string  `json:"legendFormat"`
	Format     string  `json:"format"`
	Instant    bool    `json:"instant"`
	Range      bool    `json:"range"`
	Datasource *source `json:"datasource"`
}

// variables are what Grafana replaces in an expression, with all values of each label.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$kind", ".*", "$policy", ".*", "$catalog", ".*", "$class", ".*")

// units are the units in use, by Grafana's names.
var units = []string{"short", "reqps", "cps", "s", "bytes", "percentunit"}

// dashboards returns the dashboards of the chart by their names.
func dashboards(t *testing.T) map[string]*dashboard {
	t.Helper()
	all := map[string]*dashboard{}
	for _, document := range rendered(t, "ConfigMap") {
		var object struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Data map[string]string `json:"data"`
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		name, is := strings.CutPrefix(object.Metadata.Name, "virtward-dashboard-")
		if !is {
			continue
		}
		all[name] = &dashboard{}
		if err := json.Unmarshal([]byte(object.Data["virtward-"+name+".json"]), all[name]); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff([]string{"admission", "images", "nodes", "policies", "rollouts"}, slices.Sorted(maps.Keys(all))); diff != "" {
		t.Fatalf("dashboards (-want +got):\n%s", diff)
	}
	return all
}

// queries returns the panels that are not headings.
func (d *dashboard) queries() []panel {
	return slices.DeleteFunc(slices.Clone(d.Panels), func(p panel) bool { return p.Type == "row" })
}

// TestModel: the dashboards have the fields of Grafana's classic JSON model, with the version 39 of its schema, which is that of Grafana 11.
func TestModel(t *testing.T) {
	uids, titles := map[string]bool{}, map[string]bool{}
	for name, d := range dashboards(t) {
		t.Run(name, func(t *testing.T) {
			if d.UID != "virtward-"+name || len(d.UID) < 8 || len(d.UID) > 40 || uids[d.UID] || titles[d.Title] || !strings.HasPrefix(d.Title, "Virtward / ") || !strings.HasSuffix(d.Description, ".") {
				t.Errorf("uid %q, title %q, description %q", d.UID, d.Title, d.Description)
			}
			uids[d.UID], titles[d.Title] = true, true
			if d.SchemaVersion != 39 || d.Version < 1 || string(d.ID) != "null" || d.Editable == nil || d.GraphTooltip < 0 || d.GraphTooltip > 2 {
				t.Errorf("schema %d, version %d, id %s, editable %v, tooltip %d", d.SchemaVersion, d.Version, d.ID, d.Editable, d.GraphTooltip)
			}
			if d.Time.From == "" || d.Time.To != "now" || d.Timezone != "browser" || d.Refresh == "" || len(d.Tags) == 0 || d.Links == nil || d.Annotations.List == nil {
				t.Errorf("time %v, timezone %q, refresh %q, tags %v, links %v, annotations %v", d.Time, d.Timezone, d.Refresh, d.Tags, d.Links, d.Annotations)
			}
			used := map[string]bool{}
			for i := range d.Panels {
				d.Panels[i].verify(t)
				if p := &d.Panels[i]; p.Type != "row" {
					if used[p.Title] {
						t.Errorf("two panels %q", p.Title)
					}
					used[p.Title] = true
				}
				for j := range i {
					if a, b := &d.Panels[i], &d.Panels[j]; a.ID == b.ID || overlap(a, b) {
						t.Errorf("%q (%d, %v) and %q (%d, %v) have the same id or overlap", a.Title, a.ID, a.GridPos, b.Title, b.ID, b.GridPos)
					}
				}
			}
		})
	}
}

// verify fails if a panel lacks a field.
func (p *panel) verify(t *testing.T) {
	t.Helper()
	at := p.GridPos
	if p.ID < 1 || p.Title == "" || at.X < 0 || at.Y < 0 || at.W < 1 || at.H < 1 || at.X+at.W > 24 {
		t.Errorf("%q has the id %d and the place %v", p.Title, p.ID, at)
	}
	if p.Type == "row" {
		return
	}
	if !slices.Contains([]string{"timeseries", "stat", "table"}, p.Type) || p.Datasource.invalid() || !strings.HasSuffix(p.Description, ".") || len(p.Options) == 0 {
		t.Errorf("%q has the type %q, the data source %v, the description %q and the options %v", p.Title, p.Type, p.Datasource, p.Description, p.Options)
	}
	defaults := p.FieldConfig.Defaults
	if !slices.Contains(units, defaults.Unit) || p.FieldConfig.Overrides == nil || defaults.Thresholds.Mode != "absolute" || len(defaults.Thresholds.Steps) == 0 || defaults.Thresholds.Steps[0].Value != nil {
		t.Errorf("%q has the fields %v", p.Title, p.FieldConfig)
	}
	refs := map[string]bool{}
	for _, q := range p.Targets {
		if refs[q.RefID] || q.RefID == "" || q.Datasource.invalid() || q.Instant == q.Range || (p.Type == "timeseries") != q.Range || (p.Type == "table") != (q.Format == "table") || (p.Type == "table") != (q.Legend == "") {
			t.Errorf("%q has the query %+v", p.Title, q)
		}
		refs[q.RefID] = true
	}
	if len(p.Targets) == 0 {
		t.Errorf("%q has no query", p.Title)
	}
}

// invalid reports whether it is not the data source that the reader selects.
func (s *source) invalid() bool { return s == nil || *s != source{"prometheus", "${datasource}"} }

func overlap(a, b *panel) bool {
	x, y := a.GridPos, b.GridPos
	return x.X < y.X+y.W && y.X < x.X+x.W && x.Y < y.Y+y.H && y.Y < x.Y+x.H
}

// TestVariables: the first variable is the data source. Each other one is used, and has the values of a label.
func TestVariables(t *testing.T) {
	known := declared(t)
	call := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)
	for name, d := range dashboards(t) {
		var expressions strings.Builder
		for _, p := range d.queries() {
			for _, q := range p.Targets {
				expressions.WriteString(q.Expr + "\n")
			}
		}
		for i, v := range d.Templating.List {
			if i == 0 {
				if v.Name != "datasource" || v.Type != "datasource" || string(v.Query) != `"prometheus"` || v.Multi || v.IncludeAll {
					t.Errorf("%s: the first variable is %+v", name, v)
				}
				continue
			}
			found := call.FindStringSubmatch(v.Definition)
			if len(found) != 3 || found[2] != v.Name || !slices.Contains(known[found[1]], v.Name) || !strings.Contains(string(v.Query), `"`+v.Definition+`"`) {
				t.Errorf("%s: the variable %s has the values %q and %s", name, v.Name, v.Definition, v.Query)
			}
			if v.Label == "" || v.Type != "query" || v.Datasource.invalid() || !v.Multi || !v.IncludeAll || v.AllValue != ".*" {
				t.Errorf("%s: %+v", name, v)
			}
			if !strings.Contains(expressions.String(), "$"+v.Name) {
				t.Errorf("%s: no panel uses the variable %s", name, v.Name)
			}
		}
		for used := range strings.SplitSeq(expressions.String(), "$") {
			word := regexp.MustCompile(`^\w+`).FindString(used)
			own := slices.ContainsFunc(d.Templating.List, func(v variable) bool { return v.Name == word })
			if strings.HasPrefix(expressions.String(), used) || own || word == "__rate_interval" || word == "__range" {
				continue
			}
			t.Errorf("%s: a panel uses %q, which is not a variable of the dashboard", name, word)
		}
	}
}

// TestExpressions: every expression is valid, and every metric of Virtward is in a dashboard.
func TestExpressions(t *testing.T) {
	known := declared(t)
	used := map[string]bool{}
	for name, d := range dashboards(t) {
		for _, p := range d.queries() {
			for _, q := range p.Targets {
				for _, metric := range verify(t, name+": "+p.Title, variables.Replace(q.Expr), known) {
					used[strings.TrimSuffix(strings.TrimSuffix(metric, "_bucket"), "_count")] = true
				}
			}
		}
	}
	for metric := range known {
		if own := strings.TrimSuffix(strings.TrimSuffix(metric, "_bucket"), "_count"); !used[own] && !used[metric] {
			t.Errorf("no dashboard has the metric %s", metric)
		}
	}
}

// TestLinks: links refer to sections of the runbook, and each alert has a panel.
func TestLinks(t *testing.T) {
	const runbook = "https://github.com/virtward/virtward/blob/main/docs/runbook.md#"
	linked := map[string]bool{}
	alerts := map[string]string{}
	for _, r := range rules(t) {
		alerts["Runbook: "+r.Alert] = runbook + strings.ToLower(r.Alert)
	}
	for name, d := range dashboards(t) {
		for _, p := range d.queries() {
			for _, link := range p.Links {
				if url, exists := alerts[link.Title]; !exists || link.URL != url {
					t.Errorf("%s: %q has the link %q to %s", name, p.Title, link.Title, link.URL)
				}
				linked[link.Title] = true
			}
		}
	}
	for title := range alerts {
		if !linked[title] {
			t.Errorf("no panel has the link %q", title)
		}
	}
}

// TestPanels evaluates each panel after three hours of the series in testdata/NAME.series, and compares the values with
// testdata/NAME.golden. -update writes them.
func TestPanels(t *testing.T) {
	known := declared(t)
	for name, d := range dashboards(t) {
		t.Run(name, func(t *testing.T) {
			series := samples(t, name, known)
			var got strings.Builder
			for _, p := range d.queries() {
				fmt.Fprintf(&got, "%s [%s]\n", p.Title, p.FieldConfig.Defaults.Unit)
				legends := map[string]bool{}
				for _, q := range p.Targets {
					vector := evaluated(t, variables.Replace(q.Expr), series, 3*time.Hour)
					if len(vector) == 0 {
						t.Errorf("%q has no values for %s", p.Title, q.Expr)
					}
					var lines []string
					for _, sample := range vector {
						legend := legendOf(t, q, sample.Metric)
						if legends[legend] {
							t.Errorf("%q has two series %q", p.Title, legend)
						}
						legends[legend] = true
						lines = append(lines, fmt.Sprintf("  %s = %.4g\n", legend, sample.F))
					}
					slices.Sort(lines)
					got.WriteString(strings.Join(lines, ""))
				}
			}
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatalf("%v; go test -update writes it", err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		})
	}
}

// samples returns the stored series of a dashboard. They have the labels that the code declares, and the label pod.
func samples(t *testing.T, name string, known map[string][]string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name+".series"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		metric, _, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var got []string
		metric.Range(func(l labels.Label) {
			if l.Name != model.MetricNameLabel && l.Name != "pod" {
				got = append(got, l.Name)
			}
		})
		if want := slices.Sorted(slices.Values(known[metric.Get(model.MetricNameLabel)])); !slices.Equal(got, want) {
			t.Errorf("%s has the labels %v, want %v", line, got, want)
		}
		all = append(all, line)
	}
	return all
}

// legendOf returns what Grafana calls a series: its labels in the legend, or all of them in a table.
func legendOf(t *testing.T, q target, metric labels.Labels) string {
	t.Helper()
	if q.Format == "table" {
		return metric.String()
	}
	return regexp.MustCompile(`{{(\w+)}}`).ReplaceAllStringFunc(q.Legend, func(reference string) string {
		value := metric.Get(strings.Trim(reference, "{}"))
		if value == "" {
			t.Errorf("the legend %q has a label that %s lacks", q.Legend, metric)
		}
		return value
	})
}
