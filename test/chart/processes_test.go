package chart

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/addresses"
	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/controllers/virtualimages"
	"github.com/virtward/virtward/goldenimages"
	"github.com/virtward/virtward/sources/signatures"
	sign "github.com/virtward/virtward/sources/signatures/signaturestest"
)

// Each process knows the memory limit of its container, and Prometheus can find its metrics.
func TestProcesses(t *testing.T) {
	objects := renderFor(t, nil, "policies.export.enabled=true", "metrics.serviceMonitor.enabled=true", "controller.replicas=2", "templates.controller.replicas=2", "templates.imports.enabled=true", "templates.imports.replicas=2", "templates.exports.enabled=true", "templates.exports.replicas=2", "rollouts.replicas=2", "goldenImages.enabled=true", "goldenImages.replicas=2", "virtualImages.enabled=true", "virtualImages.replicas=2")
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
	if want := deployed(); !slices.Equal(names, want) {
		t.Errorf("processes %v, want %v", names, want)
	}
}

// deployed are the names of the processes with Deployments, sorted.
func deployed() []string {
	return slices.DeleteFunc(lasting(), func(name string) bool {
		p, _ := processes.Find(name)
		return p.Daemon
	})
}

// lasting are the names of the processes that do not end, sorted.
func lasting() []string {
	var names []string
	for _, p := range processes.All() {
		if !p.Job {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
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
		for _, object := range renderFor(t, nil, "goldenImages.enabled=true", "goldenImages.commonImages="+list) {
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
		if parsed, err := goldenimages.ParseCommon([]byte(data)); err != nil || len(parsed) != 1 || parsed[0].Spec.ManagedDataSource != "fedora" {
			t.Errorf("%v %+v", err, parsed)
		}
	}
}

// TestSignatures renders the rules of signatures as the process reads them. Another rule starts it again.
func TestSignatures(t *testing.T) {
	quoted, err := json.Marshal(string(sign.NewKey(t).PEM(t)))
	must(t, err)
	rule := `[{"prefix":"registry.example/templates","keys":[` + string(quoted) + `]}]`
	checksums := map[string]bool{}
	for _, list := range []string{"[]", rule, strings.ReplaceAll(rule, "/templates", "/machines")} {
		var data, checksum string
		given, volumes := false, 0
		for _, object := range renderFor(t, nil, "templates.imports.enabled=true", "templates.imports.sources.signatures="+list) {
			switch o := object.(type) {
			case *corev1.ConfigMap:
				if o.Name == "virtward-templateimports-signatures" {
					data = o.Data["rules.yaml"]
				}
			case *appsv1.Deployment:
				if o.Name == "virtward-templateimports" {
					pod := &o.Spec.Template
					given = slices.Contains(pod.Spec.Containers[0].Args, "--signatures=/etc/virtward/signatures/rules.yaml")
					volumes, checksum = len(pod.Spec.Volumes)+len(pod.Spec.Containers[0].VolumeMounts), pod.Annotations["checksum/signatures"]
				}
			}
		}
		if wanted := list != "[]"; given != wanted || (volumes == 2) != wanted || (data != "") != wanted || checksums[checksum] {
			t.Errorf("%s: argument %t, %d volumes and mounts, checksum %s, file %q", list, given, volumes, checksum, data)
		}
		checksums[checksum] = true
		if data == "" {
			continue
		}
		required, err := signatures.ParseRequirements([]byte(data))
		must(t, err)
		if required.Of("registry.example", "templates/web") == nil && required.Of("registry.example", "machines/web") == nil {
			t.Errorf("no signature is required by %s", data)
		}
	}
}

// TestPredefinedImages renders the images of the chart: off by default, beside those of the values, and replaced by these.
func TestPredefinedImages(t *testing.T) {
	item := func(name, source string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"schedule":"","managedDataSource":"` + source + `","template":{"spec":{"source":{"registry":{"url":"docker://r.example/own"}},"storage":{"resources":{"requests":{"storage":"1Gi"}}}}}}}`
	}
	for _, test := range []struct {
		values []string
		want   string
	}{
		{nil, ""},
		{[]string{"goldenImages.predefinedImages=true"}, "centos-stream9 centos-stream10 fedora"},
		{[]string{"goldenImages.predefinedImages=true", "goldenImages.commonImages=[" + item("own", "own") + "]"}, "own centos-stream9 centos-stream10 fedora"},
		{[]string{"goldenImages.predefinedImages=true", "goldenImages.commonImages=[" + item("fedora-image-cron", "other") + "]"}, "other centos-stream9 centos-stream10"},
		{[]string{"goldenImages.predefinedImages=true", "goldenImages.commonImages=[" + item("other", "fedora") + "]"}, "fedora centos-stream9 centos-stream10"},
	} {
		got := ""
		for _, object := range renderFor(t, nil, append([]string{"goldenImages.enabled=true"}, test.values...)...) {
			if config, is := object.(*corev1.ConfigMap); is && config.Name == "virtward-images-common" {
				parsed, err := goldenimages.ParseCommon([]byte(config.Data["images.yaml"]))
				must(t, err)
				var names []string
				for i := range parsed {
					names = append(names, parsed[i].Spec.ManagedDataSource)
				}
				got = strings.Join(names, " ")
			}
		}
		if got != test.want {
			t.Errorf("%v: %q, want %q", test.values, got, test.want)
		}
	}
}

// TestPredefinedImagesHaveTheRightForm checks the form of each entry: its URL names one tag of a registry, its architectures are
// those of KubeVirt, and its names leave space for the suffix of an architecture. No registry is read.
func TestPredefinedImagesHaveTheRightForm(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "charts", "virtward", "golden-images", "common.yaml"))
	must(t, err)
	parsed, err := goldenimages.ParseCommon(content)
	must(t, err)
	if len(parsed) == 0 {
		t.Fatal("no images")
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "golden-images.md"))
	must(t, err)
	for i := range parsed {
		image := &parsed[i]
		url := *image.Spec.Template.Spec.Source.Registry.URL
		found, err := addresses.ParseImage(url)
		must(t, err)
		if found.Registry == "" || found.Repository == "" || found.Tag == "" || found.Digest != "" {
			t.Errorf("%s: %+v", url, found)
		}
		listed, _ := goldenimages.Listed(image)
		if strings.Join(listed, ",") != image.Annotations["ssp.kubevirt.io/dict.architectures"] || len(listed) == 0 {
			t.Errorf("%s lists %v", image.Name, listed)
		}
		for _, architecture := range listed {
			if !architectures.Known(architecture) {
				t.Errorf("%s has the architecture %s", image.Name, architecture)
			}
		}
		if len(image.Name) > 57 || len(image.Spec.ManagedDataSource) > 57 {
			t.Errorf("%s is too long", image.Name)
		}
		size := image.Spec.Template.Spec.Storage.Resources.Requests.Storage().String()
		if row := "| `" + image.Name + "` | `" + image.Spec.ManagedDataSource + "` | `" + url + "` | " + strings.Join(listed, ", ") + " | " + size + " |"; !strings.Contains(string(page), row) {
			t.Errorf("docs/golden-images.md lacks %s", row)
		}
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
	if found := roles(renderFor(t, nil, "goldenImages.enabled=true")); len(found) > 0 {
		t.Errorf("without a value: %v", found)
	}
	objects := renderFor(t, nil, "goldenImages.enabled=true", `goldenImages.registries.hosts=["quay.io","*.example.com"]`, `goldenImages.registries.networks=["10.1.0.0/16"]`,
		`goldenImages.registries.credentials=[{"namespace":"os","secrets":["quay"],"configMaps":["ca"]},{"namespace":"none"}]`)
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

// metricName is the name of a metric of Virtward, or of one that Virtward has in place of HCO.
var metricName = regexp.MustCompile(`\b(virtward|kubevirt)_[a-z_]+`)

// metricsOfPackages are the names of the metrics that packages register.
func metricsOfPackages(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, folder := range []string{"apiserver", "cmd", "configcache", "controllers", "exportserver", "importserver", "limits", "nodes", "platform", "webhooks"} {
		must(t, filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool {
				return strings.Contains(i.Path.Value, "prometheus/client_golang/prometheus")
			}) {
				return nil
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if text, is := n.(*ast.BasicLit); is && text.Kind == token.STRING {
					if name, err := strconv.Unquote(text.Value); err == nil && metricName.FindString(name) == name && name != "" {
						names = append(names, name)
					}
				}
				return true
			})
			return nil
		}))
	}
	slices.Sort(names)
	return slices.Compact(names)
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

// TestUploadClasses: the guard of VirtualImages permits uploads to classes that store images in the cluster. The chart says of each
// backend whether it does.
func TestUploadClasses(t *testing.T) {
	for _, b := range virtualimages.Backends() {
		inCluster, known := virtualimages.Choose(b, true, false)
		if !known {
			t.Fatalf("%s is unknown", b)
		}
		var guard string
		for _, policy := range every[*admissionregistrationv1.ValidatingAdmissionPolicy](renderFor(t, nil, "virtualImages.enabled=true", `virtualImages.classes.other={"backend":"`+string(b)+`","cloud":"c"}`)) {
			if policy.Name == admissionpolicies.VirtualImages {
				guard = fmt.Sprint(policy.Spec.Variables)
			}
		}
		want := "variables.class in '" + map[bool]string{true: "cluster other", false: "cluster"}[inCluster] + "'.split(' ')"
		if !strings.Contains(guard, want) {
			t.Errorf("%s: the guard lacks %s: %s", b, want, guard)
		}
	}
}
