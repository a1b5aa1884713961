package ovf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/texts"
)

// embed finds the template of a descriptor. It applies only if the rest of the descriptor is what Export writes for it: what a user
// changes beside the template has priority, so the template is ignored then.
func (m *mapper) embed() {
	text := m.source.Template
	if text == "" || m.options.plain || len(m.Rejections) > 0 {
		return
	}
	at := m.source.Element + "/" + templateSection
	found, err := m.readTemplate(text)
	if err != nil {
		m.Warn(TemplateIgnored, at, "the template is ignored, and the other sections are imported: "+texts.ShortenCharacters(texts.OneLine(err.Error()), 3*maxShown))
		return
	}
	m.embedded = found
}

// readTemplate reads a template, and compares it with the other sections.
func (m *mapper) readTemplate(text string) (*Export, error) {
	template := &v1beta1.VirtualMachineTemplate{}
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(template); err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	if template.APIVersion != v1beta1.GroupVersion.String() || template.Kind != apikinds.VirtualMachineTemplate {
		return nil, fmt.Errorf("it is %s of %s", texts.Shorten(template.Kind, maxShown), texts.Shorten(template.APIVersion, maxShown))
	}
	if findings := templates.Check(&template.Spec, steady{}); templates.Denied(findings) {
		return nil, notValid(findings)
	}
	export, err := NewExport(template, ExportOptions{KeepUserData: true, Hardware: m.hardwareOf()})
	if err != nil {
		return nil, err
	}
	for _, w := range export.Warnings {
		if w.Code == FieldRemoved {
			return nil, fmt.Errorf("it has what an export removes: %s: %s", w.Element, w.Message)
		}
	}
	return export, m.compare(export)
}

// hardwareOf is that of the descriptor. It takes the place of an instancetype, which only the exporting cluster knew.
func (m *mapper) hardwareOf() *Hardware {
	h := &Hardware{CPUs: 1, Memory: m.System.MemoryMiB << 20}
	if m.System.CPU != nil {
		h.CPUs = m.System.CPU.VCPUs
	}
	return h
}

// compare writes a descriptor for the template with the files of this one, and compares what both become.
func (m *mapper) compare(export *Export) error {
	images := map[string]Image{}
	for i := range export.Contents {
		c := &export.Contents[i]
		file := m.file(fileID(c.Volume))
		if file == nil {
			return fmt.Errorf("the descriptor has no File with the id %s", fileID(c.Volume))
		}
		c.Href = file.Href
		images[c.Volume] = Image{Capacity: 1}
		for n := range m.System.Disks {
			if v := &m.System.Disks[n]; v.DiskID == c.Volume {
				images[c.Volume] = Image{Capacity: max(1, v.CapacityBytes)}
			}
		}
	}
	written, err := export.Write(images)
	if err != nil {
		return err
	}
	d, err := Parse(written)
	if err != nil {
		return err
	}
	options := m.options
	options.plain, options.VirtualSystem, options.DeploymentOption = true, "", ""
	other, err := Map(d, options)
	if err != nil {
		return err
	}
	if len(other.Rejections) > 0 {
		return &other.Rejections[0]
	}
	return m.same(other)
}

// same returns an error that names the parts in which two mappings differ.
func (m *mapper) same(other *Mapping) error {
	if other.System == nil {
		return fmt.Errorf("it has no virtual system")
	}
	a, b := m.System, other.System
	var different []string
	for _, part := range []struct {
		name string
		a, b any
	}{
		{"the name", a.Name, b.Name},
		{"the operating system", a.OS, b.OS},
		{"the CPUs", a.CPU, b.CPU},
		{"the memory", a.MemoryMiB, b.MemoryMiB},
		{"the firmware", a.Firmware, b.Firmware},
		{"the TPM", a.TPM, b.TPM},
		{"the serial ports", a.SerialPorts, b.SerialPorts},
		{"the architecture", a.architecture, b.architecture},
		{"the disks", a.Disks, b.Disks},
		{"the CDs", a.CDROMs, b.CDROMs},
		{"the network adapters", a.NICs, b.NICs},
		{"the products", a.products, b.products},
		{"the annotation", a.annotation, b.annotation},
		{"the properties", m.Properties, other.Properties},
		{"the licenses", m.source.Eulas == nil, true},
	} {
		first, err := json.Marshal(part.a)
		if err != nil {
			return fmt.Errorf("comparing %s: %w", part.name, err)
		}
		second, err := json.Marshal(part.b)
		if err != nil {
			return fmt.Errorf("comparing %s: %w", part.name, err)
		}
		if !bytes.Equal(first, second) {
			different = append(different, part.name)
		}
	}
	if len(different) == 0 {
		return nil
	}
	return fmt.Errorf("the other sections were changed: %s", strings.Join(different, ", "))
}

// embeddedTemplate makes the template of a mapping from the one in the descriptor.
func (b *builder) embeddedTemplate() (*Template, error) {
	t := b.embedded.Template.DeepCopy()
	vm, err := decodeObject(t.Spec.VirtualMachine.Raw)
	if err != nil {
		return nil, err
	}
	if b.options.Name != "" {
		t.Name = b.options.Name
	}
	b.name = Name(t.Name)
	t.Name, t.Namespace = b.name, b.options.Namespace
	b.template.VirtualMachineTemplate = t
	spec := child(vm, "spec")
	b.clones(spec)
	if err := b.reconnect(child(spec, "template", "spec")); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(vm)
	if err != nil {
		return nil, fmt.Errorf("encoding the virtual machine: %w", err)
	}
	t.Spec.VirtualMachine.Raw = raw
	return &b.template, nil
}

// clones lets the DataVolumes clone the claims with the content of the files. They are at least as large as the disks.
func (b *builder) clones(spec object) {
	capacities := map[string]int64{}
	for i := range b.System.Disks {
		capacities[b.System.Disks[i].DiskID] = b.System.Disks[i].CapacityBytes
	}
	for _, c := range b.embedded.Contents {
		source := b.clone(c.Volume, c.Href, capacities[c.Volume])
		for _, v := range list(child(spec, "template", "spec"), "volumes") {
			if text0(v, "name") != c.Volume {
				continue
			}
			if t := dataVolume(spec, text0(child(v, "dataVolume"), "name")); t != nil {
				ensure(t, "spec")["source"] = source
				Enlarge(child(t, "spec"), capacities[c.Volume])
			}
		}
	}
}

// Enlarge raises what the spec of a DataVolume requests to the size of the volume of a disk, which it clones. A request with a parameter stays.
func Enlarge(spec map[string]any, capacity int64) {
	capacity = VolumeSize(capacity)
	for _, claim := range []string{"storage", "pvc"} {
		requests := child(spec, claim, "resources", "requests")
		q, err := resource.ParseQuantity(fmt.Sprint(requests["storage"]))
		if err == nil && q.Value() < capacity {
			requests["storage"] = resource.NewQuantity(capacity, resource.BinarySI).String()
		}
	}
}

// reconnect connects the interfaces to the networks of the options.
func (b *builder) reconnect(guest object) error {
	var unmapped []string
	dropped, pods := map[string]bool{}, 0
	for _, n := range list(guest, "networks") {
		multus := child(n, "multus")
		name := text0(multus, "networkName")
		if name == "" {
			name = NetworkPod
		}
		target, mapped := b.options.Networks[name]
		if !mapped && name == NetworkPod {
			target = NetworkPod
		}
		switch target {
		case "":
			unmapped = append(unmapped, name)
		case NetworkNone:
			dropped[text0(n, "name")] = true
			b.Warn(DeviceDropped, name, "the network adapter is not imported: its network is mapped to none")
		case NetworkPod:
			pods++
			if name != NetworkPod {
				delete(n, "multus")
				n["pod"] = object{}
				b.bind(guest, text0(n, "name"), "masquerade")
			}
		default:
			if name == NetworkPod {
				delete(n, "pod")
				n["multus"] = object{"networkName": target}
				b.bind(guest, text0(n, "name"), "bridge")
			} else {
				multus["networkName"] = target
			}
		}
	}
	withoutNames(guest, "networks", dropped)
	withoutNames(child(guest, "domain", "devices"), "interfaces", dropped)
	return networkErrors(unmapped, pods)
}

// bind replaces the binding of an interface.
func (b *builder) bind(guest object, name, binding string) {
	for _, nic := range list(child(guest, "domain", "devices"), "interfaces") {
		if text0(nic, "name") == name {
			for _, other := range []string{"bridge", "masquerade", "sriov", "passt", "macvtap", "slirp", "binding", "passtBinding"} {
				delete(nic, other)
			}
			nic[binding] = object{}
		}
	}
}

// withoutNames removes the objects of a list that have one of the names.
func withoutNames(o object, key string, names map[string]bool) {
	items, exists := o[key].([]any)
	if !exists || len(names) == 0 {
		return
	}
	var kept []any
	for _, item := range items {
		if entry, _ := item.(object); !names[text0(entry, "name")] {
			kept = append(kept, item)
		}
	}
	o[key] = kept
	if len(kept) == 0 {
		delete(o, key)
	}
}
