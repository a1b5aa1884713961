package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/schemas"
)

// unserved returns a text that each command says of a version.
func unserved(kind, version string) string {
	return fmt.Sprintf("no matches for kind %q in version %q", kind, version)
}

// TestEveryKindThatIsReadHasVersions: the table of versions has all kinds that decide on a result.
func TestEveryKindThatIsReadHasVersions(t *testing.T) {
	read := references.Kinds()
	for _, info := range evaluator.Kinds() {
		for _, version := range info.Versions {
			read = append(read, info.GroupKind().WithVersion(version))
		}
	}
	for name, resource := range offline.Resources {
		read = append(read, resource.GroupVersion().WithKind(name))
	}
	read = append(read, apikinds.KubeVirts.GroupVersionKind, apikinds.Snapshots.GroupVersionKind, apikinds.SnapshotContents.GroupVersionKind,
		apikinds.Restores.GroupVersionKind, apikinds.Clones.GroupVersionKind, apikinds.Migrations.GroupVersionKind, apikinds.Rollouts.GroupVersionKind,
		schema.GroupVersionKind{Version: "v1", Kind: apikinds.Namespace})
	for _, kind := range read {
		if len(schemas.VersionsOf(kind.GroupKind())) == 0 {
			t.Errorf("the versions of %s are not known", kind)
		}
	}
}

// TestVersionsOfFiles writes an object of each kind in each version, and reads it with explain and audit for each release.
func TestVersionsOfFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "objects.yaml")
	for _, minor := range append(schemas.Minors(), "") {
		t.Run("KubeVirt "+minor, func(t *testing.T) {
			text := clitest.VM
			var want, accepted []string
			for _, kind := range schemas.Kinds() {
				versions := []string{"v2"}
				for _, v := range kind.Versions {
					versions = append(versions, v.Name)
				}
				for _, version := range versions {
					of := schema.GroupVersion{Group: kind.Group, Version: version}.String()
					if kind.Kind == apikinds.KubeVirt && slices.Contains(kind.Served(minor), version) {
						continue // there must be only one
					}
					text += fmt.Sprintf("---\napiVersion: %s\nkind: %s\nmetadata: {name: %s}\n", of, kind.Kind, version)
					if slices.Contains(kind.Served(minor), version) {
						accepted = append(accepted, unserved(kind.Kind, of))
					} else {
						want = append(want, "apiVersion: "+unserved(kind.Kind, of))
					}
				}
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, command := range []string{"explain", "audit"} {
				args := []string{command, "-f", file, "-o", "table"}
				if minor != "" {
					args = append(args, "--kubevirt-version", minor)
				}
				got := clitest.Call(t, "", args...)
				if got.Code != clitest.ExitFailed {
					t.Errorf("%s exits with %d", command, got.Code)
				}
				said := got.Out + got.ErrOut
				for _, text := range want {
					if strings.Count(said, text) == 0 {
						t.Errorf("%s does not say %s", command, text)
					}
				}
				for _, text := range accepted {
					if strings.Contains(said, text) {
						t.Errorf("%s says %s", command, text)
					}
				}
			}
			t.Logf("%d versions are rejected, %d accepted", len(want), len(accepted))
		})
	}
}

// TestVersionsOfEveryCommand gives each command that reads manifests an object in a version that no API server serves.
func TestVersionsOfEveryCommand(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	vm := write("vm.yaml", clitest.VM)
	instancetype := write("instancetype.yaml", "apiVersion: instancetype.kubevirt.io/v1alpha1\nkind: VirtualMachineInstancetype\nmetadata: {name: small}\nspec: {cpu: {guest: 1}, memory: {guest: 1Gi}}\n")
	preset := write("preset.yaml", "apiVersion: kubevirt.io/v2\nkind: VirtualMachineInstancePreset\nmetadata: {name: p}\nspec: {selector: {}}\n")
	volume := write("volume.yaml", "apiVersion: cdi.kubevirt.io/v1alpha1\nkind: DataVolume\nmetadata: {name: d}\nspec: {source: {blank: {}}}\n")
	kubevirt := write("kubevirt.yaml", "apiVersion: kubevirt.io/v2\nkind: KubeVirt\nmetadata: {name: kubevirt, namespace: kubevirt}\nspec: {}\n")
	older := write("older.yaml", "apiVersion: kubevirt.io/v1\nkind: KubeVirt\nmetadata: {name: kubevirt, namespace: kubevirt}\nspec: {}\nstatus: {observedKubeVirtVersion: v1.6.0}\n")
	pool := write("pool.yaml", "apiVersion: pool.kubevirt.io/v1beta1\nkind: VirtualMachinePool\nmetadata: {name: p}\nspec: {replicas: 1, selector: {matchLabels: {a: b}}, virtualMachineTemplate: {metadata: {labels: {a: b}}, spec: {runStrategy: Always, template: {spec: {domain: {devices: {}}}}}}}\n")
	template := write("template.yaml", "apiVersion: template.kubevirt.io/v1\nkind: VirtualMachineTemplate\nmetadata: {name: t}\nspec: {virtualMachine: {}}\n")
	openshift := write("openshift.yaml", "apiVersion: template.openshift.io/v1\nkind: Template\nmetadata: {name: t}\nobjects:\n- {apiVersion: kubevirt.io/v1alpha2, kind: VirtualMachine, metadata: {name: a}}\n")
	policy := write("policy.yaml", clitest.MemoryPolicy("Deny", ""))
	later := write("later.yaml", strings.Replace(clitest.MemoryPolicy("Deny", ""), "policy.virtward.io/v1alpha1", "policy.virtward.io/v2", 1))
	suite := func(name, objects, base string) string {
		return write(name, "apiVersion: policy.virtward.io/v1alpha1\nkind: Suite\nmetadata: {name: s}\ntests:\n- name: t\n  policies: [policy.yaml]\n"+objects+"  base: "+base+"\n  cases:\n  - {name: c, expect: {verdict: allowed}}\n")
	}
	for _, c := range []struct{ name, args, kind, version string }{
		{"explain", "explain -f " + vm + " -f " + instancetype, "VirtualMachineInstancetype", "instancetype.kubevirt.io/v1alpha1"},
		{"explain of a reference only", "explain -f " + instancetype, "VirtualMachineInstancetype", "instancetype.kubevirt.io/v1alpha1"},
		{"explain --instancetype", "explain -f " + vm + " --instancetype " + instancetype, "VirtualMachineInstancetype", "instancetype.kubevirt.io/v1alpha1"},
		{"explain with a preset", "explain -f " + vm + " -f " + preset, "VirtualMachineInstancePreset", "kubevirt.io/v2"},
		{"explain --kubevirt", "explain -f " + vm + " --kubevirt " + kubevirt, "KubeVirt", "kubevirt.io/v2"},
		{"explain with a KubeVirt", "explain -f " + vm + " -f " + kubevirt, "KubeVirt", "kubevirt.io/v2"},
		{"explain with the release of a KubeVirt", "explain -f " + pool + " -f " + older, "VirtualMachinePool", "pool.kubevirt.io/v1beta1"},
		{"audit", "audit -f " + vm + " -f " + volume, "DataVolume", "cdi.kubevirt.io/v1alpha1"},
		{"audit --with", "audit -f " + vm + " --with " + later, "VirtualMachinePolicy", "policy.virtward.io/v2"},
		{"audit with another release", "audit -f " + pool + " --with " + older, "VirtualMachinePool", "pool.kubevirt.io/v1beta1"},
		{"policy eval", "policy eval -f " + vm + " -f " + instancetype + " 1", "VirtualMachineInstancetype", "instancetype.kubevirt.io/v1alpha1"},
		{"policy eval of a pool", "policy eval -f " + pool + " --kubevirt " + older + " 1", "VirtualMachinePool", "pool.kubevirt.io/v1beta1"},
		{"policy test", "policy test " + suite("around.yaml", "  objects: [instancetype.yaml]\n", "vm.yaml"), "VirtualMachineInstancetype", "instancetype.kubevirt.io/v1alpha1"},
		{"policy test with a preset", "policy test " + suite("preset-suite.yaml", "  objects: [preset.yaml]\n", "vm.yaml"), "VirtualMachineInstancePreset", "kubevirt.io/v2"},
		{"policy test of a release", "policy test " + suite("older-suite.yaml", "  objects: [older.yaml]\n", "pool.yaml"), "VirtualMachinePool", "pool.kubevirt.io/v1beta1"},
		{"policy test of an instancetype", "policy test " + suite("base.yaml", "", "instancetype.yaml"), "VirtualMachineInstancetype", "instancetype.kubevirt.io/v1alpha1"},
		{"policy lint", "policy lint " + policy + " " + later, "VirtualMachinePolicy", "policy.virtward.io/v2"},
		{"policy apply", "policy apply -f " + policy + " -f " + later, "VirtualMachinePolicy", "policy.virtward.io/v2"},
		{"template process", "template process -f " + template, "VirtualMachineTemplate", "template.kubevirt.io/v1"},
		{"template convert", "template convert -f " + openshift, "VirtualMachine", "kubevirt.io/v1alpha2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Call(t, "", strings.Fields(c.args)...)
			said := got.Out + got.ErrOut
			if got.Code == clitest.ExitOK || !strings.Contains(said, "apiVersion: "+unserved(c.kind, c.version)) {
				t.Errorf("code %d, want %q in\n%s", got.Code, unserved(c.kind, c.version), said)
			}
		})
	}
}

// TestVersionsOfACluster: a cluster decides which versions are served, also of a later release.
func TestVersionsOfACluster(t *testing.T) {
	const list = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"%s","resources":[{"name":"x","singularName":"","namespaced":true,"kind":"%s","verbs":["get"]},{"name":"x/status","singularName":"","namespaced":true,"kind":"Other","verbs":["get"]}]}`
	objects := clitest.ClusterObjects()
	objects["/apis/instancetype.kubevirt.io/v1"] = fmt.Sprintf(list, "instancetype.kubevirt.io/v1", "VirtualMachinePreference")
	objects["/apis/pool.kubevirt.io/v1alpha1"] = fmt.Sprintf(list, "pool.kubevirt.io/v1alpha1", "VirtualMachinePool")
	config := clitest.APIServer(t, objects)
	preference := func(version string) string {
		return clitest.VM + "---\napiVersion: instancetype.kubevirt.io/" + version + "\nkind: VirtualMachinePreference\nmetadata: {name: p}\nspec: {}\n"
	}
	later := clitest.Call(t, preference("v1"), "explain", "-f", "-", "--from-cluster", "--kubeconfig", config)
	if later.Code != clitest.ExitOK {
		t.Errorf("code %d: %s", later.Code, later.ErrOut)
	}
	pool := "apiVersion: pool.kubevirt.io/v1beta1\nkind: VirtualMachinePool\nmetadata: {name: p}\n"
	older := clitest.Call(t, pool, "explain", "-f", "-", "--from-cluster", "--kubeconfig", config)
	if want := unserved("VirtualMachinePool", "pool.kubevirt.io/v1beta1") + ": KubeVirt 1.7 added it: use pool.kubevirt.io/v1alpha1"; older.Code != clitest.ExitFailed || !strings.Contains(older.ErrOut, want) {
		t.Errorf("code %d, want %s in %s", older.Code, want, older.ErrOut)
	}
	absent := clitest.Call(t, strings.Replace(clitest.VM, "kubevirt.io/v1", "kubevirt.io/v2", 1), "rollout", "plan", "-f", "-", "--kubeconfig", config)
	if want := "standard input: document 1: apiVersion: " + unserved("VirtualMachine", "kubevirt.io/v2") + ": use kubevirt.io/v1"; absent.Code != clitest.ExitFailed || !strings.Contains(absent.ErrOut, want) {
		t.Errorf("code %d, want %s in %s", absent.Code, want, absent.ErrOut)
	}
	objects["/apis/instancetype.kubevirt.io/v1beta1"] = clitest.Forbidden
	unread := clitest.Call(t, preference("v1beta1"), "explain", "-f", "-", "--from-cluster", "--kubeconfig", clitest.APIServer(t, objects))
	if want := "which versions of VirtualMachinePreference the cluster serves cannot be read: "; unread.Code != clitest.ExitOK || !strings.Contains(unread.Out+unread.ErrOut, want) {
		t.Errorf("code %d, want %s in %s%s", unread.Code, want, unread.Out, unread.ErrOut)
	}
}
