package mutators

import (
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/provenance"
)

// spinlockRetries is KubeVirt's default for hyperv.spinlocks.spinlocks.
const spinlockRetries uint32 = 4096

// clockTimers enables each timer that does not set present.
func clockTimers(c *Completion) {
	clock := c.Spec.Domain.Clock
	if clock == nil || clock.Timer == nil {
		return
	}
	t := clock.Timer
	const path = "domain.clock.timer."
	if t.HPET != nil {
		provenance.FillPointer(c.Recorder, path+"hpet.present", &t.HPET.Enabled, true)
	}
	if t.KVM != nil {
		provenance.FillPointer(c.Recorder, path+"kvm.present", &t.KVM.Enabled, true)
	}
	if t.PIT != nil {
		provenance.FillPointer(c.Recorder, path+"pit.present", &t.PIT.Enabled, true)
	}
	if t.RTC != nil {
		provenance.FillPointer(c.Recorder, path+"rtc.present", &t.RTC.Enabled, true)
	}
	if t.Hyperv != nil {
		provenance.FillPointer(c.Recorder, path+"hyperv.present", &t.Hyperv.Enabled, true)
	}
}

func acpi(enabled bool) func(*Completion) {
	return func(c *Completion) {
		features := provenance.Ensure(&c.Spec.Domain.Features)
		provenance.FillPointer(c.Recorder, "domain.features.acpi.enabled", &features.ACPI.Enabled, enabled)
	}
}

// enable enables a feature that does not set enabled.
func enable(c *Completion, path string, f *v1.FeatureState) {
	if f != nil {
		provenance.FillPointer(c.Recorder, path+".enabled", &f.Enabled, true)
	}
}

func features(c *Completion) {
	f := c.Spec.Domain.Features
	if f == nil {
		return
	}
	if f.APIC != nil {
		provenance.FillPointer(c.Recorder, "domain.features.apic.enabled", &f.APIC.Enabled, true)
	}
	enable(c, "domain.features.smm", f.SMM)
	enable(c, "domain.features.pvspinlock", f.Pvspinlock)
}

// hyperv is the path of the Hyper-V enlightenments.
const hyperv = "domain.features.hyperv."

// hypervFeatures enables each enlightenment that does not set enabled, and then those that the enabled ones need. If the
// author disabled one that is needed, the rest does not change, and the checks reject the VM.
func hypervFeatures(c *Completion) {
	if c.Spec.Domain.Features == nil || c.Spec.Domain.Features.Hyperv == nil {
		return
	}
	h := c.Spec.Domain.Features.Hyperv
	for _, f := range []struct {
		name  string
		state *v1.FeatureState
	}{
		{"relaxed", h.Relaxed},
		{"vapic", h.VAPIC},
		{"vpindex", h.VPIndex},
		{"runtime", h.Runtime},
		{"synic", h.SyNIC},
		{"reset", h.Reset},
		{"frequencies", h.Frequencies},
		{"reenlightenment", h.Reenlightenment},
		{"ipi", h.IPI},
		{"evmcs", h.EVMCS},
	} {
		enable(c, hyperv+f.name, f.state)
	}
	hypervCompoundFeatures(c, h)
	for _, d := range HypervDependencies() {
		if d.Broken(h) {
			return
		}
		if state := d.Needed(h); on(d.Feature(h)) && (*state == nil || (*state).Enabled == nil) {
			provenance.FillPointer(c.Recorder, hyperv+d.Needs+".enabled", &provenance.Ensure(state).Enabled, true)
		}
	}
}

// hypervCompoundFeatures are those with settings of their own.
func hypervCompoundFeatures(c *Completion, h *v1.FeatureHyperv) {
	if s := h.Spinlocks; s != nil {
		provenance.FillPointer(c.Recorder, hyperv+"spinlocks.enabled", &s.Enabled, true)
		if *s.Enabled {
			provenance.FillPointer(c.Recorder, hyperv+"spinlocks.spinlocks", &s.Retries, spinlockRetries)
		}
	}
	if t := h.SyNICTimer; t != nil {
		provenance.FillPointer(c.Recorder, hyperv+"synictimer.enabled", &t.Enabled, true)
		enable(c, hyperv+"synictimer.direct", t.Direct)
	}
	if v := h.VendorID; v != nil {
		provenance.FillPointer(c.Recorder, hyperv+"vendorid.enabled", &v.Enabled, true)
	}
	if t := h.TLBFlush; t != nil {
		provenance.FillPointer(c.Recorder, hyperv+"tlbflush.enabled", &t.Enabled, true)
		enable(c, hyperv+"tlbflush.direct", t.Direct)
		enable(c, hyperv+"tlbflush.extended", t.Extended)
	}
}

// HypervDependency says that an enlightenment does nothing without another. The names are those of the fields.
type HypervDependency struct {
	Name, Needs string
	// Feature and Needed find the two.
	Feature func(*v1.FeatureHyperv) *v1.FeatureState
	Needed  func(*v1.FeatureHyperv) **v1.FeatureState
}

// Broken reports whether the feature is on and what it needs was switched off.
func (d HypervDependency) Broken(h *v1.FeatureHyperv) bool {
	needed := *d.Needed(h)
	return on(d.Feature(h)) && needed != nil && needed.Enabled != nil && !*needed.Enabled
}

// HypervDependencies are QEMU's, in an order in which following one may start another.
func HypervDependencies() []HypervDependency {
	vapic := func(h *v1.FeatureHyperv) **v1.FeatureState { return &h.VAPIC }
	vpindex := func(h *v1.FeatureHyperv) **v1.FeatureState { return &h.VPIndex }
	synic := func(h *v1.FeatureHyperv) **v1.FeatureState { return &h.SyNIC }
	return []HypervDependency{
		{"evmcs", "vapic", func(h *v1.FeatureHyperv) *v1.FeatureState { return h.EVMCS }, vapic},
		{"ipi", "vpindex", func(h *v1.FeatureHyperv) *v1.FeatureState { return h.IPI }, vpindex},
		{"tlbflush", "vpindex", func(h *v1.FeatureHyperv) *v1.FeatureState { return inner(h.TLBFlush) }, vpindex},
		{"synictimer", "synic", func(h *v1.FeatureHyperv) *v1.FeatureState { return innerTimer(h.SyNICTimer) }, synic},
		{"synic", "vpindex", func(h *v1.FeatureHyperv) *v1.FeatureState { return h.SyNIC }, vpindex},
	}
}

func inner(t *v1.TLBFlush) *v1.FeatureState {
	if t == nil {
		return nil
	}
	return &t.FeatureState
}

func innerTimer(t *v1.SyNICTimer) *v1.FeatureState {
	if t == nil {
		return nil
	}
	return &t.FeatureState
}

func on(f *v1.FeatureState) bool { return f != nil && f.Enabled != nil && *f.Enabled }

// evmcsCPUFeature asks for vmx, without which an enlightened VMCS is of no use. A policy that the author
// gave for vmx stays.
func evmcsCPUFeature(c *Completion) {
	f := c.Spec.Domain.Features
	if f == nil || f.Hyperv == nil || !on(f.Hyperv.EVMCS) {
		return
	}
	for _, d := range HypervDependencies() {
		if d.Broken(f.Hyperv) {
			return
		}
	}
	cpu := provenance.Ensure(&c.Spec.Domain.CPU)
	for i := range cpu.Features {
		if cpu.Features[i].Name == "vmx" {
			provenance.Fill(c.Recorder, fieldpath.Indexed("domain.cpu.features", i, "policy"), &cpu.Features[i].Policy, "require")
			return
		}
	}
	cpu.Features = append(cpu.Features, v1.CPUFeature{Name: "vmx", Policy: "require"})
	c.Recorder.Record(fieldpath.Indexed("domain.cpu.features", len(cpu.Features)-1, "name"), "vmx")
	c.Recorder.Record(fieldpath.Indexed("domain.cpu.features", len(cpu.Features)-1, "policy"), "require")
}
