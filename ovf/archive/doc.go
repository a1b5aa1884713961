// Package archive makes OVAs of templates and the raw content of their disks.
//
// Input: an export of package ovf, and the content of each of its files. Output: an Archive, which knows its size and its entity tag, and
// writes any part of itself: the disks are read and compressed again. No OVA is stored. The same template and disks give the same bytes.
//
// The order is that of the standard: the descriptor, the manifest, and the files in the order of the descriptor. The manifest has SHA-256
// digests in the only form that vSphere accepts. Members above 8 GiB have sizes in base 256, as GNU tar writes them; others are USTAR.
//
// Verify reads an OVA that was downloaded, and returns the tag that the Archive has if each byte is the same.
//
// An OCI artifact has the files and the order of KubeVirt's exporter. A part of a layer is compressed from the beginning of the layer.
//
// The package opens no file. Its memory is that of vmdk.Layout for each disk, and of one vmdk pipeline or one compressor for each Write or reader.
package archive
