package plugins

// The bounds of what is compiled and evaluated. KubeVirt has none but the cost limit.
const (
	// maxExpression are the bytes of an expression, and maxHooks the hooks of a Plugin.
	maxExpression = 64 << 10
	maxHooks      = 256
	// MaxPlugins are the Plugins of a preview.
	MaxPlugins = 256
	// maxDomain are the bytes of a domain after a hook, about.
	maxDomain = 16 << 20

	// maxAdmitted are the bytes of all expressions of a Plugin that an admission compiles.
	maxAdmitted = 16 << 10
	// AdmittedCost is the cost limit of all expressions of a Plugin that an admission evaluates.
	AdmittedCost = 100_000
	// MaxAdmission is the memory of the environments and of a Plugin that an admission compiles and evaluates, in bytes. One is
	// compiled at a time: see Validate.
	MaxAdmission = 20 << 20
)
