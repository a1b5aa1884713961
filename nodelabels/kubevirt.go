package nodelabels

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/platform"
)

const (
	gateForeign = "CrossArchitectureVirtualization"
	enabled     = "true"
)

// removed are the prefixes of labels that KubeVirt removes before it sets its own. It never removes the vendor of the CPU and
// kubevirt.io/s390-pv.
var removed = []string{
	v1.CPUFeatureLabel, v1.CPUModelLabel, v1.SupportedHostModelMigrationCPU, v1.CPUTimerLabel, v1.HypervLabel, v1.RealtimeLabel,
	v1.SEVLabel, v1.HostModelCPULabel, v1.HostModelRequiredFeaturesLabel, v1.NodeHostModelIsObsoleteLabel,
	v1.TDXLabel, v1.VMArchLabel, v1.SupportedMachineTypeLabel,
}

// obsoleteModels are KubeVirt's obsolete CPU models, which the cluster's list replaces.
var obsoleteModels = []string{
	"486", "Conroe", "Opteron_G1", "Opteron_G2", "athlon", "core2duo", "coreduo", "kvm32", "kvm64", "n270", "pentium", "pentium2", "pentium3", "pentiumpro", "phenom",
	"qemu32", "qemu64",
}

// traits are what KubeVirt labels on an architecture.
type traits struct {
	// models is set where KubeVirt labels CPU models, the host model and CPU features.
	models bool
	// vendor is the CPU's vendor if libvirt names none.
	vendor string
	// withoutPolicy is set where features of the baseline have no policy.
	withoutPolicy bool
}

var architectureTraits = map[string]traits{
	architectures.AMD64: {models: true},
	architectures.ARM64: {},
	architectures.S390X: {models: true, vendor: "IBM", withoutPolicy: true},
}

// Node is what KubeVirt's node labeller reads of a node.
type Node struct {
	Documents
	// Architecture in Kubernetes' form, such as amd64.
	Architecture string
	// HypervFeatures are those that KVM reports through its device, such as vpindex. libvirt's documents do not have them.
	HypervFeatures []string
	// RealtimeRuntime is the kernel's sched_rt_runtime_us, in microseconds: -1 for no limit, empty if it is not known.
	RealtimeRuntime string
}

// Remark is about a label, or about a field of the KubeVirt resource.
type Remark struct{ Subject, Text string }

// KubeVirtLabels are the labels that KubeVirt computes for a node.
type KubeVirtLabels struct {
	Labels map[string]string
	// ObsoleteHostModel is the host's CPU model if the cluster lists it as obsolete, for which KubeVirt creates an event.
	ObsoleteHostModel string
	// Remarks are about labels that mislead, and those that no API server accepts.
	Remarks []Remark
}

// KubeVirt computes the labels that KubeVirt sets on a node. It returns an error where virt-handler fails.
func KubeVirt(n *Node, facts *platform.Facts) (*KubeVirtLabels, error) {
	switch {
	case n.Domain == nil:
		return nil, errors.New("no domain capabilities: KubeVirt's virt-handler does not start without them")
	case n.Host == nil:
		return nil, errors.New("no capabilities of the host: KubeVirt's virt-handler does not start without them")
	}
	c := &computation{Node: n, facts: facts, traits: architectureTraits[n.Architecture], result: &KubeVirtLabels{Labels: map[string]string{}}}
	for _, step := range []func(*computation) error{
		(*computation).features, (*computation).models, (*computation).timer, (*computation).machines, (*computation).security,
		(*computation).rest, (*computation).remarks,
	} {
		if err := step(c); err != nil {
			return nil, err
		}
	}
	return c.result, nil
}

// computation computes the labels of one node.
type computation struct {
	*Node
	facts  *platform.Facts
	traits traits
	result *KubeVirtLabels
}

func (c *computation) set(key string) { c.result.Labels[key] = enabled }

func (c *computation) remark(subject, format string, args ...any) {
	c.result.Remarks = append(c.result.Remarks, Remark{subject, fmt.Sprintf(format, args...)})
}

// features are those of the baseline that the CPU has.
func (c *computation) features() error {
	if !c.traits.models {
		return nil
	}
	if c.Baseline == nil {
		return errors.New("no baseline of the CPU: KubeVirt's virt-handler does not start without it")
	}
	for _, feature := range c.Baseline.root.Children {
		policy := feature.Attribute("policy")
		if feature.Name == "feature" && (policy == "require" || policy == "" && c.traits.withoutPolicy) {
			c.set(v1.CPUFeatureLabel + feature.Attribute("name"))
		}
	}
	return nil
}

// models are the CPU models of all modes: those that run here, and those to which a host model can be migrated.
func (c *computation) models() error {
	if !c.traits.models {
		return nil
	}
	obsolete := c.obsolete()
	for _, mode := range c.Domain.find("cpu").Children {
		if mode.Name != "mode" {
			continue
		}
		for _, model := range mode.Children {
			usable := model.Attribute("usable")
			if model.Name != "model" || usable == "" || model.Text == "" || obsolete(model.Text) {
				continue
			}
			c.set(v1.SupportedHostModelMigrationCPU + model.Text)
			if usable != "no" {
				c.set(v1.CPUModelLabel + model.Text)
			}
		}
	}
	return c.hostModel()
}

// obsolete returns whether a CPU model is obsolete. KubeVirt ignores the values of the cluster's list.
func (c *computation) obsolete() func(model string) bool {
	listed := c.facts.Configuration.ObsoleteCPUModels
	return func(model string) bool {
		if len(listed) == 0 {
			return slices.Contains(obsoleteModels, model)
		}
		_, found := listed[model]
		return found
	}
}

// hostModel is the CPU that virtual machines with the model host-model get.
func (c *computation) hostModel() error {
	var name, vendor string
	if mode := c.Domain.mode(v1.CPUModeHostModel); mode != nil {
		model := mode.Child("model")
		if model == nil {
			return errors.New("cpu/mode: the mode host-model has no model: KubeVirt's virt-handler does not start")
		}
		name, vendor = model.Text, c.traits.vendor
		if v := mode.Child("vendor"); v != nil && v.Text != "" {
			vendor = v.Text
		}
		for _, feature := range mode.Children {
			if feature.Name == "feature" && feature.Attribute("policy") == "require" {
				c.set(v1.HostModelRequiredFeaturesLabel + feature.Attribute("name"))
			}
		}
	}
	c.set(v1.HostModelCPULabel + name)
	c.set(v1.CPUModelVendorLabel + vendor)
	if _, listed := c.facts.Configuration.ObsoleteCPUModels[name]; listed {
		c.set(v1.NodeHostModelIsObsoleteLabel)
		c.result.ObsoleteHostModel = name
	}
	return nil
}

// timer is the frequency of the time stamp counter.
func (c *computation) timer() error {
	for _, counter := range c.Host.find("host", "cpu").Children {
		if counter.Name != "counter" || counter.Attribute("name") != "tsc" {
			continue
		}
		frequency, err := strconv.ParseInt(counter.Attribute("frequency"), 10, 64)
		if err != nil {
			return fmt.Errorf("host/cpu/counter: the frequency %q is no number", counter.Attribute("frequency"))
		}
		scaling := counter.Attribute("scaling")
		if !slices.Contains([]string{"", "no", yes}, scaling) {
			return fmt.Errorf("host/cpu/counter: the scaling %q is neither yes nor no", scaling)
		}
		c.result.Labels[v1.CPUTimerLabel+"tsc-frequency"] = strconv.FormatInt(frequency, 10)
		c.result.Labels[v1.CPUTimerLabel+"tsc-scalable"] = strconv.FormatBool(scaling == yes)
		return nil
	}
	return nil
}

// machines are the machine types of all guests, also of those of other architectures.
func (c *computation) machines() error {
	own := map[string]bool{}
	for _, arch := range all(c.Host.root, "guest", "arch") {
		for _, machine := range all(arch, "machine") {
			own[machine.Text] = own[machine.Text] || architectureNames[arch.Attribute("name")] == c.Architecture
			c.set(v1.SupportedMachineTypeLabel + machine.Text)
		}
	}
	for _, machine := range sortedKeys(own) {
		if !own[machine] {
			c.remark(v1.SupportedMachineTypeLabel+machine, "the machine type is of another architecture: the node runs no virtual machine of %s with it", c.Architecture)
		}
	}
	return nil
}

// security are the kinds of confidential virtual machines.
func (c *computation) security() error {
	guests, err := c.Domain.number("features", "sev", "maxESGuests")
	if err != nil {
		return err
	}
	snp := c.Domain.supported("features", "launchSecurity") && slices.Contains(c.Domain.values("sectype", "features", "launchSecurity"), "sev-snp")
	if c.Domain.supported("features", "sev") {
		c.set(v1.SEVLabel)
		switch {
		case guests > 0:
			c.set(v1.SEVESLabel)
			if snp {
				c.set(v1.SEVSNPLabel)
			}
		case snp:
			c.remark(v1.SEVSNPLabel, "KubeVirt does not set it, although the node supports SEV-SNP: SEV-ES has no guests left")
		}
	}
	if c.Domain.supported("features", "tdx") {
		c.set(v1.TDXLabel)
	}
	if c.Domain.supported("features", "s390-pv") {
		c.set(v1.SecureExecutionLabel)
	}
	return nil
}

// rest are the labels that no document of libvirt has, and the architectures of guests.
func (c *computation) rest() error {
	for _, feature := range c.HypervFeatures {
		c.set(v1.HypervLabel + feature)
	}
	if c.RealtimeRuntime == "-1" {
		c.set(v1.RealtimeLabel)
	}
	if !c.facts.GateEnabled(gateForeign) {
		return nil
	}
	c.set(v1.VMArchLabel + c.Architecture)
	for name := range c.Foreign {
		if architecture, known := architectureNames[name]; known {
			c.set(v1.VMArchLabel + architecture)
		}
	}
	return nil
}

// remarks are about labels that no API server accepts, and about settings of the cluster without effect.
func (c *computation) remarks() error {
	for _, key := range sortedKeys(c.result.Labels) {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			c.remark(key, "no API server accepts the key, so KubeVirt sets no label on this node at all: %s", strings.Join(problems, "; "))
		}
	}
	configuration := c.facts.Configuration
	if configuration.DeprecatedMinCPUModel != "" {
		c.remark("spec.configuration.minCPUModel", "the field has no effect: list models in obsoleteCPUModels")
	}
	for _, model := range sortedKeys(configuration.ObsoleteCPUModels) {
		if !configuration.ObsoleteCPUModels[model] {
			c.remark("spec.configuration.obsoleteCPUModels["+model+"]", "the value false has no effect: the model is obsolete because it is listed")
		}
	}
	return nil
}

// On returns the labels of an existing node after KubeVirt set its own, in a new map. It returns an error for a node without labels,
// which KubeVirt cannot patch.
func (k *KubeVirtLabels) On(before, annotations map[string]string) (map[string]string, error) {
	after := map[string]string{}
	_, skipped := annotations[v1.LabellerSkipNodeAnnotation]
	if len(before) == 0 && !skipped {
		return nil, errors.New("the node has no labels: KubeVirt never sets labels on such a node")
	}
	for key, value := range before {
		if skipped || !slices.ContainsFunc(removed, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			after[key] = value
		}
	}
	if skipped {
		return after, nil
	}
	maps.Copy(after, k.Labels)
	return after, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
