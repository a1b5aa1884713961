// Package artifacts reads and writes the OCI artifacts of package oci in registries.
//
// What enters: a reference such as oci://quay.io/templates/fedora:42, credentials, and a transport, which decides what may be connected
// to. What leaves: the parts of an artifact, each with the digest that its manifest states, or why there are none. A disk is a stream
// of raw bytes: a connection that breaks is continued where it broke. No part but a manifest, a configuration and one window of zstd
// is in memory. The package keeps nothing.
package artifacts
