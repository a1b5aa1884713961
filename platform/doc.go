// Package platform knows what this cluster is: its hypervisor, its architectures and machine types, its
// feature gates and its rollout strategy, as one immutable snapshot called Facts.
//
// What enters: the KubeVirt custom resource, read unstructured because the list of hypervisors has two
// forms. What leaves: Facts, swapped atomically whenever the resource changes. Nothing else in this
// repository reads the KubeVirt resource.
package platform
