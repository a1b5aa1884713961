package controlplane

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/crds"
)

// readyBudget is how long a start may take on a busy machine with two cores.
const readyBudget = time.Minute

func TestControlPlane(t *testing.T) {
	skipShort(t)
	begin := time.Now()
	c, err := Start(t.Context(), Options{Parent: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	t.Logf("ready after %s", time.Since(begin).Round(10*time.Millisecond))
	if took := time.Since(begin); took > readyBudget {
		t.Errorf("the control plane took %s to be ready, more than %s", took, readyBudget)
	}

	t.Run("kubectl applies a VM and shows it", func(t *testing.T) { testKubectl(t, c) })
	t.Run("short names and subresources are KubeVirt's", func(t *testing.T) { testDefinitions(t, c) })
	t.Run("unknown fields are pruned", func(t *testing.T) { testPruning(t, c) })
	t.Run("a user may do what RBAC allows", func(t *testing.T) { testUser(t, c) })
	t.Run("a service account may do what RBAC allows", func(t *testing.T) { testServiceAccount(t, c) })
	t.Run("an owned object is collected", func(t *testing.T) { testGarbageCollection(t, c) })
	t.Run("a namespace is deleted with what it holds", func(t *testing.T) { testNamespaceDeletion(t, c) })
	t.Run("an old version is served and warns", func(t *testing.T) { testLegacyVersion(t, c) })
	t.Run("the variant carries the seed's list", func(t *testing.T) { testSeedVariant(t, c) })
	t.Run("the offline validation agrees with the schemas", func(t *testing.T) { testSchemas(t, c) })
	t.Run("the schemas of the cluster decide", func(t *testing.T) { testInstalledSchemas(t, c) })
	t.Run("metrics are summed", func(t *testing.T) { testMetric(t, c) })
	t.Run("a restarted API server has its port and its objects", func(t *testing.T) { testAPIServerRestart(t, c) })
	t.Run("a stop leaves nothing", func(t *testing.T) { testStop(t, c) })
}

const plainVM = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: plain, namespace: default}
spec:
  runStrategy: Halted
  template:
    spec:
      domain:
        devices: {}
        memory: {guest: 1Gi}
`

// kubectl runs kubectl as an admin, and returns its output.
func kubectl(t *testing.T, c *ControlPlane, input string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.binary(components(), "kubectl"), args...)
	cmd.Env = append(c.environment(), "KUBECONFIG="+c.Kubeconfig())
	cmd.Stdin = strings.NewReader(input)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

func testKubectl(t *testing.T, c *ControlPlane) {
	if got, want := kubectl(t, c, plainVM, "apply", "-f", "-"), "virtualmachine.kubevirt.io/plain created\n"; got != want {
		t.Errorf("kubectl apply printed %q, want %q", got, want)
	}
	header := strings.Fields(strings.SplitN(kubectl(t, c, "", "get", "vm"), "\n", 2)[0])
	if want := []string{"NAME", "AGE", "STATUS", "READY"}; !slices.Equal(header, want) {
		t.Errorf("kubectl get vm shows the columns %v, want %v", header, want)
	}
	if got, want := kubectl(t, c, "", "version"), "Server Version: "+built(t); !strings.Contains(got, want) {
		t.Errorf("kubectl version printed %q, want %q in it", got, want)
	}
}

// built is the version of Kubernetes in the module that the components are built from.
func built(t *testing.T) string {
	t.Helper()
	file := map[string]string{"sandbox": "go.mod", "oldest": "oldest.mod"}[components()]
	data, err := os.ReadFile(filepath.Join("..", "sandbox", file))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\tk8s\.io/kubernetes (v\S+)$`).FindSubmatch(data)
	if found == nil {
		t.Fatalf("%s has no version of Kubernetes", file)
	}
	return string(found[1])
}

func testDefinitions(t *testing.T, c *ControlPlane) {
	listed := kubectl(t, c, "", "api-resources", "--no-headers", "-o", "wide")
	for _, want := range []string{"vm,vms", "vmi,vmis", "kv,kvs", "vminstancetype,vminstancetypes,vmf,vmfs", "dv,dvs", "das", "vmsnapshot,vmsnapshots"} {
		if !strings.Contains(listed, " "+want+" ") {
			t.Errorf("no resource has the short names %s", want)
		}
	}
	raw := kubectl(t, c, "", "get", "--raw", "/apis/kubevirt.io/v1")
	for resource, want := range map[string]bool{
		"virtualmachines/status": true, "virtualmachineinstances/status": false, "kubevirts/status": true,
	} {
		if got := strings.Contains(raw, `"name":"`+resource+`"`); got != want {
			t.Errorf("resource %s served: %t, want %t", resource, got, want)
		}
	}
}

func testPruning(t *testing.T, c *ControlPlane) {
	vm := newVM("pruned")
	if err := unstructured.SetNestedField(vm.Object, "x", "spec", "template", "spec", "domain", "nonsense"); err != nil {
		t.Fatal(err)
	}
	if err := c.Client().Create(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	if _, found, _ := unstructured.NestedString(vm.Object, "spec", "template", "spec", "domain", "nonsense"); found {
		t.Error("spec.template.spec.domain.nonsense was kept")
	}
}

func newVM(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubevirt.io/v1",
		"kind":       "VirtualMachine",
		"metadata":   map[string]any{"name": name, "namespace": "default"},
		"spec": map[string]any{
			"runStrategy": "Halted",
			"template": map[string]any{"spec": map[string]any{"domain": map[string]any{
				"devices": map[string]any{}, "memory": map[string]any{"guest": "1Gi"},
			}}},
		},
	}}
}

func clientFor(t *testing.T, config *rest.Config, err error) client.Client {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	made, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// bindView lets a subject read VMs in the namespace default.
func bindView(t *testing.T, c *ControlPlane, subject rbacv1.Subject) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: "default", Name: "view-vms-" + strings.ToLower(subject.Name)}
	objects := []client.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"kubevirt.io"}, Resources: []string{"virtualmachines"}, Verbs: []string{"get", "list"},
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects:   []rbacv1.Subject{subject},
		},
	}
	for _, object := range objects {
		if err := c.Client().Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// assertViewer checks that user reads VMs and is rejected the rest, by name.
func assertViewer(t *testing.T, viewer client.Client, user string) {
	t.Helper()
	eventually(t, "the binding takes effect", func(ctx context.Context) error {
		return viewer.List(ctx, &kubevirtv1.VirtualMachineList{}, client.InNamespace("default"))
	})
	err := viewer.Create(t.Context(), newVM("not-allowed"))
	want := `virtualmachines.kubevirt.io is forbidden: User "` + user + `" cannot create resource "virtualmachines" in API group "kubevirt.io" in the namespace "default"`
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("creating a VM: %v, want %s", err, want)
	}
}

func testUser(t *testing.T, c *ControlPlane) {
	bindView(t, c, rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "viewers"})
	config, err := c.UserConfig("jane", "viewers")
	assertViewer(t, clientFor(t, config, err), "jane")
}

func testServiceAccount(t *testing.T, c *ControlPlane) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "robot"}}
	if err := c.Client().Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	bindView(t, c, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "robot"})
	config, err := c.ServiceAccountConfig(t.Context(), "default", "robot")
	assertViewer(t, clientFor(t, config, err), "system:serviceaccount:default:robot")

	_, err = c.ServiceAccountConfig(t.Context(), "default", "missing")
	if want := `requesting a token of service account default/missing: serviceaccounts "missing" not found`; err == nil || err.Error() != want {
		t.Errorf("a token for an account that does not exist: %v, want %s", err, want)
	}
}

func testGarbageCollection(t *testing.T, c *ControlPlane) {
	owner := newVM("owner")
	if err := c.Client().Create(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	owned := &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "owned",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kubevirtv1.VirtualMachineGroupVersionKind)},
	}}
	if err := c.Client().Create(t.Context(), owned); err != nil {
		t.Fatal(err)
	}
	if err := c.Client().Delete(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, c, owned)
}

func testNamespaceDeletion(t *testing.T, c *ControlPlane) {
	if err := c.EnsureNamespace(t.Context(), "doomed"); err != nil {
		t.Fatal(err)
	}
	vm := newVM("inside")
	vm.SetNamespace("doomed")
	if err := c.Client().Create(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed"}}
	if err := c.Client().Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	eventuallyGone(t, c, namespace)
}

func eventuallyGone(t *testing.T, c *ControlPlane, object client.Object) {
	t.Helper()
	eventually(t, object.GetName()+" is gone", func(ctx context.Context) error {
		err := c.Client().Get(ctx, client.ObjectKeyFromObject(object), object)
		if err == nil {
			return os.ErrExist
		}
		return client.IgnoreNotFound(err)
	})
}

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

func testLegacyVersion(t *testing.T, c *ControlPlane) {
	got := kubectl(t, c, strings.NewReplacer("kubevirt.io/v1", "kubevirt.io/v1alpha3", "name: plain", "name: legacy").Replace(plainVM), "apply", "-f", "-")
	want := "Warning: kubevirt.io/v1alpha3 is now deprecated and will be removed in a future release.\nvirtualmachine.kubevirt.io/legacy created\n"
	if got != want {
		t.Errorf("kubectl apply printed %q, want %q", got, want)
	}
}

func testSeedVariant(t *testing.T, c *ControlPlane) {
	variant, err := crds.Variant(crds.SeedHypervisor)
	if err != nil {
		t.Fatal(err)
	}
	resource := func(name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
			"metadata": map[string]any{"name": name, "namespace": "default"},
			"spec": map[string]any{"configuration": map[string]any{"hypervisor": []any{
				map[string]any{"name": "mshv", "hypervisorDevice": "devices.kubevirt.io/mshv", "virtType": "hyperv"},
				map[string]any{"name": "kvm"},
			}}},
		}}
	}
	length := func(object *unstructured.Unstructured) int {
		list, _, _ := unstructured.NestedSlice(object.Object, "spec", "configuration", "hypervisor")
		return len(list)
	}
	before := resource("before")
	if err := c.Client().Create(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	if got := length(before); got != 0 {
		t.Errorf("KubeVirt's own definition kept %d entries of the seed's list, want 0", got)
	}
	if err := c.InstallCRDs(t.Context(), variant); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the variant is served", func(ctx context.Context) error {
		after := resource("after")
		if err := c.Client().Create(ctx, after, client.DryRunAll); err != nil {
			return err
		}
		if got := length(after); got != 2 {
			return strconv.ErrRange
		}
		return nil
	})
}

func testMetric(t *testing.T, c *ControlPlane) {
	got, err := c.Metric(t.Context(), "apiserver_request_total", map[string]string{"verb": "POST", "resource": "virtualmachines", "code": "201"})
	if err != nil || got < 3 {
		t.Errorf("apiserver_request_total of created VMs is %v (%v), want at least 3", got, err)
	}
	none, err := c.Metric(t.Context(), "apiserver_admission_webhook_fail_open_count", map[string]string{"name": "none"})
	if err != nil || none != 0 {
		t.Errorf("calls of a webhook that does not exist: %v (%v), want 0", none, err)
	}
}

func testAPIServerRestart(t *testing.T, c *ControlPlane) {
	before := c.Processes()["kube-apiserver"]
	kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kept"}}
	if err := c.Client().Create(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := c.RestartAPIServer(t.Context(), "--event-ttl=59m"); err != nil {
		t.Fatal(err)
	}
	t.Logf("restarted after %s", time.Since(begin).Round(10*time.Millisecond))
	if after := c.Processes()["kube-apiserver"]; after == 0 || after == before {
		t.Errorf("process %d after %d", after, before)
	}
	if err := c.Client().Get(t.Context(), client.ObjectKeyFromObject(kept), kept); err != nil {
		t.Error(err)
	}
	if args := c.apiServer.args; args[len(args)-1] != "--event-ttl=59m" {
		t.Errorf("arguments %q", args)
	}
}

func testStop(t *testing.T, c *ControlPlane) {
	ids, folder := c.Processes(), c.Dir()
	for name, pid := range ids {
		t.Logf("%s: %s", name, residentSize(t, pid))
	}
	if len(ids) != 3 {
		t.Errorf("%d processes run, want 3: %v", len(ids), ids)
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	for name, pid := range ids {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("%s (process %d) still runs", name, pid)
		}
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("%s is still there (%v)", folder, err)
	}
	if err := c.Stop(); err != nil {
		t.Errorf("a second stop: %v", err)
	}
}

// A parent that dies at once leaves no process, and the next start removes its folder.
func TestCrashOfTheParent(t *testing.T) {
	skipShort(t)
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills children with their parent")
	}
	if parent := os.Getenv("SANDBOX_CRASH"); parent != "" {
		crash(t, parent)
	}
	parent := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCrashOfTheParent$", "-test.v")
	cmd.Env = append(os.Environ(), "SANDBOX_CRASH="+parent)
	output, _ := cmd.CombinedOutput() // it was killed
	folders, err := filepath.Glob(filepath.Join(parent, homePrefix+"*"))
	if err != nil || len(folders) != 1 {
		t.Fatalf("the crashed parent left %v (%v), want one folder; it said:\n%s", folders, err, output)
	}
	ids, err := os.ReadFile(filepath.Join(folders[0], "ids"))
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for id := range bytes.FieldsSeq(ids) {
		pid, _ := strconv.Atoi(string(id))
		eventually(t, "process "+string(id)+" is gone", func(context.Context) error {
			if running(pid) {
				return os.ErrExist
			}
			return nil
		})
	}
	sweep(parent)
	if _, err := os.Stat(folders[0]); !os.IsNotExist(err) {
		t.Errorf("the sweep left %s (%v)", folders[0], err)
	}
}

// crash starts a control plane, writes the ids of its processes, and kills itself.
func crash(t *testing.T, parent string) {
	c, err := Start(t.Context(), Options{Parent: parent, CRDs: none})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, pid := range c.Processes() {
		ids = append(ids, strconv.Itoa(pid))
	}
	if _, err := c.home.write("ids", []byte(strings.Join(ids, " "))); err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// running reports whether a process runs, and is not a zombie.
func running(pid int) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	return !bytes.Contains(status, []byte(") Z "))
}

func residentSize(t *testing.T, pid int) string {
	t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmRSS:") {
			return strings.Join(strings.Fields(line), " ")
		}
	}
	return "unknown"
}
