package simulators

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/ovf/imports"
	"github.com/virtward/virtward/test/controlplane"
)

// Appliances simulates what nodes and CDI's importers do for imports of appliances: it runs the program of each pod that serves disks, with
// the files of its Secret, and reads the disks from it as the DataVolumes say.
type Appliances struct {
	diskServers

	mu sync.Mutex
	// claims are the folders of claims, by NAMESPACE/NAME.
	claims map[string]string
	// disks are the contents that were read, by the names of the DataVolumes.
	disks map[string][]byte
}

// StartAppliances runs the simulation until the context ends. The program is virtward-import-server.
func StartAppliances(ctx context.Context, c *controlplane.ControlPlane, program, dir string) *Appliances {
	a := &Appliances{diskServers: newDiskServers(c, &imports.Servers, program, dir), disks: map[string][]byte{}, claims: map[string]string{}}
	a.mount = a.volumes
	go a.repeat(ctx, a.importers)
	return a
}

// Claim makes a folder the content of a claim. A claim of a block device has one file.
func (a *Appliances) Claim(claim client.ObjectKey, folder string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.claims[claim.String()] = folder
}

// volumes mounts the credentials and the claim of a pod.
func (a *Appliances) volumes(ctx context.Context, pod *corev1.Pod, folder string) (map[string]string, error) {
	replaced, err := a.mountCredentials(ctx, pod, folder)
	if err != nil {
		return nil, err
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.PersistentVolumeClaim == nil {
			continue
		}
		a.mu.Lock()
		content, has := a.claims[pod.Namespace+"/"+v.PersistentVolumeClaim.ClaimName]
		a.mu.Unlock()
		if copied := v.PersistentVolumeClaim.ClaimName == pod.Name; copied { // CDI has created an empty disk in it
			content, has = filepath.Join(a.dir, pod.Name), true
			if err := os.MkdirAll(content, 0o700); err != nil {
				return nil, err
			}
		} else if !v.PersistentVolumeClaim.ReadOnly {
			has = false
		}
		if !has {
			return nil, fmt.Errorf("the simulation has no claim %q, or it is not mounted read-only", v.PersistentVolumeClaim.ClaimName)
		}
		for _, m := range pod.Spec.Containers[0].VolumeMounts {
			if m.Name == v.Name {
				replaced[m.MountPath] = content
			}
		}
		for _, d := range pod.Spec.Containers[0].VolumeDevices {
			files, err := filepath.Glob(filepath.Join(content, "*"))
			if err != nil || len(files) != 1 {
				return nil, fmt.Errorf("the block device %q is not one file: %w", content, err)
			}
			replaced[d.DevicePath] = files[0]
		}
	}
	return replaced, nil
}

// mountCredentials writes the keys of the Secret with the credentials.
func (a *Appliances) mountCredentials(ctx context.Context, pod *corev1.Pod, folder string) (map[string]string, error) {
	replaced := map[string]string{}
	for _, mounted := range pod.Spec.Containers[0].VolumeMounts {
		at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mounted.Name && v.Secret != nil })
		if at <= 0 { // the first one has the plan
			continue
		}
		source, secret := pod.Spec.Volumes[at].Secret, &corev1.Secret{}
		if err := a.controlPlane.Client().Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: source.SecretName}, secret); err != nil {
			return nil, err
		}
		to := filepath.Join(folder, mounted.Name)
		if err := os.MkdirAll(to, 0o700); err != nil {
			return nil, err
		}
		for _, item := range source.Items {
			if err := os.WriteFile(filepath.Join(to, item.Path), secret.Data[item.Key], 0o600); err != nil {
				return nil, err
			}
		}
		replaced[mounted.MountPath] = to
	}
	return replaced, nil
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
	address := a.Address(source.CertConfigMap)
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
	if head.ContentLength < 512 || head.Header.Get("Accept-Ranges") == "" { // with none, CDI reads the disk from its start only
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
