package chart

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestAPIServerObjects lists what serves the API of templates.
func TestAPIServerObjects(t *testing.T) {
	common := []string{
		"APIService v1alpha1.subresources.template.kubevirt.io",
		"APIService v1beta1.subresources.template.kubevirt.io",
		"ClusterRole virtward-apiserver",
		"ClusterRoleBinding virtward-apiserver",
		"ClusterRoleBinding virtward-apiserver-delegator",
		"Deployment virtward-apiserver",
		"NetworkPolicy virtward-apiserver",
		"PodDisruptionBudget virtward-apiserver",
		"Role virtward-apiserver",
		"RoleBinding virtward-apiserver", // of the keys of approvals, and that in kube-system
		"RoleBinding virtward-apiserver",
		"Secret virtward-apiserver-cert",
		"Secret virtward-approval-keys",
		"Service virtward-apiserver",
		"ServiceAccount virtward-apiserver",
	}
	for _, c := range []struct {
		name       string
		values     []string
		less, more []string
	}{
		{name: "defaults"},
		{name: "managed", values: []string{`templates.mode="manage"`}},
		{name: "observed", values: []string{`templates.mode="observe"`}, less: common},
		{name: "cert-manager", values: []string{certManager}, less: []string{"Secret virtward-apiserver-cert"}, more: []string{"Certificate virtward-apiserver"}},
		{name: "one replica", values: []string{"templates.server.replicas=1"}, less: []string{"PodDisruptionBudget virtward-apiserver"}},
		{name: "no network policy", values: []string{"networkPolicy.enabled=false"}, less: []string{"NetworkPolicy virtward-apiserver"}},
		{name: "service monitor", values: []string{"metrics.serviceMonitor.enabled=true"}, more: []string{"ServiceMonitor virtward-apiserver"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := slices.DeleteFunc(slices.Clone(common), func(s string) bool { return slices.Contains(c.less, s) })
			want = append(want, c.more...)
			objects := renderAPIServer(t, c.values...)
			got := identities(objects)
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			for _, object := range objects {
				if object.GetNamespace() != "kube-system" {
					checkObject(t, object)
				}
			}
		})
	}
}

func TestAPIServerArguments(t *testing.T) {
	common := []string{
		"--tls-cert-file=/var/run/virtward/certificates/tls.crt", "--tls-private-key-file=/var/run/virtward/certificates/tls.key", "--shutdown-delay-duration=10s",
	}
	for _, c := range []struct {
		name   string
		values []string
		want   []string
		image  string
	}{
		{"defaults", nil, slices.Concat([]string{"--namespace=$(POD_NAMESPACE)", "--secure-port=6443"}, common, []string{"--log-level=info", "--log-format=json"}), "virtward/virtward-apiserver:0.1.0"},
		{
			"everything",
			[]string{`templates={"requireApproval":true,"server":{"port":7443,"auditPolicyConfigMap":"audit","image":{"tag":"v2"}}}`, `log={"level":"debug","format":"text"}`},
			slices.Concat([]string{"--namespace=$(POD_NAMESPACE)", "--secure-port=7443"}, common, []string{
				"--require-approval", "--audit-policy-file=/var/run/virtward/audit/policy.yaml", "--audit-log-path=-", "--log-level=debug", "--log-format=text",
			}), "virtward/virtward-apiserver:v2",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			container := only[*appsv1.Deployment](t, renderAPIServer(t, c.values...)).Spec.Template.Spec.Containers[0]
			if diff := cmp.Diff(c.want, container.Args); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			if container.Image != c.image {
				t.Errorf("image %s, want %s", container.Image, c.image)
			}
		})
	}
}

// All objects select the pods of the Deployment, and no other. A rolling update always has a replica that serves.
func TestAPIServerPods(t *testing.T) {
	objects := renderAPIServer(t)
	deployment := only[*appsv1.Deployment](t, objects)
	want := map[string]string{
		"app.kubernetes.io/name": "virtward", "app.kubernetes.io/instance": release, "app.kubernetes.io/component": "apiserver",
	}
	for name, selector := range map[string]map[string]string{
		"Deployment":          deployment.Spec.Selector.MatchLabels,
		"Service":             only[*corev1.Service](t, objects).Spec.Selector,
		"NetworkPolicy":       only[*networkingv1.NetworkPolicy](t, objects).Spec.PodSelector.MatchLabels,
		"PodDisruptionBudget": only[*policyv1.PodDisruptionBudget](t, objects).Spec.Selector.MatchLabels,
	} {
		if diff := cmp.Diff(want, selector); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if *deployment.Spec.Replicas != 2 || deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 0 {
		t.Errorf("replicas %d, strategy %v", *deployment.Spec.Replicas, deployment.Spec.Strategy.RollingUpdate)
	}
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	if probes := []string{container.LivenessProbe.HTTPGet.Path, container.ReadinessProbe.HTTPGet.Path}; !cmp.Equal(probes, []string{"/livez", "/readyz"}) {
		t.Errorf("probes %v", probes)
	}
	security := &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	if diff := cmp.Diff(security, container.SecurityContext); diff != "" || !*pod.SecurityContext.RunAsNonRoot {
		t.Errorf("container (-want +got):\n%s", diff)
	}
	for _, values := range []string{`certificates.provider="self"`, certManager} {
		for _, volume := range only[*appsv1.Deployment](t, renderAPIServer(t, values)).Spec.Template.Spec.Volumes {
			var keys []string
			for _, item := range volume.Secret.Items {
				keys = append(keys, item.Key)
			}
			if !cmp.Equal(keys, []string{"tls.crt", "tls.key"}) {
				t.Errorf("%s: the pod has the keys %v of the Secret", values, keys)
			}
		}
	}
}

// The server writes VirtualMachines, approvals and events, and nothing else. Of Secrets and ConfigMaps, it reads and writes only the
// Secret with the keys of approvals, which the chart creates without data and keeps after an uninstall.
func TestAPIServerRights(t *testing.T) {
	var list []string
	for _, rule := range only[*rbacv1.ClusterRole](t, renderAPIServer(t)).Rules {
		checkRule(t, rule)
		for _, resource := range rule.Resources {
			if resource == "secrets" || resource == "configmaps" {
				t.Errorf("it may %v %s", rule.Verbs, resource)
			}
			for _, verb := range rule.Verbs {
				if !slices.Contains([]string{"get", "list", "watch"}, verb) {
					list = append(list, verb+" "+resource)
				}
			}
		}
	}
	slices.Sort(list)
	if diff := cmp.Diff([]string{"create events", "create virtualmachines", "patch events", "patch virtualmachinetemplates/status"}, list); diff != "" {
		t.Errorf("it may write (-want +got):\n%s", diff)
	}
	want := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"virtward-approval-keys"}, Verbs: []string{"get", "update"}}}
	if diff := cmp.Diff(want, only[*rbacv1.Role](t, renderAPIServer(t)).Rules); diff != "" {
		t.Errorf("in its namespace (-want +got):\n%s", diff)
	}
	for _, object := range renderAPIServer(t) {
		if secret, isSecret := object.(*corev1.Secret); isSecret && secret.Name == "virtward-approval-keys" {
			if len(secret.Data)+len(secret.StringData) > 0 || secret.Annotations["helm.sh/resource-policy"] != "keep" {
				t.Errorf("the Secret has %d entries and the annotations %v", len(secret.Data), secret.Annotations)
			}
		}
	}
	params := only[*rbacv1.ClusterRole](t, renderAPIServer(t, `templates.server.paramResources=[{"apiGroup":"example.org","resource":"limits"}]`))
	if !slices.ContainsFunc(params.Rules, func(r rbacv1.PolicyRule) bool {
		return cmp.Equal(r.APIGroups, []string{"example.org"}) && cmp.Equal(r.Resources, []string{"limits"}) && cmp.Equal(r.Verbs, []string{"get", "list", "watch"})
	}) {
		t.Error("it may not read the parameters of policies")
	}
	output, err := helm(t, append([]string{"template", release, folder}, set([]string{`templates.server.paramResources=[{"apiGroup":"","resource":"secrets"}]`})...)...)
	if err == nil || !strings.Contains(output, "/templates/server/paramResources/0/resource") {
		t.Errorf("it may read all Secrets: %s", output)
	}
}

// TestAPIServiceBundle holds that the chart leaves the CA bundle to the provider of the certificates.
func TestAPIServiceBundle(t *testing.T) {
	for values, want := range map[string]string{`certificates.provider="self"`: "", certManager: namespace + "/virtward-apiserver"} {
		var services []client.Object
		for _, object := range renderAPIServer(t, values) {
			if object.GetObjectKind().GroupVersionKind().Kind == "APIService" {
				services = append(services, object)
			}
		}
		if len(services) != 2 {
			t.Fatalf("%s: %d APIServices", values, len(services))
		}
		for _, service := range services {
			spec, ok := toUnstructured(t, service)["spec"].(map[string]any)
			if !ok {
				t.Fatalf("%s has no spec", service.GetName())
			}
			if _, found := spec["caBundle"]; found {
				t.Errorf("%s: %s has a caBundle", values, service.GetName())
			}
			if _, found := spec["insecureSkipTLSVerify"]; found {
				t.Errorf("%s: %s is not verified", values, service.GetName())
			}
			if got := service.GetAnnotations()["cert-manager.io/inject-ca-from"]; got != want {
				t.Errorf("%s: the bundle is of %q, want %q", values, got, want)
			}
		}
	}
}
