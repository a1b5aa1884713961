package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The chart as it is shipped, the binary as it is built: ready, called, and certified for its Service.
func TestVirtwardFromItsChart(t *testing.T) {
	skipShort(t)
	c, err := Start(t.Context(), Options{Parent: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	begin := time.Now()
	v, err := c.InstallVirtward(t.Context(), nil, Workload{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("installed and ready after %s; %s", time.Since(begin).Round(10*time.Millisecond), residentSize(t, v.PID()))

	configurations := &admissionregistrationv1.MutatingWebhookConfigurationList{}
	if err := c.Client().List(t.Context(), configurations, client.MatchingLabels{"app.kubernetes.io/instance": VirtwardRelease}); err != nil {
		t.Fatal(err)
	}
	if len(configurations.Items) == 0 {
		t.Fatal("the chart registers no mutating webhook")
	}
	name := configurations.Items[0].Webhooks[0].Name
	eventually(t, "the API server calls the webhook", func(ctx context.Context) error {
		if err := c.Client().Create(ctx, newVM("called"), client.DryRunAll); err != nil {
			return err
		}
		calls, err := c.Metric(ctx, "apiserver_admission_webhook_request_total", map[string]string{"name": name, "code": "200"})
		if err == nil && calls == 0 {
			err = errors.New("no call yet")
		}
		return err
	})

	v.Kill()
	before := failOpen(t, c, name)
	err = c.Client().Create(t.Context(), newVM("uncalled"), client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), `failed calling webhook "virtualmachines.validate.virtward.io"`) {
		t.Errorf("with the webhooks dead a VM was not rejected for want of the checks, but: %v", err)
	}
	if after := failOpen(t, c, name); after != before+1 {
		t.Errorf("the API server counts %v failed calls of the mutating webhook after %v, want one more", after, before)
	}
	if err := v.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := failOpen(t, c, name); got != before+1 {
		t.Errorf("the count of failed calls moved to %v without a call", got)
	}
	if err := v.Stop(); err != nil {
		t.Error(fmt.Errorf("on SIGTERM: %w", err))
	}
}

func failOpen(t *testing.T, c *ControlPlane, webhook string) float64 {
	t.Helper()
	count, err := c.Metric(t.Context(), "apiserver_admission_webhook_fail_open_count", map[string]string{"name": webhook})
	if err != nil {
		t.Fatal(err)
	}
	return count
}
