package validators

import "testing"

func TestLaunchSecurity(t *testing.T) {
	const gates = `{"developerConfiguration":{"featureGates":["WorkloadEncryptionSEV","WorkloadEncryptionTDX"]}}`
	const withoutSEV = `{"developerConfiguration":{"disabledFeatureGates":["WorkloadEncryptionSEV"]}}`
	const efi = `"firmware":{"bootloader":{"efi":{"secureBoot":false}}}`
	runCases(t, launchSecurityRules(), OnSpec, []ruleCase{
		{name: "none", spec: `{}`},
		{name: "SEV", configuration: gates, spec: `{"domain":{"launchSecurity":{"sev":{}},"features":{"smm":{}},` + efi + `}}`},
		{name: "SEV keeps EFI variables", configuration: gates, spec: `{"domain":{"launchSecurity":{"sev":{}},"firmware":{"bootloader":{"efi":{"secureBoot":false,"persistent":true}}}}}`},
		{name: "SEV-SNP", configuration: gates, spec: `{"domain":{"launchSecurity":{"snp":{}},` + efi + `}}`},
		{name: "TDX", configuration: gates, spec: `{"domain":{"launchSecurity":{"tdx":{}},"features":{"smm":{"enabled":false}},` + efi + `}}`},
		{name: "TDX with secure boot", configuration: gates, spec: `{"domain":{"launchSecurity":{"tdx":{}},"firmware":{"bootloader":{"efi":{}}}}}`},
		{name: "Secure Execution", spec: `{"architecture":"s390x","domain":{"launchSecurity":{}}}`},
		{name: "attested and paused", configuration: gates, spec: `{"startStrategy":"Paused","domain":{"launchSecurity":{"sev":{"attestation":{}}},` + efi + `}}`},
		{
			name: "nothing in particular",
			spec: `{"domain":{"launchSecurity":{}}}`,
			want: []string{`launch-security-one-kind: spec.domain.launchSecurity: Forbidden: none of sev, snp and tdx is set`},
		},
		{
			name: "everything at once",
			spec: `{"domain":{"launchSecurity":{"sev":{},"snp":{},"tdx":{}}}}`,
			want: []string{`launch-security-one-kind: spec.domain.launchSecurity: Forbidden: SEV and SEV-SNP and TDX exclude each other`},
		},
		{
			name:          "SEV without its gate",
			configuration: withoutSEV,
			spec:          `{"domain":{"launchSecurity":{"sev":{}}}}`,
			want:          []string{`launch-security-feature-gate: spec.domain.launchSecurity: Invalid value: "SEV": needs KubeVirt's feature gate WorkloadEncryptionSEV, which is off in this cluster`},
		},
		{
			name:          "SEV-SNP without its gate",
			configuration: withoutSEV,
			spec:          `{"domain":{"launchSecurity":{"snp":{}}}}`,
			want:          []string{`launch-security-feature-gate: spec.domain.launchSecurity: Invalid value: "SEV-SNP": needs KubeVirt's feature gate WorkloadEncryptionSEV, which is off in this cluster`},
		},
		{
			name: "TDX without its gate",
			spec: `{"domain":{"launchSecurity":{"tdx":{}}}}`,
			want: []string{`launch-security-feature-gate: spec.domain.launchSecurity: Invalid value: "TDX": needs KubeVirt's feature gate WorkloadEncryptionTDX, which is off in this cluster`},
		},
		{
			name:          "BIOS",
			configuration: gates,
			spec:          `{"domain":{"launchSecurity":{"sev":{}},"firmware":{"bootloader":{"bios":{}}}}}`,
			want:          []string{`launch-security-efi: spec.domain.launchSecurity: Invalid value: "SEV": needs EFI, and firmware.bootloader.efi is not set`},
		},
		{
			name:          "secure boot and kept variables",
			configuration: gates,
			spec:          `{"domain":{"launchSecurity":{"snp":{}},"firmware":{"bootloader":{"efi":{"persistent":true}}}}}`,
			want: []string{
				`launch-security-persistent-efi: spec.domain.launchSecurity: Invalid value: "SEV-SNP": does not support persistent EFI variables`,
				`launch-security-secure-boot: spec.domain.launchSecurity: Invalid value: "SEV-SNP": does not support EFI Secure Boot, which is on by default`,
			},
		},
		{
			name:          "TDX with SMM",
			configuration: gates,
			spec:          `{"domain":{"launchSecurity":{"tdx":{}},"features":{"smm":{}},` + efi + `}}`,
			want:          []string{`launch-security-smm: spec.domain.launchSecurity: Invalid value: "TDX": does not support system management mode`},
		},
		{
			name:          "attested and running",
			configuration: gates,
			spec:          `{"domain":{"launchSecurity":{"sev":{"attestation":{}}},` + efi + `}}`,
			want:          []string{`launch-security-attestation-paused: spec.domain.launchSecurity: Invalid value: "SEV": sev.attestation is set, and the VM does not start paused`},
		},
		{
			name:          "booted from the network",
			configuration: gates,
			spec:          `{"domain":{"launchSecurity":{"tdx":{}},"devices":{"interfaces":[{"name":"a","bootOrder":1},{"name":"b"}]},` + efi + `}}`,
			want:          []string{`launch-security-network-boot: spec.domain.launchSecurity: Invalid value: "TDX": does not support network boot, and the interface a has a bootOrder`},
		},
	})
}
