package simulators

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
)

// pool has one control plane: there is one KubeVirt in a cluster.
var pool planes.Pool

func TestMain(m *testing.M) { os.Exit(pool.Main(m)) }

func TestKubeVirt(t *testing.T) {
	c := pool.Take(t)
	kubevirt, err := InstallKubeVirt(t.Context(), c, kubevirtv1.KubeVirtConfiguration{CPUModel: "host-model"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("the KubeVirt resource looks deployed", func(t *testing.T) { testDeployed(t, c) })
	t.Run("a VM that is to run gets a VMI", func(t *testing.T) { testRun(t, c, kubevirt) })
	t.Run("a VM whose VMI cannot be made says why, and is tried again", func(t *testing.T) { testFailure(t, c) })
	t.Run("a mutator that sorts first is called again after virt-api", func(t *testing.T) { testReinvocation(t, c, kubevirt) })
	t.Run("an object without a required field is rejected", func(t *testing.T) { testRequired(t, c) })
	t.Run("a VM that is halted loses its VMI", func(t *testing.T) { testHalt(t, c) })
	t.Run("a deleted VM goes with its VMI", func(t *testing.T) { testDelete(t, c) })
	t.Run("a VMI applied by a user runs", func(t *testing.T) { testBareVMI(t, c, kubevirt) })
	t.Run("a user may change neither spec nor status of a VMI", func(t *testing.T) { testRestricted(t, c) })
	t.Run("a dry run is recorded as one", func(t *testing.T) { testDryRun(t, c, kubevirt) })
	t.Run("a stop takes the configurations away", func(t *testing.T) { testStop(t, c, kubevirt) })
}

func machine(name string, strategy kubevirtv1.VirtualMachineRunStrategy) *kubevirtv1.VirtualMachine {
	return &kubevirtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: kubevirtv1.VirtualMachineSpec{
			RunStrategy: new(strategy),
			Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
			},
		},
	}
}

// testRequired: the definitions require devices, and a mutating webhook of KubeVirt must not fill them before they are validated.
func testRequired(t *testing.T, c *controlplane.ControlPlane) {
	for kind, spec := range map[string]map[string]any{
		"VirtualMachine":         {"runStrategy": "Halted", "template": map[string]any{"spec": map[string]any{"domain": map[string]any{}}}},
		"VirtualMachineInstance": {"domain": map[string]any{}},
	} {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		object.SetAPIVersion("kubevirt.io/v1")
		object.SetKind(kind)
		object.SetNamespace("default")
		object.SetName("no-devices")
		err := c.Client().Create(t.Context(), object)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.domain.devices in body is required") && !strings.Contains(err.Error(), "spec.template.spec.domain.devices in body is required") {
			t.Errorf("%s without devices: %v", kind, err)
		}
	}
}

func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: "default", Name: name} }

func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	deadline := time.Now().Add(await.Patience)
	for {
		err := check(t.Context())
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func awaitRunning(t *testing.T, c *controlplane.ControlPlane, name string) *kubevirtv1.VirtualMachineInstance {
	t.Helper()
	vmi := &kubevirtv1.VirtualMachineInstance{}
	eventually(t, "VMI "+name+" runs", func(ctx context.Context) error {
		if err := c.Client().Get(ctx, key(name), vmi); err != nil {
			return err
		}
		if vmi.Status.Phase != kubevirtv1.Running {
			return fmt.Errorf("phase %q", vmi.Status.Phase)
		}
		return nil
	})
	return vmi
}

func awaitGone(t *testing.T, c *controlplane.ControlPlane, object client.Object, name string) {
	t.Helper()
	eventually(t, name+" is gone", func(ctx context.Context) error {
		err := c.Client().Get(ctx, key(name), object)
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
}

func testDeployed(t *testing.T, c *controlplane.ControlPlane) {
	resource := &kubevirtv1.KubeVirt{}
	if err := c.Client().Get(t.Context(), Name, resource); err != nil {
		t.Fatal(err)
	}
	if resource.Status.Phase != kubevirtv1.KubeVirtPhaseDeployed || resource.Spec.Configuration.CPUModel != "host-model" {
		t.Errorf("phase %q, cpuModel %q", resource.Status.Phase, resource.Spec.Configuration.CPUModel)
	}
}

// of filters the record by operation and webhook.
func of(calls []Call, operation admissionv1.Operation, name string) []Call {
	var found []Call
	for _, call := range calls {
		if call.Operation == operation && call.Name == name {
			found = append(found, call)
		}
	}
	return found
}

func testRun(t *testing.T, c *controlplane.ControlPlane, kubevirt *KubeVirt) {
	vm := machine("web", kubevirtv1.RunStrategyAlways)
	if err := c.Client().Create(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	if got := vm.Spec.Template.Spec.Domain.Machine; got == nil || got.Type != "q35" || vm.Spec.Template.Spec.Domain.Firmware.UUID == "" {
		t.Errorf("virt-api persisted machine %+v, firmware %+v", got, vm.Spec.Template.Spec.Domain.Firmware)
	}
	vmi := awaitRunning(t, c, "web")
	owner := metav1.GetControllerOf(vmi)
	if owner == nil || owner.UID != vm.UID || vmi.Labels["app"] != "web" {
		t.Errorf("owner %+v, labels %v", owner, vmi.Labels)
	}
	if vmi.Spec.Domain.Firmware.UUID != vm.Spec.Template.Spec.Domain.Firmware.UUID {
		t.Error("the VMI has another firmware UUID than its VM")
	}
	if got := vmi.Annotations[kubevirtv1.PciTopologyVersionAnnotation]; got != "v3" {
		t.Errorf("PCI topology %q, want v3", got)
	}
	var got []string
	for _, call := range of(kubevirt.API.Calls(), admissionv1.Create, "web") {
		got = append(got, call.Webhook+" "+call.User)
	}
	controller := accountPrefix + ControllerAccount
	want := []string{
		"virtualmachines-mutator.kubevirt.io sandbox-admin",
		"virtualmachine-validator.kubevirt.io sandbox-admin",
		"virtualmachineinstances-mutator.kubevirt.io " + controller,
		"virtualmachineinstances-create-validator.kubevirt.io " + controller,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the calls differ (-want +got):\n%s", diff)
	}
	eventually(t, "the VM shows that it runs", func(ctx context.Context) error {
		if err := c.Client().Get(ctx, key("web"), vm); err != nil {
			return err
		}
		if vm.Status.PrintableStatus != kubevirtv1.VirtualMachineStatusRunning || !vm.Status.Ready {
			return fmt.Errorf("status %q", vm.Status.PrintableStatus)
		}
		return nil
	})
}

func testHalt(t *testing.T, c *controlplane.ControlPlane) {
	vm := &kubevirtv1.VirtualMachine{}
	if err := c.Client().Get(t.Context(), key("web"), vm); err != nil {
		t.Fatal(err)
	}
	base := vm.DeepCopy()
	vm.Spec.RunStrategy = new(kubevirtv1.RunStrategyHalted)
	if err := c.Client().Patch(t.Context(), vm, client.MergeFrom(base)); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, c, &kubevirtv1.VirtualMachineInstance{}, "web")
}

func testDelete(t *testing.T, c *controlplane.ControlPlane) {
	vm := machine("short-lived", kubevirtv1.RunStrategyRerunOnFailure)
	if err := c.Client().Create(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	awaitRunning(t, c, "short-lived")
	if err := c.Client().Delete(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, c, vm, "short-lived")
	awaitGone(t, c, &kubevirtv1.VirtualMachineInstance{}, "short-lived")
}

func testBareVMI(t *testing.T, c *controlplane.ControlPlane, kubevirt *KubeVirt) {
	kubevirt.API.Forget()
	vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bare"}}
	if err := c.Client().Create(t.Context(), vmi); err != nil {
		t.Fatal(err)
	}
	if vmi.Status.Phase != kubevirtv1.Pending {
		t.Errorf("phase %q after the create, want Pending", vmi.Status.Phase)
	}
	awaitRunning(t, c, "bare")
	updates := of(kubevirt.API.Calls(), admissionv1.Update, "bare")
	users := map[string]int{}
	for _, call := range updates {
		users[call.User]++
		if !json.Valid(call.Object) || !json.Valid(call.OldObject) {
			t.Errorf("%s was not given both objects", call.Webhook)
		}
	}
	// Three status writes, each seen by the mutator and the validator: the kind has no status subresource.
	want := map[string]int{accountPrefix + ControllerAccount: 4, accountPrefix + HandlerAccount: 2}
	if diff := cmp.Diff(want, users); diff != "" {
		t.Errorf("the status writes differ (-want +got):\n%s", diff)
	}
}

func testRestricted(t *testing.T, c *controlplane.ControlPlane) {
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "jane"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "jane"}},
	}
	if err := c.Client().Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	config, err := c.UserConfig("jane")
	if err != nil {
		t.Fatal(err)
	}
	jane, err := client.New(config, client.Options{Scheme: c.Client().Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	vmi := &kubevirtv1.VirtualMachineInstance{}
	if err := jane.Get(t.Context(), key("bare"), vmi); err != nil {
		t.Fatal(err)
	}
	base := vmi.DeepCopy()
	vmi.Status.Phase = kubevirtv1.Failed
	vmi.Labels = map[string]string{"touched": "yes"}
	if err := jane.Patch(t.Context(), vmi, client.MergeFrom(base)); err != nil {
		t.Fatal(err)
	}
	if vmi.Status.Phase != kubevirtv1.Running || vmi.Labels["touched"] != "yes" {
		t.Errorf("phase %q, labels %v: only the label should have changed", vmi.Status.Phase, vmi.Labels)
	}
	base = vmi.DeepCopy()
	vmi.Spec.Hostname = "other"
	err = jane.Patch(t.Context(), vmi, client.MergeFrom(base))
	want := `admission webhook "virtualmachineinstances-update-validator.kubevirt.io" denied the request: update of VMI object is restricted`
	if !apierrors.IsInvalid(err) || err.Error() != want {
		t.Errorf("changing the spec: %v, want %s", err, want)
	}
}

func testDryRun(t *testing.T, c *controlplane.ControlPlane, kubevirt *KubeVirt) {
	kubevirt.API.Forget()
	if err := c.Client().Create(t.Context(), machine("dry", kubevirtv1.RunStrategyAlways), client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	calls := of(kubevirt.API.Calls(), admissionv1.Create, "dry")
	if len(calls) != 2 || !calls[0].DryRun || !calls[0].Allowed {
		t.Errorf("the calls are %+v, want two of a dry run", calls)
	}
}

func testStop(t *testing.T, c *controlplane.ControlPlane, kubevirt *KubeVirt) {
	if err := kubevirt.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "VMs are admitted without virt-api", func(ctx context.Context) error {
		return c.Client().Create(ctx, machine("single", kubevirtv1.RunStrategyHalted))
	})
	for _, name := range accounts {
		account := &corev1.ServiceAccount{}
		if err := c.Client().Get(t.Context(), client.ObjectKey{Namespace: Namespace, Name: name}, account); err != nil {
			t.Errorf("the account %s went too: %v", name, err)
		}
	}
}

func testFailure(t *testing.T, c *controlplane.ControlPlane) {
	vm := machine("typed", kubevirtv1.RunStrategyAlways)
	vm.Spec.Instancetype = &kubevirtv1.InstancetypeMatcher{Name: "u1.small"}
	if err := c.Client().Create(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	if got := vm.Spec.Instancetype.Kind; got != "" {
		t.Errorf("virt-api persisted the kind %q", got)
	}
	want := `expanding VM default/typed: spec.instancetype: `
	eventually(t, "the VM shows its failure", func(ctx context.Context) error {
		if err := c.Client().Get(ctx, key("typed"), vm); err != nil {
			return err
		}
		for _, condition := range vm.Status.Conditions {
			if condition.Type == kubevirtv1.VirtualMachineFailure && strings.HasPrefix(condition.Message, want) {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v", vm.Status.Conditions)
	})
	instancetype := &instancetypev1beta1.VirtualMachineClusterInstancetype{
		ObjectMeta: metav1.ObjectMeta{Name: "u1.small"},
		Spec: instancetypev1beta1.VirtualMachineInstancetypeSpec{
			CPU:    instancetypev1beta1.CPUInstancetype{Guest: 2},
			Memory: instancetypev1beta1.MemoryInstancetype{Guest: resource.MustParse("2Gi")},
		},
	}
	if err := c.Client().Create(t.Context(), instancetype); err != nil {
		t.Fatal(err)
	}
	vmi := awaitRunning(t, c, "typed") // the failure is tried again until the instancetype is there
	if got := vmi.Spec.Domain.Memory; got == nil || got.Guest.String() != "2Gi" {
		t.Errorf("the expanded memory is %+v", got)
	}
	if got := vmi.Annotations[kubevirtv1.ClusterInstancetypeAnnotation]; got != "u1.small" {
		t.Errorf("the VMI names the instancetype %q", got)
	}
}

// A mutator like Virtward's: its name sorts before virt-api-mutator, and it is called again after a change.
func testReinvocation(t *testing.T, c *controlplane.ControlPlane, kubevirt *KubeVirt) {
	certificate, bundle, err := c.ServingCertificate("localhost")
	if err != nil {
		t.Fatal(err)
	}
	given := make(chan string, 8)
	first := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		vmi := &kubevirtv1.VirtualMachineInstance{}
		if err := json.Unmarshal(review.Request.Object.Raw, vmi); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		select {
		case given <- string(vmi.Status.Phase) + "/" + vmi.Spec.Hostname:
		default: // only the first ones are read
		}
		review.Response = patch(operation{Op: "add", Path: "/spec/hostname", Value: "first"})
		review.Response.UID = review.Request.UID
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review) // a lost answer shows in the record
	}))
	first.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	first.StartTLS()
	t.Cleanup(first.Close)
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "a-first"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "first.example.test",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: new(strings.Replace(first.URL, "127.0.0.1", "localhost", 1)), CABundle: bundle,
			},
			Rules:                   hook{resource: "virtualmachineinstances", operations: onCreate}.rules(),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			ReinvocationPolicy:      new(admissionregistrationv1.IfNeededReinvocationPolicy),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
	if err := c.Client().Create(t.Context(), configuration); err != nil {
		t.Fatal(err)
	}
	kubevirt.API.Forget()
	vmi := func() *kubevirtv1.VirtualMachineInstance {
		return &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "twice"}}
	}
	eventually(t, "the new configuration is known", func(ctx context.Context) error {
		kubevirt.API.Forget()
		if err := c.Client().Create(ctx, vmi(), client.DryRunAll); err != nil {
			return err
		}
		if len(given) == 0 {
			return errors.New("not called")
		}
		return nil
	})
	if got := []string{<-given, <-given}; got[0] != "/" || got[1] != "Pending/first" {
		t.Errorf("it was given %q; want the object as written, then as virt-api made it", got)
	}
	calls := of(kubevirt.API.Calls(), admissionv1.Create, "twice")
	if len(calls) != 2 || !strings.Contains(string(calls[0].Object), `"hostname":"first"`) {
		t.Errorf("virt-api was called %d times, want once by each configuration, with the hostname", len(calls))
	}
	if err := c.Client().Delete(t.Context(), configuration); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the configuration is no longer known", func(ctx context.Context) error {
		created := vmi()
		if err := c.Client().Create(ctx, created, client.DryRunAll); err != nil {
			return err
		}
		if created.Spec.Hostname != "" {
			return errors.New("the webhook is still called")
		}
		return nil
	})
}
