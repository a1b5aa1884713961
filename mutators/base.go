package mutators

import (
	"strings"

	k8sv1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/provenance"
)

// BaseLayer is the name of the least specific layer.
const BaseLayer = "base"

// Base is what holds for every hypervisor and architecture.
func Base() Layer {
	return Layer{
		Name: BaseLayer,
		Steps: []Step{
			{Name: "architecture", Writes: []string{"architecture"}, OnVM: true, BeforeStart: true, Fill: architecture},
			{Name: "resource-requests", Writes: []string{"domain.resources.requests"}, BeforeStart: true, Fill: resourceRequests},
			{Name: "guest-memory", Writes: []string{"domain.memory.guest"}, BeforeStart: true, Fill: guestMemory},
			{Name: "cpu-topology", Writes: []string{"domain.cpu.sockets", "domain.cpu.cores", "domain.cpu.threads"}, BeforeStart: true, Fill: cpuTopology},
			{Name: "cpu-model", Writes: []string{"domain.cpu.model"}, Fill: ClusterCPUModel},
			{Name: "image-pull-policy", Writes: []string{"volumes[*].containerDisk.imagePullPolicy"}, BeforeStart: true, Fill: imagePullPolicy},
			{Name: "eviction-strategy", Writes: []string{"evictionStrategy"}, BeforeStart: true, Fill: evictionStrategy},
			{Name: "pod-network", Writes: []string{"networks", "domain.devices.interfaces"}, BeforeStart: true, Fill: podNetwork},
			{Name: "volume-disks", Writes: []string{"domain.devices.disks[*].name"}, BeforeStart: true, Fill: volumeDisks},
			{Name: "cdrom-trays", Writes: []string{"domain.devices.disks[*].cdrom.readonly", "domain.devices.disks[*].cdrom.tray"}, Fill: cdromTrays},
			{Name: "block-sizes", Writes: []string{"domain.devices.disks[*].blockSize.matchVolume.enabled"}, Fill: blockSizes},
			{Name: "inputs", Writes: []string{"domain.devices.inputs[*].bus", "domain.devices.inputs[*].type"}, Fill: inputs},
			{Name: "gpu-displays", Writes: []string{"domain.devices.gpus[*].virtualGPUOptions.display.ramFB.enabled"}, Fill: gpuDisplays},
			{Name: "probes", Writes: []string{"livenessProbe", "readinessProbe"}, Fill: probes},
			{Name: "clock-timers", Writes: []string{"domain.clock.timer"}, Fill: clockTimers},
			{Name: "acpi", Writes: []string{"domain.features.acpi.enabled"}, Fill: acpi(true)},
			{Name: "features", Writes: []string{"domain.features.apic.enabled", "domain.features.smm.enabled", "domain.features.pvspinlock.enabled"}, Fill: features},
		},
		Finalize: []Step{
			{Name: "hyperv-features", Writes: []string{"domain.features.hyperv"}, Fill: hypervFeatures},
			{Name: "hyperv-evmcs-cpu", Writes: []string{"domain.cpu.features"}, Fill: evmcsCPUFeature},
			{Name: "max-sockets", Writes: []string{"domain.cpu.maxSockets"}, Fill: maxSockets},
			{Name: "max-guest", Writes: []string{"domain.memory.maxGuest"}, Fill: maxGuest},
			{Name: "cpu-topology-status", Writes: []string{"status.currentCPUTopology"}, Fill: cpuTopologyStatus},
			{Name: "memory-status", Writes: []string{"status.memory"}, Fill: memoryStatus},
		},
	}
}

func architecture(c *Completion) {
	provenance.Fill(c.Recorder, "architecture", &c.Spec.Architecture, c.Facts.DefaultArchitecture)
}

// machineType is a step of every architecture.
func machineType(arch string) func(*Completion) {
	return func(c *Completion) {
		if m := c.Facts.MachineType(arch); m != "" {
			provenance.Fill(c.Recorder, "domain.machine.type", &provenance.Ensure(&c.Spec.Domain.Machine).Type, m)
		}
	}
}

// resourceRequests lets the CPU request follow the CPU limit, and applies the cluster's cpuRequest to VMs
// that do not have CPUs of their own. Requests for memory are left to virt-controller, which knows the
// overhead of the pod.
func resourceRequests(c *Completion) {
	resources := &c.Spec.Domain.Resources
	request, requested := resources.Requests[k8sv1.ResourceCPU]
	limit := resources.Limits[k8sv1.ResourceCPU]
	switch cpu := c.Spec.Domain.CPU; {
	case !limit.IsZero() && request.IsZero():
		setRequest(c, k8sv1.ResourceCPU, limit)
	case requested || c.Facts.CPURequest == nil:
	case cpu != nil && cpu.DedicatedCPUPlacement:
	default:
		setRequest(c, k8sv1.ResourceCPU, c.Facts.CPURequest.DeepCopy())
	}
}

func setRequest(c *Completion, name k8sv1.ResourceName, quantity resource.Quantity) {
	resources := &c.Spec.Domain.Resources
	if resources.Requests == nil {
		resources.Requests = k8sv1.ResourceList{}
	}
	resources.Requests[name] = quantity
	c.Recorder.Record(fieldpath.Keyed("domain.resources.requests", string(name)), quantity)
}

// guestMemory takes the guest's memory from the pod's request, its limit, or one huge page.
func guestMemory(c *Completion) {
	memory := provenance.Ensure(&c.Spec.Domain.Memory)
	if memory.Guest != nil {
		return
	}
	resources := &c.Spec.Domain.Resources
	request, limit := resources.Requests[k8sv1.ResourceMemory], resources.Limits[k8sv1.ResourceMemory]
	switch {
	case !request.IsZero():
		provenance.FillPointer(c.Recorder, "domain.memory.guest", &memory.Guest, request)
	case !limit.IsZero():
		provenance.FillPointer(c.Recorder, "domain.memory.guest", &memory.Guest, limit)
	case memory.Hugepages != nil && decode.Parsable(memory.Hugepages.PageSize):
		if page, err := resource.ParseQuantity(memory.Hugepages.PageSize); err == nil {
			provenance.FillPointer(c.Recorder, "domain.memory.guest", &memory.Guest, page)
		}
	}
}

// cpuTopology spreads the pod's CPUs over sockets, which can be hot-plugged, where the author gave no topology.
func cpuTopology(c *Completion) {
	cpu := provenance.Ensure(&c.Spec.Domain.CPU)
	if cpu.Sockets != 0 || cpu.Cores != 0 || cpu.Threads != 0 {
		return
	}
	sockets := uint32(1)
	resources := &c.Spec.Domain.Resources
	if limit, ok := resources.Limits[k8sv1.ResourceCPU]; ok {
		sockets = wholeCPUs(limit)
	} else if request, ok := resources.Requests[k8sv1.ResourceCPU]; ok {
		sockets = wholeCPUs(request)
	}
	provenance.Fill(c.Recorder, "domain.cpu.sockets", &cpu.Sockets, sockets)
	provenance.Fill(c.Recorder, "domain.cpu.cores", &cpu.Cores, 1)
	provenance.Fill(c.Recorder, "domain.cpu.threads", &cpu.Threads, 1)
}

// wholeCPUs rounds up. What does not fit is left for the checks to reject.
func wholeCPUs(q resource.Quantity) uint32 { return uint32(q.Value()) } //nolint:gosec // truncated as KubeVirt does

// ClusterCPUModel is the step of the base layer: the cluster's model, else host-model.
func ClusterCPUModel(c *Completion) {
	model := c.Facts.CPUModel
	if model == "" {
		model = v1.DefaultCPUModel
	}
	fillCPUModel(c, model)
}

func fillCPUModel(c *Completion, model string) {
	provenance.Fill(c.Recorder, "domain.cpu.model", &provenance.Ensure(&c.Spec.Domain.CPU).Model, model)
}

// imagePullPolicy follows the rule for containers: a moving tag is pulled always, a fixed one if it is absent.
func imagePullPolicy(c *Completion) {
	for i := range c.Spec.Volumes {
		disk := c.Spec.Volumes[i].ContainerDisk
		if disk == nil || disk.ImagePullPolicy != "" {
			continue
		}
		policy := k8sv1.PullIfNotPresent
		if strings.HasSuffix(disk.Image, ":latest") || !strings.ContainsAny(disk.Image, ":@") {
			policy = k8sv1.PullAlways
		}
		provenance.Fill(c.Recorder, fieldpath.Indexed("volumes", i, "containerDisk.imagePullPolicy"), &disk.ImagePullPolicy, policy)
	}
}

func evictionStrategy(c *Completion) {
	if s := c.Facts.EvictionStrategy; s != nil {
		provenance.FillPointer(c.Recorder, "evictionStrategy", &c.Spec.EvictionStrategy, *s)
	}
}

// podNetwork connects a VM that names no network at all to the pod network.
func podNetwork(c *Completion) {
	devices := &c.Spec.Domain.Devices
	if auto := devices.AutoattachPodInterface; auto != nil && !*auto {
		return
	}
	if len(c.Spec.Networks) != 0 || len(devices.Interfaces) != 0 {
		return
	}
	switch c.Facts.NetworkInterface {
	case v1.BridgeInterface:
		if !c.Facts.PermitBridge {
			c.Reject("domain.devices.interfaces", string(v1.BridgeInterface), "the cluster's default interface is a bridge, which it does not permit on the pod network: name the interfaces and networks of this VM")
			return
		}
		devices.Interfaces = []v1.Interface{*v1.DefaultBridgeNetworkInterface()}
	case v1.MasqueradeInterface:
		devices.Interfaces = []v1.Interface{*v1.DefaultMasqueradeNetworkInterface()}
	default:
		c.Reject("domain.devices.interfaces", string(c.Facts.NetworkInterface), "the cluster's default interface is of a kind that KubeVirt no longer has: name the interfaces and networks of this VM")
		return
	}
	c.Recorder.Record("domain.devices.interfaces", devices.Interfaces)
	c.Spec.Networks = []v1.Network{*v1.DefaultPodNetwork()}
	c.Recorder.Record("networks", c.Spec.Networks)
}

// disks is the path of the disks in a spec.
const disks = "domain.devices.disks"

// volumeDisks adds a disk for every volume that no disk or filesystem shows to the guest.
func volumeDisks(c *Completion) {
	devices := &c.Spec.Domain.Devices
	shown := shownVolumes(devices)
	for i := range c.Spec.Volumes {
		name := c.Spec.Volumes[i].Name
		if shown[name] {
			continue
		}
		shown[name] = true
		devices.Disks = append(devices.Disks, v1.Disk{Name: name})
		n := len(devices.Disks) - 1
		c.Recorder.Record(fieldpath.Indexed(disks, n, "name"), name)
	}
}

// shownVolumes are the names under which disks and filesystems show volumes to the guest. A set, because an
// object has room for tens of thousands of volumes.
func shownVolumes(devices *v1.Devices) map[string]bool {
	shown := make(map[string]bool, len(devices.Disks)+len(devices.Filesystems))
	for i := range devices.Disks {
		shown[devices.Disks[i].Name] = true
	}
	for i := range devices.Filesystems {
		shown[devices.Filesystems[i].Name] = true
	}
	return shown
}

// cdromTrays closes the trays of CD-ROM drives and makes them read-only.
func cdromTrays(c *Completion) {
	for i := range c.Spec.Domain.Devices.Disks {
		cdrom := c.Spec.Domain.Devices.Disks[i].CDRom
		if cdrom == nil {
			continue
		}
		provenance.FillPointer(c.Recorder, fieldpath.Indexed(disks, i, "cdrom.readonly"), &cdrom.ReadOnly, true)
		provenance.Fill(c.Recorder, fieldpath.Indexed(disks, i, "cdrom.tray"), &cdrom.Tray, v1.TrayStateClosed)
	}
}

func blockSizes(c *Completion) {
	for i := range c.Spec.Domain.Devices.Disks {
		size := c.Spec.Domain.Devices.Disks[i].BlockSize
		if size == nil || size.MatchVolume == nil {
			continue
		}
		provenance.FillPointer(c.Recorder, fieldpath.Indexed(disks, i, "blockSize.matchVolume.enabled"), &size.MatchVolume.Enabled, true)
	}
}

func inputs(c *Completion) {
	for i := range c.Spec.Domain.Devices.Inputs {
		input := &c.Spec.Domain.Devices.Inputs[i]
		provenance.Fill(c.Recorder, fieldpath.Indexed("domain.devices.inputs", i, "bus"), &input.Bus, v1.InputBusUSB)
		provenance.Fill(c.Recorder, fieldpath.Indexed("domain.devices.inputs", i, "type"), &input.Type, v1.InputTypeTablet)
	}
}

func gpuDisplays(c *Completion) {
	for i := range c.Spec.Domain.Devices.GPUs {
		options := c.Spec.Domain.Devices.GPUs[i].VirtualGPUOptions
		if options == nil || options.Display == nil || options.Display.RamFB == nil {
			continue
		}
		provenance.FillPointer(c.Recorder, fieldpath.Indexed("domain.devices.gpus", i, "virtualGPUOptions.display.ramFB.enabled"), &options.Display.RamFB.Enabled, true)
	}
}

func probes(c *Completion) {
	probe(c, "livenessProbe", c.Spec.LivenessProbe)
	probe(c, "readinessProbe", c.Spec.ReadinessProbe)
}

// probe fills Kubernetes' defaults for probes, in seconds and counts. Like KubeVirt, which runs after us, it
// takes what is below the minimum of 1 for not set.
func probe(c *Completion, path string, p *v1.Probe) {
	if p == nil {
		return
	}
	for _, f := range []struct {
		name  string
		field *int32
		value int32
	}{
		{"timeoutSeconds", &p.TimeoutSeconds, 1},
		{"periodSeconds", &p.PeriodSeconds, 10},
		{"successThreshold", &p.SuccessThreshold, 1},
		{"failureThreshold", &p.FailureThreshold, 3},
	} {
		if *f.field < 1 {
			*f.field = f.value
			c.Recorder.Record(path+"."+f.name, f.value)
		}
	}
}
