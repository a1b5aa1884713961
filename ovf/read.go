package ovf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/texts"
)

// Parse reads a descriptor. The error is a *Rejection if the file is not a descriptor. All other problems are found by Map.
func Parse(data []byte) (*Descriptor, error) {
	parsed, err := parseXML(data)
	if err != nil {
		return nil, err
	}
	if parsed.root.name != "Envelope" {
		return nil, &Rejection{InvalidDescriptor, texts.Shorten(parsed.root.name, maxShown), "the root element is not Envelope", "name an OVF descriptor"}
	}
	d := &Descriptor{Version: version(parsed), Producer: producer(parsed), texts: map[string]string{}}
	r := reader{d}
	for _, e := range parsed.root.children { // they are behind the elements that refer to them
		if kind(e) == "Strings" {
			r.strings(e)
		}
	}
	eulas := r.eulas(parsed.root, nil)
	for _, e := range parsed.root.children {
		r.envelope(e, eulas)
	}
	r.check()
	return d, nil
}

// reader fills a descriptor.
type reader struct{ *Descriptor }

// version is that of the namespace of the envelope.
func version(t *tree) string {
	switch {
	case t.declares("http://www.vmware.com/schema/ovf/1/envelope"), strings.HasPrefix(t.root.attr("version"), "0.9"):
		return "0.9"
	case t.declares("http://schemas.dmtf.org/ovf/envelope/2"):
		return "2"
	}
	return "1"
}

// declares reports whether the document declares a namespace that contains a text.
func (t *tree) declares(part string) bool {
	for space := range t.namespaces {
		if strings.Contains(strings.ToLower(space), part) {
			return true
		}
	}
	return false
}

// producers are recognized by a part of a namespace, the first one that matches.
var producers = []struct{ part, name string }{
	{"ibmpvc", "powervc"},
	{ProducerOVirt, ProducerOVirt},
	{"virtualbox", "virtualbox"},
	{"citrix", "xenserver"},
	{"xensource", "xenserver"},
	{"vmware.com", "vmware"},
}

func producer(t *tree) string {
	if t.root.child("Content") != nil && version(t) != "0.9" && !t.declares("vmware.com") || strings.Count(t.root.attr("version"), ".") == 3 { // oVirt writes its own version
		return ProducerOVirt
	}
	for _, p := range producers {
		if t.declares(p.part) {
			return p.name
		}
	}
	return "other"
}

// kind is the name of a section. OVF 0.9 and oVirt write it as the type of an element Section.
func kind(e *element) string {
	if e.name != "Section" && e.name != "Content" {
		return e.name
	}
	_, local, prefixed := strings.Cut(e.attr("type"), ":")
	if !prefixed {
		local = e.attr("type")
	}
	if local == "" && e.name == "Content" {
		return "VirtualSystem"
	}
	return strings.TrimSuffix(local, "_Type")
}

// droppedSections are sections of OVF that have no equivalent, and may be ignored even if they are required.
var droppedSections = map[string]string{
	"StartupSection":             "virtual machines start independently",
	"ResourceAllocationSection":  "reservations and limits are not imported",
	"InstallSection":             "the first boot is not supervised",
	"BootDeviceSection":          "the boot order is that of the disks",
	"ApplianceBootOrder_Section": "the boot order is that of the disks",
	"PlacementSection":           "the scheduler places virtual machines",
	"PlacementGroupSection":      "the scheduler places virtual machines",
	"ScaleOutSection":            "one virtual machine is imported",
	"EnvironmentFilesSection":    "KubeVirt provides no OVF environment",
	"SnapshotsSection":           "the virtual machine has its current state",
	"NumaNodeSection":            "the scheduler places virtual machines",
	"AffinityGroupsSection":      "the scheduler places virtual machines",
	"AffinityLabelsSection":      "the scheduler places virtual machines",
	"UserDomainsSection":         "the rights of users are those of the cluster",
	"VmExternalDataSection":      "the virtual machine gets an empty TPM and empty variables of the firmware",
}

// envelope reads a child of the envelope. Licenses beside the virtual systems, where OVF 0.9 has them, apply to each of them.
func (r reader) envelope(e *element, eulas []text) {
	switch kind(e) {
	case "References":
		r.files(e)
	case "DiskSection":
		r.disks(e)
	case "NetworkSection":
		for _, n := range e.children {
			if n.name == "Network" {
				r.Networks = append(r.Networks, Network{Name: n.attr("name"), Description: r.words(n.child("Description"))})
			}
		}
	case "DeploymentOptionSection":
		r.options(e)
	case "VirtualSystem":
		r.system(e, eulas)
	case "VirtualSystemCollection":
		r.collection(e, eulas, 0)
	case "Info", "EulaSection", "Strings":
	default:
		r.unknown(e, &r.problems, &r.unsupported)
	}
}

// unknown notes a section without a mapping.
func (r reader) unknown(e *element, problems *Problems, unsupported *[]section) {
	name := kind(e)
	why, drop := droppedSections[name]
	switch {
	case e.empty() && len(e.attrs) == 0:
	case drop:
		problems.Warn(SectionDropped, e.path(), "the section "+name+" is dropped: "+why)
	case e.optional():
		problems.Warn(SectionDropped, e.path(), "the section "+texts.Shorten(name, maxShown)+" is dropped: it has no equivalent")
	case len(*unsupported) < maxProblems:
		*unsupported = append(*unsupported, section{texts.Shorten(name, maxShown), e.path()})
	}
}

func (r reader) files(e *element) {
	for _, f := range e.children {
		if f.name != "File" {
			continue
		}
		if len(r.Files) == MaxFiles {
			r.problems.Reject(LimitExceeded, e.path(), "the package has more than 1000 files", "remove files that the virtual machine does not need")
			return
		}
		chunk, _ := strconv.ParseInt(f.attr("chunkSize"), 10, 64)
		r.Files = append(r.Files, File{ID: f.attr("id"), Href: f.attr("href"), Compression: strings.ToLower(f.attr("compression")), ChunkSize: max(chunk, 0), Element: f.path()})
	}
}

func (r reader) disks(e *element) {
	for _, d := range e.children {
		if d.name != "Disk" {
			continue
		}
		if len(r.Disks) == MaxFiles {
			r.problems.Reject(LimitExceeded, e.path(), "the descriptor has more than 1000 disks", "remove disks that the virtual machine does not need")
			return
		}
		disk := Disk{
			ID: d.attr("diskId"), FileRef: d.attr("fileRef"), Format: d.attr("format"), Capacity: d.attr("capacity"),
			Units: d.attr("capacityAllocationUnits"), ParentRef: d.attr("parentRef"), Boot: strings.EqualFold(d.attr("boot"), "true"), Element: d.path(),
		}
		if r.Producer == ProducerOVirt {
			disk.Interface = strings.ToLower(d.attr("disk-interface"))
			if disk.lun = d.attr("lun_id") != ""; disk.lun {
				r.problems.Warn(DeviceDropped, d.path(), "the disk is a LUN of the storage of oVirt: it is not imported")
			}
		}
		if size := d.attr("size"); disk.Capacity == "" && size != "" && r.Producer == ProducerOVirt {
			disk.Capacity, disk.Units = size, "byte * 2^30" // oVirt counts in GiB
		}
		r.Disks = append(r.Disks, disk)
	}
}

func (r reader) options(e *element) {
	marked := -1
	for _, c := range e.children {
		if c.name != "Configuration" || len(r.DeploymentOptions) == MaxFiles {
			continue
		}
		if c.attr("default") == "true" || c.attr("default") == "1" {
			marked = len(r.DeploymentOptions)
		}
		r.DeploymentOptions = append(r.DeploymentOptions, DeploymentOption{ID: c.attr("id"), Label: r.words(c.child("Label"))})
	}
	if len(r.DeploymentOptions) > 0 {
		r.DeploymentOptions[max(marked, 0)].Default = true
	}
}

// strings reads a bundle of messages, of the language of the descriptor or any other.
func (r reader) strings(e *element) {
	if ref := e.attr("fileRef"); ref != "" && len(r.Bundles) < MaxFiles {
		r.Bundles = append(r.Bundles, ref)
	}
	for _, m := range e.children {
		if id := m.attr("msgid"); m.name == "Msg" && r.texts[id] == "" {
			r.texts[id] = m.content()
		}
	}
}

// AddBundle reads a file with messages: an element Strings. The error says why the file is ignored.
func (d *Descriptor) AddBundle(data []byte) error {
	parsed, err := parseXML(data)
	if err != nil {
		return err
	}
	if parsed.root.name != "Strings" {
		return fmt.Errorf("the root element of a message bundle must be Strings, not %s", texts.Shorten(parsed.root.name, maxShown))
	}
	reader{d}.strings(parsed.root)
	return nil
}

// said is the text of an element that can have the id of a message.
func (r reader) said(e *element) text {
	if e == nil {
		return text{}
	}
	return text{e.content(), e.attr("msgid")}
}

// words are the text of an element that can have the id of a message, for a template. Many elements can have the same message, so a long one
// is cut.
func (r reader) words(e *element) string {
	t := r.said(e)
	message := t.in(r.texts)
	if len(message) <= maxDescription || message == t.value {
		return message
	}
	return texts.Shorten(message[:min(len(message), 2*maxDescription)], maxDescription)
}

// in is the text in the messages of a bundle, or the text of the element.
func (t text) in(messages map[string]string) string {
	if message := messages[t.id]; t.id != "" && message != "" {
		return message
	}
	return t.value
}

// collection reads the virtual systems of a collection. Its licenses apply to each of them.
func (r reader) collection(e *element, eulas []text, depth int) {
	eulas = r.eulas(e, eulas)
	for _, c := range e.children {
		switch kind(c) {
		case "VirtualSystem":
			r.system(c, eulas)
		case "VirtualSystemCollection":
			if depth < MaxDepth {
				r.collection(c, eulas, depth+1)
			}
		case "ProductSection":
			if c.child("Property") != nil {
				r.problems.Warn(PropertyDropped, c.path(), "the properties of the collection are not imported: only those of the virtual system are")
			}
		case "Info", "Name", "EulaSection", "AnnotationSection":
		default:
			r.unknown(c, &r.problems, &r.unsupported)
		}
	}
}

// eulas are the licenses of an element, behind those of the elements around it.
func (r reader) eulas(e *element, outer []text) []text {
	found := slices.Clip(outer)
	for _, c := range e.children {
		if kind(c) == "EulaSection" {
			found = r.eula(found, c)
		}
	}
	return found
}

// eula appends the license of a section. Each virtual system has a copy of those of the elements around it, so their number is bounded.
func (r reader) eula(found []text, e *element) []text {
	license := e.child("License")
	switch {
	case license == nil, license.content() == "" && license.attr("msgid") == "":
		return found
	case len(found) == MaxEulas:
		r.problems.Reject(LimitExceeded, e.path(), "a virtual system has more than 100 licenses", "remove licenses")
		return found
	}
	return append(found, r.said(license))
}

// licenses are those of a virtual system, each once, from the messages where they are there.
func (d *Descriptor) licenses(v *VirtualSystem) []Eula {
	found := []Eula{}
	for _, e := range v.Eulas {
		if license := (Eula{e.in(d.texts)}); !slices.Contains(found, license) {
			found = append(found, license)
		}
	}
	return found
}

// system reads a virtual system.
func (r reader) system(e *element, eulas []text) {
	if len(r.VirtualSystems) == MaxFiles {
		return
	}
	v := VirtualSystem{ID: e.attr("id"), Name: r.words(e.child("Name")), Eulas: slices.Clip(eulas), Element: e.path()}
	hardware := 0
	for _, c := range e.children {
		if r.attributesOf(&v, c) {
			continue
		}
		switch kind(c) {
		case "OperatingSystemSection":
			r.os(&v, c)
		case "VirtualHardwareSection":
			if hardware++; hardware == 1 {
				r.hardware(&v, c)
			} else {
				v.problems.Warn(Guessed, c.path(), "the virtual system has several hardware sections: only the first is used")
			}
		case "ProductSection":
			r.product(&v, c)
		case "EulaSection":
			v.Eulas = r.eula(v.Eulas, c)
		case "AnnotationSection":
			v.Annotation = r.words(c.child("Annotation"))
		case templateSection:
			if v.Template == "" {
				v.Template = c.value(templateElement)
			}
		case "BootOrderSection": // of VMware
			v.Boot = append(v.Boot, bootDevice{c.attr("instanceId"), c.path()})
		default:
			switch field := !strings.HasSuffix(c.name, "Section"); {
			case field && r.Producer == ProducerOVirt:
				oVirtField(&v, c)
			case field && e.name == "Content":
			default:
				r.unknown(c, &v.problems, &v.unsupported)
			}
		}
	}
	if hardware == 0 {
		v.problems.Warn(Guessed, v.Element, "the virtual system has no VirtualHardwareSection: the virtual machine has neither disks nor network adapters")
	}
	r.VirtualSystems = append(r.VirtualSystems, v)
}

// attributesOf reads the children of a virtual system that are no sections. It reports whether an element is one.
func (r reader) attributesOf(v *VirtualSystem, c *element) bool {
	switch c.name {
	case "Info", "Name":
	case "Machine": // of VirtualBox
		machine(v, c)
	default:
		return false
	}
	return true
}

// The firmware of a virtual system.
const (
	firmwareBIOS   = "bios"
	firmwareEFI    = "efi"
	firmwareSecure = "efi-secure"
)

// machine reads the settings of VirtualBox.
func machine(v *VirtualSystem, e *element) {
	if v.OS.VirtualBoxType == "" {
		v.OS.VirtualBoxType = e.attr("OSType")
	}
	var visit func(e *element)
	visit = func(e *element) {
		switch e.name {
		case "Firmware":
			if strings.HasPrefix(strings.ToUpper(e.attr("type")), "EFI") {
				v.Firmware = firmwareEFI
			} else {
				v.Firmware = firmwareBIOS
			}
		case "TrustedPlatformModule":
			kind := e.attr("type")
			v.TPM = kind != "" && kind != "None"
		case "SecureBoot":
			v.SecureBoot = strings.EqualFold(e.attr("enabled"), "true")
		case "Platform":
			if strings.EqualFold(e.attr("architecture"), "ARM") {
				v.Architecture = architectures.ARM64
			}
		}
		for _, c := range e.children {
			visit(c)
		}
	}
	visit(e)
}

func (r reader) os(v *VirtualSystem, e *element) {
	os := OS{
		CIMID: e.attr("id"), Version: e.attr("version"), VMwareType: e.attr("osType"), VirtualBoxType: v.OS.VirtualBoxType,
		Description: r.words(e.child("Description")),
	}
	for _, c := range e.children {
		switch c.name {
		case "OSType": // of VirtualBox
			os.VirtualBoxType = c.content()
		case "architecture", "ArchitectureType": // of PowerVC
			v.Architecture = c.content()
		}
	}
	if strings.HasSuffix(strings.ToLower(os.VirtualBoxType), "_arm64") {
		v.Architecture = architectures.ARM64
	}
	if r.Producer == ProducerOVirt && v.Architecture == "" {
		v.Architecture = oVirtArchitecture(e.attrOf(ProducerOVirt, "id"))
	}
	v.OS = os
}

func (r reader) product(v *VirtualSystem, e *element) {
	p := Product{
		Name: r.words(e.child("Product")), Vendor: r.words(e.child("Vendor")), Version: e.value("Version", "FullVersion"),
		Class: e.attr("class"), Instance: e.attr("instance"),
	}
	v.Products = append(v.Products, p)
	for _, c := range e.children {
		if c.name != "Property" {
			continue
		}
		if len(v.Properties) == MaxProperties {
			v.problems.Reject(LimitExceeded, e.path(), "the virtual system has more than 1000 properties", "remove properties")
			return
		}
		v.Properties = append(v.Properties, r.property(c, p))
	}
}

func (r reader) property(c *element, p Product) property {
	found := property{values: map[string]string{}, element: c.path()}
	key := c.attr("key")
	if p.Class != "" {
		key = p.Class + "." + key
	}
	if p.Instance != "" {
		key += "." + p.Instance
	}
	found.Property = Property{
		Key: key, Type: c.attr("type"), UserConfigurable: c.attr("userConfigurable") == "true" || c.attr("userConfigurable") == "1",
		Password: c.attr("password") == "true" || c.attr("password") == "1", Default: verbatim(c, "value"), Qualifiers: c.attr("qualifiers"),
		Label: r.words(c.child("Label")), Description: r.words(c.child("Description")),
	}
	for _, value := range c.children {
		if value.name != "Value" {
			continue
		}
		if option := value.attr("configuration"); option != "" {
			found.values[option] = verbatim(value, "value")
		} else if found.Default == "" {
			found.Default = verbatim(value, "value")
		}
	}
	return found
}

// verbatim is the value of an attribute with its spaces.
func verbatim(e *element, name string) string {
	for _, a := range e.attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// check finds what is wrong with the parts that all virtual systems share.
func (r reader) check() {
	files, hrefs := r.checkFiles()
	r.checkDisks(files, hrefs)
	r.checkSystems()
}

// checkFiles returns the files by their ids and by their hrefs, the first one of each href.
func (r reader) checkFiles() (files map[string]bool, hrefs map[string]*File) {
	files, hrefs = map[string]bool{}, map[string]*File{}
	for i := range r.Files {
		f := &r.Files[i]
		if f.ID != "" && files[f.ID] {
			r.problems.Reject(InvalidDescriptor, f.Element, "the id "+texts.Shorten(f.ID, maxShown)+" exists twice", "use an id for each File")
		}
		files[f.ID] = true
		if rejection := CheckHref(f.Href, f.Element); rejection != nil {
			r.problems.Rejections = append(r.problems.Rejections, *rejection)
		}
		switch f.Compression {
		case "", "identity":
			f.Compression = ""
		case "gzip":
		default:
			r.problems.Reject(UnsupportedFormat, f.Element, "the compression "+texts.Shorten(f.Compression, maxShown)+" is not supported", "use gzip or none")
		}
		if first := hrefs[f.Href]; first == nil {
			hrefs[f.Href] = f
		} else if first.Compression != f.Compression || first.ChunkSize != f.ChunkSize {
			r.problems.Reject(InvalidDescriptor, f.Element, "the compression and the chunkSize differ from those of another File with the href "+texts.Shorten(f.Href, maxShown), "refer to a file once")
		}
	}
	return files, hrefs
}

func (r reader) checkDisks(files map[string]bool, hrefs map[string]*File) {
	disks := map[string]bool{}
	for i := range r.Disks {
		d := &r.Disks[i]
		switch {
		case d.ID == "":
			r.problems.Reject(InvalidDescriptor, d.Element, "the attribute diskId is missing", "give the Disk an id")
		case disks[d.ID]:
			r.problems.Reject(InvalidDescriptor, d.Element, "the id "+texts.Shorten(d.ID, maxShown)+" exists twice", "use an id for each Disk")
		}
		disks[d.ID] = true
		if d.FileRef != "" && !files[d.FileRef] && hrefs[d.FileRef] == nil {
			r.problems.Reject(InvalidDescriptor, d.Element, "fileRef refers to the File "+texts.Shorten(d.FileRef, maxShown)+", which does not exist", "add the File to References")
		}
		if d.ParentRef != "" {
			r.problems.Reject(ParentDisk, d.Element, "the disk has the parent "+texts.Shorten(d.ParentRef, maxShown), "export the virtual machine without snapshots")
		}
	}
}

func (r reader) checkSystems() {
	systems := map[string]bool{}
	for i := range r.VirtualSystems {
		v := &r.VirtualSystems[i]
		switch {
		case v.ID == "" && len(r.VirtualSystems) > 1:
			r.problems.Reject(InvalidDescriptor, v.Element, "the attribute id is missing", "give the VirtualSystem an id")
		case systems[v.ID]:
			r.problems.Reject(InvalidDescriptor, v.Element, "the id "+texts.Shorten(v.ID, maxShown)+" exists twice", "use an id for each VirtualSystem")
		}
		systems[v.ID] = true
	}
}
