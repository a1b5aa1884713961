// Package capture makes a VirtualMachineTemplate of a snapshot of a VirtualMachine. See VEP 76.
//
// What enters: the VirtualMachine and the volumes that a VirtualMachineSnapshotContent has. What leaves: the DataVolumes
// that clone the volumes, and the spec of the template, whose VirtualMachines clone these DataVolumes. The template has
// none of the identities of the VirtualMachine, and its text refers to no parameter by chance.
//
// The package is pure: it reads and writes no objects, and has no clock.
package capture
