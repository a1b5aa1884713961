// Package fieldpath reads the paths of fields, such as spec.disks[0].bus, and the names of fields in JSON.
//
// Input: a path, and a value of decoded JSON, a Go value or a Go type. Output: the steps of the path, and the value or the
// type at it. A path has the form of a field.Path: dots before the names of fields, brackets around indices and keys.
//
// The package never changes a value, and never decodes JSON. It has a cache of the fields of each Go type.
package fieldpath
