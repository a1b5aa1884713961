package validators

import "testing"

func TestInterfaceRules(t *testing.T) {
	runCases(t, networkRules().area("interface"), OnSpec|OnVMI, []ruleCase{
		{
			name: "a good one",
			spec: `networks: [{name: default, pod: {}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, masquerade: {}, model: igb, macAddress: DE-AD-00-00-BE-AF, pciAddress: "0000:81:01.7", state: down, ports: [{name: http, port: 80, protocol: TCP}], dhcpOptions: {ntpServers: [1.2.3.4], privateOptions: [{option: 224, value: x}, {option: 254, value: z}]}}]}}`,
		},
		{
			name: "every binding",
			spec: `networks: [{name: a, pod: {}}, {name: b, multus: {networkName: x}}, {name: c, multus: {networkName: x}}, {name: d, multus: {networkName: x}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: a, passtBinding: {}}, {name: b, bridge: {}, state: absent}, {name: c, sriov: {}}, {name: d, binding: {name: p}}]}}`,
		},
		{
			name: "one name twice",
			spec: `networks: [{name: default, pod: {}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, masquerade: {}}, {name: default, masquerade: {}}]}}`,
			want: []string{
				`interface-names-unique: spec.domain.devices.interfaces[1].name: Duplicate value: "default": interfaces[0] is already connected to this network`,
			},
		},
		{
			name: "names of other characters",
			spec: `networks: [{name: a.b, multus: {networkName: x}}, {name: "", multus: {networkName: x}}, {name: net_1-A, multus: {networkName: x}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: a.b, bridge: {}}, {name: "", bridge: {}}, {name: net_1-A, bridge: {}}]}}`,
			want: []string{
				`interface-name-format: spec.domain.devices.interfaces[0].name: Invalid value: "a.b": must consist of one or more letters, digits, - or _`,
				`interface-name-format: spec.domain.devices.interfaces[1].name: Invalid value: "": must consist of one or more letters, digits, - or _`,
			},
		},
		{
			name: "no network",
			spec: `domain: {devices: {interfaces: [{name: default, bridge: {}}]}}`,
			want: []string{
				`interface-has-network: spec.domain.devices.interfaces[0].name: Invalid value: "default": no network has this name`,
			},
		},
		{
			name: "no binding",
			spec: `networks: [{name: default, pod: {}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, model: virtio}]}}`,
			want: []string{
				`interface-binding: spec.domain.devices.interfaces[0]: Invalid value: "default": has no binding`,
			},
		},
		{
			name: "two bindings",
			spec: `networks: [{name: default, pod: {}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, bridge: {}, binding: {name: p}}]}}`,
			want: []string{
				`interface-binding: spec.domain.devices.interfaces[0]: Invalid value: "default": has the bindings bridge, binding`,
			},
		},
		{
			name: "dropped bindings",
			spec: `networks: [{name: a, pod: {}}, {name: b, multus: {networkName: x}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: a, masquerade: {}, slirp: {}, passt: {}}, {name: b, bridge: {}, macvtap: {}}]}}`,
			want: []string{
				`interface-binding-discontinued: spec.domain.devices.interfaces[0].passt: Invalid value: "passt": KubeVirt has dropped this binding; use passtBinding`,
				`interface-binding-discontinued: spec.domain.devices.interfaces[0].slirp: Invalid value: "slirp": KubeVirt has dropped this binding; use masquerade or passtBinding`,
				`interface-binding-discontinued: spec.domain.devices.interfaces[1].macvtap: Invalid value: "macvtap": KubeVirt has dropped this binding; use a binding plugin`,
			},
		},
		{
			name:          "dropped bindings with their gates",
			configuration: `developerConfiguration: {featureGates: [Macvtap]}`,
			spec: `networks: [{name: default, multus: {networkName: nad}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, bridge: {}, macvtap: {}}]}}`,
			want: []string{
				`interface-binding-discontinued: spec.domain.devices.interfaces[0].macvtap: Invalid value: "macvtap": KubeVirt has dropped this binding; use a binding plugin`,
				`interface-binding-gate: spec.domain.devices.interfaces[0].macvtap: Unsupported value: "macvtap": the feature gate Macvtap, which the KubeVirt resource names, does not enable this binding again`,
			},
		},
		{
			name: "masquerade and passt without a network: what follows from that is left out",
			spec: `networks: [{name: default, pod: {}}]
domain: {devices: {interfaces: [{name: default, bridge: {}}, {name: a, masquerade: {}}, {name: b, passtBinding: {}}, {name: "", masquerade: {}}]}}`,
			configuration: `{network: {permitBridgeInterfaceOnPodNetwork: true}, developerConfiguration: {featureGates: [PasstBinding]}}`,
			want: []string{
				`interface-has-network: spec.domain.devices.interfaces[1].name: Invalid value: "a": no network has this name`,
				`interface-has-network: spec.domain.devices.interfaces[2].name: Invalid value: "b": no network has this name`,
				`interface-name-format: spec.domain.devices.interfaces[3].name: Invalid value: "": must consist of one or more letters, digits, - or _`,
			},
		},
		{
			name: "masquerade on multus",
			spec: `networks: [{name: default, multus: {networkName: nad}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, masquerade: {}}]}}`,
			want: []string{
				`interface-masquerade-network: spec.domain.devices.interfaces[0].name: Invalid value: "default": masquerade works with the pod network only`,
			},
		},
		{
			name: "the MAC address of the bridge",
			spec: `networks: [{name: default, pod: {}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, masquerade: {}, macAddress: "02:00:00:00:00:00"}]}}`,
			want: []string{
				`interface-masquerade-mac: spec.domain.devices.interfaces[0].macAddress: Invalid value: "02:00:00:00:00:00": is the address of KubeVirt's bridge for masquerade`,
			},
		},
		{
			name: "the MAC address of the bridge, bridged",
			spec: `networks: [{name: default, pod: {}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, bridge: {}, macAddress: "02:00:00:00:00:00"}]}}`,
		},
		{
			name:          "a bridge where it is not permitted",
			configuration: `network: {permitBridgeInterfaceOnPodNetwork: false}`,
			spec: `networks: [{name: default, pod: {}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, bridge: {}}]}}`,
			want: []string{
				`interface-bridge-pod-network: spec.domain.devices.interfaces[0].name: Invalid value: "default": this cluster permits no bridge on the pod network`,
			},
		},
		{
			name:          "a bridge of multus where it is not permitted on the pod network",
			configuration: `network: {permitBridgeInterfaceOnPodNetwork: false}`,
			spec: `networks: [{name: default, multus: {networkName: nad}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, bridge: {}}]}}`,
		},
		{
			name:          "passt on multus without its gate",
			configuration: `developerConfiguration: {disabledFeatureGates: [PasstBinding]}`,
			spec: `networks: [{name: default, multus: {networkName: nad}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, passtBinding: {}}]}}`,
			want: []string{
				`interface-passt-gate: spec.domain.devices.interfaces[0].name: Invalid value: "default": passtBinding needs KubeVirt's feature gate PasstBinding, which is off in this cluster`,
				`interface-passt-network: spec.domain.devices.interfaces[0].name: Invalid value: "default": passtBinding works with the pod network only`,
			},
		},
		{
			name: "an unknown state",
			spec: `networks: [{name: default, pod: {}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, masquerade: {}, state: Up}]}}`,
			want: []string{
				`interface-state: spec.domain.devices.interfaces[0].state: Invalid value: "Up": the state is unknown: supported values: "up", "down", "absent"`,
			},
		},
		{
			name: "the link of SR-IOV",
			spec: `networks: [{name: default, multus: {networkName: nad}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, sriov: {}, state: up}]}}`,
			want: []string{
				`interface-state-sriov: spec.domain.devices.interfaces[0].state: Invalid value: "up": the link of an SR-IOV interface cannot be set`,
			},
		},
		{
			name: "absent SR-IOV",
			spec: `networks: [{name: default, multus: {networkName: nad}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, sriov: {}, state: absent}]}}`,
			want: []string{
				`interface-state-absent-binding: spec.domain.devices.interfaces[0].state: Invalid value: "absent": only an interface with bridge binding can be unplugged`,
			},
		},
		{
			name: "absent default",
			spec: `networks: [{name: default, multus: {networkName: nad, default: true}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, bridge: {}, state: absent}]}}`,
			want: []string{
				`interface-state-absent-default: spec.domain.devices.interfaces[0].state: Invalid value: "absent": the interface of the default network cannot be unplugged`,
			},
		},
		{
			name: "an unknown model",
			spec: `networks: [{name: default, pod: {}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, masquerade: {}, model: VirtIO}]}}`,
			want: []string{
				`interface-model: spec.domain.devices.interfaces[0].model: Unsupported value: "VirtIO": supported values: "e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", "virtio"`,
			},
		},
		{
			name: "MAC addresses",
			spec: `networks: [{name: a, multus: {networkName: x}}, {name: b, multus: {networkName: x}}, {name: c, multus: {networkName: x}}, {name: d, multus: {networkName: x}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: a, bridge: {}, macAddress: "de:ad:00:00:be"}, {name: b, bridge: {}, macAddress: "02:00:5e:10:00:00:00:01"}, {name: c, bridge: {}, macAddress: dead.0000.beaf}, {name: d, bridge: {}, macAddress: "de:ad-00:00:be:af"}]}}`,
			want: []string{
				`interface-mac: spec.domain.devices.interfaces[0].macAddress: Invalid value: "de:ad:00:00:be": is not a MAC address of six bytes`,
				`interface-mac: spec.domain.devices.interfaces[1].macAddress: Invalid value: "02:00:5e:10:00:00:00:01": is not a MAC address of six bytes`,
				`interface-mac: spec.domain.devices.interfaces[3].macAddress: Invalid value: "de:ad-00:00:be:af": is not a MAC address of six bytes`,
			},
		},
		{
			name: "PCI addresses",
			spec: `networks: [{name: a, multus: {networkName: x}}, {name: b, multus: {networkName: x}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: a, bridge: {}, pciAddress: "81:01.0"}, {name: b, bridge: {}, pciAddress: "0000:81:01.8"}]}}`,
			want: []string{
				`interface-pci-address: spec.domain.devices.interfaces[0].pciAddress: Invalid value: "81:01.0": is not a PCI address`,
				`interface-pci-address: spec.domain.devices.interfaces[1].pciAddress: Invalid value: "0000:81:01.8": is not a PCI address`,
			},
		},
		{
			name: "private DHCP options",
			spec: `networks: [{name: default, pod: {}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, masquerade: {}, dhcpOptions: {privateOptions: [{option: 223, value: x}, {option: 240, value: x}, {option: 240, value: z}, {option: 255, value: x}]}}]}}`,
			want: []string{
				`interface-dhcp-option-range: spec.domain.devices.interfaces[0].dhcpOptions.privateOptions[0].option: Invalid value: 223: must be within 224 and 254`,
				`interface-dhcp-options-unique: spec.domain.devices.interfaces[0].dhcpOptions.privateOptions[2].option: Invalid value: 240: privateOptions[1] already has this option`,
				`interface-dhcp-option-range: spec.domain.devices.interfaces[0].dhcpOptions.privateOptions[3].option: Invalid value: 255: must be within 224 and 254`,
			},
		},
		{
			name: "NTP servers",
			spec: `networks: [{name: default, pod: {}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, masquerade: {}, dhcpOptions: {ntpServers: [1.1.1.1, pool.ntp.org, "fd00::1", ""]}}]}}`,
			want: []string{
				`interface-ntp-servers: spec.domain.devices.interfaces[0].dhcpOptions.ntpServers[1]: Invalid value: "pool.ntp.org": is not an IPv4 address`,
				`interface-ntp-servers: spec.domain.devices.interfaces[0].dhcpOptions.ntpServers[2]: Invalid value: "fd00::1": is not an IPv4 address`,
				`interface-ntp-servers: spec.domain.devices.interfaces[0].dhcpOptions.ntpServers[3]: Invalid value: "": is not an IPv4 address`,
			},
		},
		{
			name: "ports",
			spec: `networks: [{name: default, pod: {}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, masquerade: {}, ports: [{name: A, port: 70000, protocol: X}, {name: A, port: 0}, {port: -1}, {port: 65535}]}]}}`,
			want: []string{
				`interface-port-name: spec.domain.devices.interfaces[0].ports[0].name: Invalid value: "A": is not the name of a port`,
				`interface-port-number: spec.domain.devices.interfaces[0].ports[0].port: Invalid value: 70000: must be within 1 and 65535`,
				`interface-port-protocol: spec.domain.devices.interfaces[0].ports[0].protocol: Invalid value: "X": must be TCP or UDP`,
				`interface-port-name: spec.domain.devices.interfaces[0].ports[1].name: Invalid value: "A": is not the name of a port`,
				`interface-port-names-unique: spec.domain.devices.interfaces[0].ports[1].name: Duplicate value: "A": ports[0] already has this name`,
				`interface-port-number: spec.domain.devices.interfaces[0].ports[1].port: Required value: must be within 1 and 65535`,
				`interface-port-number: spec.domain.devices.interfaces[0].ports[2].port: Invalid value: -1: must be within 1 and 65535`,
			},
		},
		{
			name: "ports that multus ignores",
			spec: `networks: [{name: default, multus: {networkName: nad}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, bridge: {}, ports: [{port: 0}], portRanges: [{start: 0, end: 0, protocol: X}]}]}}`,
		},
		{
			name:          "port ranges",
			configuration: `developerConfiguration: {featureGates: [PortRangesSpec]}`,
			spec: `networks: [{name: default, pod: {}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, masquerade: {}, portRanges: [{protocol: TCP, start: 1, end: 79}, {protocol: TCP, start: 80, end: 65535}, {protocol: UDP, start: 80, end: 80}]}]}}`,
		},
		{
			name: "port ranges without the gate",
			spec: `networks: [{name: default, pod: {}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, masquerade: {}, portRanges: [{protocol: TCP, start: 1, end: 79}]}]}}`,
			want: []string{
				`interface-port-ranges-gate: spec.domain.devices.interfaces[0].portRanges: Invalid value: 1: a range of ports needs KubeVirt's feature gate PortRangesSpec, which is off in this cluster`,
			},
		},
		{
			name:          "port ranges with ports, bridged",
			configuration: `developerConfiguration: {featureGates: [PortRangesSpec]}`,
			spec: `networks: [{name: default, pod: {}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, bridge: {}, ports: [{port: 22}], portRanges: [{protocol: TCP, start: 80, end: 90}]}]}}`,
			want: []string{
				`interface-port-ranges-masquerade: spec.domain.devices.interfaces[0].name: Invalid value: "default": the interface has portRanges, which need masquerade`,
				`interface-ports-or-ranges: spec.domain.devices.interfaces[0].name: Invalid value: "default": the interface has both ports and portRanges`,
			},
		},
		{
			name:          "wrong port ranges",
			configuration: `developerConfiguration: {featureGates: [PortRangesSpec]}`,
			spec: `networks: [{name: default, pod: {}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, masquerade: {}, portRanges: [{protocol: "", start: 1, end: 2}, {protocol: TCP, start: 0, end: 2}, {protocol: TCP, start: 1, end: 65536}, {protocol: TCP, start: 3, end: 2}]}]}}`,
			want: []string{
				`interface-port-range-protocol: spec.domain.devices.interfaces[0].portRanges[0].protocol: Invalid value: "": must be TCP or UDP`,
				`interface-port-range-bounds: spec.domain.devices.interfaces[0].portRanges[1].start: Invalid value: 0: must be within 1 and 65535`,
				`interface-port-range-bounds: spec.domain.devices.interfaces[0].portRanges[2].end: Invalid value: 65536: must be within 1 and 65535`,
				`interface-port-range-bounds: spec.domain.devices.interfaces[0].portRanges[3].start: Invalid value: 3: must not be above end, which is 2`,
			},
		},
		{
			name:          "port ranges that overlap",
			configuration: `developerConfiguration: {featureGates: [PortRangesSpec]}`,
			spec: `networks: [{name: default, pod: {}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, masquerade: {}, portRanges: [{protocol: UDP, start: 5, end: 6}, {protocol: TCP, start: 90, end: 100}, {protocol: UDP, start: 1, end: 5}, {protocol: TCP, start: 80, end: 95}]}]}}`,
			want: []string{
				`interface-port-ranges-overlap: spec.domain.devices.interfaces[0].portRanges: Invalid value: "80-95, 90-100": ranges of TCP must not overlap`,
				`interface-port-ranges-overlap: spec.domain.devices.interfaces[0].portRanges: Invalid value: "1-5, 5-6": ranges of UDP must not overlap`,
			},
		},
		{
			name:          "too many port ranges",
			configuration: `developerConfiguration: {featureGates: [PortRangesSpec]}`,
			spec: `networks: [{name: default, pod: {}}]` + "\n" +
				`domain: {devices: {interfaces: [{name: default, masquerade: {}, portRanges: [{protocol: X, start: 0, end: 0}, {protocol: X, start: 0, end: 0}, {protocol: X, start: 0, end: 0}, {protocol: X, start: 0, end: 0}, {protocol: X, start: 0, end: 0}, {protocol: X, start: 0, end: 0}, {protocol: X, start: 0, end: 0}, {protocol: X, start: 0, end: 0}, {protocol: X, start: 0, end: 0}, {protocol: X, start: 0, end: 0}, {protocol: X, start: 0, end: 0}]}]}}`,
			want: []string{
				`interface-port-ranges-count: spec.domain.devices.interfaces[0].portRanges: Invalid value: 11: must have at most 10 ranges`,
			},
		},
	})
}
