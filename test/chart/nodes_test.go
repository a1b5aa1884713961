package chart

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/processes"
)

// daemon returns the DaemonSet of a process.
func daemon(t *testing.T, objects []client.Object, name string) *appsv1.DaemonSet {
	t.Helper()
	for _, set := range every[*appsv1.DaemonSet](objects) {
		if set.Name == name {
			return set
		}
	}
	t.Fatalf("there is no DaemonSet %s", name)
	return nil
}

// TestNodeLabeller holds that the chart installs it on demand, what it may do, and what its pods have of the node.
func TestNodeLabeller(t *testing.T) {
	t.Parallel()
	if sets := every[*appsv1.DaemonSet](renderFor(t, nil)); len(sets) > 0 {
		t.Errorf("the defaults have %d DaemonSets", len(sets))
	}
	objects := renderFor(t, nil, "nodes.labeller.enabled=true", `nodes.labeller.hypervisor={"name":"mshv","virtType":"hyperv"}`, "metrics.serviceMonitor.enabled=true")
	for _, role := range every[*rbacv1.ClusterRole](objects) {
		want := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "patch"}}}
		if diff := cmp.Diff(want, role.Rules); role.Name == processes.NodeLabeller && diff != "" {
			t.Errorf("rules (-want +got):\n%s", diff)
		}
	}
	pod := daemon(t, objects, processes.NodeLabeller).Spec.Template.Spec
	volumes := []corev1.Volume{{Name: "documents", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
		Path: "/var/lib/kubevirt-node-labeller", Type: ptr.To(corev1.HostPathDirectoryOrCreate),
	}}}}
	if diff := cmp.Diff(volumes, pod.Volumes); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	container := pod.Containers[0]
	if len(container.VolumeMounts) != 1 || !container.VolumeMounts[0].ReadOnly {
		t.Errorf("mounts %v", container.VolumeMounts)
	}
	for _, want := range []string{"--node-name=$(NODE_NAME)", "--documents=/var/run/virtward/documents", "--metrics-address=:8080", "--hypervisor=mshv", "--virt-type=hyperv"} {
		if !slices.Contains(container.Args, want) {
			t.Errorf("%v has no %s", container.Args, want)
		}
	}
	if !strings.HasPrefix(container.Image, "virtward/virtward-node-labeller:") {
		t.Errorf("image %s", container.Image)
	}
	if !slices.Contains(identities(objects), "ServiceMonitor virtward-node-labeller") {
		t.Error("there is no ServiceMonitor")
	}
	// Its account may not verify tokens, so it serves no metrics that need one.
	objects = renderFor(t, nil, "nodes.labeller.enabled=true", "metrics.serviceMonitor.enabled=true", "metrics.secure.enabled=true")
	if args := daemon(t, objects, processes.NodeLabeller).Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--metrics-address=0") || slices.Contains(identities(objects), "ServiceMonitor virtward-node-labeller") {
		t.Errorf("arguments %v", args)
	}
	for _, binding := range every[*rbacv1.ClusterRoleBinding](objects) {
		if binding.Name == "virtward-metrics-reviewer" && slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return s.Name == processes.NodeLabeller }) {
			t.Error("the node labeller may verify tokens")
		}
	}
}

// TestNodeLabellerIsRestricted holds that pods without a volume of the node meet the Pod Security Standard restricted.
func TestNodeLabellerIsRestricted(t *testing.T) {
	cluster := pool.Take(t)
	admin, err := client.New(cluster.Config(), client.Options{})
	must(t, err)
	must(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: processes.NodeLabeller, Namespace: namespace}}
	must(t, admin.Create(t.Context(), account))
	for documents, want := range map[string]string{`""`: "", `"/var/lib/kubevirt-node-labeller"`: "hostPath"} {
		set := daemon(t, renderFor(t, nil, "nodes.labeller.enabled=true", "nodes.labeller.documents="+documents), processes.NodeLabeller)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "by-hand", Labels: set.Spec.Template.Labels}, Spec: set.Spec.Template.Spec}
		err := admin.Create(t.Context(), pod, client.DryRunAll)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("documents %s: error %v, want %q", documents, err, want)
		}
	}
}

// TestNodeTuner holds the rights of its pods: one capability, two folders of the node, and no token.
func TestNodeTuner(t *testing.T) {
	t.Parallel()
	objects := renderFor(t, nil, "nodes.tuner.enabled=true")
	for _, binding := range every[*rbacv1.ClusterRoleBinding](objects) {
		if slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return s.Name == processes.NodeTuner }) {
			t.Errorf("%s has permissions", processes.NodeTuner)
		}
	}
	pod := daemon(t, objects, processes.NodeTuner).Spec.Template.Spec
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken || !pod.HostPID || pod.HostNetwork || pod.HostIPC {
		t.Errorf("token %v, namespaces of the node %v %v %v", pod.AutomountServiceAccountToken, pod.HostPID, pod.HostNetwork, pod.HostIPC)
	}
	security := pod.Containers[0].SecurityContext
	capabilities := &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"SYS_RESOURCE"}}
	if diff := cmp.Diff(capabilities, security.Capabilities); diff != "" || security.Privileged != nil || *security.AllowPrivilegeEscalation || !*security.ReadOnlyRootFilesystem {
		t.Errorf("security %+v, capabilities (-want +got):\n%s", security, diff)
	}
	var folders []string
	for _, volume := range pod.Volumes {
		folders = append(folders, volume.HostPath.Path)
	}
	if diff := cmp.Diff([]string{"/var/run/kubevirt-plugin/virtward-node-tuner", "/sys/fs/cgroup"}, folders); diff != "" {
		t.Errorf("folders (-want +got):\n%s", diff)
	}
	for _, name := range []string{"kvm", "hyperv-direct"} {
		output, err := helm(t, append([]string{"template", release, folder, "--namespace", namespace}, set([]string{"nodes.tuner.enabled=true", `nodes.tuner.hypervisor="` + name + `"`})...)...)
		if err == nil || !strings.Contains(output, "KubeVirt's virt-handler tunes the processes of "+name+" itself") {
			t.Errorf("%s: %v %s", name, err, output)
		}
	}
}

// TestCapacityChecks holds that the webhook gets a right only for a check that is on.
func TestCapacityChecks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value, flag, resource string
		verbs                 []string
	}{
		{"checks.nodes=true", "--check-nodes", "nodes", []string{"list", "watch"}},
		{"checks.quotas=true", "--check-quotas", "resourcequotas", []string{"list"}},
	} {
		for _, on := range []bool{false, true} {
			var values []string
			if on {
				values = []string{c.value}
			}
			objects := renderFor(t, nil, values...)
			var verbs []string
			for _, role := range every[*rbacv1.ClusterRole](objects) {
				for _, rule := range role.Rules {
					if role.Name == processes.Webhook && slices.Contains(rule.Resources, c.resource) {
						verbs = append(verbs, rule.Verbs...)
					}
				}
			}
			flagged := false
			for _, deployment := range every[*appsv1.Deployment](objects) {
				flagged = flagged || slices.Contains(deployment.Spec.Template.Spec.Containers[0].Args, c.flag)
			}
			if want := map[bool][]string{true: c.verbs}[on]; !slices.Equal(verbs, want) || flagged != on {
				t.Errorf("%s is %t: verbs %v, flag %t", c.value, on, verbs, flagged)
			}
		}
	}
}
