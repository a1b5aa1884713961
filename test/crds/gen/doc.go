// Command gen writes the CustomResourceDefinitions of KubeVirt and CDI into test/crds.
//
// What enters: the Go types of kubevirt.io/api and containerized-data-importer-api at the versions of
// go.mod, read by controller-gen. What leaves: one YAML file for each definition, and the variants. The
// types alone do not say everything: subresources, short names, columns and older served versions are
// what KubeVirt's operator adds, and come from the table in this package. It never talks to a cluster.
package main
