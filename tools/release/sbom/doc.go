// Package sbom writes the software bill of materials of an artifact, as SPDX 2.3 and as CycloneDX 1.6.
//
// What enters: an artifact with its digest, and the programs in it. The modules of a program are those that Go's linker
// recorded in it. What leaves: two documents, equal for equal input. It never reads the network or a folder of sources.
package sbom
