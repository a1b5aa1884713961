package chart

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	charts "github.com/virtward/virtward/test/chart/helm"
)

const (
	root      = charts.Root
	folder    = charts.Chart
	release   = "virtward"
	namespace = "virtward-system"
)

// helm is helm.Run.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return charts.Run(t, args...)
}

// render returns what the chart makes of values, in Helm's order: all but what belongs to the controller.
func render(t *testing.T, values ...string) []client.Object {
	t.Helper()
	return slices.DeleteFunc(renderFor(t, nil, values...), func(object client.Object) bool {
		component := object.GetLabels()["app.kubernetes.io/component"]
		return ofController(object) || component == "export" || component == "apiserver" || component == "templates" || component == "rollouts"
	})
}

// renderController returns what belongs to the controller.
func renderController(t *testing.T, values ...string) []client.Object {
	t.Helper()
	return slices.DeleteFunc(renderFor(t, nil, values...), func(object client.Object) bool { return !ofController(object) })
}

func ofController(object client.Object) bool {
	return object.GetLabels()["app.kubernetes.io/component"] == "controller"
}

// renderExport returns what belongs to the export.
func renderExport(t *testing.T, values ...string) []client.Object {
	t.Helper()
	return slices.DeleteFunc(renderFor(t, nil, values...), func(object client.Object) bool {
		return object.GetLabels()["app.kubernetes.io/component"] != "export"
	})
}

// renderAPIServer returns what belongs to the API of templates.
func renderAPIServer(t *testing.T, values ...string) []client.Object {
	t.Helper()
	return slices.DeleteFunc(renderFor(t, nil, values...), func(object client.Object) bool {
		return object.GetLabels()["app.kubernetes.io/component"] != "apiserver"
	})
}

// renderFor is render for an API server that has kinds of its own: GROUP/VERSION/KIND.
func renderFor(t *testing.T, kinds []string, values ...string) []client.Object {
	t.Helper()
	args := append([]string{"template", release, folder, "--namespace", namespace}, set(values)...)
	for _, kind := range kinds {
		args = append(args, "--api-versions", kind)
	}
	one, _ := rendered.LoadOrStore(strings.Join(args, "\x00"), &rendering{})
	r := one.(*rendering) //nolint:forcetypeassert // nothing else is stored
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.objects == nil {
		output, err := helm(t, args...)
		if err != nil {
			t.Fatalf("helm template %v: %v\n%s", values, err, output)
		}
		r.objects = decodeAll(t, output)
	}
	objects := make([]client.Object, len(r.objects))
	for i, object := range r.objects {
		objects[i], _ = object.DeepCopyObject().(client.Object)
	}
	return objects
}

// rendered are the renderings so far, by Helm's arguments: most tests begin with the same ones.
var rendered sync.Map

type rendering struct {
	mu      sync.Mutex
	objects []client.Object
}

func decodeAll(t *testing.T, output string) []client.Object {
	t.Helper()
	var objects []client.Object
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(output)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		if object := decode(t, document); object != nil {
			objects = append(objects, object)
		}
	}
}

func set(values []string) []string {
	var args []string
	for _, value := range values {
		args = append(args, "--set-json", value)
	}
	return args
}

// types are those of the kinds in the chart that are Kubernetes' own.
func types() map[string]client.Object {
	return map[string]client.Object{
		"Deployment":                       &appsv1.Deployment{},
		"DaemonSet":                        &appsv1.DaemonSet{},
		"Service":                          &corev1.Service{},
		"ServiceAccount":                   &corev1.ServiceAccount{},
		"Secret":                           &corev1.Secret{},
		"ConfigMap":                        &corev1.ConfigMap{},
		"Job":                              &batchv1.Job{},
		"PodDisruptionBudget":              &policyv1.PodDisruptionBudget{},
		"NetworkPolicy":                    &networkingv1.NetworkPolicy{},
		"Role":                             &rbacv1.Role{},
		"RoleBinding":                      &rbacv1.RoleBinding{},
		"ClusterRole":                      &rbacv1.ClusterRole{},
		"ClusterRoleBinding":               &rbacv1.ClusterRoleBinding{},
		"CustomResourceDefinition":         &apiextensionsv1.CustomResourceDefinition{},
		"MutatingWebhookConfiguration":     &admissionv1.MutatingWebhookConfiguration{},
		"ValidatingWebhookConfiguration":   &admissionv1.ValidatingWebhookConfiguration{},
		"ValidatingAdmissionPolicy":        &admissionv1.ValidatingAdmissionPolicy{},
		"ValidatingAdmissionPolicyBinding": &admissionv1.ValidatingAdmissionPolicyBinding{},
	}
}

// decode reads a document strictly: a field that the type does not have fails the test.
func decode(t *testing.T, document []byte) client.Object {
	t.Helper()
	untyped := &unstructured.Unstructured{}
	text, err := yaml.YAMLToJSONStrict(document)
	if err == nil {
		err = json.Unmarshal(text, &untyped.Object)
	}
	if err != nil {
		t.Fatalf("%v in:\n%s", err, document)
	}
	if len(untyped.Object) == 0 { // a template that renders only comments
		return nil
	}
	typed, known := types()[untyped.GetKind()]
	if !known {
		return untyped
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(typed); err != nil {
		t.Fatalf("%s %s: %v in:\n%s", untyped.GetKind(), untyped.GetName(), err, document)
	}
	return typed
}

// only returns the one object of a kind.
func only[T client.Object](t *testing.T, objects []client.Object) T {
	t.Helper()
	found := every[T](objects)
	if len(found) != 1 {
		t.Fatalf("%d objects of kind %T, not one", len(found), *new(T))
	}
	return found[0]
}

func every[T client.Object](objects []client.Object) []T {
	var found []T
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}

// identities are kind and name of objects, in their order.
func identities(objects []client.Object) []string {
	var list []string
	for _, object := range objects {
		list = append(list, object.GetObjectKind().GroupVersionKind().Kind+" "+object.GetName())
	}
	return list
}

func toUnstructured(t *testing.T, object client.Object) map[string]any {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	return fields
}
