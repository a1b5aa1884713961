package instancetypes

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
)

// topology is how a preference wants vCPUs to be shown to the guest.
type topology struct {
	preferred instancetypev1beta1.PreferredCPUTopology
	// ratio and across say how to spread them, for the topology spread.
	ratio  uint32
	across instancetypev1beta1.SpreadAcross
}

const (
	defaultSpreadRatio = 2
	// threadsPerCore is fixed where vCPUs are spread across sockets, cores and threads.
	threadsPerCore = 2
)

// CurrentTopology maps the names that topologies had at first to those of today.
func CurrentTopology(t instancetypev1beta1.PreferredCPUTopology) instancetypev1beta1.PreferredCPUTopology {
	switch t {
	case instancetypev1beta1.DeprecatedPreferSockets:
		return instancetypev1beta1.Sockets
	case instancetypev1beta1.DeprecatedPreferCores:
		return instancetypev1beta1.Cores
	case instancetypev1beta1.DeprecatedPreferThreads:
		return instancetypev1beta1.Threads
	case instancetypev1beta1.DeprecatedPreferSpread:
		return instancetypev1beta1.Spread
	case instancetypev1beta1.DeprecatedPreferAny:
		return instancetypev1beta1.Any
	}
	return t
}

// topologyOf is the preferred topology: sockets, if there is no preference, or none in it.
func topologyOf(pref *Preference) topology {
	if pref == nil {
		pref = &Preference{}
	}
	t := topology{preferred: instancetypev1beta1.Sockets}
	t.across, t.ratio = SpreadOf(&pref.Spec)
	if cpu := pref.Spec.CPU; cpu != nil && cpu.PreferredCPUTopology != nil {
		t.preferred = CurrentTopology(*cpu.PreferredCPUTopology)
	}
	return t
}

// SpreadOf is how a preference spreads vCPUs where its topology is spread: across what, and by which ratio.
func SpreadOf(pref *instancetypev1beta1.VirtualMachinePreferenceSpec) (across instancetypev1beta1.SpreadAcross, ratio uint32) {
	across, ratio = instancetypev1beta1.SpreadAcrossSocketsCores, defaultSpreadRatio
	if pref.PreferSpreadSocketToCoreRatio != 0 {
		ratio = pref.PreferSpreadSocketToCoreRatio
	}
	if pref.CPU == nil || pref.CPU.SpreadOptions == nil {
		return across, ratio
	}
	if options := pref.CPU.SpreadOptions; options.Across != nil {
		across = *options.Across
	}
	if options := pref.CPU.SpreadOptions; options.Ratio != nil {
		ratio = *options.Ratio
	}
	return across, ratio
}

// dividesByRatio reports whether the vCPUs are to be divided by the ratio.
func (t topology) dividesByRatio() bool {
	if t.preferred != instancetypev1beta1.Spread {
		return false
	}
	switch t.across {
	case instancetypev1beta1.SpreadAcrossSocketsCores, instancetypev1beta1.SpreadAcrossCoresThreads, instancetypev1beta1.SpreadAcrossSocketsCoresThreads:
		return true
	}
	return false
}

// divide makes sockets, cores and threads of vCPUs. Where these do not divide evenly the rest is lost, and a
// topology that is not known leaves one vCPU: KubeVirt relies on its webhooks to keep both away. The ratio
// must not be 0 where it is divided by.
func (t topology) divide(vCPUs uint32) (sockets, cores, threads uint32) {
	sockets, cores, threads = 1, 1, 1
	if vCPUs == 1 {
		return sockets, cores, threads
	}
	switch t.preferred {
	case instancetypev1beta1.Cores:
		cores = vCPUs
	case instancetypev1beta1.Threads:
		threads = vCPUs
	case instancetypev1beta1.Sockets, instancetypev1beta1.Any:
		sockets = vCPUs
	case instancetypev1beta1.Spread:
		switch t.across {
		case instancetypev1beta1.SpreadAcrossSocketsCores:
			sockets, cores = vCPUs/t.ratio, t.ratio
		case instancetypev1beta1.SpreadAcrossCoresThreads:
			cores, threads = vCPUs/t.ratio, t.ratio
		case instancetypev1beta1.SpreadAcrossSocketsCoresThreads:
			sockets, cores, threads = vCPUs/threadsPerCore/t.ratio, t.ratio, threadsPerCore
		}
	}
	return sockets, cores, threads
}

// CheckSpread says whether the instancetype's vCPUs can be spread as the preference wants. KubeVirt rejects
// a VM where they cannot, although it could expand it. Either may be nil.
func CheckSpread(target Target, in *Instancetype, pref *Preference) *field.Error {
	t := topologyOf(pref)
	if in == nil || !t.dividesByRatio() {
		return nil
	}
	if err := ratioZero(target.PreferencePath, pref); err != nil {
		return err
	}
	vCPUs := in.Spec.CPU.Guest
	var needs string
	switch {
	case t.across == instancetypev1beta1.SpreadAcrossSocketsCoresThreads && (vCPUs%threadsPerCore > 0 || vCPUs/threadsPerCore%t.ratio > 0):
		needs = fmt.Sprintf("into sockets of %d cores with %d threads", t.ratio, threadsPerCore)
	case t.across == instancetypev1beta1.SpreadAcrossCoresThreads && vCPUs%t.ratio > 0:
		needs = fmt.Sprintf("into cores of %d threads", t.ratio)
	case t.across == instancetypev1beta1.SpreadAcrossSocketsCores && vCPUs%t.ratio > 0:
		needs = fmt.Sprintf("into sockets of %d cores", t.ratio)
	default:
		return nil
	}
	return field.Invalid(target.InstancetypePath, in.Name,
		fmt.Sprintf("its %d vCPUs cannot be divided %s, as preference %q wants", vCPUs, needs, pref.Name))
}

// ratioZero is the case that KubeVirt crashes on: vCPUs divided by a ratio of 0.
func ratioZero(path *field.Path, pref *Preference) *field.Error {
	t := topologyOf(pref)
	if !t.dividesByRatio() || t.ratio != 0 {
		return nil
	}
	return field.Invalid(path, pref.Name, "its spec.cpu.spreadOptions.ratio is 0, but vCPUs are divided by it: it must be 1 or more")
}
