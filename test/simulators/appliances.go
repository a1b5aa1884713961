package simulators

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/test/controlplane"
)

// Appliances simulates what nodes and CDI's importers do for imports of appliances: it runs the program of each pod that serves disks, with
// the files of its Secret, and reads the disks from it as the DataVolumes say.
type Appliances struct {
	controlPlane *controlplane.ControlPlane
	program, dir string

	mu   sync.Mutex
	pods map[types.UID]*appliancePod
	// disks are the contents that were read, by the names of the DataVolumes.
	disks  map[string][]byte
	faults []string
}

// appliancePod is a pod that runs on this machine.
type appliancePod struct {
	name, address string
	stop          context.CancelFunc
	done          chan struct{}
}

// servingFolder is the folder of the Secret in the pod.
const servingFolder = "/import/serving"

// StartAppliances runs the simulation until the context ends. The program is virtward-import-server.
func StartAppliances(ctx context.Context, c *controlplane.ControlPlane, program, dir string) *Appliances {
	a := &Appliances{controlPlane: c, program: program, dir: dir, pods: map[types.UID]*appliancePod{}, disks: map[string][]byte{}}
	go func() {
		for ctx.Err() == nil {
			if err := errors.Join(a.nodes(ctx), a.importers(ctx)); err != nil && ctx.Err() == nil {
				a.fault(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(poll):
			}
		}
	}()
	return a
}

func (a *Appliances) fault(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.faults) < 20 {
		a.faults = append(a.faults, err.Error())
	}
}

// Faults are the errors so far.
func (a *Appliances) Faults() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string{}, a.faults...)
}

// Disk is what was read for a DataVolume; nil before it was.
func (a *Appliances) Disk(name string) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.disks[name]
}

// Verdict makes the simulation of CDI wait until the disk of a DataVolume was read.
func (a *Appliances) Verdict(object client.Object) Verdict {
	volume, is := object.(*cdiv1beta1.DataVolume)
	if !is || volume.Spec.Source == nil || volume.Spec.Source.HTTP == nil {
		return Verdict{}
	}
	return Verdict{Wait: a.Disk(volume.Name) == nil}
}

// nodes runs the programs of pods, and ends those of pods that are deleted.
func (a *Appliances) nodes(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := a.controlPlane.Client().List(ctx, pods, client.HasLabels{v1beta1.LabelImportUID}); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	there := map[types.UID]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		there[pod.UID] = pod.DeletionTimestamp == nil
		if a.pods[pod.UID] == nil && pod.DeletionTimestamp == nil {
			if err := a.start(ctx, pod); err != nil {
				return err
			}
		}
		if pod.DeletionTimestamp != nil { // as a kubelet does after the containers have ended
			if err := client.IgnoreNotFound(a.controlPlane.Client().Delete(ctx, pod, client.GracePeriodSeconds(0))); err != nil {
				return fmt.Errorf("deleting a pod: %w", err)
			}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for uid, running := range a.pods {
		if running != nil && !there[uid] {
			running.stop()
			<-running.done
			a.pods[uid] = nil
		}
	}
	return nil
}

// start runs the program of a pod once its Secret exists.
func (a *Appliances) start(ctx context.Context, pod *corev1.Pod) error {
	secret := &corev1.Secret{}
	err := a.controlPlane.Client().Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: pod.Spec.Volumes[0].Secret.SecretName}, secret)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	folder := filepath.Join(a.dir, string(pod.UID))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	for name, content := range secret.Data {
		content = bytes.ReplaceAll(content, []byte(servingFolder), []byte(folder))
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return err
		}
	}
	port, err := a.controlPlane.TakePort()
	if err != nil {
		return err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	running, cancel := context.WithCancel(ctx)
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		cancel()
		return err
	}
	command := exec.CommandContext(running, a.program, "--plan="+filepath.Join(folder, "plan.json"), "--address="+address)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		cancel()
		return fmt.Errorf("starting %s: %w", a.program, err)
	}
	p := &appliancePod{name: secret.Name, address: address, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer log.Close()
		if err := command.Wait(); err != nil && running.Err() == nil {
			written, _ := os.ReadFile(log.Name())
			a.fault(fmt.Errorf("%s ended: %w\n%s", a.program, err, written))
		}
	}()
	a.mu.Lock()
	a.pods[pod.UID] = p
	a.mu.Unlock()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "server", Ready: true, Image: pod.Spec.Containers[0].Image, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	return client.IgnoreNotFound(a.controlPlane.Client().Status().Update(ctx, pod))
}

// importers read the disks of DataVolumes.
func (a *Appliances) importers(ctx context.Context) error {
	volumes := &cdiv1beta1.DataVolumeList{}
	if err := a.controlPlane.Client().List(ctx, volumes, client.HasLabels{v1beta1.LabelImportUID}); err != nil {
		return fmt.Errorf("listing DataVolumes: %w", err)
	}
	var errs []error
	for i := range volumes.Items {
		v := &volumes.Items[i]
		if v.Spec.Source == nil || v.Spec.Source.HTTP == nil || a.Disk(v.Name) != nil || v.DeletionTimestamp != nil {
			continue
		}
		content, err := a.read(ctx, v)
		if err != nil {
			errs = append(errs, fmt.Errorf("importing DataVolume %s: %w", v.Name, err))
			continue
		}
		a.mu.Lock()
		a.disks[v.Name] = content
		a.mu.Unlock()
	}
	return errors.Join(errs...)
}

// addressOf is where the pod with the objects of a name listens; empty before it runs.
func (a *Appliances) addressOf(name string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.pods {
		if p != nil && p.name == name {
			return p.address
		}
	}
	return ""
}

// read reads the source of a DataVolume as CDI's importer does: it sends the headers of the Secrets, and trusts the ConfigMap only.
func (a *Appliances) read(ctx context.Context, v *cdiv1beta1.DataVolume) ([]byte, error) {
	source := v.Spec.Source.HTTP
	authority := &corev1.ConfigMap{}
	if err := a.controlPlane.Client().Get(ctx, client.ObjectKey{Namespace: v.Namespace, Name: source.CertConfigMap}, authority); err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(authority.Data["tls.crt"])) {
		return nil, errors.New("the ConfigMap has no certificate")
	}
	address := a.addressOf(source.CertConfigMap)
	dialer := &net.Dialer{Timeout: time.Second}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, address) // as the DNS of the cluster and the Service lead to it
	}}
	defer transport.CloseIdleConnections()
	head, err := a.request(ctx, transport, http.MethodHead, v)
	if err != nil {
		return nil, err
	}
	_ = head.Body.Close()
	if head.ContentLength < 512 || head.Header.Get("Accept-Ranges") != "bytes" {
		return nil, fmt.Errorf("HEAD answers %d bytes, Accept-Ranges %q", head.ContentLength, head.Header.Get("Accept-Ranges"))
	}
	got, err := a.request(ctx, transport, http.MethodGet, v)
	if err != nil {
		return nil, err
	}
	defer got.Body.Close()
	return io.ReadAll(got.Body)
}

func (a *Appliances) request(ctx context.Context, transport *http.Transport, method string, v *cdiv1beta1.DataVolume) (*http.Response, error) {
	source := v.Spec.Source.HTTP
	request, err := http.NewRequestWithContext(ctx, method, source.URL, nil)
	if err != nil {
		return nil, err
	}
	for _, name := range source.SecretExtraHeaders {
		secret := &corev1.Secret{}
		if err := a.controlPlane.Client().Get(ctx, client.ObjectKey{Namespace: v.Namespace, Name: name}, secret); err != nil {
			return nil, err
		}
		for _, line := range secret.Data {
			key, value, _ := strings.Cut(string(line), ":")
			request.Header.Set(key, strings.TrimSpace(value))
		}
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s answers %s", method, response.Status)
	}
	return response, nil
}
