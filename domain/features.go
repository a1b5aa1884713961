package domain

import v1 "kubevirt.io/api/core/v1"

func features(b *Build) error {
	made := &DomainFeatureList{}
	b.Domain.Features = made
	source := b.VMI.Spec.Domain.Features
	if source == nil {
		return nil
	}
	field := fieldDomain + "features"
	b.from("features", field)
	if !isFalse(source.ACPI.Enabled) {
		made.ACPI = &DomainEmpty{}
		b.from("features/acpi", field+".acpi")
	}
	if source.SMM != nil && !isFalse(source.SMM.Enabled) {
		made.SMM = &DomainEmpty{}
		b.from("features/smm", field+".smm")
	}
	if source.APIC != nil && !isFalse(source.APIC.Enabled) {
		made.APIC = &DomainEmpty{}
		b.from("features/apic", field+".apic")
	}
	switch {
	case source.Hyperv != nil:
		made.HyperV = hyperv(source.Hyperv)
		b.from("features/hyperv", field+".hyperv")
	case source.HypervPassthrough != nil && !isFalse(source.HypervPassthrough.Enabled):
		made.HyperV = &DomainFeatureHyperV{Mode: "passthrough"}
		b.from("features/hyperv", field+".hypervPassthrough")
	}
	if source.KVM != nil {
		made.KVM = &DomainFeatureKVM{Hidden: &DomainFeatureState{onOff(source.KVM.Hidden)}}
		b.from("features/kvm", field+".kvm")
	}
	if source.Pvspinlock != nil {
		made.PVSpinlock = state(source.Pvspinlock)
		b.from("features/pvspinlock", field+".pvspinlock")
	}
	if security := b.VMI.Spec.Domain.LaunchSecurity; security != nil && security.TDX != nil {
		made.PMU = &DomainFeatureState{"off"}
		b.from("features/pmu", fieldDomain+"launchSecurity.tdx")
	}
	if b.Architecture.VMPort {
		made.VMPort = &DomainFeatureState{"off"}
	}
	return nil
}

func state(source *v1.FeatureState) *DomainFeatureState {
	if source == nil {
		return nil
	}
	return &DomainFeatureState{onUnless(source.Enabled)}
}

func hyperv(source *v1.FeatureHyperv) *DomainFeatureHyperV {
	made := &DomainFeatureHyperV{
		Relaxed: state(source.Relaxed), VAPIC: state(source.VAPIC), VPIndex: state(source.VPIndex), Runtime: state(source.Runtime),
		Synic: state(source.SyNIC), Reset: state(source.Reset), Frequencies: state(source.Frequencies),
		ReEnlightenment: state(source.Reenlightenment), IPI: state(source.IPI), EVMCS: state(source.EVMCS),
	}
	if s := source.Spinlocks; s != nil {
		made.Spinlocks = &DomainFeatureHyperVSpinlocks{State: onUnless(s.Enabled), Retries: s.Retries}
	}
	if s := source.VendorID; s != nil {
		made.VendorId = &DomainFeatureHyperVVendorId{State: onUnless(s.Enabled), Value: s.VendorID}
	}
	if s := source.SyNICTimer; s != nil {
		made.STimer = &DomainFeatureHyperVSTimer{State: onUnless(s.Enabled), Direct: state(s.Direct)}
	}
	if s := source.TLBFlush; s != nil {
		made.TLBFlush = &DomainFeatureHyperVTLBFlush{State: onUnless(s.Enabled), Direct: state(s.Direct), Extended: state(s.Extended)}
	}
	return made
}
