package webhooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/rollouts"
)

// countsTimeout bounds the time in which the counts of running VMs are read. Warnings do not delay the request further.
const countsTimeout = 500 * time.Millisecond

// countsAge is the age from which counts are stale. They are written every few minutes.
const countsAge = 15 * time.Minute

var kubeVirtKind = schema.GroupKind{Group: apikinds.KubeVirts.Group, Kind: apikinds.KubeVirt}

// kubeVirt warns of what a change of a KubeVirt resource means for running VMs. It never denies.
func (v *Validator) kubeVirt(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, string) {
	response := &admissionv1.AdmissionResponse{Allowed: true}
	configuration, old := &rollouts.Configuration{}, (*rollouts.Configuration)(nil)
	if err := evaluator.DecodeStored(request.Object.Raw, configuration); err != nil {
		return response, verdictAllowed // KubeVirt and the schema validate it
	}
	if request.Operation == admissionv1.Update {
		if old = (&rollouts.Configuration{}); evaluator.DecodeStored(request.OldObject.Raw, old) != nil {
			return response, verdictAllowed
		}
	}
	warnings := rollouts.ConfigurationWarnings(old, configuration, v.RolloutStrategy, v.counted(ctx))
	for i := range warnings {
		warnings[i] = shortened(warnings[i])
	}
	response.Warnings = bounded(warnings, 0)
	return response, verdictAllowed
}

// counted reads the counts of running VMs.
func (v *Validator) counted(ctx context.Context) rollouts.Counted {
	if v.Counts == nil {
		return rollouts.Counted{Unknown: "the process virtward-rollouts is not installed"}
	}
	ctx, cancel := context.WithTimeout(ctx, countsTimeout)
	defer cancel()
	counts, err := v.Counts(ctx)
	switch {
	case errors.Is(err, v1alpha1.ErrNoCounts):
		return rollouts.Counted{Unknown: "the process virtward-rollouts has not published them"}
	case err != nil:
		v.Log.Info("the counts of running virtual machines cannot be read", "reason", err.Error())
		return rollouts.Counted{Unknown: "they cannot be read now"}
	}
	if age := v.Clock.Since(counts.Time.Time); age > countsAge {
		return rollouts.Counted{Counts: counts, Unknown: fmt.Sprintf("These counts are %s old: the process virtward-rollouts does not run", age.Round(time.Minute))}
	}
	return rollouts.Counted{Counts: counts}
}
