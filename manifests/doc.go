// Package manifests reads Kubernetes objects from files.
//
// Its input is names of files and directories, and standard input. Its output is their objects, each with its location
// and the positions of its fields, or an error that names the file, the document and the field. It evaluates no object,
// and reads no file larger than its limits.
package manifests
