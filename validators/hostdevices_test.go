package validators

import (
	"fmt"
	"testing"
)

const (
	hostDevicesOn = `{"developerConfiguration":{"featureGates":["HostDevices"]}}`
	graceOn       = `{"developerConfiguration":{"featureGates":["GraceIOVirtualization","PCINUMAAwareTopology","IOMMUFD"]},"permittedHostDevices":{"pciHostDevices":[{"pciVendorSelector":" 0x10de:2342","resourceName":"nvidia.com/G"},{"pciVendorSelector":"10DE:*","resourceName":"nvidia.com/any"},{"pciVendorSelector":"8086:*","resourceName":"intel.com/any"},{"pciVendorSelector":"10DE:2342:1","resourceName":"broken"},{"pciVendorSelector":"10DE:234G","resourceName":"broken.too"},{"resourceName":"none"}]}}`
	graceOff      = `{"developerConfiguration":{"featureGates":["HostDevices"]},"permittedHostDevices":{"pciHostDevices":[{"pciVendorSelector":"10DE:2941","resourceName":"nvidia.com/G"},{"pciVendorSelector":"10DE:*","resourceName":"nvidia.com/any"}]}}`
	graceGatesOff = `{"developerConfiguration":{"featureGates":["GraceIOVirtualization"]},"permittedHostDevices":{"pciHostDevices":[{"pciVendorSelector":"10DE:2348","resourceName":"nvidia.com/G"}]}}`
	graceVM       = `{"architecture":"arm64","domain":{"cpu":{"dedicatedCpuPlacement":true},"devices":{"gpus":[{"name":"g","deviceName":"nvidia.com/G"}]}}}`
	ofEveryKind   = `{"permittedHostDevices":{"pciHostDevices":[{"pciVendorSelector":"8086:1234","resourceName":"pci"}],"mediatedDevices":[{"mdevNameSelector":"x","resourceName":"mdev"}],"usb":[{"resourceName":"usb","selectors":[]}]},"developerConfiguration":{"featureGates":["HostDevices"]}}`
)

// annotated is a VMI with the annotations that say where PCI devices go.
func annotated(onComplex, withoutHole, spec string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{"kubevirt.io/placePCIDevicesOnRootComplex":%q,"kubevirt.io/disablePCIHole64":%q}},"spec":%s}`, onComplex, withoutHole, spec)
}

func TestHostDevices(t *testing.T) {
	runCases(t, hostDeviceRules(), OnSpec, []ruleCase{
		{name: "none", spec: `{"domain":{"devices":{"hostDevices":[]}}}`},
		{name: "host devices", configuration: hostDevicesOn, spec: `{"domain":{"devices":{"hostDevices":[{"name":"h","deviceName":"a/b"}]}}}`},
		{
			name: "host devices without their gate",
			spec: `{"domain":{"devices":{"hostDevices":[{"name":"h","deviceName":"a/b"},{"name":"i","deviceName":"a/b"}]}}}`,
			want: []string{
				`hostdevice-gate: spec.domain.devices.hostDevices: Invalid value: "h, i": a host device needs KubeVirt's feature gate HostDevices, which is off in this cluster`,
			},
		},
		{
			name: "devices that the cluster permits, and claims", configuration: ofEveryKind,
			spec: `{"domain":{"devices":{"gpus":[{"name":"g","deviceName":"mdev"},{"name":"c","claimName":"c","requestName":"r"}],"hostDevices":[{"name":"h","deviceName":"usb"},{"name":"i","deviceName":"pci"}]}}}`,
		},
		{
			name: "devices that the cluster does not permit", configuration: ofEveryKind,
			spec: `{"domain":{"devices":{"gpus":[{"name":"g","deviceName":"other"}],"hostDevices":[{"name":"h","deviceName":"usb"},{"name":"i","deviceName":"another"}]}}}`,
			want: []string{
				`hostdevice-permitted: spec.domain.devices.gpus[0].deviceName: Invalid value: "other": the device is not in permittedHostDevices of the KubeVirt resource, so the VM will not start`,
				`hostdevice-permitted: spec.domain.devices.hostDevices[1].deviceName: Invalid value: "another": the device is not in permittedHostDevices of the KubeVirt resource, so the VM will not start`,
			},
		},
		{name: "one display", spec: `{"domain":{"devices":{"gpus":[{"name":"a","virtualGPUOptions":{"display":{}}},{"name":"b"},{"name":"c","virtualGPUOptions":{}}]}}}`},
		{name: "one display that is on", spec: `{"domain":{"devices":{"gpus":[{"name":"a","virtualGPUOptions":{"display":{"enabled":true,"ramFB":{"enabled":true}}}},{"name":"b","virtualGPUOptions":{"display":{"enabled":false}}},{"name":"c","virtualGPUOptions":{"display":{"ramFB":{"enabled":false}}}},{"name":"d","virtualGPUOptions":{"display":{"ramFB":{}}}}]}}}`},
		{
			name: "two displays",
			spec: `{"domain":{"devices":{"gpus":[{"name":"a","virtualGPUOptions":{"display":{}}},{"name":"b","virtualGPUOptions":{"display":{"ramFB":{"enabled":true}}}}]}}}`,
			want: []string{
				`hostdevice-one-boot-display: spec.domain.devices.gpus: Invalid value: "a, b": only one virtual GPU can have a display with a RAM framebuffer, which is on by default`,
			},
		},
		{name: "a Grace GPU", configuration: graceOn, spec: graceVM},
		{name: "a Grace GPU on a versioned machine", configuration: graceOn, spec: `{"architecture":"arm64","domain":{"machine":{"type":"virt-9.0"},"cpu":{"dedicatedCpuPlacement":true},"devices":{"gpus":[{"name":"g","deviceName":"nvidia.com/G"}]}}}`},
		{
			name: "Grace GPUs without their gate", configuration: graceOff,
			spec: `{"domain":{"devices":{"gpus":[{"name":"g","deviceName":"nvidia.com/G"},{"name":"any","deviceName":"nvidia.com/any"}],"hostDevices":[{"name":"h","deviceName":"nvidia.com/G"}]}}}`,
			want: []string{
				`hostdevice-grace-gate: spec.domain.devices.gpus[0].deviceName: Invalid value: "nvidia.com/G": an NVIDIA Grace GPU needs KubeVirt's feature gate GraceIOVirtualization, which is off in this cluster`,
				`hostdevice-grace-gate: spec.domain.devices.hostDevices[0].deviceName: Invalid value: "nvidia.com/G": an NVIDIA Grace GPU needs KubeVirt's feature gate GraceIOVirtualization, which is off in this cluster`,
			},
		},
		{name: "selectors of other devices", configuration: graceOn, spec: `{"domain":{"devices":{"gpus":[{"name":"a","deviceName":"intel.com/any"},{"name":"b","deviceName":"broken"},{"name":"c","deviceName":"broken.too"},{"name":"d","deviceName":"none"}]}}}`},
		{
			name: "a selector of any NVIDIA device", configuration: graceOn,
			spec: `{"domain":{"devices":{"gpus":[{"name":"any","deviceName":"nvidia.com/any"}]}}}`,
			want: []string{
				`hostdevice-grace-selector: spec.domain.devices.gpus[0].deviceName: Invalid value: "nvidia.com/any": the device is permitted by a selector of any NVIDIA device; with the feature gate GraceIOVirtualization it must name one`,
			},
		},
		{
			name: "a Grace GPU in another VM", configuration: graceOn,
			spec: `{"domain":{"devices":{"gpus":[{"name":"g","deviceName":"nvidia.com/G"}]}}}`,
			want: []string{
				`hostdevice-grace-architecture: spec.architecture: Invalid value: "amd64": the NVIDIA Grace GPU nvidia.com/G needs an arm64 guest`,
				`hostdevice-grace-dedicated-cpus: spec.domain.cpu.dedicatedCpuPlacement: Required value: the NVIDIA Grace GPU nvidia.com/G needs dedicated CPUs`,
				`hostdevice-grace-machine: spec.domain.machine.type: Invalid value: "q35": the NVIDIA Grace GPU nvidia.com/G needs a machine of type virt`,
			},
		},
		{
			name: "a Grace GPU without the other gates", configuration: graceGatesOff,
			spec: graceVM,
			want: []string{
				`hostdevice-grace-iommufd-gate: spec.domain.devices: Invalid value: "nvidia.com/G": an NVIDIA Grace GPU needs KubeVirt's feature gate IOMMUFD, which is off in this cluster`,
				`hostdevice-grace-numa-gate: spec.domain.devices: Invalid value: "nvidia.com/G": an NVIDIA Grace GPU needs KubeVirt's feature gate PCINUMAAwareTopology, which is off in this cluster`,
			},
		},
		{name: "annotations that switch nothing off", configuration: graceOn, vmi: annotated("false", "", graceVM)},
		{name: "annotations without such a device", configuration: graceOn, vmi: annotated("true", "true", `{}`)},
		{
			name: "annotations with such a device", configuration: graceOn, vmi: annotated("true", "true", graceVM),
			want: []string{
				`hostdevice-grace-pci-hole: metadata.annotations[kubevirt.io/disablePCIHole64]: Invalid value: "true": an NVIDIA Grace GPU needs the 64-bit PCI hole`,
				`hostdevice-grace-root-complex: metadata.annotations[kubevirt.io/placePCIDevicesOnRootComplex]: Invalid value: "true": an NVIDIA Grace GPU cannot be placed on the root complex`,
			},
		},
	})
}
