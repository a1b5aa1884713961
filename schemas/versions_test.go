package schemas

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/test/crds"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct{ minor, version, kind, want string }{
		{"", "kubevirt.io/v1", "VirtualMachine", ""},
		{"", "kubevirt.io/v1alpha3", "VirtualMachine", ""},
		{"", "kubevirt.io/v1alpha2", "VirtualMachine", `no matches for kind "VirtualMachine" in version "kubevirt.io/v1alpha2": use kubevirt.io/v1`},
		{"", "kubevirt.io/v1alpha3", "VirtualMachineInstancePreset", ""},
		{"", "kubevirt.io/v2", "VirtualMachineInstancePreset", `no matches for kind "VirtualMachineInstancePreset" in version "kubevirt.io/v2": use kubevirt.io/v1`},
		{"1.9", "kubevirt.io/v2", "KubeVirt", `no matches for kind "KubeVirt" in version "kubevirt.io/v2": use kubevirt.io/v1`},
		{"", "instancetype.kubevirt.io/v1alpha1", "VirtualMachineInstancetype", `no matches for kind "VirtualMachineInstancetype" in version "instancetype.kubevirt.io/v1alpha1": KubeVirt 1.6 removed it: use instancetype.kubevirt.io/v1beta1`},
		{"1.8", "instancetype.kubevirt.io/v1alpha2", "VirtualMachineClusterPreference", `no matches for kind "VirtualMachineClusterPreference" in version "instancetype.kubevirt.io/v1alpha2": KubeVirt 1.6 removed it: use instancetype.kubevirt.io/v1beta1`},
		{"", "instancetype.kubevirt.io/v1", "VirtualMachineInstancetype", `no matches for kind "VirtualMachineInstancetype" in version "instancetype.kubevirt.io/v1": use instancetype.kubevirt.io/v1beta1`},
		{"", "pool.kubevirt.io/v1beta1", "VirtualMachinePool", ""},
		{"1.6", "pool.kubevirt.io/v1beta1", "VirtualMachinePool", `no matches for kind "VirtualMachinePool" in version "pool.kubevirt.io/v1beta1": KubeVirt 1.7 added it: use pool.kubevirt.io/v1alpha1`},
		{"1.6", "pool.kubevirt.io/v1alpha1", "VirtualMachinePool", ""},
		{"", "export.kubevirt.io/v1alpha1", "VirtualMachineExport", ""},
		{"1.9", "export.kubevirt.io/v1alpha1", "VirtualMachineExport", `no matches for kind "VirtualMachineExport" in version "export.kubevirt.io/v1alpha1": KubeVirt 1.9 removed it: use export.kubevirt.io/v1`},
		{"1.8", "export.kubevirt.io/v1", "VirtualMachineExport", `no matches for kind "VirtualMachineExport" in version "export.kubevirt.io/v1": KubeVirt 1.9 added it: use export.kubevirt.io/v1beta1`},
		{"1.7", "backup.kubevirt.io/v1alpha1", "VirtualMachineBackup", `no matches for kind "VirtualMachineBackup" in version "backup.kubevirt.io/v1alpha1": KubeVirt 1.8 added it`},
		{"", "snapshot.kubevirt.io/v1alpha1", "VirtualMachineSnapshot", ""},
		{"", "clone.kubevirt.io/v1", "VirtualMachineClone", `no matches for kind "VirtualMachineClone" in version "clone.kubevirt.io/v1": use clone.kubevirt.io/v1beta1`},
		{"", "migrations.kubevirt.io/v1", "MigrationPolicy", `no matches for kind "MigrationPolicy" in version "migrations.kubevirt.io/v1": use migrations.kubevirt.io/v1alpha1`},
		{"1.6", "cdi.kubevirt.io/v1alpha1", "DataVolume", `no matches for kind "DataVolume" in version "cdi.kubevirt.io/v1alpha1": CDI 1.56 removed it: use cdi.kubevirt.io/v1beta1`},
		{"", "cdi.kubevirt.io/v1alpha1", "CDI", ""},
		{"", "storage.k8s.io/v1beta1", "StorageClass", `no matches for kind "StorageClass" in version "storage.k8s.io/v1beta1": Kubernetes 1.22 removed it: use storage.k8s.io/v1`},
		{"", "snapshot.storage.k8s.io/v1beta1", "VolumeSnapshot", `no matches for kind "VolumeSnapshot" in version "snapshot.storage.k8s.io/v1beta1": CSI external-snapshotter 6.0 removed it: use snapshot.storage.k8s.io/v1`},
		{"", "v2", "PersistentVolumeClaim", `no matches for kind "PersistentVolumeClaim" in version "v2": use v1`},
		{"", "policy.virtward.io/v1", "VirtualMachinePolicy", `no matches for kind "VirtualMachinePolicy" in version "policy.virtward.io/v1": use policy.virtward.io/v1alpha1`},
		{"", "template.kubevirt.io/v1", "VirtualMachineTemplate", `no matches for kind "VirtualMachineTemplate" in version "template.kubevirt.io/v1": use template.kubevirt.io/v1beta1`},
		{"", "kubevirt.io/v1", "VirtualMachinePool", `no matches for kind "VirtualMachinePool" in version "kubevirt.io/v1": use pool.kubevirt.io/v1beta1`},
		{"", "v1", "DataVolume", `no matches for kind "DataVolume" in version "v1": use cdi.kubevirt.io/v1beta1`},
		{"", "apps/v1", "Deployment", ""},
		{"", "example.com/v1", "VirtualMachine", ""},
		{"", "kubevirt.io/v1", "Unknown", ""},
	} {
		got := ""
		if err := Match(c.minor, schema.FromAPIVersionAndKind(c.version, c.kind)); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s %s in %q: %q, want %q", c.version, c.kind, c.minor, got, c.want)
		}
	}
}

func TestMatchServed(t *testing.T) {
	preset := schema.GroupVersionKind{Group: "instancetype.kubevirt.io", Version: "v1", Kind: "VirtualMachinePreference"}
	if err := MatchServed(preset, []string{"v1", "v1beta1"}); err != nil {
		t.Error(err)
	}
	err := MatchServed(preset, []string{"v1beta1"})
	if want := `no matches for kind "VirtualMachinePreference" in version "instancetype.kubevirt.io/v1": use instancetype.kubevirt.io/v1beta1`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestEveryKindAndRelease walks over all kinds, releases and versions: a version is accepted exactly where it is served, and
// each error has what to write instead.
func TestEveryKindAndRelease(t *testing.T) {
	walked := 0
	for _, kind := range Kinds() {
		for _, minor := range append(Minors(), "") {
			served := kind.Served(minor)
			for _, v := range append(slices.Clone(kind.Versions), Version{Name: "v2"}, Version{Name: "v1alpha9"}) {
				walked++
				gvk := schema.GroupVersionKind{Group: kind.Group, Version: v.Name, Kind: kind.Kind}
				err := Match(minor, gvk)
				if slices.Contains(served, v.Name) {
					if err != nil {
						t.Errorf("%s: %v", minor, err)
					}
					continue
				}
				if err == nil {
					t.Errorf("%s: %s is accepted", minor, gvk)
					continue
				}
				if prefix := `no matches for kind "` + kind.Kind + `" in version "` + gvk.GroupVersion().String() + `"`; !strings.HasPrefix(err.Error(), prefix) {
					t.Errorf("%s: %v, want %s", minor, err, prefix)
				}
				suffix := ": use " + gvk.GroupKind().WithVersion(append(served, "")[0]).GroupVersion().String()
				if len(served) > 0 && !strings.HasSuffix(err.Error(), suffix) {
					t.Errorf("%s: %v, want %s", minor, err, suffix)
				}
				if v.Until != "" && (minor == "" || kind.Product != kubeVirt || !older(minor, v.Until)) && !strings.Contains(err.Error(), ": "+kind.Product+" "+v.Until+" removed it") {
					t.Errorf("%s: %v, want the release that removed it", minor, err)
				}
			}
		}
		if len(kind.Served("")) == 0 {
			t.Errorf("no supported release serves %s", kind.Kind)
		}
	}
	t.Logf("%d kinds, %d pairs of version and release", len(Kinds()), walked)
}

// TestServedAgreesWithTheSandbox compares the table with definitions from another source: KubeVirt's and CDI's Go types.
func TestServedAgreesWithTheSandbox(t *testing.T) {
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, definition := range all {
		for _, v := range definition.Spec.Versions {
			gvk := schema.GroupVersionKind{Group: definition.Spec.Group, Version: v.Name, Kind: definition.Spec.Names.Kind}
			if known := VersionsOf(gvk.GroupKind()); !slices.Contains(known, v.Name) {
				t.Errorf("the versions of %s are %v, without %s", gvk.Kind, known, v.Name)
			}
			if err := Match(Newest(), gvk); v.Served && err != nil {
				t.Error(err)
			}
		}
	}
}
