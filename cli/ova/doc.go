// Package ova has the commands for packages of OVF: ova inspect, ova convert and ova create.
//
// Input: the command line, and files, also of web servers and registries. Output: what a package is, a VirtualMachineTemplate, or an OVA. It needs no cluster.
package ova
