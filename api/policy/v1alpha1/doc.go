// Package v1alpha1 has the kinds with which an admin configures Virtward: policies, defaults of the site and
// settings of rules.
//
// It imports no other package of Virtward, and has no logic. `kubectl explain` prints its comments. The
// functions that copy, the definitions in the chart and docs/api/policy.md are generated.
//
// +groupName=policy.virtward.io
// +kubebuilder:object:generate=true
package v1alpha1
