package hypervisor

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/conformance"
	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/test/build"
)

// object is a virtual machine in a cluster.
type object struct {
	// name says for messages where it comes from.
	name string
	// vmi is the object, or the template of the vm. Both are templates here: copy them.
	vmi *v1.VirtualMachineInstance
	// vm is nil for an object that was recorded as a VMI.
	vm *v1.VirtualMachine
	// facts are those of the cluster that it was recorded in, but for the hypervisor.
	facts *platform.Facts
}

// on is a copy of the VMI for an architecture.
func (o *object) on(architecture string) *v1.VirtualMachineInstance {
	vmi := o.vmi.DeepCopy()
	vmi.Spec.Architecture = architecture
	return vmi
}

// testdata finds the recorded cases from whatever folder of the module a test runs in.
func testdata() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return filepath.Join(folder, "conformance", "testdata"), nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", errors.New("the test does not run in a folder of the module")
		}
		folder = parent
	}
}

// recorded are the objects of the conformance cases, read once.
var recorded = sync.OnceValues(func() ([]object, error) {
	folder, err := testdata()
	if err != nil {
		return nil, err
	}
	var all []object
	for _, name := range []string{"admission.jsonl", "panics.jsonl"} {
		objects, err := objectsIn(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	if len(all) < 1000 {
		return nil, fmt.Errorf("only %d objects were recorded", len(all))
	}
	return all, nil
})

func objectsIn(name string) ([]object, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []object
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		var c conformance.AdmissionCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if o, ok := decoded(&c); ok {
			all = append(all, o)
		}
	}
	return all, lines.Err()
}

// decoded is the object of a case; false for one that no caller decodes.
func decoded(c *conformance.AdmissionCase) (object, bool) {
	o := object{name: c.ID, vmi: &v1.VirtualMachineInstance{}, facts: factsOf(c)}
	if decode.Object(c.Object, reflect.TypeFor[v1.VirtualMachineInstance]()) != nil || decode.Object(c.Object, reflect.TypeFor[v1.VirtualMachine]()) != nil {
		return o, false
	}
	if c.Kind != "VirtualMachine" {
		return o, json.Unmarshal(c.Object, o.vmi) == nil
	}
	o.vm = &v1.VirtualMachine{}
	if json.Unmarshal(c.Object, o.vm) != nil {
		return o, false
	}
	if template := o.vm.Spec.Template; template != nil {
		o.vmi.ObjectMeta, o.vmi.Spec = template.ObjectMeta, template.Spec
	}
	return o, true
}

// factsOf are the facts that the case was recorded with, or KubeVirt's defaults where it would take none.
func factsOf(c *conformance.AdmissionCase) *platform.Facts {
	if facts, err := factsFrom(c.KubeVirt, platform.Settings{}); err == nil {
		return facts
	}
	return platform.Defaults(platform.Settings{})
}

func factsFrom(configuration map[string]any, settings platform.Settings) (*platform.Facts, error) {
	return platform.FromKubeVirt(&unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "kubevirt", "namespace": "kubevirt"},
		"spec":     map[string]any{"configuration": configuration},
	}}, settings)
}

// ordinary are objects that leave open what can be left open. There is nothing wrong with them.
func ordinary() []object {
	facts := platform.Defaults(platform.Settings{})
	staged := platform.Defaults(platform.Settings{RolloutStrategy: v1.VMRolloutStrategyStage})
	off := false
	var all []object
	for _, o := range []struct {
		name string
		vmi  *build.VMIBuilder
	}{
		{"of nothing in particular", build.VMI("vm")},
		{"that a person would write", build.Typical("vm")},
		{"with a volume and no disk", build.VMI("vm").Volume("data", "quay.io/containerdisks/fedora:41")},
		{"of two threads", build.VMI("vm").Topology(1, 2, 2)},
		{"with a limit of CPUs", build.VMI("vm").Limit(corev1.ResourceCPU, "2")},
		{"without graphics", build.VMI("vm").With(func(spec *v1.VirtualMachineInstanceSpec) {
			spec.Domain.Devices.AutoattachGraphicsDevice = &off
		})},
	} {
		all = append(all,
			object{name: "a VMI " + o.name, vmi: o.vmi.Obj(), facts: facts},
			object{name: "a VM " + o.name, vmi: o.vmi.Obj(), vm: build.VMOf(o.vmi).Obj(), facts: facts},
			object{name: "a VM " + o.name + ", staged", vmi: o.vmi.Obj(), vm: build.VMOf(o.vmi).Obj(), facts: staged},
		)
	}
	return all
}

// odd returns unusual objects.
func odd() []object {
	facts := platform.Defaults(platform.Settings{})
	return []object{
		{name: "an empty VMI", vmi: &v1.VirtualMachineInstance{}, facts: facts},
		{name: "a VM without a template", vmi: &v1.VirtualMachineInstance{}, vm: &v1.VirtualMachine{}, facts: facts},
		{name: "a VMI of empty things", facts: facts, vmi: &v1.VirtualMachineInstance{Spec: v1.VirtualMachineInstanceSpec{
			Domain: v1.DomainSpec{
				CPU: &v1.CPU{}, Memory: &v1.Memory{}, Machine: &v1.Machine{}, Firmware: &v1.Firmware{Bootloader: &v1.Bootloader{}},
				Features: &v1.Features{Hyperv: &v1.FeatureHyperv{}}, Clock: &v1.Clock{}, LaunchSecurity: &v1.LaunchSecurity{},
				Devices: v1.Devices{
					Disks: make([]v1.Disk, 2), Interfaces: make([]v1.Interface, 2), Inputs: make([]v1.Input, 2), GPUs: make([]v1.GPU, 2),
					HostDevices: make([]v1.HostDevice, 2), Watchdog: &v1.Watchdog{}, Sound: &v1.SoundDevice{}, Video: &v1.VideoDevice{}, TPM: &v1.TPMDevice{},
				},
			},
			Volumes: make([]v1.Volume, 2), Networks: make([]v1.Network, 2),
		}}},
	}
}

// everyObject are all of them.
func (s *suite) everyObject() ([]object, error) {
	all, err := s.recorded()
	if err != nil {
		return nil, err
	}
	return slices.Concat(ordinary(), odd(), all), nil
}
