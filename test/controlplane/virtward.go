package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stopTimeout is how long virtward may take to end by itself: the default of a pod.
const stopTimeout = 30 * time.Second

// ShortLease is an argument of processes of which one replica works. A process that was killed is replaced sooner than with the
// default, and one on a busy machine does not lose its Lease: it would end each time, and start again after longer and longer times.
const ShortLease = "--lease-duration=10s"

// Workload names a Deployment to run on this machine, and its options.
type Workload struct {
	// Namespace of the Deployment.
	Namespace string
	// Deployment is its name; empty means the only one in the namespace.
	Deployment string
	// Binary runs in place of the container's image; empty means bin/virtward.
	Binary string
	// Replica distinguishes the processes of one Deployment: each has a log, a kubeconfig and volumes of its own.
	Replica string
	// Args are added after the container's own. $(KUBECONFIG) in them is the file of the process's kubeconfig.
	Args []string
	// Env is added after the container's own, as NAME=value.
	Env []string
}

// Virtward is a container of a Deployment that runs as a process on this machine: with the arguments, the
// environment and the volumes that the Deployment says, and the rights of its service account.
type Virtward struct {
	controlPlane *ControlPlane
	deployment   client.ObjectKey
	command      command
	ready        string // URL; empty when the Deployment has no readiness probe
	mounts       []*mount
	stopSync     context.CancelFunc
	synced       chan struct{}

	mu      sync.Mutex
	process *process
	// held processes do not run because they were killed or stopped on purpose.
	held bool
	// isReady is what the last probe found.
	isReady bool
	// started, ended and delay decide when a process that has ended starts again.
	started, ended time.Time
	delay          time.Duration
}

// RunVirtward starts the process of a Deployment, and waits until its readiness probe succeeds.
func (c *ControlPlane) RunVirtward(ctx context.Context, workload Workload) (*Virtward, error) {
	deployment, err := c.deployment(ctx, workload)
	if err != nil {
		return nil, err
	}
	v, err := c.prepare(ctx, deployment, workload)
	if err != nil {
		return nil, fmt.Errorf("preparing to run Deployment %s/%s: %w", deployment.Namespace, deployment.Name, err)
	}
	if err := v.mountVolumes(ctx); err != nil {
		return nil, fmt.Errorf("mounting the volumes of Deployment %s/%s: %w", deployment.Namespace, deployment.Name, err)
	}
	c.own(v)
	if err := v.Start(ctx); err != nil {
		v.end()
		return nil, err
	}
	return v, c.awaitGuards(ctx, deployment.Name)
}

func (c *ControlPlane) deployment(ctx context.Context, workload Workload) (*appsv1.Deployment, error) {
	if workload.Deployment != "" {
		deployment := &appsv1.Deployment{}
		err := c.client.Get(ctx, client.ObjectKey{Namespace: workload.Namespace, Name: workload.Deployment}, deployment)
		return deployment, err
	}
	list := &appsv1.DeploymentList{}
	if err := c.client.List(ctx, list, client.InNamespace(workload.Namespace)); err != nil {
		return nil, err
	}
	if len(list.Items) != 1 {
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return nil, fmt.Errorf("namespace %s has %d Deployments (%s): name one", workload.Namespace, len(names), strings.Join(names, ", "))
	}
	return &list.Items[0], nil
}

func (c *ControlPlane) prepare(ctx context.Context, deployment *appsv1.Deployment, workload Workload) (*Virtward, error) {
	pod := podOf{deployment: deployment, container: deployment.Spec.Template.Spec.Containers[0]}
	config, err := c.ServiceAccountConfig(ctx, deployment.Namespace, pod.serviceAccount())
	if err != nil {
		return nil, err
	}
	name := deployment.Name + workload.Replica
	kubeconfig, err := c.WriteKubeconfig(deployment.Namespace+"."+name, config)
	if err != nil {
		return nil, err
	}
	variables, values, err := pod.variables(ctx, c.client)
	if err != nil {
		return nil, err
	}
	ready, err := probe(pod.container)
	if err != nil {
		return nil, err
	}
	volumes, err := mounts(deployment.Spec.Template.Spec, pod.container, deployment.Namespace, c.home.file("volumes", deployment.Namespace, name))
	if err != nil {
		return nil, err
	}
	binary := workload.Binary
	switch {
	case c.options.Images:
		if binary, err = c.unpack(ctx, pod.container.Image); err != nil {
			return nil, err
		}
	case binary == "":
		binary = c.binary("virtward")
	}
	var words []string
	if len(pod.container.Command) > 1 { // the first word is the image's binary
		words = append(words, pod.container.Command[1:]...)
	}
	words = append(words, pod.container.Args...)
	for i := range words {
		words[i] = onThisMachine(expand(words[i], values), volumes)
	}
	for _, word := range workload.Args {
		words = append(words, strings.ReplaceAll(word, "$(KUBECONFIG)", kubeconfig))
	}
	for i := range variables {
		variables[i] = onThisMachine(variables[i], volumes)
	}
	environment := append(c.environment(), variables...)
	environment = append(environment, "KUBECONFIG="+kubeconfig)
	return &Virtward{
		controlPlane: c,
		deployment:   client.ObjectKeyFromObject(deployment),
		ready:        ready,
		mounts:       volumes,
		command: command{
			name: name,
			path: binary,
			args: words,
			env:  append(environment, workload.Env...),
			dir:  c.home.path,
			log:  c.home.file(name + ".log"),
		},
	}, nil
}

// mountVolumes creates the volumes, waits for those that are not optional, and keeps them up to date.
func (v *Virtward) mountVolumes(ctx context.Context) error {
	reader := v.controlPlane.client
	for _, m := range v.mounts {
		for {
			ready, err := m.sync(ctx, reader)
			if err != nil {
				return err
			}
			if ready {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("what is to be mounted at %s does not exist: %w", m.mountPath, ctx.Err())
			case <-time.After(pollInterval):
			}
		}
	}
	background, cancel := context.WithCancel(context.Background())
	v.stopSync, v.synced = cancel, make(chan struct{})
	go func() {
		defer close(v.synced)
		v.keepMounted(background)
	}()
	return nil
}

func (v *Virtward) keepMounted(ctx context.Context) {
	ticker := time.NewTicker(syncInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			for _, m := range v.mounts {
				_, _ = m.sync(ctx, v.controlPlane.client) // the next round tries again, as a kubelet would
			}
		}
	}
}

// Start starts the process again after Kill or Stop, and waits until it is ready.
func (v *Virtward) Start(ctx context.Context) error {
	p, err := v.launch()
	if err != nil || v.ready == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	probe := prober()
	return p.await(ctx, func(ctx context.Context) error { return answersOK(ctx, probe, v.ready) })
}

// launch starts the process, and does not wait for it.
func (v *Virtward) launch() (*process, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.process != nil && v.process.running() {
		return nil, errors.New(v.command.name + " is running already")
	}
	p, err := v.controlPlane.starter.start(v.command)
	if err != nil {
		return nil, err
	}
	v.process, v.held, v.started, v.ended, v.delay = p, false, time.Now(), time.Time{}, 0
	return p, nil
}

// Kill ends the process at once, as a crash would. It stays down until Start.
func (v *Virtward) Kill() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held = true
	if v.process != nil {
		v.process.kill()
	}
}

// Stop ends the process as a kubelet would: SIGTERM first. It is an error if that does not suffice. It stays down until Start.
func (v *Virtward) Stop() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held = true
	if v.process == nil || !v.process.running() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return v.process.terminate(ctx)
}

// Restart stops the process in an orderly way and starts it again.
func (v *Virtward) Restart(ctx context.Context) error {
	return errors.Join(v.Stop(), v.Start(ctx))
}

// PID is the process id; 0 when it does not run.
func (v *Virtward) PID() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.process == nil || !v.process.running() {
		return 0
	}
	return v.process.cmd.Process.Pid
}

// Args are the arguments of the process, the Deployment's own and those added.
func (v *Virtward) Args() []string { return v.command.args }

// Log is the file with everything that the process wrote, over all its starts.
func (v *Virtward) Log() string { return v.command.log }

// end is for the control plane's Stop.
func (v *Virtward) end() {
	v.Kill()
	if v.stopSync != nil {
		v.stopSync()
		<-v.synced
	}
}
