package controlplane

import (
	"context"
	"crypto/tls"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Intervals of the supervisor. A kubelet waits longer before it starts a container again.
const (
	superviseInterval = 500 * time.Millisecond
	firstRestartDelay = 3 * time.Second
	lastRestartDelay  = time.Minute
	probeTimeout      = 2 * time.Second
)

// supervisor does for the processes of Deployments what a kubelet and two controllers do for pods: it starts a process that has
// ended again, and publishes which are ready, in the status of the Deployment and in EndpointSlices. Without Options.Supervise, it
// only starts processes again that have lost their Lease.
type supervisor struct {
	controlPlane *ControlPlane
	cancel       context.CancelFunc
	done         chan struct{}

	// mu is held while the supervisor looks at the processes, so that Sync and the interval do not overlap.
	mu sync.Mutex
}

// startSupervisor runs until end.
func (c *ControlPlane) startSupervisor() *supervisor {
	ctx, cancel := context.WithCancel(context.Background())
	s := &supervisor{controlPlane: c, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		ticker := time.NewTicker(superviseInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				if !c.options.Supervise {
					c.returnToLead()
					continue
				}
				_ = s.sync(ctx) // the next round tries again
			}
		}
	}()
	return s
}

func (s *supervisor) end() {
	s.cancel()
	<-s.done
}

// sync starts what has ended, probes what runs, and publishes the result.
func (s *supervisor) sync(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.controlPlane.workloads()
	var probes sync.WaitGroup
	for _, v := range all {
		v.restart(time.Now())
		probes.Go(func() { v.probe(ctx) })
	}
	probes.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.controlPlane.publish(ctx, all)
}

// Sync publishes the state of the processes now, where Options.Supervise does so regularly.
func (c *ControlPlane) Sync(ctx context.Context) error {
	c.mu.Lock()
	s := c.supervisor
	c.mu.Unlock()
	if s == nil || !c.options.Supervise {
		return nil
	}
	return s.sync(ctx)
}

// Workloads are the processes of Deployments, by name.
func (c *ControlPlane) Workloads() map[string]*Virtward {
	all := map[string]*Virtward{}
	for _, v := range c.workloads() {
		all[v.command.name] = v
	}
	return all
}

// workloads are the processes of Deployments, in the order of their start. Of two with one name, the later one counts.
func (c *ControlPlane) workloads() []*Virtward {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*Virtward
	for _, other := range c.others {
		v, isWorkload := other.(*Virtward)
		if !isWorkload {
			continue
		}
		all = slices.DeleteFunc(all, func(earlier *Virtward) bool {
			return earlier.command.name == v.command.name && earlier.deployment == v.deployment && earlier.PID() == 0
		})
		all = append(all, v)
	}
	return all
}

// restart starts a process again that has ended by itself, after a delay. A process that runs for a while before it ends starts
// sooner than one that ends again at once.
func (v *Virtward) restart(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.held || v.process == nil || v.process.running() {
		return
	}
	if v.ended.IsZero() {
		v.ended = now
		if now.Sub(v.started) > lastRestartDelay {
			v.delay = 0
		}
		v.delay = min(max(2*v.delay, firstRestartDelay), lastRestartDelay)
	}
	if now.Sub(v.ended) < v.delay {
		return
	}
	if p, err := v.controlPlane.starter.start(v.command); err == nil {
		v.process, v.started, v.ended = p, now, time.Time{}
	}
}

// returnToLead starts processes again that ended because they did not renew their Lease in time. On a busy machine that is no fault
// of the process. One that ends for another reason stays down, so that its test fails.
func (c *ControlPlane) returnToLead() {
	for _, v := range c.workloads() {
		v.returnToLead()
	}
}

func (v *Virtward) returnToLead() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.held || v.process == nil || v.process.running() || !strings.HasSuffix(v.process.tail(), "leader election lost") {
		return
	}
	if p, err := v.controlPlane.starter.start(v.command); err == nil {
		v.process, v.started, v.ended = p, time.Now(), time.Time{}
	}
}

// probe notes whether the process is ready.
func (v *Virtward) probe(ctx context.Context) {
	ready := v.PID() != 0
	if ready && v.ready != "" {
		ready = answersOK(ctx, prober(), v.ready) == nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.isReady = ready && v.process.running()
}

// Ready reports whether the process was ready when it was last probed. Only Options.Supervise and Sync probe it.
func (v *Virtward) Ready() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.isReady
}

// prober is a client for readiness probes.
func prober() *http.Client {
	return &http.Client{Timeout: probeTimeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a kubelet's probe does not verify either
	}}
}
