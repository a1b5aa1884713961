package explain_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/cli/clitest"
)

// outputs are the values of --output.
var outputs = []string{"yaml", "table", "json", "junit", "sarif", "github"}

func TestExplainGolden(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		code int
	}{
		{name: "vmi", args: []string{"-f", "../testdata/vmi.yaml"}},
		{name: "vmi-arm64", args: []string{"-f", "../testdata/vmi.yaml", "--arch", "arm64"}},
		{name: "vmi-mshv", args: []string{"-f", "../testdata/vmi.yaml", "--kubevirt", "../testdata/kubevirt-mshv.yaml"}},
		{name: "vmi-hyperv-direct-s390x", args: []string{"-f", "../testdata/vmi.yaml", "--hypervisor", "hyperv-direct", "--arch", "s390x"}},
		{name: "vm", args: []string{"-f", "../testdata/vm.yaml", "--instancetype", "../testdata/u1.yaml", "--preference", "../testdata/fedora.yaml"}},
		{name: "vm-without-instancetype", args: []string{"-f", "../testdata/vm.yaml"}},
		{name: "many", args: []string{"-f", "../testdata/many.yaml", "--unknown-fields", "warn"}},
		{name: "unknown", args: []string{"-f", "../testdata/unknown.yaml"}, code: clitest.ExitFailed},
		{name: "conflict", args: []string{"-f", "../testdata/conflict.yaml", "--instancetype", "../testdata/u1.yaml"}, code: clitest.ExitFailed},
		{name: "rejected", args: []string{"-f", "../testdata/rejected.yaml"}, code: clitest.ExitFailed},
		{name: "rejected-by-preference", args: []string{"-f", "../testdata/rejected-by-preference.yaml"}, code: clitest.ExitFailed},
		{name: "rejected-json", args: []string{"-f", "../testdata/rejected.json"}, code: clitest.ExitFailed},
		{name: "policies", args: []string{"-f", "../testdata/vm.yaml", "--instancetype", "../testdata/u1.yaml", "-f", "../testdata/policies.yaml"}, code: clitest.ExitFailed},
		{name: "settings", args: []string{"-f", "../testdata/rejected.yaml", "-f", "../testdata/settings.yaml"}, code: clitest.ExitFailed},
		{name: "unreadable", args: []string{"-f", "../testdata/unreadable.yaml"}, code: clitest.ExitFailed},
	} {
		for _, output := range outputs {
			t.Run(c.name+"/"+output, func(t *testing.T) {
				got := clitest.Call(t, "", append([]string{"explain", "-o", output}, c.args...)...)
				if got.Code != c.code {
					t.Errorf("code %d, want %d", got.Code, c.code)
				}
				clitest.Golden(t, c.name+"."+output, got.Out)
				complaints := c.name + ".stderr"
				if output != "yaml" && output != "table" {
					complaints = c.name + ".json.stderr" // all that the others say in the document
				}
				clitest.Golden(t, complaints, got.ErrOut)
			})
		}
	}
}

// TestYAMLIsTheEffectiveObject: without its comments, the YAML is the JSON.
func TestYAMLIsTheEffectiveObject(t *testing.T) {
	args := []string{"explain", "-f", "../testdata/vm.yaml", "--instancetype", "../testdata/u1.yaml", "--preference", "../testdata/fedora.yaml", "-o"}
	var fromYAML any
	if err := yaml.Unmarshal([]byte(clitest.Call(t, "", append(args, "yaml")...).Out), &fromYAML); err != nil {
		t.Fatal(err)
	}
	var explanation map[string]any
	if err := json.Unmarshal([]byte(clitest.Call(t, "", append(args, "json")...).Out), &explanation); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(explanation["effective"], fromYAML); diff != "" {
		t.Errorf("(-json +yaml):\n%s", diff)
	}
}

// TestExplainTwice: explaining an effective object fills no more fields.
func TestExplainTwice(t *testing.T) {
	once := clitest.Call(t, "", "explain", "-f", "../testdata/vmi.yaml")
	twice := clitest.Call(t, once.Out, "explain", "-f", "-", "-o", "table")
	if !strings.HasSuffix(twice.Out, "\nNo field was filled.\n") || twice.Code != clitest.ExitOK {
		t.Errorf("code %d, output:\n%s", twice.Code, twice.Out)
	}
}

func TestExplainErrors(t *testing.T) {
	const head = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a}\n"
	for _, c := range []struct {
		name, stdin string
		args        []string
		want        string
	}{
		{name: "missing file", args: []string{"-f", "../testdata/absent.yaml"}, want: "../testdata/absent.yaml: no such file or directory"},
		{name: "directory without manifests", args: []string{"-f", "../explanation"}, want: "../explanation: the directory holds no .yaml, .yml or .json files: use -R to read its subdirectories"},
		{name: "no YAML", stdin: "a: b\nc: [\n", want: "standard input: document 1: line 2: did not find expected node content"},
		{name: "key twice", stdin: "a: b\na: c\n", want: `standard input: document 1: line 2: a is already set in line 1`},
		{name: "no object", stdin: "---\n[]\n", want: "standard input: document 1: is a list where an object is expected"},
		{name: "no kind", stdin: head + "---\na: b\n", want: "standard input: document 2: must have apiVersion and kind"},
		{name: "separator", stdin: "--- oops\n", want: "standard input: document 1: is a text where an object is expected"},
		{name: "version", stdin: "apiVersion: kubevirt.io/v2\nkind: VirtualMachine\n", want: "standard input: document 1: apiVersion: no matches for kind \"VirtualMachine\" in version \"kubevirt.io/v2\": use kubevirt.io/v1"},
		{name: "wrong type", stdin: head + "spec: {template: {spec: {domain: {cpu: {cores: two}}}}}\n", want: "standard input: document 1: VirtualMachine a: spec.template.spec.domain.cpu.cores: is a text where a whole number from 0 up is expected"},
		{name: "number too large", stdin: head + "spec: {template: {spec: {domain: {cpu: {cores: 99999999999}}}}}\n", want: "standard input: document 1: VirtualMachine a: spec.template.spec.domain.cpu.cores: is the number 99999999999 where a whole number from 0 up is expected"},
		{name: "quantity", stdin: head + "spec: {template: {spec: {domain: {memory: {guest: 1Gb}}}}}\n", want: `standard input: document 1: VirtualMachine a: spec.template.spec.domain.memory.guest: "1Gb" is not a quantity such as 500m or 4Gi`},
		{name: "in a list", stdin: head + "spec: {template: {spec: {volumes: [{name: a}, {name: [b]}]}}}\n", want: "standard input: document 1: VirtualMachine a: spec.template.spec.volumes[1].name: is a list where a text is expected"},
		{name: "instancetype", stdin: head + "spec: {template: {}}\n---\napiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineInstancetype\nmetadata: {name: i}\nspec: {cpu: {guest: -1}}\n", want: "standard input: document 2: VirtualMachineInstancetype i: spec.cpu.guest: is the number -1 where a whole number from 0 up is expected"},
		{name: "reference without a name", stdin: head + "---\napiVersion: v1\nkind: PersistentVolumeClaim\n", want: "standard input: document 2: PersistentVolumeClaim must have metadata.name"},
		{name: "two references of a name", stdin: head + "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: p}\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: p, namespace: default, labels: {a: b}}\n", want: "standard input: document 3: PersistentVolumeClaim p differs from that of standard input: document 2: give it once"},
		{name: "two settings of a name", stdin: head + clitest.RuleSettings("s", "Warn", "") + clitest.RuleSettings("s", "Off", ""), want: "standard input: document 3: RuleSettings s differs from that of standard input: document 2: give it once"},
		{name: "not a reference", stdin: head, args: []string{"--instancetype", "../testdata/vmi.yaml"}, want: "../testdata/vmi.yaml: document 1: VirtualMachineInstance plain: virtual machines do not refer to objects of this kind"},
		{name: "not a KubeVirt", stdin: head, args: []string{"--kubevirt", "../testdata/vmi.yaml"}, want: "../testdata/vmi.yaml: document 1: VirtualMachineInstance plain is not a KubeVirt object of kubevirt.io"},
		{name: "two KubeVirts", stdin: head + strings.Repeat("---\napiVersion: kubevirt.io/v1\nkind: KubeVirt\n", 2), want: "standard input: document 3: must be the only KubeVirt object, but standard input: document 2 is one too"},
		{name: "rejected configuration", stdin: head + "---\napiVersion: kubevirt.io/v1\nkind: KubeVirt\nmetadata: {name: k, namespace: kv}\nspec: {configuration: {imagePullPolicy: Sometimes}}\n", want: `standard input: document 2: KubeVirt kv/k: spec.configuration.imagePullPolicy: "Sometimes" is not a pull policy`},
		{name: "stdin twice", stdin: head, args: []string{"--kubevirt", "-"}, want: "standard input: must be named only once on the command line"},
		{name: "too large", stdin: strings.Repeat(" ", 16<<20+1), want: "standard input: must be no larger than 16 MiB"},
		{name: "version of settings", stdin: head + "---\napiVersion: policy.virtward.io/v2\nkind: RuleSettings\n", want: "standard input: document 2: apiVersion: no matches for kind \"RuleSettings\" in version \"policy.virtward.io/v2\": use policy.virtward.io/v1alpha1"},
		{name: "severity of settings", stdin: head + "---\napiVersion: policy.virtward.io/v1alpha1\nkind: RuleSettings\nmetadata: {name: s}\nspec: {rules: [{rule: a, severity: Off}]}\n", want: "standard input: document 2: RuleSettings s: spec.rules[0].severity: is true or false where a text is expected"},
		{name: "no kubeconfig", stdin: head, args: []string{"--from-cluster", "--kubeconfig", "/absent/config"}, want: "reading the kubeconfig: stat /absent/config: no such file or directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"explain"}, c.args...)
			if c.stdin != "" {
				args = append(args, "-f", "-")
			}
			got := clitest.Call(t, c.stdin, args...)
			want := clitest.Result{Code: clitest.ExitFailed, ErrOut: "error: " + c.want + "\n"}
			if strings.Contains(got.Out, "# unreadable: "+c.want+"\n") && strings.HasSuffix(got.ErrOut, " "+c.want+"\n") { // the report has it too
				want.Out, want.ErrOut = got.Out, got.ErrOut
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNotes shows configuration without an effect, unless the command line replaces it.
func TestNotes(t *testing.T) {
	const closed = "hypervisor: [{name: mshv, hypervisorDevice: mshv, virtType: hyperv}]\n"
	const note = "note: spec.configuration.hypervisor has no effect: the feature gate ConfigurableHypervisor is not enabled, so VMs run on kvm\n"
	for _, c := range []struct {
		args        []string
		out, errOut string
	}{
		{args: []string{"-o", "yaml"}, out: "# " + note},
		{args: []string{"-o", "table"}, out: "\n" + note},
		{args: []string{"-o", "json"}, out: `"notes": [` + "\n    \"" + strings.TrimSpace(strings.TrimPrefix(note, "note: ")), errOut: note},
		{args: []string{"-o", "json", "--hypervisor", "mshv"}, out: `"notes": []`},
	} {
		got := clitest.Call(t, closed, append([]string{"explain", "-f", "../testdata/vmi.yaml", "--kubevirt", "-"}, c.args...)...)
		if got.Code != clitest.ExitOK || strings.Count(got.Out, c.out) != 1 || got.ErrOut != c.errOut {
			t.Errorf("%v: code %d, errors %q, and the output lacks %q:\n%s", c.args, got.Code, got.ErrOut, c.out, got.Out)
		}
	}
}

// TestNoCluster does not connect to localhost.
func TestNoCluster(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "absent"))
	got := clitest.Call(t, "", "explain", "vm/a")
	want := clitest.Result{Code: clitest.ExitFailed, ErrOut: "error: no kubeconfig names a cluster: give one with --kubeconfig or KUBECONFIG, or files with -f\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTableFits: tables of common objects fit into 100 columns. The lines above them have whole paths and messages.
func TestTableFits(t *testing.T) {
	for _, args := range [][]string{{"-f", "../testdata/vmi.yaml"}, {"-f", "../testdata/vm.yaml", "--instancetype", "../testdata/u1.yaml", "--preference", "../testdata/fedora.yaml"}} {
		for line := range strings.Lines(clitest.Call(t, "", append([]string{"explain", "-o", "table"}, args...)...).Out) {
			if len(line) > 100 && !strings.HasPrefix(line, "unknown: ") {
				t.Errorf("%v: %d columns: %s", args, len(line), line)
			}
		}
	}
}

func TestRejectionErrors(t *testing.T) {
	const one = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a}\nspec: {runStrategy: Always}\n"
	const two = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a}\nspec: {runStrategy: Sometimes}\n"
	const none = "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: b}\nspec: {domain: {memory: {guest: 1Gi}, devices: {}}}\n"
	for _, c := range []struct{ name, stdin, want string }{
		{"one", one, "standard input: document 1: VirtualMachine default/a is rejected: a finding at spec.template"},
		{"two", two + "---\n" + none, "standard input: document 1: VirtualMachine default/a is rejected: 2 findings, the first one at spec.runStrategy"},
		{"two machines", none + "---\n" + one + "---\n" + one, "2 of 3 virtual machines are rejected, the first one VirtualMachine default/a of standard input: document 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Call(t, c.stdin, "explain", "-f", "-")
			if got.Code != clitest.ExitFailed || got.ErrOut != "error: "+c.want+"\n" {
				t.Errorf("code %d, errors %q, want %q", got.Code, got.ErrOut, c.want)
			}
			if got.Out == "" {
				t.Error("what can be explained was not printed")
			}
		})
	}
}

// TestStrict: an object that is not in the files is shown as unknown, and an error only with --strict.
func TestStrict(t *testing.T) {
	const vm = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: a}
spec:
  runStrategy: Halted
  instancetype: {inferFromVolume: root}
  preference: {name: fedora}
  dataVolumeTemplates:
  - metadata: {name: root}
    spec: {sourceRef: {kind: DataSource, name: fedora, namespace: images}, storage: {resources: {requests: {storage: 30Gi}}}}
  template:
    spec:
      domain: {devices: {}}
      volumes: [{name: root, dataVolume: {name: root}}, {name: data, persistentVolumeClaim: {claimName: data}}, {name: more, dataVolume: {name: more}}]
`
	want := []string{
		"# unknown: spec.instancetype: object that is inferred from a volume is not in the files",
		"# unknown: spec.preference: VirtualMachineClusterPreference fedora is not in the files",
		"# unknown: spec.dataVolumeTemplates[0].spec.sourceRef.name: DataSource fedora is not in the files",
		"# unknown: spec.template.spec.volumes[1].persistentVolumeClaim.claimName: PersistentVolumeClaim data is not in the files",
		"# unknown: spec.template.spec.volumes[2].dataVolume.name: DataVolume more is not in the files",
	}
	got := clitest.Call(t, vm, "explain", "-f", "-")
	for _, line := range want {
		if !strings.Contains(got.Out, line+"\n") {
			t.Errorf("the output lacks %q:\n%s", line, got.Out)
		}
	}
	if got.Code != clitest.ExitOK || got.ErrOut != "" {
		t.Errorf("code %d, errors %q", got.Code, got.ErrOut)
	}
	for _, command := range []string{"explain", "audit"} {
		got := clitest.Call(t, vm, command, "-f", "-", "--strict")
		const want = "error: 5 objects are not in the files, the first one standard input: document 1: VirtualMachine default/a: spec.instancetype: object that is inferred from a volume"
		if got.Code != clitest.ExitFailed || !strings.Contains(got.ErrOut, want) {
			t.Errorf("%s: code %d, errors %q", command, got.Code, got.ErrOut)
		}
	}
}

// TestWarningsDoNotFail shows a deprecated field, without an error.
func TestWarningsDoNotFail(t *testing.T) {
	const vm = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a}\nspec: {running: true, template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}}\n"
	got := clitest.Call(t, vm, "explain", "-f", "-")
	const want = "# warning: spec.running: Invalid value: true: is deprecated: use spec.runStrategy: Always [virtward/vm-running-deprecated]\n"
	if got.Code != clitest.ExitOK || got.ErrOut != "" || !strings.Contains(got.Out, want) {
		t.Errorf("code %d, errors %q, and the output lacks %q:\n%s", got.Code, got.ErrOut, want, got.Out)
	}
}

// TestBareConfiguration reads a spec.configuration without the object around it.
func TestBareConfiguration(t *testing.T) {
	const configuration = "cpuModel: Haswell\nbogus: 1\n"
	for name, text := range map[string]string{
		"configuration": configuration,
		"spec":          "spec:\n  configuration:\n    " + strings.ReplaceAll(strings.TrimSpace(configuration), "\n", "\n    ") + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			got := clitest.Call(t, text, "explain", "-f", "../testdata/vmi.yaml", "--kubevirt", "-")
			if got.Code != clitest.ExitOK || !strings.Contains(got.Out, "model: Haswell # base\n") {
				t.Errorf("code %d, output:\n%s", got.Code, got.Out)
			}
			if want := "# warning: standard input: document 1: unknown field spec.configuration.bogus\n"; !strings.Contains(got.Out, want) || got.ErrOut != "" {
				t.Errorf("the output lacks %q, or there are errors %q:\n%s", want, got.ErrOut, got.Out)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--hypervisor", "mshv"}, "model: qemu64-v1 # mshv/amd64\n"},
		{[]string{"--hypervisor", "mshv", "--mshv-cpu-model", "none"}, "model: host-model # mshv/amd64\n"},
		{[]string{"--hypervisor", "mshv", "--mshv-cpu-model", "Haswell"}, "model: Haswell # mshv/amd64\n"},
		{[]string{"--rollout-strategy", "LiveUpdate"}, "maxSockets: 4 # finalize\n"},
	} {
		if got := clitest.Call(t, "", append([]string{"explain", "-f", "../testdata/vmi.yaml"}, c.args...)...); !strings.Contains(got.Out, c.want) {
			t.Errorf("%v: the output lacks %q:\n%s", c.args, c.want, got.Out)
		}
	}
	if got := clitest.Call(t, "", "explain", "-f", "../testdata/vmi.yaml", "--rollout-strategy", "Stage"); strings.Contains(got.Out, "maxSockets") {
		t.Errorf("Stage leaves no room for hotplug:\n%s", got.Out)
	}
}

func TestDirectories(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const vmi = "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: %}\nspec: {domain: {devices: {}}}\n"
	write("b.yml", strings.ReplaceAll(vmi, "%", "b"))
	write("a.json", `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","metadata":{"name":"a"}} {"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","metadata":{"name":"a2"}}`)
	write("README", "not a manifest")
	write("sub/c.yaml", strings.ReplaceAll(vmi, "%", "c"))
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "a a2 b"},
		{[]string{"-R"}, "a a2 b c"},
	} {
		got := clitest.Call(t, "", append([]string{"explain", "-f", dir, "-o", "json"}, c.args...)...)
		var explanations []struct{ Object struct{ Name string } }
		if err := json.Unmarshal([]byte(got.Out), &explanations); err != nil {
			t.Fatalf("%v: %s", err, got.ErrOut)
		}
		var names []string
		for _, e := range explanations {
			names = append(names, e.Object.Name)
		}
		if strings.Join(names, " ") != c.want {
			t.Errorf("%v: explained %v, want %s", c.args, names, c.want)
		}
	}
}

func TestExplainObjectOfTheCluster(t *testing.T) {
	kubeconfig := clitest.APIServer(t, clitest.ClusterObjects())
	for _, args := range [][]string{{"vm/db"}, {"virtualmachine", "db"}, {"vms.kubevirt.io/db"}} {
		got := clitest.Call(t, "", append([]string{"explain", "--kubeconfig", kubeconfig}, args...)...)
		if got.Code != clitest.ExitOK {
			t.Fatalf("%v: code %d: %s", args, got.Code, got.ErrOut)
		}
		clitest.Golden(t, "cluster.yaml", got.Out)
	}
}

// TestExplainFileInTheCluster prefers objects of the files to those of the cluster.
func TestExplainFileInTheCluster(t *testing.T) {
	kubeconfig := clitest.APIServer(t, clitest.ClusterObjects())
	got := clitest.Call(t, "", "explain", "-f", "../testdata/vm.yaml", "--preference", "../testdata/fedora.yaml", "--from-cluster", "--kubeconfig", kubeconfig)
	if got.Code != clitest.ExitOK {
		t.Fatalf("code %d: %s", got.Code, got.ErrOut)
	}
	for _, want := range []string{"facts: KubeVirt kubevirt/kubevirt\n", "cores: 3 # instancetype/u1.medium\n", "bus: virtio # preference/fedora\n", "model: Skylake # base\n"} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("the output lacks %q:\n%s", want, got.Out)
		}
	}
}

func TestClusterWithoutKubeVirt(t *testing.T) {
	kubeconfig := clitest.APIServer(t, nil)
	got := clitest.Call(t, "", "explain", "-f", "../testdata/vmi.yaml", "--from-cluster", "--kubeconfig", kubeconfig, "-o", "json")
	if want := "warning: no KubeVirt resource was found in this cluster, so KubeVirt's own defaults are assumed\n"; got.Code != clitest.ExitOK || got.ErrOut != want {
		t.Errorf("code %d, errors %q, want %q", got.Code, got.ErrOut, want)
	}
	got = clitest.Call(t, "", "explain", "vm/db", "--kubeconfig", kubeconfig)
	if want := "error: reading virtualmachines shop/db: it is not there\n"; got.Code != clitest.ExitFailed || got.ErrOut != want {
		t.Errorf("code %d, errors %q, want %q", got.Code, got.ErrOut, want)
	}
}

func TestCompletedNames(t *testing.T) {
	kubeconfig := clitest.APIServer(t, clitest.ClusterObjects())
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"vm/"}, "vm/db\n:4\n"},
		{[]string{"vm", ""}, "db\n:4\n"},
		{[]string{"vm", "db", ""}, ":4\n"},
		{[]string{"vm/db", "vm/"}, ":4\n"},
		{[]string{"vm/db", ""}, "vm/\nvmi/\n:6\n"},
		{[]string{"vm", "vmi/"}, ":4\n"},
	} {
		got := clitest.Call(t, "", append([]string{"__complete", "explain", "--kubeconfig", kubeconfig}, c.words...)...)
		if got.Out != c.want {
			t.Errorf("%v: got %q, want %q", c.words, got.Out, c.want)
		}
	}
}

// explain rejects objects of all kinds, by the same rules as admission.
func TestExplainOfOtherKinds(t *testing.T) {
	for _, c := range []struct{ name, object, rule, field string }{
		{"replica set", `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstanceReplicaSet, metadata: {name: a}, spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: b}}, spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}}}`, "set-selector-matches", "spec.selector"},
		{"template of a replica set", `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstanceReplicaSet, metadata: {name: a}, spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {architecture: arm64, domain: {firmware: {bootloader: {bios: {}}}, memory: {guest: 1Gi}, devices: {}}}}}}`, "arm64-bios", "spec.template.spec.domain.firmware.bootloader.bios"},
		{"pool in its older version, which KubeVirt serves too", `{apiVersion: pool.kubevirt.io/v1alpha1, kind: VirtualMachinePool, metadata: {name: a}, spec: {selector: {matchLabels: {app: a}}}}`, "set-template-required", "spec.virtualMachineTemplate"},
		{"pool", `{apiVersion: pool.kubevirt.io/v1beta1, kind: VirtualMachinePool, metadata: {name: a}, spec: {selector: {matchLabels: {app: a}}}}`, "set-template-required", "spec.virtualMachineTemplate"},
		{"instancetype", `{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineInstancetype, metadata: {name: a}, spec: {cpu: {guest: 1}, memory: {guest: 1Gi, overcommitPercent: 200}}}`, "instancetype-overcommit-range", "spec.memory.overcommitPercent"},
		{"cluster preference", `{apiVersion: instancetype.kubevirt.io/v1beta1, kind: VirtualMachineClusterPreference, metadata: {name: a}, spec: {cpu: {preferredCPUTopology: nowhere}}}`, "preference-topology", "spec.cpu.preferredCPUTopology"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Call(t, c.object, "explain", "-f", "-")
			if want := "rejected: " + c.field + ":"; got.Code != clitest.ExitFailed || !strings.Contains(got.Out, want) || !strings.Contains(got.Out, "[virtward/"+c.rule+"]") {
				t.Errorf("%d: nothing of %q and %s in:\n%s%s", got.Code, want, c.rule, got.Out, got.ErrOut)
			}
		})
	}
}

// A valid instancetype is part of the explanation, and has none of its own.
func TestExplainShowsReferencesThatAreWrong(t *testing.T) {
	const vm = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a}\nspec: {runStrategy: Always, instancetype: {kind: VirtualMachineInstancetype, name: small}, template: {spec: {domain: {devices: {}}}}}\n"
	const small = "---\napiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineInstancetype\nmetadata: {name: small}\nspec: {cpu: {guest: 1}, memory: {guest: 1Gi}}\n"
	if got := clitest.Call(t, vm+small, "explain", "-f", "-"); got.Code != clitest.ExitOK || strings.Contains(got.Out, "# VirtualMachineInstancetype") {
		t.Errorf("%d:\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	wrong := strings.Replace(small, "guest: 1Gi", "guest: 1Gi, overcommitPercent: 200", 1)
	if got := clitest.Call(t, vm+wrong, "explain", "-f", "-"); got.Code != clitest.ExitFailed || !strings.Contains(got.Out, "# VirtualMachineInstancetype default/small on kvm") {
		t.Errorf("%d:\n%s%s", got.Code, got.Out, got.ErrOut)
	}
}
