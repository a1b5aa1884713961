package rollout

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/rollouts/fleet"
)

// vmRecord is the part of a virtual machine that is kept during a reconciliation.
type vmRecord struct {
	name, version string
	uid           types.UID
	generation    int64
	labels        labels.Set
	mark          v1alpha1.Mark
	spec          kubevirtv1.VirtualMachineSpec
	status        kubevirtv1.VirtualMachineStatus
}

// vmFields are the fields of a virtual machine that are decoded.
type vmFields struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Running     *bool                                 `json:"running"`
		RunStrategy *kubevirtv1.VirtualMachineRunStrategy `json:"runStrategy"`
	} `json:"spec"`
	Status struct {
		PrintableStatus     kubevirtv1.VirtualMachinePrintableStatus      `json:"printableStatus"`
		StateChangeRequests []kubevirtv1.VirtualMachineStateChangeRequest `json:"stateChangeRequests"`
		VolumeUpdateState   *kubevirtv1.VolumeUpdateState                 `json:"volumeUpdateState"`
	} `json:"status"`
}

// readVM reads a virtual machine; ok is false if it is being deleted.
func readVM(object *pages.Object) (record *vmRecord, ok bool, err error) {
	if object.JSON == nil { // it is too large to be read
		return &vmRecord{name: object.Name, uid: types.UID(object.UID)}, true, nil
	}
	f := vmFields{}
	if err := json.Unmarshal(object.JSON, &f); err != nil {
		return nil, false, err
	}
	if f.Metadata.DeletionTimestamp != nil {
		return nil, false, nil
	}
	record = &vmRecord{
		name: strings.Clone(f.Metadata.Name), version: f.Metadata.ResourceVersion, uid: f.Metadata.UID, generation: f.Metadata.Generation,
		labels: f.Metadata.Labels,
	}
	record.mark, _ = v1alpha1.MarkOf(f.Metadata.Annotations) // a mark that cannot be read is none
	record.spec.Running, record.spec.RunStrategy = f.Spec.Running, f.Spec.RunStrategy
	record.status.PrintableStatus, record.status.StateChangeRequests, record.status.VolumeUpdateState = f.Status.PrintableStatus, f.Status.StateChangeRequests, f.Status.VolumeUpdateState
	return record, true, nil
}

// vm is the record as a virtual machine with few fields.
func (r *vmRecord) vm() *kubevirtv1.VirtualMachine {
	return &kubevirtv1.VirtualMachine{Spec: r.spec, Status: r.status}
}

// isMarked reports whether a rollout has written its change into the virtual machine.
func (r *vmRecord) isMarked(rollout *v1alpha1.VirtualMachineRollout) bool {
	return r.mark.UID == rollout.UID && r.mark.Rollout == rollout.Name && r.mark.Change == fleet.Digest(&rollout.Spec)
}

// vmiRecord is the part of an instance that is kept during a reconciliation.
type vmiRecord struct {
	version        string
	owner          types.UID
	instance       fleet.Instance
	volumesMigrate bool
	migrates       bool
	migrated       time.Time
	launcher       labels.Set
}

type vmiFields struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Status   struct {
		Phase      kubevirtv1.VirtualMachineInstancePhase `json:"phase"`
		Conditions []struct {
			Type   kubevirtv1.VirtualMachineInstanceConditionType `json:"type"`
			Status corev1.ConditionStatus                         `json:"status"`
		} `json:"conditions"`
		Revision       string `json:"virtualMachineRevisionName"`
		MigrationState *struct {
			StartTimestamp *metav1.Time `json:"startTimestamp"`
			EndTimestamp   *metav1.Time `json:"endTimestamp"`
			Completed      bool         `json:"completed"`
			Failed         bool         `json:"failed"`
		} `json:"migrationState"`
	} `json:"status"`
}

func readVMI(object *pages.Object) (*vmiRecord, error) {
	f := vmiFields{}
	if err := json.Unmarshal(object.JSON, &f); err != nil {
		return nil, err
	}
	record := &vmiRecord{version: f.Metadata.ResourceVersion, launcher: launcherLabels(&f.Metadata)}
	if owner := metav1.GetControllerOfNoCopy(&f.Metadata); owner != nil {
		record.owner = owner.UID
	}
	record.instance = fleet.Instance{
		UID: f.Metadata.UID, Generation: generationOf(f.Status.Revision),
		Deleting: f.Metadata.DeletionTimestamp != nil || f.Status.Phase == kubevirtv1.Succeeded || f.Status.Phase == kubevirtv1.Failed,
	}
	for _, c := range f.Status.Conditions {
		is := c.Status == corev1.ConditionTrue
		switch c.Type {
		case kubevirtv1.VirtualMachineInstanceReady:
			record.instance.Ready = is
		case kubevirtv1.VirtualMachineInstanceAgentConnected:
			record.instance.Agent = is
		case kubevirtv1.VirtualMachineInstanceVolumesChange:
			record.volumesMigrate = is
		}
	}
	if s := f.Status.MigrationState; s != nil {
		record.migrates = s.StartTimestamp != nil && s.EndTimestamp == nil
		if s.Completed && !s.Failed && s.EndTimestamp != nil {
			record.migrated = s.EndTimestamp.Time
		}
	}
	return record, nil
}

// generationOf is the generation of the virtual machine in the name of a start revision: revision-start-vm-UID-GENERATION.
func generationOf(revision string) int64 {
	generation, err := strconv.ParseInt(revision[strings.LastIndexByte(revision, '-')+1:], 10, 64)
	if err != nil {
		return 0
	}
	return generation
}

// launcherLabels are the labels of the launcher pod of an instance: those of the instance, and those that KubeVirt adds.
func launcherLabels(instance *metav1.ObjectMeta) labels.Set {
	set := labels.Set{
		kubevirtv1.AppLabel: "virt-launcher", kubevirtv1.CreatedByLabel: string(instance.UID),
		kubevirtv1.DeprecatedVirtualMachineNameLabel: instance.Name,
	}
	added := maps.Clone(set)
	maps.Copy(set, instance.Labels)
	maps.Copy(set, added)
	return set
}

// migrationRecord is the part of a migration that is kept during a reconciliation.
type migrationRecord struct {
	name, instance, rollout string
	final, succeeded        bool
	reason                  string
}

type migrationFields struct {
	Metadata metav1.ObjectMeta                                `json:"metadata"`
	Spec     kubevirtv1.VirtualMachineInstanceMigrationSpec   `json:"spec"`
	Status   kubevirtv1.VirtualMachineInstanceMigrationStatus `json:"status"`
}

func readMigration(object *pages.Object) (migrationRecord, error) {
	f := migrationFields{}
	if err := json.Unmarshal(object.JSON, &f); err != nil {
		return migrationRecord{}, err
	}
	m := migrationRecord{
		name: f.Metadata.Name, instance: f.Spec.VMIName, rollout: f.Metadata.Labels[v1alpha1.LabelRollout],
		final: f.Status.Phase == kubevirtv1.MigrationFailed || f.Status.Phase == kubevirtv1.MigrationSucceeded, succeeded: f.Status.Phase == kubevirtv1.MigrationSucceeded,
	}
	if state := f.Status.MigrationState; state != nil {
		m.reason = state.FailureReason
	}
	for i := range f.Status.Conditions {
		if c := &f.Status.Conditions[i]; m.reason == "" && c.Status == corev1.ConditionTrue && c.Message != "" {
			m.reason = c.Message
		}
	}
	return m, nil
}
