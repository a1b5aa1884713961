package effective_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/advice"
	"github.com/virtward/virtward/policies/rego"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/isolated"
)

// Policies read the pod and the domain of VMs and of instances, and see the same of both, also of instances that arrived and that run.
func TestPoliciesReadPreviews(t *testing.T) {
	vmi := build.Typical("db").Obj()
	vmi.Spec.Domain.CPU = &v1.CPU{Sockets: 2}
	vm := build.VM("db").Obj()
	vm.Spec.Template.Spec = *vmi.Spec.DeepCopy()
	vm.Spec.Template.ObjectMeta = vmi.ObjectMeta
	arrived := complete(t, vmi)
	arrived.UID = "a"
	runs := arrived.DeepCopy()
	runs.Status = v1.VirtualMachineInstanceStatus{RuntimeUser: 107, VolumeStatus: []v1.VolumeStatus{{Name: runs.Spec.Volumes[0].Name}}}
	for expression, want := range map[string]bool{
		"pod.apiVersion == 'v1' && pod.kind == 'Pod' && pod.metadata.generateName == 'virt-launcher-db-'":                                                  true,
		"pod.spec.containers.exists(c, c.name == 'compute' && quantity(c.resources.requests.memory).isGreaterThan(quantity(vm.spec.domain.memory.guest)))": true,
		"pod.spec.containers[0].resources.limits['devices.kubevirt.io/kvm'] == '1'":                                                                        true,
		"pod.metadata.labels['kubevirt.io/created-by'] == ''":                                                                                              true,
		"has(pod.spec.priorityClassName)": false,
		"pod.spec.volumes.size() > 3":     true,
		"domain.type == 'kvm' && domain.name == 'default_db' && domain.vcpu.value == 8":                  true,
		"domain.cpu.topology.sockets == 8 && domain.os.type.value == 'hvm' && domain.memory.unit == 'b'": true,
		"domain.devices.disk.all(d, has(d.driver.cache) && d.driver.cache == 'unsafe')":                  false,
		"has(domain.qemu_commandline) || has(domain.os.firmwareInfo)":                                    false,
		"has(domain.features.acpi) && domain.features.?kvm.?hint_dedicated.hasValue()":                   false,
		"domain.devices.disk.map(d, d.alias.name).size() == vm.spec.domain.devices.disks.size()":         true,
	} {
		t.Run(expression, func(t *testing.T) {
			for name, in := range map[string]effective.Input{
				"VM": {VM: vm}, "instance": {VMI: vmi}, "arrived": {VMI: arrived, PostMutation: true}, "runs": {VMI: runs, PostMutation: true},
			} {
				if found := violated(t, in, expression, ""); (len(found) == 0) != want {
					t.Errorf("%s: %v", name, found)
				}
			}
		})
	}
}

// A virtual machine without a pod or a domain is an error of the policy that reads it, and says why.
func TestUnknownPreviews(t *testing.T) {
	large := build.VMI("db").Memory("1Gi").Obj()
	large.Spec.Domain.CPU = &v1.CPU{Sockets: 200_000}
	for expression, want := range map[string]string{
		"has(pod.spec.nodeName)": "pod cannot be previewed: too large to preview: 200000 vCPUs, at most 16384",
		"has(domain.iothreads)":  "domain cannot be previewed: spec.domain.cpu.maxSockets: 800000 sockets, 1 cores and 1 threads are more than 4096 vCPUs",
		"has(vm.spec.nodeSelector) || vm.kind == 'VirtualMachineInstance'": "",
	} {
		found := violated(t, effective.Input{VMI: large}, expression, "")
		if want == "" && len(found) == 0 {
			continue
		}
		if !slices.ContainsFunc(found, func(text string) bool {
			return want != "" && strings.Contains(text, want) && strings.Contains(text, "the policy cannot be evaluated: spec.validations[0].expression")
		}) {
			t.Errorf("%s: %q, want %q", expression, found, want)
		}
	}
}

// TestPreviewMemory compares what pods and domains take in all forms that policies read with what evaluations reserve. Each
// instance is about as large as one may be.
func TestPreviewMemory(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	env, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	scope, issues := env.Scope(cel.ScopeOptions{})
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	const disks, nics, vcpus = 190, 190, 2400
	for name, change := range map[string]func(*v1.VirtualMachineInstance){
		"container disks": func(vmi *v1.VirtualMachineInstance) {
			addVolumes(vmi, disks, v1.VolumeSource{ContainerDisk: &v1.ContainerDiskSource{Image: "a"}})
		},
		"claims": func(vmi *v1.VirtualMachineInstance) { addVolumes(vmi, disks, claimed("a")) },
		"filesystems": func(vmi *v1.VirtualMachineInstance) {
			for i := range disks {
				vmi.Spec.Volumes = append(vmi.Spec.Volumes, v1.Volume{Name: fmt.Sprint("d", i), VolumeSource: claimed("a")})
				vmi.Spec.Domain.Devices.Filesystems = append(vmi.Spec.Domain.Devices.Filesystems, v1.Filesystem{Name: fmt.Sprint("d", i), Virtiofs: &v1.FilesystemVirtiofs{}})
			}
		},
		"NICs": func(vmi *v1.VirtualMachineInstance) {
			for i := range nics {
				vmi.Spec.Networks = append(vmi.Spec.Networks, v1.Network{Name: fmt.Sprint("d", i), NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: "a"}}})
				vmi.Spec.Domain.Devices.Interfaces = append(vmi.Spec.Domain.Devices.Interfaces, v1.Interface{Name: fmt.Sprint("d", i), InterfaceBindingMethod: v1.InterfaceBindingMethod{SRIOV: &v1.InterfaceSRIOV{}}})
			}
		},
		"host devices": func(vmi *v1.VirtualMachineInstance) {
			for i := range 250 {
				vmi.Spec.Domain.Devices.HostDevices = append(vmi.Spec.Domain.Devices.HostDevices, v1.HostDevice{Name: fmt.Sprint("d", i), DeviceName: fmt.Sprint("a.b/", i)})
			}
		},
		"vCPUs": func(vmi *v1.VirtualMachineInstance) { vmi.Spec.Domain.CPU = &v1.CPU{Sockets: 600, MaxSockets: vcpus} },
		"dedicated CPUs": func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Domain.CPU = &v1.CPU{Cores: vcpus, Sockets: 1, MaxSockets: 1, DedicatedCPUPlacement: true, NUMA: &v1.NUMA{GuestMappingPassthrough: &v1.NUMAGuestMappingPassthrough{}}}
			vmi.Spec.Domain.Memory.Hugepages = &v1.Hugepages{PageSize: "2Mi"}
		},
		"I/O threads": func(vmi *v1.VirtualMachineInstance) {
			addVolumes(vmi, 6, v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{Capacity: resource.MustParse("1Gi")}})
			vmi.Spec.Domain.IOThreadsPolicy = new(v1.IOThreadsPolicySupplementalPool)
			vmi.Spec.Domain.IOThreads = &v1.DiskIOThreads{SupplementalPoolThreadCount: new(uint32(800))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			vmi := build.Typical("db").Obj()
			change(vmi)
			for document, field := range map[string]string{"pod": "kind", "domain": "name"} {
				in := effective.Input{VMI: vmi, Facts: platform.Defaults(platform.Settings{}), Policies: active(t, `{enforcement: Deny, validations: [{expression: "has(`+document+`.`+field+`)", message: "no"}]}`)}
				verdict, err := pipeline(t).Complete(in)
				if err != nil {
					t.Fatal(err)
				}
				in.VMI, in.PostMutation = verdict.VMI, true
				module, problems := rego.Compile("a", "package a\ndeny contains \"a\" if input."+document+"."+field+" == \"a\"")
				program, issues := scope.Compile(document+` == dyn({"a": 1}) || dyn(`+document+`.?vcpus.?vcpu.orValue([])).all(v, v.id >= 0 && v.enabled != "" && v.hotpluggable != "")
					|| dyn(`+document+`.?cputune.?vcpupin.orValue([])).all(v, v.vcpu >= 0 && v.cpuset != "")`, cel.Bool)
				if document == "pod" {
					program, issues = scope.Compile(document, cel.Any)
				}
				if module == nil || len(issues) > 0 {
					t.Fatal(problems, issues)
				}
				took, bytes := int64(math.MaxInt64), int64(0)
				for range 3 { // what the packages create at their first use is not of the document
					var previews *cel.Previews
					previews, bytes = effective.Previews(pipeline(t), &in, verdict)
					documents := &cel.Documents{Previews: previews}
					before := isolated.Heap()
					if _, err := program.Eval(scope.Activation(documents), cel.NewBudget()); err != nil && !errors.Is(err, cel.ErrResult) {
						t.Fatal(document, err)
					}
					input, err := policies.RegoInput(documents)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := module.Eval(input, rego.Limits{}); err != nil {
						t.Fatal(document, err)
					}
					took = min(took, isolated.Heap()-before)
					runtime.KeepAlive(documents)
					runtime.KeepAlive(input)
				}
				t.Logf("%s: %d of %d KiB", document, took>>10, bytes>>10)
				if took > bytes {
					t.Errorf("the %s takes %d bytes, and %d are reserved", document, took, bytes)
				}
			}
		})
	}
}

func addVolumes(vmi *v1.VirtualMachineInstance, count int, source v1.VolumeSource) {
	for i := range count {
		vmi.Spec.Volumes = append(vmi.Spec.Volumes, v1.Volume{Name: fmt.Sprint("d", i), VolumeSource: source})
		vmi.Spec.Domain.Devices.Disks = append(vmi.Spec.Domain.Devices.Disks, v1.Disk{Name: fmt.Sprint("d", i), DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: v1.VirtIO}}})
	}
}

func claimed(name string) v1.VolumeSource {
	return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}
}

// Each pod and each domain has the fields that lint takes for always set.
func TestAlwaysPreviewed(t *testing.T) {
	var found, unset []string
	for _, hypervisor := range []string{platform.KVM, platform.MSHV} {
		for _, architecture := range architectures.Names() {
			for _, vmi := range []*v1.VirtualMachineInstance{build.Typical("db").Obj(), build.VMI("small").Memory("1Gi").Obj()} {
				vmi.Spec.Architecture = architecture
				in := effective.Input{VMI: vmi, Facts: platform.Defaults(platform.Settings{})}
				facts := *in.Facts
				facts.Hypervisor.Name = hypervisor
				in.Facts, in.Policies = &facts, active(t, `{enforcement: Deny, validations: [{expression: "has(pod.kind) && has(domain.name)", message: "no"}]}`)
				verdict, err := pipeline(t).Complete(in)
				if err != nil {
					t.Fatal(err)
				}
				in.VMI, in.PostMutation = verdict.VMI, true
				previews, _ := effective.Previews(pipeline(t), &in, verdict)
				d := &cel.Documents{Previews: previews}
				for _, path := range advice.AlwaysPreviewed() {
					root, rest, _ := strings.Cut(path, ".")
					made := d.Preview(root)
					if made.Err != nil {
						t.Fatal(hypervisor, architecture, made.Err)
					}
					data, err := json.Marshal(made.Value)
					if err != nil {
						t.Fatal(err)
					}
					var document any
					if err := json.Unmarshal(data, &document); err != nil {
						t.Fatal(err)
					}
					found = append(found, path)
					if !has(document, strings.Split(rest, ".")) && !slices.Contains(unset, path) {
						unset = append(unset, path)
						t.Errorf("%s/%s %s: %s is absent", hypervisor, architecture, vmi.Name, path)
					}
				}
			}
		}
	}
	if len(found) == 0 {
		t.Error("no field is always set")
	}
}

// has reports whether a document has a field, and each element of a list has it. A list that is absent has no elements.
func has(document any, steps []string) bool {
	if len(steps) == 0 {
		return true
	}
	switch v := document.(type) {
	case map[string]any:
		below, ok := v[steps[0]]
		return ok && has(below, steps[1:]) || !ok && slices.Contains(steps, "[]")
	case []any:
		return steps[0] == "[]" && !slices.ContainsFunc(v, func(element any) bool { return !has(element, steps[1:]) })
	}
	return false
}

// The pod that policies read depends on the configuration of KubeVirt, and on the labels of the namespace where it selects some.
func TestPreviewsOfCluster(t *testing.T) {
	facts, err := platform.FromKubeVirt(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": map[string]any{"name": "kubevirt", "namespace": "kubevirt"},
		"spec": map[string]any{"configuration": map[string]any{
			"additionalGuestMemoryOverheadRatio": "4", "autoCPULimitNamespaceLabelSelector": map[string]any{"matchLabels": map[string]any{"limits": "auto"}},
		}},
	}}, platform.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		facts      *platform.Facts
		labels     map[string]string
		expression string
	}{
		{platform.Defaults(platform.Settings{}), nil, "quantity(pod.spec.containers[0].resources.requests.memory).isLessThan(quantity('1600Mi'))"},
		{facts, nil, "quantity(pod.spec.containers[0].resources.requests.memory).isGreaterThan(quantity('2Gi'))"},
		{facts, nil, "!has(pod.spec.containers[0].resources.limits.cpu)"},
		{facts, map[string]string{"limits": "none"}, "!has(pod.spec.containers[0].resources.limits.cpu)"},
		{facts, map[string]string{"limits": "auto"}, "pod.spec.containers[0].resources.limits.cpu == '1'"},
	} {
		in := effective.Input{VMI: build.VMI("db").Memory("1Gi").Obj(), Facts: c.facts, NamespaceLabels: c.labels, Request: create("jane")}
		in.Policies = active(t, fmt.Sprintf(`{enforcement: Deny, validations: [{expression: %q, message: "no"}]}`, c.expression))
		verdict, err := pipeline(t).Decide(in)
		if err != nil {
			t.Fatal(err)
		}
		if !verdict.Allowed() {
			t.Errorf("%s with the labels %v: %v", c.expression, c.labels, verdict.Findings)
		}
	}
}
