// Package signatures verifies signatures of OCI artifacts.
//
// What enters: public keys, or identities with the trusted root of Sigstore that the caller names; the bytes of a manifest; and its
// signatures as a registry sends them. What leaves: who signed the manifest, or why no signature is valid. The package connects to
// nothing: it reads no trusted root from a server, and asks no transparency log.
package signatures
