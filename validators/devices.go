package validators

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// KubeVirt's feature gates that devices depend on. Those of video and of panic devices are always on.
const (
	gateDownwardMetrics = "DownwardMetrics"
	gateRebootPolicy    = "RebootPolicy"
	gateVSOCK           = "VSOCK"
)

func deviceRules() Table {
	return Scoped(OnSpec,
		inputBusRule,
		inputTypeRule,
		soundNamedRule,
		soundModelRule,
		videoNeedsGraphicsRule,
		panicModelRule,
		vsockGateRule,
		downwardMetricsGateRule,
		rebootPolicyGateRule,
	)
}

var inputBusRule = Rule{
	ID:     "device-input-bus",
	Title:  "An input device is on the usb or the virtio bus",
	Remedy: "Set bus to a supported value, or leave it out.",
	Check:  inputBus,
}

func inputBus(s *Subject, found *Errors) {
	inputs := s.Spec.Domain.Devices.Inputs
	for i := range found.Each(len(inputs)) {
		if input := &inputs[i]; input.Bus != "" && !slices.Contains(inputBuses, input.Bus) {
			found.Add(unknown(s.Devices().Child("inputs").Index(i).Child("bus"), input.Bus,
				fmt.Sprintf("the bus of the input device %q", shortened(input.Name)), inputBuses))
		}
	}
}

var (
	inputBuses  = []v1.InputBus{v1.InputBusUSB, v1.InputBusVirtio}
	inputTypes  = []v1.InputType{v1.InputTypeTablet, v1.InputTypeKeyboard}
	soundModels = []string{"ich9", "ac97"}
	panicModels = []v1.PanicDeviceModel{v1.Hyperv, v1.Isa, v1.Pvpanic}
)

var inputTypeRule = Rule{
	ID:            "device-input-type",
	Title:         "An input device is a tablet or a keyboard",
	Remedy:        "Set type to a supported value.",
	ReadsDefaults: true,
	Check:         inputType,
}

func inputType(s *Subject, found *Errors) {
	inputs := s.Spec.Domain.Devices.Inputs
	for i := range found.Each(len(inputs)) {
		if input := &inputs[i]; !slices.Contains(inputTypes, input.Type) {
			found.Add(unknown(s.Devices().Child("inputs").Index(i).Child("type"), input.Type,
				fmt.Sprintf("the type of the input device %q", shortened(input.Name)), inputTypes))
		}
	}
}

var soundNamedRule = Rule{
	ID:     "device-sound-named",
	Title:  "A sound device has a name",
	Remedy: "Set sound.name.",
	Check:  soundNamed,
}

func soundNamed(s *Subject, found *Errors) {
	if sound := s.Spec.Domain.Devices.Sound; sound == nil || sound.Name != "" {
		return
	}
	found.Add(field.Invalid(s.Devices().Child("sound"), field.OmitValueType{}, "the sound device needs a name"))
}

var soundModelRule = Rule{
	ID:     "device-sound-model",
	Title:  "A sound device is an ich9 or an ac97",
	Remedy: "Set sound.model to a supported value, or leave it out for ich9.",
	Check:  soundModel,
}

func soundModel(s *Subject, found *Errors) {
	sound := s.Spec.Domain.Devices.Sound
	if sound == nil || sound.Model == "" || slices.Contains(soundModels, sound.Model) {
		return
	}
	found.Add(unknown(s.Devices().Child("sound"), sound.Model, "the model", soundModels))
}

var videoNeedsGraphicsRule = Rule{
	ID:     "device-video-needs-graphics",
	Title:  "A video device needs a graphics device",
	Remedy: "Remove video, or remove autoattachGraphicsDevice: false.",
	Check:  videoNeedsGraphics,
}

func videoNeedsGraphics(s *Subject, found *Errors) {
	devices := &s.Spec.Domain.Devices
	if devices.Video == nil || devices.AutoattachGraphicsDevice == nil || *devices.AutoattachGraphicsDevice {
		return
	}
	found.Add(field.Invalid(s.Devices().Child("video"), devices.Video.Type,
		"a VM without graphics (autoattachGraphicsDevice: false) cannot have a video device"))
}

var panicModelRule = Rule{
	ID:     "device-panic-model",
	Title:  "A panic device has a known model",
	Remedy: "Set model to a supported value, or leave it out.",
	Check:  panicModel,
}

func panicModel(s *Subject, found *Errors) {
	devices := s.Spec.Domain.Devices.PanicDevices
	for i := range found.Each(len(devices)) {
		if model := devices[i].Model; model != nil && !slices.Contains(panicModels, *model) {
			found.Add(unknown(s.Devices().Child("panicDevices").Index(i).Child("model"), *model, "the model", panicModels))
		}
	}
}

var vsockGateRule = Rule{
	ID:       "device-vsock-gate",
	Title:    "VSOCK needs the feature gate VSOCK",
	Remedy:   "Remove autoattachVSOCK, or enable the feature gate in the KubeVirt resource.",
	Security: true,
	Check:    vsockGate,
}

func vsockGate(s *Subject, found *Errors) {
	if attach := s.Spec.Domain.Devices.AutoattachVSOCK; attach == nil || !*attach {
		return
	}
	found.Add(gateOff(s, gateVSOCK, s.Devices().Child("autoattachVSOCK"), true, "VSOCK"))
}

var downwardMetricsGateRule = Rule{
	ID:       "device-downward-metrics-gate",
	Title:    "The device for host metrics needs the feature gate DownwardMetrics",
	Remedy:   "Remove downwardMetrics, or enable the feature gate in the KubeVirt resource.",
	Security: true,
	Check:    downwardMetricsGate,
}

func downwardMetricsGate(s *Subject, found *Errors) {
	if s.Spec.Domain.Devices.DownwardMetrics == nil {
		return
	}
	found.Add(gateOff(s, gateDownwardMetrics, s.Devices().Child("downwardMetrics"), field.OmitValueType{}, "the device for host metrics"))
}

var rebootPolicyGateRule = Rule{
	ID:     "device-reboot-policy-gate",
	Title:  "A reboot policy needs the feature gate RebootPolicy",
	Remedy: "Remove rebootPolicy, or enable the feature gate in the KubeVirt resource.",
	Check:  rebootPolicyGate,
}

func rebootPolicyGate(s *Subject, found *Errors) {
	policy := s.Spec.Domain.RebootPolicy
	if policy == nil {
		return
	}
	found.Add(gateOff(s, gateRebootPolicy, s.Domain().Child("rebootPolicy"), *policy, "a reboot policy"))
}
