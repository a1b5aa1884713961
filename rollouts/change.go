package rollouts

// MaxChanges bounds the changes of a result.
const MaxChanges = 128

// Takes is when a change reaches the guest.
type Takes string

// The values of Takes.
const (
	// Live changes reach the guest at once, or as soon as KubeVirt's other controllers act.
	Live Takes = "Live"
	// LiveOnMigration changes reach the guest with its next live migration.
	LiveOnMigration Takes = "LiveOnMigration"
	// Restart changes need a restart of the VM.
	Restart Takes = "Restart"
	// NextStart changes take effect when the stopped VM starts.
	NextStart Takes = "NextStart"
	// Blocked changes wait until something else ends or exists.
	Blocked Takes = "Blocked"
	// Never changes have no effect, not even by a restart.
	Never Takes = "Never"
)

// Announcement is how KubeVirt announces that a change is pending.
type Announcement string

// The values of Announcement.
const (
	// Silent changes are not announced.
	Silent Announcement = ""
	// ByRestartRequired changes set the condition RestartRequired of the VM.
	ByRestartRequired Announcement = "RestartRequired"
	// ByCondition changes set a condition of the instance: HotVCPUChange, HotMemoryChange, MigrationRequired, VolumesChange.
	ByCondition Announcement = "Condition"
	// ByFailure changes set the condition Failure of the VM.
	ByFailure Announcement = "Failure"
)

// Change is a field whose desired value is not the one that runs.
type Change struct {
	// Field is the path in the VM: spec.template.spec.domain.cpu.sockets. Named items of a list have their name in brackets.
	Field string `json:"field"`
	// Old is what runs, and New what is desired, in short. An absent value is empty.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// Layer is the source of a value that the VM does not write itself: instancetype/NAME or preference/NAME.
	Layer string `json:"layer,omitempty"`
	// Takes is when the change reaches the guest.
	Takes Takes `json:"takes"`
	// Patched reports whether KubeVirt writes the change to the running instance.
	Patched bool `json:"patched"`
	// InProgress changes are on the running instance already, and have not reached the guest.
	InProgress bool `json:"inProgress,omitempty"`
	// Reattached reports whether KubeVirt detaches the device, and attaches it again later.
	Reattached bool `json:"reattached,omitempty"`
	// Announced is how KubeVirt announces that the change is pending.
	Announced Announcement `json:"announced,omitempty"`
	// Rule is the id of the rule that applies.
	Rule string `json:"rule"`
	// Reason says why, for the owner of the VM.
	Reason string `json:"reason"`
	// WayOut says what to do if the change does not simply happen.
	WayOut string `json:"wayOut,omitempty"`
}

// Result is the plan of a VM: what differs, what is in progress, and at what KubeVirt fails.
type Result struct {
	// Changes in the order of the rules, and of the fields within a rule.
	Changes []Change `json:"changes"`
	// Omitted is the number of changes beyond MaxChanges.
	Omitted int `json:"omitted,omitempty"`
	// RestartRequired is the reason for which KubeVirt sets the condition RestartRequired; empty if it does not.
	RestartRequired RestartReason `json:"restartRequired,omitempty"`
	// Failure is the step at which KubeVirt fails; empty if it does not. Then one of the changes is announced ByFailure.
	Failure string `json:"failure,omitempty"`
}

// Pending reports whether a change does not simply happen.
func (c *Change) Pending() bool { return c.Takes != Live }

// RestartReason is a class of KubeVirt's condition RestartRequired.
type RestartReason string

// The values of RestartReason.
const (
	ReasonTemplate          RestartReason = "TemplateChanged"
	ReasonSocketsBeyond     RestartReason = "SocketsBeyondMaximum"
	ReasonSocketsReduced    RestartReason = "SocketsReduced"
	ReasonNoCPUHotplug      RestartReason = "CPUHotplugUnsupported"
	ReasonMemoryFailed      RestartReason = "MemoryHotplugFailed"
	ReasonMemoryMigration   RestartReason = "MemoryNotMigratable"
	ReasonMemoryUnavailable RestartReason = "MemoryHotplugUnavailable"
	ReasonMemoryUnsupported RestartReason = "MemoryHotplugUnsupported"
	ReasonMemoryBelowBoot   RestartReason = "MemoryBelowStart"
	ReasonMemoryBeyond      RestartReason = "MemoryBeyondMaximum"
	ReasonVolumesInvalid    RestartReason = "VolumesNotMigratable"
	ReasonOther             RestartReason = "Other"
)

// messages are how KubeVirt's messages of RestartRequired begin.
var messages = []struct {
	begins string
	reason RestartReason
}{
	{"a non-live-updatable field", ReasonTemplate},
	{"CPU sockets updated in template spec to a value higher", ReasonSocketsBeyond},
	{"Reduction of CPU socket count", ReasonSocketsReduced},
	{"ARM doesn't support CPU hotplug", ReasonNoCPUHotplug},
	{"memory updated in template spec. Memory-hotplug failed", ReasonMemoryFailed},
	{"memory updated in template spec. Memory-hotplug is only", ReasonMemoryMigration},
	{"memory updated in template spec. Memory-hotplug is not", ReasonMemoryUnavailable},
	{"memory hotplug not supported", ReasonMemoryUnsupported},
	{"memory updated in template spec to a value lower", ReasonMemoryBelowBoot},
	{"memory updated in template spec to a value higher", ReasonMemoryBeyond},
	{"invalid volumes to update with migration", ReasonVolumesInvalid},
	{"cannot migrate the", ReasonVolumesInvalid},
}

// ReasonOf is the class of a message of the condition RestartRequired.
func ReasonOf(message string) RestartReason {
	for i := range messages {
		if begins := messages[i].begins; len(message) >= len(begins) && message[:len(begins)] == begins {
			return messages[i].reason
		}
	}
	return ReasonOther
}
