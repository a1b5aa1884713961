package main

import (
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/virtward/virtward/controllers/metadatawatch"
	"github.com/virtward/virtward/controllers/pages"
)

// clients are those that the controllers of a process share.
type clients struct {
	// direct reads without a cache, and writes; light reads metadata, and reader reads lists in pages.
	direct client.Client
	light  metadata.Interface
	reader *pages.Reader
	typed  kubernetes.Interface
	events *recorder
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
	c.events = newRecorder(c.typed.CoreV1())
	return c, mgr.Add(everywhere(c.events.Run))
}

// metadata returns what the watches of the process read with.
func (c *clients) metadata() metadatawatch.Reader {
	return metadatawatch.Reader{Client: c.light, Pages: c.reader}
}
