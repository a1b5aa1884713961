package ovf

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/templates/randomness"
)

var update = flag.Bool("update", false, "write the golden files")

// change replaces text of a descriptor. Each text must exist.
func change(t *testing.T, text string, pairs []string) string {
	t.Helper()
	for i := 0; i+1 < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the descriptor has no %q", pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

// summary is a mapping in one line: topology, memory, firmware, preference, disks, media, interfaces, warnings, rejections.
func summary(m *Mapping) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if s := m.System; s != nil {
		if s.CPU != nil {
			add("%dx%d", s.CPU.Sockets, s.CPU.CoresPerSocket)
		}
		add("%dMi %s %s", s.MemoryMiB, s.Firmware, s.OS.Preference)
		for _, d := range s.Disks {
			name := d.Href
			if d.Blank {
				name = "blank"
			}
			add("[%s %d %s/%s %d]", name, d.CapacityBytes>>20, d.Controller, d.Bus, d.BootOrder)
		}
		for _, c := range s.CDROMs {
			name := c.Href
			if c.Bus != busSATA {
				name += " " + c.Bus
			}
			add("(%s)", name)
		}
		for _, n := range s.NICs {
			add("%s:%s", n.Network, n.Model)
		}
	}
	for _, n := range m.Needs {
		add("needs=%s", n)
	}
	for _, w := range m.Warnings {
		add("%s", w.Code)
	}
	for _, r := range m.Rejections {
		add("!%s", r.Reason)
	}
	return strings.Join(parts, " ")
}

const (
	tide   = "2x2 2048Mi bios ubuntu [tide-disk1.vmdk 20480 scsi/virtio 1] [blank 5120 scsi/virtio 0] (tools.iso) Shore:virtio DeviceDropped"
	kiln   = "2x1 1024Mi bios debian [kiln disk ü.vmdk 8192 sata/sata 1] (kiln.iso) NAT:e1000 DeviceDropped DeviceDropped"
	shale  = "2x2 4096Mi efi rhel.8 [11d1/22v1 10240 /virtio 1] [11d0/22v0 3072 /virtio 0] net:virtio"
	cellar = "2x6 4096Mi efi windows.2k22 [33v1 10240 scsi/sata 1] [33v0 3072 sata/sata 0] net:e1000e SettingDropped SectionDropped DeviceDropped TPMStateLost NVRAMDropped"
)

// item is a device in the style of VMware.
func item(fields string) string { return "<Item>" + fields + "</Item><vmw:Config " }

// TestDescriptors maps descriptors in the style of each producer, and variants of them.
func TestDescriptors(t *testing.T) {
	const hardware = "<vmw:Config "
	const eula = `<EulaSection><Info/><License>Be kind.</License></EulaSection><VirtualHardwareSection>`
	const product = `<ProductSection ovf:class="harbour" ovf:instance="1"><Info/><Property ovf:key="lamp" ovf:type="string" ovf:userConfigurable="true" ovf:value="on"/></ProductSection><VirtualHardwareSection>`
	const noValue = `<ProductSection><Property ovf:key="a:b.c" ovf:type="password" ovf:password="true" ovf:userConfigurable="true" ovf:value="secret"/></ProductSection><VirtualHardwareSection>`
	options := `<DeploymentOptionSection><Configuration ovf:id="s"><Label>S</Label></Configuration><Configuration ovf:id="l" ovf:default="true"><Label>L</Label></Configuration></DeploymentOptionSection><VirtualSystem ovf:id="tide">`
	lone := strings.NewReplacer("ubuntu", "legacy", "scsi/virtio", "scsi/sata", "DeviceDropped", "Guessed Guessed DeviceDropped").Replace(tide) // of the preference and of the network adapter
	for name, c := range map[string]struct {
		text    string
		changes []string
		options Options
		want    string
	}{
		"VMware":                                 {vmware, nil, Options{}, tide},
		"VMware with CRLF":                       {vmware, []string{"\n", "\r\n"}, Options{}, tide},
		"VMware with indivisible cores":          {vmware, []string{"false\">2</vmw:Cores", "false\">3</vmw:Cores"}, Options{}, strings.Replace(strings.Replace(tide, "2x2", "1x4", 1), "DeviceDropped", "Guessed DeviceDropped", 1)},
		"VMware without cores":                   {vmware, []string{`<vmw:CoresPerSocket ovf:required="false">2</vmw:CoresPerSocket>`, ""}, Options{}, strings.Replace(tide, "2x2", "4x1", 1)},
		"VMware with EFI":                        {vmware, []string{hardware, `<vmw:Config ovf:required="false" vmw:key="firmware" vmw:value="efi"/><vmw:Config `}, Options{}, strings.Replace(tide, "bios", "efi", 1)},
		"VMware with Secure Boot":                {vmware, []string{hardware, `<vmw:Config vmw:key="firmware" vmw:value="efi"/><vmw:Config vmw:key="bootOptions.efiSecureBootEnabled" vmw:value="true"/><vmw:Config `}, Options{}, strings.Replace(tide, "bios", "efi-secure", 1)},
		"Secure Boot with BIOS":                  {vmware, []string{hardware, `<vmw:Config vmw:key="firmware" vmw:value="bios"/><vmw:ExtraConfig vmw:key="uefi.secureBoot.enabled" vmw:value="TRUE"/><vmw:Config `}, Options{}, tide[:len(tide)-13] + "Guessed DeviceDropped"},
		"a vTPM":                                 {vmware, []string{hardware, item("<rasd:InstanceID>11</rasd:InstanceID><rasd:ResourceSubType>vmware.vtpm</rasd:ResourceSubType><rasd:ResourceType>1</rasd:ResourceType>")}, Options{}, tide + " TPMStateLost"},
		"NVRAM":                                  {vmware, []string{hardware, `<vmw:ExtraConfig vmw:key="nvram" vmw:value="ovf:/file/n"/><vmw:Config `}, Options{}, tide + " NVRAMDropped"},
		"passthrough":                            {vmware, []string{hardware, item("<rasd:InstanceID>11</rasd:InstanceID><rasd:ResourceSubType>vmware.pcipassthrough</rasd:ResourceSubType><rasd:ResourceType>1</rasd:ResourceType>")}, Options{}, tide + " DeviceDropped"},
		"a bound":                                {vmware, []string{hardware, `<Item ovf:bound="max"><rasd:InstanceID>1</rasd:InstanceID><rasd:ResourceType>3</rasd:ResourceType><rasd:VirtualQuantity>64</rasd:VirtualQuantity></Item><vmw:Config `}, Options{}, tide},
		"a second interface":                     {vmware, []string{hardware, item("<rasd:Connection>Sea</rasd:Connection><rasd:InstanceID>11</rasd:InstanceID><rasd:ResourceSubType>E1000e</rasd:ResourceSubType><rasd:ResourceType>10</rasd:ResourceType>")}, Options{}, strings.Replace(tide, "virtio DeviceDropped", "virtio Sea:e1000e needs=networks DeviceDropped", 1)},
		"an unknown adapter":                     {vmware, []string{"VmxNet3", "SriovCard"}, Options{}, strings.Replace(tide, "DeviceDropped", "Guessed DeviceDropped", 1)},
		"Windows":                                {vmware, []string{"ubuntu64Guest", "windows2019srvNext_64Guest"}, Options{}, "2x2 2048Mi bios windows.2k22 [tide-disk1.vmdk 20480 scsi/sata 1] [blank 5120 scsi/sata 0] (tools.iso) Shore:e1000e DeviceDropped"},
		"Windows 10, whose CIM id lies":          {vmware, []string{"ubuntu64Guest", "windows9_64Guest", `ovf:id="101"`, `ovf:id="1"`}, Options{}, "2x2 2048Mi bios windows.10 [tide-disk1.vmdk 20480 scsi/sata 1] [blank 5120 scsi/sata 0] (tools.iso) Shore:e1000e DeviceDropped"},
		"RHEL":                                   {vmware, []string{"ubuntu64Guest", "rhel9_64Guest"}, Options{}, strings.Replace(tide, "ubuntu", "rhel.9", 1)},
		"CentOS":                                 {vmware, []string{"ubuntu64Guest", "centos9_64Guest"}, Options{}, strings.Replace(tide, "ubuntu", "centos.stream9", 1)},
		"other Linux":                            {vmware, []string{"ubuntu64Guest", "other5xLinux64Guest"}, Options{}, strings.Replace(tide, "ubuntu", "linux", 1)},
		"an unknown system":                      {vmware, []string{"ubuntu64Guest", "otherGuest", `ovf:id="101"`, `ovf:id="1"`, "Ubuntu Linux (64-bit)", "x"}, Options{}, lone},
		"ESXi":                                   {vmware, []string{"ubuntu64Guest", "vmkernel8Guest", `ovf:id="101"`, `ovf:id="104"`, "Ubuntu Linux (64-bit)", "VMware ESXi 8.x"}, Options{}, lone},
		"FreeBSD with an unknown adapter":        {vmware, []string{"ubuntu64Guest", "freebsd14_64Guest", "VmxNet3", "x"}, Options{}, strings.Replace(lone, "Shore:virtio", "Shore:e1000", 1)},
		"Photon OS":                              {vmware, []string{"ubuntu64Guest", "vmwarePhoton64Guest"}, Options{}, strings.Replace(tide, "ubuntu", "linux", 1)},
		"Windows 8":                              {vmware, []string{"ubuntu64Guest", "windows8_64Guest"}, Options{}, "2x2 2048Mi bios windows.10 [tide-disk1.vmdk 20480 scsi/sata 1] [blank 5120 scsi/sata 0] (tools.iso) Shore:e1000e Guessed DeviceDropped"},
		"Windows 8 by its CIM id":                {vmware, []string{` vmw:osType="ubuntu64Guest"`, "", `ovf:id="101"`, `ovf:id="114"`}, Options{}, "2x2 2048Mi bios windows.10 [tide-disk1.vmdk 20480 scsi/sata 1] [blank 5120 scsi/sata 0] (tools.iso) Shore:e1000e Guessed DeviceDropped"},
		"Windows 11 with too little":             {vmware, []string{"ubuntu64Guest", "windows11_64Guest", "VirtualQuantity>4<", "VirtualQuantity>1<", "false\">2</vmw:Cores", "false\">1</vmw:Cores"}, Options{}, "1x1 2048Mi bios windows.11 [tide-disk1.vmdk 20480 scsi/sata 1] [blank 5120 scsi/sata 0] (tools.iso) Shore:e1000e DeviceDropped"},
		"RHEL 6, which has no preference":        {vmware, []string{"ubuntu64Guest", "rhel6_64Guest"}, Options{}, strings.Replace(tide, "ubuntu", "linux", 1)},
		"RHEL 9 on Arm":                          {vmware, []string{"ubuntu64Guest", "arm-rhel9_64Guest"}, Options{}, strings.NewReplacer("bios", "efi", "tools.iso", "tools.iso scsi", "ubuntu", "rhel.9.arm64").Replace(tide)},
		"a vTPM of the type 34":                  {vmware, []string{hardware, item("<rasd:InstanceID>11</rasd:InstanceID><rasd:ResourceSubType>vmware.vtpm</rasd:ResourceSubType><rasd:ResourceType>34</rasd:ResourceType>")}, Options{}, tide + " TPMStateLost"},
		"another device":                         {vmware, []string{hardware, item("<rasd:InstanceID>11</rasd:InstanceID><rasd:ResourceSubType>vmware.precisionclock</rasd:ResourceSubType><rasd:ResourceType>1</rasd:ResourceType>")}, Options{}, tide + " DeviceDropped"},
		"a device without a type":                {vmware, []string{hardware, item("<rasd:InstanceID>11</rasd:InstanceID>")}, Options{}, tide + " !UnsupportedRequired"},
		"a boot order":                           {vmware, []string{"<VirtualHardwareSection>", `<vmw:BootOrderSection vmw:instanceId="5" vmw:type="disk"><Info/></vmw:BootOrderSection><VirtualHardwareSection>`}, Options{}, strings.Replace(tide, "[tide-disk1.vmdk 20480 scsi/virtio 1] [blank 5120 scsi/virtio 0]", "[blank 5120 scsi/virtio 1] [tide-disk1.vmdk 20480 scsi/virtio 0]", 1)},
		"a boot order with a CD first":           {vmware, []string{"<VirtualHardwareSection>", `<vmw:BootOrderSection vmw:instanceId="7" vmw:type="cdrom"><Info/></vmw:BootOrderSection><VirtualHardwareSection>`}, Options{}, tide + " SectionDropped"},
		"an address of a bus":                    {vmware, []string{"<rasd:Parent>3</rasd:Parent><rasd:ResourceType>17</rasd:ResourceType></Item>\n      <Item ovf:required", "<rasd:Parent>12</rasd:Parent><rasd:ResourceType>17</rasd:ResourceType></Item>\n      <Item><rasd:BusNumber>1</rasd:BusNumber><rasd:InstanceID>12</rasd:InstanceID><rasd:ResourceType>6</rasd:ResourceType></Item><Item ovf:required"}, Options{}, strings.Replace(tide, "[tide-disk1.vmdk 20480 scsi/virtio 1] [blank 5120 scsi/virtio 0]", "[blank 5120 scsi/virtio 1] [tide-disk1.vmdk 20480 scsi/virtio 0]", 1)},
		"cores of an old setting":                {vmware, []string{`<vmw:CoresPerSocket ovf:required="false">2</vmw:CoresPerSocket>`, "", hardware, `<vmw:ExtraConfig vmw:key="cpuid.coresPerSocket" vmw:value="4"/><vmw:Config `}, Options{}, strings.Replace(tide, "2x2", "1x4", 1)},
		"settings that a guest needs":            {vmware, []string{hardware, `<vmw:Config vmw:key="nestedHVEnabled" vmw:value="true"/><vmw:Config vmw:key="flags.vbsEnabled" vmw:value="false"/><vmw:ExtraConfig vmw:key="guestinfo.userdata" vmw:value="x"/><vmw:ExtraConfig vmw:key="uefi.secureBoot.dbDefault.value0" vmw:value="x"/><vmw:Config `}, Options{}, strings.Replace(tide, "DeviceDropped", "SettingDropped PropertyDropped SettingDropped DeviceDropped", 1)},
		"an unknown firmware":                    {vmware, []string{hardware, `<vmw:Config vmw:key="firmware" vmw:value="@@FIRMWARE@@"/><vmw:Config `}, Options{}, strings.Replace(tide, "DeviceDropped", "Guessed DeviceDropped", 1)},
		"an InstanceID twice":                    {vmware, []string{hardware, item("<rasd:InstanceID>3</rasd:InstanceID><rasd:ResourceType>5</rasd:ResourceType>")}, Options{}, tide},
		"VirtualBox on Arm":                      {virtualBox, []string{"Debian_64", "Debian12_arm64"}, Options{}, strings.NewReplacer("bios", "efi", "sata/sata", "sata/virtio", "kiln.iso", "kiln.iso scsi", "e1000 ", "e1000 Guessed ").Replace(kiln)},
		"a license":                              {vmware, []string{"<VirtualHardwareSection>", eula}, Options{}, strings.Replace(tide, "DeviceDropped", "needs=acceptEula DeviceDropped", 1)},
		"an empty license":                       {vmware, []string{"<VirtualHardwareSection>", "<EulaSection/><VirtualHardwareSection>"}, Options{}, tide},
		"a property with a value":                {vmware, []string{"<VirtualHardwareSection>", product}, Options{}, tide},
		"a password":                             {vmware, []string{"<VirtualHardwareSection>", noValue}, Options{}, strings.Replace(tide, "DeviceDropped", "needs=properties DeviceDropped", 1)},
		"a startup section":                      {vmware, []string{"<VirtualHardwareSection>", "<StartupSection><Item/></StartupSection><VirtualHardwareSection>"}, Options{}, strings.Replace(tide, "DeviceDropped", "SectionDropped DeviceDropped", 1)},
		"an optional section":                    {vmware, []string{"<VirtualHardwareSection>", `<vmw:Own ovf:required="false">x</vmw:Own><VirtualHardwareSection>`}, Options{}, strings.Replace(tide, "DeviceDropped", "SectionDropped DeviceDropped", 1)},
		"a required section, lax":                {vmware, []string{"<VirtualHardwareSection>", "<vmw:Own>x</vmw:Own><VirtualHardwareSection>"}, Options{Lax: true}, strings.Replace(tide, "DeviceDropped", "SectionDropped DeviceDropped", 1)},
		"the default deployment option":          {vmware, []string{`<VirtualSystem ovf:id="tide">`, options, hardware, `<Item ovf:configuration="l"><rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType><rasd:VirtualQuantity>8192</rasd:VirtualQuantity></Item><vmw:Config `}, Options{}, strings.Replace(tide, "2048Mi", "8192Mi", 1)},
		"a device of two matching options":       {vmware, []string{`<VirtualSystem ovf:id="tide">`, options, hardware, `<Item ovf:configuration="s l"><rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType><rasd:VirtualQuantity>4096</rasd:VirtualQuantity></Item><Item ovf:configuration="l"><rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType><rasd:VirtualQuantity>8192</rasd:VirtualQuantity></Item><vmw:Config `}, Options{}, strings.Replace(tide, "2048Mi", "8192Mi", 1)},
		"a disk with the type of a serial port":  {vmware, []string{"<rasd:InstanceID>5</rasd:InstanceID><rasd:Parent>3</rasd:Parent><rasd:ResourceType>17<", "<rasd:InstanceID>5</rasd:InstanceID><rasd:Parent>3</rasd:Parent><rasd:ResourceType>21<"}, Options{}, tide},
		"a second memory":                        {vmware, []string{hardware, item("<rasd:InstanceID>11</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType><rasd:VirtualQuantity>8192</rasd:VirtualQuantity>")}, Options{}, tide + " Guessed"},
		"a reservation":                          {vmware, []string{"<rasd:ResourceType>4</rasd:ResourceType>", "<rasd:Reservation>1024</rasd:Reservation><rasd:ResourceType>4</rasd:ResourceType>"}, Options{}, strings.Replace(tide, "DeviceDropped", "SettingDropped DeviceDropped", 1)},
		"no hardware":                            {"<Envelope><VirtualSystem id='x'/></Envelope>", nil, Options{}, "0Mi bios legacy Guessed Guessed"},
		"another deployment option":              {vmware, []string{`<VirtualSystem ovf:id="tide">`, options, hardware, `<Item ovf:configuration="l"><rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType><rasd:VirtualQuantity>8192</rasd:VirtualQuantity></Item><vmw:Config `}, Options{DeploymentOption: "s"}, tide},
		"two disks of one file":                  {vmware, []string{"ovf:/disk/vmdisk2", "ovf:/disk/vmdisk1"}, Options{}, strings.Replace(tide, "[blank 5120 scsi/virtio 0]", "[tide-disk1.vmdk 20480 scsi/virtio 0]", 1)},
		"a disk that refers to a file":           {vmware, []string{"ovf:/disk/vmdisk1", "/file/file1"}, Options{}, tide},
		"an image larger than its capacity":      {vmware, nil, Options{Sizes: map[string]int64{"tide-disk1.vmdk": 40 << 30}}, strings.Replace(tide, "20480", "40960", 1)},
		"a capacity of a property":               {vmware, []string{`capacity="5"`, `capacity="${harbour.lamp.1}"`, "<VirtualHardwareSection>", strings.Replace(product, `"on"`, `"7"`, 1)}, Options{}, strings.Replace(tide, "5120", "7168", 1)},
		"a disk without reference":               {vmware, []string{"<rasd:HostResource>ovf:/disk/vmdisk2</rasd:HostResource>", ""}, Options{}, strings.Replace(strings.Replace(tide, " [blank 5120 scsi/virtio 0]", "", 1), "DeviceDropped", "DeviceDropped DeviceDropped", 1)},
		"no CPU and no memory":                   {vmware, []string{"<rasd:ResourceType>3</rasd:ResourceType>", "<rasd:ResourceType>2</rasd:ResourceType>", "<rasd:ResourceType>4</rasd:ResourceType>", "<rasd:ResourceType>2</rasd:ResourceType>"}, Options{}, strings.Replace(tide, "2x2 2048Mi", "0Mi", 1)},
		"arm64":                                  {vmware, []string{"ubuntu64Guest", "arm-ubuntu-64Guest"}, Options{}, strings.NewReplacer("bios", "efi", "tools.iso", "tools.iso scsi").Replace(tide)},
		"arm64 with BIOS":                        {vmware, []string{"ubuntu64Guest", "arm-ubuntu-64Guest", hardware, `<vmw:Config vmw:key="firmware" vmw:value="bios"/><vmw:Config `}, Options{}, strings.NewReplacer("bios", "efi", "tools.iso", "tools.iso scsi", "DeviceDropped", "Guessed DeviceDropped").Replace(tide)},
		"arm64 with Secure Boot":                 {vmware, []string{"ubuntu64Guest", "arm-ubuntu-64Guest", hardware, `<vmw:Config vmw:key="firmware" vmw:value="efi"/><vmw:Config vmw:key="bootOptions.efiSecureBootEnabled" vmw:value="true"/><vmw:Config `}, Options{}, strings.NewReplacer("bios", "efi", "tools.iso", "tools.iso scsi", "DeviceDropped", "Guessed DeviceDropped").Replace(tide)},
		"another device of the type 34":          {vmware, []string{hardware, item("<rasd:InstanceID>11</rasd:InstanceID><rasd:ResourceSubType>x</rasd:ResourceSubType><rasd:ResourceType>34</rasd:ResourceType>")}, Options{}, tide + " !UnsupportedRequired"},
		"VirtualBox":                             {virtualBox, nil, Options{}, kiln},
		"VirtualBox with EFI":                    {virtualBox, []string{`Firmware type="BIOS"`, `Firmware type="EFI"`}, Options{}, strings.Replace(kiln, "bios", "efi", 1)},
		"VirtualBox with a TPM":                  {virtualBox, []string{"<BIOS/>", `<BIOS/><TrustedPlatformModule type="v2_0"/>`}, Options{}, kiln + " TPMStateLost"},
		"VirtualBox with IDE":                    {virtualBox, []string{"<rasd:Parent>5</rasd:Parent>", "<rasd:Parent>3</rasd:Parent>"}, Options{}, strings.Replace(kiln, "sata/sata", "ide/sata", 1)},
		"VirtualBox with SCSI":                   {virtualBox, []string{"<rasd:ResourceSubType>AHCI</rasd:ResourceSubType><rasd:ResourceType>20<", "<rasd:ResourceSubType>lsilogicsas</rasd:ResourceSubType><rasd:ResourceType>6<"}, Options{}, strings.Replace(kiln, "sata/sata", "scsi/virtio", 1)},
		"VirtualBox with Windows":                {virtualBox, []string{"Debian_64", "Windows11_64"}, Options{}, strings.Replace(kiln, "debian", "windows.11", 1)},
		"oVirt":                                  {oVirt, nil, Options{}, shale},
		"oVirt with Secure Boot":                 {oVirt, []string{"<BiosType>2", "<BiosType>3"}, Options{}, strings.Replace(shale, "efi", "efi-secure", 1)},
		"oVirt with BIOS":                        {oVirt, []string{"<BiosType>2", "<BiosType>1"}, Options{}, strings.Replace(shale, "efi", "bios", 1)},
		"oVirt with the firmware of the cluster": {oVirt, []string{"<BiosType>2</BiosType>", ""}, Options{}, strings.Replace(shale, "efi", "bios", 1)},
		"oVirt with snapshots and groups":        {oVirt, []string{"</Content>", `<Section xsi:type="ovf:SnapshotsSection_Type"><Snapshot/></Section><Section xsi:type="ovf:AffinityGroupsSection_Type"><AffinityGroup/></Section></Content>`}, Options{}, shale + " SectionDropped SectionDropped"},
		"oVirt with a required section":          {oVirt, []string{"</Content>", `<Section xsi:type="ovf:OwnSection_Type"><Own/></Section></Content>`}, Options{}, shale + " !UnsupportedRequired"},
		"oVirt with a kernel and hooks":          {oVirt, []string{"<IsStateless>", "<KernelUrl>iso://k</KernelUrl><UserDefinedProperties>a=b</UserDefinedProperties><TimeZone>W. Europe Standard Time</TimeZone><IsStateless>"}, Options{}, shale + " SettingDropped SettingDropped SettingDropped"},
		"oVirt with a LUN":                       {oVirt, []string{`ovf:boot="true"/>`, `ovf:boot="true"/><Disk ovf:diskId="22l" ovf:lun_id="36001" ovf:fileRef="22v1"/>`}, Options{}, shale + " DeviceDropped"},
		"an OVA of oVirt":                        {oVirtOVA, nil, Options{}, cellar},
		"an OVA of oVirt with Windows 10":        {oVirtOVA, []string{"Windows 2022", "windows_10x64"}, Options{}, strings.Replace(cellar, "windows.2k22", "windows.10", 1)},
		"an OVA of oVirt without description":    {oVirtOVA, []string{"Windows 2022", ""}, Options{}, strings.Replace(strings.Replace(cellar, "windows.2k22", "legacy", 1), "SectionDropped", "SectionDropped Guessed", 1)},
		"oVirt with CoreOS":                      {oVirt, []string{"rhel_8x64", "rhcos_x64"}, Options{}, strings.Replace(shale, "rhel.8", "linux.efi", 1)},
		"an OVA of oVirt for POWER":              {oVirtOVA, []string{`ovirt:id="37"`, `ovirt:id="1006"`, "Windows 2022", "Red Hat Enterprise Linux 7.x"}, Options{}, "2x6 4096Mi efi rhel.7 [33v1 10240 scsi/virtio 1] [33v0 3072 sata/sata 0] net:e1000e SettingDropped SectionDropped DeviceDropped TPMStateLost NVRAMDropped !UnsupportedArchitecture"},
		"an OVA of oVirt for IBM Z":              {oVirtOVA, []string{`ovirt:id="37"`, `ovirt:id="2003"`, "Windows 2022", "Red Hat Enterprise Linux 9.x", "<BiosType>2", "<BiosType>0"}, Options{}, "2x6 4096Mi bios rhel.9.s390x [33v1 10240 scsi/virtio 1] [33v0 3072 sata/virtio 0] net:e1000e SettingDropped SectionDropped DeviceDropped TPMStateLost NVRAMDropped"},
		"XenServer, which declares UTF-16":       {xenServer, nil, Options{}, "2x1 4096Mi bios windows.2k12 [mill.vhd 32768 /sata 1] Network 0:e1000e Guessed"},
		"XenServer with Secure Boot and cores":   {xenServerUEFI, nil, Options{}, "1x2 4096Mi efi-secure windows.2k12 [mill.vhd 32768 /sata 1] Network 0:e1000e Guessed"},
		"XenServer with a device model of UEFI":  {xenServerUEFI, []string{"firmware=uefi;", "", "secureboot=true", "secureboot=auto"}, Options{}, "1x2 4096Mi efi windows.2k12 [mill.vhd 32768 /sata 1] Network 0:e1000e Guessed"},
		"XenServer with a vTPM":                  {xenServerUEFI, []string{"secureboot=true", "vtpm=true"}, Options{}, "1x2 4096Mi efi windows.2k12 [mill.vhd 32768 /sata 1] Network 0:e1000e Guessed TPMStateLost"},
		"XenServer with an unknown firmware":     {xenServerUEFI, []string{"firmware=uefi", "firmware=coreboot", "secureboot=true", "a=b"}, Options{}, "1x2 4096Mi bios windows.2k12 [mill.vhd 32768 /sata 1] Network 0:e1000e Guessed Guessed"},
		"XenServer with paravirtualization":      {xenServerUEFI, []string{"HVM_boot_params", "PV_args", "secureboot=true", "a=b"}, Options{}, "1x2 4096Mi efi windows.2k12 [mill.vhd 32768 /sata 1] Network 0:e1000e SettingDropped Guessed"},
		"PowerVC of another architecture":        {powerVC, nil, Options{}, "0Mi bios linux [loom.img 10240 /virtio 1] !UnsupportedArchitecture"},
		"PowerVC":                                {powerVC, []string{"ppc64le", "x86_64"}, Options{}, "0Mi bios linux [loom.img 10240 /virtio 1]"},
		"OVF 2":                                  {version2, nil, Options{}, "1x1 1024Mi bios ubuntu [images/root.qcow2 4096 nvme/virtio 1] a:virtio"},
		"OVF 2 with a memory in bytes":           {version2, []string{"byte*2^30</rasd:AllocationUnits><rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType><rasd:VirtualQuantity>1<", "byte</rasd:AllocationUnits><rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType><rasd:VirtualQuantity>1073741825<"}, Options{}, "1x1 1025Mi bios ubuntu [images/root.qcow2 4096 nvme/virtio 1] a:virtio"},
		"OVF 2 with an Ethernet connection":      {version2, []string{"<epasd:ResourceType>10<", "<epasd:ResourceType>33<"}, Options{}, "1x1 1024Mi bios ubuntu [images/root.qcow2 4096 nvme/virtio 1] a:virtio"},
		"OVF 0.9":                                {version09, nil, Options{}, "1x1 256Mi bios linux [old.vmdk 1024 scsi/virtio 1] bridged:pcnet"},
		"OVF 0.9 with a license":                 {version09, []string{"<Content ", `<Section xsi:type="ovf:EulaSection_Type"><Info>x</Info><License>Be kind.</License></Section><Content `}, Options{}, "1x1 256Mi bios linux [old.vmdk 1024 scsi/virtio 1] bridged:pcnet needs=acceptEula"},
		"VirtualCenter 2.5":                      {virtualCenter, nil, Options{}, "1x1 256Mi bios linux [old.vmdk 1024 scsi/virtio 1] bridged:pcnet"},
		"several virtual systems":                {vmware, []string{`<VirtualSystem ovf:id="tide">`, `<VirtualSystem ovf:id="other"/><VirtualSystem ovf:id="tide">`}, Options{}, "!SeveralVirtualSystems"},
		"a virtual system of several":            {vmware, []string{`<VirtualSystem ovf:id="tide">`, `<VirtualSystem ovf:id="other"/><VirtualSystem ovf:id="tide">`}, Options{VirtualSystem: "tide"}, tide},
		"a virtual system in a collection":       {vmware, []string{`<VirtualSystem ovf:id="tide">`, `<VirtualSystemCollection ovf:id="c"><Info/><EulaSection><License>x</License></EulaSection><VirtualSystem ovf:id="tide">`, `</VirtualSystem>`, `</VirtualSystem></VirtualSystemCollection>`}, Options{}, strings.Replace(tide, "DeviceDropped", "needs=acceptEula DeviceDropped", 1)},
		"properties of a collection":             {vmware, []string{`<VirtualSystem ovf:id="tide">`, `<VirtualSystemCollection ovf:id="c"><Info/><ProductSection><Property ovf:key="ntp" ovf:userConfigurable="true"/></ProductSection><VirtualSystem ovf:id="tide">`, `</VirtualSystem>`, `</VirtualSystem></VirtualSystemCollection>`}, Options{}, strings.Replace(tide, "DeviceDropped", "PropertyDropped DeviceDropped", 1)},
		"too many licenses":                      {vmware, []string{"<VirtualHardwareSection>", strings.Repeat("<EulaSection><License>x</License></EulaSection>", MaxEulas+1) + "<VirtualHardwareSection>"}, Options{}, strings.Replace(tide, "DeviceDropped", "needs=acceptEula DeviceDropped", 1) + " !LimitExceeded"},
		"a File twice with two compressions":     {vmware, []string{`<File ovf:href="tools.iso"`, `<File ovf:href="tide-disk1.vmdk" ovf:id="file3" ovf:compression="gzip"/><File ovf:href="tools.iso"`}, Options{}, tide + " !InvalidDescriptor"},
		"a disk without a device":                {vmware, []string{"</DiskSection>", `<Disk ovf:capacity="1" ovf:diskId="vmdisk3" ovf:fileRef="file1"/></DiskSection>`}, Options{}, tide + " DeviceDropped"},
		"Solaris by its description":             {vmware, []string{` vmw:osType="ubuntu64Guest"`, "", `ovf:id="101"`, `ovf:id="30"`, "Ubuntu Linux (64-bit)", "Oracle Solaris 11 (64-bit)"}, Options{}, lone},
		"RHEL by its CIM id and description":     {vmware, []string{` vmw:osType="ubuntu64Guest"`, "", `ovf:id="101"`, `ovf:id="80"`, "Ubuntu Linux (64-bit)", "Red Hat Enterprise Linux 9 (64-bit)"}, Options{}, strings.Replace(tide, "ubuntu", "rhel.9", 1)},
		"FusionOS":                               {vmware, []string{"ubuntu64Guest", "fusionos_64Guest"}, Options{}, strings.Replace(tide, "ubuntu", "linux", 1)},
		"an empty collection":                    {"<Envelope><VirtualSystemCollection id='c'/></Envelope>", nil, Options{}, "!NoVirtualSystem"},
		"a required section":                     {vmware, []string{"<VirtualHardwareSection>", "<vmw:Own>x</vmw:Own><VirtualHardwareSection>"}, Options{}, tide + " !UnsupportedRequired"},
		"a required device":                      {vmware, []string{hardware, item("<rasd:InstanceID>11</rasd:InstanceID><rasd:ResourceType>7</rasd:ResourceType>")}, Options{}, tide + " !UnsupportedRequired"},
		"an unknown unit of memory":              {vmware, []string{"byte * 2^20", "bushels"}, Options{}, strings.Replace(tide, "2048Mi", "0Mi", 1) + " !UnknownUnit"},
		"an unknown unit of a disk":              {vmware, []string{`5" ovf:capacityAllocationUnits="byte * 2^30"`, `5" ovf:capacityAllocationUnits="ells"`}, Options{}, strings.Replace(tide, "5120", "0", 1) + " !UnknownUnit"},
		"a capacity that is a placeholder":       {vmware, []string{`capacity="5"`, `capacity="@SIZE@"`}, Options{}, strings.Replace(tide, "5120", "0", 1) + " !InvalidCapacity"},
		"a negative capacity":                    {vmware, []string{`capacity="5"`, `capacity="-5"`}, Options{}, strings.Replace(tide, "5120", "0", 1) + " !InvalidCapacity"},
		"a capacity above the limit":             {vmware, []string{`capacity="5"`, `capacity="65537"`}, Options{}, strings.Replace(tide, "5120", "67109888", 1) + " !LimitExceeded"},
		"a parent disk":                          {vmware, []string{`parentRef=""`, `parentRef="vmdisk1"`}, Options{}, tide + " !ParentDisk"},
		"a Disk twice":                           {vmware, []string{`diskId="vmdisk2"`, `diskId="vmdisk1"`, "ovf:/disk/vmdisk2", "ovf:/disk/vmdisk1"}, Options{}, strings.Replace(tide, "[blank 5120 scsi/virtio 0]", "[tide-disk1.vmdk 20480 scsi/virtio 0]", 1) + " !InvalidDescriptor"},
		"a Disk of a missing File":               {vmware, []string{`fileRef="file1"`, `fileRef="file9"`}, Options{}, strings.Replace(tide, "tide-disk1.vmdk", "blank", 1) + " !InvalidDescriptor"},
		"a missing Disk":                         {vmware, []string{"ovf:/disk/vmdisk2", "ovf:/disk/vmdisk9"}, Options{}, strings.Replace(tide, " [blank 5120 scsi/virtio 0]", "", 1) + " !InvalidDescriptor"},
		"a path that leaves the folder":          {vmware, []string{"tools.iso", "../../tools.iso"}, Options{}, strings.Replace(tide, "tools.iso", "../../tools.iso", 1) + " !UnsafeReference"},
		"an absolute path":                       {vmware, []string{"tools.iso", "/etc/passwd"}, Options{}, strings.Replace(tide, "tools.iso", "/etc/passwd", 1) + " !UnsafeReference"},
		"a backslash":                            {vmware, []string{"tools.iso", `a\tools.iso`}, Options{}, strings.Replace(tide, "tools.iso", `a\tools.iso`, 1) + " !UnsafeReference"},
		"a URL":                                  {vmware, []string{"tools.iso", "https://example.com/tools.iso"}, Options{}, strings.Replace(tide, "tools.iso", "https://example.com/tools.iso", 1) + " !RemoteReference"},
		"another compression":                    {vmware, []string{`ovf:id="file1"`, `ovf:id="file1" ovf:compression="bzip2"`}, Options{}, tide + " !UnsupportedFormat"},
		"too many CPUs":                          {vmware, []string{"VirtualQuantity>4<", "VirtualQuantity>1025<"}, Options{}, strings.Replace(tide, "2x2 ", "", 1) + " !LimitExceeded"},
		"a number of CPUs that is not one":       {vmware, []string{"VirtualQuantity>4<", "VirtualQuantity>many<"}, Options{}, strings.Replace(tide, "2x2 ", "", 1) + " !InvalidDescriptor"},
		"memory that is not a number":            {vmware, []string{"VirtualQuantity>2048<", "VirtualQuantity>-1<"}, Options{}, strings.Replace(tide, "2048Mi", "0Mi", 1) + " !InvalidDescriptor"},
		"a virtual system of the same id":        {vmware, []string{`<VirtualSystem ovf:id="tide">`, `<VirtualSystem ovf:id="tide"/><VirtualSystem ovf:id="tide">`}, Options{}, "!InvalidDescriptor !SeveralVirtualSystems"},
		"encryption":                             {vmware, []string{"<NetworkSection>", "<EncryptionSection><x/></EncryptionSection><NetworkSection>"}, Options{}, tide + " !UnsupportedRequired"},
		"an empty deployment option section":     {vmware, []string{"<NetworkSection>", "<DeploymentOptionSection/><NetworkSection>"}, Options{}, tide},
		"a computer system as a second place":    {vmware, []string{hardware, item("<rasd:InstanceID>11</rasd:InstanceID><rasd:ResourceType>24</rasd:ResourceType>")}, Options{}, tide},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Map(parsed(t, change(t, c.text, c.changes)), c.options)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, summary(m)); diff != "" {
				t.Error(diff)
			}
			for _, r := range m.Rejections {
				if r.Element == "" || r.Message == "" || r.Remedy == "" {
					t.Errorf("the rejection %+v does not say what to do", r)
				}
			}
			if len(m.Rejections) == 0 {
				holds(t, m)
			}
		})
	}
}

// TestFirmware maps the firmware of descriptors on each architecture.
func TestFirmware(t *testing.T) {
	for _, c := range []struct {
		architecture, asked string
		secure              bool
		want, differs       string
	}{
		{"", "", false, firmwareBIOS, ""},
		{"", "bios", false, firmwareBIOS, ""},
		{"", "efi64", false, firmwareEFI, ""},
		{"", "efi", true, firmwareSecure, ""},
		{"", "bios", true, firmwareBIOS, "the virtual machine has Secure Boot and the firmware BIOS, which contradict each other: it gets BIOS"},
		{"", "coreboot", true, firmwareBIOS, `the firmware "coreboot" is not known: the virtual machine gets BIOS`},
		{architectures.ARM64, "", false, firmwareEFI, ""},
		{architectures.ARM64, "efi", false, firmwareEFI, ""},
		{architectures.ARM64, "bios", false, firmwareEFI, "virtual machines of arm64 have no BIOS: it gets EFI"},
		{architectures.ARM64, "bios", true, firmwareEFI, "virtual machines of arm64 have no Secure Boot: it gets EFI"},
		{architectures.ARM64, "efi", true, firmwareEFI, "virtual machines of arm64 have no Secure Boot: it gets EFI"},
		{architectures.ARM64, "", true, firmwareEFI, "virtual machines of arm64 have no Secure Boot: it gets EFI"},
		{architectures.ARM64, "coreboot", false, firmwareEFI, `the firmware "coreboot" is not known: the virtual machine gets EFI`},
		{architectures.S390X, "bios", false, firmwareBIOS, ""},
		{architectures.S390X, "efi", false, firmwareBIOS, "virtual machines of s390x have no EFI: it gets the firmware of s390x"},
		{architectures.S390X, "efi", true, firmwareBIOS, "virtual machines of s390x have no Secure Boot: it gets the firmware of s390x"},
	} {
		got, differs := firmwareFor(&VirtualSystem{Firmware: c.asked, SecureBoot: c.secure}, c.architecture)
		if got != c.want || differs != c.differs {
			t.Errorf("%q with %q, Secure Boot %v: got %s, %s", c.architecture, c.asked, c.secure, got, differs)
		}
	}
}

// holds makes the template of a mapping, and checks it as a cluster does.
func holds(t *testing.T, m *Mapping) *Template {
	t.Helper()
	networks := map[string]string{}
	for _, n := range m.System.NICs {
		networks[n.Network] = "lab/" + Name(n.Network)
	}
	template, err := m.Template(TemplateOptions{Namespace: "shop", Networks: networks})
	if err != nil {
		t.Fatal(err)
	}
	findings := templates.Check(&template.Spec, randomness.Source{})
	if templates.Denied(findings) {
		t.Errorf("the template is not valid: %v", findings)
	}
	return template
}

// TestUTF16 reads a descriptor in both byte orders of UTF-16.
func TestUTF16(t *testing.T) {
	for _, big := range []bool{false, true} {
		var order binary.AppendByteOrder = binary.LittleEndian
		if big {
			order = binary.BigEndian
		}
		var data []byte
		for _, unit := range utf16.Encode([]rune("\ufeff" + xenServer)) {
			data = order.AppendUint16(data, unit)
		}
		m, err := Map(parsed(t, string(data)), Options{})
		if err != nil || m.System.Name != "mill" {
			t.Errorf("got %+v, %v", m, err)
		}
	}
}

// TestVersions holds the version and the producer of each dialect.
func TestVersions(t *testing.T) {
	for text, want := range map[string]string{
		vmware: "1 vmware", virtualBox: "1 virtualbox", oVirt: "1 ovirt", oVirtOVA: "1 ovirt", xenServer: "1 xenserver", powerVC: "1 powervc", version2: "2 other", version09: "0.9 vmware", virtualCenter: "1 vmware",
	} {
		d := parsed(t, text)
		if got := d.Version + " " + d.Producer; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestAttribute holds that an attribute of OVF has priority over one of the same name of a producer.
func TestAttribute(t *testing.T) {
	d := parsed(t, change(t, oVirtOVA, []string{`ovf:id="115" ovirt:id="37"`, `ovirt:id="37" ovf:id="115"`}))
	if got := d.VirtualSystems[0].OS.CIMID; got != "115" {
		t.Errorf("got %s", got)
	}
}

// TestCharset decodes the encoding that a descriptor declares.
func TestCharset(t *testing.T) {
	d := parsed(t, strings.Replace(version09, "Old One", "M\xfchle", 1))
	if got := d.VirtualSystems[0].Products[0].Name; got != "Mühle" {
		t.Errorf("got %q", got)
	}
}

// TestChoices holds that an id which does not exist is an error of the caller.
func TestChoices(t *testing.T) {
	for _, options := range []Options{{VirtualSystem: "x"}, {DeploymentOption: "x"}} {
		_, err := Map(parsed(t, vmware), options)
		var unknown *ChoiceError
		if !errors.Is(err, ErrChoice) || !errors.As(err, &unknown) || unknown.ID != "x" || len(unknown.Choices.VirtualSystems) != 1 || unknown.Choices.VirtualSystems[0].ID != "tide" {
			t.Errorf("got %v", err)
		}
	}
}

// TestUnits holds the units of DSP0004, and the names that producers use.
func TestUnits(t *testing.T) {
	for unit, want := range map[string]int64{
		"byte": 1, "bytes": 1, "byte * 2^20": 1 << 20, "byte*2^30": 1 << 30, "byte * 10^9": 1e9, "byte * 1024": 1024, "byte * 2^10 * 2^10": 1 << 20,
		"MegaBytes": 1 << 20, "GB": 1 << 30, "KB": 1 << 10, " MiB ": 1 << 20,
		"": 0, "hertz * 10^6": 0, "byte * 2^99": 0, "byte * 0": 0, "byte *": 0, "byte / 2": 0,
	} {
		if got, known := bytesIn(unit); got != want || known != (want > 0) {
			t.Errorf("%q: got %d, %v", unit, got, known)
		}
	}
}

// TestGolden compares whole templates and warnings.
func TestGolden(t *testing.T) {
	cloud := strings.Replace(vmware, "<VirtualHardwareSection>", `<ProductSection><Info/><Product>Tide ${HOME}</Product><Vendor>Shore</Vendor>`+
		`<Property ovf:key="hostname" ovf:type="string" ovf:userConfigurable="true"/><Property ovf:key="password" ovf:type="string" ovf:password="true" ovf:userConfigurable="true"/>`+
		`<Property ovf:key="public-keys" ovf:type="string" ovf:userConfigurable="true"><Label>Keys</Label></Property><Property ovf:key="own" ovf:type="string" ovf:userConfigurable="true" ovf:value=" 1 "/></ProductSection><VirtualHardwareSection>`, 1)
	arm := strings.NewReplacer("ubuntu64Guest", "arm-other5xLinux64Guest", "<VirtualHardwareSection>", `<ProductSection><Info/><Property ovf:key="user-data" ovf:type="string" ovf:userConfigurable="true"/></ProductSection><VirtualHardwareSection>`).Replace(vmware)
	for name, text := range map[string]string{"vmware": vmware, "virtualbox": virtualBox, "ovirt": oVirt, "ovirt-ova": oVirtOVA, "xenserver": xenServer, "ovf2": version2, "ovf09": version09, "cloud-init": cloud, "arm64": arm} {
		t.Run(name, func(t *testing.T) {
			m, err := Map(parsed(t, text), Options{})
			if err != nil {
				t.Fatal(err)
			}
			template, err := m.Template(TemplateOptions{Namespace: "shop"})
			if err != nil {
				t.Fatal(err)
			}
			if findings := templates.Check(&template.Spec, randomness.Source{}); templates.Denied(findings) {
				t.Errorf("the template is not valid: %v", findings)
			}
			raw, err := json.Marshal(map[string]any{"template": template.VirtualMachineTemplate, "claims": template.Claims, "warnings": m.Warnings})
			if err != nil {
				t.Fatal(err)
			}
			got, err := yaml.JSONToYAML(raw)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "golden", name+".yaml")
			if *update {
				if err := os.WriteFile(file, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v: go test -update writes it", err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRequirements holds that a template with less than its preference requires has a warning for each requirement.
func TestRequirements(t *testing.T) {
	const memory, cpus = "VirtualQuantity>2048<", "VirtualQuantity>4<"
	for name, c := range map[string]struct {
		changes []string
		want    []string
	}{
		"enough":                   {nil, nil},
		"too little memory":        {[]string{memory, "VirtualQuantity>2047<"}, []string{"requires 2048 MiB of memory, and the virtual machine has 2047 MiB"}},
		"too little of both":       {[]string{"ubuntu64Guest", "windows11_64Guest", cpus, "VirtualQuantity>1<"}, []string{"requires 4096 MiB of memory, and the virtual machine has 2048 MiB", "requires 2 CPUs, and the virtual machine has 1"}},
		"a preference without any": {[]string{"ubuntu64Guest", "other5xLinux64Guest", memory, "VirtualQuantity>1<"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Map(parsed(t, change(t, vmware, c.changes)), Options{})
			if err != nil {
				t.Fatal(err)
			}
			holds(t, m)
			var got []string
			for _, w := range m.Warnings {
				if w.Code == PreferenceRequirement {
					got = append(got, w.Message)
				}
			}
			if !slices.EqualFunc(got, c.want, strings.Contains) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestNetworks holds that each further network needs a mapping.
func TestNetworks(t *testing.T) {
	text := strings.Replace(vmware, "<vmw:Config ", item("<rasd:Connection>Sea</rasd:Connection><rasd:InstanceID>11</rasd:InstanceID><rasd:ResourceType>10</rasd:ResourceType>"), 1)
	for _, c := range []struct {
		networks map[string]string
		want     string
	}{
		{nil, "networks without a mapping: Sea"},
		{map[string]string{"Sea": "pod"}, "2 network adapters are mapped to the pod network"},
		{map[string]string{"Sea": "none"}, ""},
		{map[string]string{"Sea": "lab/sea"}, ""},
	} {
		m, err := Map(parsed(t, text), Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Template(TemplateOptions{Namespace: "shop", Networks: c.networks})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.networks, err, c.want)
		}
	}
	m, err := Map(parsed(t, strings.Replace(text, "<rasd:Connection>Sea</rasd:Connection>", "", 1)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	template, err := m.Template(TemplateOptions{Namespace: "shop"})
	if err != nil || strings.Contains(string(template.Spec.VirtualMachine.Raw), "nic-2") || m.Warnings[len(m.Warnings)-1].Message != "the network adapter is not imported: it names no network" {
		t.Errorf("an adapter without a network: %v, %v", err, m.Warnings)
	}
}

// TestParameterNames holds that names are valid and unique.
func TestParameterNames(t *testing.T) {
	taken := map[string]bool{}
	var got []string
	for _, key := range []string{"a.b", "A:B", "ü", "...", strings.Repeat("x", 500)} {
		name := parameterName(key, taken)
		taken[name] = true
		got = append(got, name)
	}
	if want := []string{"A_B", "A_B_2", "PROPERTY", "PROPERTY_2"}; !slices.Equal(got[:4], want) || len(got[4]) > 253 {
		t.Errorf("got %q", got)
	}
}

// FuzzMap holds that no descriptor makes the package panic, that the output is bounded, and that each rejection has a reason.
func FuzzMap(f *testing.F) {
	for _, text := range []string{vmware, virtualBox, oVirt, oVirtOVA, xenServer, powerVC, version2, version09, virtualCenter} {
		f.Add([]byte(text))
	}
	for _, c := range rejected() {
		if len(c.text) < 1<<10 {
			f.Add([]byte(c.text))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Parse(data)
		var rejection *Rejection
		switch {
		case err == nil:
		case !errors.As(err, &rejection) || rejection.Reason == "":
			t.Fatalf("the error %v is no rejection", err)
		default:
			return
		}
		m, err := Map(d, Options{Lax: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Warnings) > 2*maxProblems || m.System != nil && (len(m.System.Disks) > MaxDisks || len(m.System.NICs) > MaxNICs) {
			t.Fatal("the output is not bounded")
		}
		if m.System == nil || len(m.Rejections) > 0 {
			return
		}
		networks := map[string]string{}
		for _, n := range m.System.NICs {
			networks[n.Network] = "lab/net"
		}
		if _, err := m.Template(TemplateOptions{Namespace: "shop", Networks: networks}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestMessages reads texts of messages behind the elements that refer to them, where descriptors have them.
func TestMessages(t *testing.T) {
	d := parsed(t, change(t, vmware, []string{
		"<VirtualHardwareSection>", `<ProductSection><Product ovf:msgid="p"/><Property ovf:key="lamp" ovf:userConfigurable="true" ovf:value="on"><Label ovf:msgid="l">Lamp</Label></Property></ProductSection><VirtualHardwareSection>`,
		"</Envelope>", `<Strings xml:lang="en-US"><Msg ovf:msgid="p">Tide Table</Msg><Msg ovf:msgid="l">The lamp</Msg></Strings></Envelope>`,
	}))
	long := strings.Repeat("ü", maxDescription)
	m, err := Map(parsed(t, change(t, vmware, []string{
		"<VirtualHardwareSection>", `<EulaSection><License ovf:msgid="e"/></EulaSection><EulaSection><License ovf:msgid="e">x</License></EulaSection><AnnotationSection><Annotation ovf:msgid="e"/></AnnotationSection><VirtualHardwareSection>`,
		"</Envelope>", `<Strings><Msg ovf:msgid="e">` + long + `</Msg></Strings></Envelope>`,
	})), Options{})
	if err != nil || len(m.Eulas) != 1 || m.Eulas[0].Text != long || len(m.System.annotation) > maxDescription || !strings.HasSuffix(m.System.annotation, "ü…") {
		t.Errorf("got %d licenses and the annotation %q, %v", len(m.Eulas), m.System.annotation, err)
	}
	v := &d.VirtualSystems[0]
	if v.Products[0].Name != "Tide Table" || v.Properties[0].Label != "The lamp" {
		t.Errorf("got %+v and %+v", v.Products, v.Properties)
	}
}

// TestCloneSize requests whole MiB: a volume that clones a disk cannot be smaller than the volume of the disk.
func TestCloneSize(t *testing.T) {
	m, err := Map(parsed(t, change(t, vmware, []string{`capacity="20" ovf:capacityAllocationUnits="byte * 2^30"`, `capacity="8192000000"`})), Options{})
	if err != nil || m.System.Disks[0].CapacityBytes != 8192000000 {
		t.Fatal(m, err)
	}
	if raw := string(holds(t, m).Spec.VirtualMachine.Raw); !strings.Contains(raw, `"storage":"7813Mi"`) {
		t.Error(raw)
	}
}
