package nodetuning

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/platform"
)

// DomainTuner is what a hypervisor contributes to the tuning of processes (VEP 97's DomainTuner). It returns what to do, which the
// caller applies.
type DomainTuner interface {
	// AdjustResources returns the limit of locked memory of the process, in bytes; 0 to leave it.
	AdjustResources(vmi *v1.VirtualMachineInstance, facts *platform.Facts) (int64, error)
	// HandleHousekeeping returns the threads that do not run the guest, and their CPUs; nothing to leave them.
	HandleHousekeeping(vmi *v1.VirtualMachineInstance, pod *Pod) Housekeeping
}

// Pod is what the kernel knows of the pod's processes.
type Pod struct {
	// CPUs of the container, ascending.
	CPUs    []int
	Threads []Thread
}

// Thread is a thread of the process of a virtual machine.
type Thread struct {
	ID int
	// Name as the hypervisor sets it, such as "CPU 0/KVM".
	Name string
	// CPUs on which it may run, ascending.
	CPUs []int
}

// Housekeeping are the CPUs and threads of a cgroup for everything but the guest.
type Housekeeping struct {
	CPUs    []int
	Threads []int
}

// TunedByKubeVirt reports whether virt-handler tunes the processes of a hypervisor itself, by its name in the KubeVirt resource. Two
// writers would overwrite each other's limits.
func TunedByKubeVirt(name string) bool { return name == "kvm" || name == "hyperv-direct" }

// BaseTuner tunes as virt-handler tunes kvm. A hypervisor embeds it, and replaces functions.
type BaseTuner struct {
	Renderer launcher.ResourceRenderer
	// RunsGuest reports whether a thread runs the guest, by its name.
	RunsGuest func(name string) bool
}

// NewBaseTuner returns the tuner of a hypervisor with a renderer of pods.
func NewBaseTuner(renderer launcher.ResourceRenderer) *BaseTuner {
	return &BaseTuner{Renderer: renderer, RunsGuest: func(name string) bool { return strings.HasPrefix(name, "CPU ") }}
}

// AdjustResources implements DomainTuner. Only guests whose memory is locked have a limit: those with devices that are passed through,
// realtime CPUs or memory encryption. It is the memory of the guest and the overhead of the pod.
func (t *BaseTuner) AdjustResources(vmi *v1.VirtualMachineInstance, facts *platform.Facts) (int64, error) {
	if !locksMemory(vmi) {
		return 0, nil
	}
	limit := t.overhead(vmi, facts)
	limit.Add(guestMemory(vmi))
	return limit.Value(), nil
}

// overhead is what virt-controller reported, or what it would.
func (t *BaseTuner) overhead(vmi *v1.VirtualMachineInstance, facts *platform.Facts) resource.Quantity {
	if state := vmi.Status.MigrationState; state != nil && state.TargetMemoryOverhead != nil {
		return state.TargetMemoryOverhead.DeepCopy()
	}
	overhead := t.Renderer.GetMemoryOverhead(vmi, facts)
	return overhead.Total.DeepCopy()
}

func locksMemory(vmi *v1.VirtualMachineInstance) bool {
	d := &vmi.Spec.Domain
	if len(d.Devices.GPUs) > 0 || len(d.Devices.HostDevices) > 0 {
		return true
	}
	if slices.ContainsFunc(d.Devices.Interfaces, func(i v1.Interface) bool { return i.SRIOV != nil }) {
		return true
	}
	security := d.LaunchSecurity
	return d.CPU != nil && d.CPU.Realtime != nil || security != nil && (security.SEV != nil || security.SNP != nil)
}

// guestMemory is the most memory that the guest can have.
func guestMemory(vmi *v1.VirtualMachineInstance) resource.Quantity {
	memory, requests := vmi.Spec.Domain.Memory, vmi.Spec.Domain.Resources.Requests
	switch {
	case memory != nil && memory.MaxGuest != nil:
		return *memory.MaxGuest
	case !requests.Memory().IsZero():
		return *requests.Memory()
	case memory != nil && memory.Guest != nil:
		return *memory.Guest
	}
	return resource.Quantity{}
}

// HandleHousekeeping implements DomainTuner. A guest with dedicated CPUs can leave CPUs of its pod for the emulator: those on which no
// thread of the guest may run.
func (t *BaseTuner) HandleHousekeeping(vmi *v1.VirtualMachineInstance, pod *Pod) Housekeeping {
	cpu := vmi.Spec.Domain.CPU
	if cpu == nil || !cpu.DedicatedCPUPlacement || !cpu.IsolateEmulatorThread {
		return Housekeeping{}
	}
	guest := map[int]bool{}
	var h Housekeeping
	pinned := false
	for _, thread := range pod.Threads {
		if !t.RunsGuest(thread.Name) {
			h.Threads = append(h.Threads, thread.ID)
			continue
		}
		pinned = true
		for _, c := range thread.CPUs {
			guest[c] = true
		}
	}
	for _, c := range pod.CPUs {
		if !guest[c] {
			h.CPUs = append(h.CPUs, c)
		}
	}
	if !pinned || len(h.CPUs) == 0 || len(h.Threads) == 0 {
		return Housekeeping{} // the guest does not run yet, or its threads are not pinned yet
	}
	return h
}
