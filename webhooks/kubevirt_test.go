package webhooks

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
)

// TestKubeVirtNeverDenies holds that a KubeVirt resource is allowed, whatever it has and whatever fails.
func TestKubeVirtNeverDenies(t *testing.T) {
	const live, stage = `{"spec":{"configuration":{"vmRolloutStrategy":"LiveUpdate"}}}`, `{"spec":{"configuration":{"vmRolloutStrategy":"Stage"}}}`
	known := func(age time.Duration) func(context.Context) (*v1alpha1.RunningCounts, error) {
		return func(context.Context) (*v1alpha1.RunningCounts, error) {
			return &v1alpha1.RunningCounts{Time: metav1.NewTime(time.Now().Add(-age)), Complete: true, Running: 3, Pending: 1}, nil
		}
	}
	fails := func(err error) func(context.Context) (*v1alpha1.RunningCounts, error) {
		return func(context.Context) (*v1alpha1.RunningCounts, error) { return nil, err }
	}
	const unknown = "it changes while virtual machines may run. How many have pending changes is not known: "
	for name, test := range map[string]struct {
		old, object string
		counts      func(context.Context) (*v1alpha1.RunningCounts, error)
		// first is the first warning, without its field; empty for no warnings.
		first string
	}{
		"counted":           {live, stage, known(0), "3 virtual machines run, 1 with pending changes."},
		"stale":             {live, stage, known(time.Hour), "3 virtual machines run, 1 with pending changes. These counts are 1h0m0s old: the process virtward-rollouts does not run."},
		"not published":     {live, stage, fails(v1alpha1.ErrNoCounts), unknown + "the process virtward-rollouts has not published them."},
		"not readable":      {live, stage, fails(errors.New("the API server is away")), unknown + "they cannot be read now."},
		"not installed":     {live, stage, nil, unknown + "the process virtward-rollouts is not installed."},
		"unchanged":         {stage, stage, known(0), ""},
		"not a KubeVirt":    {live, `{"spec":[]}`, known(0), ""},
		"an old one":        {`{"spec":7}`, stage, known(0), ""},
		"a large quantity":  {"", `{"spec":{"configuration":{"liveUpdateConfiguration":{"maxGuest":"1e999999999"}}}}`, known(0), ""},
		"a negative ratio":  {"", `{"spec":{"configuration":{"liveUpdateConfiguration":{"maxHotplugRatio":-1}}}}`, known(0), "maxHotplugRatio: -1 has no effect. KubeVirt uses its default of 4. 1 means that nothing can be added to running virtual machines."},
		"a ratio as a text": {"", `{"spec":{"configuration":{"liveUpdateConfiguration":{"maxHotplugRatio":"x"}}}}`, known(0), ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := newValidator(t)
			v.Counts = test.counts
			response := evaluated(t, v, reviewOf(t, "KubeVirt", runtime.RawExtension{Raw: []byte(test.object)}, func(r *admissionv1.AdmissionRequest) {
				r.Kind = metav1.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: "KubeVirt"}
				if test.old != "" {
					r.Operation, r.OldObject = admissionv1.Update, runtime.RawExtension{Raw: []byte(test.old)}
				}
			}))
			first := ""
			if len(response.Warnings) > 0 {
				_, first, _ = strings.Cut(strings.TrimPrefix(response.Warnings[0], "spec.configuration."), ": ")
				if field, _, _ := strings.Cut(response.Warnings[0], ": "); strings.Contains(field, ".liveUpdateConfiguration.") {
					first = field[strings.LastIndex(field, ".")+1:] + ": " + first
				}
			}
			if diff := cmp.Diff(test.first, first); !response.Allowed || diff != "" {
				t.Errorf("allowed %t, warnings %q\n%s", response.Allowed, response.Warnings, diff)
			}
			if slices.Contains(response.Warnings, "") {
				t.Errorf("%q", response.Warnings)
			}
		})
	}
}
