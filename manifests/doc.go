// Package manifests reads Kubernetes objects from files.
//
// What enters: file names, directories, standard input. What leaves: the objects in them, each with the
// place it came from and the lines of its fields, or an error that names the file, the document and the
// field. It evaluates nothing that the objects say, and reads nothing larger than its limits.
package manifests
