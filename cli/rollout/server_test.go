package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/rollouts"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/crds"
	"github.com/virtward/virtward/test/planes"
)

// pauseAndResume changes the spec of a rollout, by what its status says.
func pauseAndResume(t *testing.T, cluster *controlplane.ControlPlane) {
	t.Helper()
	if err := cluster.InstallVirtwardCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := &v1alpha1.VirtualMachineRollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "larger"}}
	if err := cluster.Client().Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	status := func(phase v1alpha1.Phase, reason, message string) {
		t.Helper()
		if err := cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
			t.Fatal(err)
		}
		r.Status.Phase, r.Status.Finished = phase, nil
		if phase == v1alpha1.PhaseComplete || phase == v1alpha1.PhaseFailed {
			r.Status.Finished, r.Status.ObservedGeneration = &metav1.Time{Time: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}, r.Generation
		}
		meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionPaused, Status: metav1.ConditionStatus(map[bool]string{true: "True", false: "False"}[phase == v1alpha1.PhasePaused]), Reason: reason, Message: message})
		if err := cluster.Client().Status().Update(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	call := func(verb, want string, paused bool, resume int64) {
		t.Helper()
		got := clitest.Call(t, "", "rollout", verb, "larger", "-n", "shop", "--kubeconfig", cluster.Kubeconfig())
		if err := cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
			t.Fatal(err)
		}
		if got.Code != 0 || got.Out != "VirtualMachineRollout shop/larger "+want+"\n" || r.Spec.Paused != paused || int64(r.Spec.Resume) != resume {
			t.Errorf("%s: %d, %q, %s: the spec is %+v", verb, got.Code, got.Out, got.ErrOut, r.Spec)
		}
	}
	status(v1alpha1.PhaseProgressing, v1alpha1.ReasonNotPaused, "")
	call("resume", "is not paused: its phase is Progressing", false, 0)
	call("pause", "paused", true, 0)
	call("pause", "is paused already", true, 0)
	status(v1alpha1.PhasePaused, v1alpha1.ReasonPausedByUser, "spec.paused is true")
	call("resume", "resumed", false, 0)
	status(v1alpha1.PhasePaused, v1alpha1.ReasonPausedByCanary, "the canary is changed")
	call("resume", "resumed", false, 1)
	status(v1alpha1.PhasePaused, v1alpha1.ReasonPausedByFailures, "1 virtual machines failed")
	call("resume", "resumed", false, 2)
	status(v1alpha1.PhasePaused, v1alpha1.ReasonNotAuthorized, "alice may not")
	call("resume", "cannot be resumed: alice may not", false, 2)
	ended := func(verb string, phase v1alpha1.Phase) {
		t.Helper()
		status(phase, v1alpha1.ReasonNotPaused, "")
		before := r.Generation
		got := clitest.Call(t, "", "rollout", verb, "larger", "-n", "shop", "--kubeconfig", cluster.Kubeconfig())
		if err := cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("error: VirtualMachineRollout shop/larger: it ended at 2026-03-04T05:06:07Z, and its phase is %s: there is nothing to %s\n", phase, verb)
		if got.Code != clitest.ExitFailed || got.Out != "" || got.ErrOut != want || r.Generation != before {
			t.Errorf("%s of a rollout that has ended: %d, %q, %q, generation %d", verb, got.Code, got.Out, got.ErrOut, r.Generation)
		}
	}
	ended("pause", v1alpha1.PhaseFailed)
	call("resume", "resumed: the failed virtual machines are tried again", false, 3)
	ended("resume", v1alpha1.PhaseComplete)
	ended("pause", v1alpha1.PhaseComplete)
	if got := clitest.Call(t, "", "rollout", "pause", "none", "larger", "-n", "shop", "--kubeconfig", cluster.Kubeconfig()); got.Code != clitest.ExitFailed || !strings.Contains(got.ErrOut, "VirtualMachineRollout shop/none: ") || !strings.Contains(got.ErrOut, "; VirtualMachineRollout shop/larger: it ended at ") {
		t.Errorf("two rollouts: %d, %s", got.Code, got.ErrOut)
	}
	if got := clitest.Call(t, "", "rollout", "pause", "none", "-n", "shop", "--kubeconfig", cluster.Kubeconfig()); got.Code != clitest.ExitFailed || !strings.Contains(got.ErrOut, "VirtualMachineRollout shop/none: ") {
		t.Errorf("a rollout that does not exist: %d, %s", got.Code, got.ErrOut)
	}
	if got := clitest.Call(t, "", "rollout", "pause"); got.Code == 0 || !strings.Contains(got.ErrOut, "name a VirtualMachineRollout") {
		t.Errorf("without a name: %d, %s", got.Code, got.ErrOut)
	}
	if got := clitest.Call(t, "", "__complete", "rollout", "resume", "-n", "shop", "--kubeconfig", cluster.Kubeconfig(), ""); !strings.HasPrefix(got.Out, "larger\n") {
		t.Errorf("completion: %s", got.Out)
	}
}

// TestServer plans against a real API server: the dry run changes nothing, and a user who may only read gets a plan too.
func TestServer(t *testing.T) {
	definitions, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	served := []string{"kubevirts.kubevirt.io", "virtualmachines.kubevirt.io", "virtualmachineinstances.kubevirt.io"}
	definitions = slices.DeleteFunc(definitions, func(d *apiextensionsv1.CustomResourceDefinition) bool { return !slices.Contains(served, d.Name) })
	cluster := planes.Start(t, controlplane.Options{CRDs: definitions})
	vm := create(t, cluster.Client())

	edit := strings.Replace(manifest("{hostname: web, domain: {cpu: {sockets: 4}}}"), "name: db", "name: db, namespace: shop", 1)
	p := decode(t, plan(t, cluster.Kubeconfig(), edit)).Plans[0]
	hostname, sockets := rollouts.Restart, rollouts.Restart
	takes := map[string]rollouts.Takes{"spec.template.spec.hostname": hostname, "spec.template.spec.domain.cpu.sockets": sockets}
	if len(p.Notes) > 0 || !p.Running || len(p.Changes) != 2 {
		t.Errorf("%+v", p)
	}
	for _, c := range p.Changes {
		if c.Takes != takes[c.Field] {
			t.Errorf("%+v", c)
		}
	}

	after := &v1.VirtualMachine{}
	if err := cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(vm), after); err != nil {
		t.Fatal(err)
	}
	if after.ResourceVersion != vm.ResourceVersion {
		t.Errorf("the VM has changed: %+v", after.Spec.Template.Spec)
	}
	if got := plan(t, cluster.Kubeconfig(), strings.Replace(edit, "{sockets: 4}", "{sockets: many}", 1)); got.Code != clitest.ExitFailed || !strings.Contains(got.ErrOut, "the cluster rejects the change of VirtualMachine shop/db") {
		t.Errorf("an invalid file: %d\n%s", got.Code, got.ErrOut)
	}

	// The change is written, and no process has annotated it: the status compares by itself.
	vm = after.DeepCopy()
	vm.Spec.Template.Spec.Hostname = "web"
	if err := cluster.Client().Update(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	if got := clitest.Call(t, "", "rollout", "status", "-A", "--fail-on", "restart", "--kubeconfig", cluster.Kubeconfig()); got.Code != clitest.ExitFailed || !strings.Contains(got.Out, "hostname") || got.ErrOut != "error: changes of --fail-on: 1 Restart\n" {
		t.Errorf("the status: %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	if got := clitest.Call(t, "", "rollout", "diff", "db", "-n", "shop", "--kubeconfig", cluster.Kubeconfig()); got.Code != clitest.ExitFailed || !strings.Contains(got.Out, "@@ spec.template.spec.hostname: Restart @@\n+web\n") {
		t.Errorf("the difference: %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}

	pauseAndResume(t, cluster)

	reader := readerOf(t, cluster)
	got := plan(t, reader, edit)
	p = decode(t, got).Plans[0]
	if len(p.Changes) != 2 || len(p.Notes) != 1 || !strings.HasPrefix(p.Notes[0], "the dry run is forbidden") {
		t.Errorf("a reader: %+v", p)
	}
	if !strings.HasPrefix(got.ErrOut, "warning: you may not read the KubeVirt resource") {
		t.Errorf("a reader: %s", got.ErrOut)
	}
}

func plan(t *testing.T, kubeconfig, stdin string) clitest.Result {
	t.Helper()
	return clitest.Call(t, stdin, "rollout", "plan", "-f", "-", "-o", "json", "--kubeconfig", kubeconfig)
}

// create creates the objects of the other tests.
func create(t *testing.T, c client.Client) *v1.VirtualMachine {
	t.Helper()
	vm, vmi := &v1.VirtualMachine{}, &v1.VirtualMachineInstance{}
	kubevirt := &v1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Name: "kubevirt", Namespace: "shop"}}
	kubevirt.Spec.WorkloadUpdateStrategy.WorkloadUpdateMethods = []v1.WorkloadUpdateMethod{v1.WorkloadUpdateMethodLiveMigrate}
	for path, into := range map[string]any{vmPath: vm, vmiPath: vmi} {
		if err := yaml.Unmarshal([]byte(objects()[path]), into); err != nil {
			t.Fatal(err)
		}
	}
	vm.UID = ""
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	for _, object := range []client.Object{namespace, kubevirt, vm} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	vmi.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(vm, v1.VirtualMachineGroupVersionKind)}
	started, err := yaml.YAMLToJSON([]byte("{spec: " + spec + "}"))
	if err != nil {
		t.Fatal(err)
	}
	revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: vmi.Status.VirtualMachineRevisionName, Namespace: "shop"}, Revision: 1, Data: runtime.RawExtension{Raw: started}}
	for _, object := range []client.Object{vmi, revision} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return vm
}

// readerOf returns the kubeconfig of a user who may read virtual machines and ControllerRevisions, and nothing else.
func readerOf(t *testing.T, cluster *controlplane.ControlPlane) string {
	t.Helper()
	config, err := cluster.UserConfig("reader")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := cluster.WriteKubeconfig("reader", config)
	if err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Name: "reader", Namespace: "shop"}
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"kubevirt.io"}, Resources: []string{"virtualmachines", "virtualmachineinstances"}, Verbs: []string{"get"}},
			{APIGroups: []string{"apps"}, Resources: []string{"controllerrevisions"}, Verbs: []string{"get"}},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "reader"}},
		},
	} {
		if err := cluster.Client().Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return kubeconfig
}
