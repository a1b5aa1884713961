// Package ovf reads descriptors of OVF 0.9, 1.x and 2.x, and maps a virtual system to a VirtualMachineTemplate of KubeVirt.
//
// Input: the bytes of a descriptor, options, and what the caller knows about the files that the descriptor refers to. Output: the
// template, the disks, and a warning for each part that is dropped or guessed, or rejections. The sources are DSP0243 of the DMTF, and
// the extensions of VMware, VirtualBox, oVirt, XenServer and PowerVC.
//
// It writes descriptors too: NewExport and Export.Write make one of a VirtualMachineTemplate. The standard elements are for programs of
// other vendors: hardware version vmx-13 or later, disks at LSI Logic controllers. A section that others can ignore has the template itself, without
// secrets, identities and references to objects of its cluster. Map uses this template only if the standard elements are what Write writes
// for it: a change of a user has priority. Tests compare with golden files. The XML schema of the DMTF is not part of the
// repository, so no test validates a descriptor with it.
//
// The package is pure: it opens no file and follows no reference. Its output is bounded by the constants Max….
package ovf
