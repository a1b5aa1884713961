package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// events writes the events of the controller. Repetitions are counted in one event, and the rate for each object is
// limited. It uses the recorder of the core API: that of events.k8s.io merges events with different texts, so it would
// keep only the first text.
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

// Run waits until the context ends, and shuts the recorder down.
func (e *events) Run(ctx context.Context) error {
	<-ctx.Done()
	e.broadcaster.Shutdown()
	return nil
}
