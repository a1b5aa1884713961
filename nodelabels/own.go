package nodelabels

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/platform"
)

// Domain is what all of Virtward's labels of nodes end with before the slash. virt-handler deletes no label below it.
const Domain = "node.virtward.io"

// The groups of Virtward's labels. The labels of what a hypervisor can do are below its own name, such as kvm.node.virtward.io.
const (
	HypervisorPrefix = "hypervisor." + Domain + "/"
	DevicePrefix     = "device." + Domain + "/"
	CPUPrefix        = "cpu." + Domain + "/"
)

// MaxLabels bounds the labels of one node.
const MaxLabels = 96

// State is the value of the label of a device, and of a hypervisor.
type State string

// States, in the order in which they are decided.
const (
	// NoDevice means that the kernel has no such device.
	NoDevice State = "no-device"
	// NoDriver means that the device has an interface that no hypervisor uses, or that its driver fails.
	NoDriver State = "no-driver"
	// NoResource means that no device plugin offers the device to pods.
	NoResource State = "no-resource"
	// NoDomains means that libvirt has no domains of the hypervisor on this node.
	NoDomains State = "no-domains"
	// Ready means that virtual machines can use it.
	Ready State = "ready"
)

// Access is what a process learned when it opened a device.
type Access string

// Accesses.
const (
	// NotOpened is for a device that the process must not open.
	NotOpened Access = ""
	// Works is for a device that answered, and Fails for one that did not.
	Works Access = "works"
	Fails Access = "fails"
)

// Device is a device of the node.
type Device struct {
	// Present reports whether the kernel has registered it.
	Present bool
	Access  Access
}

// Facts are what Virtward's labeller knows of its node.
type Facts struct {
	// Architecture in Kubernetes' form.
	Architecture string
	// Devices of the node by name, such as kvm and vhost-net. A device without an entry is not present.
	Devices map[string]Device
	// Allocatable are the resources that the node offers to pods; nil if they are not known.
	Allocatable corev1.ResourceList
	// Documents are those of libvirt, with nil for those that are not known.
	Documents Documents
	CPU       CPU
}

// Labeller is what a hypervisor contributes to the labels of nodes.
type Labeller interface {
	// State is whether virtual machines of the hypervisor can run on the node.
	State(node *Facts) State
	// Capabilities are what its virtual machines can use on the node, by name. They become labels if the hypervisor is ready.
	Capabilities(node *Facts) map[string]string
	// Devices are those that its virtual machines can request (VEP 97's DeviceRequests).
	Devices() []launcher.DeviceRequest
}

// Capability is a row of the table of capabilities.
type Capability struct {
	// Name is that of the label, after the slash. A row of the same name in a more specific layer replaces it; one without a function
	// removes it.
	Name string
	// Title says what it is.
	Title string
	// Of returns the value; empty if the node lacks the capability.
	Of func(node *Facts) string
}

// Layer is what a hypervisor adds for an architecture, or replaces.
type Layer struct{ Capabilities []Capability }

// BaseLabeller labels what hypervisors have in common. A hypervisor embeds it.
type BaseLabeller struct {
	form         platform.Hypervisor
	devices      []launcher.DeviceRequest
	capabilities []Capability
}

// NewBaseLabeller returns the labeller of a hypervisor on an architecture, with the devices that its pods can request. The form is one
// of the hypervisor's names in the KubeVirt resource.
func NewBaseLabeller(form platform.Hypervisor, architecture string, devices []launcher.DeviceRequest, layers ...Layer) *BaseLabeller {
	l := &BaseLabeller{form: form, devices: devices}
	for _, layer := range slices.Concat([]Layer{base(), ofArchitecture(architecture)}, layers) {
		for _, row := range layer.Capabilities {
			l.replace(row)
		}
	}
	return l
}

func (l *BaseLabeller) replace(row Capability) {
	at := slices.IndexFunc(l.capabilities, func(c Capability) bool { return c.Name == row.Name })
	switch {
	case at < 0 && row.Of != nil:
		l.capabilities = append(l.capabilities, row)
	case at >= 0 && row.Of == nil:
		l.capabilities = slices.Delete(l.capabilities, at, at+1)
	case at >= 0:
		l.capabilities[at] = row
	}
}

// Devices implements Labeller.
func (l *BaseLabeller) Devices() []launcher.DeviceRequest { return l.devices }

// State implements Labeller: the device of the hypervisor is present and offered, and libvirt has domains of its type.
func (l *BaseLabeller) State(node *Facts) State {
	state := node.device(corev1.ResourceName(l.form.Device))
	if state == Ready && node.Documents.Domain != nil && node.Documents.DomainType() != l.form.VirtType {
		return NoDomains
	}
	return state
}

// Capabilities implements Labeller. Without documents of libvirt there are none.
func (l *BaseLabeller) Capabilities(node *Facts) map[string]string {
	values := map[string]string{}
	if node.Documents.Domain == nil {
		return values
	}
	for _, row := range l.capabilities {
		if value := row.Of(node); value != "" {
			values[row.Name] = value
		}
	}
	return values
}

// Table returns the rows of capabilities.
func (l *BaseLabeller) Table() []Capability { return slices.Clone(l.capabilities) }

// DeviceName is the name of a device, from that of the resource that offers it: kvm of devices.kubevirt.io/kvm. The kernel uses the same
// names for its devices.
func DeviceName(resource corev1.ResourceName) string {
	name := string(resource)
	return name[strings.LastIndex(name, "/")+1:]
}

// device is the state of a device.
func (f *Facts) device(resource corev1.ResourceName) State {
	d := f.Devices[DeviceName(resource)]
	switch {
	case !d.Present:
		return NoDevice
	case d.Access == Fails:
		return NoDriver
	case f.Allocatable != nil:
		if offered := f.Allocatable[resource]; offered.Sign() <= 0 {
			return NoResource
		}
	}
	return Ready
}

func base() Layer {
	return Layer{Capabilities: []Capability{
		{Name: "max-vcpus", Title: "most vCPUs of a virtual machine", Of: maxVCPUs},
		{Name: "host-passthrough", Title: "CPU model host-passthrough", Of: cpuMode("host-passthrough")},
		{Name: "host-model", Title: "CPU model host-model", Of: cpuMode("host-model")},
		{Name: "efi", Title: "EFI firmware", Of: value("efi", "firmware", "os")},
		{Name: "tpm", Title: "emulated TPM", Of: value("emulator", "backendModel", "devices", "tpm")},
		{Name: "virtiofs", Title: "shared file systems", Of: value("virtiofs", "driverType", "devices", "filesystem")},
	}}
}

// ofArchitecture is the layer of an architecture.
func ofArchitecture(architecture string) Layer {
	switch architecture {
	case architectures.AMD64:
		return Layer{Capabilities: []Capability{
			{Name: "secure-boot", Title: "EFI firmware with Secure Boot", Of: value(yes, "secure", "os", "loader")},
			{Name: "sev", Title: "AMD SEV", Of: Feature("sev")},
			{Name: "sev-es", Title: "AMD SEV-ES, with guests left", Of: sevES},
			{Name: "sev-snp", Title: "AMD SEV-SNP", Of: value("sev-snp", "sectype", "features", "launchSecurity")},
			{Name: "tdx", Title: "Intel TDX", Of: Feature("tdx")},
		}}
	case architectures.ARM64:
		return Layer{Capabilities: []Capability{{Name: "gic", Title: "newest version of the interrupt controller", Of: gic}}}
	case architectures.S390X:
		return Layer{Capabilities: []Capability{{Name: "secure-execution", Title: "IBM Secure Execution", Of: Feature("s390-pv")}}}
	}
	return Layer{}
}

func truth(b bool) string {
	if b {
		return enabled
	}
	return ""
}

func maxVCPUs(n *Facts) string {
	most, err := strconv.ParseUint(n.Documents.Domain.find("vcpu").Attribute("max"), 10, 32)
	if err != nil || most == 0 {
		return ""
	}
	return strconv.FormatUint(most, 10)
}

func cpuMode(name string) func(*Facts) string {
	return func(n *Facts) string {
		mode := n.Documents.Domain.mode(name)
		return truth(mode != nil && mode.Attribute("supported") == yes)
	}
}

// value is for a value of an enumeration of an element that libvirt supports.
func value(want, enumeration string, path ...string) func(*Facts) string {
	return func(n *Facts) string {
		return truth(n.Documents.Domain.supported(path...) && slices.Contains(n.Documents.Domain.values(enumeration, path...), want))
	}
}

// Feature is the Of of a capability that is an element of the features of libvirt's domain capabilities.
func Feature(name string) func(*Facts) string {
	return func(n *Facts) string { return truth(n.Documents.Domain.supported("features", name)) }
}

func sevES(n *Facts) string {
	guests, err := n.Documents.Domain.number("features", "sev", "maxESGuests")
	return truth(err == nil && guests > 0 && n.Documents.Domain.supported("features", "sev"))
}

func gic(n *Facts) string {
	if !n.Documents.Domain.supported("features", "gic") {
		return ""
	}
	versions := n.Documents.Domain.values("version", "features", "gic")
	if len(versions) == 0 {
		return ""
	}
	return slices.Max(versions)
}

// Named is a labeller with the name of its hypervisor.
type Named struct {
	Hypervisor string
	Labeller   Labeller
}

// Own computes Virtward's labels of a node, for hypervisors of the node's architecture. Values that no label can have are left out,
// and labels beyond MaxLabels in the order of their keys.
func Own(node *Facts, hypervisors []Named) map[string]string {
	labels := map[string]string{}
	set := func(key, value string) {
		if len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0 {
			labels[key] = value
		}
	}
	for _, h := range hypervisors {
		state := h.Labeller.State(node)
		set(HypervisorPrefix+h.Hypervisor, string(state))
		for _, d := range h.Labeller.Devices() {
			set(DevicePrefix+DeviceName(d.Resource), string(node.device(d.Resource)))
		}
		if state != Ready {
			continue
		}
		for name, value := range h.Labeller.Capabilities(node) {
			set(h.Hypervisor+"."+Domain+"/"+name, value)
		}
	}
	for name, value := range node.CPU.labels() {
		set(CPUPrefix+name, value)
	}
	for _, key := range sortedKeys(labels)[min(len(labels), MaxLabels):] {
		delete(labels, key)
	}
	return labels
}

// IsOwn reports whether a label is one of Virtward's labels of nodes.
func IsOwn(key string) bool {
	prefix, _, found := strings.Cut(key, "/")
	return found && strings.HasSuffix(prefix, "."+Domain)
}
