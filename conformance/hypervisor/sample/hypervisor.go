package sample

import (
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

// Hypervisor is what a line of hypervisors.BuiltIn would be.
func Hypervisor() hypervisors.Hypervisor {
	return hypervisors.Hypervisor{
		Name:      Name,
		Defaults:  func(arch string) (mutators.DefaultsProvider, error) { return NewDefaults(arch) },
		Validator: func(arch string) (validators.Validator, error) { return NewValidator(arch) },
		Converter: NewConverter,
		Launcher:  func(arch string) launcher.ResourceRenderer { return launcher.NewBaseRenderer(arch, Launcher()) },
		Labeller:  NewLabeller,
		Tuner:     NewTuner,
		Support:   Support(),
	}
}

// Form is what a line of platform's table of names would be.
func Form() platform.Hypervisor {
	return platform.Hypervisor{Name: Name, ConfiguredName: "sample", Device: "devices.kubevirt.io/sample", VirtType: "sample"}
}
