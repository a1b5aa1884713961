package validators

import "testing"

func TestDevices(t *testing.T) {
	runCases(t, deviceRules(), OnSpec, []ruleCase{
		{name: "none", spec: `{}`},
		{name: "inputs", spec: `{"domain":{"devices":{"inputs":[{"name":"a","type":"tablet"},{"name":"b","type":"keyboard","bus":"virtio"},{"name":"c","type":"tablet","bus":"usb"}]}}}`},
		{
			name: "inputs of other kinds",
			spec: `{"domain":{"devices":{"inputs":[{"name":"a","type":"tablet"},{"name":"b","type":"mouse","bus":"ps2"},{"name":"c","bus":"usb"}]}}}`,
			want: []string{
				`device-input-bus: spec.domain.devices.inputs[1].bus: Invalid value: "ps2": the bus of the input device "b" is unknown: supported values: "usb", "virtio"`,
				`device-input-type: spec.domain.devices.inputs[1].type: Invalid value: "mouse": the type of the input device "b" is unknown: supported values: "tablet", "keyboard"`,
				`device-input-type: spec.domain.devices.inputs[2].type: Invalid value: "": the type of the input device "c" is unknown: supported values: "tablet", "keyboard"`,
			},
		},
		{name: "sound", spec: `{"domain":{"devices":{"sound":{"name":"s"}}}}`},
		{name: "sound of a model", spec: `{"domain":{"devices":{"sound":{"name":"s","model":"ac97"}}}}`},
		{
			name: "sound without a name and of another model",
			spec: `{"domain":{"devices":{"sound":{"name":"","model":"sb16"}}}}`,
			want: []string{
				`device-sound-model: spec.domain.devices.sound: Invalid value: "sb16": the model is unknown: supported values: "ich9", "ac97"`,
				`device-sound-named: spec.domain.devices.sound: Invalid value: the sound device needs a name`,
			},
		},
		{name: "video", spec: `{"domain":{"devices":{"video":{"type":"virtio"}}}}`},
		{name: "video and graphics", spec: `{"domain":{"devices":{"video":{"type":"virtio"},"autoattachGraphicsDevice":true}}}`},
		{name: "neither video nor graphics", spec: `{"domain":{"devices":{"autoattachGraphicsDevice":false}}}`},
		{
			name: "video without graphics",
			spec: `{"domain":{"devices":{"video":{"type":"virtio"},"autoattachGraphicsDevice":false}}}`,
			want: []string{
				`device-video-needs-graphics: spec.domain.devices.video: Invalid value: "virtio": a VM without graphics (autoattachGraphicsDevice: false) cannot have a video device`,
			},
		},
		{name: "panic devices", spec: `{"domain":{"devices":{"panicDevices":[{"model":"hyperv"},{"model":"isa"},{"model":"pvpanic"},{}]}}}`},
		{name: "panic devices whose gate is disabled, which does nothing", configuration: `{"developerConfiguration":{"disabledFeatureGates":["PanicDevices"]}}`, spec: `{"domain":{"devices":{"panicDevices":[{}]}}}`},
		{
			name: "panic devices of another model",
			spec: `{"domain":{"devices":{"panicDevices":[{"model":"isa"},{"model":"Hyperv"}]}}}`,
			want: []string{
				`device-panic-model: spec.domain.devices.panicDevices[1].model: Invalid value: "Hyperv": the model is unknown: supported values: "hyperv", "isa", "pvpanic"`,
			},
		},
		{name: "no VSOCK", spec: `{"domain":{"devices":{"autoattachVSOCK":false}}}`},
		{name: "VSOCK", configuration: `{"developerConfiguration":{"featureGates":["VSOCK"]}}`, spec: `{"domain":{"devices":{"autoattachVSOCK":true}}}`},
		{
			name: "VSOCK without its gate",
			spec: `{"domain":{"devices":{"autoattachVSOCK":true}}}`,
			want: []string{
				`device-vsock-gate: spec.domain.devices.autoattachVSOCK: Invalid value: true: VSOCK needs KubeVirt's feature gate VSOCK, which is off in this cluster`,
			},
		},
		{name: "host metrics", configuration: `{"developerConfiguration":{"featureGates":["DownwardMetrics"]}}`, spec: `{"domain":{"devices":{"downwardMetrics":{}}}}`},
		{
			name: "host metrics without their gate",
			spec: `{"domain":{"devices":{"downwardMetrics":{}}}}`,
			want: []string{
				`device-downward-metrics-gate: spec.domain.devices.downwardMetrics: Invalid value: the device for host metrics needs KubeVirt's feature gate DownwardMetrics, which is off in this cluster`,
			},
		},
		{name: "a reboot policy", spec: `{"domain":{"rebootPolicy":"Terminate"}}`},
		{
			name:          "a reboot policy without its gate",
			configuration: `{"developerConfiguration":{"disabledFeatureGates":["RebootPolicy"]}}`,
			spec:          `{"domain":{"rebootPolicy":"Terminate"}}`,
			want: []string{
				`device-reboot-policy-gate: spec.domain.rebootPolicy: Invalid value: "Terminate": a reboot policy needs KubeVirt's feature gate RebootPolicy, which is off in this cluster`,
			},
		},
	})
}
