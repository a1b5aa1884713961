package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// events writes the events of the controller until its context ends. Repetitions are counted in one event, and one
// object gets no more than a few in a short time. This is the recorder of the core API: that of events.k8s.io takes
// events with different texts for one, and so would keep the first text for good.
type events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

func newEvents(getter typedcorev1.EventsGetter) *events {
	e := &events{broadcaster: record.NewBroadcaster()}
	e.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: getter.Events("")})
	e.recorder = e.broadcaster.NewRecorder(clientgoscheme.Scheme, corev1.EventSource{Component: "virtward"})
	return e
}

// Run ends the writing of events when the context ends.
func (e *events) Run(ctx context.Context) error {
	<-ctx.Done()
	e.broadcaster.Shutdown()
	return nil
}
