package liveupdates

import (
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// maxVCPUs bounds the CPUs that KubeVirt reserves for hotplug.
const maxVCPUs = 512

// Limits sets the maxima of sockets and of memory that KubeVirt gives a new instance which has none.
func Limits(spec *kubevirtv1.VirtualMachineInstanceSpec, configuration *kubevirtv1.KubeVirtConfiguration) {
	if s := configuration.VMRolloutStrategy; s != nil && *s != kubevirtv1.VMRolloutStrategyLiveUpdate || spec.Architecture == "arm64" {
		return
	}
	settings, ratio := configuration.LiveUpdateConfiguration, uint32(4)
	if settings == nil {
		settings = &kubevirtv1.LiveUpdateConfiguration{}
	}
	if settings.MaxHotplugRatio > 0 {
		ratio = settings.MaxHotplugRatio
	}
	limitSockets(spec.Domain.CPU, settings, ratio)
	limitMemory(spec, settings, ratio)
}

func limitSockets(cpu *kubevirtv1.CPU, settings *kubevirtv1.LiveUpdateConfiguration, ratio uint32) {
	if cpu == nil || cpu.MaxSockets != 0 || cpu.Sockets == 0 {
		return
	}
	if settings.MaxCpuSockets != nil {
		cpu.MaxSockets = max(*settings.MaxCpuSockets, cpu.Sockets)
		return
	}
	cpu.MaxSockets = cpu.Sockets * ratio
	if perSocket := cpu.Cores * cpu.Threads; perSocket > 0 && cpu.MaxSockets*perSocket > maxVCPUs {
		cpu.MaxSockets = max(maxVCPUs/perSocket, cpu.Sockets)
	}
}

func limitMemory(spec *kubevirtv1.VirtualMachineInstanceSpec, settings *kubevirtv1.LiveUpdateConfiguration, ratio uint32) {
	memory := spec.Domain.Memory
	if memory == nil || memory.Guest == nil || memory.MaxGuest != nil || memory.Guest.Value() < 1<<30 {
		return
	}
	maximum := settings.MaxGuest
	if maximum == nil {
		maximum = resource.NewQuantity(memory.Guest.Value()*int64(ratio), resource.BinarySI)
	}
	if Unpluggable(spec, memory.Guest, maximum) == "" {
		memory.MaxGuest = new(maximum.DeepCopy())
	}
}
