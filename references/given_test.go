package references_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/test/build"
)

// TestGivenObjects has no objects but those of files: nothing is known to be missing.
func TestGivenObjects(t *testing.T) {
	files, err := references.NewMemory("default")
	if err != nil {
		t.Fatal(err)
	}
	inferred := build.VM("db").Obj()
	inferred.Spec.Instancetype = &v1.InstancetypeMatcher{InferFromVolume: "root"}
	inferred.Spec.Template.Spec.Volumes = []v1.Volume{{Name: "root", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}}}
	inferred.Spec.Template.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "root"
	for name, tc := range map[string]struct {
		vm       *v1.VirtualMachine
		resolved []effective.Reference
		warnings []string
	}{
		"an instancetype": {
			build.VM("db").Instancetype("big").Obj(),
			[]effective.Reference{{Field: "spec.instancetype", Kind: "VirtualMachineClusterInstancetype", Name: "big", State: effective.Unknown}},
			[]string{"spec.instancetype: VirtualMachineClusterInstancetype big is not in the files; the VM is evaluated without it, and what it determines is unknown"},
		},
		"a volume to infer from": {
			inferred,
			[]effective.Reference{{Field: "spec.instancetype", State: effective.Unknown}},
			[]string{`spec.instancetype: nothing can be inferred from volume "root", because PersistentVolumeClaim default/root is not in the files; the VM is evaluated without it, and what it determines is unknown`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.vm.Namespace = "default"
			found, warnings, err := references.For(context.Background(), references.Given{Memory: files}, tc.vm, nil)
			if err != nil || len(found.Conflicts) > 0 {
				t.Fatal(err, found.Conflicts)
			}
			if diff := cmp.Diff(tc.resolved, found.Resolved); diff != "" {
				t.Errorf("resolved (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if found.Inferred || found.InstancetypeMatcher == nil {
				t.Errorf("the matcher is changed: %+v", found)
			}
		})
	}
}
