package startup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// Input is what a cluster says about a virtual machine. What does not exist, or could not be read, is nil.
type Input struct {
	VM  *v1.VirtualMachine
	VMI *v1.VirtualMachineInstance
	// Pods are the launchers of the instance, the newest first.
	Pods        []*corev1.Pod
	Claims      []*corev1.PersistentVolumeClaim
	DataVolumes []*cdiv1.DataVolume
	// Events are about any of these, the newest first.
	Events []*corev1.Event
}

// Kind of a symptom.
type Kind string

// The kinds of symptoms.
const (
	// Running is that of a virtual machine that runs.
	Running Kind = "Running"
	// Stopped virtual machines were not started.
	Stopped Kind = "Stopped"
	// Ending virtual machines are being deleted.
	Ending Kind = "Ending"
	// Failed is reported by KubeVirt.
	Failed Kind = "Failed"
	// Storage is about claims and DataVolumes.
	Storage Kind = "Storage"
	// Rejected pods were not created.
	Rejected Kind = "Rejected"
	// Unscheduled pods have no node.
	Unscheduled Kind = "Unscheduled"
	// Container symptoms are those of a container of the launcher.
	Container Kind = "Container"
	// Paused guests do not run.
	Paused Kind = "Paused"
)

// Symptom is one thing that is wrong, or that the virtual machine runs.
type Symptom struct {
	Kind Kind `json:"kind"`
	// Source is the object and the part of it that says so: "condition Synchronized of the instance".
	Source string `json:"source"`
	// Text says what is wrong. It can have words of the cluster.
	Text string `json:"text"`
	// Change is what to do; empty if the text says it.
	Change string `json:"change,omitempty"`
}

// MaxSymptoms bounds what is returned.
const MaxSymptoms = 32

// row is a row of the table: one look at the cluster.
type row func(in *Input) []Symptom

// rows are in the order in which a person would look.
func rows() []row {
	return []row{ending, running, stopped, failedMachine, dataVolumes, claims, pausedGuest, synchronized, unscheduled, containers, podEvents, failedInstance, instanceEvents}
}

// lookAt is rows. It is not changed.
var lookAt = rows()

// Symptoms returns what is wrong with a virtual machine, the answer first; none if nothing is.
func Symptoms(in *Input) []Symptom {
	var found []Symptom
	for _, look := range lookAt {
		for _, s := range look(in) {
			if !slices.ContainsFunc(found, func(known Symptom) bool { return known.Text == s.Text }) && len(found) < MaxSymptoms {
				found = append(found, s)
			}
		}
	}
	return found
}

// Places reports whether the nodes decide about the virtual machine: its pod waits for one, was rejected, or does not exist yet.
func Places(in *Input, found []Symptom) bool {
	if len(found) > 0 {
		return found[0].Kind == Unscheduled || found[0].Kind == Rejected || found[0].Kind == Stopped
	}
	return len(in.Pods) == 0
}

func ending(in *Input) []Symptom {
	if in.VM != nil && in.VM.DeletionTimestamp != nil {
		return []Symptom{{Ending, "metadata.deletionTimestamp of the virtual machine", "it is being deleted; its finalizers are " + listed(in.VM.Finalizers), ""}}
	}
	if in.VMI != nil && in.VMI.DeletionTimestamp != nil {
		return []Symptom{{Ending, "metadata.deletionTimestamp of the instance", "the instance is being stopped", "wait until it has ended, or use virtctl stop --force"}}
	}
	return nil
}

func listed(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

func running(in *Input) []Symptom {
	if in.VMI == nil || in.VMI.Status.Phase != v1.Running || condition(in.VMI, v1.VirtualMachineInstancePaused) != nil {
		return nil
	}
	return []Symptom{{Running, "status.phase of the instance", "it runs on the node " + in.VMI.Status.NodeName, ""}}
}

func stopped(in *Input) []Symptom {
	if in.VM == nil || in.VMI != nil {
		return nil
	}
	strategy := v1.RunStrategyUnknown
	field := "spec.runStrategy"
	switch {
	case in.VM.Spec.RunStrategy != nil:
		strategy = *in.VM.Spec.RunStrategy
	case in.VM.Spec.Running != nil && !*in.VM.Spec.Running:
		strategy, field = v1.RunStrategyHalted, "spec.running"
	}
	if strategy != v1.RunStrategyHalted && strategy != v1.RunStrategyManual {
		return nil
	}
	return []Symptom{{Stopped, field + " of the virtual machine", fmt.Sprintf("it is not started: its run strategy is %s", strategy), "virtctl start " + in.VM.Name + " -n " + in.VM.Namespace}}
}

// failedMachine is what KubeVirt reports at the virtual machine.
func failedMachine(in *Input) []Symptom {
	if in.VM == nil {
		return nil
	}
	var found []Symptom
	for i := range in.VM.Status.Conditions {
		if c := &in.VM.Status.Conditions[i]; c.Type == v1.VirtualMachineFailure && c.Status == corev1.ConditionTrue {
			found = append(found, Symptom{kindOf(c.Message), "condition Failure of the virtual machine", worded(c.Reason, c.Message), ""})
		}
	}
	return found
}

// kindOf recognizes pods that the API server rejected.
func kindOf(message string) Kind {
	for _, word := range []string{"exceeded quota", "failed quota", "forbidden:", "violates PodSecurity", "is forbidden"} {
		if strings.Contains(message, word) {
			return Rejected
		}
	}
	return Failed
}

func worded(reason, message string) string {
	if message == "" {
		return reason
	}
	if reason == "" {
		return message
	}
	return reason + ": " + message
}

// dataVolumes are those that have failed, or cannot go on.
func dataVolumes(in *Input) []Symptom {
	var found []Symptom
	for _, dv := range in.DataVolumes {
		about := "DataVolume " + dv.Name
		if dv.Status.Phase == cdiv1.Failed || dv.Status.Phase == cdiv1.Unknown {
			found = append(found, Symptom{Storage, "status.phase of " + about, about + " is " + string(dv.Status.Phase), "kubectl describe dv " + dv.Name + " -n " + dv.Namespace})
			continue
		}
		if dv.Status.Phase == cdiv1.Succeeded {
			continue
		}
		for i := range dv.Status.Conditions {
			c := &dv.Status.Conditions[i]
			if c.Status != corev1.ConditionTrue && c.Message != "" && (c.Reason == "Error" || c.Type == cdiv1.DataVolumeRunning && c.Reason != "" && c.Reason != "Completed") {
				found = append(found, Symptom{Storage, "condition " + string(c.Type) + " of " + about, about + ": " + worded(c.Reason, c.Message), ""})
			}
		}
	}
	return found
}

// claims are those without a volume.
func claims(in *Input) []Symptom {
	var found []Symptom
	for _, claim := range in.Claims {
		if claim.Status.Phase == corev1.ClaimBound || claim.Status.Phase == "" && claim.Spec.VolumeName != "" {
			continue
		}
		about := "claim " + claim.Name
		text := "the " + about + " is " + string(cmp.Or(claim.Status.Phase, corev1.ClaimPending))
		source := "status.phase of the " + about
		if e := newest(in, "PersistentVolumeClaim", claim.Name, nil); e != nil {
			if e.Reason == "WaitForFirstConsumer" {
				continue // the pod decides on the node first
			}
			text, source = text+": "+e.Message, "event "+e.Reason+" of the "+about
		}
		found = append(found, Symptom{Storage, source, text, "kubectl describe pvc " + claim.Name + " -n " + claim.Namespace})
	}
	return found
}

// newest is the newest event about an object, or the newest that is accepted.
func newest(in *Input, kind, name string, accept func(*corev1.Event) bool) *corev1.Event {
	for _, e := range in.Events {
		if e.InvolvedObject.Kind == kind && e.InvolvedObject.Name == name && (accept == nil || accept(e)) {
			return e
		}
	}
	return nil
}

func condition(vmi *v1.VirtualMachineInstance, kind v1.VirtualMachineInstanceConditionType) *v1.VirtualMachineInstanceCondition {
	for i := range vmi.Status.Conditions {
		if c := &vmi.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

func pausedGuest(in *Input) []Symptom {
	if in.VMI == nil {
		return nil
	}
	c := condition(in.VMI, v1.VirtualMachineInstancePaused)
	if c == nil {
		return nil
	}
	change := "virtctl unpause vmi " + in.VMI.Name + " -n " + in.VMI.Namespace
	if strings.Contains(c.Reason, "IOError") {
		change = "make the storage available again: KubeVirt then unpauses the guest"
	}
	return []Symptom{{Paused, "condition Paused of the instance", worded(c.Reason, c.Message), change}}
}

// synchronized is what virt-controller and virt-handler could not do.
func synchronized(in *Input) []Symptom {
	if in.VMI == nil {
		return nil
	}
	for i := range in.VMI.Status.Conditions {
		if c := &in.VMI.Status.Conditions[i]; c.Type == v1.VirtualMachineInstanceSynchronized && c.Status == corev1.ConditionFalse {
			return []Symptom{{kindOf(c.Message), "condition Synchronized of the instance", worded(c.Reason, c.Message), ""}}
		}
	}
	return nil
}

func unscheduled(in *Input) []Symptom {
	for _, p := range in.Pods {
		for i := range p.Status.Conditions {
			if c := &p.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && p.Spec.NodeName == "" {
				return []Symptom{{Unscheduled, "condition PodScheduled of the pod " + p.Name, worded(c.Reason, c.Message), ""}}
			}
		}
	}
	return nil
}

// containers are those that wait or have failed.
func containers(in *Input) []Symptom {
	var found []Symptom
	for _, p := range in.Pods {
		for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
			for i := range statuses {
				s := &statuses[i]
				source := "container " + s.Name + " of the pod " + p.Name
				switch {
				case s.State.Waiting != nil && s.State.Waiting.Reason != "" && s.State.Waiting.Reason != "ContainerCreating" && s.State.Waiting.Reason != "PodInitializing":
					found = append(found, Symptom{Container, source, worded(s.State.Waiting.Reason, s.State.Waiting.Message), imageChange(s)})
				case s.State.Terminated != nil && s.State.Terminated.ExitCode != 0:
					t := s.State.Terminated
					found = append(found, Symptom{Container, source, fmt.Sprintf("ended with code %d: %s", t.ExitCode, worded(t.Reason, t.Message)), "kubectl logs " + p.Name + " -c " + s.Name + " -n " + p.Namespace})
				}
			}
		}
	}
	return found
}

// imageChange is what to do about an image that cannot be pulled.
func imageChange(s *corev1.ContainerStatus) string {
	switch s.State.Waiting.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName":
		return "check that the image " + s.Image + " exists and that the node may pull it"
	}
	return ""
}

// podEvents are warnings about the newest pod.
func podEvents(in *Input) []Symptom {
	if len(in.Pods) == 0 {
		return nil
	}
	name := in.Pods[0].Name
	e := newest(in, "Pod", name, func(e *corev1.Event) bool { return e.Type == corev1.EventTypeWarning && e.Reason != "FailedScheduling" })
	if e == nil {
		return nil
	}
	kind := Container
	if strings.Contains(e.Reason, "Volume") || strings.Contains(e.Reason, "Mount") {
		kind = Storage
	}
	return []Symptom{{kind, "event " + e.Reason + " of the pod " + name, e.Message, ""}}
}

func failedInstance(in *Input) []Symptom {
	if in.VMI == nil || in.VMI.Status.Phase != v1.Failed {
		return nil
	}
	return []Symptom{{Failed, "status.phase of the instance", worded("the instance has failed", in.VMI.Status.Reason), "kubectl logs of the pod's container compute say why, if the pod still exists"}}
}

func instanceEvents(in *Input) []Symptom {
	var found []Symptom
	if in.VMI != nil && in.VMI.Status.Phase != v1.Running {
		if e := newest(in, v1.VirtualMachineInstanceGroupVersionKind.Kind, in.VMI.Name, func(e *corev1.Event) bool { return e.Type == corev1.EventTypeWarning }); e != nil {
			found = append(found, Symptom{kindOf(e.Message), "event " + e.Reason + " of the instance", e.Message, ""})
		}
	}
	if in.VM != nil && in.VMI == nil {
		if e := newest(in, v1.VirtualMachineGroupVersionKind.Kind, in.VM.Name, func(e *corev1.Event) bool { return e.Type == corev1.EventTypeWarning }); e != nil {
			found = append(found, Symptom{kindOf(e.Message), "event " + e.Reason + " of the virtual machine", e.Message, ""})
		}
	}
	return found
}
