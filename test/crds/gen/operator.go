package main

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// served is an older version of a kind. KubeVirt's operator gives it the schema of the newest one.
type served struct {
	version string
	// warning is that of a deprecated version; empty if it is not deprecated.
	warning string
	// stored versions are those of the objects in etcd.
	stored bool
}

// legacyCore are the older versions of the kinds of kubevirt.io.
var legacyCore = []served{{version: "v1alpha3", warning: "kubevirt.io/v1alpha3 is now deprecated and will be removed in a future release."}}

// alpha are the older versions of kinds that have become beta.
var alpha = []served{{version: "v1alpha1"}}

// treatment is what KubeVirt's operator adds to a definition.
type treatment struct {
	shortNames []string
	all        bool // in the category "all"
	cluster    bool // cluster-scoped
	status     bool // has the status subresource
	scale      bool // has the scale subresource
	deprecated string
	older      []served
	columns    []apiextensionsv1.CustomResourceColumnDefinition
}

// treatments is keyed by the definition's name. A definition of CDI is not here: its types carry the markers.
var treatments = map[string]treatment{
	"virtualmachines.kubevirt.io": {
		shortNames: []string{"vm", "vms"}, all: true, status: true, older: legacyCore,
		columns: columns(age, text("Status", ".status.printableStatus"), ready),
	},
	// Without the status subresource: every status write of virt-handler is an update of the whole object.
	"virtualmachineinstances.kubevirt.io": {
		shortNames: []string{"vmi", "vmis"}, all: true, older: legacyCore,
		columns: columns(
			age, phase, text("IP", ".status.interfaces[0].ipAddress"), text("NodeName", ".status.nodeName"), ready,
			wide(condition("Live-Migratable", "LiveMigratable")), wide(condition("Paused", "Paused")),
		),
	},
	"virtualmachineinstancepresets.kubevirt.io": {
		shortNames: []string{"vmipreset", "vmipresets"}, all: true,
		deprecated: "kubevirt.io/v1 VirtualMachineInstancePresets is now deprecated and will be removed in v2.",
		older: []served{{
			version: "v1alpha3", stored: true,
			warning: "kubevirt.io/v1alpha3 VirtualMachineInstancePresets is now deprecated and will be removed in v2.",
		}},
	},
	"virtualmachineinstancereplicasets.kubevirt.io": {
		shortNames: []string{"vmirs", "vmirss"}, all: true, status: true, scale: true, older: legacyCore,
		columns: columns(desired, current, readyCount, age),
	},
	"virtualmachineinstancemigrations.kubevirt.io": {
		shortNames: []string{"vmim", "vmims"}, all: true, status: true, older: legacyCore,
		columns: columns(phase, text("VMI", ".spec.vmiName")),
	},
	"kubevirts.kubevirt.io": {
		shortNames: []string{"kv", "kvs"}, all: true, status: true, older: legacyCore,
		columns: columns(age, phase),
	},
	"virtualmachineinstancetypes.instancetype.kubevirt.io": {
		shortNames: []string{"vminstancetype", "vminstancetypes", "vmf", "vmfs"}, all: true,
	},
	"virtualmachineclusterinstancetypes.instancetype.kubevirt.io": {
		shortNames: []string{"vmclusterinstancetype", "vmclusterinstancetypes", "vmcf", "vmcfs"}, cluster: true,
	},
	"virtualmachinepreferences.instancetype.kubevirt.io": {
		shortNames: []string{"vmpref", "vmprefs", "vmp", "vmps"}, all: true,
	},
	"virtualmachineclusterpreferences.instancetype.kubevirt.io": {
		shortNames: []string{"vmcp", "vmcps"}, cluster: true,
	},
	"virtualmachinesnapshots.snapshot.kubevirt.io": {
		shortNames: []string{"vmsnapshot", "vmsnapshots"}, all: true, status: true, older: alpha,
		columns: columns(
			text("SourceKind", ".spec.source.kind"), text("SourceName", ".spec.source.name"), phase,
			boolean("ReadyToUse", ".status.readyToUse"), date("CreationTime", ".status.creationTime"),
			text("Error", ".status.error.message"),
		),
	},
	"virtualmachinesnapshotcontents.snapshot.kubevirt.io": {
		shortNames: []string{"vmsnapshotcontent", "vmsnapshotcontents"}, all: true, status: true, older: alpha,
		columns: columns(
			boolean("ReadyToUse", ".status.readyToUse"), date("CreationTime", ".status.creationTime"),
			text("Error", ".status.error.message"),
		),
	},
	"virtualmachinerestores.snapshot.kubevirt.io": {
		shortNames: []string{"vmrestore", "vmrestores"}, all: true, status: true, older: alpha,
		columns: columns(
			text("TargetKind", ".spec.target.kind"), text("TargetName", ".spec.target.name"),
			boolean("Complete", ".status.complete"), date("RestoreTime", ".status.restoreTime"),
		),
	},
	"virtualmachineexports.export.kubevirt.io": {
		shortNames: []string{"vmexport", "vmexports"}, all: true, status: true,
		older: []served{{
			version: "v1beta1",
			warning: "export.kubevirt.io/v1beta1 VirtualMachineExport is now deprecated and will be removed in a future version.",
		}},
		columns: columns(text("SourceKind", ".spec.source.kind"), text("SourceName", ".spec.source.name"), phase),
	},
	"virtualmachinepools.pool.kubevirt.io": {
		shortNames: []string{"vmpool", "vmpools"}, all: true, status: true, scale: true, older: alpha,
		columns: columns(desired, current, readyCount, age),
	},
	"virtualmachineclones.clone.kubevirt.io": {
		shortNames: []string{"vmclone", "vmclones"}, all: true, status: true, older: alpha,
		columns: columns(
			phase, text("SourceVirtualMachine", ".spec.source.name"), text("TargetVirtualMachine", ".spec.target.name"),
		),
	},
	"virtualmachinebackups.backup.kubevirt.io": {
		shortNames: []string{"vmbackup", "vmbackups"}, all: true, status: true,
		columns: columns(
			text("SourceKind", ".spec.source.kind"), text("SourceName", ".spec.source.name"), text("Type", ".status.type"),
			text("CheckpointName", ".status.checkpointName"),
		),
	},
	"virtualmachinebackuptrackers.backup.kubevirt.io": {
		shortNames: []string{"vmbackuptracker", "vmbackuptrackers"}, all: true, status: true,
		columns: columns(
			text("SourceKind", ".spec.source.kind"), text("SourceName", ".spec.source.name"),
			text("LatestCheckpoint", ".status.latestCheckpoint.name"), date("CheckpointTime", ".status.latestCheckpoint.creationTime"),
		),
	},
	"migrationpolicies.migrations.kubevirt.io": {cluster: true, status: true},
	"plugins.plugin.kubevirt.io":               {cluster: true},
}

var (
	age        = date("Age", ".metadata.creationTimestamp")
	phase      = text("Phase", ".status.phase")
	ready      = condition("Ready", "Ready")
	desired    = count("Desired", ".spec.replicas")
	current    = count("Current", ".status.replicas")
	readyCount = count("Ready", ".status.readyReplicas")
)

type column = apiextensionsv1.CustomResourceColumnDefinition

func columns(list ...column) []column { return list }

func text(name, path string) column    { return column{Name: name, Type: "string", JSONPath: path} }
func date(name, path string) column    { return column{Name: name, Type: "date", JSONPath: path} }
func boolean(name, path string) column { return column{Name: name, Type: "boolean", JSONPath: path} }

func count(name, path string) column { return column{Name: name, Type: "integer", JSONPath: path} }

func condition(name, kind string) column {
	return text(name, ".status.conditions[?(@.type=='"+kind+"')].status")
}

// wide shows a column under -o wide only.
func wide(c column) column {
	c.Priority = 1
	return c
}

// apply makes a generated definition what KubeVirt's operator would install.
func (t treatment) apply(definition *apiextensionsv1.CustomResourceDefinition) {
	definition.Spec.Names.ShortNames = t.shortNames
	if t.all {
		definition.Spec.Names.Categories = []string{"all"}
	}
	if t.cluster {
		definition.Spec.Scope = apiextensionsv1.ClusterScoped
	}
	for i := range definition.Spec.Versions {
		version := &definition.Spec.Versions[i]
		version.AdditionalPrinterColumns = t.columns
		version.Subresources = t.subresources()
		if t.deprecated != "" {
			version.Deprecated = true
			version.DeprecationWarning = &t.deprecated
		}
	}
	newest := definition.Spec.Versions[0]
	for _, older := range t.older {
		version := *newest.DeepCopy()
		version.Name, version.Storage, version.Deprecated, version.DeprecationWarning = older.version, older.stored, older.warning != "", nil
		if older.warning != "" {
			version.DeprecationWarning = &older.warning
		}
		definition.Spec.Versions[0].Storage = definition.Spec.Versions[0].Storage && !older.stored
		definition.Spec.Versions = append(definition.Spec.Versions, version)
	}
}

func (t treatment) subresources() *apiextensionsv1.CustomResourceSubresources {
	if !t.status && !t.scale {
		return nil
	}
	subresources := &apiextensionsv1.CustomResourceSubresources{}
	if t.status {
		subresources.Status = &apiextensionsv1.CustomResourceSubresourceStatus{}
	}
	if t.scale {
		selector := ".status.labelSelector"
		subresources.Scale = &apiextensionsv1.CustomResourceSubresourceScale{
			SpecReplicasPath:   ".spec.replicas",
			StatusReplicasPath: ".status.replicas",
			LabelSelectorPath:  &selector,
		}
	}
	return subresources
}
