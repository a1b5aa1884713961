package controlplane

import (
	"context"
	"fmt"
	"io"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"
)

// Metric returns the sum of those samples of an API server's counter or gauge that have these labels.
// A metric that has no samples yet is 0. Failed calls of a webhook that fails open, which no client can see,
// are apiserver_admission_webhook_fail_open_count with the label name; all failed calls are
// apiserver_admission_webhook_rejection_count with error_type calling_webhook_error for one that fails closed.
func (c *ControlPlane) Metric(ctx context.Context, name string, labels map[string]string) (float64, error) {
	client, err := rest.HTTPClientFor(c.admin)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.host()+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("reading the API server's metrics: %s", response.Status)
	}
	return sum(response.Body, name, labels)
}

func sum(exposition io.Reader, name string, labels map[string]string) (float64, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(exposition)
	if err != nil {
		return 0, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	total := 0.0
	for _, sample := range families[name].GetMetric() {
		if includes(sample.GetLabel(), labels) {
			total += sample.GetCounter().GetValue() + sample.GetGauge().GetValue()
		}
	}
	return total, nil
}

func includes(sample []*dto.LabelPair, wanted map[string]string) bool {
	found := 0
	for _, label := range sample {
		if value, isWanted := wanted[label.GetName()]; isWanted {
			if value != label.GetValue() {
				return false
			}
			found++
		}
	}
	return found == len(wanted)
}
