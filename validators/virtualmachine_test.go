package validators

import (
	"fmt"
	"testing"
)

func TestVirtualMachine(t *testing.T) {
	const maxGuest = `{spec: {runStrategy: Always, template: {spec: {architecture: %s, domain: {memory: {guest: %s, maxGuest: %s}}}}}}`
	runCases(t, virtualMachineRules(), OnVM, []ruleCase{
		{name: "a run strategy", vm: `{spec: {runStrategy: Once}}`},
		{
			name: "neither", vm: `{spec: {}}`,
			want: []string{`vm-run-strategy-one: spec.runStrategy: Invalid value: null: a VM must have a run strategy`},
		},
		{
			name: "both", vm: `{spec: {running: false, runStrategy: Manual}}`,
			want: []string{
				`vm-run-strategy-one: spec.running: Invalid value: false: spec.runStrategy is also set, to "Manual"`,
				`vm-running-deprecated: spec.running: Invalid value: false: is deprecated: use spec.runStrategy: Halted`,
			},
		},
		{
			name: "running", vm: `{spec: {running: true}}`,
			want: []string{`vm-running-deprecated: spec.running: Invalid value: true: is deprecated: use spec.runStrategy: Always`},
		},
		{
			name: "a strategy in lower case", vm: `{spec: {runStrategy: always}}`,
			want: []string{`vm-run-strategy-known: spec.runStrategy: Invalid value: "always": the run strategy is unknown: supported values: "Always", "Halted", "Manual", "RerunOnFailure", "Once"`},
		},
		{
			name: "an empty strategy", vm: `{spec: {runStrategy: ""}}`,
			want: []string{`vm-run-strategy-known: spec.runStrategy: Invalid value: "": the run strategy is unknown: supported values: "Always", "Halted", "Manual", "RerunOnFailure", "Once"`},
		},
		{
			name: "a receiver", vm: `{spec: {runStrategy: WaitAsReceiver}}`,
			configuration: `{"developerConfiguration":{"featureGates":["DecentralizedLiveMigration"]}}`,
		},
		{
			name: "a receiver without the gate", vm: `{spec: {runStrategy: WaitAsReceiver}}`,
			configuration: `{"developerConfiguration":{"disabledFeatureGates":["DecentralizedLiveMigration"]}}`,
			want:          []string{`vm-run-strategy-known: spec.runStrategy: Invalid value: "WaitAsReceiver": needs KubeVirt's feature gate DecentralizedLiveMigration`},
		},
		{name: "room to grow", vm: fmt.Sprintf(maxGuest, "amd64", "1Gi", "4Gi")},
		{
			name: "a guest that is too small to grow", vm: fmt.Sprintf(maxGuest, "amd64", "512Mi", "4Gi"),
			want: []string{`vm-max-guest-reachable: spec.template.spec.domain.memory.guest: Invalid value: "512Mi": cannot grow to the maxGuest of 4Gi: memory can be hot-plugged into guests of at least 1Gi only`},
		},
		{
			name: "a guest beyond its bound, where that matters not", vm: fmt.Sprintf(maxGuest, "amd64", "2Gi", "1Gi"),
			configuration: `{"vmRolloutStrategy":"Stage"}`,
		},
		{
			name: "a bound without a guest", vm: `{spec: {runStrategy: Always, template: {spec: {architecture: amd64, domain: {memory: {maxGuest: 4Gi}}}}}}`,
			want: []string{`vm-max-guest-reachable: spec.template.spec.domain.memory.guest: Invalid value: null: cannot grow to the maxGuest of 4Gi: memory hotplug needs both memory.guest and memory.maxGuest`},
		},
	})
}

func TestVirtualMachineUpdate(t *testing.T) {
	const (
		snapshot = `{spec: {%s, template: {spec: {domain: {}, volumes: [{name: root, persistentVolumeClaim: {claimName: %s}}]}}}, status: {snapshotInProgress: s1}}`
		restore  = `{spec: {%s}, status: {restoreInProgress: r1}}`
		matcher  = `{spec: {runStrategy: Always, %s: {name: %s, revisionName: %s}}}`
	)
	runCases(t, virtualMachineRules(), OnVMUpdate, []ruleCase{
		{name: "a snapshot of what stays", vm: fmt.Sprintf(snapshot, "runStrategy: Always", "a"), old: fmt.Sprintf(snapshot, "runStrategy: Always", "a")},
		{
			name: "another volume", vm: fmt.Sprintf(snapshot, "runStrategy: Always", "b"), old: fmt.Sprintf(snapshot, "runStrategy: Always", "a"),
			want: []string{`vm-snapshot-volumes-kept: spec: Unsupported value: template.spec.volumes must stay as they are until the snapshot "s1" is taken`},
		},
		{
			name: "stopped in a snapshot", vm: fmt.Sprintf(snapshot, "runStrategy: Halted", "a"), old: fmt.Sprintf(snapshot, "runStrategy: Always", "a"),
			want: []string{`vm-snapshot-run-strategy-kept: spec: Unsupported value: runStrategy or running must stay as it is until the snapshot "s1" is taken`},
		},
		{
			name: "the same, written otherwise, in a snapshot", vm: fmt.Sprintf(snapshot, "runStrategy: Always", "a"), old: fmt.Sprintf(snapshot, "running: true", "a"),
			want: []string{`vm-snapshot-run-strategy-kept: spec: Unsupported value: runStrategy or running must stay as it is until the snapshot "s1" is taken`},
		},
		{name: "running as before in a snapshot", vm: fmt.Sprintf(snapshot, "running: true", "a"), old: fmt.Sprintf(snapshot, "running: true", "a")},
		{name: "the same, written otherwise, in a restore", vm: fmt.Sprintf(restore, "runStrategy: Always"), old: fmt.Sprintf(restore, "running: true")},
		{
			name: "stopped in a restore", vm: fmt.Sprintf(restore, "runStrategy: Halted"), old: fmt.Sprintf(restore, "runStrategy: Always"),
			want: []string{`vm-restore-run-strategy-kept: spec: Unsupported value: the VM must stay Always until the restore "r1" is done`},
		},
		{name: "another instancetype and revision", vm: fmt.Sprintf(matcher, "instancetype", "b", "rb"), old: fmt.Sprintf(matcher, "instancetype", "a", "ra")},
		{
			name: "another instancetype with the old revision", vm: fmt.Sprintf(matcher, "instancetype", "b", "ra"), old: fmt.Sprintf(matcher, "instancetype", "a", "ra"),
			want: []string{`vm-instancetype-revision-follows: spec.instancetype.revisionName: Invalid value: "ra": is a revision of "a", but the new name is "b"`},
		},
		{name: "the first revision of an instancetype", vm: fmt.Sprintf(matcher, "instancetype", "b", "rb"), old: fmt.Sprintf(matcher, "instancetype", "a", `""`)},
		{name: "a preference that was not there", vm: fmt.Sprintf(matcher, "preference", "b", "rb"), old: `{spec: {runStrategy: Always}}`},
		{
			name: "another preference with the old revision", vm: fmt.Sprintf(matcher, "preference", "b", "ra"), old: fmt.Sprintf(matcher, "preference", "a", "ra"),
			want: []string{`vm-preference-revision-follows: spec.preference.revisionName: Invalid value: "ra": is a revision of "a", but the new name is "b"`},
		},
	})
}
