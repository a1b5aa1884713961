package status

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/virtward/virtward/texts"
)

// The metrics of the API server about calls of webhooks.
const (
	failOpen  = "apiserver_admission_webhook_fail_open_count"
	rejection = "apiserver_admission_webhook_rejection_count"
)

// calls reports the calls of webhooks that failed since the start of the API server that answers.
func (c *cluster) calls(ctx context.Context) []Result {
	const subject = "API server"
	body, err := c.raw(ctx, "/metrics")
	if err != nil {
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			return []Result{{Subject: subject, State: Unknown, Message: "not permitted: get /metrics", Remedy: "run the command as a user who can read it"}}
		}
		return []Result{{Subject: subject, State: Unknown, Message: "cannot read its metrics: " + err.Error()}}
	}
	defer body.Close()
	families, err := metricsOf(body, failOpen, rejection)
	if err != nil {
		return []Result{{Subject: subject, State: Unknown, Message: "cannot read its metrics: " + err.Error()}}
	}
	open, denied := failed(families[failOpen], ""), failed(families[rejection], "calling_webhook_error")
	var results []Result
	for _, name := range slices.Sorted(maps.Keys(open)) {
		results = append(results, Result{
			Subject: name, State: Warning,
			Message: fmt.Sprintf("%s since the start of the API server: the webhook did not answer, and the objects were admitted without it", texts.Count(open[name], "call failed open", "calls failed open")),
			Remedy:  "check whether the processes are ready; objects that were admitted meanwhile: " + c.program + " audit",
		})
	}
	for _, name := range slices.Sorted(maps.Keys(denied)) {
		results = append(results, Result{
			Subject: name, State: Warning,
			Message: texts.Count(denied[name], "request was denied", "requests were denied") + " since the start of the API server, because the webhook did not answer",
			Remedy:  "check whether the processes are ready",
		})
	}
	if len(results) == 0 {
		results = []Result{{Subject: subject, State: OK, Message: "no call of Virtward's webhooks failed since its start"}}
	}
	return results
}

// maxLine bounds a line of metrics, and maxSamples those that are kept, in bytes.
const (
	maxLine    = 1 << 20
	maxSamples = 4 << 20
)

// metricsOf reads some metrics. The others of an API server are megabytes.
func metricsOf(from io.Reader, names ...string) (map[string]*dto.MetricFamily, error) {
	var kept strings.Builder
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		line := lines.Text()
		if slices.ContainsFunc(names, func(name string) bool {
			return strings.HasPrefix(line, name+"{") || strings.HasPrefix(line, "# TYPE "+name+" ")
		}) {
			if kept.WriteString(line + "\n"); kept.Len() > maxSamples {
				return nil, fmt.Errorf("they have more than %d MiB of calls of webhooks", maxSamples>>20)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(strings.NewReader(kept.String()))
}

// failed sums the samples of Virtward's webhooks, by the name of the webhook. errorType selects samples; empty for all.
func failed(family *dto.MetricFamily, errorType string) map[string]int {
	sums := map[string]int{}
	for _, sample := range family.GetMetric() {
		labels := map[string]string{}
		for _, label := range sample.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		count := int(sample.GetCounter().GetValue() + sample.GetUntyped().GetValue() + sample.GetGauge().GetValue())
		if name := labels["name"]; count > 0 && strings.HasSuffix(name, ".virtward.io") && (errorType == "" || labels["error_type"] == errorType) {
			sums[name] += count
		}
	}
	return sums
}
