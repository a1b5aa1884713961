// Command gen writes the archive of schemas that package schemas embeds, and its table of the versions of kinds.
//
// Input: the schemas that KubeVirt's operator installs, of one release for each minor version, and the definitions of
// Virtward's chart. The releases are Go modules; their checksums are in the table of this package. Output: one zip archive
// with a definition for each kind that is evaluated, and one Go file with the versions of all kinds and the releases that
// serve them. The same input gives the same bytes. The command never uses a cluster.
package main
