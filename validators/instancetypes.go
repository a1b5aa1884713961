package validators

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/mutators"
)

type (
	instancetypeSpec = instancetypev1beta1.VirtualMachineInstancetypeSpec
	preferenceSpec   = instancetypev1beta1.VirtualMachinePreferenceSpec
)

// instancetypeRules are about instancetypes by themselves. KubeVirt's own webhook knows the first two and the
// last; the others find what no VM could be made with, whatever else it says: a VM may not set what its
// instancetype sets.
func instancetypeRules() Table {
	return Scoped(OnInstancetype,
		overcommitRangeRule,
		overcommitHugepagesRule,
		instancetypePageSizeRule,
		instancetypeWholePagesRule,
		instancetypeMaxGuestRule,
		instancetypeDedicatedRule,
		instancetypeIOThreadsRule,
		launchSecurityDeprecatedRule,
	)
}

// preferenceRules are about preferences by themselves. What KubeVirt's own webhook does not know of them is the
// ratio of 0, which crashes it as soon as a VM comes with such a preference, and the architecture.
func preferenceRules() Table {
	return Scoped(OnPreference,
		topologyKnownRule,
		topologyDeprecatedRule,
		spreadAcrossRule,
		spreadRatioRule,
		requiredArchitectureRule,
	)
}

// ofInstancetype makes a rule of a check of an instancetype.
func ofInstancetype(check func(*Subject, *instancetypeSpec, *Errors)) func(*Subject, *Errors) {
	return func(s *Subject, found *Errors) {
		if s.Instancetype == nil {
			return
		}
		check(s, s.Instancetype, found)
	}
}

// ofPreference makes a rule of a check of a preference.
func ofPreference(check func(*Subject, *preferenceSpec, *Errors)) func(*Subject, *Errors) {
	return func(s *Subject, found *Errors) {
		if s.Preference == nil {
			return
		}
		check(s, s.Preference, found)
	}
}

var overcommitRangeRule = Rule{
	ID:     "instancetype-overcommit-range",
	Title:  "An instancetype overcommits memory by 0 to 100 percent",
	Remedy: "Correct memory.overcommitPercent, or leave it out.",
	Check:  ofInstancetype(overcommitRange),
}

func overcommitRange(s *Subject, in *instancetypeSpec, found *Errors) {
	if percent := in.Memory.OvercommitPercent; percent < 0 || percent > 100 {
		found.Add(field.Invalid(s.Path.Child("memory", "overcommitPercent"), percent, "must be from 0 to 100"))
	}
}

var overcommitHugepagesRule = Rule{
	ID:     "instancetype-overcommit-hugepages",
	Title:  "An instancetype does not overcommit hugepages",
	Remedy: "Leave out memory.overcommitPercent or memory.hugepages.",
	Check:  ofInstancetype(overcommitHugepages),
}

func overcommitHugepages(s *Subject, in *instancetypeSpec, found *Errors) {
	if in.Memory.OvercommitPercent == 0 || in.Memory.Hugepages == nil {
		return
	}
	found.Add(field.Invalid(s.Path.Child("memory", "overcommitPercent"), in.Memory.OvercommitPercent,
		"memory.hugepages is set, and hugepages cannot be overcommitted"))
}

var instancetypePageSizeRule = Rule{
	ID:     "instancetype-hugepages-size",
	Title:  "The size of an instancetype's hugepages is an amount of memory",
	Remedy: "Set memory.hugepages.pageSize to a size that the nodes have, such as 2Mi or 1Gi.",
	Check:  ofInstancetype(instancetypePageSize),
}

func instancetypePageSize(s *Subject, in *instancetypeSpec, found *Errors) {
	badPageSize(under(s.Path, "memory", "hugepages", "pageSize"), in.Memory.Hugepages, found)
}

var instancetypeWholePagesRule = Rule{
	ID:     "instancetype-hugepages-multiple",
	Title:  "The memory of an instancetype is a multiple of its hugepages",
	Remedy: "Set memory.guest to a multiple of memory.hugepages.pageSize.",
	Check:  ofInstancetype(instancetypeWholePages),
}

func instancetypeWholePages(s *Subject, in *instancetypeSpec, found *Errors) {
	notWholePages(under(s.Path, "memory", "guest"), &in.Memory.Guest, in.Memory.Hugepages, found)
}

var instancetypeMaxGuestRule = Rule{
	ID:     "instancetype-max-guest-reachable",
	Title:  "A guest of an instancetype with maxGuest can grow to it while it runs",
	Remedy: "Remove memory.maxGuest, or correct what the message names.",
	Check:  ofInstancetype(instancetypeMaxGuest),
}

// instancetypeMaxGuest holds only where changes are rolled out live, as for a VM. It looks at the guest with the
// fewest obstacles that the instancetype allows: on amd64, and with nothing but the instancetype.
func instancetypeMaxGuest(s *Subject, in *instancetypeSpec, found *Errors) {
	if !s.Facts.LiveUpdate || in.Memory.MaxGuest == nil {
		return
	}
	guest := v1.VirtualMachineInstanceSpec{Architecture: architectures.AMD64}
	guest.Domain.CPU = &v1.CPU{NUMA: in.CPU.NUMA, Realtime: in.CPU.Realtime}
	guest.Domain.Memory = &v1.Memory{Guest: &in.Memory.Guest, Hugepages: in.Memory.Hugepages}
	guest.Domain.LaunchSecurity = in.LaunchSecurity
	obstacle := mutators.MemoryHotplugObstacle(&guest, in.Memory.MaxGuest)
	if obstacle == "" {
		return
	}
	found.Add(field.Invalid(s.Path.Child("memory", "maxGuest"), in.Memory.MaxGuest.String(), "no guest can grow to it: "+obstacle))
}

var instancetypeDedicatedRule = Rule{
	ID:     "instancetype-dedicated-cpus",
	Title:  "An instancetype enables the dedicated CPUs that it needs",
	Remedy: "Set cpu.dedicatedCPUPlacement to true, or leave out what needs it.",
	Check:  ofInstancetype(instancetypeDedicated),
}

// instancetypeDedicated checks only dedicatedCPUPlacement: false. If it is left out, the VM may set it.
func instancetypeDedicated(s *Subject, in *instancetypeSpec, found *Errors) {
	cpu := &in.CPU
	if cpu.DedicatedCPUPlacement == nil || *cpu.DedicatedCPUPlacement {
		return
	}
	var needing []string
	if cpu.IsolateEmulatorThread != nil && *cpu.IsolateEmulatorThread {
		needing = append(needing, "isolateEmulatorThread")
	}
	if cpu.NUMA != nil && cpu.NUMA.GuestMappingPassthrough != nil {
		needing = append(needing, "numa.guestMappingPassthrough")
	}
	if cpu.Realtime != nil {
		needing = append(needing, "realtime")
	}
	if len(needing) == 0 {
		return
	}
	found.Add(field.Invalid(s.Path.Child("cpu", "dedicatedCPUPlacement"), false, "dedicated CPUs are needed for "+strings.Join(needing, ", ")))
}

var instancetypeIOThreadsRule = Rule{
	ID:     "instancetype-iothreads-policy",
	Title:  "The policy of an instancetype's I/O threads is known",
	Remedy: "Set ioThreadsPolicy to a supported value, or leave it out.",
	Check:  ofInstancetype(instancetypeIOThreads),
}

func instancetypeIOThreads(s *Subject, in *instancetypeSpec, found *Errors) {
	badIOThreadsPolicy(under(s.Path, "ioThreadsPolicy"), in.IOThreadsPolicy, found)
}

var launchSecurityDeprecatedRule = Rule{
	ID:       "instancetype-launch-security-deprecated",
	Title:    "launchSecurity of an instancetype is deprecated",
	Remedy:   "Use preferredLaunchSecurity of a preference.",
	Severity: Warn,
	Check:    ofInstancetype(launchSecurityDeprecated),
}

func launchSecurityDeprecated(s *Subject, in *instancetypeSpec, found *Errors) {
	if in.LaunchSecurity == nil {
		return
	}
	found.Add(field.Invalid(s.Path.Child("launchSecurity"), field.OmitValueType{}, "is deprecated"))
}

// topologies are the names of today.
var topologies = []instancetypev1beta1.PreferredCPUTopology{
	instancetypev1beta1.Sockets, instancetypev1beta1.Cores, instancetypev1beta1.Threads, instancetypev1beta1.Spread, instancetypev1beta1.Any,
}

// askedTopology is the topology that a preference asks for as it is written, and under its name of today; false
// if it asks for none.
func askedTopology(pref *preferenceSpec) (written, current instancetypev1beta1.PreferredCPUTopology, asked bool) {
	if pref.CPU == nil || pref.CPU.PreferredCPUTopology == nil {
		return "", "", false
	}
	written = *pref.CPU.PreferredCPUTopology
	return written, instancetypes.CurrentTopology(written), true
}

var topologyKnownRule = Rule{
	ID:     "preference-topology",
	Title:  "The CPU topology of a preference is known",
	Remedy: "Set cpu.preferredCPUTopology to a supported value, or leave it out.",
	Check:  ofPreference(topologyKnown),
}

func topologyKnown(s *Subject, pref *preferenceSpec, found *Errors) {
	written, current, asked := askedTopology(pref)
	if !asked || slices.Contains(topologies, current) {
		return
	}
	found.Add(unknown(s.Path.Child("cpu", "preferredCPUTopology"), written, "the CPU topology", topologies))
}

var topologyDeprecatedRule = Rule{
	ID:       "preference-topology-deprecated",
	Title:    "The names of CPU topologies with prefer are deprecated",
	Remedy:   "Set cpu.preferredCPUTopology to the new name.",
	Severity: Warn,
	Check:    ofPreference(topologyDeprecated),
}

func topologyDeprecated(s *Subject, pref *preferenceSpec, found *Errors) {
	written, current, asked := askedTopology(pref)
	if !asked || written == current {
		return
	}
	found.Add(field.Invalid(s.Path.Child("cpu", "preferredCPUTopology"), written, fmt.Sprintf("is deprecated: use %s", current)))
}

// spreads reports whether vCPUs are to be spread; how is of no interest otherwise.
func spreads(pref *preferenceSpec) bool {
	_, current, asked := askedTopology(pref)
	return asked && current == instancetypev1beta1.Spread
}

var spreadAcrossRule = Rule{
	ID:     "preference-spread-across",
	Title:  "The spread of vCPUs is known",
	Remedy: "Set cpu.spreadOptions.across to a supported value, or leave it out.",
	Check:  ofPreference(spreadAcross),
}

var spreadsAcross = []instancetypev1beta1.SpreadAcross{
	instancetypev1beta1.SpreadAcrossSocketsCores, instancetypev1beta1.SpreadAcrossCoresThreads, instancetypev1beta1.SpreadAcrossSocketsCoresThreads,
}

func spreadAcross(s *Subject, pref *preferenceSpec, found *Errors) {
	if !spreads(pref) {
		return
	}
	if across, _ := instancetypes.SpreadOf(pref); !slices.Contains(spreadsAcross, across) {
		found.Add(unknown(s.Path.Child("cpu", "spreadOptions", "across"), across, "the spread", spreadsAcross))
	}
}

// siblingThreads is the number of threads per core that a guest can have where cores are spread over threads.
const siblingThreads = 2

var spreadRatioRule = Rule{
	ID:     "preference-spread-ratio",
	Title:  "The ratio of the spread of vCPUs is possible",
	Remedy: "Set cpu.spreadOptions.ratio to 2, or, where sockets are spread, to 1 or more.",
	Check:  ofPreference(spreadRatio),
}

// spreadRatio names the ratio of spreadOptions also where it comes from preferSpreadSocketToCoreRatio, which is
// what that one stands for.
func spreadRatio(s *Subject, pref *preferenceSpec, found *Errors) {
	if !spreads(pref) {
		return
	}
	var problem string
	across, ratio := instancetypes.SpreadOf(pref)
	switch across {
	case instancetypev1beta1.SpreadAcrossCoresThreads:
		if ratio != siblingThreads {
			problem = fmt.Sprintf("must be %d where vCPUs are spread across cores and threads", siblingThreads)
		}
	case instancetypev1beta1.SpreadAcrossSocketsCores, instancetypev1beta1.SpreadAcrossSocketsCoresThreads:
		if ratio == 0 {
			problem = "must be at least 1, because vCPUs are divided by it"
		}
	}
	if problem == "" {
		return
	}
	if options := pref.CPU.SpreadOptions; options == nil || options.Ratio == nil {
		problem += "; this ratio is that of preferSpreadSocketToCoreRatio"
	}
	found.Add(field.Invalid(s.Path.Child("cpu", "spreadOptions", "ratio"), ratio, problem))
}

var requiredArchitectureRule = Rule{
	ID:     "preference-required-architecture",
	Title:  "A preference requires a known architecture",
	Remedy: "Set requirements.architecture to " + architectures.Sentence("or") + ", or leave it out.",
	Check:  ofPreference(requiredArchitecture),
}

func requiredArchitecture(s *Subject, pref *preferenceSpec, found *Errors) {
	if pref.Requirements == nil || pref.Requirements.Architecture == nil || architectures.Known(*pref.Requirements.Architecture) {
		return
	}
	found.Add(field.NotSupported(s.Path.Child("requirements", "architecture"), *pref.Requirements.Architecture, architectures.Names()))
}
