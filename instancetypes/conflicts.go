package instancetypes

import (
	"fmt"
	"maps"
	"slices"

	k8sv1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
)

// clash reports whether a field is set by the VM and determined by the instancetype.
type clash struct {
	// path of the field, relative to the spec.
	path string
	// in tells it.
	in func(spec *v1.VirtualMachineInstanceSpec, in *instancetypev1beta1.VirtualMachineInstancetypeSpec) bool
}

type (
	vmiSpec          = v1.VirtualMachineInstanceSpec
	instancetypeSpec = instancetypev1beta1.VirtualMachineInstancetypeSpec
	preferenceSpec   = instancetypev1beta1.VirtualMachinePreferenceSpec
)

// schedulingClashes, cpuClashes and deviceClashes are all told; of memoryClashes the first one is.
func schedulingClashes() []clash {
	return []clash{
		{"nodeSelector", func(s *vmiSpec, in *instancetypeSpec) bool { return s.NodeSelector != nil && in.NodeSelector != nil }},
		{"schedulerName", func(s *vmiSpec, in *instancetypeSpec) bool { return s.SchedulerName != "" && in.SchedulerName != "" }},
	}
}

func cpuClashes() []clash {
	return []clash{
		{"domain.resources.requests.cpu", func(s *vmiSpec, _ *instancetypeSpec) bool { return has(s.Domain.Resources.Requests, k8sv1.ResourceCPU) }},
		{"domain.resources.limits.cpu", func(s *vmiSpec, _ *instancetypeSpec) bool { return has(s.Domain.Resources.Limits, k8sv1.ResourceCPU) }},
		{"domain.cpu.sockets", func(s *vmiSpec, _ *instancetypeSpec) bool { return cpuOf(s).Sockets != 0 }},
		{"domain.cpu.cores", func(s *vmiSpec, _ *instancetypeSpec) bool { return cpuOf(s).Cores != 0 }},
		{"domain.cpu.threads", func(s *vmiSpec, _ *instancetypeSpec) bool { return cpuOf(s).Threads != 0 }},
		{"domain.cpu.model", func(s *vmiSpec, in *instancetypeSpec) bool { return cpuOf(s).Model != "" && in.CPU.Model != nil }},
		{"domain.cpu.dedicatedCpuPlacement", func(s *vmiSpec, in *instancetypeSpec) bool {
			return cpuOf(s).DedicatedCPUPlacement && in.CPU.DedicatedCPUPlacement != nil
		}},
		{"domain.cpu.isolateEmulatorThread", func(s *vmiSpec, in *instancetypeSpec) bool {
			return cpuOf(s).IsolateEmulatorThread && in.CPU.IsolateEmulatorThread != nil
		}},
		{"domain.cpu.numa", func(s *vmiSpec, in *instancetypeSpec) bool { return cpuOf(s).NUMA != nil && in.CPU.NUMA != nil }},
		{"domain.cpu.realtime", func(s *vmiSpec, in *instancetypeSpec) bool { return cpuOf(s).Realtime != nil && in.CPU.Realtime != nil }},
	}
}

func memoryClashes() []clash {
	return []clash{
		{"domain.memory.guest", func(s *vmiSpec, _ *instancetypeSpec) bool { return memoryOf(s).Guest != nil }},
		{"domain.memory.hugepages", func(s *vmiSpec, in *instancetypeSpec) bool {
			return memoryOf(s).Hugepages != nil && in.Memory.Hugepages != nil
		}},
		{"domain.memory.maxGuest", func(s *vmiSpec, in *instancetypeSpec) bool {
			return memoryOf(s).MaxGuest != nil && in.Memory.MaxGuest != nil
		}},
		{"domain.resources.requests.memory", func(s *vmiSpec, _ *instancetypeSpec) bool {
			return has(s.Domain.Resources.Requests, k8sv1.ResourceMemory)
		}},
		{"domain.resources.limits.memory", func(s *vmiSpec, _ *instancetypeSpec) bool {
			return has(s.Domain.Resources.Limits, k8sv1.ResourceMemory)
		}},
	}
}

func deviceClashes() []clash {
	return []clash{
		{"domain.ioThreadsPolicy", func(s *vmiSpec, in *instancetypeSpec) bool {
			return s.Domain.IOThreadsPolicy != nil && in.IOThreadsPolicy != nil
		}},
		{"domain.ioThreads.supplementalPoolThreadCount", func(s *vmiSpec, in *instancetypeSpec) bool {
			return poolThreads(s.Domain.IOThreads) != nil && poolThreads(in.IOThreads) != nil
		}},
		{"domain.launchSecurity", func(s *vmiSpec, in *instancetypeSpec) bool {
			return s.Domain.LaunchSecurity != nil && in.LaunchSecurity != nil
		}},
		{"domain.devices.gpus", func(s *vmiSpec, in *instancetypeSpec) bool {
			return len(s.Domain.Devices.GPUs) > 0 && len(in.GPUs) > 0
		}},
		{"domain.devices.hostDevices", func(s *vmiSpec, in *instancetypeSpec) bool {
			return len(s.Domain.Devices.HostDevices) > 0 && len(in.HostDevices) > 0
		}},
	}
}

// conflicts are the fields of the target that the instancetype determines, in KubeVirt's order, and the error of a
// topology that cannot be computed.
func conflicts(target Target, in *Instancetype, pref *Preference) field.ErrorList {
	errs := reported(schedulingClashes(), target, in)
	errs = append(errs, reported(cpuClashes(), target, in)...)
	if err := ratioZero(target.PreferencePath, pref); err != nil {
		errs = append(errs, err)
	}
	if memory := reported(memoryClashes(), target, in); len(memory) > 0 {
		errs = append(errs, memory[0])
	}
	errs = append(errs, reported(deviceClashes(), target, in)...)
	for _, key := range slices.Sorted(maps.Keys(in.Spec.Annotations)) {
		if value, set := target.Annotations[key]; set && value != in.Spec.Annotations[key] {
			errs = append(errs, field.Invalid(target.MetadataPath.Child("annotations").Key(key), value,
				fmt.Sprintf("instancetype %q gives it the value %q", in.Name, in.Spec.Annotations[key])))
		}
	}
	return errs
}

// reported returns an error for each clash.
func reported(clashes []clash, target Target, in *Instancetype) field.ErrorList {
	var errs field.ErrorList
	for _, c := range clashes {
		if c.in(target.Spec, &in.Spec) {
			errs = append(errs, &field.Error{
				Type:     field.ErrorTypeInvalid,
				Field:    target.SpecPath.Child(c.path).String(),
				BadValue: field.OmitValueType{},
				Detail:   fmt.Sprintf("must not be set: instancetype %q determines it", in.Name),
			})
		}
	}
	return errs
}

// unanchoredCPUFeatures is the case that KubeVirt crashes on: it adds a preference's CPU features to a
// domain.cpu that neither the VM nor an instancetype has made.
func unanchoredCPUFeatures(target Target, in *Instancetype, pref *Preference) *field.Error {
	if pref == nil || in != nil || target.Spec.Domain.CPU != nil || pref.Spec.CPU == nil || len(pref.Spec.CPU.PreferredCPUFeatures) == 0 {
		return nil
	}
	return field.Required(target.SpecPath.Child("domain", "cpu"),
		fmt.Sprintf("preference %q adds CPU features, which KubeVirt can do only to a VM that has domain.cpu or an instancetype", pref.Name))
}

func has(list k8sv1.ResourceList, name k8sv1.ResourceName) bool {
	_, ok := list[name]
	return ok
}

func cpuOf(spec *vmiSpec) v1.CPU {
	if spec.Domain.CPU == nil {
		return v1.CPU{}
	}
	return *spec.Domain.CPU
}

func memoryOf(spec *vmiSpec) v1.Memory {
	if spec.Domain.Memory == nil {
		return v1.Memory{}
	}
	return *spec.Domain.Memory
}

func poolThreads(threads *v1.DiskIOThreads) *uint32 {
	if threads == nil {
		return nil
	}
	return threads.SupplementalPoolThreadCount
}
