package copies_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	kubetesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cli/playground/answers"
	"github.com/virtward/virtward/cli/playground/copies"
	"github.com/virtward/virtward/evaluator/offline"
)

const secret = "hunter2hunter2"

var objects = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: db
  namespace: shop
  uid: "1"
  managedFields: [{manager: x}]
  labels: {app: db}
  annotations: {note: kept, kubectl.kubernetes.io/last-applied-configuration: "` + secret + `", kubevirt.io/ignitiondata: "` + secret + `"}
spec:
  runStrategy: Always
  instancetype: {name: u1.medium}
  preference: {name: small, kind: VirtualMachinePreference}
  dataVolumeTemplates:
    - {metadata: {name: b}, spec: {source: {http: {url: "https://signed.example.org/disk?signature=` + secret + `"}}}}
    - {metadata: {name: a}, spec: {source: {http: {url: "https://ann:` + secret + `@example.org/disk", extraHeaders: ["Authorization: ` + secret + `"]}}}}
  template:
    metadata: {annotations: {kubevirt.io/ignitiondata: "` + secret + `", hooks.kubevirt.io/hookSidecars: "` + secret + `", of-the-template: kept}}
    spec:
      domain: {devices: {}}
      volumes:
        - {name: a, cloudInitNoCloud: {userData: "password: ` + secret + `", networkDataBase64: "` + base64.StdEncoding.EncodeToString([]byte(secret)) + `"}}
        - {name: b, cloudInitNoCloud: {secretRef: {name: kept-secret-name}}}
status: {ready: true}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: u1.medium}
spec: {cpu: {guest: 1}, memory: {guest: 4Gi}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: u1.unused}
spec: {cpu: {guest: 1}, memory: {guest: 4Gi}}
---
apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: cap, generation: 3}
spec: {enforcement: Deny, validations: [{expression: "vm.spec.domain.memory.guest == '4Gi'", message: userData, fieldPath: spec.template.spec.domain.memory.guest}]}
---
apiVersion: kubevirt.io/v1
kind: KubeVirt
metadata: {name: kubevirt, namespace: kubevirt}
spec: {imagePullSecrets: [{name: x}], configuration: {developerConfiguration: {featureGates: [VMRollout]}}}
status: {observedKubeVirtVersion: v1.9.0, operatorVersion: x}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: blue}}
---
apiVersion: v1
kind: Secret
metadata: {name: kept-secret-name, namespace: shop}
data: {password: ` + secret + `}
`

// listKinds are the resources of all kinds that a copy reads.
func listKinds() map[schema.GroupVersionResource]string {
	kinds := map[schema.GroupVersionResource]string{
		{Version: "v1", Resource: "namespaces"}: "NamespaceList", {Version: "v1", Resource: "secrets"}: "SecretList",
	}
	for kind, resource := range offline.Resources {
		kinds[resource] = kind + "List"
	}
	for _, r := range []apikinds.Resource{apikinds.KubeVirts, apikinds.VirtualMachines, apikinds.Instancetypes, apikinds.ClusterInstancetypes, apikinds.Preferences, apikinds.ClusterPreferences, apikinds.ControllerRevisions} {
		kinds[r.GroupVersionResource()] = r.Kind + "List"
	}
	return kinds
}

func clientOf(t *testing.T, texts ...string) *fake.FakeDynamicClient {
	t.Helper()
	var all []runtime.Object
	for _, text := range texts {
		for _, part := range strings.Split(text, "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(part), &object.Object); err != nil {
				t.Fatal(err)
			}
			all = append(all, object)
		}
	}
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), listKinds(), all...)
}

// A copy has what the virtual machines of the namespace need, no credentials, and notes for the rest; its answer is complete.
func TestRead(t *testing.T) {
	t.Parallel()
	client := clientOf(t, objects)
	copied, err := copies.Read(t.Context(), client, "shop")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	all := ""
	for _, f := range copied.Files {
		names, all = append(names, f.Name), all+f.Text
	}
	if !slices.Equal(names, []string{"cluster-vms.yaml", "cluster-objects.yaml", "cluster-policies.yaml", "cluster-kubevirt.yaml"}) {
		t.Errorf("%v", names)
	}
	for _, unwanted := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), "Authorization", "managedFields", "u1.unused", "imagePullSecrets", "operatorVersion", "uid", "ready", "kind: Secret"} {
		if strings.Contains(all, unwanted) {
			t.Errorf("the copy has %q:\n%s", unwanted, all)
		}
	}
	for _, wanted := range []string{"note: kept", "kept-secret-name", "app: db", "team: blue", "name: u1.medium", "message: userData", "https://example.org/disk", "https://signed.example.org/disk", "of-the-template: kept", "VMRollout", "observedKubeVirtVersion: v1.9.0"} {
		if !strings.Contains(all, wanted) {
			t.Errorf("the copy has no %q:\n%s", wanted, all)
		}
	}
	notes := strings.Join(copied.Notes, "\n")
	for _, wanted := range []string{
		"not read: virtualmachinepreferences.instancetype.kubevirt.io small in namespace shop does not exist",
		"left out: spec.template.spec.volumes[0].cloudInitNoCloud.userData of VirtualMachine db",
		"left out: the query of the address at spec.dataVolumeTemplates[0].spec.source.http.url of VirtualMachine db",
		"left out: the annotation hooks.kubevirt.io/hookSidecars at spec.template.metadata.annotations of VirtualMachine db",
		"left out: spec.dataVolumeTemplates[1].spec.source.http.extraHeaders of VirtualMachine db",
		"left out: the annotation kubevirt.io/ignitiondata of VirtualMachine db",
	} {
		if !strings.Contains(notes, wanted) {
			t.Errorf("no %q in\n%s", wanted, notes)
		}
	}
	for _, action := range client.Actions() {
		if !slices.Contains([]string{"get", "list"}, action.GetVerb()) || slices.Contains([]string{"secrets", "configmaps"}, action.GetResource().Resource) {
			t.Errorf("%s %s", action.GetVerb(), action.GetResource())
		}
	}
	q := &answers.Question{Files: copied.Files, Platforms: []answers.Platform{{}}}
	if err := q.Check(); err != nil {
		t.Fatal(err)
	}
	answer, err := answers.New(time.Now).Answer(t.Context(), q)
	if err != nil || len(answer.Platforms[0].Machines) != 1 || len(answer.Platforms[0].Unreadable) > 0 {
		t.Errorf("%v %+v", err, answer)
	}
}

// What the user may not read, and kinds that the cluster does not have, are notes.
func TestForbidden(t *testing.T) {
	t.Parallel()
	client := clientOf(t, objects)
	client.PrependReactor("*", "*", func(action kubetesting.Action) (bool, runtime.Object, error) {
		resource := action.GetResource().GroupResource()
		switch resource.Resource {
		case "virtualmachines":
			return false, nil, nil
		case "kubevirts":
			return true, nil, apierrors.NewNotFound(resource, "")
		}
		return true, nil, apierrors.NewForbidden(resource, "", nil)
	})
	copied, err := copies.Read(t.Context(), client, "shop")
	if err != nil || len(copied.Files) != 1 {
		t.Fatalf("%v %+v", err, copied)
	}
	for _, want := range []string{
		"not read: the cluster does not serve kubevirts.kubevirt.io", "not read: you may not read virtualmachinepolicies.policy.virtward.io",
		"not read: you may not read virtualmachineclusterinstancetypes.instancetype.kubevirt.io u1.medium", "not read: you may not read namespaces shop",
	} {
		if !slices.Contains(copied.Notes, want) {
			t.Errorf("no %q in %q", want, copied.Notes)
		}
	}
}

// A cluster that does not answer, or does not know the user, is an error after one request.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{
		&url.Error{Op: "Get", URL: "https://127.0.0.1:1/apis", Err: syscall.ECONNREFUSED}, apierrors.NewUnauthorized("the token has expired"),
	} {
		client := clientOf(t, objects)
		client.PrependReactor("*", "*", func(kubetesting.Action) (bool, runtime.Object, error) { return true, nil, failure })
		copied, err := copies.Read(t.Context(), client, "shop")
		if copied != nil || !errors.Is(err, failure) || !strings.HasPrefix(fmt.Sprint(err), "reading the cluster: ") {
			t.Errorf("%+v, %v, want %v", copied, err, failure)
		}
		if n := len(client.Actions()); n != 1 {
			t.Errorf("%v: %d requests", failure, n)
		}
	}
}

// Files and notes are bounded.
func TestBounds(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 30 {
		many = append(many, fmt.Sprintf("apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: vm%d, namespace: shop, annotations: {a: %s}}\nspec: {}", i, strings.Repeat("x", 50_000)))
	}
	copied, err := copies.Read(t.Context(), clientOf(t, many...), "shop")
	if err != nil || len(copied.Files) != 1 || strings.Count(copied.Files[0].Text, "kind:") > answers.MaxSubjects || answers.CheckFiles(copied.Files) != nil {
		t.Errorf("%v %d files", err, len(copied.Files))
	}
	if !slices.Contains(copied.Notes, "only 20 virtualmachines.kubevirt.io are read: there are more") || !strings.Contains(strings.Join(copied.Notes, "\n"), "because cluster-vms.yaml has 409 KiB at most") {
		t.Errorf("%q", copied.Notes)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := copies.Read(ctx, clientOf(t, many...), "shop"); err == nil {
		t.Error("it is read without an end")
	}
}
