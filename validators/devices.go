package validators

import (
	"fmt"

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
	return Table{
		{
			ID: "device-input-bus", Title: "An input device is on the usb or the virtio bus", Scope: OnSpec,
			Remedy: "Set bus to usb or virtio, or leave it out.", Check: inputBus,
		},
		{
			ID: "device-input-type", Title: "An input device is a tablet or a keyboard", Scope: OnSpec,
			Remedy: "Set type to tablet or keyboard.", Check: inputType,
		},
		{
			ID: "device-sound-named", Title: "A sound device has a name", Scope: OnSpec,
			Remedy: "Set sound.name.", Check: soundNamed,
		},
		{
			ID: "device-sound-model", Title: "A sound device is an ich9 or an ac97", Scope: OnSpec,
			Remedy: "Set sound.model to ich9 or ac97, or leave it out for ich9.", Check: soundModel,
		},
		{
			ID: "device-video-needs-graphics", Title: "A video device needs a graphics device", Scope: OnSpec,
			Remedy: "Remove video, or remove autoattachGraphicsDevice: false.", Check: videoNeedsGraphics,
		},
		{
			ID: "device-panic-model", Title: "A panic device has a known model", Scope: OnSpec,
			Remedy: "Set model to hyperv, isa or pvpanic, or leave it out.", Check: panicModel,
		},
		{
			ID: "device-vsock-gate", Title: "VSOCK needs the feature gate VSOCK", Scope: OnSpec, Security: true,
			Remedy: "Remove autoattachVSOCK, or have the feature gate VSOCK enabled in the KubeVirt resource.", Check: vsockGate,
		},
		{
			ID: "device-downward-metrics-gate", Title: "The device for host metrics needs the feature gate DownwardMetrics", Scope: OnSpec, Security: true,
			Remedy: "Remove downwardMetrics, or have the feature gate DownwardMetrics enabled in the KubeVirt resource.", Check: downwardMetricsGate,
		},
		{
			ID: "device-reboot-policy-gate", Title: "A reboot policy needs the feature gate RebootPolicy", Scope: OnSpec,
			Remedy: "Remove rebootPolicy, or have the feature gate RebootPolicy enabled in the KubeVirt resource.", Check: rebootPolicyGate,
		},
	}
}

func inputBus(s *Subject) (errs field.ErrorList) {
	inputs := s.Spec.Domain.Devices.Inputs
	for i := range inputs {
		if enough(errs) {
			return cutShort(errs, len(inputs)-i)
		}
		switch input := &inputs[i]; input.Bus {
		case "", v1.InputBusUSB, v1.InputBusVirtio:
		default:
			errs = append(errs, field.Invalid(s.Devices().Child("inputs").Index(i).Child("bus"), input.Bus,
				fmt.Sprintf("the input device %q can be on the usb or the virtio bus only", shortened(input.Name))))
		}
	}
	return errs
}

func inputType(s *Subject) (errs field.ErrorList) {
	inputs := s.Spec.Domain.Devices.Inputs
	for i := range inputs {
		if enough(errs) {
			return cutShort(errs, len(inputs)-i)
		}
		switch input := &inputs[i]; input.Type {
		case v1.InputTypeTablet, v1.InputTypeKeyboard:
		default:
			errs = append(errs, field.Invalid(s.Devices().Child("inputs").Index(i).Child("type"), input.Type,
				fmt.Sprintf("the input device %q can be a tablet or a keyboard only", shortened(input.Name))))
		}
	}
	return errs
}

func soundNamed(s *Subject) field.ErrorList {
	if sound := s.Spec.Domain.Devices.Sound; sound == nil || sound.Name != "" {
		return nil
	}
	return field.ErrorList{field.Invalid(s.Devices().Child("sound"), field.OmitValueType{}, "the sound device needs a name")}
}

func soundModel(s *Subject) field.ErrorList {
	sound := s.Spec.Domain.Devices.Sound
	if sound == nil || sound.Model == "" || sound.Model == "ich9" || sound.Model == "ac97" {
		return nil
	}
	return field.ErrorList{field.Invalid(s.Devices().Child("sound"), sound.Model, "the model of the sound device can be ich9 or ac97 only")}
}

func videoNeedsGraphics(s *Subject) field.ErrorList {
	devices := &s.Spec.Domain.Devices
	if devices.Video == nil || devices.AutoattachGraphicsDevice == nil || *devices.AutoattachGraphicsDevice {
		return nil
	}
	return field.ErrorList{field.Invalid(s.Devices().Child("video"), devices.Video.Type,
		"a VM without graphics (autoattachGraphicsDevice: false) cannot have a video device")}
}

func panicModel(s *Subject) (errs field.ErrorList) {
	devices := s.Spec.Domain.Devices.PanicDevices
	for i := range devices {
		if enough(errs) {
			return cutShort(errs, len(devices)-i)
		}
		model := devices[i].Model
		if model == nil {
			continue
		}
		switch *model {
		case v1.Hyperv, v1.Isa, v1.Pvpanic:
		default:
			errs = append(errs, field.Invalid(s.Devices().Child("panicDevices").Index(i).Child("model"), *model,
				"the model of a panic device can be hyperv, isa or pvpanic only"))
		}
	}
	return errs
}

func vsockGate(s *Subject) field.ErrorList {
	if attach := s.Spec.Domain.Devices.AutoattachVSOCK; attach == nil || !*attach {
		return nil
	}
	return behindGate(s, gateVSOCK, s.Devices().Child("autoattachVSOCK"), true, "VSOCK")
}

func downwardMetricsGate(s *Subject) field.ErrorList {
	if s.Spec.Domain.Devices.DownwardMetrics == nil {
		return nil
	}
	return behindGate(s, gateDownwardMetrics, s.Devices().Child("downwardMetrics"), field.OmitValueType{}, "the device for host metrics")
}

func rebootPolicyGate(s *Subject) field.ErrorList {
	policy := s.Spec.Domain.RebootPolicy
	if policy == nil {
		return nil
	}
	return behindGate(s, gateRebootPolicy, s.Domain().Child("rebootPolicy"), *policy, "a reboot policy")
}
