package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// What is installed for the controller by default, and what else by value.
func TestControllerObjects(t *testing.T) {
	common := []string{
		"NetworkPolicy virtward-controller",
		"ServiceAccount virtward-controller",
		"ClusterRole virtward-controller",
		"ClusterRoleBinding virtward-controller",
		"Role virtward-controller",
		"RoleBinding virtward-controller",
		"RoleBinding virtward-controller-params",
		"Service virtward-controller-metrics",
		"Deployment virtward-controller",
	}
	for _, c := range []struct {
		name   string
		values []string
		want   []string
	}{
		{"defaults", nil, common},
		{"off", []string{certManager, "controller.enabled=false"}, nil},
		{"two replicas", []string{"controller.replicas=2"}, append(slices.Clone(common), "PodDisruptionBudget virtward-controller")},
		{"no network policy", []string{"networkPolicy.enabled=false"}, common[1:]},
		{"service monitor", []string{"metrics.serviceMonitor.enabled=true"}, append(slices.Clone(common), "ServiceMonitor virtward-controller")},
		{"definitions of reports", []string{"audit.reports.installCRDs=true"}, append(slices.Clone(common),
			"CustomResourceDefinition reports.openreports.io", "CustomResourceDefinition clusterreports.openreports.io")},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, got := slices.Clone(c.want), identities(renderController(t, c.values...))
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

func TestControllerLabels(t *testing.T) {
	for _, object := range renderController(t, "audit.reports.installCRDs=true", "controller.replicas=2") {
		labels := object.GetLabels()
		for key, want := range map[string]string{
			"app.kubernetes.io/name": "virtward", "app.kubernetes.io/instance": release, "app.kubernetes.io/component": "controller",
			"app.kubernetes.io/part-of": "virtward", "app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "virtward-0.1.0",
		} {
			if labels[key] != want {
				t.Errorf("%s: label %s is %q, not %q", object.GetName(), key, labels[key], want)
			}
		}
	}
}

func TestControllerArguments(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []string
		want   []string
	}{
		{"defaults", nil, []string{
			"controller", "--health-address=:8081", "--metrics-address=:8080", "--namespace=$(POD_NAMESPACE)", "--params-namespace=" + namespace,
			"--policy-exception-max-days=90",
			"--mshv-cpu-model=auto", "--audit-interval=1h", "--audit-min-interval=30s", "--audit-max-results=200", "--audit-max-results-per-policy=20",
			"--cert-secret=virtward-webhook-cert", "--rotation-settle=2m", "--service-name=virtward-webhook",
			"--mutating-webhook-configuration=mutate.virtward.io", "--validating-webhook-configuration=validate.virtward.io",
			"--apiserver-cert-secret=virtward-apiserver-cert", "--apiserver-service-name=virtward-apiserver", "--reports=openreports.io/v1alpha1", "--policy-counts-service=virtward-webhook-policy-counts", "--log-level=info", "--log-format=json",
		}},
		{"everything", []string{
			certManager, `controller={"metricsPort":9090,"healthPort":9091}`, `webhook.exemptNamespaces=["infra","lab"]`, `policies={"paramsNamespaces":["params"],"export":{"enabled":false}}`,
			`facts={"rolloutStrategy":"Stage","mshvCPUModel":"none"}`, `audit={"interval":"2h","minInterval":"1m","reports":{"enabled":false,"maxResults":300,"maxResultsPerPolicy":30}}`,
			`log={"level":"debug","format":"text"}`,
		}, []string{
			"controller", "--health-address=:9091", "--metrics-address=:9090", "--namespace=$(POD_NAMESPACE)", "--exempt-namespace=infra", "--exempt-namespace=lab",
			"--params-namespace=params", "--policy-exception-max-days=90", "--rollout-strategy=Stage", "--mshv-cpu-model=none", "--audit-interval=2h", "--audit-min-interval=1m",
			"--audit-max-results=300", "--audit-max-results-per-policy=30", "--reports=", "--policy-counts-service=virtward-webhook-policy-counts", "--log-level=debug", "--log-format=text",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			container := only[*appsv1.Deployment](t, renderController(t, c.values...)).Spec.Template.Spec.Containers[0]
			if diff := cmp.Diff(c.want, container.Args); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}

// Services, budget, spread and network policy select the controller's pods and not the webhook's; nothing reaches
// them but Prometheus.
func TestControllerSelectors(t *testing.T) {
	objects := renderController(t, "controller.replicas=2", `pod.labels={"team":"platform","app.kubernetes.io/component":"webhook"}`)
	deployment := only[*appsv1.Deployment](t, objects)
	want := map[string]string{
		"app.kubernetes.io/name": "virtward", "app.kubernetes.io/instance": release, "app.kubernetes.io/component": "controller",
	}
	policy := only[*networkingv1.NetworkPolicy](t, objects)
	selectors := []map[string]string{
		deployment.Spec.Selector.MatchLabels, only[*policyv1.PodDisruptionBudget](t, objects).Spec.Selector.MatchLabels,
		policy.Spec.PodSelector.MatchLabels, only[*corev1.Service](t, objects).Spec.Selector,
	}
	for _, spread := range deployment.Spec.Template.Spec.TopologySpreadConstraints {
		selectors = append(selectors, spread.LabelSelector.MatchLabels)
	}
	for i, selector := range selectors {
		if diff := cmp.Diff(want, selector); diff != "" {
			t.Errorf("selector %d (-want +got):\n%s", i, diff)
		}
	}
	labels := maps.Clone(deployment.Spec.Template.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return want[key] == "" })
	if diff := cmp.Diff(want, labels); diff != "" {
		t.Errorf("labels of the pods (-want +got):\n%s", diff)
	}
	if len(policy.Spec.Ingress) != 1 || len(policy.Spec.Ingress[0].Ports) != 1 || policy.Spec.Ingress[0].Ports[0].Port.String() != "metrics" || len(policy.Spec.Ingress[0].From) != 1 {
		t.Errorf("it can be reached: %+v", policy.Spec.Ingress)
	}
}

// The pod is as confined as the webhook's.
func TestControllerSecurity(t *testing.T) {
	webhook, controller := only[*appsv1.Deployment](t, render(t)).Spec.Template.Spec, only[*appsv1.Deployment](t, renderController(t)).Spec.Template.Spec
	if diff := cmp.Diff(webhook.SecurityContext, controller.SecurityContext); diff != "" {
		t.Errorf("pod (-webhook +controller):\n%s", diff)
	}
	if diff := cmp.Diff(webhook.Containers[0].SecurityContext, controller.Containers[0].SecurityContext); diff != "" {
		t.Errorf("container (-webhook +controller):\n%s", diff)
	}
	if len(controller.Volumes) != 0 || controller.ServiceAccountName != "virtward-controller" {
		t.Errorf("volumes %v, service account %s", controller.Volumes, controller.ServiceAccountName)
	}
}

// The controller writes statuses of policies, events, its Lease, Reports of one name, the Secrets of the certificates,
// our two webhook configurations and our two APIServices, and nothing else; it reads no other Secret, and no ConfigMap but those of parameters.
func TestControllerRights(t *testing.T) {
	writes := func(rules []rbacv1.PolicyRule) []string {
		var list []string
		for _, rule := range rules {
			checkRule(t, rule)
			for _, resource := range rule.Resources {
				if resource == "secrets" && !cmp.Equal(rule.ResourceNames, []string{"virtward-webhook-cert", "virtward-apiserver-cert"}) || resource == "configmaps" {
					t.Errorf("it may %v %s", rule.Verbs, resource)
				}
				for _, verb := range rule.Verbs {
					if !slices.Contains([]string{"get", "list", "watch"}, verb) {
						list = append(list, strings.TrimSpace(verb+" "+resource+" "+strings.Join(rule.ResourceNames, ",")))
					}
				}
			}
		}
		slices.Sort(list)
		return list
	}
	objects := renderController(t)
	if diff := cmp.Diff([]string{
		"create events", "create reports", "delete reports virtward",
		"patch apiservices v1alpha1.subresources.template.kubevirt.io,v1beta1.subresources.template.kubevirt.io", "patch events",
		"patch mutatingwebhookconfigurations mutate.virtward.io", "patch validatingwebhookconfigurations validate.virtward.io",
		"patch virtualmachinepolicyexceptions/status", "update reports virtward", "update virtualmachinepolicies/status",
	}, writes(only[*rbacv1.ClusterRole](t, objects).Rules)); diff != "" {
		t.Errorf("in the cluster (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"create events", "create leases", "patch events", "update leases virtward-controller", "update secrets virtward-webhook-cert,virtward-apiserver-cert",
	}, writes(only[*rbacv1.Role](t, objects).Rules)); diff != "" {
		t.Errorf("in its namespace (-want +got):\n%s", diff)
	}
	without := only[*rbacv1.ClusterRole](t, renderController(t, "audit.reports.enabled=false"))
	if slices.ContainsFunc(without.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "reports") }) {
		t.Error("without reports, it may read or write them")
	}
}

// The definitions of OpenReports stay when the release goes: others may keep Reports.
func TestReportDefinitionsStay(t *testing.T) {
	for _, definition := range every[*apiextensionsv1.CustomResourceDefinition](renderController(t, "audit.reports.installCRDs=true")) {
		if definition.Annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s goes with the release", definition.Name)
		}
	}
}

func TestSchemaRejectsOfController(t *testing.T) {
	for values, want := range map[string]string{
		`controller.replicas=0`:               "at '/controller/replicas': minimum: got 0, want 1",
		`controller.enabled="yes"`:            "at '/controller/enabled': got string, want boolean",
		`audit.interval="hourly"`:             "at '/audit/interval': 'hourly' does not match pattern",
		`audit.reports.maxResults=501`:        "at '/audit/reports/maxResults': maximum: got 501, want 500",
		`audit.reports.installCRDs="yes"`:     "at '/audit/reports/installCRDs': got string, want boolean",
		`audit.reports.maxResultsPerPolicy=0`: "at '/audit/reports/maxResultsPerPolicy': minimum: got 0, want 1",
	} {
		output, err := helm(t, append([]string{"template", release, folder, "--namespace", namespace}, set([]string{values})...)...)
		if err == nil || !strings.Contains(output, want) {
			t.Errorf("%s: got %v and %s, want %s", values, err, output, want)
		}
	}
}

// The export is off by default. On, it is a process of its own, under an account of its own, as confined as the others.
func TestExport(t *testing.T) {
	if got := identities(renderExport(t)); len(got) != 0 {
		t.Errorf("installed by default: %v", got)
	}
	objects := renderExport(t, "policies.export.enabled=true")
	want := []string{
		"ServiceAccount virtward-export", "ClusterRole virtward-export", "ClusterRoleBinding virtward-export",
		"Role virtward-export", "RoleBinding virtward-export", "RoleBinding virtward-export-params",
		"Deployment virtward-export", "NetworkPolicy virtward-export", "Service virtward-export-metrics",
	}
	got := identities(objects)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	deployment := only[*appsv1.Deployment](t, objects)
	spec := deployment.Spec.Template.Spec
	if diff := cmp.Diff([]string{
		"export", "--health-address=:8081", "--metrics-address=:8080", "--namespace=$(POD_NAMESPACE)", "--params-namespace=" + namespace, "--log-level=info", "--log-format=json",
	}, spec.Containers[0].Args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	webhook := only[*appsv1.Deployment](t, render(t)).Spec.Template.Spec
	if diff := cmp.Diff(webhook.SecurityContext, spec.SecurityContext); diff != "" {
		t.Errorf("pod (-webhook +export):\n%s", diff)
	}
	if diff := cmp.Diff(webhook.Containers[0].SecurityContext, spec.Containers[0].SecurityContext); diff != "" {
		t.Errorf("container (-webhook +export):\n%s", diff)
	}
	if spec.ServiceAccountName != "virtward-export" || len(spec.Volumes) != 0 {
		t.Errorf("service account %s, volumes %v", spec.ServiceAccountName, spec.Volumes)
	}
	for _, object := range renderController(t, "policies.export.enabled=true") {
		if role, is := object.(*rbacv1.ClusterRole); is && slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.Resources, "validatingadmissionpolicies") && len(writes(r)) > 0
		}) {
			t.Error("the controller may write native policies")
		}
	}
}
