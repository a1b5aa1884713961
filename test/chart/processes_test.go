package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/images"
)

// Each process knows the memory limit of its container, and Prometheus can find its metrics.
func TestProcesses(t *testing.T) {
	objects := renderFor(t, nil, "policies.export.enabled=true", "metrics.serviceMonitor.enabled=true", "controller.replicas=2", "templates.controller.replicas=2", "rollouts.replicas=2", "images.enabled=true", "images.replicas=2", "virtualImages.enabled=true", "virtualImages.replicas=2")
	rendered := identities(objects)
	var names []string
	for _, object := range objects {
		deployment, is := object.(*appsv1.Deployment)
		if !is {
			continue
		}
		names = append(names, deployment.Name)
		container := deployment.Spec.Template.Spec.Containers[0]
		at := slices.IndexFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == "MEMORY_LIMIT" })
		if at < 0 || container.Env[at].ValueFrom.ResourceFieldRef.Resource != "limits.memory" || container.Env[at].ValueFrom.ResourceFieldRef.ContainerName != container.Name {
			t.Errorf("%s: environment %v", deployment.Name, container.Env)
		}
		if !slices.Contains(rendered, "ServiceMonitor "+deployment.Name) {
			t.Errorf("%s has no ServiceMonitor", deployment.Name)
		}
		if *deployment.Spec.Replicas > 1 != slices.Contains(rendered, "PodDisruptionBudget "+deployment.Name) {
			t.Errorf("%s with %d replicas: %v", deployment.Name, *deployment.Spec.Replicas, rendered)
		}
	}
	slices.Sort(names)
	if want := []string{"virtward-apiserver", "virtward-controller", "virtward-export", "virtward-images", "virtward-rollouts", "virtward-templates", "virtward-virtualimages", "virtward-webhook"}; !slices.Equal(names, want) {
		t.Errorf("processes %v, want %v", names, want)
	}
}

// TestTemplatesController lists what the controllers of templates need.
func TestTemplatesController(t *testing.T) {
	common := []string{
		"ClusterRole virtward-templates", "ClusterRoleBinding virtward-templates", "Deployment virtward-templates", "NetworkPolicy virtward-templates",
		"Role virtward-templates", "RoleBinding virtward-templates", "RoleBinding virtward-templates-params", "Service virtward-templates-metrics", "ServiceAccount virtward-templates",
	}
	for name, tc := range map[string]struct {
		values []string
		want   []string
	}{
		"defaults":     {nil, common},
		"observed":     {[]string{`templates.mode="observe"`}, nil},
		"two replicas": {[]string{"templates.controller.replicas=2"}, append(slices.Clone(common), "PodDisruptionBudget virtward-templates")},
		"monitored":    {[]string{"metrics.serviceMonitor.enabled=true"}, append(slices.Clone(common), "ServiceMonitor virtward-templates")},
	} {
		t.Run(name, func(t *testing.T) {
			got := identities(slices.DeleteFunc(renderFor(t, nil, tc.values...), func(object client.Object) bool {
				return object.GetLabels()["app.kubernetes.io/component"] != "templates"
			}))
			slices.Sort(got)
			want := slices.Sorted(slices.Values(tc.want))
			if !slices.Equal(got, want) {
				t.Errorf("got %v\nwant %v", got, want)
			}
		})
	}
}

// TestRolloutsProcess lists what the process of rollouts needs.
func TestRolloutsProcess(t *testing.T) {
	common := []string{
		"ClusterRole virtward-rollouts", "ClusterRoleBinding virtward-rollouts", "ConfigMap virtward-rollouts", "Deployment virtward-rollouts", "NetworkPolicy virtward-rollouts",
		"Role virtward-rollouts", "RoleBinding virtward-rollouts", "RoleBinding virtward-rollouts-params", "Service virtward-rollouts-metrics", "ServiceAccount virtward-rollouts",
	}
	for name, tc := range map[string]struct {
		values []string
		want   []string
	}{
		"defaults":     {nil, common},
		"off":          {[]string{"rollouts.enabled=false"}, nil},
		"two replicas": {[]string{"rollouts.replicas=2"}, append(slices.Clone(common), "PodDisruptionBudget virtward-rollouts")},
		"monitored":    {[]string{"metrics.serviceMonitor.enabled=true"}, append(slices.Clone(common), "ServiceMonitor virtward-rollouts")},
		"alerts":       {[]string{"metrics.prometheusRule.enabled=true"}, append(slices.Clone(common), "PrometheusRule virtward-rollouts")},
	} {
		t.Run(name, func(t *testing.T) {
			got := identities(slices.DeleteFunc(renderFor(t, nil, tc.values...), func(object client.Object) bool {
				return object.GetLabels()["app.kubernetes.io/component"] != "rollouts"
			}))
			slices.Sort(got)
			want := slices.Sorted(slices.Values(tc.want))
			if !slices.Equal(got, want) {
				t.Errorf("got %v\nwant %v", got, want)
			}
		})
	}
}

// TestCommonImages renders the list of common images as a file for the process.
func TestCommonImages(t *testing.T) {
	const image = `[{"metadata":{"name":"fedora-cron","annotations":{"ssp.kubevirt.io/dict.architectures":"amd64"}},"spec":{"schedule":"","managedDataSource":"fedora","template":{"spec":{"source":{"registry":{"url":"docker://r.example/fedora"}},"storage":{"resources":{"requests":{"storage":"1Gi"}}}}}}}]`
	checksums := map[string]bool{}
	for _, list := range []string{"[]", image, strings.ReplaceAll(image, "1Gi", "2Gi")} {
		var data, checksum string
		var arguments []string
		volumes, webhooks := 0, false
		for _, object := range renderFor(t, nil, "images.enabled=true", "images.commonImages="+list) {
			switch o := object.(type) {
			case *corev1.ConfigMap:
				if o.Name == "virtward-images-common" {
					data = o.Data["images.yaml"]
				}
			case *appsv1.Deployment:
				if o.Name == "virtward-webhook" {
					webhooks = slices.Contains(o.Spec.Template.Spec.Containers[0].Args, "--common-images=/var/run/virtward/common-images/images.yaml") && len(o.Spec.Template.Spec.Volumes) == 1 &&
						len(o.Spec.Template.Spec.Containers[0].VolumeMounts) == 1 && o.Spec.Template.Annotations["checksum/common-images"] != ""
				}
				if o.Name == "virtward-images" {
					arguments, volumes, checksum = o.Spec.Template.Spec.Containers[0].Args, len(o.Spec.Template.Spec.Volumes)+len(o.Spec.Template.Spec.Containers[0].VolumeMounts), o.Spec.Template.Annotations["checksum/common-images"]
				}
			}
		}
		given := slices.Contains(arguments, "--common-images=/etc/virtward/common-images/images.yaml")
		if wanted := list != "[]"; given != wanted || (volumes == 2) != wanted || (data != "") != wanted || webhooks != wanted || checksums[checksum] {
			t.Errorf("%s: arguments %v, %d volumes and mounts, checksum %s, file %q, the webhooks %v", list, arguments, volumes, checksum, data, webhooks)
		}
		checksums[checksum] = true
		if data == "" {
			continue
		}
		if parsed, err := images.ParseCommon([]byte(data)); err != nil || len(parsed) != 1 || parsed[0].Spec.ManagedDataSource != "fedora" {
			t.Errorf("%v %+v", err, parsed)
		}
	}
}

// TestAlert holds that the chart and the page of operations have the same alert, and that its metric exists.
func TestAlert(t *testing.T) {
	var rules []any
	for _, object := range renderFor(t, nil, "metrics.prometheusRule.enabled=true") {
		if rule, is := object.(*unstructured.Unstructured); is && rule.GetKind() == "PrometheusRule" && rule.GetName() == "virtward-rollouts" {
			groups, _, err := unstructured.NestedSlice(rule.Object, "spec", "groups")
			must(t, err)
			rules = groups[0].(map[string]any)["rules"].([]any)
		}
	}
	if len(rules) != 1 {
		t.Fatalf("rules %v", rules)
	}
	rule := rules[0].(map[string]any)
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	must(t, err)
	for _, text := range []string{"- alert: " + rule["alert"].(string), "expr: " + rule["expr"].(string), rule["annotations"].(map[string]any)["summary"].(string)} {
		if !strings.Contains(string(page), text) {
			t.Errorf("docs/operations.md lacks %q", text)
		}
	}
	source, err := os.ReadFile(filepath.Join(root, "controllers", "pending", "metrics.go"))
	must(t, err)
	if metric := regexp.MustCompile(`virtward_[a-z_]+`).FindString(rule["expr"].(string)); !strings.Contains(string(source), `"`+metric+`"`) {
		t.Errorf("no metric %s", metric)
	}
}

// TestRegistries renders the arguments for registries, and a Role for the objects that catalogs name.
func TestRegistries(t *testing.T) {
	roles := func(objects []client.Object) (found []*rbacv1.Role) {
		for _, role := range every[*rbacv1.Role](objects) {
			if strings.HasSuffix(role.Name, "-registries") {
				found = append(found, role)
			}
		}
		return found
	}
	if found := roles(renderFor(t, nil, "images.enabled=true")); len(found) > 0 {
		t.Errorf("without a value: %v", found)
	}
	objects := renderFor(t, nil, "images.enabled=true", `images.registries.hosts=["quay.io","*.example.com"]`, `images.registries.networks=["10.1.0.0/16"]`,
		`images.registries.credentials=[{"namespace":"os","secrets":["quay"],"configMaps":["ca"]},{"namespace":"none"}]`)
	found := roles(objects)
	if len(found) != 1 || found[0].Namespace != "os" {
		t.Fatalf("%d Roles", len(found))
	}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"quay"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"ca"}, Verbs: []string{"get"}},
	}
	if diff := cmp.Diff(want, found[0].Rules); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, deployment := range every[*appsv1.Deployment](objects) {
		arguments := strings.Join(deployment.Spec.Template.Spec.Containers[0].Args, " ")
		if deployment.Name == "virtward-images" && !strings.Contains(arguments, "--registry-hosts=quay.io,*.example.com --registry-networks=10.1.0.0/16 --manifest-interval=1h") {
			t.Error(arguments)
		}
	}
}

// TestAlerts holds that the metrics of the alerts of a process exist, and that the page of operations has the alerts.
func TestAlerts(t *testing.T) {
	for _, of := range []struct {
		value, rule, folders string
		alerts               int
	}{
		{"images.enabled=true", "virtward-images", "controllers/goldenimages", 6},
		{"virtualImages.enabled=true", "virtward-virtualimages", "controllers/virtualimages", 5},
		{"policies.exceptions.enabled=true", "virtward-policies", "controllers/exceptionstatus controllers/policystatus controllers/policycounts", 4},
		{"policies.exceptions.enabled=false", "virtward-policies", "controllers/policystatus controllers/policycounts", 2},
	} {
		t.Run(of.value, func(t *testing.T) { alertsOf(t, of.value, of.rule, of.folders, of.alerts) })
	}
}

func alertsOf(t *testing.T, value, name, folders string, alerts int) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	must(t, err)
	var source []byte
	for _, folder := range strings.Fields(folders) {
		part, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(folder), "metrics.go"))
		must(t, err)
		source = append(source, part...)
	}
	count := 0
	for _, object := range renderFor(t, nil, "metrics.prometheusRule.enabled=true", value) {
		rule, is := object.(*unstructured.Unstructured)
		if !is || rule.GetKind() != "PrometheusRule" || rule.GetName() != name {
			continue
		}
		groups, _, err := unstructured.NestedSlice(rule.Object, "spec", "groups")
		must(t, err)
		for _, r := range groups[0].(map[string]any)["rules"].([]any) {
			alert := r.(map[string]any)
			count++
			if !strings.Contains(string(page), "`"+alert["alert"].(string)+"`") {
				t.Errorf("docs/operations.md lacks %s", alert["alert"])
			}
			for _, metric := range regexp.MustCompile(`(virtward|kubevirt)_[a-z_]+`).FindAllString(alert["expr"].(string), -1) {
				if !strings.Contains(string(source), `"`+metric+`"`) {
					t.Errorf("%s: no metric %s", alert["alert"], metric)
				}
			}
		}
	}
	if count != alerts {
		t.Errorf("%d alerts", count)
	}
}

// TestCopies: what the copies of images add, for each provider of certificates.
func TestCopies(t *testing.T) {
	base := []string{"virtualImages.enabled=true"}
	before := identities(renderFor(t, nil, base...))
	for name, tc := range map[string]struct {
		values, want []string
		secret       string
	}{
		"self":           {nil, []string{"Secret virtward-copies-cert", "Service virtward-copies"}, "virtward-copies-cert"},
		"cert-manager":   {[]string{certManager}, []string{"Certificate virtward-copies", "Service virtward-copies"}, "virtward-copies-tls"},
		"without images": {[]string{"virtualImages.enabled=false"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			with := slices.Concat(base, []string{"virtualImages.copies.enabled=true"}, tc.values)
			var added []string
			secret := ""
			for _, object := range renderFor(t, nil, with...) {
				id := object.GetObjectKind().GroupVersionKind().Kind + " " + object.GetName()
				if strings.Contains(id, "virtward-copies") && !slices.Contains(before, id) {
					added = append(added, id)
				}
				if deployment, ok := object.(*appsv1.Deployment); ok && deployment.Name == "virtward-virtualimages" {
					for _, v := range deployment.Spec.Template.Spec.Volumes {
						if v.Name == "certificates" {
							secret = v.Secret.SecretName
							for _, item := range v.Secret.Items {
								if item.Key == "ca.key" {
									t.Error("the process has the key of the CA")
								}
							}
						}
					}
				}
			}
			slices.Sort(added)
			if !slices.Equal(added, tc.want) || secret != tc.secret {
				t.Errorf("got %v and %q, want %v and %q", added, secret, tc.want, tc.secret)
			}
		})
	}
	creates := func(values ...string) (found bool) {
		for _, object := range renderFor(t, nil, values...) {
			if role, ok := object.(*rbacv1.ClusterRole); ok && role.Name == "virtward-virtualimages" {
				for _, rule := range role.Rules {
					if slices.Contains(rule.Resources, "secrets") {
						found = true
						if !slices.Equal(rule.Verbs, []string{"create"}) {
							t.Errorf("verbs %v", rule.Verbs)
						}
					}
				}
			}
		}
		return found
	}
	if creates(base...) || !creates("virtualImages.enabled=true", "virtualImages.copies.enabled=true") {
		t.Error("Secrets are created without copies, or not with them")
	}
}
