// Package plugins previews KubeVirt's Plugins: it compiles their conditions and hooks as KubeVirt 1.9 does, and applies the CEL
// domain hooks to a libvirt domain that has not been defined yet.
//
// Input: Plugins, an instance, and the document of its domain from package domain. Output: the document after the hooks with the
// hook that wrote each value, the result of each hook, and what cannot be previewed. Lint reports what is wrong with Plugins.
//
// KubeVirt passes the domain through the Go types of libvirt's module libvirtxml. The file libvirtxml.txt has the names of these
// types, of their fields and of the elements; shapes.go has what their encoders do besides. A part of a domain that is not in
// these tables is named as one that cannot be previewed, and is never ignored.
//
// The package calls no sidecar and no node hook, and reads no cluster.
package plugins
