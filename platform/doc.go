// Package platform describes the cluster in an immutable snapshot, the Facts: hypervisor, architectures, machine types,
// feature gates and rollout strategy. It also reads the objects that virtual machines refer to.
//
// Input: the KubeVirt resource. It is read as an unstructured object, because the list of hypervisors has two forms.
// Output: Facts, replaced atomically when the resource changes.
//
// No other package reads the KubeVirt resource.
package platform
