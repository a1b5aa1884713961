// Package commontemplates tests the Helm chart in charts/virtward-common-templates: what it renders, and that its templates give machines
// that are allowed on every architecture.
package commontemplates
