package sample

import (
	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/nodelabels"
	"github.com/virtward/virtward/platform"
)

// NewLabeller builds the labeller of nodes for sample and an architecture.
func NewLabeller(form platform.Hypervisor, architecture string, devices []launcher.DeviceRequest) nodelabels.Labeller {
	return nodelabels.NewBaseLabeller(form, architecture, devices, nodelabels.Layer{Capabilities: []nodelabels.Capability{
		{Name: "virtiofs"}, // sample has no shared file systems
		{Name: "snapshots", Title: "snapshots of memory", Of: nodelabels.Feature("snapshots")},
	}})
}
