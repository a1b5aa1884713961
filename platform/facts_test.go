package platform_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/platform"
)

// kubeVirt returns a KubeVirt resource with a spec.configuration in YAML.
func kubeVirt(t *testing.T, configuration string) *unstructured.Unstructured {
	t.Helper()
	var c map[string]any
	if err := yaml.Unmarshal([]byte(configuration), &c); err != nil {
		t.Fatal(err)
	}
	kv := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"configuration": c}}}
	kv.SetName("kubevirt")
	kv.SetNamespace("kubevirt")
	return kv
}

const gate = `
developerConfiguration: {featureGates: [ConfigurableHypervisor]}
`

func TestHypervisorSelection(t *testing.T) {
	mshv := platform.Hypervisor{Name: "mshv", ConfiguredName: "mshv", Device: "devices.kubevirt.io/mshv", VirtType: "hyperv", CPUModel: "qemu64-v1"}
	direct := platform.Hypervisor{Name: "mshv", ConfiguredName: "hyperv-direct", Device: "devices.kubevirt.io/mshv", VirtType: "hyperv"}
	kvm := platform.Hypervisor{Name: "kvm", ConfiguredName: "kvm", Device: "devices.kubevirt.io/kvm", VirtType: "kvm"}
	other := mshv
	other.Device, other.VirtType = "devices.kubevirt.io/vmm", "vmm"
	for name, test := range map[string]struct {
		configuration string
		settings      platform.Settings
		want          platform.Hypervisor
		warnings      []string
		notes         []string
	}{
		"nothing configured":       {configuration: ``, want: kvm},
		"an empty list":            {configuration: gate + `hypervisors: []`, want: kvm},
		"VEP 97's form":            {configuration: gate + `hypervisor: [{name: mshv, hypervisorDevice: mshv, virtType: hyperv}]`, want: mshv},
		"VEP 97's form, own names": {configuration: gate + `hypervisor: [{name: mshv, hypervisorDevice: vmm, virtType: vmm}]`, want: other},
		"KubeVirt's form":          {configuration: gate + `hypervisors: [{name: hyperv-direct}]`, want: direct},
		"KubeVirt's form wins":     {configuration: gate + "hypervisors: [{name: kvm}]\nhypervisor: [{name: mshv}]", want: kvm},
		"the gate is closed": {
			configuration: `hypervisors: [{name: hyperv-direct}]`, want: kvm,
			notes: []string{"spec.configuration.hypervisors has no effect: the feature gate ConfigurableHypervisor is not enabled, so VMs run on kvm"},
		},
		"the gate is disabled": {
			configuration: "developerConfiguration: {disabledFeatureGates: [ConfigurableHypervisor]}\nhypervisor: [{name: mshv}]", want: kvm,
			notes: []string{"spec.configuration.hypervisor has no effect: the feature gate ConfigurableHypervisor is not enabled, so VMs run on kvm"},
		},
		"an unknown name": {
			configuration: gate + `hypervisors: [{name: xen}]`, want: kvm,
			warnings: []string{`the KubeVirt resource names an unknown hypervisor "xen": the known ones are hyperv-direct, kvm, mshv, so kvm is assumed`},
		},
		"two of them": {
			configuration: gate + `hypervisor: [{name: kvm}, {name: mshv}]`, want: kvm,
			warnings: []string{"the KubeVirt resource lists 2 hypervisors in spec.configuration.hypervisor where one is allowed, so kvm is assumed"},
		},
		"entries of another type": {
			configuration: gate + `hypervisor: [mshv]`, want: kvm,
			warnings: []string{`the KubeVirt resource names an unknown hypervisor "": the known ones are hyperv-direct, kvm, mshv, so kvm is assumed`},
		},
		"no list": {
			configuration: gate + `hypervisor: mshv`, want: kvm,
			warnings: []string{`the KubeVirt resource names an unknown hypervisor "": the known ones are hyperv-direct, kvm, mshv, so kvm is assumed`},
		},
		"a device of another domain": {
			configuration: gate + `hypervisor: [{name: mshv, hypervisorDevice: devices.kubevirt.io/mshv}]`, want: mshv,
		},
		"a CPU model of the admin's": {
			configuration: gate + `hypervisors: [{name: hyperv-direct}]`, settings: platform.Settings{MSHVCPUModel: "qemu64-v1"},
			want: func() platform.Hypervisor { h := direct; h.CPUModel = "qemu64-v1"; return h }(),
		},
		"no CPU model": {
			configuration: gate + `hypervisor: [{name: mshv}]`, settings: platform.Settings{MSHVCPUModel: "none"},
			want: func() platform.Hypervisor { h := mshv; h.CPUModel = ""; return h }(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			facts, err := platform.FromKubeVirt(kubeVirt(t, test.configuration), test.settings)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, facts.Hypervisor); diff != "" {
				t.Errorf("hypervisor (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.warnings, facts.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.notes, facts.Notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRolloutStrategy(t *testing.T) {
	for name, test := range map[string]struct {
		configuration string
		settings      platform.Settings
		want          bool
	}{
		"KubeVirt's default is live":     {``, platform.Settings{}, true},
		"Stage":                          {`vmRolloutStrategy: Stage`, platform.Settings{}, false},
		"the installation assumes Stage": {``, platform.Settings{RolloutStrategy: v1.VMRolloutStrategyStage}, false},
		"the resource decides":           {`vmRolloutStrategy: LiveUpdate`, platform.Settings{RolloutStrategy: v1.VMRolloutStrategyStage}, true},
		"an empty string is not live":    {`vmRolloutStrategy: ""`, platform.Settings{}, false},
	} {
		facts, err := platform.FromKubeVirt(kubeVirt(t, test.configuration), test.settings)
		if err != nil {
			t.Fatal(err)
		}
		if facts.LiveUpdate != test.want {
			t.Errorf("%s: live %v, want %v", name, facts.LiveUpdate, test.want)
		}
	}
}

func TestMachineTypes(t *testing.T) {
	facts, err := platform.FromKubeVirt(kubeVirt(t, `architectureConfiguration: {arm64: {machineType: virt-8.2}}`), platform.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"amd64": "q35", "arm64": "virt-8.2", "s390x": "s390-ccw-virtio", "riscv64": "q35"}
	for arch, machine := range want {
		if got := facts.MachineType(arch); got != machine {
			t.Errorf("%s: %s, want %s", arch, got, machine)
		}
	}
	if got := facts.EmulatedMachines("arm64"); !cmp.Equal(got, []string{"virt*"}) {
		t.Errorf("allowed on arm64: %v, want the default to stay beside a new machine type", got)
	}
	everywhere, err := platform.FromKubeVirt(kubeVirt(t, "machineType: pc-q35-9.0\nemulatedMachines: ['*']"), platform.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	if got := everywhere.MachineType("s390x"); got != "pc-q35-9.0" {
		t.Errorf("the cluster-wide machine type does not win: %s", got)
	}
	if got := everywhere.EmulatedMachines("s390x"); !cmp.Equal(got, []string{"*"}) {
		t.Errorf("the cluster-wide globs do not win: %v", got)
	}
}

func TestValues(t *testing.T) {
	facts, err := platform.FromKubeVirt(kubeVirt(t, `
cpuModel: Cascadelake-Server
cpuRequest: 250m
evictionStrategy: LiveMigrate
network: {defaultNetworkInterface: masquerade, permitBridgeInterfaceOnPodNetwork: false}
liveUpdateConfiguration: {maxHotplugRatio: 2, maxCpuSockets: 24, maxGuest: 512Gi}
`), platform.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	if facts.CPUModel != "Cascadelake-Server" || facts.CPURequest.String() != "250m" || *facts.EvictionStrategy != v1.EvictionStrategyLiveMigrate ||
		facts.NetworkInterface != v1.MasqueradeInterface || facts.PermitBridge || facts.MaxHotplugRatio != 2 || facts.MaxCPUSockets != 24 || facts.MaxGuest.String() != "512Gi" {
		t.Errorf("facts: %+v", facts)
	}
	if facts.Source != "KubeVirt kubevirt/kubevirt" {
		t.Errorf("source %q", facts.Source)
	}

	defaults := platform.Defaults(platform.Settings{})
	if defaults.CPURequest != nil || *defaults.EvictionStrategy != v1.EvictionStrategyNone || defaults.NetworkInterface != v1.BridgeInterface ||
		!defaults.PermitBridge || defaults.MaxHotplugRatio != 4 || defaults.MaxGuest != nil || !defaults.LiveUpdate || defaults.DefaultArchitecture != "amd64" {
		t.Errorf("defaults: %+v", defaults)
	}
}

func TestConfigurationsThatKubeVirtRejects(t *testing.T) {
	for configuration, want := range map[string]string{
		`imagePullPolicy: Sometimes`:                                     `KubeVirt kubevirt/kubevirt: spec.configuration.imagePullPolicy: "Sometimes" is not a pull policy`,
		`network: {defaultNetworkInterface: macvtap}`:                    `KubeVirt kubevirt/kubevirt: spec.configuration.network.defaultNetworkInterface: "macvtap" is not bridge or masquerade`,
		`developerConfiguration: {memoryOvercommit: -1}`:                 `KubeVirt kubevirt/kubevirt: spec.configuration.developerConfiguration.memoryOvercommit: -1 is not positive`,
		`developerConfiguration: {cpuAllocationRatio: -1}`:               `KubeVirt kubevirt/kubevirt: spec.configuration.developerConfiguration.cpuAllocationRatio: -1 is not positive`,
		`developerConfiguration: {pvcTolerateLessSpaceUpToPercent: 101}`: `KubeVirt kubevirt/kubevirt: spec.configuration.developerConfiguration.pvcTolerateLessSpaceUpToPercent: 101 is not within 0 and 100`,
		`cpuRequest: 1e99999999`:                                         `KubeVirt kubevirt/kubevirt: spec.configuration.cpuRequest: Invalid value: "1e99999999": a quantity with too many digits or too large an exponent`,
		`cpuRequest: much`:                                               `KubeVirt kubevirt/kubevirt: spec.configuration: `,
	} {
		_, err := platform.FromKubeVirt(kubeVirt(t, configuration), platform.Settings{})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", configuration, err, want)
		}
	}
	kv := kubeVirt(t, ``)
	kv.Object["spec"] = map[string]any{"configuration": "none"}
	if _, err := platform.FromKubeVirt(kv, platform.Settings{}); err == nil || err.Error() != "spec.configuration of KubeVirt kubevirt/kubevirt is not an object" {
		t.Errorf("error %v", err)
	}
}

// FuzzFacts verifies that no configuration causes a panic, and that accepted ones have a known hypervisor.
func FuzzFacts(f *testing.F) {
	f.Add([]byte(gate + `hypervisor: [{name: mshv}]`))
	f.Add([]byte(`{"architectureConfiguration": {"amd64": null}, "network": null, "developerConfiguration": null}`))
	f.Add([]byte(`{"liveUpdateConfiguration": {"maxGuest": "1e1000"}}`))
	f.Fuzz(func(t *testing.T, configuration []byte) {
		var c map[string]any
		if err := yaml.Unmarshal(configuration, &c); err != nil {
			return
		}
		kv := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"configuration": c}}}
		facts, err := platform.FromKubeVirt(kv, platform.Settings{})
		if err != nil {
			return
		}
		if _, err := platform.HypervisorByName(facts.Hypervisor.ConfiguredName); err != nil {
			t.Error(err)
		}
		for _, arch := range []string{"amd64", "arm64", "s390x", ""} {
			_ = facts.MachineType(arch)
			_ = facts.EmulatedMachines(arch)
		}
	})
}

func TestComponents(t *testing.T) {
	kv := kubeVirt(t, "")
	kv.Object["spec"] = map[string]any{
		"workloadUpdateStrategy": map[string]any{"workloadUpdateMethods": []any{"LiveMigrate", "Evict"}},
		"customizeComponents": map[string]any{"flags": map[string]any{"controller": map[string]any{
			"additional-launcher-labels-sync": "team", "additional-launcher-annotations-sync": "corp.io/*, note",
		}}},
	}
	facts, err := platform.FromKubeVirt(kv, platform.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	got := [][]string{nil, facts.SyncedLabels, facts.SyncedAnnotations}
	for _, method := range facts.WorkloadUpdateMethods {
		got[0] = append(got[0], string(method))
	}
	if diff := cmp.Diff([][]string{{"LiveMigrate", "Evict"}, {"team"}, {"corp.io/*", "note"}}, got); diff != "" {
		t.Errorf("methods, labels, annotations (-want +got):\n%s", diff)
	}
}
