package diskservers

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Listens reports whether the kubelet can connect to a pod. Who connects to others could wait for a timeout.
func Listens(pod *corev1.Pod) bool {
	return pod.Status.PodIP != "" && slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Ready })
}
