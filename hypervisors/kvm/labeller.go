package kvm

import (
	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/nodelabels"
	"github.com/virtward/virtward/platform"
)

// NewLabeller builds the labeller of nodes for kvm and an architecture.
func NewLabeller(form platform.Hypervisor, architecture string, devices []launcher.DeviceRequest) *nodelabels.BaseLabeller {
	var own nodelabels.Layer
	if architecture == architectures.AMD64 {
		own.Capabilities = []nodelabels.Capability{{Name: "hyperv", Title: "enlightenments of Hyper-V", Of: nodelabels.Feature("hyperv")}}
	}
	return nodelabels.NewBaseLabeller(form, architecture, devices, own)
}
