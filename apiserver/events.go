package apiserver

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
)

// recorder writes events. Repetitions are counted in one event, and the rate for each template is limited.
type recorder struct {
	broadcaster record.EventBroadcaster
	events      record.EventRecorder
}

func newRecorder(getter typedcorev1.EventsGetter) *recorder {
	r := &recorder{broadcaster: record.NewBroadcaster()}
	r.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: getter.Events("")})
	r.events = r.broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: "virtward-apiserver"})
	return r
}

// Event implements Events.
func (r *recorder) Event(template *v1beta1.VirtualMachineTemplate, kind, reason, message string) {
	r.events.Event(&corev1.ObjectReference{
		APIVersion: v1beta1.GroupVersion.String(), Kind: apikinds.VirtualMachineTemplate, Namespace: template.Namespace, Name: template.Name, UID: template.UID,
	}, kind, reason, message)
}

// stop ends the writing.
func (r *recorder) stop() { r.broadcaster.Shutdown() }
