package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/virtward/virtward/controllers/pages"
)

// clients are those that the controllers of a process share.
type clients struct {
	// direct reads without a cache, and writes; light reads metadata, and reader reads lists in pages.
	direct client.Client
	light  metadata.Interface
	reader *pages.Reader
	typed  kubernetes.Interface
	events *events
}

// newClients creates the clients, and adds the recorder of events to the manager. direct uses the configuration written.
func newClients(mgr manager.Manager, config, written *rest.Config) (c *clients, err error) {
	c = &clients{}
	if c.direct, err = client.New(written, client.Options{Scheme: mgr.GetScheme()}); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	if c.light, err = metadata.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	if c.typed, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	if c.reader, err = pages.NewReader(config); err != nil {
		return nil, err
	}
	c.events = newEvents(c.typed.CoreV1())
	return c, mgr.Add(everywhere(c.events.Run))
}

// tell creates an event on an object.
func (c *clients) tell(version schema.GroupVersion, objectKind string, object client.Object, kind, reason, message string) {
	c.events.recorder.Event(&corev1.ObjectReference{
		APIVersion: version.String(), Kind: objectKind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
	}, kind, reason, shortEvent(message))
}
