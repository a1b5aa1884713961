package audit_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/cli/clitest"
)

func TestAuditGolden(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		code int
	}{
		{name: "audit-now"},
		{name: "audit-with", args: []string{"--with", "../testdata/caps.yaml", "--without", "owners", "--max", "1"}, code: clitest.ExitFailed},
		{name: "audit-mshv", args: []string{"--hypervisor", "mshv"}, code: clitest.ExitFailed},
		{name: "audit-arm64", args: []string{"--arch", "arm64", "--all"}, code: clitest.ExitFailed},
		{name: "audit-nothing", args: []string{"--arch", "amd64"}},
		{name: "audit-broken", args: []string{"--with", "../testdata/policies.yaml"}, code: clitest.ExitFailed},
		{name: "audit-unreadable", args: []string{"-f", "../testdata/unreadable.yaml"}, code: clitest.ExitFailed},
	} {
		for _, output := range []string{"table", "markdown", "json", "yaml", "junit", "sarif", "github"} {
			t.Run(c.name+"/"+output, func(t *testing.T) {
				got := clitest.Call(t, "", append([]string{"audit", "-f", "../testdata/shop.yaml", "-o", output}, c.args...)...)
				if got.Code != c.code {
					t.Errorf("code %d, want %d: %s", got.Code, c.code, got.ErrOut)
				}
				clitest.Golden(t, c.name+"."+output, got.Out)
				complaints := c.name + ".stderr"
				if output != "table" && output != "markdown" {
					complaints = c.name + ".json.stderr"
				}
				clitest.Golden(t, complaints, got.ErrOut)
			})
		}
	}
}

// TestWhatIf assumes one kind of object in each case.
func TestWhatIf(t *testing.T) {
	const instancetype = "---\napiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineClusterInstancetype\nmetadata: {name: u1.medium}\nspec: {cpu: {guest: 2}, memory: {guest: 2Gi}}\n"
	const namespace = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {team: a}}\n"
	const mshv = "---\napiVersion: kubevirt.io/v1\nkind: KubeVirt\nmetadata: {name: k, namespace: kv}\nspec: {configuration: {developerConfiguration: {featureGates: [ConfigurableHypervisor]}, hypervisor: [{name: mshv, hypervisorDevice: mshv, virtType: hyperv}]}}\n"
	for _, c := range []struct {
		name, with           string
		rule, severity, want string
		code                 int
	}{
		{"a new policy", clitest.MemoryPolicy("Deny", ""), "policy/cap", "Deny", "4 new, 0 gone, 0 stay", clitest.ExitFailed},
		{"a new policy that audits", clitest.MemoryPolicy("Audit", ""), "policy/cap", "Audit", "4 new, 0 gone, 0 stay", clitest.ExitOK},
		{"another form of a policy", strings.Replace(clitest.MemoryPolicy("Warn", ""), "name: cap", "name: memory-cap", 1), "policy/memory-cap", "Warn", "2 new, 0 gone, 2 stay", clitest.ExitOK},
		{"an instancetype", instancetype, "policy/memory-cap", "Warn", "0 new, 1 gone, 1 stay", clitest.ExitOK},
		{"a namespace", clitest.MemoryPolicy("Deny", clitest.ForTeamA) + namespace, "policy/cap", "Deny", "3 new, 0 gone, 0 stay", clitest.ExitFailed},
		{"severities", clitest.RuleSettings("s", "Off", "") + strings.Replace(clitest.RuleSettings("t", "Warn", ""), "arm64-disk-bus", "disk-has-volume", 1), "disk-has-volume", "Warn", "1 new, 0 gone, 0 stay", clitest.ExitOK},
		{"defaults of the site", clitest.Policy("named", `enforcement: Deny, validations: [{expression: "!has(vm.spec.schedulerName)", message: m, fieldPath: spec.schedulerName}]`) + clitest.SiteDefaults("s", "kubernetes.io/metadata.name: shop"), "policy/named", "Deny", "3 new, 0 gone, 0 stay", clitest.ExitFailed},
		{"parameters", clitest.MemoryPolicy("Deny", clitest.ParamsFromConfigMap) + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: caps, namespace: lab}\n", "policy/cap", "Deny", "4 new, 0 gone, 0 stay", clitest.ExitFailed},
		{"a hypervisor", mshv, "mshv-cpu-model", "Deny", "1 new, 0 gone, 0 stay", clitest.ExitFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, got := clitest.Audit(t, c.with, "-f", "../testdata/shop.yaml", "--with", "-")
			if row := a.Row(c.rule, c.severity); row != c.want || got.Code != c.code || a.Evaluated != 4 {
				t.Errorf("code %d, want %d; %s has %q, want %q; errors %q\n%s", got.Code, c.code, c.rule, row, c.want, got.ErrOut, got.Out)
			}
		})
	}
}

// TestStoredArchitecture treats stored defaults as defaults, and other values as those of the author.
func TestStoredArchitecture(t *testing.T) {
	const vm = `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"a","resourceVersion":"1"},"spec":{"runStrategy":"Always","template":{"spec":{"architecture":"amd64",
		"domain":{"machine":{"type":"q35"},"memory":{"guest":"1Gi"},"devices":{"disks":[{"name":"r","disk":{"bus":"sata"}}]}},"volumes":[{"name":"r","containerDisk":{"image":"i"}}]}}}}`
	for _, c := range []struct{ name, vm, want string }{
		{"stored", vm, "1 new, 0 gone, 0 stay"},
		{"written", strings.Replace(vm, `,"resourceVersion":"1"`, "", 1), ""},
		{"stored with another one", strings.Replace(strings.Replace(vm, "amd64", "s390x", 1), "q35", "s390-ccw-virtio", 1), ""},
	} {
		a, got := clitest.Audit(t, c.vm, "-f", "-", "--arch", "arm64")
		if row := a.Row("arm64-disk-bus", "Deny"); row != c.want {
			t.Errorf("%s: %q, want %q; errors %q", c.name, row, c.want, got.ErrOut)
		}
		if machine := a.Row("machine-type", "Deny"); machine != "" {
			t.Errorf("%s: the machine type of the old default is evaluated: %s", c.name, machine)
		}
	}
}

func TestAuditErrors(t *testing.T) {
	for _, c := range []struct {
		name, stdin string
		args        []string
		code        int
		want        string
	}{
		{"an argument", "", []string{"vm/a"}, clitest.ExitUsage, `unknown argument "vm/a": use -f for files, and --with for policies: see kubectl virtward audit --help`},
		{"an output", "", []string{"-o", "tap"}, clitest.ExitUsage, `unknown output "tap": the known ones are table, markdown, json, yaml, junit, sarif, github`},
		{"a namespace and all", "", []string{"-A", "-n", "shop"}, clitest.ExitUsage, "--namespace and --all-namespaces exclude each other: see kubectl virtward audit --help"},
		{"less than nothing", "", []string{"--max", "-1"}, clitest.ExitUsage, "--max -1: must be 0 or more"},
		{"--from-cluster without files", "", []string{"--from-cluster"}, clitest.ExitUsage, "--from-cluster requires -f: without -f, the cluster is always read: see kubectl virtward audit --help"},
		{"a hypervisor", "", []string{"--hypervisor", "xen"}, clitest.ExitUsage, `unknown hypervisor "xen": the known ones are hyperv-direct, kvm, mshv`},
		{"an architecture", "", []string{"--arch", "riscv64"}, clitest.ExitUsage, `unknown architecture "riscv64": the known ones are amd64, arm64, s390x`},
		{"a virtual machine as a policy", clitest.VM, []string{"-f", "../testdata/shop.yaml", "--with", "-"}, clitest.ExitFailed, "standard input: document 1: VirtualMachine a: use -f for objects to evaluate, --with is for the configuration"},
		{"an absent policy", clitest.VM, []string{"-f", "-", "--without", "cap"}, clitest.ExitFailed, "--without cap: there is no VirtualMachinePolicy of this name"},
		{"an absent file", clitest.VM, []string{"-f", "-", "--with", "absent.yaml"}, clitest.ExitFailed, "absent.yaml: no such file or directory"},
		{"two KubeVirts", clitest.VM, []string{"-f", "-", "--with", "../testdata/kubevirt-mshv.yaml,../testdata/kubevirt-mshv.yaml"}, clitest.ExitFailed, "../testdata/kubevirt-mshv.yaml: document 1: must be the only KubeVirt object, but ../testdata/kubevirt-mshv.yaml: document 1 is one too"},
		{"a field of another type", strings.Replace(clitest.VM, "1Gi", "lots", 1), []string{"-f", "-"}, clitest.ExitFailed, `standard input: document 1: VirtualMachine a: spec.template.spec.domain.memory.guest: "lots" is not a quantity such as 500m or 4Gi`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Call(t, c.stdin, append([]string{"audit"}, c.args...)...)
			want := clitest.Result{Code: c.code, ErrOut: "error: " + c.want + "\n"}
			if strings.Contains(got.Out, "unreadable: "+c.want+"\n") { // the report has it too
				want.Out = got.Out
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// stored is a VM of the cluster in a namespace.
func stored(namespace, name, memory, more string) string {
	return fmt.Sprintf(`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":%q,"namespace":%q,"resourceVersion":"1"},
		"spec":{"runStrategy":"Always",%s"template":{"spec":{"domain":{"devices":{},"memory":{"guest":%q}}}}}}`, name, namespace, more, memory)
}

func listOf(kind string, items ...string) string {
	return `{"apiVersion":"kubevirt.io/v1","kind":"` + kind + `List","metadata":{},"items":[` + strings.Join(items, ",") + `]}`
}

const (
	vmsPath  = "/apis/kubevirt.io/v1/virtualmachines"
	vmisPath = "/apis/kubevirt.io/v1/virtualmachineinstances"
	capPath  = "../testdata/caps.yaml"
)

// A pool as KubeVirt 1.6 serves it: in this version only.
const (
	olderPools = "/apis/pool.kubevirt.io/v1alpha1/virtualmachinepools"
	olderPool  = `{"apiVersion":"pool.kubevirt.io/v1alpha1","kind":"VirtualMachinePool","metadata":{"name":"web","namespace":"shop"},"spec":{
		"selector":{"matchLabels":{"app":"web"}},"virtualMachineTemplate":{"metadata":{"labels":{"app":"web"}},
		"spec":{"runStrategy":"Always","template":{"metadata":{"labels":{"app":"web"}},"spec":{"domain":{"devices":{},"memory":{"guest":"1Gi"}}}}}}}}`
)

func vmsOf(namespace string) string {
	return "/apis/kubevirt.io/v1/namespaces/" + namespace + "/virtualmachines"
}

func TestAuditOfTheCluster(t *testing.T) {
	const instance = `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","metadata":{"name":"%s","namespace":"shop","labels":{"kubevirt.io/created-by":"u"}%s},"spec":{"domain":{"devices":{},"memory":{"guest":"4Gi"}}}}`
	ofVM := fmt.Sprintf(instance, "large", `,"ownerReferences":[{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","name":"large","uid":"u","controller":true}]`)
	ofSet := fmt.Sprintf(instance, "web-1", `,"ownerReferences":[{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstanceReplicaSet","name":"web","uid":"u","controller":true}]`)
	whole := map[string]string{
		vmsPath:       listOf("VirtualMachine", stored("shop", "small", "1Gi", ""), stored("shop", "large", "4Gi", ""), stored("lab", "huge", "8Gi", "")),
		vmsOf("shop"): listOf("VirtualMachine", stored("shop", "small", "1Gi", ""), stored("shop", "large", "4Gi", "")),
		vmsOf("lab"):  listOf("VirtualMachine", stored("lab", "huge", "8Gi", "")),
		vmisPath:      listOf("VirtualMachineInstance", ofVM, ofSet),
		"/apis/kubevirt.io/v1/namespaces/shop/virtualmachineinstances": listOf("VirtualMachineInstance", ofVM, ofSet),
		"/apis/kubevirt.io/v1/namespaces/lab/virtualmachineinstances":  listOf("VirtualMachineInstance"),
		"/api/v1/namespaces": `{"apiVersion":"v1","kind":"NamespaceList","metadata":{},"items":[{"metadata":{"name":"lab"}},{"metadata":{"name":"shop"}}]}`,
	}
	for _, c := range []struct {
		name      string
		objects   map[string]string
		args      []string
		evaluated int
		row       string
		code      int
		want      []string
	}{
		{name: "all namespaces", evaluated: 4, row: "3 new, 0 gone, 0 stay", code: clitest.ExitFailed},
		{name: "all of them by name", args: []string{"-A"}, evaluated: 4, row: "3 new, 0 gone, 0 stay", code: clitest.ExitFailed},
		{name: "one namespace", args: []string{"-n", "lab"}, evaluated: 1, row: "1 new, 0 gone, 0 stay", code: clitest.ExitFailed},
		{
			name: "no right to list instances", objects: map[string]string{vmisPath: clitest.Forbidden, "/apis/kubevirt.io/v1/namespaces/shop/virtualmachineinstances": clitest.Forbidden, "/apis/kubevirt.io/v1/namespaces/lab/virtualmachineinstances": clitest.Forbidden},
			evaluated: 3, row: "2 new, 0 gone, 0 stay", code: clitest.ExitFailed, want: []string{"virtualmachineinstances are not evaluated: you may not"},
		},
		{
			name: "no right to list everywhere", objects: map[string]string{vmsPath: clitest.Forbidden, vmsOf("lab"): clitest.Forbidden},
			evaluated: 3, row: "2 new, 0 gone, 0 stay", code: clitest.ExitFailed, want: []string{"virtualmachines of 1 of 2 namespaces may not be listed and are not evaluated, the first one lab"},
		},
		{
			name: "no right to list namespaces", objects: map[string]string{vmsPath: clitest.Forbidden, "/api/v1/namespaces": clitest.Forbidden},
			evaluated: 3, row: "2 new, 0 gone, 0 stay", code: clitest.ExitFailed, want: []string{"virtualmachines are evaluated only in the namespace shop: you may not"},
		},
		{
			name: "pools of KubeVirt 1.6", objects: map[string]string{olderPools: listOf("VirtualMachinePool", olderPool)},
			evaluated: 5, row: "3 new, 0 gone, 0 stay", code: clitest.ExitFailed,
		},
		{
			name: "pools of KubeVirt 1.6, without the right to list them everywhere", objects: map[string]string{
				"/apis/pool.kubevirt.io/v1beta1/virtualmachinepools": clitest.Forbidden, olderPools: clitest.Forbidden,
				"/apis/pool.kubevirt.io/v1alpha1/namespaces/lab/virtualmachinepools":  listOf("VirtualMachinePool"),
				"/apis/pool.kubevirt.io/v1alpha1/namespaces/shop/virtualmachinepools": listOf("VirtualMachinePool", olderPool),
			},
			evaluated: 5, row: "3 new, 0 gone, 0 stay", code: clitest.ExitFailed,
		},
		{
			name: "what cannot be evaluated", objects: map[string]string{
				vmsOf("lab"): listOf("VirtualMachine", stored("lab", "huge", "8Gi", ""), stored("lab", "odd", "lots", ""), stored("lab", "b", "1Gi", `"instancetype":{"name":"secret"},`)),
				"/apis/instancetype.kubevirt.io/v1beta1/virtualmachineclusterinstancetypes/secret": clitest.Forbidden,
			}, args: []string{"-n", "lab"},
			evaluated: 1, row: "1 new, 0 gone, 0 stay", code: clitest.ExitFailed,
			want: []string{`VirtualMachine lab/odd: not evaluated: spec.template.spec.domain.memory.guest: "lots" is not a quantity such as 500m or 4Gi`, "VirtualMachine lab/b: not evaluated: "},
		},
		{
			name: "one warning about a missing object", objects: map[string]string{vmsOf("lab"): listOf("VirtualMachine", stored("lab", "a", "1Gi", `"preference":{"name":"p"},`), stored("lab", "b", "1Gi", `"preference":{"name":"p"},`))}, args: []string{"-n", "lab"},
			evaluated: 2, row: "", want: []string{"VirtualMachine lab/a: spec.preference: there is no VirtualMachineClusterPreference p", "(and 1 more virtual machines)"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects := clitest.ClusterObjects()
			maps.Copy(objects, whole)
			maps.Copy(objects, c.objects)
			a, got := clitest.Audit(t, "", append([]string{"--kubeconfig", clitest.APIServer(t, objects), "--with", capPath}, c.args...)...)
			if row := a.Row("policy/memory-cap", "Deny"); row != c.row || a.Evaluated != c.evaluated || got.Code != c.code {
				t.Errorf("code %d, %d evaluated, %q, want %q; errors %s\n%s", got.Code, a.Evaluated, row, c.row, got.ErrOut, got.Out)
			}
			warnings := strings.Join(a.Warnings, "\n")
			for _, want := range c.want {
				if !strings.Contains(warnings, want) || !strings.Contains(got.ErrOut, want) {
					t.Errorf("want %q in the warnings\n%s", want, warnings)
				}
			}
			if len(c.want) == 0 && warnings != "" {
				t.Errorf("there are warnings: %s", warnings)
			}
		})
	}
}

// TestAuditWithoutRights returns an error if nothing can be listed.
func TestAuditWithoutRights(t *testing.T) {
	for name, c := range map[string]struct {
		objects map[string]string
		want    string
	}{
		"no rights":   {map[string]string{vmsPath: clitest.Forbidden, vmisPath: clitest.Forbidden, vmsOf("shop"): clitest.Forbidden, "/apis/kubevirt.io/v1/namespaces/shop/virtualmachineinstances": clitest.Forbidden, "/api/v1/namespaces": clitest.Forbidden}, "error: virtualmachines are not evaluated: you may not\n"},
		"no KubeVirt": {nil, "error: listing virtualmachines: the cluster has no KubeVirt: it is not there\n"},
		"nothing that can be evaluated": {
			map[string]string{vmsPath: listOf("VirtualMachine", stored("lab", "odd", "lots", "")), vmisPath: listOf("VirtualMachineInstance")},
			"error: none of 1 virtual machines could be evaluated: VirtualMachine lab/odd: not evaluated: spec.template.spec.domain.memory.guest: \"lots\" is not a quantity such as 500m or 4Gi\n",
		},
	} {
		got := clitest.Call(t, "", "audit", "--kubeconfig", clitest.APIServer(t, c.objects))
		if got.Code != clitest.ExitFailed || got.ErrOut != c.want || got.Out != "" {
			t.Errorf("%s: code %d, output %q, errors %q, want %q", name, got.Code, got.Out, got.ErrOut, c.want)
		}
	}
}

// pages serves many VMs as an API server does, in pages of the requested size. Once, in the middle, the continue token
// has expired.
func pages(t *testing.T, count int) (kubeconfig string, lists, gets *int) {
	t.Helper()
	lists, gets = new(int), new(int)
	forgotten := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == vmsPath:
			*lists++
			first, _ := strconv.Atoi(r.URL.Query().Get("continue"))
			limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
			if err != nil || limit > 250 {
				t.Errorf("a list without a limit: %s", r.URL.RawQuery)
				return
			}
			if first > count/2 && !forgotten {
				forgotten = true
				w.WriteHeader(http.StatusGone)
				fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Expired","code":410,"metadata":{"continue":"%d"},"message":"too old"}`, first+1)
				return
			}
			var items []string
			for i := first; i < min(first+limit, count); i++ {
				items = append(items, stored("shop", fmt.Sprintf("vm-%05d", i), "4Gi", `"preference":{"name":"p"},`))
			}
			next := ""
			if first+limit < count {
				next = fmt.Sprintf(`"continue":"%d","remainingItemCount":%d`, first+limit, count-first-limit)
			}
			fmt.Fprintf(w, `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineList","metadata":{%s},"items":[%s]}`, next, strings.Join(items, ","))
		case r.URL.Path == vmisPath:
			fmt.Fprint(w, listOf("VirtualMachineInstance"))
		default:
			if strings.Contains(r.URL.Path, "preferences/p") {
				*gets++
			}
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"NotFound","code":404,"message":"it is not there"}`)
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: '" + server.URL + "'}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig, lists, gets
}

// TestAuditPages reads a large cluster in pages, reads a common reference once, reports the progress, and continues
// after an expired token.
func TestAuditPages(t *testing.T) {
	kubeconfig, lists, gets := pages(t, 2301)
	a, got := clitest.Audit(t, "", "--kubeconfig", kubeconfig, "--with", capPath)
	if row := a.Row("policy/memory-cap", "Deny"); a.Evaluated != 2300 || row != "2300 new, 0 gone, 0 stay" || len(a.Violations) != 10 {
		t.Errorf("%d evaluated, %s, %d want: %s", a.Evaluated, row, len(a.Violations), got.ErrOut)
	}
	if *lists != 11 || *gets != 1 {
		t.Errorf("%d lists and %d reads of the preference", *lists, *gets)
	}
	if !strings.Contains(got.ErrOut, "1000 read, 1301 remaining\n") || !strings.Contains(got.ErrOut, "2000 read, 300 remaining\n") {
		t.Errorf("the progress is missing: %s", got.ErrOut)
	}
	if want := "vm-00000"; !strings.Contains(got.ErrOut, "2300 of 2300 virtual machines would be newly rejected, the first one VirtualMachine shop/"+want) {
		t.Errorf("errors %q", got.ErrOut)
	}
}

// A pool is evaluated as the virtual machine that it creates, at the fields of the pool.
func TestAuditOfPools(t *testing.T) {
	const pool = `{"apiVersion":"pool.kubevirt.io/v1beta1","kind":"VirtualMachinePool","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":3,
"selector":{"matchLabels":{"app":"web"}},"virtualMachineTemplate":{"metadata":{"labels":{"app":"web"}},"spec":{"runStrategy":"Always","template":{"metadata":{"labels":{"app":"web"}},
"spec":{"domain":{"memory":{"guest":"16Gi"},"devices":{}}}}}}}}`
	const capped = `{"apiVersion":"policy.virtward.io/v1alpha1","kind":"VirtualMachinePolicy","metadata":{"name":"cap"},"spec":{"enforcement":"Deny","match":{"kinds":["VirtualMachinePool"]},
"validations":[{"expression":"quantity(vm.spec.domain.memory.guest).compareTo(quantity('8Gi')) <= 0","message":"too much","fieldPath":"spec.domain.memory.guest"}]}}`
	dir := t.TempDir()
	for name, text := range map[string]string{"pool.json": pool, "cap.json": capped, "odd.json": strings.ReplaceAll(pool, "virtualMachineTemplate", "other")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := clitest.Call(t, "", "audit", "-f", filepath.Join(dir, "pool.json"), "--with", filepath.Join(dir, "cap.json"))
	for _, want := range []string{"VirtualMachinePool shop/web", "policy/cap", "spec.virtualMachineTemplate.spec.template.spec.domain.memory.guest", "too much"} {
		if got.Code != 1 || !strings.Contains(got.Out, want) {
			t.Errorf("%d: nothing of %q in:\n%s%s", got.Code, want, got.Out, got.ErrOut)
		}
	}
	got = clitest.Call(t, "", "audit", "-f", filepath.Join(dir, "odd.json"), "--with", filepath.Join(dir, "cap.json"))
	if want := "set-template-required"; !strings.Contains(got.Out, want) {
		t.Errorf("nothing of %q in:\n%s%s", want, got.Out, got.ErrOut)
	}
	got = clitest.Call(t, "", "explain", "-f", filepath.Join(dir, "pool.json"), "-f", "../testdata/vm.yaml")
	if want := "# VirtualMachinePool shop/web on kvm/amd64"; got.Code != 0 || !strings.Contains(got.Out, want) {
		t.Errorf("%d: nothing of %q in:\n%s%s", got.Code, want, got.Out, got.ErrOut)
	}
}
