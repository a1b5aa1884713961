// Package appliances opens virtual appliances on this machine: OVAs, also compressed ones, and descriptors with files beside them.
//
// Input: the name of a file. Output: its content, and where the parts of its disks are. A compressed archive is decompressed into a
// temporary file. The package reads no file outside of the folder of a descriptor, and holds none in memory.
package appliances
