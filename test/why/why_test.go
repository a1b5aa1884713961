// Package why runs commands that only read a cluster on a real API server, with the rights of users: why, migratable, drain-check and
// playground.
package why

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
)

// Nodes have no kubelet: without these plugins they are schedulable, and pods need no service account.
var shared = planes.Shared{Options: func() (controlplane.Options, error) {
	options, err := planes.WithKinds()()
	options.APIServerArgs = []string{"--disable-admission-plugins=TaintNodesByCondition,ServiceAccount"}
	return options, err
}}

func TestMain(m *testing.M) { os.Exit(planes.Only(m, shared.Main)) }

func create(t *testing.T, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
		}
	}
}

// node is one that can run virtual machines.
func node(name, memory string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelArchStable: "amd64", v1.NodeSchedulable: "true", v1.SupportedMachineTypeLabel + "q35": "true", v1.CPUModelLabel + "Haswell": "true",
		}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			"cpu": resource.MustParse("8"), "memory": resource.MustParse(memory), "pods": resource.MustParse("100"), "ephemeral-storage": resource.MustParse("10Gi"),
			"devices.kubevirt.io/kvm": resource.MustParse("100"), "devices.kubevirt.io/tun": resource.MustParse("100"), "devices.kubevirt.io/vhost-net": resource.MustParse("100"),
		}},
	}
}

func instance(namespace, name, on string) *v1.VirtualMachineInstance {
	guest := resource.MustParse("1Gi")
	vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	vmi.Spec.Architecture = "amd64"
	vmi.Spec.Domain.CPU = &v1.CPU{Model: "Haswell"}
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: &guest}
	vmi.Status.Phase, vmi.Status.NodeName = v1.Running, on
	return vmi
}

// launcher is the pod that virt-controller makes, as far as it matters here.
func launcher(vmi *v1.VirtualMachineInstance, memory string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: vmi.Namespace, Name: "virt-launcher-" + vmi.Name, Labels: map[string]string{v1.AppLabel: "virt-launcher", v1.CreatedByLabel: string(vmi.UID)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vmi, v1.VirtualMachineInstanceGroupVersionKind)},
		},
		Spec: corev1.PodSpec{NodeName: vmi.Status.NodeName, Containers: []corev1.Container{{
			Name: "compute", Image: "example.com/virt-launcher", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}},
		}}},
	}
}

// TestPod: explain shows the pod as it is in this namespace, with the rights of the user. There is no network, and no kind of networks.
func TestPod(t *testing.T) {
	plane := shared.Start(t)
	c := plane.Client()
	block := corev1.PersistentVolumeBlock
	create(
		t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "limited"}},
		&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "limited", Name: "memory"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"limits.memory": resource.MustParse("100Gi")}}},
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "limited", Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
			VolumeMode: &block, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "limited", Name: "quotas"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"resourcequotas"}, Verbs: []string{"list"}}}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "limited", Name: "quotas"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "quotas"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "pia"}}},
	)
	const vm = `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: db, namespace: limited}, spec: {runStrategy: Halted, template: {spec: {
		networks: [{name: sea, multus: {networkName: sea}}],
		volumes: [{name: data, persistentVolumeClaim: {claimName: data}}, {name: later, persistentVolumeClaim: {claimName: later}}],
		domain: {memory: {guest: 1Gi}, devices: {interfaces: [{name: sea, bridge: {}}]}}}}}}`
	const known = "assumed: the PersistentVolumeClaim data exists"
	for user, want := range map[string]struct{ has, not []string }{
		"": {[]string{
			"assumed: the PersistentVolumeClaim later does not exist yet; it will have a file system that one node mounts",
			"assumed: the NetworkAttachmentDefinition limited/sea does not exist yet; it will have no device resource",
		}, []string{known, "ResourceQuota", "not read"}},
		"pia": {[]string{known, "not read: you may not list persistentvolumeclaims: claims are not checked"}, []string{"you may not list resourcequotas"}},
	} {
		config := plane.Config()
		if user != "" {
			var err error
			if config, err = plane.UserConfig(user); err != nil {
				t.Fatal(err)
			}
		}
		kubeconfig, err := plane.WriteKubeconfig("pod-"+user, config)
		if err != nil {
			t.Fatal(err)
		}
		got := clitest.Call(t, vm, "explain", "-f", "-", "--from-cluster", "-o", "pod", "--kubeconfig", kubeconfig)
		for _, part := range want.has {
			if !strings.Contains(got.Out, part) {
				t.Errorf("user %q: the output has no %q:\n%s%s", user, part, got.Out, got.ErrOut)
			}
		}
		for _, part := range want.not {
			if strings.Contains(got.Out, part) {
				t.Errorf("user %q: the output has %q:\n%s", user, part, got.Out)
			}
		}
		limited := false // the quota makes KubeVirt add a limit to the container compute
		for line := range strings.Lines(got.Out) {
			fields := strings.Fields(line)
			limited = limited || len(fields) == 4 && fields[0] == "compute" && fields[1] == "memory" && fields[3] != ""
		}
		if !limited {
			t.Errorf("user %q: the memory has no limit:\n%s", user, got.Out)
		}
	}
}

// TestQuota: a quota rejects the pod of a virtual machine, and why says so to its owner, who may read little else.
func TestQuota(t *testing.T) {
	plane := shared.Start(t)
	c := plane.Client()
	always := v1.RunStrategyAlways
	vmi := instance("shop", "db", "")
	vmi.Status.Phase = v1.Pending
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: v1.VirtualMachineSpec{RunStrategy: &always, Template: &v1.VirtualMachineInstanceTemplateSpec{Spec: vmi.Spec}}}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "small"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.memory": resource.MustParse("1Gi")}}}
	own := node("quota-a", "16Gi")
	create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, own, vm, quota)
	t.Cleanup(func() { // it is no target of the other test
		if err := c.Delete(context.WithoutCancel(t.Context()), own); err != nil {
			t.Error(err)
		}
	})
	quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: corev1.ResourceList{"requests.memory": resource.MustParse("0")}}
	if err := c.Status().Update(t.Context(), quota); err != nil { // no controller of quotas runs here
		t.Fatal(err)
	}
	vmi.UID = types.UID("0")
	rejected := c.Create(t.Context(), launcher(vmi, "1500Mi"))
	if rejected == nil || !strings.Contains(rejected.Error(), "exceeded quota: small") {
		t.Fatalf("the API server accepts the pod: %v", rejected)
	}
	vmi.UID = ""
	vmi.Status.Conditions = []v1.VirtualMachineInstanceCondition{{Type: v1.VirtualMachineInstanceSynchronized, Status: corev1.ConditionFalse, Reason: "FailedCreate", Message: rejected.Error()}}
	create(t, c, vmi) // as virt-controller, which does not run, leaves it
	create(
		t, c,
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "owner"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"kubevirt.io"}, Resources: []string{"virtualmachines", "virtualmachineinstances"}, Verbs: []string{"get", "list"}},
			{APIGroups: []string{""}, Resources: []string{"resourcequotas", "limitranges"}, Verbs: []string{"list"}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "owner"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "owner"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "ann"}}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "nodes"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list"}}}},
	)
	config, err := plane.UserConfig("ann")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := plane.WriteKubeconfig("ann", config)
	if err != nil {
		t.Fatal(err)
	}
	got := clitest.Call(t, "", "why", "db", "-n", "shop", "--kubeconfig", kubeconfig)
	if got.Code != clitest.ExitFailed || !strings.Contains(got.ErrOut, "use --nodes FILE") {
		t.Errorf("without permission to list nodes: code %d, %s", got.Code, got.ErrOut)
	}
	create(t, c, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "nodes"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "nodes"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "ann"}}})
	for range 100 {
		if got = clitest.Call(t, "", "why", "db", "-n", "shop", "--kubeconfig", kubeconfig); !strings.Contains(got.ErrOut, "use --nodes FILE") {
			break // the API server has noticed the binding
		}
	}
	for _, part := range []string{
		"VirtualMachine shop/db: the API server does not create its pod: ResourceQuota small: the pod needs 1.31Gi of requests.memory; 0 of 1Gi is used",
		"condition Synchronized of the instance: FailedCreate: pods \"virt-launcher-db\" is forbidden: exceeded quota: small",
		"not read: you may not list pods: nodes count as empty", "not read: you may not list events of the namespace",
	} {
		if !strings.Contains(got.Out, part) {
			t.Errorf("the output has no %q:\n%s%s", part, got.Out, got.ErrOut)
		}
	}
	if got.Code != clitest.ExitFailed {
		t.Errorf("code %d", got.Code)
	}
}

// allocate creates a ResourceClaim whose devices are on a node, as kube-scheduler leaves it.
func allocate(t *testing.T, c client.Client, namespace, name, node string) {
	t.Helper()
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	create(t, c, claim)
	claim.Status.Allocation = &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}}
	if err := c.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
}

// TestDrain: a drain would strand four of six virtual machines.
func TestDrain(t *testing.T) {
	plane := shared.Start(t)
	c := plane.Client()
	create(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "drain"}}, node("drain-a", "16Gi"))
	fast := node("drain-b", "4Gi")
	fast.Labels[v1.CPUTimerLabel+"tsc-frequency"] = "2900000000"
	create(t, c, fast)
	for name, memory := range map[string]string{"fits": "2Gi", "large": "8Gi", "local": "1Gi", "moves": "1Gi", "timed": "1Gi", "wired": "1Gi"} {
		vmi := instance("drain", name, "drain-a")
		switch name {
		case "moves":
			vmi.Status.MigrationState = &v1.VirtualMachineInstanceMigrationState{MigrationUID: "m", TargetNode: "drain-b"}
		case "local":
			vmi.Spec.Volumes = []v1.Volume{{Name: "root", VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "root"}}}}
			vmi.Status.VolumeStatus = []v1.VolumeStatus{{Name: "root", PersistentVolumeClaimInfo: &v1.PersistentVolumeClaimInfo{ClaimName: "root", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}}}
		}
		create(t, c, vmi)
		pod := launcher(vmi, memory)
		if name == "timed" {
			pod.Spec.NodeSelector = map[string]string{"scheduling.node.kubevirt.io/tsc-frequency-2100000000": "true"}
		}
		if name == "wired" {
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "a", ResourceClaimName: new("fpga")}}
			allocate(t, c, "drain", "fpga", "drain-a")
		}
		create(t, c, pod)
	}
	got := clitest.Call(t, "", "drain-check", "node/drain-a", "--kubeconfig", plane.Kubeconfig())
	want := `NAMESPACE  NAME   EVICTION  TO       WHY NOT
drain      fits   None      drain-b  
drain      large  None               drain-b: needs 8Gi of memory; 4Gi of 4Gi is free
drain      local  None               the claim root of the volume root is not ReadWriteMany
drain      moves  None      drain-b  it migrates already to drain-b
drain      timed  None               drain-b: the time stamp counter of the node has 2900000000 Hz, and the guest needs 2100000000 Hz
drain      wired  None               drain-b: the devices of the ResourceClaim fpga are allocated on nodes with metadata.name in drain-a

newest CPU model of all other nodes: Haswell
`
	if got.Out != want || got.Code != clitest.ExitFailed || !strings.Contains(got.ErrOut, "a drain of drain-a would strand 4 virtual machines") {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	got = clitest.Call(t, "", "migratable", "-n", "drain", "-o", "wide", "--kubeconfig", plane.Kubeconfig())
	for _, row := range []string{"fits   drain-a  yes         1", "large  drain-a  no          0", "local  drain-a  no          1", "moves  drain-a  no          1", "timed  drain-a  no          0", "wired  drain-a  no          0"} {
		if !strings.Contains(got.Out, row) {
			t.Errorf("no row %q in\n%s%s", row, got.Out, got.ErrOut)
		}
	}
	for _, c := range []struct{ want, arg string }{{"there is no node gone", "node/gone"}, {`"pod/x": name one node`, "pod/x"}} {
		if got := clitest.Call(t, "", "drain-check", c.arg, "--kubeconfig", plane.Kubeconfig()); !strings.Contains(got.ErrOut, c.want) {
			t.Errorf("%s: %s", c.arg, got.ErrOut)
		}
	}
	if got := clitest.Call(t, "", "migratable", "-A", "-o", "json", "--kubeconfig", plane.Kubeconfig()); got.Code != clitest.ExitOK || strings.Count(got.Out, fmt.Sprintf("%q", "evictionStrategy")) != 6 {
		t.Errorf("code %d\n%s", got.Code, got.Out)
	}
}
