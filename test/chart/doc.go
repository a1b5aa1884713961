// Package chart tests the Helm chart in charts/virtward: what it renders for every combination of values, what
// values it rejects, and that it installs, upgrades and switches off as its README says on a real API server.
//
// It runs bin/tools/helm, strictly decodes its output into the types of the API, and verifies these objects, not their
// text. It starts no process of virtward.
package chart
