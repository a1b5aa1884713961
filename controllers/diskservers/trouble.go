package diskservers

import (
	"cmp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/texts"
)

// Running is what CDI says about its importer, if it does not run.
func Running(dv *cdiv1beta1.DataVolume) (reason, message string) {
	for _, c := range dv.Status.Conditions {
		if c.Type == cdiv1beta1.DataVolumeRunning && c.Status != corev1.ConditionTrue && c.Message != "" {
			return c.Reason, "CDI: " + c.Message
		}
	}
	for _, c := range dv.Status.Conditions {
		if c.Type == cdiv1beta1.DataVolumeBound && c.Status != corev1.ConditionTrue && c.Message != "" {
			return "", c.Message
		}
	}
	return "", ""
}

// TroubleOf says why the server of the disks does not run; empty if it does, or before it starts.
func TroubleOf(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		for _, ended := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
			if ended != nil && ended.ExitCode != 0 && !s.Ready {
				return texts.Shorten(cmp.Or(ended.Message, ended.Reason, "it ended with the code "+strconv.Itoa(int(ended.ExitCode))), requests.MaxQuoted)
			}
		}
		if w := s.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" {
			return texts.Shorten(strings.TrimSuffix(w.Reason+": "+w.Message, ": "), requests.MaxQuoted)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message != "" {
			return texts.Shorten(c.Message, requests.MaxQuoted)
		}
	}
	return ""
}
