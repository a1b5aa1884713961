package liveupdates

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Reasons of failures, as virt-controller writes them in the condition Failure.
const (
	reasonCPU         = "HotPlugCPUError"
	reasonMemory      = "HotPlugMemoryError"
	reasonAffinity    = "AffinityChangeError"
	reasonTolerations = "TolerationsChangeError"
	reasonVolumes     = "HotPlugVolumeError"
	reasonClaims      = "VolumesUpdateError"
	reasonMetadata    = "AnnotationsLabelsChangeError"
)

func fails(reason, format string, arguments ...any) *Failure {
	return &Failure{Reason: reason, Message: fmt.Sprintf(format, arguments...)}
}

// sockets plugs CPU sockets up to the maximum of the instance.
func (p *pass) sockets() *Failure {
	const prefix = "Error encountered while handling CPU change request: "
	wants, runs := p.Wanted.Spec.Domain.CPU, p.instance.Spec.Domain.CPU
	if wants == nil || runs == nil || wants.Sockets == runs.Sockets {
		return nil
	}
	switch {
	case p.is(kubevirtv1.VirtualMachineInstanceVCPUChange):
		return fails(reasonCPU, prefix+"another CPU hotplug is in progress")
	case p.migrating():
		return fails(reasonCPU, prefix+"CPU hotplug is not allowed while VMI is migrating")
	case wants.Sockets > runs.MaxSockets:
		return p.needs("CPU sockets updated in template spec to a value higher than what's available")
	case wants.Sockets < runs.Sockets:
		return p.needs("Reduction of CPU socket count requires a restart")
	case p.Wanted.Spec.Architecture == "arm64":
		return p.needs("ARM doesn't support CPU hotplug")
	}
	runs.Sockets = wants.Sockets
	return nil
}

// placement copies the node selector and the affinity.
func (p *pass) placement() *Failure {
	wants, runs := &p.Wanted.Spec, &p.instance.Spec
	if same(wants.NodeSelector, runs.NodeSelector) && same(wants.Affinity, runs.Affinity) {
		return nil
	}
	if p.migrating() {
		return fails(reasonAffinity, "Error encountered while handling node affinity change request: Node affinity should not be changed during VMI migration")
	}
	runs.NodeSelector, runs.Affinity = wants.NodeSelector, wants.Affinity
	return nil
}

func (p *pass) tolerations() *Failure {
	wants, runs := p.Wanted.Spec.Tolerations, &p.instance.Spec.Tolerations
	if same(wants, *runs) {
		return nil
	}
	if p.migrating() {
		return fails(reasonTolerations, "Error encountered while handling tolerations change request: tolerations should not be changed during VMI migration")
	}
	*runs = wants
	return nil
}

// memory plugs and unplugs guest memory between that of the start and the maximum of the instance.
func (p *pass) memory() *Failure {
	const prefix = "error encountered while handling memory hotplug requests: "
	wanted, running, status := p.Wanted.Spec.Domain.Memory, p.instance.Spec.Domain.Memory, p.instance.Status.Memory
	if wanted == nil || wanted.Guest == nil || running == nil || running.Guest == nil || status == nil || status.GuestCurrent == nil {
		return nil
	}
	if conditionOf(p.instance, kubevirtv1.VirtualMachineInstanceMemoryChange) == corev1.ConditionFalse {
		return p.needs("memory updated in template spec. Memory-hotplug failed and is not available for this VM configuration")
	}
	if wanted.Guest.Cmp(*running.Guest) == 0 {
		return nil
	}
	switch {
	case !p.is(kubevirtv1.VirtualMachineInstanceIsMigratable):
		return p.needs("memory updated in template spec. Memory-hotplug is only available for migratable VMs")
	case running.MaxGuest == nil:
		return p.needs("memory updated in template spec. Memory-hotplug is not available for this VM configuration")
	case p.is(kubevirtv1.VirtualMachineInstanceMemoryChange):
		return fails(reasonMemory, prefix+"another memory hotplug is in progress")
	case p.migrating():
		return fails(reasonMemory, prefix+"memory hotplug is not allowed while VMI is migrating")
	}
	if why := Unpluggable(&p.Wanted.Spec, wanted.Guest, running.MaxGuest); why != "" {
		return p.needs("memory hotplug not supported, " + why)
	}
	if status.GuestAtBoot != nil && wanted.Guest.Cmp(*status.GuestAtBoot) < 0 {
		return p.needs("memory updated in template spec to a value lower than what the VM started with")
	}
	running.Guest = new(wanted.Guest.DeepCopy())
	return nil
}

// Unpluggable says why memory cannot be plugged between two sizes; it is empty if it can.
func Unpluggable(spec *kubevirtv1.VirtualMachineInstanceSpec, guest, maximum *resource.Quantity) string {
	block, name := int64(2<<20), "2Mi"
	domain := &spec.Domain
	if domain.Memory != nil && domain.Memory.Hugepages != nil && domain.Memory.Hugepages.PageSize == "1Gi" {
		block, name = 1<<30, "1Gi"
	}
	cpu := domain.CPU
	switch {
	case cpu != nil && cpu.Realtime != nil:
		return "Memory hotplug is not compatible with realtime VMs"
	case cpu != nil && cpu.NUMA != nil && cpu.NUMA.GuestMappingPassthrough != nil:
		return "Memory hotplug is not compatible with guest mapping passthrough"
	case domain.LaunchSecurity != nil:
		return "Memory hotplug is not compatible with encrypted VMs"
	case guest.Cmp(*maximum) > 0:
		return "Guest memory is greater than the configured maxGuest memory"
	case guest.Value()%block != 0:
		return "Guest memory must be " + name + " aligned"
	case maximum.Value()%block != 0:
		return "MaxGuest must be " + name + " aligned"
	case spec.Architecture != "amd64":
		return "Memory hotplug is only available for x86_64 VMs"
	}
	return ""
}
