package rollouts

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
)

// Failures of KubeVirt's steps.
const (
	failPlugging  = "an earlier change is still in progress"
	failMigrating = "the VM is migrating"
	failConflict  = "the VM sets a field that its instancetype determines"
	failRevert    = "during a volume migration, only the previous claims are accepted"
	failRejected  = "the running instance rejects the volume or the disk"
	failTwice     = "KubeVirt cannot write two annotations of different sources in one update"
)

// plugSockets plugs CPU sockets.
func (p *planner) plugSockets() outcome {
	if len(p.conflicts) > 0 {
		return outcome{failure: failConflict}
	}
	wants, runs := p.wanted.Domain.CPU, p.running.Domain.CPU
	switch {
	case wants == nil || runs == nil || wants.Sockets == runs.Sockets:
		return outcome{}
	case p.in.is(v1.VirtualMachineInstanceVCPUChange):
		return outcome{failure: failPlugging}
	case p.in.migrating():
		return outcome{failure: failMigrating}
	case wants.Sockets > runs.MaxSockets:
		return outcome{restart: ReasonSocketsBeyond}
	case wants.Sockets < runs.Sockets:
		return outcome{restart: ReasonSocketsReduced}
	case p.written.Architecture == architectures.ARM64:
		return outcome{restart: ReasonNoCPUHotplug}
	}
	return outcome{patched: true, condition: true}
}

// syncAffinity writes the node selector and the affinity.
func (p *planner) syncAffinity() outcome {
	if same(&p.wanted.NodeSelector, &p.running.NodeSelector) && same(&p.wanted.Affinity, &p.running.Affinity) {
		return outcome{}
	}
	if p.in.migrating() {
		return outcome{failure: failMigrating}
	}
	return outcome{patched: true}
}

func (p *planner) syncTolerations() outcome {
	if same(&p.wanted.Tolerations, &p.running.Tolerations) {
		return outcome{}
	}
	if p.in.migrating() {
		return outcome{failure: failMigrating}
	}
	return outcome{patched: true}
}

// plugMemory plugs guest memory.
func (p *planner) plugMemory() outcome {
	wants, runs := guestOf(p.wanted), guestOf(p.running)
	memory := p.in.Running.Status.Memory
	if wants == nil || runs == nil || memory == nil || memory.GuestCurrent == nil {
		return outcome{}
	}
	change, _ := p.in.condition(v1.VirtualMachineInstanceMemoryChange)
	maximum := p.running.Domain.Memory.MaxGuest
	switch {
	case change == corev1.ConditionFalse:
		return outcome{restart: ReasonMemoryFailed}
	case equalQuantities(wants, runs):
		return outcome{}
	case !p.in.migratable():
		return outcome{restart: ReasonMemoryMigration}
	case maximum == nil:
		return outcome{restart: ReasonMemoryUnavailable}
	case change == corev1.ConditionTrue:
		return outcome{failure: failPlugging}
	case p.in.migrating():
		return outcome{failure: failMigrating}
	case p.memoryUnsupported(wants, maximum) != "":
		return outcome{restart: ReasonMemoryUnsupported}
	case memory.GuestAtBoot != nil && wants.Cmp(*memory.GuestAtBoot) < 0:
		return outcome{restart: ReasonMemoryBelowBoot}
	}
	return outcome{patched: true, condition: true}
}

const (
	mebi = 1 << 20
	gibi = 1 << 30
)

// memoryUnsupported says why memory cannot be plugged; it is empty if it can.
func (p *planner) memoryUnsupported(wants, maximum *resource.Quantity) string {
	domain := &p.wanted.Domain
	block, unit := int64(2*mebi), "2Mi"
	if huge := domain.Memory.Hugepages; huge != nil && huge.PageSize == "1Gi" {
		block, unit = gibi, "1Gi"
	}
	switch {
	case domain.CPU != nil && domain.CPU.Realtime != nil:
		return "memory hotplug does not work with realtime CPUs"
	case domain.CPU != nil && domain.CPU.NUMA != nil && domain.CPU.NUMA.GuestMappingPassthrough != nil:
		return "memory hotplug does not work with NUMA passthrough"
	case domain.LaunchSecurity != nil:
		return "memory hotplug does not work with encrypted memory"
	case wants.Cmp(*maximum) > 0:
		return "the VM was started with a maximum of " + maximum.String()
	case wants.Value()%block != 0:
		return "the guest memory is not a multiple of " + unit
	case maximum.Value()%block != 0:
		return "the maximum of the guest memory is not a multiple of " + unit
	case p.written.Architecture != architectures.AMD64:
		return "memory hotplug is available on amd64 only"
	}
	return ""
}

// overcommitted reports whether the new pod could not start: KubeVirt raises the memory request above the limit.
func (p *planner) overcommitted() bool {
	limit, hasLimit := p.running.Domain.Resources.Limits[corev1.ResourceMemory]
	request, hasRequest := p.running.Domain.Resources.Requests[corev1.ResourceMemory]
	wants, current := guestOf(p.wanted), p.in.Running.Status.Memory
	if !hasLimit || !hasRequest || limit.IsZero() || wants == nil || current == nil || current.GuestCurrent == nil {
		return false
	}
	delta := wants.Value() - current.GuestCurrent.Value()
	raised := request.Value() + delta
	if raised < wants.Value() {
		raised, delta = wants.Value(), 0
	}
	return raised > limit.Value()+delta
}

// exceedsLimit reports whether the running instance requests more memory than its limit, after KubeVirt has raised the request.
func (p *planner) exceedsLimit() bool {
	limit, hasLimit := p.running.Domain.Resources.Limits[corev1.ResourceMemory]
	request, hasRequest := p.running.Domain.Resources.Requests[corev1.ResourceMemory]
	return hasLimit && hasRequest && !limit.IsZero() && request.Cmp(limit) > 0
}

// syncMetadata copies labels and annotations to the instance.
func (p *planner) syncMetadata() outcome {
	template, running := &p.in.Desired.Spec.Template.ObjectMeta, p.in.Running
	annotations := differs(template.Annotations, running.Annotations, p.syncsAnnotation)
	hooks := differs(p.in.Desired.Annotations, running.Annotations, func(key string) bool { return key == skipBackupHooks })
	if annotations && hooks {
		return outcome{failure: failTwice}
	}
	return outcome{patched: annotations || hooks || differs(template.Labels, running.Labels, p.syncsLabel)}
}

// differs reports whether a synced key has different values.
func differs(wants, runs map[string]string, synced func(string) bool) bool {
	for key, value := range wants {
		if run, has := runs[key]; (!has || run != value) && synced(key) {
			return true
		}
	}
	for key := range runs {
		if _, set := wants[key]; !set && synced(key) {
			return true
		}
	}
	return false
}
