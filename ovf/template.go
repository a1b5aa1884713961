package ovf

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/texts"
)

// The values of TemplateOptions.Networks that are no NetworkAttachmentDefinitions.
const (
	NetworkPod  = "pod"
	NetworkNone = "none"
)

// TemplateOptions are the choices about a template.
type TemplateOptions struct {
	// Name is that of the template; empty for the name of the virtual system.
	Name string
	// Namespace is that of the PersistentVolumeClaims with the content of the disks.
	Namespace string
	// Networks are the NetworkAttachmentDefinitions of the descriptor's networks, as NAME or NAMESPACE/NAME, or NetworkPod, or
	// NetworkNone to drop the interface. Without a value, the first interface is connected to the pod network.
	Networks map[string]string
	// PreserveMACs keeps the MAC addresses. Two virtual machines of the template cannot run in the same network then.
	PreserveMACs bool
}

// Claim is a PersistentVolumeClaim that a template clones.
type Claim struct {
	// Name is that of the claim.
	Name string
	// Href is the file that it contains the disk of.
	Href string
	// CapacityBytes is the size of the disk; 0 for a CD.
	CapacityBytes int64
}

// Template is a template and what it needs.
type Template struct {
	*v1beta1.VirtualMachineTemplate
	// Claims are what must be imported before a virtual machine can be created.
	Claims []Claim
}

// object is a JSON object.
type object = map[string]any

// builder builds the template of a mapping.
type builder struct {
	*Mapping
	options    TemplateOptions
	name       string
	template   Template
	escaped    bool
	parameters map[string]string // names of parameters by the keys of properties
	disks      []any
	volumes    []any
	claims     []any
	interfaces []any
	networks   []any
}

// Template makes a template of a mapping without rejections. It adds warnings to the mapping. The error names the networks that the
// options must map.
func (m *Mapping) Template(options TemplateOptions) (*Template, error) {
	if len(m.Rejections) > 0 {
		return nil, &m.Rejections[0]
	}
	b := &builder{Mapping: m, options: options, parameters: map[string]string{}}
	b.name = options.Name
	if b.name == "" {
		b.name = Name(m.System.Name, m.System.ID)
	}
	if m.embedded != nil {
		return b.embeddedTemplate()
	}
	b.parametersOf()
	b.storage()
	if err := b.connect(); err != nil {
		return nil, err
	}
	b.cloudInit()
	raw, err := json.Marshal(b.machine())
	if err != nil {
		return nil, fmt.Errorf("encoding the virtual machine: %w", err)
	}
	b.finish(raw)
	return &b.template, nil
}

var (
	notInName      = regexp.MustCompile(`[^a-z0-9]+`)
	notInParameter = regexp.MustCompile(`[^A-Z0-9_]+`)
)

// maxTemplateName bounds the name of a template in characters: names of claims have a suffix.
const maxTemplateName = 50

// Name is a name for a template, of the first candidate that has a letter or a digit of ASCII.
func Name(candidates ...string) string {
	for _, c := range candidates {
		c = strings.Trim(notInName.ReplaceAllString(strings.ToLower(c), "-"), "-")
		if len(c) > maxTemplateName {
			c = strings.Trim(c[:maxTemplateName], "-")
		}
		if c != "" {
			return c
		}
	}
	return "appliance"
}

// FileName is the name of a file without its folder and extension, as a candidate of Name.
func FileName(file string) string {
	base := path.Base(strings.ReplaceAll(file, `\`, "/"))
	return strings.TrimSuffix(base, path.Ext(base))
}

// parametersOf makes a parameter of each property that the user can set.
func (b *builder) parametersOf() {
	add := func(p v1beta1.Parameter) {
		b.template.VirtualMachineTemplate.Spec.Parameters = append(b.template.VirtualMachineTemplate.Spec.Parameters, p)
	}
	b.template.VirtualMachineTemplate = &v1beta1.VirtualMachineTemplate{}
	add(v1beta1.Parameter{Name: "NAME", Description: "The name of the virtual machine", Generate: v1beta1.GenerateExpression, From: b.name + "-[a-z0-9]{8}"})
	taken := map[string]bool{"NAME": true, templates.DollarParameter: true}
	for i := range b.Properties {
		p := &b.Properties[i]
		if !p.UserConfigurable || len(taken) >= v1beta1.MaxParameters-1 {
			continue
		}
		name := parameterName(p.Key, taken)
		taken[name] = true
		b.parameters[p.Key] = name
		parameter := v1beta1.Parameter{Name: name, DisplayName: short(p.Label), Description: short(strings.TrimSpace(p.Description + " " + p.Qualifiers)), Value: p.Default}
		if p.Key == cloudUserData && p.Default == "" {
			parameter.Value = emptyUserData
		}
		if p.Password {
			parameter.Value, parameter.Generate, parameter.From = "", v1beta1.GenerateExpression, "[a-zA-Z0-9]{16}"
		}
		add(parameter)
	}
}

// parameterName is a name for the parameter of a property that is not taken.
func parameterName(key string, taken map[string]bool) string {
	name := strings.Trim(notInParameter.ReplaceAllString(strings.ToUpper(key), "_"), "_")
	if name == "" {
		name = "PROPERTY"
	}
	name = texts.Shorten(name, v1beta1.MaxParameterName/2)
	name = notInParameter.ReplaceAllString(name, "_")
	unique := name
	for n := 2; taken[unique]; n++ {
		unique = fmt.Sprintf("%s_%d", name, n)
	}
	return unique
}

// short bounds a text to what a template can have.
func short(text string) string { return texts.ShortenCharacters(text, maxDescription) }

// escape keeps text that looks like a reference to a parameter.
func (b *builder) escape(text string) string {
	kept := templates.Escape(text, templates.DollarParameter)
	b.escaped = b.escaped || kept != text
	return kept
}

// storage adds the disks and the CD drives.
func (b *builder) storage() {
	for i := range b.System.Disks {
		d := &b.System.Disks[i]
		name := fmt.Sprintf("disk-%d", i+1)
		source := object{"blank": object{}}
		if !d.Blank {
			source = b.clone(name, d.Href, d.CapacityBytes)
		}
		storage := object{}
		if d.CapacityBytes > 0 {
			storage["resources"] = object{"requests": object{"storage": resource.NewQuantity(VolumeSize(d.CapacityBytes), resource.BinarySI).String()}}
		}
		target := object{}
		if d.Controller == "ide" || d.Controller == "sata" || b.System.architecture != "" { // the preference chooses the others
			target["bus"] = d.Bus
		}
		b.volume(name, source, storage, object{"name": name, "disk": target})
		if d.BootOrder > 0 {
			b.disks[len(b.disks)-1].(object)["bootOrder"] = d.BootOrder
		}
	}
	for i, c := range b.System.CDROMs {
		name := fmt.Sprintf("cdrom-%d", i+1)
		disk := object{"name": name, "cdrom": object{"bus": c.Bus}}
		if i == 0 && len(b.System.Disks) == 0 {
			disk["bootOrder"] = 1
		}
		b.volume(name, b.clone(name, c.Href, 0), object{}, disk)
	}
}

// VolumeSize is the size of the volume of a disk: whole MiB, as storage classes have them. A volume that clones it cannot be smaller.
func VolumeSize(size int64) int64 { return max(1, (size+1<<20-1)>>20) << 20 }

// clone is the source of a volume: a claim of the template.
func (b *builder) clone(name, href string, capacity int64) object {
	claim := Claim{Name: b.name + "-" + name, Href: href, CapacityBytes: capacity}
	b.template.Claims = append(b.template.Claims, claim)
	return object{"pvc": object{"namespace": b.options.Namespace, "name": claim.Name}}
}

func (b *builder) volume(name string, source, storage, disk object) {
	claim := "${NAME}-" + name
	b.claims = append(b.claims, object{"metadata": object{"name": claim}, "spec": object{"source": source, "storage": storage}})
	b.volumes = append(b.volumes, object{"name": name, "dataVolume": object{"name": claim}})
	b.disks = append(b.disks, disk)
}

// connect adds the interfaces.
func (b *builder) connect() error {
	var unmapped []string
	pods := 0
	for i, n := range b.System.NICs {
		target, mapped := b.options.Networks[n.Network]
		if !mapped && i == 0 {
			target = NetworkPod
			b.Warn(Guessed, n.element, fmt.Sprintf("the network %q becomes the pod network", texts.Shorten(n.Network, maxShown)))
		}
		name := fmt.Sprintf("nic-%d", i+1)
		nic := object{"name": name, "model": n.Model}
		network := object{"name": name}
		if target == "" && n.Network == "" { // it has no name to map
			b.Warn(DeviceDropped, n.element, "the network adapter is not imported: it names no network")
			continue
		}
		switch target {
		case "":
			unmapped = append(unmapped, n.Network)
			continue
		case NetworkNone:
			b.Warn(DeviceDropped, n.element, "the network adapter is not imported: its network is mapped to none")
			continue
		case NetworkPod:
			pods++
			nic["masquerade"], network["pod"] = object{}, object{}
		default:
			nic["bridge"], network["multus"] = object{}, object{"networkName": target}
		}
		if b.options.PreserveMACs && n.MAC != "" {
			nic["macAddress"] = n.MAC
		}
		b.interfaces, b.networks = append(b.interfaces, nic), append(b.networks, network)
	}
	return networkErrors(unmapped, pods)
}

// networkErrors is the error of networks without a mapping, or of two adapters in the pod network.
func networkErrors(unmapped []string, pods int) error {
	switch {
	case len(unmapped) > 0:
		slices.Sort(unmapped)
		return fmt.Errorf("networks without a mapping: %s: map each to a NetworkAttachmentDefinition, to pod or to none", texts.First(slices.Compact(unmapped), 10))
	case pods > 1:
		return fmt.Errorf("%d network adapters are mapped to the pod network: a virtual machine can have only one there", pods)
	}
	return nil
}

// cloudUserData is the key of a property with data for cloud-init in base64.
const cloudUserData = "user-data"

// emptyUserData is data for cloud-init that does nothing, in base64. KubeVirt rejects empty data.
var emptyUserData = base64.StdEncoding.EncodeToString([]byte("#cloud-config\n"))

// cloudKeys are the keys of properties that cloud-init reads: its data source OVF.
var cloudKeys = []string{cloudUserData, "public-keys", "password", "hostname"}

// cloud is the reference to the parameter of a key of cloud-init; empty if there is no such property.
func (b *builder) cloud(key string) string {
	if name := b.parameters[key]; name != "" {
		return "${" + name + "}"
	}
	return ""
}

// cloudInit gives the properties that cloud-init reads to the guest, and warns of all others.
func (b *builder) cloudInit() {
	data := object{}
	switch userData, keys, password := b.cloud(cloudUserData), b.cloud("public-keys"), b.cloud("password"); {
	case userData != "":
		data["userDataBase64"] = userData
	case keys != "" || password != "":
		lines := "#cloud-config\n"
		if keys != "" {
			lines += "ssh_authorized_keys:\n- \"" + keys + "\"\n"
		}
		if password != "" {
			lines += `password: "` + password + "\"\n"
		}
		data["userData"] = lines
	}
	if len(data) > 0 {
		b.volumes = append(b.volumes, object{"name": "cloud-init", "cloudInitNoCloud": data})
		b.disks = append(b.disks, object{"name": "cloud-init", "cdrom": object{"bus": b.System.mediumBus()}})
	}
	_, raw := data["userDataBase64"]
	for _, p := range b.Properties {
		read := slices.Contains(cloudKeys, p.Key) && (p.Key == cloudUserData || p.Key == "hostname" || !raw)
		if p.UserConfigurable && !read {
			b.Warn(PropertyDropped, p.Key, "the guest does not receive the property: KubeVirt provides no OVF environment")
		}
	}
}

// defaultMemory is the memory of a virtual system that states none.
const defaultMemory = 1024

// machine is the VirtualMachine of the template.
func (b *builder) machine() object {
	s := b.System
	memory := s.MemoryMiB
	if memory == 0 {
		memory = defaultMemory
		b.Warn(Guessed, s.element, "the descriptor states no memory: the virtual machine gets 1Gi")
	}
	cpus := 1
	if s.CPU == nil {
		b.Warn(Guessed, s.element, "the descriptor states no CPUs: the virtual machine gets 1")
	} else {
		cpus = s.CPU.VCPUs
	}
	b.requirements(cpus, memory)
	domain := object{
		"memory":  object{"guest": resource.NewQuantity(memory<<20, resource.BinarySI).String()},
		"devices": b.devices(),
	}
	if s.CPU != nil {
		domain["cpu"] = object{"sockets": s.CPU.Sockets, "cores": s.CPU.CoresPerSocket, "threads": 1}
	}
	switch s.Firmware {
	case firmwareBIOS:
		if s.architecture == "" {
			domain["firmware"] = object{"bootloader": object{"bios": object{}}}
		}
	case firmwareEFI:
		domain["firmware"] = object{"bootloader": object{"efi": object{"secureBoot": false}}}
	default:
		domain["firmware"] = object{"bootloader": object{"efi": object{"secureBoot": true}}}
		domain["features"] = object{"smm": object{"enabled": true}}
	}
	guest := object{"domain": domain}
	for key, list := range map[string][]any{"volumes": b.volumes, "networks": b.networks} {
		if len(list) > 0 {
			guest[key] = list
		}
	}
	if s.architecture != "" {
		guest["architecture"] = s.architecture
	}
	if hostname := b.cloud("hostname"); hostname != "" {
		guest["hostname"] = hostname
	}
	spec := object{
		"runStrategy": "Halted",
		"preference":  object{"kind": "VirtualMachineClusterPreference", "name": s.OS.Preference},
		"template":    object{"spec": guest},
	}
	if len(b.claims) > 0 {
		spec["dataVolumeTemplates"] = b.claims
	}
	return object{"apiVersion": "kubevirt.io/v1", "kind": apikinds.VirtualMachine, "metadata": object{"name": "${NAME}"}, "spec": spec}
}

func (b *builder) devices() object {
	found := object{}
	if len(b.disks) > 0 {
		found["disks"] = b.disks
	}
	if len(b.interfaces) > 0 {
		found["interfaces"] = b.interfaces
	} else {
		found["autoattachPodInterface"] = false
	}
	if b.System.TPM {
		found["tpm"] = object{}
	}
	return found
}

// finish sets the template around the virtual machine.
func (b *builder) finish(machine []byte) {
	t := b.template.VirtualMachineTemplate
	t.TypeMeta = metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: apikinds.VirtualMachineTemplate}
	t.Name = b.name
	t.Namespace = b.options.Namespace
	t.Spec.VirtualMachine = &runtime.RawExtension{Raw: machine}
	t.Spec.Message = texts.ShortenCharacters(b.escape(b.message()), v1beta1.MaxMessage-1)
	if b.escaped {
		t.Spec.Parameters = append(t.Spec.Parameters, templates.Dollar(templates.DollarParameter))
	}
}

// message is what the product and the annotation say.
func (b *builder) message() string {
	var lines []string
	for _, p := range b.System.products {
		if line := strings.Join(strings.Fields(p.Name+" "+p.Version), " "); line != "" {
			if p.Vendor != "" {
				line += ", " + p.Vendor
			}
			lines = append(lines, line)
		}
	}
	if b.System.annotation != "" {
		lines = append(lines, b.System.annotation)
	}
	return strings.Join(lines, "\n")
}
