package validators

import (
	"strings"
	"testing"
)

const (
	draOff      = `{"developerConfiguration":{"disabledFeatureGates":["GPUsWithDRA","HostDevicesWithDRA"]}}`
	draNetworks = `{"developerConfiguration":{"featureGates":["NetworkDevicesWithDRA"]}}`
)

func TestDRA(t *testing.T) {
	runCases(t, draRules(), OnSpec, []ruleCase{
		{name: "none", spec: `{}`},
		{name: "claims that nothing uses", spec: `{"resourceClaims":[{"name":"c","resourceClaimName":"some.claim"},{"name":"d","resourceClaimTemplateName":"template"}]}`},
		{
			name: "claims without and with wrong names",
			spec: `{"resourceClaims":[{"name":"","resourceClaimName":"claim"},{"name":"","resourceClaimName":"claim"},{"name":"` + strings.Repeat("c", 64) + `","resourceClaimName":"claim"},{"name":"` + strings.Repeat("D", 200) + `","resourceClaimName":"claim"}]}`,
			want: []string{
				`dra-claim-named: spec.resourceClaims[0].name: Required value: devices refer to the claim by its name`,
				`dra-claim-named: spec.resourceClaims[1].name: Required value: devices refer to the claim by its name`,
				`dra-claim-name-valid: spec.resourceClaims[2].name: Invalid value: "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc": is not a DNS label`,
				`dra-claim-name-valid: spec.resourceClaims[3].name: Invalid value: "DDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD…": is not a DNS label`,
			},
		},
		{
			name: "claims of one name",
			spec: `{"resourceClaims":[{"name":"c","resourceClaimName":"claim"},{"name":"d","resourceClaimName":"claim"},{"name":"c","resourceClaimName":"claim"}]}`,
			want: []string{
				`dra-claim-names-unique: spec.resourceClaims[2].name: Duplicate value: "c"`,
			},
		},
		{
			name: "claims of nothing and of too much",
			spec: `{"resourceClaims":[{"name":"c"},{"name":"d","resourceClaimName":"a","resourceClaimTemplateName":"b"}]}`,
			want: []string{
				`dra-claim-one-source: spec.resourceClaims[0]: Invalid value: "c": neither resourceClaimName nor resourceClaimTemplateName is set`,
				`dra-claim-one-source: spec.resourceClaims[1]: Invalid value: "d": resourceClaimName and resourceClaimTemplateName are both set`,
			},
		},
		{
			name: "claims of what no object can be called",
			spec: `{"resourceClaims":[{"name":"c","resourceClaimName":""},{"name":"d","resourceClaimTemplateName":"Bad_"}]}`,
			want: []string{
				`dra-claim-source-valid: spec.resourceClaims[0].resourceClaimName: Invalid value: "": no object can have this name`,
				`dra-claim-source-valid: spec.resourceClaims[1].resourceClaimTemplateName: Invalid value: "Bad_": no object can have this name`,
			},
		},
		{name: "devices of plugins", spec: `{"domain":{"devices":{"gpus":[{"name":"g","deviceName":"a/b"}],"hostDevices":[{"name":"h","deviceName":"a/b","claimName":""}]}}}`},
		{name: "devices of claims", spec: `{"resourceClaims":[{"name":"c","resourceClaimName":"claim"}],"domain":{"devices":{"gpus":[{"name":"g","claimName":"c","requestName":"a"},{"name":"g2","claimName":"c","requestName":"b"}],"hostDevices":[{"name":"h","claimName":"c","requestName":"d"},{"name":"i","deviceName":"a/b"}]}}}`},
		{
			name: "devices of nothing",
			spec: `{"domain":{"devices":{"gpus":[{"name":"g"}],"hostDevices":[{"name":"h"}]}}}`,
			want: []string{
				`dra-device-has-source: spec.domain.devices.gpus: Required value: gpus[0], "g", has neither a deviceName nor a claimName with a requestName`,
				`dra-device-has-source: spec.domain.devices.hostDevices: Required value: hostDevices[0], "h", has neither a deviceName nor a claimName with a requestName`,
			},
		},
		{
			name: "devices of both",
			spec: `{"domain":{"devices":{"gpus":[{"name":"g","deviceName":"a/b","claimName":"c","requestName":"r"}],"hostDevices":[{"name":"h","deviceName":"a/b","claimName":"c"}]}}}`,
			want: []string{
				`dra-device-one-source: spec.domain.devices.gpus: Invalid value: "g": gpus[0] has both a deviceName and a claim`,
				`dra-device-one-source: spec.domain.devices.hostDevices: Invalid value: "h": hostDevices[0] has both a deviceName and a claim`,
			},
		},
		{
			name: "GPUs of both kinds",
			spec: `{"domain":{"devices":{"gpus":[{"name":"g","deviceName":"a/b"},{"name":"g2","claimName":"c"},{"name":"g3"}]}}}`,
			want: []string{
				`dra-gpus-of-one-kind: spec.domain.devices.gpus: Invalid value: some GPUs come from claims and some from device plugins`,
			},
		},
		{
			name: "devices of claims without their gates", configuration: draOff,
			spec: `{"domain":{"devices":{"gpus":[{"name":"g","claimName":"c"}],"hostDevices":[{"name":"h","claimName":"c","requestName":"r"}]}}}`,
			want: []string{
				`dra-device-gate: spec.domain.devices.gpus: Invalid value: "g": a GPU from a claim needs KubeVirt's feature gate GPUsWithDRA, which is off in this cluster`,
				`dra-device-gate: spec.domain.devices.hostDevices: Invalid value: "h": a host device from a claim needs KubeVirt's feature gate HostDevicesWithDRA, which is off in this cluster`,
			},
		},
		{
			name: "half a request",
			spec: `{"resourceClaims":[{"name":"c","resourceClaimName":"claim"}],"domain":{"devices":{"gpus":[{"name":"g","claimName":"c"}],"hostDevices":[{"name":"h","requestName":"r"}]}}}`,
			want: []string{
				`dra-request-complete: spec.domain.devices.gpus[0].requestName: Required value: name the request of the claim that the device comes from`,
				`dra-request-complete: spec.domain.devices.hostDevices[0].claimName: Required value: name the claim in resourceClaims that the device comes from`,
			},
		},
		{
			name: "claims that are not declared",
			spec: `{"resourceClaims":[{"name":"c","resourceClaimName":"claim"}],"domain":{"devices":{"gpus":[{"name":"g","claimName":"d","requestName":"a"},{"name":"g2","claimName":"d","requestName":"b"}],"hostDevices":[{"name":"h","claimName":"e","requestName":"a"}]}}}`,
			want: []string{
				`dra-claim-declared: spec.resourceClaims: Invalid value: "d": spec.domain.devices.gpus[0] uses a claim that is not declared`,
				`dra-claim-declared: spec.resourceClaims: Invalid value: "e": spec.domain.devices.hostDevices[0] uses a claim that is not declared`,
			},
		},
		{
			name: "requests that are used twice", configuration: draNetworks,
			spec: `{"resourceClaims":[{"name":"c","resourceClaimName":"claim"}],"networks":[{"name":"n","resourceClaim":{"claimName":"c","requestName":"r"}},{"name":"o","resourceClaim":{"claimName":"c","requestName":"s"}},{"name":"p","resourceClaim":{"claimName":"c","requestName":"s"}}],"domain":{"devices":{"gpus":[{"name":"g","claimName":"c","requestName":"r"},{"name":"g2","claimName":"c","requestName":"r"}],"hostDevices":[{"name":"h","claimName":"c","requestName":"r"}]}}}`,
			want: []string{
				`dra-request-used-once: spec.domain.devices.gpus[1]: Duplicate value: "c/r": spec.domain.devices.gpus[0] also uses this request`,
				`dra-request-used-once: spec.domain.devices.hostDevices[0]: Duplicate value: "c/r": spec.domain.devices.gpus[0] also uses this request`,
				`dra-request-used-once: spec.networks[0]: Duplicate value: "c/r": spec.domain.devices.gpus[0] also uses this request`,
				`dra-request-used-once: spec.networks[2]: Duplicate value: "c/s": spec.networks[1] also uses this request`,
			},
		},
		{name: "networks of claims", configuration: draNetworks, spec: `{"resourceClaims":[{"name":"c","resourceClaimName":"claim"}],"networks":[{"name":"n","resourceClaim":{"claimName":"c","requestName":"a"}},{"name":"o","resourceClaim":{"claimName":"c","requestName":"b"}},{"name":"default","pod":{}}],"domain":{"devices":{"interfaces":[{"name":"n","sriov":{}},{"name":"o","binding":{"name":"plugin"}},{"name":"default","masquerade":{}}]}}}`},
		{
			name: "networks of claims without their gate",
			spec: `{"networks":[{"name":"default","pod":{}},{"name":"n","resourceClaim":{"claimName":"c"}},{"name":"m","multus":{"networkName":"x"}}],"domain":{"devices":{"interfaces":[{"name":"n","bridge":{}}]}}}`,
			want: []string{
				`dra-network-gate: spec.networks: Invalid value: "n": a network from a claim needs KubeVirt's feature gate NetworkDevicesWithDRA, which is off in this cluster`,
			},
		},
		{
			name: "networks of claims that are wrong", configuration: draNetworks,
			spec: `{"networks":[{"name":"n","resourceClaim":{"claimName":"c","requestName":"a"}},{"name":"o","resourceClaim":{}},{"name":"m","multus":{"networkName":"x"}}],"domain":{"devices":{"interfaces":[{"name":"n","bridge":{}},{"name":"m","bridge":{}},{"name":"o","sriov":{}}]}}}`,
			want: []string{
				`dra-network-binding: spec.domain.devices.interfaces: Invalid value: "n": the network of interfaces[0] comes from a claim`,
				`dra-network-without-multus: spec.networks: Invalid value: "m": comes from Multus, and "n" from a claim`,
				`dra-claim-declared: spec.networks[0].resourceClaim.claimName: Not found: "c": there is no claim of this name in resourceClaims`,
				`dra-request-complete: spec.networks[1].resourceClaim.claimName: Required value: name the claim in resourceClaims that the device comes from`,
				`dra-request-complete: spec.networks[1].resourceClaim.requestName: Required value: name the request of the claim that the device comes from`,
			},
		},
	})
}
