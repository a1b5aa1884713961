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
	return append(Scoped(OnVM,
		oneRunStrategyRule,
		knownRunStrategyRule,
		runningDeprecatedRule,
		maxGuestReachableRule,
	), Scoped(OnVMUpdate,
		instancetypeRevisionRule,
		preferenceRevisionRule,
		volumesKeptInSnapshotRule,
		runStrategyKeptInSnapshotRule,
		runStrategyKeptInRestoreRule,
	)...)
}

// specOfVM is the path of the spec of a VM.
var specOfVM = field.NewPath("spec")

var oneRunStrategyRule = Rule{
	ID:     "vm-run-strategy-one",
	Title:  "A VM has one of spec.runStrategy and spec.running",
	Remedy: "Set spec.runStrategy, such as to Always or Halted, and remove spec.running.",
	Check:  oneRunStrategy,
}

func oneRunStrategy(s *Subject, found *Errors) {
	if s.VM == nil {
		return
	}
	path, running, strategy := specOfVM.Child("running"), s.VM.Spec.Running, s.VM.Spec.RunStrategy
	switch {
	case running != nil && strategy != nil:
		found.Add(field.Invalid(path, *running, fmt.Sprintf("spec.runStrategy is also set, to %q", *strategy)))
	case running == nil && strategy == nil:
		found.Add(field.Invalid(specOfVM.Child("runStrategy"), nil, "a VM must have a run strategy"))
	}
}

// runStrategies are those that need no feature gate.
func runStrategies() []v1.VirtualMachineRunStrategy {
	return []v1.VirtualMachineRunStrategy{
		v1.RunStrategyAlways, v1.RunStrategyHalted, v1.RunStrategyManual, v1.RunStrategyRerunOnFailure, v1.RunStrategyOnce,
	}
}

var knownRunStrategyRule = Rule{
	ID:     "vm-run-strategy-known",
	Title:  "spec.runStrategy is known",
	Remedy: "Set spec.runStrategy to a supported value.",
	Check:  knownRunStrategy,
}

func knownRunStrategy(s *Subject, found *Errors) {
	if s.VM == nil || s.VM.Spec.RunStrategy == nil {
		return
	}
	path, strategy := specOfVM.Child("runStrategy"), *s.VM.Spec.RunStrategy
	switch {
	case slices.Contains(runStrategies(), strategy):
		return
	case strategy == v1.RunStrategyWaitAsReceiver && s.Facts.GateEnabled(gateDecentralizedMigration):
		return
	case strategy == v1.RunStrategyWaitAsReceiver:
		found.Add(field.Invalid(path, strategy, "needs KubeVirt's feature gate "+gateDecentralizedMigration))
		return
	}
	found.Add(unknown(path, strategy, "the run strategy", runStrategies()))
}

var runningDeprecatedRule = Rule{
	ID:       "vm-running-deprecated",
	Title:    "spec.running is deprecated",
	Remedy:   "Replace spec.running by spec.runStrategy.",
	Severity: Warn,
	Check:    runningDeprecated,
}

func runningDeprecated(s *Subject, found *Errors) {
	if s.VM == nil || s.VM.Spec.Running == nil {
		return
	}
	instead := v1.RunStrategyHalted
	if *s.VM.Spec.Running {
		instead = v1.RunStrategyAlways
	}
	found.Add(field.Invalid(specOfVM.Child("running"), *s.VM.Spec.Running, fmt.Sprintf("is deprecated: use spec.runStrategy: %s", instead)))
}

var maxGuestReachableRule = Rule{
	ID:     "vm-max-guest-reachable",
	Title:  "A guest with memory.maxGuest can grow to it while it runs",
	Remedy: "Remove memory.maxGuest, or correct what the message names.",
	Check:  maxGuestReachable,
}

// maxGuestReachable holds only where changes are rolled out live: elsewhere nothing ever uses maxGuest.
func maxGuestReachable(s *Subject, found *Errors) {
	memory := s.Spec.Domain.Memory
	if !s.Facts.LiveUpdate || memory == nil || memory.MaxGuest == nil {
		return
	}
	obstacle := mutators.MemoryHotplugObstacle(s.Spec, memory.MaxGuest)
	if obstacle == "" {
		return
	}
	var guest any
	if memory.Guest != nil {
		guest = memory.Guest.String()
	}
	found.Add(field.Invalid(s.Domain().Child("memory", "guest"), guest,
		fmt.Sprintf("cannot grow to the maxGuest of %s: %s", memory.MaxGuest.String(), obstacle)))
}

var instancetypeRevisionRule = Rule{
	ID:     "vm-instancetype-revision-follows",
	Title:  "A new instancetype does not keep the revision of the old one",
	Remedy: "Remove spec.instancetype.revisionName: KubeVirt sets it again.",
	Check:  instancetypeRevision,
}

func instancetypeRevision(s *Subject, found *Errors) {
	if s.VM == nil || s.OldVM == nil || s.VM.Spec.Instancetype == nil || s.OldVM.Spec.Instancetype == nil {
		return
	}
	revisionFollows(specOfVM.Child("instancetype", "revisionName"), s.OldVM.Spec.Instancetype, s.VM.Spec.Instancetype, found)
}

var preferenceRevisionRule = Rule{
	ID:     "vm-preference-revision-follows",
	Title:  "A new preference does not keep the revision of the old one",
	Remedy: "Remove spec.preference.revisionName: KubeVirt sets it again.",
	Check:  preferenceRevision,
}

func preferenceRevision(s *Subject, found *Errors) {
	if s.VM == nil || s.OldVM == nil || s.VM.Spec.Preference == nil || s.OldVM.Spec.Preference == nil {
		return
	}
	revisionFollows(specOfVM.Child("preference", "revisionName"), s.OldVM.Spec.Preference, s.VM.Spec.Preference, found)
}

// revisionFollows rejects the revision of the object that was pointed at before: it would go on to count.
func revisionFollows(path *field.Path, old, changed v1.Matcher, found *Errors) {
	revision := old.GetRevisionName()
	if revision == "" || changed.GetRevisionName() != revision || changed.GetName() == old.GetName() {
		return
	}
	found.Add(field.Invalid(path, revision, fmt.Sprintf("is a revision of %q, but the new name is %q", old.GetName(), changed.GetName())))
}

// unsupportedChange is a change that KubeVirt does not take at this moment, or not from this user. What it
// was changed to does not matter.
func unsupportedChange(path *field.Path, detail string) *field.Error {
	return &field.Error{Type: field.ErrorTypeNotSupported, Field: path.String(), BadValue: field.OmitValueType{}, Detail: detail}
}

var volumesKeptInSnapshotRule = Rule{
	ID:     "vm-snapshot-volumes-kept",
	Title:  "The volumes of a VM do not change while a snapshot is taken",
	Remedy: "Wait until status.snapshotInProgress is empty.",
	Check:  volumesKeptInSnapshot,
}

func volumesKeptInSnapshot(s *Subject, found *Errors) {
	if s.VM == nil || s.OldVM == nil || s.VM.Status.SnapshotInProgress == nil {
		return
	}
	if equality.Semantic.DeepEqual(templateVolumes(s.OldVM), templateVolumes(s.VM)) {
		return
	}
	found.Add(unsupportedChange(specOfVM,
		fmt.Sprintf("template.spec.volumes must stay as they are until the snapshot %q is taken", *s.VM.Status.SnapshotInProgress)))
}

func templateVolumes(vm *v1.VirtualMachine) []v1.Volume {
	if vm.Spec.Template == nil {
		return nil
	}
	return vm.Spec.Template.Spec.Volumes
}

var runStrategyKeptInSnapshotRule = Rule{
	ID:     "vm-snapshot-run-strategy-kept",
	Title:  "A VM is neither started nor stopped while a snapshot is taken",
	Remedy: "Wait until status.snapshotInProgress is empty.",
	Check:  runStrategyKeptInSnapshot,
}

func runStrategyKeptInSnapshot(s *Subject, found *Errors) {
	if s.VM == nil || s.OldVM == nil || s.VM.Status.SnapshotInProgress == nil || sameRunStrategy(&s.OldVM.Spec, &s.VM.Spec) {
		return
	}
	found.Add(unsupportedChange(specOfVM,
		fmt.Sprintf("runStrategy or running must stay as it is until the snapshot %q is taken", *s.VM.Status.SnapshotInProgress)))
}

var runStrategyKeptInRestoreRule = Rule{
	ID:     "vm-restore-run-strategy-kept",
	Title:  "A VM is neither started nor stopped while it is restored",
	Remedy: "Wait until status.restoreInProgress is empty.",
	Check:  runStrategyKeptInRestore,
}

// runStrategyKeptInRestore compares what is meant: running: true and runStrategy: Always are the same.
func runStrategyKeptInRestore(s *Subject, found *Errors) {
	if s.VM == nil || s.OldVM == nil || s.VM.Status.RestoreInProgress == nil {
		return
	}
	before, _ := s.OldVM.RunStrategy() // of both fields at once, the other rule speaks
	now, _ := s.VM.RunStrategy()
	if before == now {
		return
	}
	found.Add(unsupportedChange(specOfVM,
		fmt.Sprintf("the VM must stay %s until the restore %q is done", before, *s.VM.Status.RestoreInProgress)))
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
