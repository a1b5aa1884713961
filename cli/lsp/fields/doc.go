// Package fields describes the fields of the kinds that authors write.
//
// Its input is a kind and the path of a field. Its output is the field's type, its documentation, its default, and the names of
// the fields below it. They are those of the embedded schemas, and the documentation of KubeVirt's fields is that of its Go
// types. The package reads no object and no cluster.
package fields
