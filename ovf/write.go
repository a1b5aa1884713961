package ovf

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
)

// The namespaces of a descriptor that Write writes, by their prefixes.
var namespaces = [][2]string{
	{"xmlns", "http://schemas.dmtf.org/ovf/envelope/1"},
	{"xmlns:ovf", "http://schemas.dmtf.org/ovf/envelope/1"},
	{"xmlns:rasd", "http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData"},
	{"xmlns:virtward", virtwardNamespace},
	{"xmlns:vmw", "http://www.vmware.com/schema/ovf"},
	{"xmlns:vssd", "http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData"},
}

// The section with the template.
const (
	virtwardNamespace = "http://schemas.virtward.io/ovf/1"
	templateSection   = "VirtwardTemplateSection"
	templateElement   = "Template"
)

// formatVMDK is the format of the disks of a package.
const formatVMDK = "http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"

// document writes XML.
type document struct {
	bytes.Buffer
	open []string
}

// start opens an element. The attributes are pairs of a name and a value; a pair without a value is not written.
func (d *document) start(name string, attributes ...string) {
	d.tag(name, attributes)
	d.WriteString(">\n")
	d.open = append(d.open, name)
}

func (d *document) tag(name string, attributes []string) {
	d.WriteString(strings.Repeat("  ", len(d.open)) + "<" + name)
	for i := 0; i+1 < len(attributes); i += 2 {
		if attributes[i+1] != "" {
			d.WriteString(" " + attributes[i] + `="`)
			d.escape(attributes[i+1])
			d.WriteString(`"`)
		}
	}
}

func (d *document) escape(text string) {
	_ = xml.EscapeText(&d.Buffer, []byte(text)) // a buffer returns no error
}

// end closes the last element that is open.
func (d *document) end() {
	name := d.open[len(d.open)-1]
	d.open = d.open[:len(d.open)-1]
	d.WriteString(strings.Repeat("  ", len(d.open)) + "</" + name + ">\n")
}

// leaf writes an element with a text.
func (d *document) leaf(name, text string, attributes ...string) {
	d.tag(name, attributes)
	if text == "" {
		d.WriteString("/>\n")
		return
	}
	d.WriteString(">")
	d.escape(text)
	d.WriteString("</" + name + ">\n")
}

// Write writes the descriptor. It needs the image of each of the Contents, by the name of its volume.
func (e *Export) Write(images map[string]Image) ([]byte, error) {
	for _, c := range e.Contents {
		if image, has := images[c.Volume]; !has || image.Capacity <= 0 || image.Capacity > MaxCapacity {
			return nil, fmt.Errorf("the volume %s has no image with a capacity from 1 byte to 64 TiB", c.Volume)
		}
	}
	d := &document{}
	d.WriteString(xml.Header)
	var attributes []string
	for _, n := range namespaces {
		attributes = append(attributes, n[0], n[1])
	}
	d.start("Envelope", attributes...)
	e.references(d, images)
	e.networkSection(d)
	d.start("VirtualSystem", "ovf:id", Name(e.Template.Name))
	d.leaf("Info", "A virtual machine")
	d.leaf("Name", e.Template.Name)
	e.operatingSystem(d)
	e.hardware(d)
	e.product(d)
	if message := strings.TrimSpace(e.Template.Spec.Message); message != "" {
		d.start("AnnotationSection")
		d.leaf("Info", "What the user of the template must know")
		d.leaf("Annotation", message)
		d.end()
	}
	d.start("virtward:"+templateSection, "ovf:required", "false")
	d.leaf("Info", "The VirtualMachineTemplate of KubeVirt, without what other clusters do not have. An import ignores it if other sections were changed")
	d.leaf("virtward:"+templateElement, string(e.json), "virtward:apiVersion", v1beta1.GroupVersion.String())
	d.end()
	d.end()
	d.end()
	if d.Len() > MaxBytes {
		return nil, fmt.Errorf("the descriptor has %d bytes: at most %d are permitted", d.Len(), MaxBytes)
	}
	return d.Bytes(), nil
}

// references writes the files and the disks. The id of a disk is the name of its volume.
func (e *Export) references(d *document, images map[string]Image) {
	d.start("References")
	for i := range e.Contents {
		c := &e.Contents[i]
		size := ""
		if n := images[c.Volume].Size; n > 0 {
			size = strconv.FormatInt(n, 10)
		}
		d.leaf("File", "", "ovf:href", c.Href, "ovf:id", fileID(c.Volume), "ovf:size", size)
	}
	d.end()
	if len(e.machine.disks) == 0 {
		return
	}
	d.start("DiskSection")
	d.leaf("Info", "The disks")
	for _, disk := range e.machine.disks {
		capacity, file := disk.capacity, ""
		if disk.content >= 0 {
			capacity, file = images[disk.volume].Capacity, fileID(disk.volume)
		}
		d.leaf("Disk", "", "ovf:capacity", strconv.FormatInt(capacity, 10), "ovf:capacityAllocationUnits", "byte", "ovf:diskId", disk.volume, "ovf:fileRef", file, "ovf:format", formatVMDK)
	}
	d.end()
}

func fileID(volume string) string { return "file-" + volume }

func (e *Export) networkSection(d *document) {
	var names []string
	for _, n := range e.machine.nics {
		names = append(names, n.network)
	}
	slices.Sort(names)
	if len(names) == 0 {
		return
	}
	d.start("NetworkSection")
	d.leaf("Info", "The networks")
	for _, name := range slices.Compact(names) {
		d.start("Network", "ovf:name", name)
		if name == NetworkPod {
			d.leaf("Description", "The network of pods")
		} else {
			d.leaf("Description", "The NetworkAttachmentDefinition "+name)
		}
		d.end()
	}
	d.end()
}

func (e *Export) operatingSystem(d *document) {
	g := guestTypeOf(e.machine.preference)
	if e.machine.architecture == architectures.ARM64 {
		g.vmware = "arm-" + g.vmware
	}
	d.start("OperatingSystemSection", "ovf:id", g.cim, "vmw:osType", g.vmware)
	d.leaf("Info", "The operating system")
	d.leaf("Description", g.description)
	d.end()
}

// writtenItem is a device. Its fields are written in the order of their names, as the schema requires.
type writtenItem struct {
	kind     int
	optional bool
	fields   map[string]string
	cores    int
}

// hardwareVersion is that of VMware which has the devices: 13 unless there is a TPM, or more CPUs than 128.
func (m *exported) hardwareVersion() string {
	switch {
	case m.cpus > 128:
		return "vmx-18"
	case m.tpm:
		return "vmx-14"
	}
	return "vmx-13"
}

// hardware writes the devices.
func (e *Export) hardware(d *document) {
	m := &e.machine
	d.start("VirtualHardwareSection")
	d.leaf("Info", "The virtual hardware")
	d.start("System")
	d.leaf("vssd:ElementName", "Virtual Hardware Family")
	d.leaf("vssd:InstanceID", "0")
	d.leaf("vssd:VirtualSystemIdentifier", e.Template.Name)
	d.leaf("vssd:VirtualSystemType", m.hardwareVersion())
	d.end()
	id := 0
	write := func(i writtenItem) string {
		id++
		i.fields["InstanceID"] = strconv.Itoa(id)
		i.fields["ResourceType"] = strconv.Itoa(i.kind)
		i.write(d)
		return i.fields["InstanceID"]
	}
	write(writtenItem{kind: 3, cores: m.cores, fields: map[string]string{
		"AllocationUnits": "hertz * 10^6", "Description": "Number of virtual CPUs",
		"ElementName": strconv.Itoa(m.cpus) + " virtual CPUs", "VirtualQuantity": strconv.Itoa(m.cpus),
	}})
	write(writtenItem{kind: 4, fields: map[string]string{
		"AllocationUnits": "byte * 2^20", "Description": "Memory size",
		"ElementName":     strconv.FormatInt(m.memoryMiB, 10) + " MB of memory",
		"VirtualQuantity": strconv.FormatInt(m.memoryMiB, 10),
	}})
	parent := ""
	for i, disk := range m.disks {
		if i%disksPerController == 0 {
			n := strconv.Itoa(i / disksPerController)
			parent = write(writtenItem{kind: 6, fields: map[string]string{
				"Address": n, "Description": "SCSI controller", "ElementName": "SCSI controller " + n,
				"ResourceSubType": "lsilogic",
			}})
		}
		slot := i % disksPerController
		if slot >= 7 { // 7 is the controller itself
			slot++
		}
		write(writtenItem{kind: typeDisk, fields: map[string]string{
			"AddressOnParent": strconv.Itoa(slot), "ElementName": "Hard disk " + strconv.Itoa(i+1),
			"HostResource": "ovf:/disk/" + disk.volume, "Parent": parent,
		}})
	}
	for i, medium := range m.media {
		if i == 0 {
			parent = write(writtenItem{kind: 20, fields: map[string]string{
				"Address": "0", "Description": "SATA controller", "ElementName": "SATA controller 0",
				"ResourceSubType": "vmware.sata.ahci",
			}})
		}
		write(writtenItem{kind: 15, optional: true, fields: map[string]string{
			"AddressOnParent": strconv.Itoa(i), "AutomaticAllocation": "true",
			"ElementName": "CD/DVD drive " + strconv.Itoa(i+1), "HostResource": "ovf:/file/" + fileID(medium.volume),
			"Parent": parent, "ResourceSubType": "vmware.cdrom.iso",
		}})
	}
	adapter := "VmxNet3"
	if strings.HasPrefix(m.preference, "windows") {
		adapter = "E1000"
	}
	for i, nic := range m.nics {
		write(writtenItem{kind: typeEthernet, fields: map[string]string{
			"AddressOnParent": strconv.Itoa(7 + i), "AutomaticAllocation": "true", "Connection": nic.network,
			"Description": adapter + " ethernet adapter", "ElementName": "Network adapter " + strconv.Itoa(i+1),
			"ResourceSubType": adapter,
		}})
	}
	if m.tpm {
		write(writtenItem{kind: 1, optional: true, fields: map[string]string{
			"AutomaticAllocation": "false", "ElementName": "Virtual TPM", "ResourceSubType": "vmware.vtpm",
		}})
	}
	firmware := firmwareEFI
	if m.firmware == firmwareBIOS {
		firmware = firmwareBIOS
	}
	d.leaf("vmw:Config", "", "ovf:required", "false", "vmw:key", "firmware", "vmw:value", firmware)
	if m.firmware == firmwareSecure {
		d.leaf("vmw:Config", "", "ovf:required", "false", "vmw:key", "bootOptions.efiSecureBootEnabled", "vmw:value", "true")
	}
	d.end()
}

func (i *writtenItem) write(d *document) {
	required := ""
	if i.optional {
		required = "false"
	}
	d.start("Item", "ovf:required", required)
	var names []string
	for name := range i.fields {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		d.leaf("rasd:"+name, i.fields[name])
	}
	if i.cores > 1 {
		d.leaf("vmw:CoresPerSocket", strconv.Itoa(i.cores), "ovf:required", "false")
	}
	d.end()
}

// propertyTypes are the types of properties by those of parameters.
var propertyTypes = map[v1beta1.ParameterType]string{v1beta1.ParameterInteger: "sint64", v1beta1.ParameterBoolean: "boolean"}

// product writes the parameters as properties.
func (e *Export) product(d *document) {
	parameters := slices.DeleteFunc(slices.Clone(e.Template.Spec.Parameters), func(p v1beta1.Parameter) bool { return p.Name == templates.DollarParameter })
	if len(parameters) == 0 {
		return
	}
	d.start("ProductSection")
	d.leaf("Info", "The parameters of the template")
	d.leaf("Product", e.Template.Name)
	for i := range parameters {
		p := &parameters[i]
		kind := propertyTypes[p.Type]
		if kind == "" {
			kind = "string"
		}
		password := ""
		if secretName.MatchString(p.Name) {
			password = "true"
		}
		d.start("Property", "ovf:key", p.Name, "ovf:type", kind, "ovf:qualifiers", qualifiers(p), "ovf:userConfigurable", "true", "ovf:password", password, "ovf:value", p.Value)
		if p.DisplayName != "" {
			d.leaf("Label", p.DisplayName)
		}
		if p.Description != "" {
			d.leaf("Description", p.Description)
		}
		d.end()
	}
	d.end()
}

// qualifiers are the values that a parameter permits, in the syntax of DSP0004: a list has braces, and commas are between qualifiers. One
// with a quotation mark or a backslash cannot be written.
func qualifiers(p *v1beta1.Parameter) string {
	var found []string
	if len(p.Enum) > 0 && !slices.ContainsFunc(p.Enum, func(value string) bool { return strings.ContainsAny(value, `"\`) }) {
		found = append(found, `ValueMap{"`+strings.Join(p.Enum, `", "`)+`"}`)
	}
	if p.Required && p.Type != v1beta1.ParameterInteger && p.Type != v1beta1.ParameterBoolean {
		found = append(found, "MinLen(1)")
	}
	return strings.Join(found, ",")
}
