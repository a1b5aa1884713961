package launcher

import (
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/platform"
)

const (
	mebibyte = 1 << 20
	gibibyte = 1 << 30
)

// ResourceRenderer is what a hypervisor contributes to the pod (VEP 97's VirtLauncherResourceRenderer).
type ResourceRenderer interface {
	// GetMemoryOverhead is the memory that the pod needs besides that of the guest.
	GetMemoryOverhead(vmi *v1.VirtualMachineInstance, facts *platform.Facts) Overhead
	// DeviceRequests are the devices of the node that the pod requests. A hypervisor can request several, and optional ones.
	DeviceRequests(vmi *v1.VirtualMachineInstance, facts *platform.Facts) []DeviceRequest
	// Devices are the devices that some instance requests. Labels of nodes are about them.
	Devices(facts *platform.Facts) []DeviceRequest
}

// Overhead is the memory that the pod needs besides that of the guest.
type Overhead struct {
	// Components are those with an amount, in the order of the table. Ratio is the cluster's multiplication of all of them but
	// those of networks.
	Components []Amount
	// Total is what KubeVirt adds, in bytes.
	Total resource.Quantity
}

// Amount is the memory of a component.
type Amount struct {
	Component
	Amount resource.Quantity
}

// Component is a row of the table of overheads.
type Component struct {
	// Name identifies it. A row of the same name in a more specific layer replaces it; one without a function removes it.
	Name string
	// Title is its name for people.
	Title string
	// Field is what it depends on; empty if it is constant.
	Field string
	// Of returns the amount; zero if the instance has no such component.
	Of func(vmi *v1.VirtualMachineInstance, facts *platform.Facts) resource.Quantity
}

// BaseRenderer renders what hypervisors have in common. A hypervisor embeds it, and replaces rows.
type BaseRenderer struct {
	components []Component
	devices    []Device
}

// Layer is what a hypervisor or an architecture adds to the tables, or replaces there.
type Layer struct {
	Components []Component
	Devices    []Device
}

// NewBaseRenderer returns the renderer of an architecture, with the layers of a hypervisor.
func NewBaseRenderer(architecture string, layers ...Layer) *BaseRenderer {
	r := &BaseRenderer{components: Components(), devices: Devices()}
	if architecture == architectures.ARM64 {
		layers = slices.Insert(layers, 0, Layer{Components: []Component{firmwareOfARM64}})
	}
	for _, layer := range layers {
		r.components = merged(r.components, layer.Components, func(c *Component) (string, bool) { return c.Name, c.Of != nil })
		r.devices = merged(r.devices, layer.Devices, func(d *Device) (string, bool) { return d.Name, d.Requested != nil })
	}
	return r
}

// merged replaces rows of the same name, removes those without a function, and appends the others.
func merged[R any](rows, layer []R, describe func(*R) (name string, used bool)) []R {
	for i := range layer {
		name, used := describe(&layer[i])
		at := slices.IndexFunc(rows, func(row R) bool { known, _ := describe(&row); return known == name })
		switch {
		case at < 0 && used:
			rows = append(rows, layer[i])
		case at >= 0 && used:
			rows[at] = layer[i]
		case at >= 0:
			rows = slices.Delete(rows, at, at+1)
		}
	}
	return rows
}

// Components are the rows that all hypervisors have in common.
func Components() []Component {
	return []Component{
		{Name: "page-tables", Title: "page tables, 1/512 of requests.memory", Field: "spec.domain.resources.requests.memory", Of: pageTables},
		{Name: "processes", Title: "launcher, libvirt and QEMU", Of: processes},
		{Name: "vcpus", Title: "8Mi for each vCPU", Field: "spec.domain.cpu", Of: vcpuTables},
		{Name: "io-thread", Title: "I/O thread", Of: always(8 * mebibyte)},
		{Name: "graphics", Title: "graphics device", Field: "spec.domain.devices.autoattachGraphicsDevice", Of: when(32*mebibyte, hasGraphics)},
		{Name: "vfio", Title: "VFIO: GPUs, host devices and SR-IOV", Field: "spec.domain.devices", Of: when(gibibyte, hasVFIO)},
		{Name: "downward-metrics", Title: "disk for downward metrics", Field: "spec.volumes", Of: when(mebibyte, hasDownwardMetrics)},
		{Name: "probes", Title: "exec probes", Field: "spec.livenessProbe", Of: execProbes},
		{Name: "sev", Title: "memory encryption", Field: "spec.domain.launchSecurity", Of: when(256*mebibyte, isSEV)},
		{Name: "tpm", Title: "TPM", Field: "spec.domain.devices.tpm", Of: when(53*mebibyte, hasTPM)},
		{Name: "guaranteed", Title: "dedicated CPUs, or guaranteed quality of service", Field: "spec.domain.resources", Of: when(100*mebibyte, isGuaranteed)},
		{Name: "reserved", Title: "reserved by the author", Field: "spec.domain.memory.reservedOverhead.addedOverhead", Of: reserved},
	}
}

// firmwareOfARM64 are the two flash devices that QEMU creates.
var firmwareOfARM64 = Component{Name: "firmware", Title: "flash of the firmware", Field: "spec.architecture", Of: always(128 * mebibyte)}

// networkComponents are outside of the cluster's ratio.
func networkComponents() []Component {
	return []Component{
		{Name: "passt", Title: "passt binding", Field: "spec.domain.devices.interfaces", Of: when(250*mebibyte, hasPasst)},
		{Name: "binding-plugins", Title: "network binding plugins", Field: "spec.domain.devices.interfaces", Of: bindingPlugins},
	}
}

// networkRows is networkComponents. It is not changed.
var networkRows = networkComponents()

// GetMemoryOverhead adds the rows, multiplies them with the cluster's ratio and adds those of networks.
func (r *BaseRenderer) GetMemoryOverhead(vmi *v1.VirtualMachineInstance, facts *platform.Facts) Overhead {
	o := Overhead{Components: make([]Amount, 0, len(r.components)+2), Total: *resource.NewQuantity(0, resource.BinarySI)}
	o.add(r.components, vmi, facts)
	if ratio := facts.Configuration.AdditionalGuestMemoryOverheadRatio; ratio != nil {
		o.multiply(*ratio)
	}
	o.add(networkRows, vmi, facts)
	return o
}

func (o *Overhead) add(rows []Component, vmi *v1.VirtualMachineInstance, facts *platform.Facts) {
	for i := range rows {
		amount := rows[i].Of(vmi, facts)
		if amount.IsZero() {
			continue
		}
		o.Components = append(o.Components, Amount{rows[i], amount})
		o.Total.Add(amount)
	}
}

// multiply adds what the ratio of the cluster adds. KubeVirt calculates it in whole kilobytes, and ignores what is no number.
func (o *Overhead) multiply(text string) {
	ratio, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(ratio) || math.IsInf(ratio, 0) {
		return
	}
	kilobytes := float64(o.Total.ScaledValue(resource.Kilo)) * (ratio - 1)
	if math.Abs(kilobytes) > math.MaxInt64/2000 {
		kilobytes = math.Copysign(math.MaxInt64/2000, kilobytes)
	}
	added := *resource.NewScaledQuantity(int64(kilobytes), resource.Kilo)
	if added.IsZero() {
		return
	}
	ratioRow := Component{Name: "ratio", Title: "additionalGuestMemoryOverheadRatio " + text + " of the cluster"}
	o.Components = append(o.Components, Amount{ratioRow, added})
	o.Total.Add(added)
}

// component is a row by its name, and whether the instance has it.
func (o *Overhead) component(name string) (resource.Quantity, bool) {
	for i := range o.Components {
		if o.Components[i].Name == name {
			return o.Components[i].Amount, true
		}
	}
	return resource.Quantity{}, false
}

func bytes(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.BinarySI) }

func always(n int64) func(*v1.VirtualMachineInstance, *platform.Facts) resource.Quantity {
	return func(*v1.VirtualMachineInstance, *platform.Facts) resource.Quantity { return bytes(n) }
}

func when(n int64, has func(*v1.VirtualMachineInstance) bool) func(*v1.VirtualMachineInstance, *platform.Facts) resource.Quantity {
	return func(vmi *v1.VirtualMachineInstance, _ *platform.Facts) resource.Quantity {
		if has(vmi) {
			return bytes(n)
		}
		return resource.Quantity{}
	}
}

// pageTables has one bit for 512 bytes of the memory that is requested, in whole kilobytes. KubeVirt does not look at the
// guest's memory: see the remark.
func pageTables(vmi *v1.VirtualMachineInstance, _ *platform.Facts) resource.Quantity {
	request, ok := vmi.Spec.Domain.Resources.Requests[corev1.ResourceMemory]
	if !ok {
		return resource.Quantity{}
	}
	const bits = 512
	kilobytes := request.ScaledValue(resource.Kilo)
	if kilobytes > math.MaxInt64/1000 {
		return bytes(kilobytes / bits * 1000)
	}
	return bytes(kilobytes * 1000 / bits)
}

// processes are virt-launcher-monitor, virt-launcher, virtlogd, virtqemud and QEMU itself.
func processes(*v1.VirtualMachineInstance, *platform.Facts) resource.Quantity {
	return bytes((25 + 100 + 25 + 40 + 50) * mebibyte)
}

func vcpuTables(vmi *v1.VirtualMachineInstance, _ *platform.Facts) resource.Quantity {
	return bytes(8 * mebibyte * max(1, overheadVCPUs(&vmi.Spec)))
}

// overheadVCPUs are the vCPUs that the overhead is calculated for.
func overheadVCPUs(spec *v1.VirtualMachineInstanceSpec) int64 {
	if spec.Domain.CPU != nil {
		return vcpus(spec.Domain.CPU)
	}
	for _, list := range []corev1.ResourceList{spec.Domain.Resources.Limits, spec.Domain.Resources.Requests} {
		if cpu, ok := list[corev1.ResourceCPU]; ok {
			return min(cpu.Value(), MaxVCPUs)
		}
	}
	return 0
}

func hasGraphics(vmi *v1.VirtualMachineInstance) bool {
	attach := vmi.Spec.Domain.Devices.AutoattachGraphicsDevice
	return attach == nil || *attach
}

func hasVFIO(vmi *v1.VirtualMachineInstance) bool {
	d := &vmi.Spec.Domain.Devices
	return len(d.HostDevices) > 0 || len(d.GPUs) > 0 || hasSRIOV(vmi)
}

func hasSRIOV(vmi *v1.VirtualMachineInstance) bool {
	return slices.ContainsFunc(vmi.Spec.Domain.Devices.Interfaces, func(i v1.Interface) bool { return i.SRIOV != nil })
}

func hasPasst(vmi *v1.VirtualMachineInstance) bool {
	return slices.ContainsFunc(vmi.Spec.Domain.Devices.Interfaces, func(i v1.Interface) bool { return i.PasstBinding != nil })
}

func hasDownwardMetrics(vmi *v1.VirtualMachineInstance) bool {
	return slices.ContainsFunc(vmi.Spec.Volumes, func(v v1.Volume) bool { return v.DownwardMetrics != nil })
}

// execProbes are 10Mi for each probe that runs a command in the guest, and 100Mi once.
func execProbes(vmi *v1.VirtualMachineInstance, _ *platform.Facts) resource.Quantity {
	total := int64(0)
	for _, probe := range []*v1.Probe{vmi.Spec.LivenessProbe, vmi.Spec.ReadinessProbe} {
		if probe != nil && probe.Exec != nil {
			total = max(total, 100*mebibyte) + 10*mebibyte
		}
	}
	return bytes(total)
}

// isSEV reports whether the memory is encrypted by SEV, SEV-ES or SEV-SNP.
func isSEV(vmi *v1.VirtualMachineInstance) bool {
	security := vmi.Spec.Domain.LaunchSecurity
	return security != nil && (security.SEV != nil || security.SNP != nil)
}

func isGuaranteed(vmi *v1.VirtualMachineInstance) bool {
	return vmi.IsCPUDedicated() || vmi.WantsToHaveQOSGuaranteed()
}

func reserved(vmi *v1.VirtualMachineInstance, _ *platform.Facts) resource.Quantity {
	memory := vmi.Spec.Domain.Memory
	if memory == nil || memory.ReservedOverhead == nil || memory.ReservedOverhead.AddedOverhead == nil {
		return resource.Quantity{}
	}
	return *memory.ReservedOverhead.AddedOverhead
}

func hasTPM(vmi *v1.VirtualMachineInstance) bool {
	tpm := vmi.Spec.Domain.Devices.TPM
	return tpm != nil && (tpm.Enabled == nil || *tpm.Enabled)
}

// bindingPlugins is what each plugin that an interface uses needs, once.
func bindingPlugins(vmi *v1.VirtualMachineInstance, facts *platform.Facts) resource.Quantity {
	total := resource.Quantity{}
	for _, name := range pluginNames(&vmi.Spec) {
		plugin := facts.Configuration.NetworkConfiguration.Binding[name]
		if needs := plugin.ComputeResourceOverhead; needs != nil {
			total.Add(needs.Requests[corev1.ResourceMemory])
		}
	}
	return total
}

// pluginNames are the network binding plugins that interfaces use, each once.
func pluginNames(spec *v1.VirtualMachineInstanceSpec) []string {
	var names []string
	interfaces := spec.Domain.Devices.Interfaces
	for i := range interfaces {
		if binding := interfaces[i].Binding; binding != nil && !slices.Contains(names, binding.Name) {
			names = append(names, binding.Name)
		}
	}
	return names
}

// vcpus are those that KubeVirt counts. Its product overflows at 32 bits, which the bounds of this package prevent.
func vcpus(cpu *v1.CPU) int64 { return int64(min(exactVCPUs(cpu), MaxVCPUs)) }

// exactVCPUs is the product of what is not zero, or the largest number; 0 if all are zero.
func exactVCPUs(cpu *v1.CPU) uint64 {
	if cpu == nil {
		return 0
	}
	product := uint64(0)
	for _, count := range []uint32{cpu.Cores, cpu.Sockets, cpu.Threads} {
		switch {
		case count == 0:
		case product == 0:
			product = uint64(count)
		case product > math.MaxUint64/uint64(count):
			return math.MaxUint64
		default:
			product *= uint64(count)
		}
	}
	return product
}
