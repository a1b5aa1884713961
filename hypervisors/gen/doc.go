// The program gen writes docs/hypervisors.md: the names and devices of the hypervisors of this repository, and
// the capability table of each with each architecture. It is run by go generate.
package main
