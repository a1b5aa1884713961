package simulators

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/virtward/virtward/test/controlplane"
)

// background is a manager that runs until Stop. Its log is in the folder of the sandbox.
type background struct {
	log  *os.File
	stop context.CancelFunc
	done chan error
}

// manager returns a manager for the controllers of a simulator with a name. It waits until the account can list its
// objects: a watch that begins before waits much longer.
func (b *background) manager(ctx context.Context, c *controlplane.ControlPlane, name string, account *rest.Config, objects client.ObjectList) (_ manager.Manager, err error) {
	if b.log, err = os.Create(filepath.Join(c.Dir(), name+"-simulator.log")); err != nil {
		return nil, err
	}
	scheme, err := controlplane.Scheme()
	if err != nil {
		return nil, err
	}
	live, err := client.New(account, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for live.List(ctx, objects) != nil {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the account cannot list %T: %w", objects, ctx.Err())
		case <-time.After(poll):
		}
	}
	m, err := ctrl.NewManager(account, ctrl.Options{
		Logger:     logTo(b.log),
		Scheme:     scheme,
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true), MaxConcurrentReconciles: 4}, // one process may simulate many clusters
	})
	if err != nil {
		return nil, fmt.Errorf("simulating controllers: %w", err)
	}
	return m, nil
}

func (b *background) run(ctx context.Context, m manager.Manager) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stop, b.done = stop, make(chan error, 1)
	go func() { b.done <- m.Start(running) }()
}

// Stop ends the simulation; objects stay as they are.
func (b *background) Stop() error {
	b.stop()
	return errors.Join(<-b.done, b.log.Close())
}
