// Package backendtest has the behaviors of every backend of VirtualImages, as tests.
//
// What enters: a backend, the system behind it, and web servers for its sources. What leaves: failed tests. Tests of a backend
// call Run. The package knows nothing of a particular system.
package backendtest
