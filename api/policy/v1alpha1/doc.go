// Package v1alpha1 holds the kinds by which an admin decides what Virtward makes of virtual machines.
//
// What enters and what leaves are these types alone: they know no other package of ours, and decide nothing.
// Their comments are what `kubectl explain` prints. The copying functions beside them and the definition in
// the chart are generated.
//
// +groupName=policy.virtward.io
// +kubebuilder:object:generate=true
package v1alpha1
