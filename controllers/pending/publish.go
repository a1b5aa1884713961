package pending

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
)

// The counts are written if they changed, at most every publishInterval. Otherwise they are written every heartbeat, so that
// readers know that the process lives.
const (
	publishInterval = 10 * time.Second
	heartbeat       = 5 * time.Minute
)

// Publisher writes counts of running VMs into the ConfigMap of the chart.
type Publisher struct {
	Reconciler *Reconciler
	ConfigMaps typedcorev1.ConfigMapInterface
	Clock      clock.WithTicker
	Log        logr.Logger

	written v1alpha1.RunningCounts
}

// Start implements manager.Runnable. It runs in the replica that leads.
func (p *Publisher) Start(ctx context.Context) error {
	ticker := p.Clock.NewTicker(publishInterval)
	defer ticker.Stop()
	for {
		if err := p.publish(ctx); err != nil && ctx.Err() == nil {
			p.Log.Error(err, "the counts of pending changes are not published")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// publish writes the counts if they changed, or are old.
func (p *Publisher) publish(ctx context.Context) error {
	t := p.Reconciler.ledger.totals()
	if !t.listed {
		return nil
	}
	now := p.Clock.Now()
	counts := t.counts()
	counts.Time = p.written.Time
	if counts.String() == p.written.String() && now.Sub(p.written.Time.Time) < heartbeat {
		return nil
	}
	counts.Time = metav1.NewTime(now.UTC())
	patch, err := json.Marshal(map[string]any{"data": map[string]string{v1alpha1.CountsKey: counts.String()}})
	if err != nil {
		return err
	}
	if _, err := p.ConfigMaps.Patch(ctx, v1alpha1.CountsName, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: Owner}); err != nil {
		return fmt.Errorf("writing ConfigMap %s: %w", v1alpha1.CountsName, err)
	}
	p.written = counts
	return nil
}

func (t *totals) counts() v1alpha1.RunningCounts {
	counts := v1alpha1.RunningCounts{Complete: t.complete, Running: t.running, Pending: t.pending, MaxSockets: t.sockets}
	for i, kind := range kinds {
		if t.machines[i] > 0 {
			if counts.Takes == nil {
				counts.Takes = map[string]int{}
			}
			counts.Takes[string(kind)] = t.machines[i]
		}
	}
	if t.guest > 0 {
		counts.MaxGuest = resource.NewQuantity(t.guest, resource.BinarySI)
	}
	return counts
}
