package chart

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/ovf/servers"
)

// sections are the values of the processes with Deployments.
func sections() map[string]string {
	return map[string]string{
		"virtward-webhook": "webhook", "virtward-controller": "controller", "virtward-export": "policies.export", "virtward-templates": "templates.controller",
		"virtward-apiserver": "templates.server", "virtward-rollouts": "rollouts", "virtward-images": "goldenImages", "virtward-virtualimages": "virtualImages",
		"virtward-templateimports": "templates.imports", "virtward-templateexports": "templates.exports",
	}
}

// podsOf are the templates of the pods of all Deployments and Jobs, by their names.
func podsOf(objects []client.Object) map[string]corev1.PodTemplateSpec {
	pods := map[string]corev1.PodTemplateSpec{}
	for _, deployment := range every[*appsv1.Deployment](objects) {
		pods[deployment.Name] = deployment.Spec.Template
	}
	for _, job := range every[*batchv1.Job](objects) {
		pods[job.Name] = job.Spec.Template
	}
	return pods
}

// TestPodsOverride sets each field of pod, and another value of it for one process, and holds what each pod has.
func TestPodsOverride(t *testing.T) {
	t.Parallel()
	selects := func(component string) map[string]string {
		return map[string]string{"app.kubernetes.io/name": "virtward", "app.kubernetes.io/instance": "virtward", "app.kubernetes.io/component": component}
	}
	fields := []struct {
		field string
		// common and own are the values, as JSON.
		common, own string
		// of returns what a pod has of them.
		of func(name string, pod *corev1.PodTemplateSpec) any
		// everywhere and there are what the pods have of the common value, and with the own one, and jobs those of Jobs if they differ.
		everywhere, there any
		jobs              any
	}{
		{
			field: "annotations", common: `{"a":"1","b":"1"}`, own: `{"b":"2"}`,
			of:         func(_ string, p *corev1.PodTemplateSpec) any { return p.Annotations["a"] + p.Annotations["b"] },
			everywhere: "11", there: "12",
		},
		{
			field: "labels", common: `{"a":"1","app.kubernetes.io/name":"other"}`, own: `{"b":"2"}`,
			of: func(_ string, p *corev1.PodTemplateSpec) any {
				return p.Labels["a"] + p.Labels["b"] + p.Labels["app.kubernetes.io/name"]
			},
			everywhere: "1virtward", there: "12virtward",
		},
		{
			field: "nodeSelector", common: `{"a":"1"}`, own: `{"b":"2"}`,
			of:         func(_ string, p *corev1.PodTemplateSpec) any { return p.Spec.NodeSelector },
			everywhere: map[string]string{"a": "1"}, there: map[string]string{"b": "2"},
		},
		{
			field: "tolerations", common: `[{"key":"x","operator":"Exists"}]`, own: `[]`,
			of:         func(_ string, p *corev1.PodTemplateSpec) any { return len(p.Spec.Tolerations) },
			everywhere: 1, there: 0,
		},
		{
			field: "affinity", common: `{"nodeAffinity":{}}`, own: `{"podAffinity":{}}`,
			of: func(_ string, p *corev1.PodTemplateSpec) any {
				return p.Spec.Affinity.NodeAffinity != nil && p.Spec.Affinity.PodAffinity == nil
			},
			everywhere: true, there: false,
		},
		{
			field: "priorityClassName", common: `"standard"`, own: `"system-cluster-critical"`,
			of:         func(_ string, p *corev1.PodTemplateSpec) any { return p.Spec.PriorityClassName },
			everywhere: "standard", there: "system-cluster-critical",
		},
		{
			field: "topologySpreadConstraints", common: `[{"topologyKey":"rack","maxSkew":1,"whenUnsatisfiable":"DoNotSchedule"}]`,
			own: `[{"topologyKey":"room","maxSkew":2,"whenUnsatisfiable":"DoNotSchedule","labelSelector":{"matchLabels":{"a":"b"}}}]`,
			of: func(name string, p *corev1.PodTemplateSpec) any {
				if len(p.Spec.TopologySpreadConstraints) == 0 {
					return "none"
				}
				one := p.Spec.TopologySpreadConstraints[0]
				own := cmp.Equal(one.LabelSelector.MatchLabels, selects(strings.TrimPrefix(name, "virtward-")))
				return fmt.Sprint(len(p.Spec.TopologySpreadConstraints), one.TopologyKey, one.MaxSkew, own)
			},
			everywhere: "1rack1 true", there: "1room2 false", jobs: "none",
		},
		{
			field: "hostNetwork", common: "false", own: "true",
			of: func(_ string, p *corev1.PodTemplateSpec) any {
				return fmt.Sprint(p.Spec.HostNetwork, p.Spec.DNSPolicy)
			},
			everywhere: "false", there: "trueClusterFirstWithHostNet",
		},
		{
			field: "dnsPolicy", common: `"Default"`, own: `"None"`,
			of:         func(_ string, p *corev1.PodTemplateSpec) any { return p.Spec.DNSPolicy },
			everywhere: corev1.DNSDefault, there: corev1.DNSNone,
		},
		{
			field: "dnsConfig", common: `{"nameservers":["192.0.2.1"]}`, own: `{"nameservers":["192.0.2.2"]}`,
			of:         func(_ string, p *corev1.PodTemplateSpec) any { return p.Spec.DNSConfig.Nameservers },
			everywhere: []string{"192.0.2.1"}, there: []string{"192.0.2.2"},
		},
		{
			field: "runAsUser", common: "1000", own: "2000",
			of:         func(_ string, p *corev1.PodTemplateSpec) any { return *p.Spec.SecurityContext.RunAsUser },
			everywhere: int64(1000), there: int64(2000),
		},
		{
			field: "extraArgs", common: `["--a=1"]`, own: `["--b"]`,
			of: func(_ string, p *corev1.PodTemplateSpec) any {
				return slices.DeleteFunc(slices.Clone(p.Spec.Containers[0].Args), func(arg string) bool { return arg != "--a=1" && arg != "--b" })
			},
			everywhere: []string{"--a=1"}, there: []string{"--a=1", "--b"}, jobs: []string{},
		},
		{
			field: "extraEnv", common: `[{"name":"A","value":"1"},{"name":"B","value":"1"}]`, own: `[{"name":"B","value":"2"}]`,
			of: func(_ string, p *corev1.PodTemplateSpec) any {
				found := map[string]string{}
				for _, variable := range p.Spec.Containers[0].Env {
					if _, twice := found[variable.Name]; twice {
						return variable.Name + " is there twice"
					}
					found[variable.Name] = variable.Value
				}
				return found["A"] + found["B"]
			},
			everywhere: "11", there: "12",
		},
		{
			field:  "extraVolumes",
			common: `[{"name":"one","mountPath":"/one","configMap":{"name":"one"}}]`, own: `[{"name":"two","mountPath":"/two","secret":{"secretName":"two"}}]`,
			of: func(_ string, p *corev1.PodTemplateSpec) any {
				var found []string
				for _, mount := range p.Spec.Containers[0].VolumeMounts {
					for _, volume := range p.Spec.Volumes {
						if volume.Name == mount.Name && mount.ReadOnly && (mount.Name == "one" || mount.Name == "two") {
							found = append(found, mount.MountPath)
						}
					}
				}
				return found
			},
			everywhere: []string{"/one"}, there: []string{"/one", "/two"},
		},
	}
	// Two renderings: the policy of DNS depends on the network, too.
	var values [2][]string
	rendering := func(field string) int {
		if field == "dnsPolicy" {
			return 1
		}
		return 0
	}
	for _, c := range fields {
		into := &values[rendering(c.field)]
		*into = append(*into, "pod."+c.field+"="+c.common)
		for _, section := range sections() {
			if section != "rollouts" {
				*into = append(*into, section+".pod."+c.field+"="+c.own)
			}
		}
	}
	pods := [2]map[string]corev1.PodTemplateSpec{podsOf(everyProcess(t, values[0]...)), podsOf(everyProcess(t, values[1]...))}
	if len(pods[0]) != len(sections())+2 {
		t.Errorf("%d pods", len(pods[0]))
	}
	for _, c := range fields {
		for name, pod := range pods[rendering(c.field)] {
			want := c.there
			if _, deployed := sections()[name]; !deployed && c.jobs != nil {
				want = c.jobs
			} else if !deployed || name == "virtward-rollouts" {
				want = c.everywhere
			}
			if diff := cmp.Diff(want, c.of(name, &pod)); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", c.field, name, diff)
			}
		}
	}
}

// TestAccountAnnotations holds the annotations of the service accounts.
func TestAccountAnnotations(t *testing.T) {
	t.Parallel()
	for _, account := range every[*corev1.ServiceAccount](everyProcess(t, `pod.serviceAccountAnnotations={"role":"one"}`, `goldenImages.pod.serviceAccountAnnotations={"role":"two"}`)) {
		want := "one"
		switch account.Name {
		case "virtward-images":
			want = "two"
		case "virtward-uninstall": // a hook, whose account is deleted with it
			want = ""
		}
		if got := account.Annotations["role"]; got != want {
			t.Errorf("%s: the annotation is %q, not %q", account.Name, got, want)
		}
	}
}

// TestDisruptionBudgets: each process with two replicas has a budget, which a value of the process replaces.
func TestDisruptionBudgets(t *testing.T) {
	t.Parallel()
	two := []string{
		"policies.export.replicas=2", "controller.replicas=2", "templates.controller.replicas=2", "templates.imports.replicas=2", "templates.exports.replicas=2", "rollouts.replicas=2", "goldenImages.replicas=2", "virtualImages.replicas=2",
		`webhook.pod.disruptionBudget={"minAvailable":"50%"}`, `rollouts.pod.disruptionBudget.enabled=false`, `goldenImages.pod.disruptionBudget={"maxUnavailable":0}`,
	}
	got := map[string]string{}
	for _, budget := range every[*policyv1.PodDisruptionBudget](everyProcess(t, two...)) {
		got[budget.Name] = fmt.Sprint(budget.Spec.MaxUnavailable, budget.Spec.MinAvailable)
	}
	want := map[string]string{}
	for name := range sections() {
		want[name] = "1 <nil>"
	}
	want["virtward-webhook"], want["virtward-images"] = "<nil> 50%", "0 <nil>"
	delete(want, "virtward-rollouts")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("budgets (-want +got):\n%s", diff)
	}
}

// TestRegistry holds the repositories of images with a registry of one's own.
func TestRegistry(t *testing.T) {
	t.Parallel()
	for _, repositories := range [][4]string{
		{"virtward/virtward", "virtward/virtward", "quay.io/virtward/server", "virtward/server"},
		{"localhost:5000/virtward", "virtward", "server", "server"},
	} {
		for name, pod := range podsOf(renderFor(t, nil, `global.imageRegistry="mirror.example.com/r"`,
			fmt.Sprintf("image.repository=%q", repositories[0]), fmt.Sprintf("templates.server.image.repository=%q", repositories[2]))) {
			want := "mirror.example.com/r/" + repositories[1] + ":0.1.0"
			if name == "virtward-apiserver" {
				want = "mirror.example.com/r/" + repositories[3] + ":0.1.0"
			}
			if got := pod.Spec.Containers[0].Image; got != want {
				t.Errorf("%v: %s is %s, not %s", repositories, name, got, want)
			}
		}
	}
}

// TestCommonMetadata: every object and every pod has the common labels and annotations, and keeps its own.
func TestCommonMetadata(t *testing.T) {
	t.Parallel()
	common := []string{
		`commonLabels={"team":"platform","app.kubernetes.io/part-of":"other"}`, `commonAnnotations={"contact":"jane","helm.sh/resource-policy":"delete"}`,
		"metrics.serviceMonitor.enabled=true", "metrics.prometheusRule.enabled=true", "metrics.dashboards.enabled=true", "audit.reports.installCRDs=true",
		"virtualImages.copies.enabled=true", certManager, `goldenImages.registries.credentials=[{"namespace":"images","secrets":["a"]}]`,
	}
	kept := 0
	objects := everyProcess(t, common...)
	objects = append(objects, renderFor(t, []string{"policy.virtward.io/v1alpha1/VirtualMachinePolicy"}, append(common, `library.policies={"memory-cap":{}}`)...)...)
	for _, object := range objects {
		name := object.GetObjectKind().GroupVersionKind().Kind + " " + object.GetName()
		if labels := object.GetLabels(); labels["team"] != "platform" || labels["app.kubernetes.io/part-of"] != "virtward" {
			t.Errorf("%s has the labels %v", name, labels)
		}
		if object.GetAnnotations()["contact"] != "jane" {
			t.Errorf("%s has the annotations %v", name, object.GetAnnotations())
		}
		if object.GetAnnotations()["helm.sh/resource-policy"] == "keep" {
			kept++
		}
	}
	if kept == 0 {
		t.Error("no object keeps the policy of its resource")
	}
	for name, pod := range podsOf(objects) {
		if pod.Labels["team"] != "platform" || pod.Annotations["contact"] != "jane" {
			t.Errorf("the pods of %s have %v, %v", name, pod.Labels, pod.Annotations)
		}
	}
}

// TestProxyAndAuthorities: only the processes that connect to servers outside of the cluster have them.
func TestProxyAndAuthorities(t *testing.T) {
	t.Parallel()
	variables := func(pod *corev1.PodTemplateSpec) map[string]string {
		found := map[string]string{}
		for _, variable := range pod.Spec.Containers[0].Env {
			if variable.ValueFrom == nil {
				found[variable.Name] = variable.Value
			}
		}
		return found
	}
	const inside = "$(KUBERNETES_SERVICE_HOST),.svc,.cluster.local,localhost,127.0.0.1"
	for _, c := range []struct {
		values []string
		want   map[string]string
		volume *corev1.VolumeSource
	}{
		{want: map[string]string{}},
		{
			values: []string{`proxy.httpProxy="http://proxy:3128"`, `extraCA.configMap="authorities"`},
			want:   map[string]string{"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": inside, "SSL_CERT_DIR": "/var/run/virtward/authorities"},
			volume: &corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "authorities"}}},
		},
		{
			values: []string{`proxy={"httpsProxy":"https://proxy:3129","noProxy":"192.0.2.0/24,.example.com"}`, `extraCA.secret="authorities"`},
			want:   map[string]string{"HTTPS_PROXY": "https://proxy:3129", "NO_PROXY": inside + ",192.0.2.0/24,.example.com", "SSL_CERT_DIR": "/var/run/virtward/authorities"},
			volume: &corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "authorities", DefaultMode: new(int32(0o440))}},
		},
	} {
		for name, pod := range podsOf(everyProcess(t, c.values...)) {
			want := c.want
			var volume, got *corev1.VolumeSource
			if slices.Contains(outgoing, name) {
				volume = c.volume
			} else {
				want = map[string]string{}
			}
			if diff := cmp.Diff(want, variables(&pod)); diff != "" {
				t.Errorf("%v: variables of %s (-want +got):\n%s", c.values, name, diff)
			}
			for i := range pod.Spec.Volumes {
				if pod.Spec.Volumes[i].Name == "authorities" {
					got = &pod.Spec.Volumes[i].VolumeSource
				}
			}
			if diff := cmp.Diff(volume, got); diff != "" {
				t.Errorf("%v: the volume of %s (-want +got):\n%s", c.values, name, diff)
			}
		}
	}
}

// TestEgress holds where the processes can connect to: nothing is limited by default.
func TestEgress(t *testing.T) {
	t.Parallel()
	for _, policy := range every[*networkingv1.NetworkPolicy](everyProcess(t)) {
		if !cmp.Equal(policy.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) || policy.Spec.Egress != nil {
			t.Errorf("%s: %v, %v", policy.Name, policy.Spec.PolicyTypes, policy.Spec.Egress)
		}
	}
	for _, c := range []struct {
		values  []string
		servers []string
		// sources is the number of rules for the servers of images, and open tells that they permit all addresses.
		open bool
	}{
		{values: []string{"networkPolicy.egress.enabled=true"}, open: true},
		{values: []string{"networkPolicy.egress.enabled=true", `networkPolicy.apiServerCIDRs=["192.0.2.1/32"]`}, servers: []string{"192.0.2.1/32"}, open: true},
		{
			values:  []string{`networkPolicy.egress={"enabled":true,"apiServerCIDRs":["192.0.2.2/32"],"apiServerPorts":[8443],"sources":[{"to":[{"ipBlock":{"cidr":"192.0.2.3/32"}}]}]}`, `networkPolicy.apiServerCIDRs=["192.0.2.1/32"]`},
			servers: []string{"192.0.2.2/32"},
		},
	} {
		policies := every[*networkingv1.NetworkPolicy](everyProcess(t, c.values...))
		if len(policies) != len(sections())+3 { // with those of the copies of images and of the processes on nodes
			t.Errorf("%d policies", len(policies))
		}
		for _, policy := range policies {
			var found []string
			for _, peer := range policy.Spec.Egress[0].To {
				found = append(found, peer.IPBlock.CIDR)
			}
			if diff := cmp.Diff(c.servers, found); diff != "" {
				t.Errorf("%s: API servers (-want +got):\n%s", policy.Name, diff)
			}
			if dns := policy.Spec.Egress[1]; len(dns.To) != 1 || len(dns.Ports) != 4 || dns.Ports[0].Port.IntValue() != 53 {
				t.Errorf("%s: DNS %v", policy.Name, dns)
			}
			rest, outside := policy.Spec.Egress[2:], slices.Contains(outgoing, policy.Name)
			if policy.Name == "virtward-templateimports" {
				if len(rest) != 2 || !leadsToPods(&rest[0], v1beta1.LabelImportUID) {
					t.Fatalf("%s: %v", policy.Name, rest)
				}
				rest = rest[1:]
			}
			switch open := len(rest) == 1 && len(rest[0].To) == 0 && len(rest[0].Ports) == 0; {
			case policy.Name == "virtward-controller":
				if len(rest) != 1 || rest[0].Ports[0].Port.StrVal != "policy-counts" || rest[0].To[0].PodSelector.MatchLabels["app.kubernetes.io/component"] != "webhook" {
					t.Errorf("%s: %v", policy.Name, rest)
				}
			case policy.Name == "virtward-templateexports":
				if len(rest) != 1 || !leadsToPods(&rest[0], v1beta1.LabelExportUID) {
					t.Errorf("%s: %v", policy.Name, rest)
				}
			case policy.Name == "virtward-apiserver" || outside && c.open:
				if !open {
					t.Errorf("%s: %v", policy.Name, rest)
				}
			case outside:
				if len(rest) != 1 || rest[0].To[0].IPBlock.CIDR != "192.0.2.3/32" {
					t.Errorf("%s: %v", policy.Name, rest)
				}
			case len(rest) != 0:
				t.Errorf("%s: %v", policy.Name, rest)
			}
		}
	}
}

// leadsToPods reports whether a rule permits the servers of exports or imports, which have a label, in all namespaces.
func leadsToPods(rule *networkingv1.NetworkPolicyEgressRule, label string) bool {
	return len(rule.Ports) == 1 && rule.Ports[0].Port.IntValue() == servers.Port && len(rule.To) == 1 && rule.To[0].PodSelector.MatchExpressions[0].Key == label
}

// outgoing are the processes that connect to servers outside of the cluster.
var outgoing = []string{"virtward-images", "virtward-virtualimages", "virtward-templateimports"}

// TestRotationSettle holds the flag of the controller, which only provider self has.
func TestRotationSettle(t *testing.T) {
	t.Parallel()
	const flag = "--rotation-settle="
	for values, want := range map[string]string{`certificates.rotationSettle="2m"`: flag + "2m", `certificates.rotationSettle="30s"`: flag + "30s", certManager: ""} {
		args := podsOf(renderController(t, values))["virtward-controller"].Spec.Containers[0].Args
		at := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, flag) })
		if got := append(args, "")[(at+len(args)+1)%(len(args)+1)]; got != want {
			t.Errorf("%s: %q, not %q", values, got, want)
		}
	}
}

// TestNotes holds what the notes warn of: memory limits below the worst case, and webhooks without a priority that fail closed.
func TestNotes(t *testing.T) {
	t.Parallel()
	const low, priority = "THESE MEMORY LIMITS ARE BELOW THE WORST CASE", "have no priority class"
	least := leastMemory(t)
	for _, c := range []struct {
		values, want, not []string
	}{
		{nil, []string{priority}, []string{low, "exempts them", "virtward-metrics-reader"}},
		{
			[]string{
				`resources.limits.memory="0.6Gi"`, `controller.resources.limits.memory="510M"`, `templates.server.resources.limits.memory="5e8"`, `rollouts.resources.limits.memory=536870912`,
				`goldenImages={"enabled":true,"resources":{"limits":{"memory":null}}}`, `virtualImages={"enabled":false,"resources":{"limits":{"memory":"1Mi"}}}`,
				`webhook={"exemptByLabel":true,"pod":{"priorityClassName":"high"}}`, "metrics.secure.enabled=true",
			},
			[]string{
				low, fmt.Sprintf("\n  controller.resources.limits.memory: 510M, and at least %dMi are needed\n", least["controller"]),
				fmt.Sprintf("\n  templates.server.resources.limits.memory: 5e8, and at least %dMi are needed\n", least["templates.server"]),
				fmt.Sprintf("\n  goldenImages.resources.limits.memory: none, and at least %dMi are needed\n", least["goldenImages"]),
				"exempts them: none.", "--clusterrole virtward-metrics-reader ",
			},
			[]string{priority, "  resources.limits.memory: ", "rollouts.resources", "virtualImages.resources"},
		},
	} {
		notes, err := helm(t, append([]string{"install", release, folder, "--namespace", namespace, "--dry-run=client"}, set(c.values)...)...)
		if err != nil {
			t.Fatal(notes)
		}
		_, notes, _ = strings.Cut(notes, "\nNOTES:\n")
		for _, want := range c.want {
			if !strings.Contains(notes, want) {
				t.Errorf("%v: the notes do not say %q, but\n%s", c.values, want, notes)
			}
		}
		for _, not := range c.not {
			if strings.Contains(notes, not) {
				t.Errorf("%v: the notes say %q:\n%s", c.values, not, notes)
			}
		}
	}
}

// leastMemory returns the lowest memory limit of each section of the values, in MiB, from the chart's table of its components.
func leastMemory(t *testing.T) map[string]int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, folder, "components.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var components []struct {
		Section string `json:"section"`
		Memory  int    `json:"memory"`
	}
	if err := yaml.Unmarshal(data, &components); err != nil {
		t.Fatal(err)
	}
	least := map[string]int{}
	for _, component := range components {
		least[component.Section] = component.Memory
	}
	return least
}

// TestExemptByLabel: the webhooks, the audit and the export exempt the same namespaces.
func TestExemptByLabel(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		objects := everyProcess(t, fmt.Sprintf("webhook.exemptByLabel=%t", on))
		want := []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system", namespace}}}
		if on {
			want = append(want, metav1.LabelSelectorRequirement{Key: policyv1alpha1.ExemptLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}})
		}
		selectors := []*metav1.LabelSelector{only[*admissionv1.MutatingWebhookConfiguration](t, objects).Webhooks[0].NamespaceSelector}
		for _, webhook := range only[*admissionv1.ValidatingWebhookConfiguration](t, objects).Webhooks {
			if webhook.NamespaceSelector != nil { // those of kinds without a namespace have none
				selectors = append(selectors, webhook.NamespaceSelector)
			}
		}
		if len(selectors) < 7 {
			t.Errorf("%d selectors", len(selectors))
		}
		for _, selector := range selectors {
			if diff := cmp.Diff(want, selector.MatchExpressions); diff != "" {
				t.Errorf("%t: selector (-want +got):\n%s", on, diff)
			}
		}
		for name, pod := range podsOf(objects) {
			reads := name == "virtward-controller" || name == "virtward-export"
			if slices.Contains(pod.Spec.Containers[0].Args, "--exempt-by-label") != (on && reads) {
				t.Errorf("%t: %s has the arguments %v", on, name, pod.Spec.Containers[0].Args)
			}
		}
	}
}

// TestMetricsSecure holds what every process has with metrics over TLS, and how Prometheus reads them.
func TestMetricsSecure(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"", "metrics"} {
		objects := everyProcess(t, "metrics.secure.enabled=true", fmt.Sprintf("metrics.secure.certificateSecret=%q", secret), "metrics.serviceMonitor.enabled=true")
		for name, pod := range podsOf(objects) {
			_, deployed := sections()[name]
			serves := deployed && name != "virtward-apiserver" // which always has authorization
			args, volumes := pod.Spec.Containers[0].Args, fmt.Sprint(pod.Spec.Volumes)
			if slices.Contains(args, "--metrics-secure") != serves || slices.Contains(args, "--metrics-cert-dir=/var/run/virtward/metrics") != (serves && secret != "") {
				t.Errorf("%q: %s has the arguments %v", secret, name, args)
			}
			if strings.Contains(volumes, "metrics-certificate") != (serves && secret != "") {
				t.Errorf("%q: %s has the volumes %s", secret, name, volumes)
			}
		}
		monitors := 0
		for _, object := range objects {
			monitor, ok := object.(*unstructured.Unstructured)
			if !ok || monitor.GetKind() != "ServiceMonitor" || monitor.GetName() == "virtward-apiserver" {
				continue
			}
			monitors++
			endpoints, _, _ := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
			want := map[string]any{ //nolint:gosec // the path of a token
				"port": "metrics", "path": "/metrics", "interval": "30s", "scheme": "https", "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
				"tlsConfig": map[string]any{"insecureSkipVerify": true},
			}
			if secret != "" {
				want["tlsConfig"] = map[string]any{
					"serverName": monitor.GetName() + "-metrics." + namespace + ".svc", "ca": map[string]any{"secret": map[string]any{"name": "metrics", "key": "ca.crt"}},
				}
			}
			if diff := cmp.Diff([]any{want}, endpoints); diff != "" {
				t.Errorf("%s (-want +got):\n%s", monitor.GetName(), diff)
			}
		}
		var reviewers []string
		for _, binding := range every[*rbacv1.ClusterRoleBinding](objects) {
			if binding.RoleRef.Name == "virtward-metrics-reviewer" {
				for _, subject := range binding.Subjects {
					reviewers = append(reviewers, subject.Name)
				}
			}
		}
		slices.Sort(reviewers)
		serving := slices.DeleteFunc(slices.Sorted(maps.Keys(sections())), func(name string) bool { return name == "virtward-apiserver" })
		if diff := cmp.Diff(serving, reviewers); diff != "" {
			t.Errorf("accounts that review requests (-want +got):\n%s", diff)
		}
		if monitors != len(sections())-1 {
			t.Errorf("%d ServiceMonitors", monitors)
		}
	}
}

// TestValuesThatContradict holds the messages about values that exclude each other.
func TestValuesThatContradict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ value, want string }{
		{`pod.extraArgs=["--namespace=other"]`, "extraArgs of virtward-templates: the chart sets --namespace itself"},
		{`pod.extraEnv=[{"name":"POD_NAMESPACE","value":"x"}]`, "extraEnv of virtward-uninstall: the chart sets POD_NAMESPACE itself"},
		{`controller.pod.extraArgs=["--log-level=debug"]`, "extraArgs of virtward-controller: the chart sets --log-level itself"},
		{`pod.disruptionBudget.minAvailable=1`, "disruptionBudget of virtward-webhook: set either maxUnavailable or minAvailable, and the other to null"},
	} {
		output, err := helm(t, "template", release, folder, "--set-json", c.value)
		if err == nil || !strings.Contains(output, c.want) {
			t.Errorf("%s: %v\n%s\nwhich does not say\n%s", c.value, err, output, c.want)
		}
	}
	output, err := helm(t, "template", release, folder, "--set-json", "webhook.exemptByLabel=true", "--set-json", "guards.namespaces.enabled=false")
	if want := "guards.namespaces.enabled is false and webhook.exemptByLabel is true"; err == nil || !strings.Contains(output, want) {
		t.Errorf("%v\n%s\nwhich does not say\n%s", err, output, want)
	}
	output, err = helm(t, "template", release, folder, "--set-json", "goldenImages.enabled=true", "--set-json", `extraCA={"configMap":"a","secret":"b"}`)
	if want := "extraCA.configMap and extraCA.secret are both set: set one of them"; err == nil || !strings.Contains(output, want) {
		t.Errorf("%v\n%s\nwhich does not say\n%s", err, output, want)
	}
}

// TestSchemaRejectsAtOnce sets many wrong values: one rendering names them all.
func TestSchemaRejectsAtOnce(t *testing.T) {
	t.Parallel()
	wrong := []struct{ value, want string }{
		{`controller.pod.runAsUser=0`, "at '/controller/pod/runAsUser': minimum: got 0, want 1"},
		{`webhook.pod.colour="red"`, "at '/webhook/pod': additional properties 'colour' not allowed"},
		{`webhook.exemptByLabel="yes"`, "at '/webhook/exemptByLabel': got string, want boolean"},
		{`pod.extraArgs=["-v"]`, "at '/pod/extraArgs/0': '-v' does not match pattern '^--[a-z0-9-]+(=.*)?$'"},
		{`pod.extraEnv=[{"value":"x"}]`, "at '/pod/extraEnv/0': missing property 'name'"},
		{`pod.extraVolumes=[{"name":"a"}]`, "at '/pod/extraVolumes/0': missing property 'mountPath'"},
		{`pod.dnsPolicy="Cluster"`, "at '/pod/dnsPolicy': value must be one of '', 'ClusterFirst', 'ClusterFirstWithHostNet', 'Default', 'None'"},
		{`pod.disruptionBudget.maxUnavailable="half"`, "at '/pod/disruptionBudget/maxUnavailable': 'half' does not match pattern '^[0-9]{1,3}%$'"},
		{`pod.topologySpreadConstraints=[{}]`, "at '/pod/topologySpreadConstraints/0': missing properties 'topologyKey', 'maxSkew', 'whenUnsatisfiable'"},
		{`commonLabels={"a":"no spaces"}`, "at '/commonLabels/a': 'no spaces' does not match pattern"},
		{`commonAnnotations={"a":1}`, "at '/commonAnnotations/a': got number, want string"},
		{`global.imageRegistry="https://example.com"`, "at '/global/imageRegistry': 'https://example.com' does not match pattern"},
		{`certificates.rotationSettle="soon"`, "at '/certificates/rotationSettle': 'soon' does not match pattern '^([0-9]+(h|m|s))+$'"},
		{`proxy.httpProxy="proxy:3128"`, "at '/proxy/httpProxy': 'proxy:3128' does not match pattern"},
		{`proxy.noProxy="a, b"`, "at '/proxy/noProxy': 'a, b' does not match pattern"},
		{`extraCA.configMap="Not A Name"`, "at '/extraCA/configMap': 'Not A Name' does not match pattern"},
		{`networkPolicy.egress.apiServerPorts=[]`, "at '/networkPolicy/egress/apiServerPorts': minItems: got 0, want 1"},
		{`networkPolicy.egress.sources=[{"from":[]}]`, "at '/networkPolicy/egress/sources/0': additional properties 'from' not allowed"},
		{`metrics.secure.enabled="yes"`, "at '/metrics/secure/enabled': got string, want boolean"},
		{`policies.export.replicas=9`, "at '/policies/export/replicas': maximum: got 9, want 5"},
	}
	args := []string{"template", release, folder}
	for _, c := range wrong {
		args = append(args, "--set-json", c.value)
	}
	output, err := helm(t, args...)
	if err == nil {
		t.Fatal("rendered")
	}
	for _, c := range wrong {
		if !strings.Contains(output, "- "+c.want) {
			t.Errorf("%s: the message does not say\n%s\nbut\n%s", c.value, c.want, output)
		}
	}
}

// TestEverything: the values file of .ci/verify-chart sets every value that is empty, off or without a limit by default, or a test
// does.
func TestEverything(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(root, folder, "ci", "everything.yaml"))
	must(t, err)
	output, err := helm(t, "template", release, folder, "--namespace", namespace, "--values", folder+"/ci/everything.yaml")
	if err != nil {
		t.Fatal(output)
	}
	pods := podsOf(decodeAll(t, output))
	if missing := slices.DeleteFunc(slices.Sorted(maps.Keys(sections())), func(name string) bool { _, there := pods[name]; return there }); len(missing) > 0 {
		t.Errorf("the values do not install %v", missing)
	}
	for _, section := range []string{"global", "commonLabels", "commonAnnotations", "proxy", "extraCA", "networkPolicy", "pod"} {
		if !strings.Contains("\n"+string(content), "\n"+section+":\n") {
			t.Errorf("the values have no section %s", section)
		}
	}
	if port := pods["virtward-webhook"].Spec.Containers[0].ReadinessProbe.HTTPGet.Port; port != intstr.FromString("health") {
		t.Errorf("the probe uses the port %v", port)
	}
}
