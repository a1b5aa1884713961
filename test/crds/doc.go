// Package crds has the CustomResourceDefinitions of KubeVirt and CDI that the sandbox installs.
//
// Input: the YAML files beside this one, which the program in gen generates from the Go types of kubevirt.io/api and CDI's
// API module. Output: the definitions as objects, sorted by name, with the subresources, short names, categories and
// columns that KubeVirt's operator sets. The package never uses a cluster: package controlplane installs the definitions.
package crds
