package validators

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/mutators"
)

// gateDecentralizedMigration lets a VM wait for another cluster to migrate into it.
const gateDecentralizedMigration = "DecentralizedLiveMigration"

func virtualMachineRules() Table {
	return Table{
		{
			ID: "vm-run-strategy-one", Title: "A VM has one of spec.runStrategy and spec.running", Scope: OnVM,
			Remedy: "Set spec.runStrategy and remove spec.running.", Check: oneRunStrategy,
		},
		{
			ID: "vm-run-strategy-known", Title: "spec.runStrategy is one that KubeVirt has", Scope: OnVM,
			Remedy: "Use Always, Halted, Manual, RerunOnFailure or Once.", Check: knownRunStrategy,
		},
		{
			ID: "vm-running-deprecated", Title: "spec.running is deprecated", Scope: OnVM, Severity: Warn,
			Remedy: "Replace running: true by runStrategy: Always, and running: false by runStrategy: Halted.", Check: runningDeprecated,
		},
		{
			ID: "vm-max-guest-reachable", Title: "A guest with memory.maxGuest can grow to it while it runs", Scope: OnVM,
			Remedy: "Remove memory.maxGuest, or make the VM one that takes memory while it runs.", Check: maxGuestReachable,
		},
		{
			ID: "vm-instancetype-revision-follows", Title: "Another instancetype comes with another revision, or with none", Scope: OnVMUpdate,
			Remedy: "Remove spec.instancetype.revisionName: KubeVirt sets it again.", Check: instancetypeRevision,
		},
		{
			ID: "vm-preference-revision-follows", Title: "Another preference comes with another revision, or with none", Scope: OnVMUpdate,
			Remedy: "Remove spec.preference.revisionName: KubeVirt sets it again.", Check: preferenceRevision,
		},
		{
			ID: "vm-snapshot-volumes-kept", Title: "The volumes of a VM stay as they are while a snapshot is taken", Scope: OnVMUpdate,
			Remedy: "Wait until status.snapshotInProgress is gone.", Check: volumesKeptInSnapshot,
		},
		{
			ID: "vm-snapshot-run-strategy-kept", Title: "A VM is neither started nor stopped while a snapshot is taken", Scope: OnVMUpdate,
			Remedy: "Wait until status.snapshotInProgress is gone.", Check: runStrategyKeptInSnapshot,
		},
		{
			ID: "vm-restore-run-strategy-kept", Title: "A VM is neither started nor stopped while it is restored", Scope: OnVMUpdate,
			Remedy: "Wait until status.restoreInProgress is gone.", Check: runStrategyKeptInRestore,
		},
	}
}

// specOfVM is where a VM's own spec stands.
func specOfVM() *field.Path { return field.NewPath("spec") }

func oneRunStrategy(s *Subject) field.ErrorList {
	if s.VM == nil {
		return nil
	}
	path, running, strategy := specOfVM().Child("running"), s.VM.Spec.Running, s.VM.Spec.RunStrategy
	switch {
	case running != nil && strategy != nil:
		return field.ErrorList{field.Invalid(path, *running, fmt.Sprintf("spec.runStrategy is %q already: remove spec.running", *strategy))}
	case running == nil && strategy == nil:
		return field.ErrorList{field.Invalid(path, nil, "neither spec.running nor spec.runStrategy is set: set spec.runStrategy")}
	}
	return nil
}

// runStrategies are those that need no feature gate.
func runStrategies() []v1.VirtualMachineRunStrategy {
	return []v1.VirtualMachineRunStrategy{
		v1.RunStrategyAlways, v1.RunStrategyHalted, v1.RunStrategyManual, v1.RunStrategyRerunOnFailure, v1.RunStrategyOnce,
	}
}

func knownRunStrategy(s *Subject) field.ErrorList {
	if s.VM == nil || s.VM.Spec.RunStrategy == nil {
		return nil
	}
	path, strategy := specOfVM().Child("runStrategy"), *s.VM.Spec.RunStrategy
	switch {
	case slices.Contains(runStrategies(), strategy):
		return nil
	case strategy == v1.RunStrategyWaitAsReceiver && s.Facts.GateEnabled(gateDecentralizedMigration):
		return nil
	case strategy == v1.RunStrategyWaitAsReceiver:
		return field.ErrorList{field.Invalid(path, strategy, "needs KubeVirt's feature gate "+gateDecentralizedMigration)}
	}
	return field.ErrorList{field.Invalid(path, strategy, "is not a run strategy: use Always, Halted, Manual, RerunOnFailure or Once")}
}

func runningDeprecated(s *Subject) field.ErrorList {
	if s.VM == nil || s.VM.Spec.Running == nil {
		return nil
	}
	instead := v1.RunStrategyHalted
	if *s.VM.Spec.Running {
		instead = v1.RunStrategyAlways
	}
	return field.ErrorList{field.Invalid(specOfVM().Child("running"), *s.VM.Spec.Running, fmt.Sprintf("is deprecated: use spec.runStrategy: %s", instead))}
}

// maxGuestReachable holds only where changes are rolled out live: elsewhere nothing ever uses maxGuest.
func maxGuestReachable(s *Subject) field.ErrorList {
	memory := s.Spec.Domain.Memory
	if !s.Facts.LiveUpdate || memory == nil || memory.MaxGuest == nil {
		return nil
	}
	obstacle := mutators.MemoryHotplugObstacle(s.Spec, memory.MaxGuest)
	if obstacle == "" {
		return nil
	}
	var guest any
	if memory.Guest != nil {
		guest = memory.Guest.String()
	}
	return field.ErrorList{field.Invalid(s.Domain().Child("memory", "guest"), guest,
		fmt.Sprintf("cannot grow to the maxGuest of %s: %s", memory.MaxGuest.String(), obstacle))}
}

func instancetypeRevision(s *Subject) field.ErrorList {
	if s.VM == nil || s.OldVM == nil || s.VM.Spec.Instancetype == nil || s.OldVM.Spec.Instancetype == nil {
		return nil
	}
	return revisionFollows(specOfVM().Child("instancetype", "revisionName"), s.OldVM.Spec.Instancetype, s.VM.Spec.Instancetype)
}

func preferenceRevision(s *Subject) field.ErrorList {
	if s.VM == nil || s.OldVM == nil || s.VM.Spec.Preference == nil || s.OldVM.Spec.Preference == nil {
		return nil
	}
	return revisionFollows(specOfVM().Child("preference", "revisionName"), s.OldVM.Spec.Preference, s.VM.Spec.Preference)
}

// revisionFollows rejects the revision of the object that was pointed at before: it would go on to count.
func revisionFollows(path *field.Path, old, changed v1.Matcher) field.ErrorList {
	revision := old.GetRevisionName()
	if revision == "" || changed.GetRevisionName() != revision || changed.GetName() == old.GetName() {
		return nil
	}
	return field.ErrorList{field.Invalid(path, revision, fmt.Sprintf("is a revision of %q: remove it now that the name is %q", old.GetName(), changed.GetName()))}
}

// unsupportedChange is a change that KubeVirt does not take at this moment, or not from this user. What it
// was changed to does not matter.
func unsupportedChange(path *field.Path, detail string) *field.Error {
	return &field.Error{Type: field.ErrorTypeNotSupported, Field: path.String(), BadValue: field.OmitValueType{}, Detail: detail}
}

func volumesKeptInSnapshot(s *Subject) field.ErrorList {
	if s.VM == nil || s.OldVM == nil || s.VM.Status.SnapshotInProgress == nil {
		return nil
	}
	if equality.Semantic.DeepEqual(templateVolumes(s.OldVM), templateVolumes(s.VM)) {
		return nil
	}
	return field.ErrorList{unsupportedChange(specOfVM(),
		fmt.Sprintf("template.spec.volumes must stay as they are until the snapshot %q is taken", *s.VM.Status.SnapshotInProgress))}
}

func templateVolumes(vm *v1.VirtualMachine) []v1.Volume {
	if vm.Spec.Template == nil {
		return nil
	}
	return vm.Spec.Template.Spec.Volumes
}

func runStrategyKeptInSnapshot(s *Subject) field.ErrorList {
	if s.VM == nil || s.OldVM == nil || s.VM.Status.SnapshotInProgress == nil || sameRunStrategy(&s.OldVM.Spec, &s.VM.Spec) {
		return nil
	}
	return field.ErrorList{unsupportedChange(specOfVM(),
		fmt.Sprintf("runStrategy or running must stay as it is until the snapshot %q is taken", *s.VM.Status.SnapshotInProgress))}
}

// runStrategyKeptInRestore compares what is meant: running: true and runStrategy: Always are the same.
func runStrategyKeptInRestore(s *Subject) field.ErrorList {
	if s.VM == nil || s.OldVM == nil || s.VM.Status.RestoreInProgress == nil {
		return nil
	}
	before, _ := s.OldVM.RunStrategy() // of both fields at once, the other rule speaks
	now, _ := s.VM.RunStrategy()
	if before == now {
		return nil
	}
	return field.ErrorList{unsupportedChange(specOfVM(),
		fmt.Sprintf("the VM must stay %s until the restore %q is done", before, *s.VM.Status.RestoreInProgress))}
}

// sameRunStrategy compares what is written, as KubeVirt does for snapshots: running: true is not
// runStrategy: Always.
func sameRunStrategy(old, changed *v1.VirtualMachineSpec) bool {
	switch {
	case old.Running != nil && changed.Running != nil:
		return *old.Running == *changed.Running
	case old.RunStrategy != nil && changed.RunStrategy != nil:
		return *old.RunStrategy == *changed.RunStrategy
	}
	return false
}
