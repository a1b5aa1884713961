package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/virtward/virtward/webhooks"
)

// The event on an object whose virtual machine instance is refused.
const reasonRefused = "Refused"

// refusals writes events until its context ends. Repetitions are counted in one event, and one object gets no
// more than a few in a short time: virt-controller tries again and again. This is the recorder of the core API:
// that of events.k8s.io takes events with different texts for one, and so would keep the first cause for good.
type refusals struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

func newRefusals(events typedcorev1.EventsGetter) *refusals {
	r := &refusals{broadcaster: record.NewBroadcaster()}
	r.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: events.Events("")})
	r.recorder = r.broadcaster.NewRecorder(clientgoscheme.Scheme, corev1.EventSource{Component: "virtward"})
	return r
}

// Run ends the writing of events when the context ends.
func (r *refusals) Run(ctx context.Context) error {
	<-ctx.Done()
	r.broadcaster.Shutdown()
	return nil
}

// tell writes an event on the owner of what was refused; it does not wait for it.
func (r *refusals) tell(owner webhooks.Owner, message string) {
	r.recorder.Event(&corev1.ObjectReference{
		APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: owner.Namespace, Name: owner.Name, UID: owner.UID,
	}, corev1.EventTypeWarning, reasonRefused, message)
}
