package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/texts"
)

// recorder writes the events of the controller. Repetitions are counted in one event, and the rate for each object is
// limited. It uses the recorder of the core API: that of events.k8s.io merges events with different texts, so it would
// keep only the first text.
type recorder struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

func newRecorder(getter typedcorev1.EventsGetter) *recorder {
	r := &recorder{broadcaster: record.NewBroadcaster()}
	r.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: getter.Events("")})
	r.recorder = r.broadcaster.NewRecorder(clientgoscheme.Scheme, corev1.EventSource{Component: "virtward"})
	return r
}

// Run waits until the context ends, and shuts the recorder down.
func (r *recorder) Run(ctx context.Context) error {
	<-ctx.Done()
	r.broadcaster.Shutdown()
	return nil
}

// tellOf returns a function that creates events on objects of a kind.
func tellOf[O metav1.Object](r *recorder, kind schema.GroupVersionKind) func(O, events.Event) {
	return func(object O, e events.Event) {
		r.tell(&corev1.ObjectReference{Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()}, kind, e)
	}
}

// tell creates an event on an object of a kind.
func (r *recorder) tell(on *corev1.ObjectReference, kind schema.GroupVersionKind, e events.Event) {
	on.APIVersion, on.Kind = kind.GroupVersion().String(), kind.Kind
	r.recorder.Event(on, e.Type, e.Reason, shortened(e.Message))
}

// shortened shortens a message to the API server's limit for events.
func shortened(message string) string { return texts.ShortenCharacters(message, 1000) }
