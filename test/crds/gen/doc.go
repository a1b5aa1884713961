// Command gen writes the CustomResourceDefinitions of KubeVirt and CDI into test/crds.
//
// Input: the Go types of kubevirt.io/api and containerized-data-importer-api at the versions of go.mod, read by
// controller-gen. Output: one YAML file for each definition, and the variants.
//
// KubeVirt's operator adds subresources, short names, columns and older served versions, which the types do not have.
// They are in the table of this package. The command never uses a cluster.
package main
