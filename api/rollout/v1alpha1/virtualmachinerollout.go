package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// VirtualMachineRollout applies a change to the virtual machines of a
// namespace, step by step. Without a patch, it applies the changes that are
// pending already.
//
// The rollout acts with the permissions of Virtward, but only as far as the
// user who wrote its spec is permitted to change, migrate and restart the
// virtual machines.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=virtualmachinerollouts,singular=virtualmachinerollout,scope=Namespaced,shortName=vmrollout,categories=virtward
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.counts.failed`
// +kubebuilder:printcolumn:name="Skipped",type=integer,JSONPath=`.status.counts.skipped`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Complete",type=string,JSONPath=`.status.conditions[?(@.type=="Complete")].status`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type VirtualMachineRollout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The virtual machines, the change, and how it is carried out.
	Spec VirtualMachineRolloutSpec `json:"spec"`

	// What was carried out.
	//
	// +optional
	Status VirtualMachineRolloutStatus `json:"status,omitempty"`
}

// VirtualMachineRolloutSpec has the virtual machines, the change, and how it
// is carried out.
type VirtualMachineRolloutSpec struct {
	// Labels of the virtual machines. An empty selector selects all virtual
	// machines of the namespace.
	Selector metav1.LabelSelector `json:"selector"`

	// JSON merge patch of the spec of each virtual machine. For example:
	// {"instancetype": {"name": "u1.large"}}. It must not contain volumes,
	// disks, networks, interfaces, dataVolumeTemplates, firmware, hostname,
	// running or runStrategy. Without a patch, the rollout only takes the
	// changes that are pending.
	//
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:pruning:PreserveUnknownFields
	Patch *runtime.RawExtension `json:"patch,omitempty"`

	// What may be done with a virtual machine so that the change reaches its
	// guest. Live: nothing but the change. Migrate: a live migration. Restart:
	// a restart. A virtual machine that needs something else is skipped and
	// not changed. The default is Live.
	//
	// +optional
	// +listType=set
	// +kubebuilder:default={Live}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	Allow []Permission `json:"allow,omitempty"`

	// How many virtual machines are changed at the same time, and in which
	// order.
	//
	// +optional
	Strategy RolloutStrategy `json:"strategy,omitempty"`

	// Times at which restarts and migrations may begin. Without windows, they
	// may begin at any time. What has begun is completed after the end of a
	// window.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Windows []Window `json:"windows,omitempty"`

	// When a virtual machine counts as healthy after its change.
	//
	// +optional
	Health Health `json:"health,omitempty"`

	// What happens if virtual machines fail. Pause, the default: the rollout
	// pauses after more than maxFailures. Continue: it continues with the other
	// virtual machines, up to 100 failures.
	//
	// +optional
	// +kubebuilder:default=Pause
	// +kubebuilder:validation:Enum=Pause;Continue
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`

	// Number of failed virtual machines that do not pause the rollout. The
	// default is 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MaxFailures int32 `json:"maxFailures,omitempty"`

	// Whether virtual machines are skipped for which the patch is denied. By
	// default, no virtual machine is changed if the patch is denied for one.
	//
	// +optional
	SkipDenied bool `json:"skipDenied,omitempty"`

	// Whether the rollout is paused. What has begun is completed.
	//
	// +optional
	Paused bool `json:"paused,omitempty"`

	// How often you resumed the rollout. Increase it to continue a rollout that
	// paused itself, after its canary or after failures. Failed virtual
	// machines are tried again.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Resume int32 `json:"resume,omitempty"`

	// Whether the rollout only shows what it would do.
	//
	// +optional
	DryRun bool `json:"dryRun,omitempty"`

	// Virtward deletes the rollout this number of seconds after its end. A
	// rollout with failures is kept.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// Permission is what may be done with a virtual machine.
//
// +kubebuilder:validation:Enum=Live;Migrate;Restart
type Permission string

// The permissions.
const (
	// AllowLive permits changes that reach the guest at once.
	AllowLive Permission = "Live"
	// AllowMigrate permits live migrations.
	AllowMigrate Permission = "Migrate"
	// AllowRestart permits restarts.
	AllowRestart Permission = "Restart"
)

// RolloutStrategy is how many virtual machines are changed at the same time,
// and in which order. The order is that of their names.
type RolloutStrategy struct {
	// Number or percentage of the selected virtual machines that may be
	// unavailable. A virtual machine that is being changed counts as
	// unavailable until it is healthy, unless it only migrates. Virtual
	// machines that are down for other reasons count too. Percentages are
	// rounded down, but to no less than 1. The default is 1. At most 100
	// virtual machines are changed at the same time.
	//
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:Pattern=`^(100|[1-9][0-9]?)%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 1",message="must be at least 1"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// Number of selected virtual machines that may migrate at the same time.
	// The default is 2.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxConcurrentMigrations *int32 `json:"maxConcurrentMigrations,omitempty"`

	// Number or percentage of the selected virtual machines, the last ones by
	// name, that are not changed. Percentages are rounded up. Decrease it to
	// continue.
	//
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:Pattern=`^(100|[1-9]?[0-9])%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="must be at least 0"
	Partition *intstr.IntOrString `json:"partition,omitempty"`

	// The first virtual machines, after which the rollout pauses.
	//
	// +optional
	Canary *Canary `json:"canary,omitempty"`
}

// Canary is a group of virtual machines that are changed first.
type Canary struct {
	// Number of virtual machines.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Count int32 `json:"count"`

	// How long the rollout pauses after the canary: a duration such as 30m, or
	// Manual, the default. After Manual, increase spec.resume to continue.
	//
	// +optional
	// +kubebuilder:default=Manual
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(Manual|([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,6}s)?([0-9]{1,6}ms)?)$`
	Pause string `json:"pause,omitempty"`
}

// PauseManual is the pause of a canary that a user ends.
const PauseManual = "Manual"

// Window is a recurring time.
type Window struct {
	// When the window opens, in cron's format: minute, hour, day of the month,
	// month, day of the week. For example: 0 22 * * 6.
	//
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=128
	Schedule string `json:"schedule"`

	// How long it is open, such as 4h30m.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,6}s)?([0-9]{1,6}ms)?$`
	Duration metav1.Duration `json:"duration"`

	// Time zone of the schedule, by its name in the time zone database. For
	// example: Europe/Zurich. The default is UTC.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_+/-]*$`
	TimeZone string `json:"timeZone,omitempty"`
}

// Health is when a virtual machine counts as healthy.
type Health struct {
	// How long a step may take: until the change is live, the migration has
	// ended, or the restarted virtual machine is healthy. Afterwards the
	// virtual machine counts as failed. The default is 10m.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,6}s)?([0-9]{1,6}ms)?$`
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// The condition of the VirtualMachineInstance that must be true: Ready, the
	// default, or AgentConnected, which requires Ready too.
	//
	// +optional
	// +kubebuilder:default=Ready
	// +kubebuilder:validation:Enum=Ready;AgentConnected
	Ready Readiness `json:"ready,omitempty"`
}

// Readiness is a condition of a VirtualMachineInstance.
type Readiness string

// The values of Readiness.
const (
	ReadyByCondition Readiness = "Ready"
	ReadyByAgent     Readiness = "AgentConnected"
)

// FailurePolicy is what happens if virtual machines fail.
type FailurePolicy string

// The failure policies.
const (
	FailurePause    FailurePolicy = "Pause"
	FailureContinue FailurePolicy = "Continue"
)

// Conditions of a rollout.
const (
	// ConditionProgressing: the rollout changes virtual machines, or waits for a window, a budget or another rollout.
	ConditionProgressing = "Progressing"
	// ConditionComplete: no selected virtual machine is left to change, and none failed.
	ConditionComplete = "Complete"
	// ConditionDegraded: virtual machines failed, the patch is denied, or the spec cannot be carried out.
	ConditionDegraded = "Degraded"
	// ConditionPaused: no further virtual machine is changed until a user acts, or the pause of the canary ends.
	ConditionPaused = "Paused"
)

// Reasons of conditions.
const (
	ReasonComplete          = "Complete"
	ReasonNoMachines        = "NoVirtualMachines"
	ReasonDryRun            = "DryRun"
	ReasonFailed            = "VirtualMachinesFailed"
	ReasonDenied            = "PatchDenied"
	ReasonInvalid           = "Invalid"
	ReasonNotAuthorized     = "NotAuthorized"
	ReasonPausedByUser      = "PausedByUser"
	ReasonPausedByCanary    = "PausedByCanary"
	ReasonPausedByFailures  = "PausedByFailures"
	ReasonPausedByPartition = "PausedByPartition"
	ReasonRollingOut        = "RollingOut"
	ReasonWaiting           = "Waiting"
	ReasonHealthy           = "NoFailures"
	ReasonNotPaused         = "NotPaused"
)

// Phase is the state of a rollout in one word.
type Phase string

// The phases.
const (
	PhaseProgressing Phase = "Progressing"
	PhaseWaiting     Phase = "Waiting"
	PhasePaused      Phase = "Paused"
	PhaseDenied      Phase = "Denied"
	PhaseInvalid     Phase = "Invalid"
	PhaseComplete    Phase = "Complete"
	PhaseFailed      Phase = "Failed"
	PhaseDryRun      Phase = "DryRun"
)

// State is that of a virtual machine in a rollout.
//
// +kubebuilder:validation:Enum=Pending;Waiting;Updating;Migrating;Restarting;Verifying;Done;Skipped;Failed
type State string

// The states.
const (
	// StatePending: its turn has not come.
	StatePending State = "Pending"
	// StateWaiting: it waits for a window, a budget, another rollout, or for something that blocks the change.
	StateWaiting State = "Waiting"
	// StateUpdating: the change is written, and is about to reach the guest without a migration or a restart.
	StateUpdating State = "Updating"
	// StateMigrating: a live migration takes the change.
	StateMigrating State = "Migrating"
	// StateRestarting: a restart takes the change.
	StateRestarting State = "Restarting"
	// StateVerifying: the guest has the change, and is not healthy yet.
	StateVerifying State = "Verifying"
	// StateDone: nothing is left to do.
	StateDone State = "Done"
	// StateSkipped: the rollout does not change it, or it is stopped.
	StateSkipped State = "Skipped"
	// StateFailed: a step failed or took too long.
	StateFailed State = "Failed"
)

// The bounds of a status.
const (
	// MaxInProgress bounds the virtual machines that are changed at the same time.
	MaxInProgress = 100
	// MaxFailed bounds the failed virtual machines: the rollout pauses at this number.
	MaxFailed = 100
	// MaxMachines bounds the virtual machines in a status.
	MaxMachines = 300
	// MaxFindings bounds the findings in a status.
	MaxFindings = 50
	// MaxReason bounds the reason of a virtual machine, in bytes.
	MaxReason = 256
)

// VirtualMachineRolloutStatus is what was carried out.
type VirtualMachineRolloutStatus struct {
	// Generation of the spec that the status is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// The state in one word: Progressing, Waiting, Paused, Denied, Invalid,
	// Complete, Failed or DryRun.
	//
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// Number of virtual machines that are done, and of all. For example:
	// 12/200.
	//
	// +optional
	Progress string `json:"progress,omitempty"`

	// Progressing: virtual machines are being changed, or wait. Complete: no
	// selected virtual machine is left, and none failed. Degraded: virtual
	// machines failed, or the patch is denied. Paused: no further virtual
	// machine is changed.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Numbers of virtual machines.
	//
	// +optional
	Counts Counts `json:"counts,omitempty"`

	// Virtual machines: all that are being changed, all that failed, and as
	// many others as there is space for, at most 300.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=300
	VirtualMachines []MachineStatus `json:"virtualMachines,omitempty"`

	// Number of virtual machines that are not listed.
	//
	// +optional
	Omitted int32 `json:"omitted,omitempty"`

	// Digest of the patch that the status is about.
	//
	// +optional
	Change string `json:"change,omitempty"`

	// What the evaluation of the patch found.
	//
	// +optional
	Validation *Validation `json:"validation,omitempty"`

	// When the last virtual machine of the canary was changed.
	//
	// +optional
	CanaryEnded *metav1.Time `json:"canaryEnded,omitempty"`

	// Whether the rollout continues after its canary.
	//
	// +optional
	CanaryPassed bool `json:"canaryPassed,omitempty"`

	// The value of spec.resume that the rollout has taken into account.
	//
	// +optional
	Resumed int32 `json:"resumed,omitempty"`

	// When the rollout ended.
	//
	// +optional
	Finished *metav1.Time `json:"finished,omitempty"`
}

// Counts are numbers of selected virtual machines, by state.
type Counts struct {
	// All selected virtual machines.
	Total int32 `json:"total"`
	// Their turn has not come.
	Pending int32 `json:"pending,omitempty"`
	// They wait for a window, a budget, another rollout, or for something that
	// blocks the change.
	Waiting int32 `json:"waiting,omitempty"`
	// The change is written, and is about to reach the guest.
	Updating int32 `json:"updating,omitempty"`
	// A live migration takes the change.
	Migrating int32 `json:"migrating,omitempty"`
	// A restart takes the change.
	Restarting int32 `json:"restarting,omitempty"`
	// The guest has the change, and is not healthy yet.
	Verifying int32 `json:"verifying,omitempty"`
	// The change is done.
	Done int32 `json:"done,omitempty"`
	// The rollout does not change them, or they are stopped.
	Skipped int32 `json:"skipped,omitempty"`
	// A step failed or took too long.
	Failed int32 `json:"failed,omitempty"`
	// Number of virtual machines that should run and are not ready.
	Unavailable int32 `json:"unavailable,omitempty"`
}

// MachineStatus is the state of a virtual machine.
type MachineStatus struct {
	// Name of the virtual machine.
	Name string `json:"name"`

	// UID of the virtual machine.
	//
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// Its state.
	State State `json:"state"`

	// Why it is in this state.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`

	// When the state began.
	//
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// UID of the VirtualMachineInstance before the restart.
	//
	// +optional
	Instance types.UID `json:"instance,omitempty"`

	// Name of the VirtualMachineInstanceMigration that the rollout creates.
	// Empty if KubeVirt migrates the virtual machine by itself.
	//
	// +optional
	Migration string `json:"migration,omitempty"`

	// Number of the attempts before this one.
	//
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
}

// Validation is what the evaluation of the patch found.
type Validation struct {
	// Generation of the spec whose patch was evaluated.
	Generation int64 `json:"generation"`

	// Whether the rollout may begin.
	Passed bool `json:"passed"`

	// Number of virtual machines for which the patch is denied.
	//
	// +optional
	Denied int32 `json:"denied,omitempty"`

	// Findings of denied virtual machines, at most 50.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Findings []Finding `json:"findings,omitempty"`

	// Number of findings that are not listed.
	//
	// +optional
	Omitted int32 `json:"omitted,omitempty"`
}

// Finding is why the patch is denied for a virtual machine.
type Finding struct {
	// Name of the virtual machine.
	VirtualMachine string `json:"virtualMachine"`

	// Path of the field.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Field string `json:"field,omitempty"`

	// Why the field is denied.
	//
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message"`

	// ID of the rule, or name of the policy.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Rule string `json:"rule,omitempty"`
}

// VirtualMachineRolloutList is a list of VirtualMachineRollouts.
//
// +kubebuilder:object:root=true
type VirtualMachineRolloutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []VirtualMachineRollout `json:"items"`
}
