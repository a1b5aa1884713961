package validators

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
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
	return Scoped(OnSpec,
		launchSecurityOneKindRule,
		launchSecurityGateRule,
		launchSecurityEFIRule,
		launchSecuritySecureBootRule,
		launchSecurityPersistentEFIRule,
		launchSecuritySMMRule,
		launchSecurityAttestationRule,
		launchSecurityNetworkBootRule,
	)
}

func (s *Subject) launchSecurity() *field.Path { return s.Domain().Child("launchSecurity") }

// protectionsRequested are the protections of amd64 that the VM requests.
func protectionsRequested(l *v1.LaunchSecurity) (asked []protection) {
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
	case architectures.S390X: // an empty launchSecurity requests it
		return secureExecution
	case architectures.AMD64:
		if asked := protectionsRequested(l); len(asked) == 1 {
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
func rejectProtection(s *Subject, p protection, detail string, found *Errors) {
	found.Add(field.Invalid(s.launchSecurity(), string(p), detail))
}

var launchSecurityOneKindRule = Rule{
	ID:       "launch-security-one-kind",
	Title:    "Launch security on amd64 names one of SEV, SEV-SNP and TDX",
	Remedy:   "Set exactly one of launchSecurity.sev, snp and tdx.",
	Security: true,
	Check:    launchSecurityOneKind,
}

func launchSecurityOneKind(s *Subject, found *Errors) {
	l := s.Spec.Domain.LaunchSecurity
	if l == nil || s.architecture() != architectures.AMD64 {
		return
	}
	switch asked := protectionsRequested(l); len(asked) {
	case 0:
		found.Add(field.Forbidden(s.launchSecurity(), "none of sev, snp and tdx is set"))
	case 1:
	default:
		names := make([]string, len(asked))
		for i, p := range asked {
			names[i] = string(p)
		}
		found.Add(field.Forbidden(s.launchSecurity(), strings.Join(names, " and ")+" exclude each other"))
	}
}

var launchSecurityGateRule = Rule{
	ID:       "launch-security-feature-gate",
	Title:    "Launch security needs its feature gate",
	Remedy:   "Remove launchSecurity, or enable the feature gate in the KubeVirt resource.",
	Security: true,
	Check:    launchSecurityGate,
}

func launchSecurityGate(s *Subject, found *Errors) {
	p := protectionOf(s)
	if p == "" || s.Facts.GateEnabled(p.gate()) {
		return
	}
	rejectProtection(s, p, fmt.Sprintf("needs KubeVirt's feature gate %s, which is off in this cluster", p.gate()), found)
}

var launchSecurityEFIRule = Rule{
	ID:       "launch-security-efi",
	Title:    "SEV, SEV-SNP and TDX boot from EFI",
	Remedy:   "Set firmware.bootloader.efi, with secureBoot: false.",
	Security: true,
	Check:    launchSecurityEFI,
}

func launchSecurityEFI(s *Subject, found *Errors) {
	switch p := effectiveProtection(s); p {
	case sev, snp, tdx:
		if !bootsEFI(s.Spec.Domain.Firmware) {
			rejectProtection(s, p, "needs EFI, and firmware.bootloader.efi is not set", found)
		}
	}
}

var launchSecuritySecureBootRule = Rule{
	ID:       "launch-security-secure-boot",
	Title:    "SEV and SEV-SNP do not support EFI Secure Boot",
	Remedy:   "Set firmware.bootloader.efi.secureBoot to false.",
	Security: true,
	Check:    launchSecuritySecureBoot,
}

func launchSecuritySecureBoot(s *Subject, found *Errors) {
	switch p := effectiveProtection(s); p {
	case sev, snp:
		if bootsSecurely(s.Spec.Domain.Firmware) {
			rejectProtection(s, p, "does not support EFI Secure Boot, which is on by default", found)
		}
	}
}

var launchSecurityPersistentEFIRule = Rule{
	ID:       "launch-security-persistent-efi",
	Title:    "SEV-SNP and TDX do not support persistent EFI variables",
	Remedy:   "Remove firmware.bootloader.efi.persistent.",
	Security: true,
	Check:    launchSecurityPersistentEFI,
}

func launchSecurityPersistentEFI(s *Subject, found *Errors) {
	switch p := effectiveProtection(s); p {
	case snp, tdx:
		f := s.Spec.Domain.Firmware
		if bootsEFI(f) && f.Bootloader.EFI.Persistent != nil && *f.Bootloader.EFI.Persistent {
			rejectProtection(s, p, "does not support persistent EFI variables", found)
		}
	}
}

var launchSecuritySMMRule = Rule{
	ID:       "launch-security-smm",
	Title:    "TDX does not support system management mode",
	Remedy:   "Remove features.smm, or set its enabled to false.",
	Security: true,
	Check:    launchSecuritySMM,
}

func launchSecuritySMM(s *Subject, found *Errors) {
	if effectiveProtection(s) != tdx || !managesSystem(s.Spec.Domain.Features) {
		return
	}
	rejectProtection(s, tdx, "does not support system management mode", found)
}

var launchSecurityAttestationRule = Rule{
	ID:       "launch-security-attestation-paused",
	Title:    "A VM with SEV attestation starts paused",
	Remedy:   "Set startStrategy to Paused, so that nothing runs before the attestation.",
	Security: true,
	Check:    launchSecurityAttestation,
}

func launchSecurityAttestation(s *Subject, found *Errors) {
	if effectiveProtection(s) != sev || s.Spec.Domain.LaunchSecurity.SEV.Attestation == nil {
		return
	}
	if start := s.Spec.StartStrategy; start != nil && *start == v1.StartStrategyPaused {
		return
	}
	rejectProtection(s, sev, "sev.attestation is set, and the VM does not start paused", found)
}

var launchSecurityNetworkBootRule = Rule{
	ID:       "launch-security-network-boot",
	Title:    "SEV, SEV-SNP and TDX do not support network boot",
	Remedy:   "Remove bootOrder from the interfaces.",
	Security: true,
	Check:    launchSecurityNetworkBoot,
}

func launchSecurityNetworkBoot(s *Subject, found *Errors) {
	p := effectiveProtection(s)
	if p == "" || p == secureExecution {
		return
	}

	for i := range s.Spec.Domain.Devices.Interfaces {
		if nic := &s.Spec.Domain.Devices.Interfaces[i]; nic.BootOrder != nil {
			rejectProtection(s, p, fmt.Sprintf("does not support network boot, and the interface %s has a bootOrder", nic.Name), found)
		}
	}
}
