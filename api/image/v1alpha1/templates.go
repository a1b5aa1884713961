package v1alpha1

// Labels and annotations of VM templates.
const (
	// PerArchitectureLabel is on a VirtualMachineTemplate that gets a variant
	// for each architecture of a golden image. Its value is the DataSource of
	// the image.
	PerArchitectureLabel = "image.virtward.io/per-architecture"
	// VariantLabel is on the variants, with the value true.
	VariantLabel = "image.virtward.io/variant"
	// PreferencesAnnotation has the preferences of the variants, such as
	// arm64=fedora.arm64,s390x=fedora.s390x. Other variants have that of the
	// template.
	PreferencesAnnotation = "image.virtward.io/preferences"
)
