package startup_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/startup"
)

func input(t *testing.T, text string) *startup.Input {
	t.Helper()
	in := &startup.Input{}
	if err := yaml.UnmarshalStrict([]byte(text), in); err != nil {
		t.Fatal(err)
	}
	return in
}

func TestSymptoms(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		places         bool
	}{
		{"nothing exists yet", `VM: {metadata: {name: db}, spec: {runStrategy: Always}}`, "", true},
		{"runs", `VMI: {status: {phase: Running, nodeName: a}}`, "Running: it runs on the node a (status.phase of the instance) -> ", false},
		{"halted", `VM: {metadata: {name: db, namespace: shop}, spec: {runStrategy: Halted}}`, "Stopped: it is not started: its run strategy is Halted (spec.runStrategy of the virtual machine) -> virtctl start db -n shop", true},
		{"not running", `VM: {metadata: {name: db, namespace: shop}, spec: {running: false}}`, "Stopped: it is not started: its run strategy is Halted (spec.running of the virtual machine) -> virtctl start db -n shop", true},
		{"deleted", `VM: {metadata: {name: db, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [a, b]}}`, "Ending: it is being deleted; its finalizers are a, b (metadata.deletionTimestamp of the virtual machine) -> ", false},
		{
			"the machine has failed", `VM: {spec: {runStrategy: Always}, status: {conditions: [{type: Failure, status: "True", reason: FailedCreate, message: no instancetype x}]}}`,
			"Failed: FailedCreate: no instancetype x (condition Failure of the virtual machine) -> ", false,
		},
		{
			"an import fails", `{VM: {spec: {runStrategy: Always}}, DataVolumes: [{metadata: {name: root}, status: {phase: ImportInProgress, conditions: [{type: Running, status: "False", reason: Error, message: connection refused}]}}, {metadata: {name: good}, status: {phase: Succeeded, conditions: [{type: Running, status: "False", reason: Completed, message: done}]}}]}`,
			"Storage: DataVolume root: Error: connection refused (condition Running of DataVolume root) -> ", false,
		},
		{
			"a claim waits", `{Claims: [{metadata: {name: data, namespace: shop}, status: {phase: Pending}}, {metadata: {name: later}, status: {phase: Pending}}, {metadata: {name: good}, status: {phase: Bound}}], Events: [{involvedObject: {kind: PersistentVolumeClaim, name: data}, reason: ProvisioningFailed, message: no such class}, {involvedObject: {kind: PersistentVolumeClaim, name: later}, reason: WaitForFirstConsumer}]}`,
			"Storage: the claim data is Pending: no such class (event ProvisioningFailed of the claim data) -> kubectl describe pvc data -n shop", false,
		},
		{
			"a quota", `{VMI: {metadata: {name: db}, status: {phase: Pending, conditions: [{type: Synchronized, status: "False", reason: FailedCreate, message: "pods is forbidden: exceeded quota: q"}]}}, Events: [{involvedObject: {kind: VirtualMachineInstance, name: db}, type: Warning, reason: FailedCreate, message: same}]}`,
			"Rejected: FailedCreate: pods is forbidden: exceeded quota: q (condition Synchronized of the instance) -> \nFailed: same (event FailedCreate of the instance) -> ", true,
		},
		{
			"no node", `{VMI: {status: {phase: Scheduling}}, Pods: [{metadata: {name: p}, status: {conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: 0/2 nodes are available}]}}]}`,
			"Unscheduled: Unschedulable: 0/2 nodes are available (condition PodScheduled of the pod p) -> ", true,
		},
		{
			"an image", `{VMI: {status: {phase: Scheduled}}, Pods: [{metadata: {name: p}, spec: {nodeName: a}, status: {containerStatuses: [{name: volumeroot, image: "quay.io/x:1", state: {waiting: {reason: ImagePullBackOff, message: not found}}}]}}]}`,
			"Container: ImagePullBackOff: not found (container volumeroot of the pod p) -> check that the image quay.io/x:1 exists and that the node may pull it", false,
		},
		{
			"a mount", `{VMI: {status: {phase: Scheduling}}, Pods: [{metadata: {name: p}, spec: {nodeName: a}}], Events: [{involvedObject: {kind: Pod, name: p}, type: Warning, reason: FailedAttachVolume, message: Multi-Attach error}]}`,
			"Storage: Multi-Attach error (event FailedAttachVolume of the pod p) -> ", false,
		},
		{
			"the launcher ends", `{VMI: {metadata: {name: db}, status: {phase: Failed, reason: crashed}}, Pods: [{metadata: {name: p, namespace: shop}, spec: {nodeName: a}, status: {containerStatuses: [{name: compute, state: {terminated: {exitCode: 1, reason: Error}}}]}}]}`,
			"Container: ended with code 1: Error (container compute of the pod p) -> kubectl logs p -c compute -n shop\nFailed: the instance has failed: crashed (status.phase of the instance) -> kubectl logs of the pod's container compute say why, if the pod still exists", false,
		},
		{
			"paused", `VMI: {metadata: {name: db, namespace: shop}, status: {phase: Running, conditions: [{type: Paused, status: "True", reason: PausedIOError, message: VMI was paused}]}}`,
			"Paused: PausedIOError: VMI was paused (condition Paused of the instance) -> make the storage available again: KubeVirt then unpauses the guest", false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := input(t, c.in)
			found := startup.Symptoms(in)
			var lines []string
			for _, s := range found {
				lines = append(lines, fmt.Sprintf("%s: %s (%s) -> %s", s.Kind, s.Text, s.Source, s.Change))
			}
			if diff := cmp.Diff(c.want, strings.Join(lines, "\n")); diff != "" {
				t.Error(diff)
			}
			if got := startup.Places(in, found); got != c.places {
				t.Errorf("the nodes decide: %v", got)
			}
		})
	}
}

// FuzzSymptoms: nothing that a cluster has makes it panic, and the symptoms are bounded.
func FuzzSymptoms(f *testing.F) {
	f.Add(`{"VM":{"metadata":{"name":"a"}},"VMI":{"status":{"phase":"Failed"}},"Pods":[{"metadata":{"name":"p"}}],"Events":[{"involvedObject":{"kind":"Pod","name":"p"},"type":"Warning"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		in := &startup.Input{}
		if json.Unmarshal([]byte(text), in) != nil {
			t.Skip()
		}
		for _, empty := range []bool{nils(in.Pods), nils(in.Claims), nils(in.DataVolumes), nils(in.Events)} {
			if empty {
				t.Skip()
			}
		}
		if found := startup.Symptoms(in); len(found) > startup.MaxSymptoms {
			t.Fatalf("%d symptoms", len(found))
		}
	})
}

// nils reports whether a list has an element without an object, which no API server returns.
func nils[T any](all []*T) bool {
	for _, one := range all {
		if one == nil {
			return true
		}
	}
	return false
}
