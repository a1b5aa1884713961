package pods

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/conformance"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/platform"
)

// The values that the recording has instead of those that differ in each cluster.
const (
	recordedImage   = "registry.example/virt-launcher"
	recordedTimeout = "GENERATED"
	// recordedSuffix is that of the claim with the persistent state.
	recordedSuffix = "-x1"
)

// Case is an instance, and the pod that virt-controller rendered.
type Case struct {
	ID                  string         `json:"id"`
	Area                string         `json:"area"`
	KubeVirt            map[string]any `json:"kubevirt"`
	DefaultArchitecture string         `json:"defaultArchitecture"`
	Cluster             struct {
		NetworkAttachmentDefinitions []struct {
			Namespace    string `json:"namespace"`
			Name         string `json:"name"`
			ResourceName string `json:"resourceName"`
		} `json:"networkAttachmentDefinitions"`
		QuotaLimits       []string          `json:"quotaLimits"`
		NamespaceLabels   map[string]string `json:"namespaceLabels"`
		ConfigMaps        []string          `json:"configMaps"`
		BackendStoragePVC bool              `json:"backendStoragePVC"`
		NoPVCs            bool              `json:"noPVCs"`
	} `json:"cluster"`
	VMI                 *v1.VirtualMachineInstance `json:"vmi"`
	MemoryOverheadBytes int64                      `json:"memoryOverheadBytes"`
	Pod                 json.RawMessage            `json:"pod"`
	Error               string                     `json:"error"`
}

// Render makes the pod of the case.
func (c *Case) Render(registry *hypervisors.Registry) (*launcher.Result, error) {
	in, err := c.Input(registry)
	if err != nil {
		return nil, err
	}
	return launcher.Render(in)
}

// Input is the input of the launcher. An error is about the case.
func (c *Case) Input(registry *hypervisors.Registry) (*launcher.Input, error) {
	if c.VMI == nil {
		return nil, fmt.Errorf("no vmi")
	}
	facts := c.facts()
	renderer, err := registry.Launcher(facts.Hypervisor.Name, c.VMI.Spec.Architecture)
	if err != nil {
		return nil, err
	}
	return &launcher.Input{VMI: c.VMI, Facts: facts, Renderer: renderer, Cluster: c.cluster(), Image: recordedImage, QEMUTimeout: recordedTimeout}, nil
}

// facts are those of the recorded cluster. KubeVirt rejects an invalid configuration and keeps its last one: here, its defaults.
func (c *Case) facts() *platform.Facts {
	facts, err := platform.FromKubeVirt(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": map[string]any{"name": "kubevirt", "namespace": "kubevirt"},
		"spec": map[string]any{"configuration": c.KubeVirt},
	}}, platform.Settings{})
	if err != nil {
		facts = platform.Defaults(platform.Settings{})
	}
	if c.DefaultArchitecture != "" {
		facts = facts.WithDefaultArchitecture(c.DefaultArchitecture)
	}
	return facts
}

// cluster is the recorded cluster, in which everything is known.
func (c *Case) cluster() launcher.Cluster {
	state := ""
	cluster := launcher.Cluster{
		Claims: c.claims(), NetworkResources: map[string]string{}, ConfigMaps: append([]string{}, c.Cluster.ConfigMaps...),
		NamespaceLabels: map[string]string{}, Quotas: append([]string{}, c.Cluster.QuotaLimits...), StateClaim: &state,
	}
	maps.Copy(cluster.NamespaceLabels, c.Cluster.NamespaceLabels)
	for _, definition := range c.Cluster.NetworkAttachmentDefinitions {
		cluster.NetworkResources[definition.Namespace+"/"+definition.Name] = definition.ResourceName
	}
	if c.Cluster.BackendStoragePVC {
		state = "persistent-state-for-" + c.VMI.Name + recordedSuffix
	}
	return cluster
}

// claims are those that the volumes name, as the status of the instance describes them.
func (c *Case) claims() map[string]launcher.Claim {
	claims := map[string]launcher.Claim{}
	if c.Cluster.NoPVCs {
		return claims
	}
	for i := range c.VMI.Spec.Volumes {
		v := &c.VMI.Spec.Volumes[i]
		var name string
		switch {
		case v.PersistentVolumeClaim != nil:
			name = v.PersistentVolumeClaim.ClaimName
		case v.DataVolume != nil:
			name = v.DataVolume.Name
		case v.Ephemeral != nil && v.Ephemeral.PersistentVolumeClaim != nil:
			name = v.Ephemeral.PersistentVolumeClaim.ClaimName
		default:
			continue
		}
		claims[name] = launcher.Claim{}
		for j := range c.VMI.Status.VolumeStatus {
			status := &c.VMI.Status.VolumeStatus[j]
			if info := status.PersistentVolumeClaimInfo; status.Name == v.Name && info != nil {
				claims[name] = launcher.Claim{
					Block:  info.VolumeMode != nil && *info.VolumeMode == corev1.PersistentVolumeBlock,
					Shared: slices.Contains(info.AccessModes, corev1.ReadWriteMany),
				}
			}
		}
	}
	return claims
}

// Differences are those between the recorded pod and a rendered one; none if they are equal.
func (c *Case) Differences(result *launcher.Result, failure error) ([]string, error) {
	switch {
	case c.Error != "" && failure != nil:
		return nil, nil //nolint:nilerr // the failure is the answer
	case c.Error != "":
		return []string{"error: want " + c.Error + ", got a pod"}, nil
	case failure != nil:
		return []string{"error: want a pod, got " + failure.Error()}, nil //nolint:nilerr // the failure is the answer
	}
	want, err := canonical(c.Pod)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(result.Pod)
	if err != nil {
		return nil, fmt.Errorf("encoding the pod: %w", err)
	}
	got, err := canonical(data)
	if err != nil {
		return nil, err
	}
	all := conformance.Differences(want, got)
	if bytes := result.Overhead.Total.Value(); bytes != c.MemoryOverheadBytes {
		all = append(all, fmt.Sprintf("overhead: want %d, got %d", c.MemoryOverheadBytes, bytes))
	}
	return all, nil
}

// canonical is a pod with sorted sets, and quantities in one form.
func canonical(data []byte) (map[string]any, error) {
	var pod corev1.Pod
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&pod); err != nil {
		return nil, fmt.Errorf("reading the pod: %w", err)
	}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			container := &list[i]
			if err := errors.Join(decimal(container.Resources.Requests), decimal(container.Resources.Limits)); err != nil {
				return nil, err
			}
			slices.SortFunc(container.Env, func(a, b corev1.EnvVar) int { return strings.Compare(a.Name, b.Name) })
			slices.SortFunc(container.VolumeMounts, func(a, b corev1.VolumeMount) int {
				return strings.Compare(a.Name+" "+a.MountPath, b.Name+" "+b.MountPath)
			})
			slices.SortFunc(container.VolumeDevices, func(a, b corev1.VolumeDevice) int { return strings.Compare(a.Name, b.Name) })
		}
	}
	slices.SortFunc(pod.Spec.Volumes, func(a, b corev1.Volume) int { return strings.Compare(a.Name, b.Name) })
	sorted, err := json.Marshal(&pod)
	if err != nil {
		return nil, fmt.Errorf("encoding the pod: %w", err)
	}
	var value map[string]any
	if err := json.Unmarshal(sorted, &value); err != nil {
		return nil, fmt.Errorf("reading the pod: %w", err)
	}
	return value, nil
}

// decimal writes quantities in one form.
func decimal(list corev1.ResourceList) error {
	for name, amount := range list {
		same, err := resource.ParseQuantity(amount.AsDec().String())
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		list[name] = same
	}
	return nil
}
