package mutators

import (
	"reflect"
	"slices"

	k8sv1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/provenance"
)

// groups is a set of places in siteGroups.
type groups uint32

// siteGroup is a group of fields that belong together: if the author has set one of them, a default for another one can
// contradict it.
type siteGroup struct {
	// fields are given relative to the spec. A field listed covers everything below it.
	fields []string
	// touched reports whether one of them, or of those that speak against them, is set.
	touched func(*v1.VirtualMachineInstanceSpec) bool
}

// siteGroups has at most 32 lines: see groups.
var siteGroups = []siteGroup{
	{
		fields: []string{"domain.cpu.sockets", "domain.cpu.cores", "domain.cpu.threads", "domain.resources.requests[cpu]", "domain.resources.limits[cpu]"},
		touched: func(s *v1.VirtualMachineInstanceSpec) bool {
			return hasTopology(s.Domain.CPU) || asksFor(s, k8sv1.ResourceCPU)
		},
	},
	{
		fields: []string{"domain.memory.guest", "domain.resources.requests[memory]", "domain.resources.limits[memory]"},
		touched: func(s *v1.VirtualMachineInstanceSpec) bool {
			return s.Domain.Memory != nil && s.Domain.Memory.Guest != nil || asksFor(s, k8sv1.ResourceMemory)
		},
	},
	{
		fields: []string{"networks", "domain.devices.interfaces", "domain.devices.autoattachPodInterface"},
		touched: func(s *v1.VirtualMachineInstanceSpec) bool {
			return len(s.Networks) > 0 || len(s.Domain.Devices.Interfaces) > 0 || s.Domain.Devices.AutoattachPodInterface != nil
		},
	},
	{
		fields: []string{"volumes", "domain.devices.disks", "domain.devices.filesystems"},
		touched: func(s *v1.VirtualMachineInstanceSpec) bool {
			return len(s.Volumes) > 0 || len(s.Domain.Devices.Disks) > 0 || len(s.Domain.Devices.Filesystems) > 0
		},
	},
	{
		fields:  []string{"livenessProbe"},
		touched: func(s *v1.VirtualMachineInstanceSpec) bool { return s.LivenessProbe != nil },
	},
	{
		fields:  []string{"readinessProbe"},
		touched: func(s *v1.VirtualMachineInstanceSpec) bool { return s.ReadinessProbe != nil },
	},
	{
		fields:  []string{"domain.features.hyperv"},
		touched: func(s *v1.VirtualMachineInstanceSpec) bool { return featuresOf(s).HypervPassthrough != nil },
	},
	{
		fields:  []string{"domain.features.hypervPassthrough"},
		touched: func(s *v1.VirtualMachineInstanceSpec) bool { return featuresOf(s).Hyperv != nil },
	},
}

// groupOf is the group that a field belongs to; zero for none.
func groupOf(path string) groups {
	for i := range siteGroups {
		for _, name := range siteGroups[i].fields {
			if fieldpath.Within(path, name) {
				return 1 << i
			}
		}
	}
	return 0
}

// groupsOf are those that some fields and all below them belong to.
func groupsOf(fields []siteField) (all groups) {
	for i := range fields {
		all |= fields[i].group | groupsOf(fields[i].below)
		for _, k := range fields[i].keys {
			all |= k.group
		}
	}
	return all
}

// touchedIn are the groups, of these, of which something is set in a spec.
func (g groups) touchedIn(spec *v1.VirtualMachineInstanceSpec) (touched groups) {
	for i := 0; g>>i != 0; i++ {
		if g&(1<<i) != 0 && siteGroups[i].touched(spec) {
			touched |= 1 << i
		}
	}
	return touched
}

func hasTopology(cpu *v1.CPU) bool {
	return cpu != nil && (cpu.Sockets != 0 || cpu.Cores != 0 || cpu.Threads != 0)
}

func asksFor(spec *v1.VirtualMachineInstanceSpec, name k8sv1.ResourceName) bool {
	_, requested := spec.Domain.Resources.Requests[name]
	_, limited := spec.Domain.Resources.Limits[name]
	return requested || limited
}

func featuresOf(spec *v1.VirtualMachineInstanceSpec) v1.Features {
	if spec.Domain.Features == nil {
		return v1.Features{}
	}
	return *spec.Domain.Features
}

// choices are the structures of which one member at most may be set, as far as defaults are filled in below them.
var choices = []reflect.Type{
	reflect.TypeFor[v1.Bootloader](),
	reflect.TypeFor[v1.ClockOffset](),
	reflect.TypeFor[v1.LaunchSecurity](),
	reflect.TypeFor[v1.WatchdogDevice](),
}

func isChoice(t reflect.Type) bool { return slices.Contains(choices, t) }

// The fields that bound what a virtual machine may grow to.
const (
	pathMaxSockets = "domain.cpu.maxSockets"
	pathMaxGuest   = "domain.memory.maxGuest"
)

func isBound(path string) bool { return path == pathMaxSockets || path == pathMaxGuest }

// bounds fills what bounds the growth of the virtual machine, after all else that the site has to say: a virtual
// machine that is larger already, or cannot grow, is left without.
func (f *SiteFill) bounds(s *SiteDefaults, architecture string) {
	foreseen := f.foreseen(architecture)
	beside := &v1.VirtualMachineInstanceSpec{}
	if f.Beside != nil {
		beside = f.Beside
	}
	if s.limitsSockets && !f.leaves(pathMaxSockets) && (beside.Domain.CPU == nil || beside.Domain.CPU.MaxSockets == 0) {
		if bound := s.template.Domain.CPU.MaxSockets; foreseen.Domain.CPU.Sockets <= bound {
			provenance.Fill(f.Recorder, pathMaxSockets, &provenance.Ensure(&f.Spec.Domain.CPU).MaxSockets, bound)
		}
	}
	if s.limitsMemory && !f.leaves(pathMaxGuest) && (beside.Domain.Memory == nil || beside.Domain.Memory.MaxGuest == nil) {
		if bound := s.template.Domain.Memory.MaxGuest; MemoryHotplugObstacle(foreseen, bound) == "" {
			provenance.FillPointer(f.Recorder, pathMaxGuest, &provenance.Ensure(&f.Spec.Domain.Memory).MaxGuest, bound.DeepCopy())
		}
	}
}

// foreseen is what the base layer will make of the CPUs and the memory, by which bounds are measured.
func (f *SiteFill) foreseen(architecture string) *v1.VirtualMachineInstanceSpec {
	domain := &f.Spec.Domain
	foreseen := &v1.VirtualMachineInstanceSpec{Architecture: architecture, Domain: v1.DomainSpec{
		CPU: domain.CPU.DeepCopy(), Memory: domain.Memory.DeepCopy(), Resources: *domain.Resources.DeepCopy(), LaunchSecurity: domain.LaunchSecurity,
	}}
	c := &Completion{Facts: f.Facts, Spec: foreseen, Recorder: provenance.NewRecorder("")}
	resourceRequests(c)
	guestMemory(c)
	cpuTopology(c)
	return foreseen
}
