package domain

import (
	"fmt"
	"path"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
)

// efi are the files of an architecture's EFI for one kind of guest. Without variables, the firmware is stateless.
type efi struct {
	code, vars string
	// stateless says that the firmware keeps no variables.
	stateless bool
	// secure says that the firmware protects its variables from the guest.
	secure bool
}

// efiFiles is the EFI of an instance.
type efiFiles struct {
	efi
	// selected says that libvirt selects the firmware.
	selected bool
}

// ovmf returns the firmware of an instance on amd64.
func ovmf(b *Build) efi {
	security, secureBoot := b.VMI.Spec.Domain.LaunchSecurity, b.secureBoot()
	first := func(names ...string) string {
		for _, name := range names {
			if b.Host.hasFirmware(name) {
				return name
			}
		}
		return ""
	}
	switch {
	case security != nil && security.SNP != nil && !secureBoot:
		return efi{code: first("OVMF.amdsev.fd"), stateless: true}
	case security != nil && security.SEV != nil && security.SNP == nil && !secureBoot:
		return efi{code: first("OVMF_CODE.cc.fd"), vars: first("OVMF_VARS.fd")}
	case security != nil && (security.SNP != nil || security.SEV != nil):
		return efi{} // there is no such firmware
	case security != nil && security.TDX != nil && secureBoot:
		return efi{code: first("OVMF.inteltdx.secboot.fd"), stateless: true}
	case security != nil && security.TDX != nil:
		return efi{code: first("OVMF.inteltdx.fd"), stateless: true}
	case secureBoot:
		return efi{code: first("OVMF_CODE.secboot.fd"), vars: first("OVMF_VARS.secboot.fd"), secure: true}
	}
	return efi{code: first("OVMF_CODE.secboot.fd", "OVMF_CODE.fd"), vars: first("OVMF_VARS.fd")}
}

// aavmf returns the firmware of an instance on arm64, which has none for Secure Boot.
func aavmf(b *Build) efi {
	if b.secureBoot() || !b.Host.hasFirmware("AAVMF_CODE.fd") || !b.Host.hasFirmware("AAVMF_VARS.fd") {
		return efi{}
	}
	return efi{code: "AAVMF_CODE.fd", vars: "AAVMF_VARS.fd"}
}

// secureBoot reports whether an instance with EFI has Secure Boot, which is the default.
func (b *Build) secureBoot() bool {
	return !isFalse(b.VMI.Spec.Domain.Firmware.Bootloader.EFI.SecureBoot)
}

func (b *Build) readFirmware() error {
	if !b.VMI.IsBootloaderEFI() {
		return nil
	}
	security := b.VMI.Spec.Domain.LaunchSecurity
	confidential := security != nil && (security.SEV != nil || security.SNP != nil || security.TDX != nil)
	if b.secureBoot() && !confidential && b.Facts.GateEnabled("FirmwareAutoSelection") {
		b.efi = &efiFiles{selected: true}
		return nil
	}
	files := b.Architecture.Firmware(b)
	if files.code == "" || files.vars == "" && !files.stateless {
		return failf(fieldDomain+"firmware.bootloader.efi", "the node has no firmware for this guest: Secure Boot %v, confidential %v", b.secureBoot(), confidential)
	}
	b.efi = &efiFiles{efi: files}
	return nil
}

func operatingSystem(b *Build) error {
	made := &DomainOS{Type: &DomainOSType{}}
	b.Domain.OS = made
	if firmware := b.VMI.Spec.Domain.Firmware; firmware != nil {
		b.bootloader(made)
		if bootloader := firmware.Bootloader; bootloader != nil && bootloader.BIOS != nil && isTrue(bootloader.BIOS.UseSerial) {
			made.BIOS = &DomainBIOS{UseSerial: "yes"}
			b.from("os/bios", fieldDomain+"firmware.bootloader.bios.useSerial")
		}
		b.kernel(made, firmware.KernelBoot)
		if err := b.acpiTables(made, firmware.ACPI); err != nil {
			return err
		}
	}
	if b.Architecture.SMBIOS {
		made.SMBios = &DomainSMBios{Mode: "sysinfo"}
	}
	if machine := b.VMI.Spec.Domain.Machine; machine != nil {
		made.Type.Machine = machine.Type
	}
	b.from("os/type@machine", fieldDomain+"machine.type")
	if b.VMI.ShouldStartPaused() {
		made.BootMenu = &DomainBootMenu{Enable: "yes", Timeout: 10_000}
		b.from("os/bootmenu", "spec.startStrategy")
	}
	return nil
}

func (b *Build) bootloader(made *DomainOS) {
	if b.efi == nil {
		return
	}
	field := fieldDomain + "firmware.bootloader.efi"
	b.from("os/loader", field)
	b.from("os/nvram", field)
	b.from("os/firmware", field+".secureBoot")
	variables := path.Join(b.stateFolder(), "qemu", "nvram", b.VMI.Name+"_VARS.fd")
	if b.efi.selected {
		made.Firmware = "efi"
		made.FirmwareInfo = &DomainOSFirmwareInfo{Features: []DomainOSFirmwareFeature{{"yes", "secure-boot"}, {"yes", "enrolled-keys"}}}
		if b.VMI.Spec.Architecture != arm64().Name { // libvirt itself keeps the variables there
			made.NVRam = &DomainNVRam{Format: "raw", NVRam: variables}
		}
		return
	}
	folder := b.firmwareFolder()
	made.Loader = &DomainLoader{Path: path.Join(folder, b.efi.code), Readonly: "yes", Secure: yesNo(b.efi.secure), Type: "pflash"}
	if b.efi.stateless {
		made.Loader.Type = "rom"
		return
	}
	made.NVRam = &DomainNVRam{Template: path.Join(folder, b.efi.vars), NVRam: variables}
}

// firmwareFolder is the folder that KubeVirt's configuration names, or that of its images.
func (b *Build) firmwareFolder() string {
	of, known := architectures.Find(b.Architecture.Name)
	if known && of.Section != nil && b.Facts.Configuration.ArchitectureConfiguration != nil {
		if section := *of.Section(b.Facts.Configuration.ArchitectureConfiguration); section != nil && section.OVMFPath != "" {
			return section.OVMFPath
		}
	}
	return b.Architecture.FirmwareFolder
}

// stateFolder is the folder of libvirt's state, below which the launcher of a user without root has its own.
func (b *Build) stateFolder() string {
	if b.nonRoot {
		return privateFolder + "/libvirt"
	}
	return "/var/lib/libvirt"
}

func (b *Build) kernel(made *DomainOS, boot *v1.KernelBoot) {
	if boot == nil {
		return
	}
	field := fieldDomain + "firmware.kernelBoot"
	made.Cmdline = boot.KernelArgs
	b.from("os/cmdline", field+".kernelArgs")
	if boot.Container == nil {
		return
	}
	artifact := func(name string) string {
		if name == "" {
			return ""
		}
		return path.Join(containerDisks, "kernel-boot", path.Base(name))
	}
	made.Kernel, made.Initrd = artifact(boot.Container.KernelPath), artifact(boot.Container.InitrdPath)
	b.from("os/kernel", field+".container.kernelPath")
	b.from("os/initrd", field+".container.initrdPath")
}

// acpiTables adds the tables of Windows licenses, which are Secrets.
func (b *Build) acpiTables(made *DomainOS, tables *v1.ACPI) error {
	if tables == nil {
		return nil
	}
	field := fieldDomain + "firmware.acpi"
	if tables.SlicNameRef == "" && tables.MsdmNameRef == "" {
		return failf(field, "there is no table")
	}
	b.from("os/acpi", field)
	made.ACPI = &DomainACPI{}
	for _, table := range []struct{ kind, volume string }{{"slic", tables.SlicNameRef}, {"msdm", tables.MsdmNameRef}} {
		if table.volume == "" {
			continue
		}
		volume := b.volume(table.volume)
		if volume == nil {
			return failf(fmt.Sprintf("%s.%sNameRef", field, table.kind), "there is no volume %s", table.volume)
		}
		if volume.Secret == nil {
			return failf(fmt.Sprintf("%s.%sNameRef", field, table.kind), "the volume %s is not a Secret", table.volume)
		}
		made.ACPI.Tables = append(made.ACPI.Tables, DomainACPITable{Type: table.kind, Path: path.Join(privateFolder, "secret", table.volume, table.kind+".bin")})
	}
	return nil
}

func (b *Build) volume(name string) *v1.Volume {
	for i := range b.Volumes {
		if b.Volumes[i].Name == name {
			return &b.Volumes[i]
		}
	}
	return nil
}
