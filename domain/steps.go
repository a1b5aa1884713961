package domain

import (
	"fmt"
	"strconv"
	"strings"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/launcher"
)

const (
	privateFolder = "/var/run/kubevirt-private"
	firmwareLog   = privateFolder + "/QEMUSeaBiosDebugPipe"
	ignitionPath  = "/var/run/libvirt/ignition-dir"
	// logThreshold is the verbosity of virt-launcher above which the firmware has a log.
	logThreshold = 5
)

func domainName(b *Build) error {
	b.Domain.Name = b.VMI.Namespace + "_" + b.VMI.Name
	b.from("name", "metadata.name")
	return nil
}

func tpm(b *Build) error {
	device := b.VMI.Spec.Domain.Devices.TPM
	if device == nil || isFalse(device.Enabled) {
		return nil
	}
	made := DomainTPM{Model: "tpm-tis", Backend: &DomainTPMBackend{Type: "emulator", Version: "2.0"}}
	if isTrue(device.Persistent) {
		made.Model, made.Backend.PersistentState = "tpm-crb", "yes"
	}
	b.Domain.Devices.TPMs = []DomainTPM{made}
	b.from(b.item("devices/tpm", 0, ""), fieldDevices+"tpm")
	return nil
}

func vsock(b *Build) error {
	if b.VMI.Status.VSOCKCID == nil {
		return nil
	}
	b.Domain.Devices.VSock = &DomainVSock{
		Model: "virtio-non-transitional",
		CID:   &DomainVSockCID{Auto: "no", Address: uint(*b.VMI.Status.VSOCKCID)},
	}
	b.from(b.item("devices/vsock", 0, ""), fieldDevices+"autoattachVSOCK")
	b.from(b.item("devices/vsock", 0, "/cid"), "status.VSOCKCID")
	return nil
}

// The bits of guest policies, as AMD defines them.
const (
	sevNoDebug        = 1 << 0
	sevEncryptedState = 1 << 2
	snpSMT            = 1 << 16
	snpReserved       = 1 << 17
)

func launchSecurity(b *Build) error {
	security := b.VMI.Spec.Domain.LaunchSecurity
	if security == nil || b.Architecture.Name != amd64().Name {
		return nil
	}
	field := fieldDomain + "launchSecurity"
	switch {
	case security.SEV != nil:
		policy := uint64(sevNoDebug)
		if security.SEV.Policy != nil && isTrue(security.SEV.Policy.EncryptedState) {
			policy |= sevEncryptedState
		}
		b.Domain.LaunchSecurity = &DomainLaunchSecurity{Type: "sev", Policy: hexadecimal(policy), DHCert: security.SEV.DHCert, Session: security.SEV.Session}
		field += ".sev"
	case security.SNP != nil:
		b.Domain.LaunchSecurity = &DomainLaunchSecurity{Type: "sev-snp", Policy: hexadecimal(snpSMT | snpReserved)}
		field += ".snp"
	case security.TDX != nil:
		b.Domain.LaunchSecurity = &DomainLaunchSecurity{
			Type: "tdx", QuoteGenerationService: &DomainQuoteGenerationService{Path: b.VMI.Annotations[v1.QGSSocketPathAnnotation]},
		}
		field += ".tdx"
	}
	b.from("launchSecurity", field)
	return nil
}

func hexadecimal(bits uint64) string { return "0x" + strconv.FormatUint(bits, 16) }

func channels(b *Build) error {
	list := []DomainChannel{{Type: "unix", Target: &DomainChannelTarget{Type: virtio, Name: "org.qemu.guest_agent.0"}}}
	if b.VMI.Spec.Domain.Devices.DownwardMetrics != nil {
		list = append(list, DomainChannel{
			Type:   "unix",
			Source: &DomainChardevSource{Mode: "bind", Path: privateFolder + "/downwardmetrics-channel/downwardmetrics.sock"},
			Target: &DomainChannelTarget{Type: virtio, Name: "org.github.vhostmd.1"},
		})
		b.from(b.item("devices/channel", 1, ""), fieldDevices+"downwardMetrics")
	}
	b.Domain.Devices.Channels = list
	return nil
}

func clock(b *Build) error {
	source := b.VMI.Spec.Domain.Clock
	if source != nil {
		b.Domain.Clock = clockOf(source)
		b.from("clock", fieldDomain+"clock")
	}
	if hz := launcher.TSCFrequency(b.VMI); hz > 0 && launcher.TSCField(&b.VMI.Spec) != "" {
		if b.Domain.Clock == nil {
			b.Domain.Clock = &DomainClock{}
			b.from("clock", "status.topologyHints")
		}
		b.Domain.Clock.Timer = append(b.Domain.Clock.Timer, DomainTimer{Name: "tsc", Frequency: uint64(hz)})
	}
	return nil
}

func clockOf(source *v1.Clock) *DomainClock {
	made := &DomainClock{}
	switch {
	case source.UTC != nil:
		made.Offset, made.Adjustment = "utc", "reset"
		if seconds := source.UTC.OffsetSeconds; seconds != nil {
			made.Adjustment = strconv.Itoa(*seconds)
		}
	case source.Timezone != nil:
		made.Offset, made.TimeZone = "timezone", string(*source.Timezone)
	}
	timers := source.Timer
	if timers == nil {
		return made
	}
	add := func(name string, enabled *bool, policy, track string) {
		made.Timer = append(made.Timer, DomainTimer{Name: name, Present: yesNo(!isFalse(enabled)), TickPolicy: policy, Track: track})
	}
	if t := timers.RTC; t != nil {
		add("rtc", t.Enabled, string(t.TickPolicy), string(t.Track))
	}
	if t := timers.PIT; t != nil {
		add("pit", t.Enabled, string(t.TickPolicy), "")
	}
	if t := timers.KVM; t != nil {
		add("kvmclock", t.Enabled, "", "")
	}
	if t := timers.HPET; t != nil {
		add("hpet", t.Enabled, string(t.TickPolicy), "")
	}
	if t := timers.Hyperv; t != nil {
		add("hypervclock", t.Enabled, "", "")
	}
	return made
}

func rng(b *Build) error {
	if b.VMI.Spec.Domain.Devices.Rng == nil {
		return nil
	}
	made := DomainRNG{Model: b.VirtioModel, Backend: &DomainRNGBackend{Model: "random", Device: "/dev/urandom"}}
	if b.IOMMU != "" {
		made.Driver = &DomainRNGDriver{IOMMU: b.IOMMU}
	}
	b.Domain.Devices.RNGs = []DomainRNG{made}
	b.from(b.item("devices/rng", 0, ""), fieldDevices+"rng")
	return nil
}

func inputs(b *Build) error {
	list := b.VMI.Spec.Domain.Devices.Inputs
	for i := range list {
		input := &list[i]
		field := fmt.Sprintf(fieldDevices+"inputs[%d]", i)
		made := DomainInput{Type: string(input.Type), Bus: string(input.Bus), Alias: userAlias(input.Name)}
		switch input.Bus {
		case v1.InputBusVirtio:
			made.Model = virtio
		case "", v1.InputBusUSB:
			made.Bus = string(v1.InputBusUSB)
		default:
			return failf(field+".bus", "%q is not supported", input.Bus)
		}
		if input.Type != v1.InputTypeTablet {
			return failf(field+".type", "%q is not supported", input.Type)
		}
		b.Domain.Devices.Inputs = append(b.Domain.Devices.Inputs, made)
		b.from(b.item("devices/input", i, ""), field)
	}
	if b.hasDisplay() {
		b.Domain.Devices.Inputs = append(b.Domain.Devices.Inputs, b.Architecture.Inputs(b)...)
	}
	return nil
}

func (b *Build) hasDisplay() bool {
	return !isFalse(b.VMI.Spec.Domain.Devices.AutoattachGraphicsDevice)
}

func balloon(b *Build) error {
	made := &DomainMemBalloon{Model: "none"}
	b.Domain.Devices.MemBalloon = made
	b.from(b.item("devices/memballoon", 0, ""), fieldDevices+"autoattachMemBalloon")
	if isFalse(b.VMI.Spec.Domain.Devices.AutoattachMemBalloon) {
		return nil
	}
	made.Model, made.FreePageReporting = b.VirtioModel, onOff(b.freePageReporting())
	period := uint32(10) // KubeVirt's default
	if p := b.Facts.Configuration.MemBalloonStatsPeriod; p != nil {
		period = *p
	}
	if period != 0 {
		made.Stats = &DomainMemBalloonStats{Period: uint(period)}
	}
	if b.IOMMU != "" {
		made.Driver = &DomainMemBalloonDriver{IOMMU: b.IOMMU}
	}
	return nil
}

// graphics makes the display. Guests that are emulated on another architecture have none.
func graphics(b *Build) error {
	if !b.hasDisplay() || b.CrossArchitecture {
		return nil
	}
	b.Domain.Devices.Graphics = []DomainGraphic{{
		Type:      "vnc",
		Listeners: []DomainGraphicListener{{Type: "socket", Socket: fmt.Sprintf("%s/%s/virt-vnc", privateFolder, b.VMI.UID)}},
	}}
	b.from(b.item("devices/graphics", 0, ""), fieldDevices+"autoattachGraphicsDevice")
	b.from(b.item("devices/video", 0, ""), fieldDevices+"video")
	if own := b.VMI.Spec.Domain.Devices.Video; own != nil {
		b.Domain.Devices.Videos = []DomainVideo{{Model: DomainVideoModel{Type: own.Type, Heads: 1, VRam: vram}}}
		return nil
	}
	b.Domain.Devices.Videos = []DomainVideo{b.Architecture.Video(b)}
	return nil
}

func sound(b *Build) error {
	device := b.VMI.Spec.Domain.Devices.Sound
	if device == nil {
		return nil
	}
	model := device.Model
	switch model {
	case "":
		model = "ich9"
	case "ich9", "ac97":
	default:
		return failf(fieldDevices+"sound.model", "%q is not supported", model)
	}
	b.Domain.Devices.Sounds = []DomainSound{{Model: model, Alias: userAlias(device.Name)}}
	b.from(b.item("devices/sound", 0, ""), fieldDevices+"sound")
	return nil
}

func watchdog(b *Build) error {
	device := b.VMI.Spec.Domain.Devices.Watchdog
	if device == nil {
		return nil
	}
	model, action, err := b.Architecture.Watchdog(device)
	if err != nil {
		return failf(fieldDevices+"watchdog", "%w", err)
	}
	b.Domain.Devices.Watchdogs = []DomainWatchdog{{Model: model, Action: action, Alias: userAlias(device.Name)}}
	b.from(b.item("devices/watchdog", 0, ""), fieldDevices+"watchdog")
	return nil
}

func serial(b *Build) error {
	if isFalse(b.VMI.Spec.Domain.Devices.AutoattachSerialConsole) {
		return nil
	}
	socket := fmt.Sprintf("%s/%s/virt-serial0", privateFolder, b.VMI.UID)
	port := DomainSerial{
		Type: "unix", Source: &DomainChardevSource{Mode: "bind", Path: socket}, Target: &DomainSerialTarget{Port: pointer[uint](0)},
	}
	if b.SerialLog {
		port.Log = &DomainChardevLog{File: socket + "-log", Append: "on"}
	}
	b.Domain.Devices.Serials = []DomainSerial{port}
	b.Domain.Devices.Consoles = []DomainConsole{{Type: "pty", Target: &DomainConsoleTarget{Type: "serial", Port: pointer[uint](0)}}}
	b.from(b.item("devices/serial", 0, ""), fieldDevices+"autoattachSerialConsole")
	b.from(b.item("devices/serial", 0, "/log"), fieldDevices+"logSerialConsole")
	b.from(b.item("devices/console", 0, ""), fieldDevices+"autoattachSerialConsole")
	return nil
}

func panicDevices(b *Build) error {
	list := b.VMI.Spec.Domain.Devices.PanicDevices
	for i := range list {
		made := DomainPanic{}
		if list[i].Model != nil {
			made.Model = string(*list[i].Model)
		}
		b.Domain.Devices.Panics = append(b.Domain.Devices.Panics, made)
		b.from(b.item("devices/panic", i, ""), fmt.Sprintf(fieldDevices+"panicDevices[%d]", i))
	}
	return nil
}

func filesystems(b *Build) error {
	list := b.VMI.Spec.Domain.Devices.Filesystems
	for i := range list {
		if list[i].Virtiofs == nil {
			continue
		}
		b.from(b.item("devices/filesystem", len(b.Domain.Devices.Filesystems), ""), fmt.Sprintf(fieldDevices+"filesystems[%d]", i))
		b.Domain.Devices.Filesystems = append(b.Domain.Devices.Filesystems, DomainFilesystem{
			Type: "mount", AccessMode: "passthrough",
			Driver: &DomainFilesystemDriver{Type: "virtiofs", Queue: "1024"},
			Source: &DomainFilesystemSource{Socket: "/var/run/kubevirt/virtiofs-containers/" + list[i].Name + ".sock"},
			Target: &DomainFilesystemTarget{Dir: list[i].Name},
		})
	}
	return nil
}

func redirection(b *Build) error {
	if b.VMI.Spec.Domain.Devices.ClientPassthrough == nil {
		return nil
	}
	for i := range v1.UsbClientPassthroughMaxNumberOf {
		b.Domain.Devices.RedirDevs = append(b.Domain.Devices.RedirDevs, DomainRedirDev{
			Type: "unix", Bus: "usb",
			Source: &DomainChardevSource{Mode: "bind", Path: fmt.Sprintf("%s/%s/virt-usbredir-%d", privateFolder, b.VMI.UID, i)},
		})
		b.from(b.item("devices/redirdev", i, ""), fieldDevices+"clientPassthrough")
	}
	return nil
}

// qemuArguments passes the configuration of Ignition, and the log of the firmware if virt-launcher is verbose.
func qemuArguments(b *Build) error {
	var values []string
	if strings.Contains(b.VMI.Annotations[v1.IgnitionAnnotation], "ignition") {
		values = append(values, "-fw_cfg", fmt.Sprintf("name=opt/com.coreos/config,file=%s/%s/%s/data.ign", ignitionPath, b.VMI.Namespace, b.VMI.Name))
	}
	if verbosity, err := strconv.Atoi(b.Host.LogVerbosity); err == nil && verbosity > logThreshold && b.Architecture.FirmwareLog {
		values = append(values, "-chardev", "file,id=firmwarelog,path="+firmwareLog, "-device", "isa-debugcon,iobase=0x402,chardev=firmwarelog")
		b.fromHost("qemu:commandline", "logVerbosity")
	}
	if len(values) == 0 {
		return nil
	}
	b.Domain.QEMUCommandline = &DomainQEMUCommandline{}
	for _, value := range values {
		b.Domain.QEMUCommandline.Args = append(b.Domain.QEMUCommandline.Args, DomainQEMUCommandlineArg{Value: value})
	}
	return nil
}

func reboot(b *Build) error {
	policy := b.VMI.Spec.Domain.RebootPolicy
	if policy == nil {
		return nil
	}
	switch *policy {
	case v1.RebootPolicyTerminate:
		b.Domain.OnReboot = "destroy"
	case v1.RebootPolicyReboot:
		b.Domain.OnReboot = "restart"
	}
	b.from("on_reboot", fieldDomain+"rebootPolicy")
	return nil
}

func iommufd(b *Build) error {
	if b.Host.IOMMUFD {
		b.Domain.IOMMUFD = &DomainIOMMUFD{Enabled: "yes", FDGroup: "iommu"}
		b.fromHost("iommufd", "iommufd")
	}
	return nil
}

func sysInfo(b *Build) error {
	info := &DomainSysInfo{Type: "smbios"}
	b.Domain.SysInfo = info
	if firmware := b.VMI.Spec.Domain.Firmware; firmware != nil {
		info.System = append(info.System, DomainSysInfoEntry{"uuid", string(firmware.UUID)})
		b.from("sysinfo/system", fieldDomain+"firmware")
		if firmware.Serial != "" {
			info.System = append(info.System, DomainSysInfoEntry{"serial", firmware.Serial})
		}
	}
	own := v1.SMBiosConfiguration{Manufacturer: "KubeVirt", Family: "KubeVirt", Product: "None"}
	if c := b.Facts.Configuration.SMBIOSConfig; c != nil {
		replace := func(value *string, by string) {
			if by != "" {
				*value = by
			}
		}
		replace(&own.Manufacturer, c.Manufacturer)
		replace(&own.Family, c.Family)
		replace(&own.Product, c.Product)
		replace(&own.Sku, c.Sku)
		replace(&own.Version, c.Version)
	}
	info.System = append(info.System,
		DomainSysInfoEntry{"manufacturer", own.Manufacturer}, DomainSysInfoEntry{"family", own.Family}, DomainSysInfoEntry{"product", own.Product},
		DomainSysInfoEntry{"sku", own.Sku}, DomainSysInfoEntry{"version", own.Version})
	if chassis := b.VMI.Spec.Domain.Chassis; chassis != nil {
		info.Chassis = []DomainSysInfoEntry{
			{"manufacturer", chassis.Manufacturer},
			{"version", chassis.Version},
			{"serial", chassis.Serial},
			{"asset", chassis.Asset},
			{"sku", chassis.Sku},
		}
		b.from("sysinfo/chassis", fieldDomain+"chassis")
	}
	return nil
}
