package templates

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
)

// TestProcess captures VMs with the chart's Deployment: its process, with the rights of its account.
func TestProcess(t *testing.T) {
	f := newFixture(t)
	_, err := f.InstallVirtward(t.Context(), map[string]any{"templates": map[string]any{"mode": "manage"}}, controlplane.Workload{})
	must(t, err)
	controller, err := f.RunVirtward(t.Context(), controlplane.Workload{Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardTemplates})
	must(t, err)
	t.Cleanup(func() {
		for _, file := range []string{controller.Log(), filepath.Join(f.Dir(), "snapshots-simulator.log"), filepath.Join(f.Dir(), "cdi-simulator.log")} {
			if log, err := os.ReadFile(file); err == nil && t.Failed() {
				t.Logf("%s:\n%s", file, log)
			}
		}
	})
	t.Run("capture", f.captures)
	t.Run("ready", f.ready)
	t.Run("tutorial", f.tutorial)
	t.Run("without its guard", f.unguarded) // the last one: nothing is captured afterwards
}

// unguarded: a request that no guard has checked captures nothing, also after the guard is back.
func (f *fixture) unguarded(t *testing.T) {
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	must(t, f.Client().Get(t.Context(), client.ObjectKey{Name: admissionpolicies.TemplateCapture}, binding))
	must(t, f.Client().Delete(t.Context(), binding))
	f.machine(t, "secret", "secret-root")
	denied := func(name, want string) {
		t.Helper()
		request := f.request(t, name, "secret")
		f.until(t, request, v1beta1.RequestProgressing, metav1.ConditionFalse, guarded.Reason)
		if c := f.condition(t, request, v1beta1.RequestCompleted); !strings.Contains(c.Message, want) {
			t.Errorf("%s: %+v", name, c)
		}
		if intermediate, result := f.left(t, request); len(intermediate)+len(result) > 0 {
			t.Errorf("%s: left %q, %q", name, intermediate, result)
		}
	}
	denied("unguarded", "virtward-template-capture, which checks the permissions of authors, is not active")
	binding.ResourceVersion, binding.UID = "", ""
	must(t, f.Client().Create(t.Context(), binding))
	denied("too-early", "it can have been written without a check of its author's permissions")
}

// captures: the seed's commands work, and the template renders without values.
func (f *fixture) captures(t *testing.T) {
	f.machine(t, "web", "web-root", "web-data")
	request := f.request(t, "golden", "web", func(r *v1beta1.VirtualMachineTemplateRequest) {
		r.Spec.TemplateLabels = map[string]string{"os": "fedora"}
	})
	kubectl := exec.CommandContext(t.Context(), filepath.Join("..", "..", "bin", "kubectl"), "--kubeconfig", f.Kubeconfig(),
		"wait", "-n", catalogue, "virtualmachinetemplaterequest/golden", "--for", "condition=Completed", "--timeout=60s")
	if output, err := kubectl.CombinedOutput(); err != nil || !strings.Contains(string(output), "condition met") {
		t.Fatalf("kubectl wait: %v\n%s\n%+v", err, output, f.condition(t, request, v1beta1.RequestProgressing))
	}
	f.until(t, request, v1beta1.RequestProgressing, metav1.ConditionFalse, v1beta1.ReasonReconciled)
	intermediate, result := f.left(t, request)
	want := []string{"VirtualMachineTemplate golden", "DataVolume of the template", "DataVolume of the template"}
	if diff := cmp.Diff(want, result); diff != "" || len(intermediate) > 0 {
		t.Errorf("left: %q; result (-want +got):\n%s", intermediate, diff)
	}
	template := &v1beta1.VirtualMachineTemplate{}
	must(t, f.Client().Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: "golden"}, template))
	if template.Labels["os"] != "fedora" {
		t.Errorf("labels of the template: %v", template.Labels)
	}
	f.until(t, request, v1beta1.RequestReady, metav1.ConditionTrue, v1beta1.ReasonReconciled)
	rendered, findings := templates.Render(&template.Spec, nil, templates.Options{Random: rand.New(rand.NewPCG(1, 2))}) //nolint:gosec // a test
	if len(findings) > 0 || rendered == nil {
		t.Fatalf("findings: %v", findings)
	}
	vm := rendered.VirtualMachine
	if !strings.HasPrefix(vm.Name, "vm-") || vm.Spec.Template.Spec.Domain.Firmware.Serial != "" || len(vm.Spec.DataVolumeTemplates) != 2 {
		t.Errorf("the VM is %+v", vm)
	}
	must(t, f.Client().Delete(t.Context(), template))
	f.gone(t, request)
	await.Until(t, func() error { // the garbage collector deletes the owner before its volumes
		if intermediate, result := f.left(t, request); len(intermediate)+len(result) > 0 {
			return fmt.Errorf("after the template was deleted: %q, %q", intermediate, result)
		}
		return nil
	})
}
