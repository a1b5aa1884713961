package v1alpha1

// ExemptLabel is the label of a namespace that Virtward exempts if its value is true, where the chart's value webhook.exemptByLabel is
// set. A guard permits it to users with the verb exempt on the namespace.
const ExemptLabel = "virtward.io/exempt"

// Exempt reports whether the labels of a namespace exempt it.
func Exempt(labels map[string]string) bool { return labels[ExemptLabel] == "true" }
