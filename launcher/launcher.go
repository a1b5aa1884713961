package launcher

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
)

// Input is everything that decides which pod KubeVirt makes of an instance.
type Input struct {
	// VMI is the complete instance. Its status says which user runs the launcher: see Started.
	VMI *v1.VirtualMachineInstance
	// Facts of the cluster.
	Facts *platform.Facts
	// Renderer is that of the hypervisor and the architecture.
	Renderer ResourceRenderer
	// Cluster is what the pod depends on besides. What is not known of it is assumed.
	Cluster Cluster
	// Image of virt-launcher, and QEMUTimeout, to which KubeVirt adds a random delay; empty for the defaults.
	Image, QEMUTimeout string
	// Changes say which layer set which field of the instance, for the demands.
	Changes []provenance.Change
}

// Cluster is what the pod depends on besides the instance and KubeVirt's configuration. A field that is nil is not known; an
// empty one says that there is nothing.
type Cluster struct {
	// Claims of the namespace, by name.
	Claims map[string]Claim
	// NetworkResources are the device resources of NetworkAttachmentDefinitions, by NAMESPACE/NAME. A definition
	// without one has an empty resource.
	NetworkResources map[string]string
	// DeviceClaims are the names of the ResourceClaims of the namespace whose nodes are known.
	DeviceClaims map[string]bool
	// ConfigMaps are the names of those that exist in the namespace.
	ConfigMaps []string
	// StateClaim is the name of the claim with the persistent state of the virtual machine; empty if there is none.
	StateClaim *string
	// NamespaceLabels are the labels of the namespace.
	NamespaceLabels map[string]string
	// Quotas are the names of the resources that ResourceQuotas of the namespace limit, such as limits.memory.
	Quotas []string
}

// Claim is a PersistentVolumeClaim.
type Claim struct {
	UID           string
	Block, Shared bool
}

// Result is the pod, and what explains it.
type Result struct {
	// Pod shares memory with the instance. Do not change it.
	Pod *corev1.Pod
	// Overhead is the memory that KubeVirt adds to that of the guest.
	Overhead Overhead
	// Devices are those of the node that every launcher, or this one, needs.
	Devices []DeviceRequest
	// Demands are the properties that the pod demands of a node, in the order in which KubeVirt adds them.
	Demands []Demand
	// Remarks are about figures of KubeVirt that are odd, sorted by field.
	Remarks []Remark
	// Attachments are the NetworkAttachmentDefinitions that the pod needs.
	Attachments []Attachment
	// Assumptions say what was not known.
	Assumptions []string
}

// The bounds of what is rendered. An instance beyond them is rejected before anything is built.
const (
	// MaxVCPUs is more than any machine type supports.
	MaxVCPUs = 16384
	// MaxDevices bounds the sum of all lists of an instance that make something in the pod. An object of the largest size
	// that an API server stores can have more.
	MaxDevices = 4096
)

// ErrTooLarge is the error for an instance beyond the bounds.
var ErrTooLarge = errors.New("too large to preview")

// Render computes the pod. An error says why KubeVirt cannot render it either, or is ErrTooLarge.
func Render(in *Input) (*Result, error) {
	if err := bounded(&in.VMI.Spec); err != nil {
		return nil, err
	}
	s := newSubject(in)
	overhead := in.Renderer.GetMemoryOverhead(in.VMI, in.Facts)
	pod, err := s.render(&overhead)
	if err != nil {
		return nil, err
	}
	return &Result{
		Pod: pod, Overhead: overhead, Devices: in.Renderer.DeviceRequests(in.VMI, in.Facts), Demands: s.demands, Remarks: s.remarks(pod, &overhead), Attachments: s.attachments(),
		Assumptions: s.assumptions,
	}, nil
}

// Started is an instance with the status that KubeVirt gives it before it makes the pod.
func Started(vmi *v1.VirtualMachineInstance, facts *platform.Facts) *v1.VirtualMachineInstance {
	if vmi.Status.RuntimeUser != 0 || facts.GateEnabled("Root") {
		return vmi
	}
	started := *vmi
	started.Status.RuntimeUser = nonRootUser
	return &started
}

// bounded returns ErrTooLarge for an instance beyond the bounds.
func bounded(spec *v1.VirtualMachineInstanceSpec) error {
	if cpus := exactVCPUs(spec.Domain.CPU); cpus > MaxVCPUs {
		return fmt.Errorf("%w: %d vCPUs, at most %d", ErrTooLarge, cpus, MaxVCPUs)
	}
	if devices := Size(spec); devices > MaxDevices {
		return fmt.Errorf("%w: %d devices, volumes and networks, at most %d", ErrTooLarge, devices, MaxDevices)
	}
	return nil
}

// Size is the sum of all lists of an instance that make something in the pod.
func Size(spec *v1.VirtualMachineInstanceSpec) int {
	d := &spec.Domain.Devices
	devices := len(spec.Volumes) + len(spec.Networks) + len(spec.AccessCredentials) + len(spec.ResourceClaims) + len(spec.Tolerations) +
		len(spec.TopologySpreadConstraints) + len(d.Disks) + len(d.Interfaces) + len(d.GPUs) + len(d.HostDevices) + len(d.Filesystems)
	for i := range d.Interfaces {
		devices += len(d.Interfaces[i].Ports)
	}
	if cpu := spec.Domain.CPU; cpu != nil {
		devices += len(cpu.Features)
	}
	return devices
}

// subject is one rendering.
type subject struct {
	*Input
	spec  *v1.VirtualMachineInstanceSpec
	image string
	// nonRoot launchers run as qemu. guaranteed instances have requests that equal their limits.
	nonRoot, dedicated, guaranteed bool
	// imageVolumes mount container disks as volumes instead of copying them.
	imageVolumes bool
	verbosity    uint

	// disks are the container disks.
	disks []containerDisk

	demands     []Demand
	assumptions []string
}

func newSubject(in *Input) *subject {
	s := &subject{
		Input: in, spec: &in.VMI.Spec, image: in.Image,
		nonRoot: nonRoot(in.VMI), dedicated: in.VMI.IsCPUDedicated(), guaranteed: in.VMI.WantsToHaveQOSGuaranteed(),
		imageVolumes: in.Facts.GateEnabled("ImageVolume"), verbosity: defaultVerbosity, demands: make([]Demand, 0, 8),
	}
	s.disks = s.containerDisks()
	if logs := in.Facts.Configuration.DeveloperConfiguration.LogVerbosity; logs != nil && logs.VirtLauncher != 0 {
		s.verbosity = logs.VirtLauncher
	}
	if s.image == "" {
		s.image = "virt-launcher"
		s.assume("the image of virt-launcher has KubeVirt's name and version")
	}
	if in.Cluster.Quotas == nil {
		s.assume("the namespace has no ResourceQuota that limits memory or CPU")
	}
	return s
}

// assume notes what is not known.
func (s *subject) assume(text string) {
	if !slices.Contains(s.assumptions, text) {
		s.assumptions = append(s.assumptions, text)
	}
}

// nonRoot reports whether the launcher runs as qemu.
func nonRoot(vmi *v1.VirtualMachineInstance) bool {
	_, annotated := vmi.Annotations[v1.DeprecatedNonRootVMIAnnotation]
	return annotated || vmi.Status.RuntimeUser != 0
}

// render is the recipe of the pod.
func (s *subject) render(overhead *Overhead) (*corev1.Pod, error) {
	if err := s.permitted(); err != nil {
		return nil, err
	}
	networks, err := s.networkResources()
	if err != nil {
		return nil, err
	}
	resources, err := s.computeResources(overhead, networks)
	if err != nil {
		return nil, err
	}
	sidecars, err := s.sidecars()
	if err != nil {
		return nil, err
	}
	storage, err := s.volumes(sidecars)
	if err != nil {
		return nil, err
	}
	compute, err := s.computeContainer(storage, resources, len(sidecars))
	if err != nil {
		return nil, err
	}
	annotations, err := s.annotations(overhead)
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "virt-launcher-" + s.VMI.Name + "-",
			Labels:       s.labels(),
			Annotations:  annotations,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(s.VMI, v1.VirtualMachineInstanceGroupVersionKind),
			},
		},
		Spec: s.podSpec(),
	}
	pod.Spec.Containers = slices.Concat([]corev1.Container{compute}, s.diskContainers(), s.virtiofsContainers(), s.sidecarContainers(sidecars))
	pod.Spec.InitContainers = s.initContainers()
	pod.Spec.Volumes = storage.volumes
	s.selinux(&pod.Spec)
	s.schedule(pod, storage)
	return pod, nil
}
