package admissionpolicies

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Effect is what users can do to virtual machines by writing an object, or a field of it.
type Effect string

// The effects, strongest first. An object with several effects has the strongest one.
const (
	// Runs is to create or start a guest.
	Runs Effect = "run"
	// Changes is to change what a guest is, or what runs beside it.
	Changes Effect = "change"
	// Copies is to copy disks or memory of a guest.
	Copies Effect = "copy"
	// Moves is to decide where a guest runs.
	Moves Effect = "move"
	// Nothing is no effect on guests.
	Nothing Effect = "nothing"
)

// Decision is what users without the verb bypass-approval can do with a field in an approved-only namespace.
type Decision string

const (
	// Free fields can be set at creation, if the kind can be created, and changed later.
	Free Decision = "set and change"
	// AtCreation fields can be set at creation, and not be changed.
	AtCreation Decision = "set at creation"
	// Kept fields can neither be set nor be changed.
	Kept Decision = "neither"
)

// GuestKind is a kind of the groups of KubeVirt, what its objects can do to virtual machines, and which guard of approved-only
// namespaces covers it.
type GuestKind struct {
	schema.GroupKind

	// Resource is the plural name in URLs.
	Resource string
	// Cluster kinds have no namespace.
	Cluster bool
	Effect  Effect
	// Guard is the name of the admission policy that covers the kind; empty if no guard does.
	Guard string
	// Fields of the spec, each with its decision. Without any, all fields are Kept, also those that KubeVirt will add.
	Fields []GuestField
	// Because is the reason of the decision.
	Because string
}

// GuestField is a field of a spec.
type GuestField struct {
	Name     string
	Effect   Effect
	Decision Decision
}

// Creatable reports whether users without the verb can create objects of the kind in an approved-only namespace. They can set
// only the fields whose decision permits it.
func (k *GuestKind) Creatable() bool {
	return slices.ContainsFunc(k.Fields, func(f GuestField) bool { return f.Decision == AtCreation })
}

// GuestKinds returns every kind of the groups of KubeVirt, those of kubevirt.io first and the others sorted by group, and
// ControllerRevisions, which keep instancetypes and preferences.
func GuestKinds() []GuestKind {
	return slices.Concat(coreKinds(), otherKinds())
}

const groupKubeVirt = "kubevirt.io"

func kindOf(group, kind string) schema.GroupKind { return schema.GroupKind{Group: group, Kind: kind} }

// coreKinds are those of the group kubevirt.io.
func coreKinds() []GuestKind {
	return []GuestKind{
		{
			GroupKind: kindOf(groupKubeVirt, "VirtualMachine"), Resource: "virtualmachines", Effect: Runs, Guard: TemplateApprovedOnly,
			Fields:  machineFields(),
			Because: "Virtward's API server creates virtual machines of approved templates. Users start, stop and delete them",
		},
		{
			GroupKind: kindOf(groupKubeVirt, "VirtualMachineInstance"), Resource: "virtualmachineinstances", Effect: Runs, Guard: TemplateApprovedOnly,
			Fields:  instanceFields(),
			Because: "KubeVirt creates instances of virtual machines. Users delete them",
		},
		{
			GroupKind: kindOf(groupKubeVirt, "VirtualMachineInstanceReplicaSet"), Resource: "virtualmachineinstancereplicasets", Effect: Runs, Guard: TemplateApprovedOnly,
			Fields: []GuestField{
				{"replicas", Runs, Free}, {"paused", Nothing, Free}, {"selector", Changes, Kept}, {"template", Changes, Kept},
			},
			Because: "its template describes instances",
		},
		{
			GroupKind: kindOf(groupKubeVirt, "VirtualMachineInstancePreset"), Resource: "virtualmachineinstancepresets", Effect: Changes, Guard: TemplateApprovedOnly,
			Because: "it adds fields to instances",
		},
		{
			GroupKind: kindOf(groupKubeVirt, "VirtualMachineInstanceMigration"), Resource: "virtualmachineinstancemigrations", Effect: Runs, Guard: TemplateApprovedOnly,
			Fields: []GuestField{
				{"vmiName", Moves, AtCreation}, {"addedNodeSelector", Moves, Kept}, {"sendTo", Copies, Kept}, {"receive", Runs, Kept}, {"priority", Moves, Kept},
			},
			Because: "a migration that names only an instance moves it to a node that the scheduler selects. The other fields receive a guest that no template describes, send a guest to another namespace or cluster, and select nodes. Annotations of kubevirt.io select the image of the new pod",
		},
		{
			GroupKind: kindOf(groupKubeVirt, "KubeVirt"), Resource: "kubevirts", Effect: Changes,
			Because: "it configures the cluster. KubeVirt rejects a second one, and no role for users can write it",
		},
	}
}

// machineFields are the fields of the spec of a virtual machine.
func machineFields() []GuestField {
	return []GuestField{
		{"running", Runs, Free},
		{"runStrategy", Runs, Free},
		{"instancetype", Changes, Kept},
		{"preference", Changes, Kept},
		{"template", Changes, Kept},
		{"dataVolumeTemplates", Changes, Kept},
		{"updateVolumesStrategy", Changes, Kept},
	}
}

// instanceFields are the fields of the spec of an instance.
func instanceFields() []GuestField {
	return []GuestField{
		{"domain", Changes, Kept},
		{"volumes", Changes, Kept},
		{"utilityVolumes", Changes, Kept},
		{"networks", Changes, Kept},
		{"resourceClaims", Changes, Kept},
		{"accessCredentials", Changes, Kept},
		{"serviceAccountName", Changes, Kept},
		{"architecture", Changes, Kept},
		{"hostname", Changes, Kept},
		{"subdomain", Changes, Kept},
		{"dnsPolicy", Changes, Kept},
		{"dnsConfig", Changes, Kept},
		{"livenessProbe", Changes, Kept},
		{"readinessProbe", Changes, Kept},
		{"startStrategy", Changes, Kept},
		{"terminationGracePeriodSeconds", Changes, Kept},
		{"nodeSelector", Moves, Kept},
		{"affinity", Moves, Kept},
		{"tolerations", Moves, Kept},
		{"topologySpreadConstraints", Moves, Kept},
		{"schedulerName", Moves, Kept},
		{"priorityClassName", Moves, Kept},
		{"evictionStrategy", Moves, Kept},
	}
}

// otherKinds are those of the other groups.
func otherKinds() []GuestKind {
	return []GuestKind{
		{
			GroupKind: kindOf("apps", "ControllerRevision"), Resource: "controllerrevisions", Effect: Changes, Guard: TemplateApprovedOnly,
			Because: "it keeps the instancetype and the preference of a virtual machine",
		},
		{
			GroupKind: kindOf("backup.kubevirt.io", "VirtualMachineBackup"), Resource: "virtualmachinebackups", Effect: Copies, Guard: TemplateApprovedOnly,
			Because: "it copies the disks of a guest into a claim, or serves them",
		},
		{
			GroupKind: kindOf("backup.kubevirt.io", "VirtualMachineBackupTracker"), Resource: "virtualmachinebackuptrackers", Effect: Copies, Guard: TemplateApprovedOnly,
			Because: "it decides what the next backup copies",
		},
		{
			GroupKind: kindOf("clone.kubevirt.io", "VirtualMachineClone"), Resource: "virtualmachineclones", Effect: Runs, Guard: TemplateApprovedOnly,
			Because: "it creates a changed copy of a virtual machine",
		},
		{
			GroupKind: kindOf("export.kubevirt.io", "VirtualMachineExport"), Resource: "virtualmachineexports", Effect: Copies, Guard: TemplateApprovedOnly,
			Because: "it serves the disks and the manifest of a guest to the holder of a token",
		},
		{
			GroupKind: kindOf("instancetype.kubevirt.io", "VirtualMachineInstancetype"), Resource: "virtualmachineinstancetypes", Effect: Changes, Guard: TemplateApprovedOnly,
			Because: "it sets fields and annotations of instances",
		},
		{
			GroupKind: kindOf("instancetype.kubevirt.io", "VirtualMachineClusterInstancetype"), Resource: "virtualmachineclusterinstancetypes", Cluster: true, Effect: Changes, Guard: TemplateClusterKinds,
			Because: "its annotations can add containers. The guard covers them; the review of an approval shows instancetypes without a revision",
		},
		{
			GroupKind: kindOf("instancetype.kubevirt.io", "VirtualMachinePreference"), Resource: "virtualmachinepreferences", Effect: Changes, Guard: TemplateApprovedOnly,
			Because: "it sets fields and annotations of instances",
		},
		{
			GroupKind: kindOf("instancetype.kubevirt.io", "VirtualMachineClusterPreference"), Resource: "virtualmachineclusterpreferences", Cluster: true, Effect: Changes, Guard: TemplateClusterKinds,
			Because: "its annotations can add containers. The guard covers them; the review of an approval shows preferences without a revision",
		},
		{
			GroupKind: kindOf("migrations.kubevirt.io", "MigrationPolicy"), Resource: "migrationpolicies", Cluster: true, Effect: Moves,
			Because: "it configures how migrations are done, not of what or to where. KubeVirt's roles for users can only read it",
		},
		{
			GroupKind: kindOf("plugin.kubevirt.io", "Plugin"), Resource: "plugins", Cluster: true, Effect: Changes, Guard: TemplateClusterKinds,
			Because: "it changes the domain of every guest, and runs hooks on nodes. KubeVirt adds write access to the role admin",
		},
		{
			GroupKind: kindOf("pool.kubevirt.io", "VirtualMachinePool"), Resource: "virtualmachinepools", Effect: Runs, Guard: TemplateApprovedOnly,
			Fields: []GuestField{
				{"replicas", Runs, Free},
				{"paused", Nothing, Free},
				{"selector", Changes, Kept},
				{"virtualMachineTemplate", Changes, Kept},
				{"nameGeneration", Changes, Kept},
				{"maxUnavailable", Nothing, Kept},
				{"scaleInStrategy", Changes, Kept},
				{"updateStrategy", Changes, Kept},
				{"autohealing", Changes, Kept},
			},
			Because: "its template describes virtual machines",
		},
		{
			GroupKind: kindOf("snapshot.kubevirt.io", "VirtualMachineSnapshot"), Resource: "virtualmachinesnapshots", Effect: Copies, Guard: TemplateApprovedOnly,
			Fields: []GuestField{
				{"source", Copies, AtCreation}, {"deletionPolicy", Nothing, AtCreation}, {"failureDeadline", Nothing, AtCreation},
			},
			Because: "the copy stays in the namespace, and only kinds that are guarded run it or copy it out: restores, clones, exports and captures",
		},
		{
			GroupKind: kindOf("snapshot.kubevirt.io", "VirtualMachineSnapshotContent"), Resource: "virtualmachinesnapshotcontents", Effect: Runs, Guard: TemplateApprovedOnly,
			Because: "it describes the virtual machine that a restore creates",
		},
		{
			GroupKind: kindOf("snapshot.kubevirt.io", "VirtualMachineRestore"), Resource: "virtualmachinerestores", Effect: Runs, Guard: TemplateApprovedOnly,
			Because: "it creates or changes a virtual machine",
		},
		{
			GroupKind: kindOf("template.kubevirt.io", "VirtualMachineTemplate"), Resource: "virtualmachinetemplates", Effect: Runs, Guard: TemplateStatus,
			Because: "a template creates virtual machines here only if it is approved. The approval is in its status",
		},
		{
			GroupKind: kindOf("template.kubevirt.io", "VirtualMachineTemplateRequest"), Resource: "virtualmachinetemplaterequests", Effect: Copies, Guard: TemplateCapture,
			Because: "it captures a virtual machine of any namespace. Its author needs permissions in both namespaces",
		},
	}
}
