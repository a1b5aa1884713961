package placement

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"

	"github.com/virtward/virtward/launcher"
)

// requestsOf is what a pod takes of a node: containers that run together are added, those that run before count as far as they
// need more.
func requestsOf(p *corev1.Pod) amounts {
	return amountsOf(podresource.PodRequests(p, podresource.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}))
}

// firstResources are checked first, in kube-scheduler's order.
var firstResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// resources requires room for another pod, and for what it requests.
func resources(c *compilation) []check {
	rooms := c.snapshot.left(corev1.ResourcePods)
	checks := []check{{
		kind:    TooManyPods,
		lasting: func(n *node) bool { return n.allocatable[corev1.ResourcePods] < 1 },
		passes:  func(n *node) bool { return rooms[n.index] >= 1 },
		explain: func(n *node) (string, string) {
			return fmt.Sprintf("the node runs %d pods, of at most %d", n.used[corev1.ResourcePods], n.allocatable[corev1.ResourcePods]), "move a pod to another node"
		},
	}}
	names := slices.Clone(firstResources)
	for _, name := range slices.Sorted(maps.Keys(c.requests)) {
		if !slices.Contains(firstResources, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		needed := c.requests[name]
		if needed <= 0 {
			continue
		}
		left := c.snapshot.left(name)
		r := &requested{name: name, needed: needed, source: c.resourceSource(name), c: c}
		checks = append(checks, check{
			kind: Insufficient, source: r.source, resource: name,
			lasting: func(n *node) bool { return n.allocatable[name] < needed },
			passes:  func(n *node) bool { return left[n.index] >= needed },
			explain: r.explain,
		})
	}
	return checks
}

// requested is a resource that a pod requests.
type requested struct {
	name   corev1.ResourceName
	needed int64
	source source
	c      *compilation
}

// explain says what is needed and what the node has.
func (r *requested) explain(n *node) (text, change string) {
	all, free := n.allocatable[r.name], n.free(r.name)
	if all == 0 && strings.Contains(string(r.name), "/") {
		return fmt.Sprintf("the node has no %s, and the pod needs %s", r.name, Readable(r.name, r.needed)), r.device()
	}
	text = fmt.Sprintf("needs %s of %s%s; %s of %s is free", Readable(r.name, r.needed), title(r.name), r.overhead(), Readable(r.name, max(free, 0)), Readable(r.name, all))
	lacking := Readable(r.name, r.needed-free)
	if all < r.needed {
		return text, r.less(Readable(r.name, r.needed-all)) + ": the node is too small even when it is empty"
	}
	return text, "free " + lacking + " on the node, or " + r.less(lacking)
}

// less says how to request less.
func (r *requested) less(amount string) string {
	kind, name, _ := strings.Cut(r.source.layer, "/")
	switch {
	case kind == "instancetype":
		return "use an instancetype with " + amount + " less " + title(r.name) + " than " + name
	case r.source.field != "":
		return "request " + amount + " less with " + r.source.field
	}
	return "request " + amount + " less"
}

// device says how to get a device.
func (r *requested) device() string {
	if strings.HasPrefix(string(r.name), "devices.kubevirt.io/") {
		return "check that virt-handler runs on the node, and that the node has the device"
	}
	return "install the device plugin of " + string(r.name) + " on the node, or remove the device"
}

// overhead is the part of the memory that KubeVirt adds.
func (r *requested) overhead() string {
	if r.name != corev1.ResourceMemory || r.c.Launcher == nil {
		return ""
	}
	if total := r.c.Launcher.Overhead.Total; total.Value() > 0 {
		return ", " + launcher.Readable(&total) + " of it KubeVirt's overhead"
	}
	return ""
}

// title is the name of a resource for people.
func title(name corev1.ResourceName) string {
	if size, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix); ok {
		return "huge pages of " + size
	}
	if name == corev1.ResourceCPU {
		return "CPU"
	}
	return string(name)
}

// Readable is an amount of a resource for people: thousandths of CPUs, and whole units of all others.
func Readable(name corev1.ResourceName, amount int64) string {
	switch {
	case name == corev1.ResourceCPU:
		return resource.NewMilliQuantity(amount, resource.DecimalSI).String()
	case name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage, strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
		return launcher.Readable(resource.NewQuantity(amount, resource.BinarySI))
	}
	return strconv.FormatInt(amount, 10)
}

// resourceSource is the field of the instance that requests a resource.
func (c *compilation) resourceSource(name corev1.ResourceName) source {
	if c.VMI == nil {
		return source{}
	}
	d := &c.VMI.Spec.Domain
	if _, stated := d.Resources.Requests[name]; stated {
		return c.of("spec.domain.resources.requests."+string(name), "")
	}
	if _, stated := d.Resources.Limits[name]; stated {
		return c.of("spec.domain.resources.limits."+string(name), "")
	}
	switch {
	case name == corev1.ResourceCPU:
		return c.of("spec.domain.cpu", "")
	case name == corev1.ResourceMemory:
		return c.of("spec.domain.memory.guest", "")
	case strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
		return c.of("spec.domain.memory.hugepages", "")
	case strings.Contains(string(name), "/"):
		return c.deviceSource(name)
	}
	return source{rule: "KubeVirt adds it to each virtual machine"}
}

// deviceSource is the field that needs a device.
func (c *compilation) deviceSource(name corev1.ResourceName) source {
	d := &c.VMI.Spec.Domain.Devices
	for i := range d.GPUs {
		if d.GPUs[i].DeviceName == string(name) {
			return c.of("spec.domain.devices.gpus["+strconv.Itoa(i)+"]", "")
		}
	}
	for i := range d.HostDevices {
		if d.HostDevices[i].DeviceName == string(name) {
			return c.of("spec.domain.devices.hostDevices["+strconv.Itoa(i)+"]", "")
		}
	}
	if c.Launcher != nil {
		for _, device := range c.Launcher.Devices {
			if device.Resource == name && device.Field != "" {
				return c.of(device.Field, "")
			} else if device.Resource == name {
				return source{rule: "each virtual machine needs the hypervisor's device"}
			}
		}
	}
	if strings.HasPrefix(string(name), "devices.kubevirt.io/") {
		return source{rule: "KubeVirt needs this device"}
	}
	return c.of("spec.networks", "a network needs this device")
}
