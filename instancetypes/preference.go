package instancetypes

import (
	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/provenance"
)

// applyPreference fills what the preference prefers, wherever nothing is set yet.
func applyPreference(spec *vmiSpec, pref *preferenceSpec, rec *provenance.Recorder) {
	if pref.PreferredArchitecture != nil {
		provenance.Fill(rec, "architecture", &spec.Architecture, *pref.PreferredArchitecture)
	}
	preferCPUFeatures(spec, pref, rec)
	preferDevices(spec, pref, rec)
	preferFeatures(&spec.Domain, pref, rec)
	preferFirmware(&spec.Domain, pref, rec)
	preferMachine(spec, pref, rec)
	preferClock(&spec.Domain, pref, rec)
	if pref.PreferredSubdomain != nil {
		provenance.Fill(rec, "subdomain", &spec.Subdomain, *pref.PreferredSubdomain)
	}
	fillCopy(rec, "terminationGracePeriodSeconds", &spec.TerminationGracePeriodSeconds, pref.PreferredTerminationGracePeriodSeconds)
	adopt(rec, "domain.launchSecurity", &spec.Domain.LaunchSecurity, pref.PreferredLaunchSecurity)
}

// preferCPUFeatures adds the features that the VM does not name itself. The caller has made sure that there
// is a domain.cpu.
func preferCPUFeatures(spec *vmiSpec, pref *preferenceSpec, rec *provenance.Recorder) {
	if pref.CPU == nil || len(pref.CPU.PreferredCPUFeatures) == 0 {
		return
	}
	cpu := spec.Domain.CPU
	named := make(map[string]bool, len(cpu.Features))
	for i := range cpu.Features {
		named[cpu.Features[i].Name] = true
	}
	first := len(cpu.Features)
	for _, feature := range pref.CPU.PreferredCPUFeatures {
		if !named[feature.Name] {
			cpu.Features = append(cpu.Features, feature)
		}
	}
	if first == 0 {
		rec.Record("domain.cpu.features", cpu.Features)
		return
	}
	for i := first; i < len(cpu.Features); i++ {
		rec.Record(fieldpath.Indexed("domain.cpu.features", i, ""), cpu.Features[i])
	}
}

func preferFeatures(domain *v1.DomainSpec, pref *preferenceSpec, rec *provenance.Recorder) {
	preferred := pref.Features
	if preferred == nil {
		return
	}
	features := provenance.Ensure(&domain.Features)
	if acpi := preferred.PreferredAcpi; acpi != nil && !equality.Semantic.DeepEqual(features.ACPI, *acpi) {
		features.ACPI = *acpi.DeepCopy()
		rec.Record("domain.features.acpi", features.ACPI)
	}
	adopt(rec, "domain.features.apic", &features.APIC, preferred.PreferredApic)
	if preferred.PreferredHyperv != nil {
		preferHyperv(provenance.Ensure(&features.Hyperv), preferred.PreferredHyperv, rec)
	}
	adopt(rec, "domain.features.kvm", &features.KVM, preferred.PreferredKvm)
	adopt(rec, "domain.features.pvspinlock", &features.Pvspinlock, preferred.PreferredPvspinlock)
	adopt(rec, "domain.features.smm", &features.SMM, preferred.PreferredSmm)
}

// preferHyperv does it one enlightenment at a time. A VM's hypervPassthrough does not keep them away, here as
// in KubeVirt, whose webhook then rejects the two together.
func preferHyperv(hyperv, preferred *v1.FeatureHyperv, rec *provenance.Recorder) {
	const at = "domain.features.hyperv."
	adopt(rec, at+"evmcs", &hyperv.EVMCS, preferred.EVMCS)
	adopt(rec, at+"frequencies", &hyperv.Frequencies, preferred.Frequencies)
	adopt(rec, at+"ipi", &hyperv.IPI, preferred.IPI)
	adopt(rec, at+"reenlightenment", &hyperv.Reenlightenment, preferred.Reenlightenment)
	adopt(rec, at+"relaxed", &hyperv.Relaxed, preferred.Relaxed)
	adopt(rec, at+"reset", &hyperv.Reset, preferred.Reset)
	adopt(rec, at+"runtime", &hyperv.Runtime, preferred.Runtime)
	adopt(rec, at+"spinlocks", &hyperv.Spinlocks, preferred.Spinlocks)
	adopt(rec, at+"synic", &hyperv.SyNIC, preferred.SyNIC)
	adopt(rec, at+"synictimer", &hyperv.SyNICTimer, preferred.SyNICTimer)
	adopt(rec, at+"tlbflush", &hyperv.TLBFlush, preferred.TLBFlush)
	adopt(rec, at+"vapic", &hyperv.VAPIC, preferred.VAPIC)
	adopt(rec, at+"vpindex", &hyperv.VPIndex, preferred.VPIndex)
	adopt(rec, at+"vendorid", &hyperv.VendorID, preferred.VendorID)
}

// preferFirmware chooses BIOS or EFI where the VM has chosen neither: BIOS before EFI, and EFI as
// preferredEfi describes it before the deprecated preferredUseEfi and preferredUseSecureBoot.
func preferFirmware(domain *v1.DomainSpec, pref *preferenceSpec, rec *provenance.Recorder) {
	preferred := pref.Firmware
	if preferred == nil {
		return
	}
	boot := provenance.Ensure(&provenance.Ensure(&domain.Firmware).Bootloader)
	unset := boot.BIOS == nil && boot.EFI == nil
	switch {
	case unset && isTrue(preferred.PreferredUseBios):
		boot.BIOS = &v1.BIOS{UseSerial: copyOf(preferred.PreferredUseBiosSerial)}
		rec.Record("domain.firmware.bootloader.bios", boot.BIOS)
	case unset && preferred.PreferredEfi != nil:
		adopt(rec, "domain.firmware.bootloader.efi", &boot.EFI, preferred.PreferredEfi)
	case unset && isTrue(preferred.DeprecatedPreferredUseEfi):
		boot.EFI = &v1.EFI{SecureBoot: copyOf(preferred.DeprecatedPreferredUseSecureBoot)}
		rec.Record("domain.firmware.bootloader.efi", boot.EFI)
	case !unset:
		if boot.BIOS != nil {
			fillCopy(rec, "domain.firmware.bootloader.bios.useSerial", &boot.BIOS.UseSerial, preferred.PreferredUseBiosSerial)
		}
		if boot.EFI != nil {
			fillCopy(rec, "domain.firmware.bootloader.efi.secureBoot", &boot.EFI.SecureBoot, preferred.DeprecatedPreferredUseSecureBoot)
		}
	}
}

func isTrue(b *bool) bool { return b != nil && *b }

func copyOf[T any](value *T) *T {
	if value == nil {
		return nil
	}
	copied := *value
	return &copied
}

func preferMachine(spec *vmiSpec, pref *preferenceSpec, rec *provenance.Recorder) {
	if pref.Machine != nil && pref.Machine.PreferredMachineType != "" {
		provenance.Fill(rec, "domain.machine.type", &provenance.Ensure(&spec.Domain.Machine).Type, pref.Machine.PreferredMachineType)
	}
}

// preferClock never mixes a preferred offset with the VM's own.
func preferClock(domain *v1.DomainSpec, pref *preferenceSpec, rec *provenance.Recorder) {
	preferred := pref.Clock
	if preferred == nil {
		return
	}
	clock := provenance.Ensure(&domain.Clock)
	if offset := preferred.PreferredClockOffset; offset != nil && clock.UTC == nil && clock.Timezone == nil {
		adopt(rec, "domain.clock.utc", &clock.UTC, offset.UTC)
		fillCopy(rec, "domain.clock.timezone", &clock.Timezone, offset.Timezone)
	}
	adopt(rec, "domain.clock.timer", &clock.Timer, preferred.PreferredTimer)
}
