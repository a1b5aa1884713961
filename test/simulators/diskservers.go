package simulators

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/ovf/servers"
	"github.com/virtward/virtward/test/controlplane"
)

// diskServers simulates nodes for the pods of a kind: it runs the program of each pod with the files of its Secret, at an address of its own.
type diskServers struct {
	controlPlane *controlplane.ControlPlane
	kind         *servers.Kind
	program, dir string
	// mount writes the volumes of a pod below a folder, and returns what replaces texts in its files. It may be nil.
	mount func(ctx context.Context, pod *corev1.Pod, folder string) (map[string]string, error)

	state  sync.Mutex
	pods   map[types.UID]*diskServer
	faults []string
}

// diskServer is a pod that runs on this machine.
type diskServer struct {
	name, address string
	stop          context.CancelFunc
	done          chan struct{}
}

func newDiskServers(c *controlplane.ControlPlane, kind *servers.Kind, program, dir string) diskServers {
	return diskServers{controlPlane: c, kind: kind, program: program, dir: dir, pods: map[types.UID]*diskServer{}}
}

// repeat simulates the nodes, and others, until the context ends.
func (d *diskServers) repeat(ctx context.Context, others ...func(context.Context) error) {
	for ctx.Err() == nil {
		err := d.nodes(ctx)
		for _, do := range others {
			err = errors.Join(err, do(ctx))
		}
		if err != nil && ctx.Err() == nil {
			d.fault(err)
		}
		pause(ctx, poll, nil)
	}
}

func (d *diskServers) fault(err error) {
	d.state.Lock()
	defer d.state.Unlock()
	if len(d.faults) < 20 {
		d.faults = append(d.faults, err.Error())
	}
}

// Faults are the errors so far.
func (d *diskServers) Faults() []string {
	d.state.Lock()
	defer d.state.Unlock()
	return append([]string{}, d.faults...)
}

// Address is where the pod with the objects of a name listens; empty before it runs.
func (d *diskServers) Address(name string) string {
	d.state.Lock()
	defer d.state.Unlock()
	for _, p := range d.pods {
		if p != nil && p.name == name {
			return p.address
		}
	}
	return ""
}

// nodes runs the programs of pods, and ends those of pods that are deleted.
func (d *diskServers) nodes(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := d.controlPlane.Client().List(ctx, pods, client.HasLabels{d.kind.Label}); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	there := map[types.UID]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		there[pod.UID] = pod.DeletionTimestamp == nil
		if d.pods[pod.UID] == nil && pod.DeletionTimestamp == nil {
			if err := d.start(ctx, pod); err != nil {
				return err
			}
		}
		if pod.DeletionTimestamp != nil { // as a kubelet does after the containers have ended
			if err := client.IgnoreNotFound(d.controlPlane.Client().Delete(ctx, pod, client.GracePeriodSeconds(0))); err != nil {
				return fmt.Errorf("deleting a pod: %w", err)
			}
		}
	}
	d.state.Lock()
	defer d.state.Unlock()
	for uid, running := range d.pods {
		if running != nil && !there[uid] {
			running.stop()
			<-running.done
			d.pods[uid] = nil
		}
	}
	return nil
}

// start runs the program of a pod once its Secret exists.
func (d *diskServers) start(ctx context.Context, pod *corev1.Pod) error {
	secret := &corev1.Secret{}
	err := d.controlPlane.Client().Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: pod.Spec.Volumes[0].Secret.SecretName}, secret)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	folder := filepath.Join(d.dir, string(pod.UID))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	replaced := map[string]string{}
	if d.mount != nil {
		if replaced, err = d.mount(ctx, pod, folder); err != nil {
			return err
		}
	}
	replaced[d.kind.Folder] = folder
	for name, content := range secret.Data {
		for old, text := range replaced {
			content = bytes.ReplaceAll(content, []byte(old), []byte(text))
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return err
		}
	}
	port, err := d.controlPlane.TakePort()
	if err != nil {
		return err
	}
	// An address of its own for each pod, which no other one of this machine has: the port is taken.
	ip := fmt.Sprintf("127.%d.%d.1", port>>8, port&0xff)
	running, cancel := context.WithCancel(ctx)
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		cancel()
		return err
	}
	address := net.JoinHostPort(ip, strconv.Itoa(servers.Port))
	command := exec.CommandContext(running, d.program, "--plan="+filepath.Join(folder, "plan.json"), "--address="+address)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		cancel()
		return fmt.Errorf("starting %s: %w", d.program, err)
	}
	p := &diskServer{name: secret.Name, address: address, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer log.Close()
		err := command.Wait()
		switch {
		case running.Err() != nil:
		case err == nil:
			d.succeeded(running, pod)
		default:
			written, _ := os.ReadFile(log.Name())
			d.fault(fmt.Errorf("%s ended: %w\n%s", d.program, err, written))
		}
	}()
	d.state.Lock()
	d.pods[pod.UID] = p
	d.state.Unlock()
	shown := pod.DeepCopy()
	shown.Status.Phase, shown.Status.PodIP, shown.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
	shown.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "server", Ready: true, Image: pod.Spec.Containers[0].Image, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	return client.IgnoreNotFound(d.controlPlane.Client().Status().Update(ctx, shown))
}

// succeeded says that the program of a pod has ended without an error, as a kubelet does.
func (d *diskServers) succeeded(ctx context.Context, pod *corev1.Pod) {
	for ctx.Err() == nil {
		ended := &corev1.Pod{}
		err := d.controlPlane.Client().Get(ctx, client.ObjectKeyFromObject(pod), ended)
		if err == nil && ended.UID == pod.UID {
			ended.Status.Phase, ended.Status.ContainerStatuses = corev1.PodSucceeded, nil
			err = d.controlPlane.Client().Status().Update(ctx, ended)
		}
		if err == nil || apierrors.IsNotFound(err) {
			return
		}
		pause(ctx, poll, nil)
	}
}
