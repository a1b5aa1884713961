package v1beta1

// The reasons of the condition Ready of a template, and of its volumes.
const (
	// ReasonTemplateReady: a VirtualMachine can be made of the template, as far as it does not depend on required
	// parameters.
	ReasonTemplateReady = "TemplateReady"
	// ReasonInvalid: the template cannot be rendered.
	ReasonInvalid = "Invalid"
	// ReasonDenied: the VirtualMachine that the template makes is denied, by a check or by a policy.
	ReasonDenied = "Denied"
	// ReasonReferenceMissing: the instancetype or the preference does not exist.
	ReasonReferenceMissing = "ReferenceMissing"
	// ReasonVolumeNotReady: a volume that the template depends on does not exist, or is not ready.
	ReasonVolumeNotReady = "VolumeNotReady"
	// ReasonNotObserved: the template of this generation could not be evaluated yet.
	ReasonNotObserved = "NotObserved"
	// ReasonVolumeReady: the object exists and is ready.
	ReasonVolumeReady = "VolumeReady"
	// ReasonVolumeMissing: the object does not exist.
	ReasonVolumeMissing = "VolumeMissing"
	// ReasonVolumeUnknown: the name of the object depends on a required parameter.
	ReasonVolumeUnknown = "VolumeUnknown"
)
