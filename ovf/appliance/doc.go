// Package appliance reads a package of OVF: an OVA, or a descriptor with the files beside it.
//
// Input: the bytes of the package as an io.ReaderAt, and options. Output: an Appliance: what the package is, what an import would make
// of it, and all rejections and warnings. Files are found by their exact names in the archive and never by a path. The package is pure:
// the caller opens files, and provides a place for decompressed disks. It holds one grain of a disk at a time, and texts that are
// bounded by the limits of package ovf.
package appliance
