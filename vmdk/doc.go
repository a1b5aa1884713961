// Package vmdk inspects disk images before another program opens them: VMDK, qcow2, and the formats that it only recognizes.
//
// Input: an image as an io.ReaderAt with its size. Output: what the header states, the content that the guest sees, or the reason why
// the image is rejected: it refers to other files, is encrypted, is a difference to a parent, or contradicts itself. The sources are
// VMware's "Virtual Disk Format 5.0" and QEMU's docs/interop/qcow2.
//
// The package opens no file. It holds at most one grain table and one grain, and at most maxDescriptor bytes of a descriptor. It also
// writes streamOptimized VMDKs: Measure reads a disk once, and returns a Layout, which writes any part of the file again. A Layout holds
// TableBytes for 32 MiB of a disk that are not zeros. The same content gives the same bytes: Virtward pins the compressor.
package vmdk
