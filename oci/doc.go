// Package oci has the format in which KubeVirt exports virtual machines and their templates as OCI artifacts: an index, for each
// architecture a manifest, the object as the configuration, and each disk as a layer of raw bytes that zstd compressed.
//
// Input: an object and its disks, or the bytes of an index, a manifest, a configuration, a layer or an archive with all of them, which are
// untrusted. Output: the bytes that KubeVirt's exporter writes for the same object and disks, or what the artifact has, or a *Rejection. The
// same input gives the same bytes.
//
// The package opens no file and no connection. Of a layer it holds one window of zstd, at most MaxWindow bytes.
package oci
