// Package chart tests the Helm chart in charts/virtward: what it renders for every combination of values, what
// values it rejects, and that it installs, upgrades and switches off as its README says on a real API server.
//
// It runs bin/tools/helm, decodes what comes out into the API's own types, strictly, and evaluates those; it
// never looks at text. No process of virtward is started here.
package chart
