package platform

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	k8sv1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/limits/decode"
)

// defaultCPURequest is KubeVirt's default. It is not written into VMs, because virt-controller adds it to the pod.
const defaultCPURequest = "100m"

// Facts describe the cluster at one moment. They are immutable. The values are those that KubeVirt uses, with its
// defaults.
type Facts struct {
	// Hypervisor runs every VM of the cluster.
	Hypervisor Hypervisor
	// DefaultArchitecture of VMs that name none: status.defaultArchitecture of the KubeVirt resource.
	DefaultArchitecture string
	// CPUModel is the cluster's default CPU model; empty if the cluster sets none.
	CPUModel string
	// CPURequest is the CPU request of pods whose VM sets none; nil for KubeVirt's default of 100m, which KubeVirt does
	// not write into VMs.
	CPURequest *resource.Quantity
	// EvictionStrategy of VMs that name none.
	EvictionStrategy *v1.EvictionStrategy
	// LiveUpdate reports whether changes of a running VM are rolled out live (vmRolloutStrategy: LiveUpdate).
	LiveUpdate bool
	// MaxHotplugRatio bounds hotplug unless a more specific field does: with a ratio of 4, 4 sockets can become 16.
	MaxHotplugRatio uint32
	// MaxCPUSockets is the cluster's limit of sockets; 0 if it sets none.
	MaxCPUSockets uint32
	// MaxGuest is the cluster's limit of guest memory; nil if it sets none.
	MaxGuest *resource.Quantity
	// WorkloadUpdateMethods are how KubeVirt moves running VMs to a new pod: LiveMigrate, Evict, or none.
	WorkloadUpdateMethods []v1.WorkloadUpdateMethod
	// SyncedLabels and SyncedAnnotations are keys that virt-controller copies from a VM's template to its running instance,
	// beside its built-in ones. A key that ends with * is a prefix.
	SyncedLabels, SyncedAnnotations []string
	// NetworkInterface is the binding of the default interface, for VMs without networks: bridge or masquerade.
	NetworkInterface v1.NetworkInterfaceType
	// PermitBridge reports whether a bridge binding is allowed on the pod network.
	PermitBridge bool
	// Configuration is KubeVirt's configuration with its defaults. Do not change it.
	Configuration *v1.KubeVirtConfiguration
	// Annotations of the KubeVirt resource. Some of them enable features.
	Annotations map[string]string
	// Namespace that KubeVirt is installed in.
	Namespace string
	// KubeVirtVersion is the version of KubeVirt, such as v1.9.0; empty if it is not known.
	KubeVirtVersion string
	// Source of the facts, for messages: "KubeVirt kubevirt/kubevirt" or "KubeVirt's own defaults".
	Source string
	// Warnings about assumptions. Users get them when they create a VM.
	Warnings []string
	// Notes about configuration without effect, for the log.
	Notes []string
	// Observed is the time at which the configuration was read.
	Observed time.Time

	gates gates
}

// Settings are the flags of Virtward that change the facts.
type Settings struct {
	// RolloutStrategy if the KubeVirt resource names none: Stage, or LiveUpdate, which is the default.
	RolloutStrategy v1.VMRolloutStrategy
	// MSHVCPUModel replaces the CPU model of amd64 guests on mshv. "auto" or empty: qemu64-v1 for the hypervisor name
	// mshv of VEP 97, KubeVirt's default for hyperv-direct. "none": always KubeVirt's default.
	MSHVCPUModel string
}

// Defaults returns the facts of a cluster without a KubeVirt resource: KubeVirt's defaults.
func Defaults(settings Settings) *Facts {
	facts, err := fromConfiguration(nil, architectures.Default, settings)
	if err != nil { // a test covers the built-in defaults
		panic(fmt.Sprintf("virtward: the built-in defaults are broken: %v", err))
	}
	facts.Source = "KubeVirt's own defaults"
	return facts
}

// FromKubeVirt returns the facts of a KubeVirt resource. With an error, KubeVirt itself rejects the configuration and
// keeps its last valid one, and the caller must do the same.
func FromKubeVirt(kv *unstructured.Unstructured, settings Settings) (*Facts, error) {
	configuration, _, err := unstructured.NestedMap(kv.Object, "spec", "configuration")
	if err != nil {
		return nil, fmt.Errorf("spec.configuration of KubeVirt %s/%s is not an object", kv.GetNamespace(), kv.GetName())
	}
	architecture, _, _ := unstructured.NestedString(kv.Object, "status", "defaultArchitecture")
	if architecture == "" {
		architecture = architectures.Default
	}
	facts, err := fromConfiguration(configuration, architecture, settings)
	if err != nil {
		return nil, fmt.Errorf("KubeVirt %s/%s: %w", kv.GetNamespace(), kv.GetName(), err)
	}
	facts.readComponents(kv)
	facts.Annotations = kv.GetAnnotations()
	facts.Namespace = kv.GetNamespace()
	facts.KubeVirtVersion, _, _ = unstructured.NestedString(kv.Object, "status", "observedKubeVirtVersion")
	facts.Source = "KubeVirt " + kv.GetNamespace() + "/" + kv.GetName()
	return facts, nil
}

// readComponents reads settings outside of the configuration. KubeVirt's schema validates their types, so that others count
// as absent.
func (f *Facts) readComponents(kv *unstructured.Unstructured) {
	methods, _, _ := unstructured.NestedStringSlice(kv.Object, "spec", "workloadUpdateStrategy", "workloadUpdateMethods")
	for _, method := range methods {
		f.WorkloadUpdateMethods = append(f.WorkloadUpdateMethods, v1.WorkloadUpdateMethod(method))
	}
	flags, _, _ := unstructured.NestedStringMap(kv.Object, "spec", "customizeComponents", "flags", "controller")
	f.SyncedLabels = listed(flags["additional-launcher-labels-sync"])
	f.SyncedAnnotations = listed(flags["additional-launcher-annotations-sync"])
}

// listed splits the value of a flag that is a list.
func listed(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
}

// MachineType returns the default machine type of an architecture. The deprecated cluster-wide machineType has
// precedence. As in KubeVirt, an unknown architecture has the machine type of the default one.
func (f *Facts) MachineType(architecture string) string {
	if m := f.Configuration.MachineType; m != "" {
		return m
	}
	return f.architecture(architecture).MachineType
}

// EmulatedMachines returns the globs of the machine types that an architecture allows.
func (f *Facts) EmulatedMachines(architecture string) []string {
	if m := f.Configuration.EmulatedMachines; m != nil {
		return m
	}
	return f.architecture(architecture).EmulatedMachines
}

// FirmwarePath returns the directory of the firmware in the launcher of an architecture. The deprecated cluster-wide ovmfPath has
// precedence.
func (f *Facts) FirmwarePath(architecture string) string {
	if path := f.Configuration.OVMFPath; path != "" {
		return path
	}
	return f.architecture(architecture).OVMFPath
}

func (f *Facts) architecture(name string) *v1.ArchSpecificConfiguration {
	of, known := architectures.Find(name)
	if !known {
		of, _ = architectures.Find(architectures.Default)
	}
	if of.Section == nil {
		return defaultSection(&of)
	}
	return *of.Section(f.Configuration.ArchitectureConfiguration)
}

// defaultSection returns KubeVirt's defaults for an architecture.
func defaultSection(of *architectures.Architecture) *v1.ArchSpecificConfiguration {
	return &v1.ArchSpecificConfiguration{MachineType: of.MachineType, EmulatedMachines: of.EmulatedMachines, OVMFPath: of.Firmware}
}

// defaultSections returns the defaults of all architectures that have settings.
func defaultSections() *v1.ArchConfiguration {
	sections := &v1.ArchConfiguration{}
	for _, of := range architectures.All() {
		if of.Section != nil {
			*of.Section(sections) = defaultSection(&of)
		}
	}
	return sections
}

// kubeVirtAccounts are the service accounts of KubeVirt's components. They may change a VMI in ways that users may not.
var kubeVirtAccounts = []string{"kubevirt-apiserver", "kubevirt-controller", "kubevirt-handler", "kubevirt-synchronization-controller"}

// ByKubeVirt reports whether a user is one of KubeVirt's service accounts.
func (f *Facts) ByKubeVirt(user string) bool {
	account, ok := strings.CutPrefix(user, f.accountPrefix())
	return ok && slices.Contains(kubeVirtAccounts, account)
}

// KubeVirtUsers returns the user names of KubeVirt's service accounts, sorted.
func (f *Facts) KubeVirtUsers() []string {
	users := make([]string, len(kubeVirtAccounts))
	for i := range kubeVirtAccounts {
		users[i] = f.accountPrefix() + kubeVirtAccounts[i]
	}
	slices.Sort(users)
	return users
}

// accountPrefix returns the prefix of the user names of KubeVirt's service accounts.
func (f *Facts) accountPrefix() string {
	return "system:serviceaccount:" + cmp.Or(f.Namespace, "kubevirt") + ":"
}

// same reports whether two snapshots are equal, apart from the time of observation.
func (f *Facts) same(other *Facts) bool {
	a, b := *f, *other
	a.Observed, b.Observed = time.Time{}, time.Time{}
	return reflect.DeepEqual(a, b)
}

// WithHypervisor returns the same facts for another hypervisor.
func (f *Facts) WithHypervisor(h Hypervisor) *Facts {
	other := *f
	other.Hypervisor = h
	return &other
}

// WithDefaultArchitecture returns the same facts for another default architecture.
func (f *Facts) WithDefaultArchitecture(architecture string) *Facts {
	other := *f
	other.DefaultArchitecture = architecture
	return &other
}

// WithKubeVirtVersion returns the same facts for another version of KubeVirt.
func (f *Facts) WithKubeVirtVersion(version string) *Facts {
	other := *f
	other.KubeVirtVersion = version
	return &other
}

func fromConfiguration(raw map[string]any, architecture string, settings Settings) (*Facts, error) {
	merged := defaultConfiguration()
	if err := merge(merged, raw); err != nil {
		return nil, err
	}
	if err := checkConfiguration(merged); err != nil {
		return nil, err
	}
	chosen := gatesOf(merged.DeveloperConfiguration)
	hypervisor, warning, note := selectHypervisor(raw, chosen.enabled(GateConfigurableHypervisor))
	if hypervisor.Name == MSHV {
		switch m := settings.MSHVCPUModel; m {
		case "", "auto":
		case "none":
			hypervisor.CPUModel = ""
		default:
			hypervisor.CPUModel = m
		}
	}

	strategy := settings.RolloutStrategy
	if merged.VMRolloutStrategy != nil {
		strategy = *merged.VMRolloutStrategy
	} else if strategy == "" {
		strategy = v1.VMRolloutStrategyLiveUpdate
	}
	f := &Facts{
		Hypervisor:          hypervisor,
		DefaultArchitecture: architecture,
		CPUModel:            merged.CPUModel,
		EvictionStrategy:    merged.EvictionStrategy,
		LiveUpdate:          strategy == v1.VMRolloutStrategyLiveUpdate,
		MaxHotplugRatio:     1,
		NetworkInterface:    v1.NetworkInterfaceType(merged.NetworkConfiguration.NetworkInterface),
		PermitBridge:        merged.NetworkConfiguration.PermitBridgeInterfaceOnPodNetwork == nil || *merged.NetworkConfiguration.PermitBridgeInterfaceOnPodNetwork,
		Configuration:       merged,
		Warnings:            nonEmpty(warning),
		Notes:               nonEmpty(note),
		gates:               chosen,
	}
	if request := merged.CPURequest; request != nil && !request.Equal(resource.MustParse(defaultCPURequest)) {
		f.CPURequest = request
	}
	if live := merged.LiveUpdateConfiguration; live != nil {
		f.MaxHotplugRatio = live.MaxHotplugRatio
		f.MaxGuest = live.MaxGuest
		if live.MaxCpuSockets != nil {
			f.MaxCPUSockets = *live.MaxCpuSockets
		}
	}
	return f, nil
}

func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// merge merges a configuration into another. It decodes it into KubeVirt's own type first, so that zero values
// count as absent, as they do in KubeVirt.
func merge(over *v1.KubeVirtConfiguration, raw map[string]any) error {
	if len(raw) == 0 {
		return nil
	}
	if err := decode.QuantitiesIn(raw, reflect.TypeFor[v1.KubeVirtConfiguration](), field.NewPath("spec", "configuration")); err != nil {
		return err
	}
	data, err := json.Marshal(raw)
	if err != nil {
		return fmt.Errorf("encoding spec.configuration: %w", err)
	}
	var typed v1.KubeVirtConfiguration
	if err := json.Unmarshal(data, &typed); err != nil {
		return fmt.Errorf("spec.configuration: %w", err)
	}
	if data, err = json.Marshal(typed); err != nil {
		return fmt.Errorf("encoding spec.configuration: %w", err)
	}
	if err := json.Unmarshal(data, over); err != nil {
		return fmt.Errorf("spec.configuration: %w", err)
	}
	return nil
}

// checkConfiguration returns an error for a configuration that KubeVirt rejects.
func checkConfiguration(c *v1.KubeVirtConfiguration) error {
	switch c.ImagePullPolicy {
	case "", k8sv1.PullAlways, k8sv1.PullNever, k8sv1.PullIfNotPresent:
	default:
		return fmt.Errorf("spec.configuration.imagePullPolicy: %q is not a pull policy", c.ImagePullPolicy)
	}
	switch v1.NetworkInterfaceType(c.NetworkConfiguration.NetworkInterface) {
	case "", v1.BridgeInterface, v1.MasqueradeInterface, slirp:
	default:
		return fmt.Errorf("spec.configuration.network.defaultNetworkInterface: %q is not bridge or masquerade", c.NetworkConfiguration.NetworkInterface)
	}
	developer := c.DeveloperConfiguration
	if developer.MemoryOvercommit <= 0 {
		return fmt.Errorf("spec.configuration.developerConfiguration.memoryOvercommit: %d is not positive", developer.MemoryOvercommit)
	}
	if developer.CPUAllocationRatio <= 0 {
		return fmt.Errorf("spec.configuration.developerConfiguration.cpuAllocationRatio: %d is not positive", developer.CPUAllocationRatio)
	}
	if t := developer.LessPVCSpaceToleration; t < 0 || t > 100 {
		return fmt.Errorf("spec.configuration.developerConfiguration.pvcTolerateLessSpaceUpToPercent: %d is not within 0 and 100", t)
	}
	return nil
}

// slirp is a binding that KubeVirt has removed, but still accepts as the name of the default.
const slirp v1.NetworkInterfaceType = "slirp"

// defaultConfiguration returns those defaults of KubeVirt that Virtward uses.
func defaultConfiguration() *v1.KubeVirtConfiguration {
	eviction := v1.EvictionStrategyNone
	request := resource.MustParse(defaultCPURequest)
	permitBridge := true
	return &v1.KubeVirtConfiguration{
		CPURequest:       &request,
		EvictionStrategy: &eviction,
		DeveloperConfiguration: &v1.DeveloperConfiguration{
			MemoryOvercommit:       100,
			LessPVCSpaceToleration: 10,
			CPUAllocationRatio:     10,
		},
		NetworkConfiguration: &v1.NetworkConfiguration{
			NetworkInterface:                  string(v1.BridgeInterface),
			PermitBridgeInterfaceOnPodNetwork: &permitBridge,
		},
		LiveUpdateConfiguration:   &v1.LiveUpdateConfiguration{MaxHotplugRatio: 4},
		ArchitectureConfiguration: defaultSections(),
	}
}
