package apikinds

import "k8s.io/apimachinery/pkg/runtime/schema"

// The kinds of KubeVirt.
const (
	KubeVirt                         = "KubeVirt"
	VirtualMachine                   = "VirtualMachine"
	VirtualMachineInstance           = "VirtualMachineInstance"
	VirtualMachineInstanceReplicaSet = "VirtualMachineInstanceReplicaSet"
	VirtualMachineInstancePreset     = "VirtualMachineInstancePreset"
	VirtualMachinePool               = "VirtualMachinePool"
	VirtualMachineTemplate           = "VirtualMachineTemplate"
	VirtualMachineTemplateRequest    = "VirtualMachineTemplateRequest"
	VirtualMachineTemplateImport     = "VirtualMachineTemplateImport"
	VirtualMachineTemplateExport     = "VirtualMachineTemplateExport"
	VirtualMachineInstanceMigration  = "VirtualMachineInstanceMigration"
	VirtualMachineRestore            = "VirtualMachineRestore"
	VirtualMachineSnapshot           = "VirtualMachineSnapshot"
	VirtualMachineSnapshotContent    = "VirtualMachineSnapshotContent"
	VirtualMachineClone              = "VirtualMachineClone"

	VirtualMachineInstancetype        = "VirtualMachineInstancetype"
	VirtualMachineClusterInstancetype = "VirtualMachineClusterInstancetype"
	VirtualMachinePreference          = "VirtualMachinePreference"
	VirtualMachineClusterPreference   = "VirtualMachineClusterPreference"

	DataSource = "DataSource"
	DataVolume = "DataVolume"
)

// The kinds of Virtward.
const (
	RuleSettings           = "RuleSettings"
	VirtualMachineDefaults = "VirtualMachineDefaults"
	VirtualMachinePolicy   = "VirtualMachinePolicy"
	VirtualMachineRollout  = "VirtualMachineRollout"

	VirtualMachinePolicyException = "VirtualMachinePolicyException"
)

// The kinds of Kubernetes.
const (
	ConfigMap             = "ConfigMap"
	StorageClass          = "StorageClass"
	ControllerRevision    = "ControllerRevision"
	Namespace             = "Namespace"
	PersistentVolumeClaim = "PersistentVolumeClaim"
	Node                  = "Node"
	VolumeSnapshot        = "VolumeSnapshot"
)

// Resource is a kind and its resource, in the version that Virtward reads.
type Resource struct {
	schema.GroupVersionKind

	// Plural is the name of the resource in URLs.
	Plural string
}

// GroupVersionResource returns the resource.
func (r Resource) GroupVersionResource() schema.GroupVersionResource {
	return r.GroupVersion().WithResource(r.Plural)
}

const (
	kubeVirtGroup     = "kubevirt.io"
	instancetypeGroup = "instancetype.kubevirt.io"
	snapshotGroup     = "snapshot.kubevirt.io"
	cloneGroup        = "clone.kubevirt.io"
	admissionGroup    = "admissionregistration.k8s.io"
	importerGroup     = "cdi.kubevirt.io"
)

// The resources that Virtward reads.
var (
	KubeVirts               = resource(kubeVirtGroup, "v1", KubeVirt, "kubevirts")
	VirtualMachines         = resource(kubeVirtGroup, "v1", VirtualMachine, "virtualmachines")
	VirtualMachineInstances = resource(kubeVirtGroup, "v1", VirtualMachineInstance, "virtualmachineinstances")
	Migrations              = resource(kubeVirtGroup, "v1", VirtualMachineInstanceMigration, "virtualmachineinstancemigrations")
	Rollouts                = resource("rollout.virtward.io", "v1alpha1", VirtualMachineRollout, "virtualmachinerollouts")
	Policies                = resource("policy.virtward.io", "v1alpha1", VirtualMachinePolicy, "virtualmachinepolicies")
	PolicyExceptions        = resource("policy.virtward.io", "v1alpha1", VirtualMachinePolicyException, "virtualmachinepolicyexceptions")
	ReplicaSets             = resource(kubeVirtGroup, "v1", VirtualMachineInstanceReplicaSet, "virtualmachineinstancereplicasets")
	Presets                 = resource(kubeVirtGroup, "v1", VirtualMachineInstancePreset, "virtualmachineinstancepresets")
	Pools                   = resource("pool.kubevirt.io", "v1beta1", VirtualMachinePool, "virtualmachinepools")
	Templates               = resource("template.kubevirt.io", "v1beta1", VirtualMachineTemplate, "virtualmachinetemplates")
	Snapshots               = resource(snapshotGroup, "v1beta1", VirtualMachineSnapshot, "virtualmachinesnapshots")
	SnapshotContents        = resource(snapshotGroup, "v1beta1", VirtualMachineSnapshotContent, "virtualmachinesnapshotcontents")
	Restores                = resource(snapshotGroup, "v1beta1", VirtualMachineRestore, "virtualmachinerestores")
	Clones                  = resource(cloneGroup, "v1beta1", VirtualMachineClone, "virtualmachineclones")

	Instancetypes        = resource(instancetypeGroup, "v1beta1", VirtualMachineInstancetype, "virtualmachineinstancetypes")
	ClusterInstancetypes = resource(instancetypeGroup, "v1beta1", VirtualMachineClusterInstancetype, "virtualmachineclusterinstancetypes")
	Preferences          = resource(instancetypeGroup, "v1beta1", VirtualMachinePreference, "virtualmachinepreferences")
	ClusterPreferences   = resource(instancetypeGroup, "v1beta1", VirtualMachineClusterPreference, "virtualmachineclusterpreferences")

	Plugins       = resource("plugin.kubevirt.io", "v1alpha1", "Plugin", "plugins")
	VirtualImages = resource("kupenstack.io", "v1alpha1", "VirtualImage", "virtualimages")

	DataSources            = resource(importerGroup, "v1beta1", DataSource, "datasources")
	DataVolumes            = resource(importerGroup, "v1beta1", DataVolume, "datavolumes")
	ControllerRevisions    = resource("apps", "v1", ControllerRevision, "controllerrevisions")
	PersistentVolumeClaims = resource("", "v1", PersistentVolumeClaim, "persistentvolumeclaims")
	ConfigMaps             = resource("", "v1", ConfigMap, "configmaps")
	ResourceQuotas         = resource("", "v1", "ResourceQuota", "resourcequotas")
	StorageClasses         = resource("storage.k8s.io", "v1", StorageClass, "storageclasses")
	NetworkAttachments     = resource("k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition", "network-attachment-definitions")
	VolumeSnapshots        = resource("snapshot.storage.k8s.io", "v1", VolumeSnapshot, "volumesnapshots")
	AdmissionPolicies      = resource(admissionGroup, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies")
	AdmissionBindings      = resource(admissionGroup, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings")
)

func resource(group, version, kind, plural string) Resource {
	return Resource{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, Plural: plural}
}
