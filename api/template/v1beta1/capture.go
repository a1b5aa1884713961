package v1beta1

// Names on the objects of a capture.
const (
	// LabelRequestUID has the UID of the request that an object was created for: a snapshot, a DataVolume or a template.
	LabelRequestUID = "template.kubevirt.io/RequestUID"
	// FinalizerSnapshotCleanup is on a request while a capture has objects that the garbage collector does not delete.
	FinalizerSnapshotCleanup = "template.kubevirt.io/SnapshotCleanup"
)

// The reasons of the conditions of a request.
const (
	// ReasonWaiting: Ready is false, because the template does not exist yet, or is not ready.
	ReasonWaiting = "Waiting"
	// ReasonReconciled: the work is done.
	ReasonReconciled = "Reconciled"
	// ReasonSnapshotting: the snapshot of the VirtualMachine is not ready.
	ReasonSnapshotting = "Snapshotting"
	// ReasonCloning: the volumes of the snapshot are cloned.
	ReasonCloning = "Cloning"
	// ReasonCreatingTemplate: the clones are complete, and the template is created.
	ReasonCreatingTemplate = "CreatingTemplate"
	// ReasonCleaningUp: the template exists, and the snapshot is deleted.
	ReasonCleaningUp = "CleaningUp"
	// ReasonBlocked: the API server denies an object, for example because of a quota. Virtward tries again.
	ReasonBlocked = "Blocked"
	// ReasonInvalidConfiguration: the spec of the request cannot be captured.
	ReasonInvalidConfiguration = "InvalidConfiguration"
	// ReasonNameTaken: an object with the name of the template, or of an intermediate object, exists and is not of this
	// request.
	ReasonNameTaken = "NameTaken"
	// ReasonSnapshotFailed: KubeVirt could not snapshot the VirtualMachine, or the snapshot was deleted.
	ReasonSnapshotFailed = "SnapshotFailed"
	// ReasonVolumesNotCaptured: the snapshot has no copy of some volumes.
	ReasonVolumesNotCaptured = "VolumesNotCaptured"
	// ReasonExpansionFailed: the instancetype or the preference cannot be applied.
	ReasonExpansionFailed = "ExpansionFailed"
	// ReasonCloneFailed: a volume could not be cloned.
	ReasonCloneFailed = "CloneFailed"
	// ReasonDeadlineExceeded: a step took too long.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonSourceNotQuiesced: the VirtualMachine ran during the snapshot, and its guest agent did not freeze the file systems.
	ReasonSourceNotQuiesced = "SourceNotQuiesced"
	// ReasonSourceNotStopped: the VirtualMachine ran during the snapshot, or its run strategy starts it.
	ReasonSourceNotStopped = "SourceNotStopped"
	// ReasonRejected: the API server rejects an object for good.
	ReasonRejected = "Rejected"
)

// InstancetypePolicy says what a capture does with an instancetype and a preference.
type InstancetypePolicy string

// The policies of a capture for instancetypes and preferences.
const (
	// InstancetypeExpand writes their fields into the template. It does not depend on them.
	InstancetypeExpand InstancetypePolicy = "Expand"
	// InstancetypeKeep keeps the references.
	InstancetypeKeep InstancetypePolicy = "Keep"
)

// SourceState is the state of a VirtualMachine while it is snapshotted.
type SourceState string

// The states of a source.
const (
	// SourceAny requires nothing.
	SourceAny SourceState = "Any"
	// SourceQuiesced: the guest agent froze the file systems of the running VirtualMachine.
	SourceQuiesced SourceState = "Quiesced"
	// SourceStopped: the VirtualMachine did not run.
	SourceStopped SourceState = "Stopped"
	// SourceRunning: the VirtualMachine ran, and nothing froze its file systems. A request cannot require it.
	SourceRunning SourceState = "Running"
)

// AnnotationSourceState of a captured template has the state of its source: Running, Quiesced or Stopped.
const AnnotationSourceState = "template.virtward.io/source-state"
