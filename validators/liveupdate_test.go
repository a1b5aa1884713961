package validators

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLiveUpdateFeatures(t *testing.T) {
	const rule = "vm-live-update-features-removed: spec.liveUpdateFeatures"
	for name, tc := range map[string]struct {
		raw  string
		want []string
	}{
		"nothing known": {},
		"no features":   {raw: `{"spec":{"runStrategy":"Always"}}`},
		"elsewhere":     {raw: `{"metadata":{"annotations":{"liveUpdateFeatures":"x"}},"spec":{}}`},
		"no JSON":       {raw: `{"spec":{"liveUp`},
		"of no object":  {raw: `{"spec":{"liveUpdateFeatures":7}}`, want: []string{rule + ": Forbidden: was removed from KubeVirt: it has no effect"}},
		"an empty one":  {raw: `{"spec":{"liveUpdateFeatures":{}}}`, want: []string{rule + ": Forbidden: was removed from KubeVirt: it has no effect"}},
		"memory and cpu": {raw: `{"spec":{"liveUpdateFeatures":{"memory":{"maxGuest":"256Mi"},"cpu":{"maxSockets":2}}}}`, want: []string{
			rule + ".cpu: Forbidden: was removed from KubeVirt: set spec.template.spec.domain.cpu.maxSockets instead of cpu.maxSockets here",
			rule + ".memory: Forbidden: was removed from KubeVirt: set spec.template.spec.domain.memory.maxGuest instead of memory.maxGuest here",
		}},
		"affinity": {raw: `{"spec":{"liveUpdateFeatures":{"affinity":{}}}}`, want: []string{
			rule + ".affinity: Forbidden: was removed from KubeVirt: affinity and nodeSelector are always updated live",
		}},
		"an instancetype": {raw: `{"spec":{"liveUpdateFeatures":{"instancetype":{"name":"u1"}}}}`, want: []string{
			rule + ".instancetype: Forbidden: was removed from KubeVirt: a change of instancetype is always rolled out live where possible",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range liveUpdateRules().Check(&Subject{Raw: []byte(tc.raw)}, OnVM) {
				got = append(got, f.Rule+": "+f.Error.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
