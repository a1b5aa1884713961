// Package workspace knows the manifests of a folder that an editor has open.
//
// Its input is a file system that does not lead out of the folder, and the texts of open documents, which replace files. Its
// output is Snapshots: the parsed files, and a file system with the open documents. It evaluates nothing, and writes nothing.
package workspace
