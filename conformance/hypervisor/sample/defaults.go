package sample

import (
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/provenance"
)

// Name is that of the hypervisor, and of its folder.
const Name = "sample"

// Defaults completes VMs for sample.
type Defaults struct {
	*mutators.BaseDefaults
}

// NewDefaults builds the provider for sample and an architecture.
func NewDefaults(architecture string) (*Defaults, error) {
	base, err := mutators.NewBaseDefaults(architecture, everywhere(), combined(architecture))
	if err != nil {
		return nil, err
	}
	return &Defaults{BaseDefaults: base}, nil
}

// everywhere is the layer of sample: it shows a virtio display.
func everywhere() mutators.Layer {
	return mutators.Layer{Name: Name, Steps: []mutators.Step{
		{Name: "video", Writes: []string{"domain.devices.video.type"}, Fill: video("virtio")},
	}}
}

// combined is the layer of sample on one architecture. On arm64 its step takes the place of the one above.
func combined(architecture string) mutators.Layer {
	layer := mutators.Layer{Name: Name + "/" + architecture}
	if architecture == architectures.ARM64 {
		layer.Steps = []mutators.Step{
			{Name: "video", Writes: []string{"domain.devices.video.type"}, Fill: video("ramfb")},
		}
	}
	return layer
}

// video is for guests with a display that name no type of it. A rule rejects a type without a display.
func video(name string) func(*mutators.Completion) {
	return func(c *mutators.Completion) {
		devices := &c.Spec.Domain.Devices
		if graphics := devices.AutoattachGraphicsDevice; graphics != nil && !*graphics || devices.Video != nil {
			return
		}
		devices.Video = &v1.VideoDevice{}
		provenance.Fill(c.Recorder, "domain.devices.video.type", &devices.Video.Type, name)
	}
}
