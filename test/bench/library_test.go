package bench

import (
	"fmt"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/library"
	"github.com/virtward/virtward/test/build"
)

// librarySet returns a number of the library's policies for VMs, as they are installed. It repeats them under different
// names.
func librarySet(b *testing.B, language library.Language, count int) *policies.Set {
	b.Helper()
	var entries []library.Entry
	for _, entry := range library.All() {
		kinds := entry.Policy.Spec.Match.Kinds
		ofVMs := len(kinds) == 0
		for _, kind := range kinds {
			ofVMs = ofVMs || kind == policyv1alpha1.PolicyVirtualMachine
		}
		if entry.Language == language && ofVMs {
			entries = append(entries, entry)
		}
	}
	env := environment(b)
	compiled := make([]*policies.Policy, 0, count)
	for i := range count {
		spec := entries[i%len(entries)].Policy.Spec.DeepCopy()
		compiled = append(compiled, policyOf(b, env, &policyv1alpha1.VirtualMachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("library-%d", i)}, Spec: *spec}))
	}
	return policies.NewSet("virtward-system", compiled...)
}

// wellKept is the input of a VM of three disks about which no policy of the library finds anything.
func wellKept() effective.Input {
	vmi := build.Typical("db").Namespace("shop").Label("team", "blue").Label("owner", "alice").With(func(s *v1.VirtualMachineInstanceSpec) {
		s.Domain.Machine = &v1.Machine{Type: "pc-q35-rhel9.6.0"}
		s.Domain.Devices.TPM = &v1.TPMDevice{}
		s.Domain.Features = &v1.Features{SMM: &v1.FeatureState{Enabled: ptr.To(true)}}
		s.Domain.Firmware = &v1.Firmware{Bootloader: &v1.Bootloader{EFI: &v1.EFI{SecureBoot: ptr.To(true)}}}
		s.Domain.CPU, s.Domain.Memory = nil, nil
		for i := range s.Domain.Devices.Disks {
			s.Domain.Devices.Disks[i].DiskDevice = v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.DiskBusVirtio}}
		}
		for i := range s.Domain.Devices.Interfaces {
			s.Domain.Devices.Interfaces[i].Ports = []v1.Port{{Port: 22}}
		}
	})
	vm := build.VMOf(vmi).Obj()
	vm.Spec.Instancetype = &v1.InstancetypeMatcher{Name: "u1.medium"}
	vm.Spec.Preference = &v1.PreferenceMatcher{Name: "linux"}
	in := effective.Input{VM: vm, Facts: platform.Defaults(platform.Settings{}), Requester: "alice", Now: time.Now()}
	in.Instancetype = &instancetypes.Instancetype{Kind: apikinds.VirtualMachineClusterInstancetype, Name: "u1.medium", Spec: instancetypev1beta1.VirtualMachineInstancetypeSpec{
		CPU: instancetypev1beta1.CPUInstancetype{Guest: 2}, Memory: instancetypev1beta1.MemoryInstancetype{Guest: resource.MustParse("4Gi")},
	}}
	in.Preference = &instancetypes.Preference{Kind: apikinds.VirtualMachineClusterPreference, Name: "linux"}
	in.Gathered = cel.NewReferences()
	in.Request = cel.Request{Operation: "CREATE", Name: vm.Name, Namespace: vm.Namespace, UserInfo: authenticationv1.UserInfo{Username: "alice"}}
	return in
}

// benchmarkLibrary asks policies about a VM of three disks, with everything that the pipeline knows of it, and takes
// away what the pipeline costs without them.
func benchmarkLibrary(b *testing.B, language library.Language) {
	b.Helper()
	request := ofLibrary(b, language)
	b.ReportAllocs()
	for b.Loop() {
		if err := request(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLibraryCEL50 is a VM to its verdict, evaluated by 50 policies of the library that are in CEL.
func BenchmarkLibraryCEL50(b *testing.B) { benchmarkLibrary(b, library.CEL) }

// BenchmarkLibraryRego50 is BenchmarkLibraryCEL50 with those in Rego.
func BenchmarkLibraryRego50(b *testing.B) { benchmarkLibrary(b, library.Rego) }

// BenchmarkLibrary evaluates the typical VM with each policy of the library, and with none.
func BenchmarkLibrary(b *testing.B) {
	in := wellKept()
	pipeline, env := pipeline(b), environment(b)
	evaluate := func(set *policies.Set) func(*testing.B) {
		return func(b *testing.B) {
			in.Policies = set
			b.ReportAllocs()
			for b.Loop() {
				if _, err := pipeline.Decide(in); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("none", evaluate(nil))
	for _, entry := range library.All() {
		b.Run(entry.Name, evaluate(policies.NewSet("virtward-system", policyOf(b, env, entry.Policy.DeepCopy()))))
	}
}
