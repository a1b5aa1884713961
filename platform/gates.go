package platform

import (
	"slices"

	v1 "kubevirt.io/api/core/v1"
)

// GateConfigurableHypervisor is the feature gate that enables the list of hypervisors.
const GateConfigurableHypervisor = "ConfigurableHypervisor"

// gateState is the maturity of a feature, which decides the effect of its gate.
type gateState uint8

const (
	// gateAlpha is off unless named. A gate that is not in the table is alpha.
	gateAlpha gateState = iota
	// gateBeta is on unless disabled.
	gateBeta
	// gateGA is always on.
	gateGA
	// gateDeprecated is off unless named, and will be removed.
	gateDeprecated
	// gateDiscontinued is always off: the feature was removed.
	gateDiscontinued
)

// gateStates are KubeVirt 1.9's feature gates.
var gateStates = map[string]gateState{
	"AlignCPUs":                          gateAlpha,
	"AutoResourceLimitsGate":             gateGA,
	"BochsDisplayForEFIGuests":           gateGA,
	"CPUManager":                         gateAlpha,
	"CPUNodeDiscovery":                   gateGA,
	"ClusterProfiler":                    gateGA,
	"CommonInstancetypesDeploymentGate":  gateGA,
	GateConfigurableHypervisor:           gateAlpha,
	"ContainerPathVolumes":               gateAlpha,
	"CrossArchitectureVirtualization":    gateAlpha,
	"DecentralizedLiveMigration":         gateBeta,
	"DeclarativeHotplugVolumes":          gateBeta,
	"DisableCustomSELinuxPolicy":         gateGA,
	"DisableMDEVConfiguration":           gateDeprecated,
	"DockerSELinuxMCSWorkaround":         gateDeprecated,
	"DownwardMetrics":                    gateAlpha,
	"DynamicPodInterfaceNaming":          gateGA,
	"EnableVirtioFsConfigVolumes":        gateGA,
	"EnableVirtioFsStorageVolumes":       gateAlpha,
	"ExpandDisks":                        gateGA,
	"ExperimentalIgnitionSupport":        gateAlpha,
	"ExperimentalVirtiofsSupport":        gateDiscontinued,
	"ExternalNetResourceInjection":       gateBeta,
	"FirmwareAutoSelection":              gateAlpha,
	"GPU":                                gateGA,
	"GPUsWithDRA":                        gateBeta,
	"GraceIOVirtualization":              gateAlpha,
	"GuestDeviceMetrics":                 gateAlpha,
	"HostDevices":                        gateAlpha,
	"HostDevicesWithDRA":                 gateBeta,
	"HostDisk":                           gateAlpha,
	"HotplugNICs":                        gateGA,
	"HotplugVolumes":                     gateDeprecated,
	"HypervStrictCheck":                  gateAlpha,
	"IOMMUFD":                            gateAlpha,
	"ImageVolume":                        gateBeta,
	"IncrementalBackup":                  gateAlpha,
	"InstancetypeReferencePolicy":        gateGA,
	"KubevirtSeccompProfile":             gateBeta,
	"LibvirtHooksServerAndClient":        gateBeta,
	"LiveMigration":                      gateGA,
	"LiveUpdateNADRef":                   gateGA,
	"Macvtap":                            gateDiscontinued,
	"MigrationDowntimeTuning":            gateAlpha,
	"MigrationPriorityQueue":             gateGA,
	"MigrationStallDetection":            gateAlpha,
	"MultiArchitecture":                  gateDeprecated,
	"NUMA":                               gateGA,
	"NetworkBindingPlugins":              gateGA,
	"NetworkDevicesWithDRA":              gateAlpha,
	"NodeRestriction":                    gateBeta,
	"NonRoot":                            gateGA,
	"OCIExport":                          gateAlpha,
	"ObjectGraph":                        gateAlpha,
	"OptOutRoleAggregation":              gateBeta,
	"PCINUMAAwareTopology":               gateAlpha,
	"PSA":                                gateGA,
	"PanicDevices":                       gateGA,
	"Passt":                              gateDiscontinued,
	"PasstBinding":                       gateBeta,
	"PasstIPStackMigration":              gateDiscontinued,
	"PersistentReservation":              gateGA,
	"Plugins":                            gateAlpha,
	"PodSecondaryInterfaceNamingUpgrade": gateBeta,
	"PortRangesSpec":                     gateAlpha,
	"RebootPolicy":                       gateBeta,
	"ReservedOverheadMemlock":            gateAlpha,
	"Root":                               gateAlpha,
	"SRIOVLiveMigration":                 gateGA,
	"SecureExecution":                    gateGA,
	"Sidecar":                            gateAlpha,
	"Snapshot":                           gateBeta,
	"Template":                           gateBeta,
	"UtilityVolumes":                     gateAlpha,
	"VGPULiveMigration":                  gateAlpha,
	"VMExport":                           gateGA,
	"VMLiveUpdateFeatures":               gateGA,
	"VMPersistentState":                  gateGA,
	"VMStatsCollector":                   gateAlpha,
	"VSOCK":                              gateAlpha,
	"VideoConfig":                        gateGA,
	"VmiMemoryOverheadReport":            gateBeta,
	"VolumeMigration":                    gateGA,
	"VolumesUpdateStrategy":              gateGA,
	"WorkloadEncryptionSEV":              gateBeta,
	"WorkloadEncryptionTDX":              gateAlpha,
}

// gates are the gates of a configuration: true for a named gate, false for a disabled one. As recorded cases of KubeVirt
// show, a gate that is both is named.
type gates map[string]bool

func gatesOf(developer *v1.DeveloperConfiguration) gates {
	chosen := make(gates, len(developer.FeatureGates)+len(developer.DisabledFeatureGates))
	for _, name := range developer.DisabledFeatureGates {
		chosen[name] = false
	}
	for _, name := range developer.FeatureGates {
		chosen[name] = true
	}
	return chosen
}

func (g gates) enabled(name string) bool {
	on, chosen := g[name]
	switch gateStates[name] {
	case gateGA:
		return true
	case gateDiscontinued:
		return false
	case gateBeta:
		return on || !chosen
	default:
		return on
	}
}

// GateEnabled reports whether a feature gate of KubeVirt is on. A generally available one is always on, a beta one unless
// it is disabled, a discontinued one never, and any other one only if it is named.
func (f *Facts) GateEnabled(name string) bool { return f.gates.enabled(name) }

// DiscontinuedGates returns the discontinued gates that the configuration names, sorted. KubeVirt rejects a VM that uses
// such a feature.
func (f *Facts) DiscontinuedGates() []string {
	var named []string
	for name, on := range f.gates {
		if on && gateStates[name] == gateDiscontinued {
			named = append(named, name)
		}
	}
	slices.Sort(named)
	return named
}

// EnabledGates returns the names of KubeVirt's feature gates that are on, sorted.
func (f *Facts) EnabledGates() []string {
	var on []string
	for name := range gateStates {
		if f.gates.enabled(name) {
			on = append(on, name)
		}
	}
	for name := range f.gates {
		if _, known := gateStates[name]; !known && f.gates.enabled(name) {
			on = append(on, name)
		}
	}
	slices.Sort(on)
	return on
}
