package validators

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/platform"
)

// Feature gates of confidential VMs.
const (
	gateSEV             = "WorkloadEncryptionSEV" // of SEV and of SEV-SNP
	gateTDX             = "WorkloadEncryptionTDX"
	gateSecureExecution = "SecureExecution"
)

// protection is a way to keep a VM's memory from its host.
type protection string

const (
	sev             protection = "SEV"
	snp             protection = "SEV-SNP"
	tdx             protection = "TDX"
	secureExecution protection = "Secure Execution"
)

// gate is the feature gate of a protection.
func (p protection) gate() string {
	switch p {
	case tdx:
		return gateTDX
	case secureExecution:
		return gateSecureExecution
	default:
		return gateSEV
	}
}

func launchSecurityRules() Table {
	return Table{
		{
			ID: "launch-security-one-kind", Title: "Launch security on amd64 names one of SEV, SEV-SNP and TDX",
			Scope: OnSpec, Security: true, Remedy: "Set exactly one of launchSecurity.sev, snp and tdx.",
			Check: launchSecurityOneKind,
		},
		{
			ID: "launch-security-feature-gate", Title: "Launch security is switched on in the cluster",
			Scope: OnSpec, Security: true, Remedy: "Have the feature gate that the message names enabled in the KubeVirt resource.",
			Check: launchSecurityGate,
		},
		{
			ID: "launch-security-efi", Title: "SEV, SEV-SNP and TDX boot from EFI",
			Scope: OnSpec, Security: true, Remedy: "Set firmware.bootloader.efi, with secureBoot: false.",
			Check: launchSecurityEFI,
		},
		{
			ID: "launch-security-secure-boot", Title: "SEV and SEV-SNP do without EFI secure boot",
			Scope: OnSpec, Security: true, Remedy: "Set firmware.bootloader.efi.secureBoot to false: it is on when it is absent.",
			Check: launchSecuritySecureBoot,
		},
		{
			ID: "launch-security-persistent-efi", Title: "SEV-SNP and TDX keep no EFI variables",
			Scope: OnSpec, Security: true, Remedy: "Remove firmware.bootloader.efi.persistent.",
			Check: launchSecurityPersistentEFI,
		},
		{
			ID: "launch-security-smm", Title: "TDX does without system management mode",
			Scope: OnSpec, Security: true, Remedy: "Remove features.smm, or set its enabled to false.",
			Check: launchSecuritySMM,
		},
		{
			ID: "launch-security-attestation-paused", Title: "A VM that is attested under SEV starts paused",
			Scope: OnSpec, Security: true, Remedy: "Set startStrategy to Paused, so that nothing runs before the attestation.",
			Check: launchSecurityAttestation,
		},
		{
			ID: "launch-security-network-boot", Title: "SEV, SEV-SNP and TDX do not boot from the network",
			Scope: OnSpec, Security: true, Remedy: "Remove bootOrder from the interfaces.",
			Check: launchSecurityNetworkBoot,
		},
	}
}

func (s *Subject) launchSecurity() *field.Path { return s.Domain().Child("launchSecurity") }

// protectionsAsked are the protections of amd64 that are asked for.
func protectionsAsked(l *v1.LaunchSecurity) (asked []protection) {
	if l.SEV != nil {
		asked = append(asked, sev)
	}
	if l.SNP != nil {
		asked = append(asked, snp)
	}
	if l.TDX != nil {
		asked = append(asked, tdx)
	}
	return asked
}

// protectionOf is what the VM asks for, or nothing where that is not one thing: other rules say so.
func protectionOf(s *Subject) protection {
	l := s.Spec.Domain.LaunchSecurity
	if l == nil {
		return ""
	}
	switch s.architecture() {
	case platform.S390X: // the empty launchSecurity is how it is asked for
		return secureExecution
	case platform.AMD64:
		if asked := protectionsAsked(l); len(asked) == 1 {
			return asked[0]
		}
	}
	return ""
}

// effectiveProtection is protectionOf, if the cluster has it switched on. Without, there is one thing to say.
func effectiveProtection(s *Subject) protection {
	if p := protectionOf(s); p != "" && s.Facts.GateEnabled(p.gate()) {
		return p
	}
	return ""
}

// rejectProtection is what the rules that find two things at odds say: the one that the author may give up.
func rejectProtection(s *Subject, p protection, detail string) field.ErrorList {
	return field.ErrorList{field.Invalid(s.launchSecurity(), string(p), detail)}
}

func launchSecurityOneKind(s *Subject) field.ErrorList {
	l := s.Spec.Domain.LaunchSecurity
	if l == nil || s.architecture() != platform.AMD64 {
		return nil
	}
	switch asked := protectionsAsked(l); len(asked) {
	case 0:
		return field.ErrorList{field.Forbidden(s.launchSecurity(), "none of sev, snp and tdx is set, and amd64 has no other")}
	case 1:
		return nil
	default:
		names := make([]string, len(asked))
		for i, p := range asked {
			names[i] = string(p)
		}
		return field.ErrorList{field.Forbidden(s.launchSecurity(), strings.Join(names, " and ")+" exclude each other")}
	}
}

func launchSecurityGate(s *Subject) field.ErrorList {
	p := protectionOf(s)
	if p == "" || s.Facts.GateEnabled(p.gate()) {
		return nil
	}
	return rejectProtection(s, p, fmt.Sprintf("the feature gate %s is not enabled in the KubeVirt resource", p.gate()))
}

func launchSecurityEFI(s *Subject) field.ErrorList {
	switch p := effectiveProtection(s); p {
	case sev, snp, tdx:
		if !bootsEFI(s.Spec.Domain.Firmware) {
			return rejectProtection(s, p, "it starts from EFI, and firmware.bootloader.efi is not set")
		}
	}
	return nil
}

func launchSecuritySecureBoot(s *Subject) field.ErrorList {
	switch p := effectiveProtection(s); p {
	case sev, snp:
		if bootsSecurely(s.Spec.Domain.Firmware) {
			return rejectProtection(s, p, "EFI secure boot does not work with it, and is on unless firmware.bootloader.efi.secureBoot is false")
		}
	}
	return nil
}

func launchSecurityPersistentEFI(s *Subject) field.ErrorList {
	switch p := effectiveProtection(s); p {
	case snp, tdx:
		f := s.Spec.Domain.Firmware
		if bootsEFI(f) && f.Bootloader.EFI.Persistent != nil && *f.Bootloader.EFI.Persistent {
			return rejectProtection(s, p, "EFI variables cannot be kept with it, and firmware.bootloader.efi.persistent is true")
		}
	}
	return nil
}

func launchSecuritySMM(s *Subject) field.ErrorList {
	if effectiveProtection(s) != tdx || !managesSystem(s.Spec.Domain.Features) {
		return nil
	}
	return rejectProtection(s, tdx, "system management mode does not work with it, and features.smm is enabled")
}

func launchSecurityAttestation(s *Subject) field.ErrorList {
	if effectiveProtection(s) != sev || s.Spec.Domain.LaunchSecurity.SEV.Attestation == nil {
		return nil
	}
	if start := s.Spec.StartStrategy; start != nil && *start == v1.StartStrategyPaused {
		return nil
	}
	return rejectProtection(s, sev, "sev.attestation is set, and nothing can be attested before the VM runs unless startStrategy is Paused")
}

func launchSecurityNetworkBoot(s *Subject) field.ErrorList {
	p := effectiveProtection(s)
	if p == "" || p == secureExecution {
		return nil
	}
	var errs field.ErrorList
	for i := range s.Spec.Domain.Devices.Interfaces {
		if nic := &s.Spec.Domain.Devices.Interfaces[i]; nic.BootOrder != nil {
			errs = append(errs, rejectProtection(s, p, fmt.Sprintf("booting from the network does not work with it, and the interface %s has a bootOrder", nic.Name))...)
		}
	}
	return errs
}
