package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
)

// clusterResources are where the objects of testdata/shop.yaml are stored.
var clusterResources = map[string]string{
	"VirtualMachine": "virtualmachines", "VirtualMachineInstance": "virtualmachineinstances", "VirtualMachineClusterInstancetype": "virtualmachineclusterinstancetypes", apikinds.VirtualMachinePolicy: "virtualmachinepolicies",
}

// populate creates the objects of a file.
func populate(t *testing.T, client dynamic.Interface, file string) {
	t.Helper()
	all, err := manifests.ReadAll(t.Context(), []string{file}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		resource := d.Object.GroupVersionKind().GroupVersion().WithResource(clusterResources[d.Object.GetKind()])
		if _, err := client.Resource(resource).Namespace(d.Object.GetNamespace()).Create(t.Context(), d.Object, metav1.CreateOptions{}); err != nil {
			t.Fatalf("%s: %v", d.Location(), err)
		}
	}
}

// kubeconfigOf writes a kubeconfig for a user, in the namespace shop.
func kubeconfigOf(t *testing.T, config *rest.Config) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "c",
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u", Namespace: "shop"}},
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: config.Host, CertificateAuthorityData: config.CAData, CertificateAuthority: config.CAFile}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {
			Token: config.BearerToken, ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, ClientCertificate: config.CertFile, ClientKey: config.KeyFile,
		}},
	}, file)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestClusterAudit audits, and applies policies to, a real API server.
func TestClusterAudit(t *testing.T) {
	cluster := planes.Start(t, controlplane.Options{})
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	admin := kubeconfigOf(t, cluster.Config())
	ask := func(args ...string) clitest.Result {
		t.Helper()
		return clitest.Call(t, "", append(args, "--kubeconfig", admin)...)
	}

	// Before Virtward is installed, policies cannot be applied, but they can be tried.
	for _, namespace := range []string{"shop", "lab"} {
		if err := cluster.EnsureNamespace(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
	}
	if got := ask("policy", "apply", "-f", "testdata/caps.yaml"); got.Code != clitest.ExitFailed || !strings.Contains(got.ErrOut, "error: the cluster has no VirtualMachinePolicy: Virtward is not installed there\n") {
		t.Errorf("without Virtward: code %d, errors %q", got.Code, got.ErrOut)
	}
	if err := cluster.InstallVirtwardCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	populate(t, client, "testdata/shop.yaml")

	t.Run("audit", func(t *testing.T) {
		a, got := clitest.Audit(t, "", "--kubeconfig", admin, "--with", "testdata/caps.yaml", "--without", "owners")
		want := map[string]string{"Deny": "2 new, 0 gone, 0 stay", "Warn": "0 new, 2 gone, 0 stay"}
		for severity, row := range want {
			if r := a.Row("policy/memory-cap", severity); r != row {
				t.Errorf("memory-cap (%s): %q, want %q", severity, r, row)
			}
		}
		if r := a.Row("policy/owners", "Audit"); r != "0 new, 3 gone, 0 stay" || a.Evaluated != 4 || got.Code != clitest.ExitFailed {
			t.Errorf("owners: %q, %d evaluated, code %d: %s", r, a.Evaluated, got.Code, got.ErrOut)
		}
	})
	t.Run("labels", func(t *testing.T) {
		if a, got := clitest.Audit(t, "", "--kubeconfig", admin, "-l", "owner=ann"); a.Evaluated != 1 {
			t.Errorf("audit: %d evaluated, code %d: %s", a.Evaluated, got.Code, got.ErrOut)
		}
		got := ask("explain", "vm", "-l", "owner=ann", "-n", "shop", "-o", "table")
		if !strings.HasPrefix(got.Out, "VirtualMachine shop/small on ") || strings.Count("\n"+got.Out, "\nVirtualMachine") != 1 {
			t.Errorf("explain: code %d, errors %q, output\n%s", got.Code, got.ErrOut, got.Out)
		}
		if got := ask("explain", "vm", "-A", "-o", "table"); strings.Count("\n"+got.Out, "\nVirtualMachine ") != 3 || !strings.Contains(got.Out, "VirtualMachine lab/old on ") {
			t.Errorf("explain -A: code %d, errors %q, output\n%s", got.Code, got.ErrOut, got.Out)
		}
	})
	t.Run("rights of one's own", func(t *testing.T) { testRights(t, cluster, client) })
	t.Run("dry run", func(t *testing.T) {
		got := ask("policy", "apply", "--dry-run", "-f", "testdata/caps.yaml")
		for _, want := range []string{"policy/memory-cap  Deny      2    0     0\n", "policy/memory-cap  Warn      0    2     0\n", "what if: -f testdata/caps.yaml\n"} {
			if !strings.Contains(got.Out, want) {
				t.Errorf("the output lacks %q:\n%s", want, got.Out)
			}
		}
		if strings.Contains(got.Out, "disk-has-volume") || strings.Contains(got.Out, "owners") {
			t.Errorf("it shows more than the policy's findings:\n%s", got.Out)
		}
		if got.Code != clitest.ExitFailed || !strings.Contains(got.ErrOut, "use --force-conflicts to take over the fields; 2 of 4 virtual machines would be newly rejected, the first one VirtualMachine shop/large by policy/memory-cap at spec.instancetype.name\n") {
			t.Errorf("code %d, errors %q", got.Code, got.ErrOut)
		}
		if forced := ask("policy", "apply", "--dry-run", "-f", "testdata/caps.yaml", "--force-conflicts"); !strings.Contains(forced.ErrOut, "virtualmachinepolicy.policy.virtward.io/memory-cap applied (server dry run)\n") {
			t.Errorf("by force: errors %q", forced.ErrOut)
		}
		if now := enforcementOf(t, client, "memory-cap"); now != "Warn" {
			t.Errorf("the policy was changed: it is %s", now)
		}
	})
	t.Run("apply", func(t *testing.T) { testApply(t, client, ask) })
	t.Run("install", func(t *testing.T) { testInstall(t, client, ask) })
}

// testRights audits as a user with few permissions.
func testRights(t *testing.T, cluster *controlplane.ControlPlane, client dynamic.Interface) {
	for _, object := range []any{
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "shop"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"kubevirt.io"}, Resources: []string{"virtualmachines"}, Verbs: []string{"list"}}}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "shop"}, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "r"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "jane", APIGroup: "rbac.authorization.k8s.io"}}},
	} {
		var err error
		switch o := object.(type) {
		case *rbacv1.Role:
			err = cluster.Client().Create(t.Context(), o)
		case *rbacv1.RoleBinding:
			err = cluster.Client().Create(t.Context(), o)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	config, err := cluster.UserConfig("jane")
	if err != nil {
		t.Fatal(err)
	}
	kubevirt := filepath.Join(t.TempDir(), "kubevirt.yaml")
	if err := os.WriteFile(kubevirt, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, got := clitest.Audit(t, "", "--kubeconfig", kubeconfigOf(t, config), "--kubevirt", kubevirt, "--with", "testdata/caps.yaml")
	if a.Evaluated != 1 || a.NotEvaluated != 1 { // the large one, whose instancetype may not be read
		t.Errorf("%d evaluated, %d not: %s", a.Evaluated, a.NotEvaluated, got.ErrOut)
	}
	said := strings.Join(append(a.Warnings, a.Notes...), "\n")
	for _, want := range []string{
		"virtualmachines are evaluated only in the namespace shop: ", "virtualmachineinstances are not evaluated: ", "VirtualMachine shop/large: not evaluated: ",
		"RuleSettings, VirtualMachineDefaults, VirtualMachinePolicy of the cluster are not considered: you may not list them",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("want %q in\n%s", want, said)
		}
	}
}

func enforcementOf(t *testing.T, client dynamic.Interface, name string) string {
	t.Helper()
	object, err := client.Resource(offline.Resources[apikinds.VirtualMachinePolicy]).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	spec, _ := object.Object["spec"].(map[string]any)
	enforcement, _ := spec["enforcement"].(string)
	return enforcement
}

// testApply applies policies, one of which has another field manager.
func testApply(t *testing.T, client dynamic.Interface, ask func(...string) clitest.Result) {
	got := ask("policy", "apply", "-f", "testdata/caps.yaml")
	if got.Code != clitest.ExitFailed || !strings.Contains(got.ErrOut, "use --force-conflicts to take over the fields") || enforcementOf(t, client, "memory-cap") != "Warn" {
		t.Errorf("fields of another manager: code %d, errors %q", got.Code, got.ErrOut)
	}
	got = ask("policy", "apply", "-f", "testdata/caps.yaml", "--force-conflicts")
	if got.Code != clitest.ExitOK || got.Out != "virtualmachinepolicy.policy.virtward.io/memory-cap applied\n" || enforcementOf(t, client, "memory-cap") != "Deny" {
		t.Errorf("by force: code %d, output %q, errors %q", got.Code, got.Out, got.ErrOut)
	}
	if want := "note: testdata/caps.yaml: document 3: skipped RuleSettings strict: it is not a policy\n"; !strings.Contains(got.ErrOut, want) {
		t.Errorf("errors %q, want %q", got.ErrOut, want)
	}
	if again := ask("policy", "apply", "-f", "testdata/caps.yaml"); again.Code != clitest.ExitOK {
		t.Errorf("again: code %d, errors %q", again.Code, again.ErrOut)
	}
	got = ask("policy", "apply", "-f", "testdata/policies.yaml")
	if want := "error: testdata/policies.yaml: document 5: VirtualMachinePolicy misspelt is broken: nothing was applied\n"; got.Code != clitest.ExitFailed || !strings.HasSuffix(got.ErrOut, want) || !strings.Contains(got.ErrOut, "line 56: spec.validations[0].expression:2:8: undefined field 'domian'") {
		t.Errorf("broken: code %d, errors %q", got.Code, got.ErrOut)
	}
	if _, err := client.Resource(offline.Resources[apikinds.VirtualMachinePolicy]).Get(t.Context(), "no-sata", metav1.GetOptions{}); err == nil {
		t.Error("a policy was applied beside one that is broken")
	}
}

// testInstall installs a policy of the library, and once more with another enforcement.
func testInstall(t *testing.T, client dynamic.Interface, ask func(...string) clitest.Result) {
	state := func() string {
		object, err := client.Resource(offline.Resources[apikinds.VirtualMachinePolicy]).Get(t.Context(), "vcpu-cap", metav1.GetOptions{})
		if err != nil {
			return "none"
		}
		spec, _ := object.Object["spec"].(map[string]any)
		params, _ := spec["params"].(map[string]any)
		values, err := json.Marshal(params["values"])
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%v %s", spec["enforcement"], values)
	}
	for _, c := range []struct {
		args []string
		code int
		// out and errOut are parts of what is printed.
		out, errOut, state string
	}{
		{[]string{"--dry-run", "--enforcement", "Deny", "--params", "max=1"}, clitest.ExitFailed, "policy/vcpu-cap  Deny      1    0     0\n", "virtualmachinepolicy.policy.virtward.io/vcpu-cap applied (server dry run)\n", "none"},
		{[]string{"--params", "max=lots"}, clitest.ExitFailed, "", "the library: VirtualMachinePolicy vcpu-cap is broken: nothing was applied\n", "none"},
		{[]string{"--params", "max=2"}, clitest.ExitOK, "vcpu-cap applied\n", "note: the enforcement is Audit: findings appear only in reports", `Audit {"max":2}`},
		{[]string{"--enforcement", "Warn"}, clitest.ExitOK, "vcpu-cap applied\n", "", `Warn {"max":2}`},
		{[]string{"--params", "max=4"}, clitest.ExitOK, "vcpu-cap applied\n", "", `Warn {"max":4}`},
	} {
		got := ask(append([]string{"policy", "install", "vcpu-cap"}, c.args...)...)
		if got.Code != c.code || !strings.Contains(got.Out, c.out) || !strings.Contains(got.ErrOut, c.errOut) {
			t.Errorf("%v: code %d, output %q, errors %q", c.args, got.Code, got.Out, got.ErrOut)
		}
		if s := state(); s != c.state {
			t.Errorf("%v: it is %s, want %s", c.args, s, c.state)
		}
	}
}
