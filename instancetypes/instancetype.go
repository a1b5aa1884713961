package instancetypes

import (
	"maps"

	k8sv1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/provenance"
)

// applyInstancetype fills what the instancetype determines. The caller has made sure that nothing of it is set.
func applyInstancetype(spec *vmiSpec, in *instancetypeSpec, t topology, rec *provenance.Recorder) {
	if in.NodeSelector != nil {
		spec.NodeSelector = maps.Clone(in.NodeSelector)
		if len(in.NodeSelector) > 0 {
			rec.Record("nodeSelector", spec.NodeSelector)
		}
	}
	provenance.Fill(rec, "schedulerName", &spec.SchedulerName, in.SchedulerName)
	applyCPU(spec, in, t, rec)
	applyMemory(spec, in, rec)
	fillCopy(rec, "domain.ioThreadsPolicy", &spec.Domain.IOThreadsPolicy, in.IOThreadsPolicy)
	if count := poolThreads(in.IOThreads); count != nil {
		provenance.FillPointer(rec, "domain.ioThreads.supplementalPoolThreadCount",
			&provenance.Ensure(&spec.Domain.IOThreads).SupplementalPoolThreadCount, *count)
	}
	adopt(rec, "domain.launchSecurity", &spec.Domain.LaunchSecurity, in.LaunchSecurity)
	adoptList(rec, "domain.devices.gpus", &spec.Domain.Devices.GPUs, in.GPUs)
	adoptList(rec, "domain.devices.hostDevices", &spec.Domain.Devices.HostDevices, in.HostDevices)
}

func applyCPU(spec *vmiSpec, in *instancetypeSpec, t topology, rec *provenance.Recorder) {
	cpu := provenance.Ensure(&spec.Domain.CPU)
	if in.CPU.Model != nil {
		provenance.Fill(rec, "domain.cpu.model", &cpu.Model, *in.CPU.Model)
	}
	if in.CPU.DedicatedCPUPlacement != nil {
		provenance.Fill(rec, "domain.cpu.dedicatedCpuPlacement", &cpu.DedicatedCPUPlacement, *in.CPU.DedicatedCPUPlacement)
	}
	if in.CPU.IsolateEmulatorThread != nil {
		provenance.Fill(rec, "domain.cpu.isolateEmulatorThread", &cpu.IsolateEmulatorThread, *in.CPU.IsolateEmulatorThread)
	}
	adopt(rec, "domain.cpu.numa", &cpu.NUMA, in.CPU.NUMA)
	adopt(rec, "domain.cpu.realtime", &cpu.Realtime, in.CPU.Realtime)
	if in.CPU.MaxSockets != nil {
		overwrite(rec, "domain.cpu.maxSockets", &cpu.MaxSockets, *in.CPU.MaxSockets)
	}
	sockets, cores, threads := t.divide(in.CPU.Guest)
	provenance.Fill(rec, "domain.cpu.sockets", &cpu.Sockets, sockets)
	provenance.Fill(rec, "domain.cpu.cores", &cpu.Cores, cores)
	provenance.Fill(rec, "domain.cpu.threads", &cpu.Threads, threads)
}

func applyMemory(spec *vmiSpec, in *instancetypeSpec, rec *provenance.Recorder) {
	memory := provenance.Ensure(&spec.Domain.Memory)
	provenance.FillPointer(rec, "domain.memory.guest", &memory.Guest, in.Memory.Guest.DeepCopy())
	if percent := in.Memory.OvercommitPercent; percent > 0 {
		if spec.Domain.Resources.Requests == nil {
			spec.Domain.Resources.Requests = k8sv1.ResourceList{}
		}
		request := overcommitted(in.Memory.Guest, percent)
		spec.Domain.Resources.Requests[k8sv1.ResourceMemory] = request
		rec.Record(fieldpath.Keyed("domain.resources.requests", "memory"), request)
	}
	adopt(rec, "domain.memory.hugepages", &memory.Hugepages, in.Memory.Hugepages)
	if in.Memory.MaxGuest != nil {
		provenance.FillPointer(rec, "domain.memory.maxGuest", &memory.MaxGuest, in.Memory.MaxGuest.DeepCopy())
	}
}

// overcommitted is what the pod asks for when the guest's memory is overcommitted by some percent. The
// single precision is KubeVirt's, and decides about the last bytes.
func overcommitted(guest resource.Quantity, percent int) resource.Quantity {
	bytes := int64(float32(guest.Value()) * (1 - float32(percent)/100))
	return *resource.NewQuantity(bytes, guest.Format)
}

// copier is an API type that can copy itself.
type copier[T any] interface {
	*T
	DeepCopy() *T
}

// adopt points *field at a copy of a whole structure, if the field is empty and there is something to copy.
func adopt[T any, P copier[T]](rec *provenance.Recorder, path string, field **T, offered P) {
	if *field == nil && offered != nil {
		*field = offered.DeepCopy()
		rec.Record(path, *field)
	}
}

// adoptList sets *field to a copy of a whole list, if the field is empty.
func adoptList[T any, P interface {
	*T
	DeepCopyInto(*T)
}](rec *provenance.Recorder, path string, field *[]T, offered []T) {
	if len(*field) > 0 || len(offered) == 0 {
		return
	}
	list := make([]T, len(offered))
	for i := range offered {
		P(&offered[i]).DeepCopyInto(&list[i])
	}
	*field = list
	rec.Record(path, list)
}

// fillCopy points *field at a copy of a scalar, if the field is empty and the scalar is offered.
func fillCopy[T any](rec *provenance.Recorder, path string, field **T, offered *T) {
	if offered != nil {
		provenance.FillPointer(rec, path, field, *offered)
	}
}

// overwrite sets *field whatever it is, and records it where that makes a difference.
func overwrite[T comparable](rec *provenance.Recorder, path string, field *T, value T) {
	if *field != value {
		*field = value
		rec.Record(path, value)
	}
}
