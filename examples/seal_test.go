package examples_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// The Job that seals a volume has no permission, no token and no network, and fulfills the Pod Security Standard restricted.
func TestSealing(t *testing.T) {
	content, err := os.ReadFile("templates/seal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	documents := bytes.Split(content, []byte("\n---\n"))
	account, network, job := &corev1.ServiceAccount{}, &networkingv1.NetworkPolicy{}, &batchv1.Job{}
	for i, into := range []any{account, network, job} {
		if err := yaml.UnmarshalStrict(documents[i], into); err != nil {
			t.Fatal(err)
		}
	}
	pod := &job.Spec.Template.Spec
	c := &pod.Containers[0]
	for what, holds := range map[string]bool{
		"three documents":                    len(documents) == 3,
		"the account has no token":           account.AutomountServiceAccountToken != nil && !*account.AutomountServiceAccountToken && pod.AutomountServiceAccountToken != nil && !*pod.AutomountServiceAccountToken,
		"the account is that of the Job":     pod.ServiceAccountName == account.Name,
		"the policy selects the pod":         len(network.Spec.PodSelector.MatchLabels) == 1 && network.Spec.PodSelector.MatchLabels["app.kubernetes.io/name"] == job.Spec.Template.Labels["app.kubernetes.io/name"],
		"the policy allows nothing":          len(network.Spec.PolicyTypes) == 2 && len(network.Spec.Ingress)+len(network.Spec.Egress) == 0,
		"the user is not root":               *pod.SecurityContext.RunAsNonRoot && *pod.SecurityContext.RunAsUser > 0,
		"the profile of seccomp":             pod.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"no privilege":                       !*c.SecurityContext.AllowPrivilegeEscalation && len(c.SecurityContext.Capabilities.Add) == 0 && c.SecurityContext.Capabilities.Drop[0] == "ALL",
		"no part of the host":                !pod.HostNetwork && !pod.HostPID && !pod.HostIPC,
		"only the claim and a temporary one": len(pod.Volumes) == 2 && pod.Volumes[0].PersistentVolumeClaim.ClaimName == "CLAIM" && pod.Volumes[1].EmptyDir.SizeLimit != nil,
		"it does not try again":              *job.Spec.BackoffLimit == 0 && pod.RestartPolicy == corev1.RestartPolicyNever,
		"the disk is mounted":                c.VolumeMounts[0].Name == "disk" && strings.HasPrefix(c.Command[len(c.Command)-1], c.VolumeMounts[0].MountPath+"/"),
	} {
		if !holds {
			t.Errorf("not fulfilled: %s", what)
		}
	}
}
