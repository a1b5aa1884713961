package launcher

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/provenance"
)

// Demand is a property that the pod demands of a node, and who demands it.
type Demand struct {
	// Key of a label of the node, Operator and Value: In, Exists or DoesNotExist.
	Key      string
	Operator corev1.NodeSelectorOperator
	Value    string
	// Field of the instance that demands it; empty if KubeVirt or the cluster always does.
	Field string
	// Layer that set the field; empty if the author did, or if there is no field.
	Layer string
	// Rule of KubeVirt that makes the demand, for people.
	Rule string
	// Preferred demands do not keep the pod from being scheduled.
	Preferred bool
}

// selector is a row of the table of node selectors. Later rows replace the labels of earlier ones.
type selector struct {
	rule string
	// field of the instance; empty if it is not one of the instance.
	field string
	add   func(s *subject, a *selected)
}

// selectors are the rows, in the order of KubeVirt.
func selectors() []selector {
	return []selector{
		{"KubeVirt runs on nodes that virt-handler marks", "", func(_ *subject, a *selected) { a.require(v1.NodeSchedulable) }},
		{"the architecture of the guest", "spec.architecture", nativeArchitecture},
		{"nodeSelectors of the KubeVirt resource", "", func(s *subject, a *selected) {
			a.all(s.Facts.Configuration.DeveloperConfiguration.NodeSelectors)
		}},
		{"the node selector of the instance", "spec.nodeSelector", func(s *subject, a *selected) { a.all(s.spec.NodeSelector) }},
		{"the architecture must not be emulated elsewhere", "spec.architecture", emulatedArchitecture},
		{"dedicated CPUs need the CPU manager", "spec.domain.cpu.dedicatedCpuPlacement", func(s *subject, a *selected) { a.requireIf(s.dedicated, v1.CPUManager) }},
		{"HypervStrictCheck demands what the features need", "spec.domain.features.hyperv", hypervFeatures},
		{"a named CPU model", "spec.domain.cpu.model", cpuModel},
		{"the machine type", "spec.domain.machine.type", machineType},
		{"required CPU features", "spec.domain.cpu.features", cpuFeatures},
		{"invtsc fixes the frequency of the time stamp counter", tscOfCPU, func(s *subject, a *selected) { tscFrequency(s, a, tscOfCPU) }},
		{"reenlightenment fixes the frequency of the time stamp counter", tscOfHyperV, func(s *subject, a *selected) { tscFrequency(s, a, tscOfHyperV) }},
		{"realtime", "spec.domain.cpu.realtime", func(s *subject, a *selected) { a.requireIf(s.VMI.IsRealtimeEnabled(), v1.RealtimeLabel) }},
		{"memory encryption", "spec.domain.launchSecurity", launchSecurity},
		{"the node runs or emulates the architecture", "spec.architecture", crossArchitecture},
	}
}

// selectorRows is selectors. It is not changed.
var selectorRows = selectors()

// selected collects the labels of the table.
type selected struct {
	s      *subject
	labels map[string]string
	row    *selector
}

func (a *selected) require(key string) { a.set(key, "true", "") }

func (a *selected) requireIf(needed bool, key string) {
	if needed {
		a.require(key)
	}
}

func (a *selected) all(labels map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		a.set(key, labels[key], "")
	}
}

// set replaces a label, and the demand for it. The suffix completes the field of the row.
func (a *selected) set(key, value, suffix string) {
	a.labels[key] = value
	a.drop(key)
	field := a.row.field + suffix
	a.s.demands = append(a.s.demands, Demand{
		Key: key, Operator: corev1.NodeSelectorOpIn, Value: value, Field: field, Layer: a.s.layer(field), Rule: a.row.rule,
	})
}

func (a *selected) drop(key string) {
	a.s.demands = slices.DeleteFunc(a.s.demands, func(d Demand) bool { return d.Key == key })
}

// layer is the layer that set a field or the object around it; empty if the author did.
func (s *subject) layer(field string) string { return LayerOf(s.Changes, field) }

// LayerOf is the layer that set a field of the instance or the object around it; empty if none of the changes did.
func LayerOf(changes []provenance.Change, field string) string {
	for field != "" {
		for i := len(changes) - 1; i >= 0; i-- {
			if changes[i].Path == field {
				return changes[i].Layer
			}
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
	return ""
}

func nativeArchitecture(s *subject, a *selected) {
	if s.spec.Architecture != "" {
		a.set(corev1.LabelArchStable, strings.ToLower(s.spec.Architecture), "")
	}
}

// emulatedArchitecture removes the label of the architecture, also that of the author, where nodes emulate others.
func emulatedArchitecture(s *subject, a *selected) {
	if s.spec.Architecture != "" && s.Facts.GateEnabled(gateCrossArchitecture) {
		delete(a.labels, corev1.LabelArchStable)
		a.drop(corev1.LabelArchStable)
	}
}

func crossArchitecture(s *subject, a *selected) {
	if s.spec.Architecture != "" && s.Facts.GateEnabled(gateCrossArchitecture) {
		a.require(v1.VMArchLabel + s.spec.Architecture)
	}
}

func hypervFeatures(s *subject, a *selected) {
	features := s.spec.Domain.Features
	if features == nil || features.Hyperv == nil || !s.Facts.GateEnabled("HypervStrictCheck") {
		return
	}
	h := features.Hyperv
	on := func(f *v1.FeatureState) bool { return f != nil && f.Enabled != nil && *f.Enabled }
	for _, f := range []struct {
		name    string
		enabled bool
	}{
		{"vpindex", on(h.VPIndex)},
		{"runtime", on(h.Runtime)},
		{"reset", on(h.Reset)},
		{"synic", on(h.SyNIC)},
		{"synictimer", h.SyNICTimer != nil && h.SyNICTimer.Enabled != nil && *h.SyNICTimer.Enabled},
		{"frequencies", on(h.Frequencies)},
		{"reenlightenment", on(h.Reenlightenment)},
		{"tlbflush", h.TLBFlush != nil && h.TLBFlush.Enabled != nil && *h.TLBFlush.Enabled},
		{"ipi", on(h.IPI)},
	} {
		if f.enabled {
			a.set(v1.HypervLabel+f.name, "true", "."+f.name)
		}
	}
	if h.EVMCS != nil && (h.EVMCS.Enabled == nil || *h.EVMCS.Enabled) {
		a.set(v1.CPUModelVendorLabel+"Intel", "true", ".evmcs")
	}
}

func cpuModel(s *subject, a *selected) {
	cpu := s.spec.Domain.CPU
	if cpu != nil && cpu.Model != "" && cpu.Model != v1.CPUModeHostModel && cpu.Model != v1.CPUModeHostPassthrough {
		a.require(v1.CPUModelLabel + cpu.Model)
	}
}

// cpuFeatures demands features only of instances with a CPU model, as KubeVirt does.
func cpuFeatures(s *subject, a *selected) {
	cpu := s.spec.Domain.CPU
	if cpu == nil || cpu.Model == "" {
		return
	}
	for i := range cpu.Features {
		if f := &cpu.Features[i]; f.Policy == "" || f.Policy == "require" {
			a.set(v1.CPUFeatureLabel+f.Name, "true", "["+strconv.Itoa(i)+"]")
		}
	}
}

func machineType(s *subject, a *selected) {
	machine := ""
	if status := s.VMI.Status.Machine; status != nil {
		machine = status.Type
	}
	if m := s.spec.Domain.Machine; machine == "" && m != nil {
		machine = m.Type
	}
	if machine != "" {
		a.require(v1.SupportedMachineTypeLabel + machine)
	}
}

// TSCFrequencyLabel is the start of the label of nodes that offer a frequency of the time stamp counter, which ends with it, in Hz.
// virt-controller sets it for the frequency of the node, and for those of instances that the node can offer too.
const TSCFrequencyLabel = "scheduling.node.kubevirt.io/tsc-frequency-"

// tscFrequency demands the frequency that virt-controller chose, where the guest measures time with it.
func tscFrequency(s *subject, a *selected, field string) {
	hz := TSCFrequency(s.VMI)
	a.requireIf(hz > 0 && TSCField(s.spec) == field, TSCFrequencyLabel+strconv.FormatInt(hz, 10))
}

// TSCFrequency is the frequency of the time stamp counter that virt-controller chose for an instance, in Hz; 0 if it chose none.
func TSCFrequency(vmi *v1.VirtualMachineInstance) int64 {
	hints := vmi.Status.TopologyHints
	if hints == nil || hints.TSCFrequency == nil {
		return 0
	}
	return max(0, *hints.TSCFrequency)
}

// The fields because of which a guest needs a fixed frequency of the time stamp counter.
const (
	tscOfCPU    = "spec.domain.cpu.features"
	tscOfHyperV = "spec.domain.features.hyperv.reenlightenment"
)

// TSCField is the field because of which a guest needs a fixed frequency of the time stamp counter: to boot, or to migrate. It is empty
// for a guest that needs none.
func TSCField(spec *v1.VirtualMachineInstanceSpec) string {
	switch {
	case invariantTSC(spec):
		return tscOfCPU
	case reenlightened(spec):
		return tscOfHyperV
	}
	return ""
}

func invariantTSC(spec *v1.VirtualMachineInstanceSpec) bool {
	return spec.Domain.CPU != nil && slices.ContainsFunc(spec.Domain.CPU.Features, func(f v1.CPUFeature) bool {
		return f.Name == "invtsc" && (f.Policy == "require" || f.Policy == "force")
	})
}

func reenlightened(spec *v1.VirtualMachineInstanceSpec) bool {
	features := spec.Domain.Features
	if features == nil || features.Hyperv == nil || features.Hyperv.Reenlightenment == nil {
		return false
	}
	enabled := features.Hyperv.Reenlightenment.Enabled
	return enabled != nil && *enabled
}

func launchSecurity(s *subject, a *selected) {
	security := s.spec.Domain.LaunchSecurity
	if security == nil {
		return
	}
	a.requireIf(isSEV(s.VMI), v1.SEVLabel)
	if sev := security.SEV; sev != nil && sev.Policy != nil && sev.Policy.EncryptedState != nil && *sev.Policy.EncryptedState {
		a.set(v1.SEVESLabel, "true", ".sev.policy.encryptedState")
	}
	a.requireIf(security.SNP != nil, v1.SEVSNPLabel)
	a.requireIf(s.spec.Architecture == architectures.S390X, v1.SecureExecutionLabel)
	a.requireIf(security.TDX != nil, v1.TDXLabel)
}

// schedule sets what decides on which node the pod runs.
func (s *subject) schedule(pod *corev1.Pod, storage *storage) {
	a := &selected{s: s, labels: make(map[string]string, len(s.spec.NodeSelector)+4)}
	for i := range selectorRows {
		a.row = &selectorRows[i]
		a.row.add(s, a)
	}
	pod.Spec.NodeSelector = a.labels
	pod.Spec.Affinity = s.affinity()
	s.keepApart(pod, storage.reserved)
	if s.spec.Architecture != "" && s.Facts.GateEnabled(gateCrossArchitecture) {
		s.preferNative(&pod.Spec)
	}
}

// affinity is that of the instance. Each of its terms also rejects labels.
func (s *subject) affinity() *corev1.Affinity {
	var rejected []corev1.NodeSelectorRequirement
	reject := func(key, field, rule string) {
		rejected = append(rejected, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpDoesNotExist})
		s.demands = append(s.demands, Demand{Key: key, Operator: corev1.NodeSelectorOpDoesNotExist, Field: field, Layer: s.layer(field), Rule: rule})
	}
	cpu := s.spec.Domain.CPU
	if cpu == nil || cpu.Model == "" || cpu.Model == v1.CPUModeHostModel {
		reject(v1.NodeHostModelIsObsoleteLabel, "spec.domain.cpu.model", "the CPU model of the host must not be obsolete")
	}
	if cpu != nil {
		for i := range cpu.Features {
			if f := &cpu.Features[i]; f.Policy == "forbid" {
				reject(v1.CPUFeatureLabel+f.Name, "spec.domain.cpu.features["+strconv.Itoa(i)+"]", "forbidden CPU features")
			}
		}
	}
	affinity := s.spec.Affinity.DeepCopy()
	if len(rejected) == 0 {
		return affinity
	}
	if affinity == nil {
		affinity = &corev1.Affinity{}
	}
	if affinity.NodeAffinity == nil {
		affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := &affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if *required == nil {
		*required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	for i := range (*required).NodeSelectorTerms {
		term := &(*required).NodeSelectorTerms[i]
		term.MatchExpressions = append(term.MatchExpressions, rejected...)
	}
	return affinity
}

// keepApart keeps pods from nodes on which another one has reservations on the same claim.
func (s *subject) keepApart(pod *corev1.Pod, claims []string) {
	for _, claim := range claims {
		label := v1.PersistentReservationLabelPrefix + claim
		pod.Labels[label] = ""
		if pod.Spec.Affinity == nil {
			pod.Spec.Affinity = &corev1.Affinity{}
		}
		if pod.Spec.Affinity.PodAntiAffinity == nil {
			pod.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{}
		}
		required := &pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		*required = append(*required, corev1.PodAffinityTerm{
			TopologyKey:   corev1.LabelHostname,
			LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: label, Operator: metav1.LabelSelectorOpExists}}},
		})
	}
}

// preferNative prefers nodes that do not need to emulate the architecture.
func (s *subject) preferNative(spec *corev1.PodSpec) {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	native := strings.ToLower(s.spec.Architecture)
	preferred := &spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	*preferred = append(*preferred, corev1.PreferredSchedulingTerm{Weight: 100, Preference: corev1.NodeSelectorTerm{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{native}}},
	}})
	s.demands = append(s.demands, Demand{
		Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Value: native, Field: "spec.architecture", Layer: s.layer("spec.architecture"),
		Rule: "nodes that do not emulate the architecture", Preferred: true,
	})
}
