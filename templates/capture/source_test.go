package capture

import (
	"errors"
	"strings"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"

	"github.com/virtward/virtward/api/template/v1beta1"
)

func TestCheckSource(t *testing.T) {
	const (
		online, agent, without = snapshotv1beta1.VMSnapshotOnlineSnapshotIndication, snapshotv1beta1.VMSnapshotGuestAgentIndication, snapshotv1beta1.VMSnapshotNoGuestAgentIndication
		timeout, paused        = snapshotv1beta1.VMSnapshotQuiesceTimeoutIndication, snapshotv1beta1.VMSnapshotPausedIndication
		stopped, quiesced      = v1beta1.SourceStopped, v1beta1.SourceQuiesced
	)
	for name, tc := range map[string]struct {
		indications []snapshotv1beta1.Indication
		source      kubevirtv1.VirtualMachineSpec
		state       v1beta1.SourceState
		// fails are the required states that the source does not have, each with words of the message.
		fails map[v1beta1.SourceState]string
	}{
		"stopped":                    {nil, kubevirtv1.VirtualMachineSpec{RunStrategy: new(kubevirtv1.RunStrategyHalted)}, stopped, nil},
		"stopped by hand":            {nil, kubevirtv1.VirtualMachineSpec{RunStrategy: new(kubevirtv1.RunStrategyManual)}, stopped, nil},
		"shut down in the guest":     {nil, kubevirtv1.VirtualMachineSpec{RunStrategy: new(kubevirtv1.RunStrategyRerunOnFailure)}, stopped, nil},
		"about to start":             {nil, kubevirtv1.VirtualMachineSpec{RunStrategy: new(kubevirtv1.RunStrategyAlways)}, stopped, map[v1beta1.SourceState]string{stopped: "SourceNotStopped: spec.sourceState is Stopped: the run strategy starts"}},
		"about to start, by running": {nil, kubevirtv1.VirtualMachineSpec{Running: new(true)}, stopped, map[v1beta1.SourceState]string{stopped: "SourceNotStopped: spec.sourceState is Stopped: the run strategy starts"}},
		"running":                    {[]snapshotv1beta1.Indication{online, without}, kubevirtv1.VirtualMachineSpec{}, v1beta1.SourceRunning, map[v1beta1.SourceState]string{quiesced: "SourceNotQuiesced: spec.sourceState is Quiesced: the VirtualMachine ran, and its guest agent", stopped: "SourceNotStopped: spec.sourceState is Stopped: the VirtualMachine ran."}},
		"frozen":                     {[]snapshotv1beta1.Indication{online, agent}, kubevirtv1.VirtualMachineSpec{}, quiesced, map[v1beta1.SourceState]string{stopped: "SourceNotStopped"}},
		"not frozen in time":         {[]snapshotv1beta1.Indication{online, agent, timeout}, kubevirtv1.VirtualMachineSpec{}, v1beta1.SourceRunning, map[v1beta1.SourceState]string{quiesced: "SourceNotQuiesced", stopped: "SourceNotStopped"}},
		"could not be frozen":        {[]snapshotv1beta1.Indication{agent, "QuiesceFailed", online}, kubevirtv1.VirtualMachineSpec{}, v1beta1.SourceRunning, map[v1beta1.SourceState]string{quiesced: "SourceNotQuiesced", stopped: "SourceNotStopped"}},
		"stopped, and partial":       {[]snapshotv1beta1.Indication{snapshotv1beta1.VMSnapshotPartialSnapshotIndication}, kubevirtv1.VirtualMachineSpec{}, stopped, nil},
		"paused":                     {[]snapshotv1beta1.Indication{online, paused}, kubevirtv1.VirtualMachineSpec{}, v1beta1.SourceRunning, map[v1beta1.SourceState]string{quiesced: "SourceNotQuiesced", stopped: "SourceNotStopped"}},
	} {
		t.Run(name, func(t *testing.T) {
			older := &snapshotv1beta1.VirtualMachineSnapshot{Status: &snapshotv1beta1.VirtualMachineSnapshotStatus{Indications: tc.indications}} //nolint:staticcheck // KubeVirt 1.6 has no other field
			newer := &snapshotv1beta1.VirtualMachineSnapshot{Status: &snapshotv1beta1.VirtualMachineSnapshotStatus{}}
			for _, i := range tc.indications {
				newer.Status.SourceIndications = append(newer.Status.SourceIndications, snapshotv1beta1.SourceIndication{Indication: i})
			}
			for _, snapshot := range []*snapshotv1beta1.VirtualMachineSnapshot{older, newer} {
				if got := SourceState(snapshot); got != tc.state {
					t.Errorf("the state is %s, want %s", got, tc.state)
				}
				for _, required := range []v1beta1.SourceState{"", v1beta1.SourceAny, quiesced, stopped} {
					r := request()
					r.Spec.SourceState = required
					text := ""
					var fault *Error
					if errors.As(CheckSource(r, snapshot, &tc.source), &fault) {
						text = fault.Reason + ": " + fault.Message
					}
					if want := tc.fails[required]; (want == "") != (text == "") || !strings.HasPrefix(text, want) {
						t.Errorf("required %q: got %q, want %q", required, text, want)
					}
				}
			}
		})
	}
	if got := SourceState(&snapshotv1beta1.VirtualMachineSnapshot{}); got != stopped {
		t.Errorf("without a status: %s", got)
	}
}
