// Package artifacts has the commands that write templates to registries and read them, as OCI artifacts: template push, pull, copy
// and referrers, and the table of template list --from.
//
// Input: the command line, files, and registries. Output: files, artifacts, and tables. The commands need no cluster.
package artifacts
