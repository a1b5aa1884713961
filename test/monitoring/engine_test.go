package monitoring

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/util/annotations"
)

// interval is the time between two samples, and between two evaluations of an alert.
const interval = time.Minute

// newEngine returns an engine with Prometheus' defaults.
func newEngine() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		Logger: slog.New(slog.DiscardHandler), MaxSamples: 1_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: parser.NewParser(parser.Options{}),
	})
}

// evaluated returns the values of an expression at a time. The series begin at the time 0, in the notation of promtool.
func evaluated(t *testing.T, expression string, series []string, at time.Duration) promql.Vector {
	t.Helper()
	query, err := newEngine().NewInstantQuery(t.Context(), stored(t, series), promql.NewPrometheusQueryOpts(false, 0), expression, time.UnixMilli(0).Add(at))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	defer query.Close()
	vector, err := query.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return append(promql.Vector{}, vector...) // the engine uses it again after Close
}

// firing returns the alerts of a rule that fire at a time. The series begin at the time 0, in the notation of promtool.
func firing(t *testing.T, r rule, series []string, at time.Duration) []alert {
	t.Helper()
	engine := newEngine()
	wait := time.Duration(0)
	if r.For != "" {
		parsed, err := model.ParseDuration(r.For)
		if err != nil {
			t.Fatal(err)
		}
		wait = time.Duration(parsed)
	}
	if wait > at {
		t.Fatalf("%s waits for %s, longer than the test", r.Alert, wait)
	}
	start, end := time.UnixMilli(0).Add(at-wait), time.UnixMilli(0).Add(at)
	query, err := engine.NewRangeQuery(t.Context(), stored(t, series), promql.NewPrometheusQueryOpts(false, 0), r.Expr, start, end, interval)
	if err != nil {
		t.Fatalf("%s: %v", r.Alert, err)
	}
	defer query.Close()
	result := query.Exec(t.Context())
	matrix, err := result.Matrix()
	if err != nil {
		t.Fatalf("%s: %v", r.Alert, err)
	}
	var alerts []alert
	for _, active := range matrix {
		if len(active.Floats) == int(wait/interval)+1 { // the expression is true at each evaluation
			last := active.Floats[len(active.Floats)-1]
			alerts = append(alerts, expanded(t, r, promql.Sample{T: last.T, F: last.F, Metric: active.Metric}))
		}
	}
	return alerts
}

// summaries returns the summaries of alerts.
func summaries(alerts []alert) []string {
	var all []string
	for _, a := range alerts {
		all = append(all, a.Annotations["summary"])
	}
	return all
}

// expanded returns the alert of a rule for a sample. It fails if a template has a label that the sample lacks.
func expanded(t *testing.T, r rule, sample promql.Sample) alert {
	t.Helper()
	const variables = "{{$labels := .Labels}}{{$value := .Value}}"
	data := template.AlertTemplateData(sample.Metric.Map(), nil, "", sample)
	apply := func(to map[string]string, texts map[string]string) {
		for key, text := range texts {
			said, err := template.NewTemplateExpander(t.Context(), variables+text, key, data, model.Time(sample.T), nil, nil, []string{"missingkey=error"}).Expand()
			if err != nil {
				t.Error(err)
			}
			to[key] = said
		}
	}
	a := alert{Labels: map[string]string{}, Annotations: map[string]string{}}
	sample.Metric.Range(func(l labels.Label) {
		if l.Name != model.MetricNameLabel {
			a.Labels[l.Name] = l.Value
		}
	})
	apply(a.Labels, r.Labels)
	apply(a.Annotations, r.Annotations)
	return a
}

// described returns a series in the notation of promtool: its labels, and its values.
func described(t *testing.T, line string) (metric, values string) {
	t.Helper()
	description, _, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(line)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	end := strings.LastIndex(line, "} ") + 1
	if end == 0 {
		end = len(description.Get(model.MetricNameLabel))
	}
	return line[:end], strings.TrimSpace(line[end:])
}

// stored returns series as a database.
func stored(t *testing.T, descriptions []string) storage.Queryable {
	t.Helper()
	var all []storage.Series
	for _, description := range descriptions {
		metric, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(description)
		if err != nil {
			t.Fatalf("%s: %v", description, err)
		}
		series := promql.Series{Metric: metric}
		for i, value := range values {
			if !value.Omitted {
				series.Floats = append(series.Floats, promql.FPoint{T: int64(i) * interval.Milliseconds(), F: value.Value})
			}
		}
		all = append(all, promql.NewStorageSeries(series))
	}
	return storage.QueryableFunc(func(int64, int64) (storage.Querier, error) { return &querier{series: all}, nil })
}

// querier implements storage.Querier.
type querier struct {
	storage.MockQuerier
	series []storage.Series
}

// Select implements storage.Querier.
func (q *querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := &set{}
	for _, series := range q.series {
		matches := true
		for _, matcher := range matchers {
			matches = matches && matcher.Matches(series.Labels().Get(matcher.Name))
		}
		if matches {
			found.series = append(found.series, series)
		}
	}
	return found
}

// set implements storage.SeriesSet.
type set struct {
	series []storage.Series
	next   int
}

// Next implements storage.SeriesSet.
func (s *set) Next() bool {
	s.next++
	return s.next <= len(s.series)
}

// At implements storage.SeriesSet.
func (s *set) At() storage.Series { return s.series[s.next-1] }

// Err implements storage.SeriesSet.
func (*set) Err() error { return nil }

// Warnings implements storage.SeriesSet.
func (*set) Warnings() annotations.Annotations { return nil }

// repeated returns a series for each value of a label: SERIES has a %.
func repeated(series string, values ...string) []string {
	var all []string
	for _, value := range values {
		all = append(all, strings.ReplaceAll(series, "%", value))
	}
	return all
}
