// Package signaturestest signs for tests: with keys, and as an authority of identities with Sigstore's own test authority. It writes
// signatures into registries as cosign does.
package signaturestest
