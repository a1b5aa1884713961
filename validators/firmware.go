package validators

import (
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
)

func firmwareRules() Table {
	return Scoped(OnSpec,
		firmwareOneBootloaderRule,
		firmwareSecureBootRule,
		firmwareACPINamedRule,
		firmwareACPISecretsRule,
		firmwareKernelArgumentsRule,
		firmwareKernelImageRule,
		firmwareKernelFilesRule,
		firmwareKernelPathsRule,
	)
}

// bootsEFI reports whether the VM boots from EFI.
func bootsEFI(f *v1.Firmware) bool {
	return f != nil && f.Bootloader != nil && f.Bootloader.EFI != nil
}

// bootsSecurely reports whether the VM boots from EFI with Secure Boot, which is on by default.
func bootsSecurely(f *v1.Firmware) bool {
	return bootsEFI(f) && (f.Bootloader.EFI.SecureBoot == nil || *f.Bootloader.EFI.SecureBoot)
}

// managesSystem reports whether system management mode is on.
func managesSystem(f *v1.Features) bool {
	return f != nil && f.SMM != nil && (f.SMM.Enabled == nil || *f.SMM.Enabled)
}

func (s *Subject) firmware() *field.Path { return s.Domain().Child("firmware") }

var firmwareOneBootloaderRule = Rule{
	ID:     "firmware-one-bootloader",
	Title:  "A VM boots either from BIOS or from EFI",
	Remedy: "Remove one of bios and efi from firmware.bootloader.",
	Check:  firmwareOneBootloader,
}

func firmwareOneBootloader(s *Subject, found *Errors) {
	f := s.Spec.Domain.Firmware
	if !bootsEFI(f) || f.Bootloader.BIOS == nil {
		return
	}
	found.Add(field.Invalid(s.firmware().Child("bootloader"), field.OmitValueType{},
		"bios and efi are both set"))
}

var firmwareSecureBootRule = Rule{
	ID:            "firmware-secure-boot-smm",
	Title:         "EFI Secure Boot needs system management mode",
	Remedy:        "Set firmware.bootloader.efi.secureBoot to false, or, on amd64, enable features.smm.",
	Security:      true,
	ReadsDefaults: true,
	Check:         firmwareSecureBoot,
}

// firmwareSecureBoot reports at the domain, which has both fields. The firmware of TDX boots securely without SMM, which
// TDX does not have.
func firmwareSecureBoot(s *Subject, found *Errors) {
	d := &s.Spec.Domain
	if !bootsSecurely(d.Firmware) || managesSystem(d.Features) || d.LaunchSecurity != nil && d.LaunchSecurity.TDX != nil {
		return
	}
	what, detail := "Secure Boot", " requires features.smm.enabled: true"
	if d.Firmware.Bootloader.EFI.SecureBoot == nil {
		what = "Secure Boot, which is on by default,"
	}
	if s.architecture() != architectures.AMD64 {
		what, detail = s.architecture()+" has no Secure Boot: "+what, " requires system management mode, which only amd64 has"
	}
	detail = what + detail
	found.Add(field.Invalid(s.Domain(), field.OmitValueType{}, detail))
}

var firmwareACPINamedRule = Rule{
	ID:     "firmware-acpi-table-named",
	Title:  "A custom ACPI table names the volume that holds it",
	Remedy: "Set slicNameRef or msdmNameRef to the name of a volume, or remove firmware.acpi.",
	Check:  firmwareACPINamed,
}

func firmwareACPINamed(s *Subject, found *Errors) {
	f := s.Spec.Domain.Firmware
	if f == nil || f.ACPI == nil || f.ACPI.SlicNameRef != "" || f.ACPI.MsdmNameRef != "" {
		return
	}
	found.Add(field.Invalid(s.firmware().Child("acpi"), field.OmitValueType{},
		"neither slicNameRef nor msdmNameRef is set"))
}

var firmwareACPISecretsRule = Rule{
	ID:     "firmware-acpi-table-secret",
	Title:  "An ACPI table comes from a volume of a Secret",
	Remedy: "Name a volume with the Secret that holds the table.",
	Check:  firmwareACPISecrets,
}

func firmwareACPISecrets(s *Subject, found *Errors) {
	f := s.Spec.Domain.Firmware
	if f == nil || f.ACPI == nil {
		return
	}

	for _, ref := range []struct{ name, volume string }{
		{"slicNameRef", f.ACPI.SlicNameRef},
		{"msdmNameRef", f.ACPI.MsdmNameRef},
	} {
		if wrong := notASecret(s.Spec.Volumes, ref.volume); wrong != "" {
			found.Add(field.Invalid(s.firmware().Child("acpi", ref.name), ref.volume, wrong))
		}
	}
}

// notASecret says what is wrong with the name of a volume that should hold a Secret. No name is not wrong.
func notASecret(volumes []v1.Volume, name string) string {
	if name == "" {
		return ""
	}
	for i := range volumes {
		if volumes[i].Name != name {
			continue
		}
		if volumes[i].Secret == nil {
			return "the volume of this name has no Secret"
		}
		return ""
	}
	return "there is no volume of this name"
}

var firmwareKernelArgumentsRule = Rule{
	ID:     "firmware-kernel-arguments",
	Title:  "Kernel arguments need a custom kernel",
	Remedy: "Add kernelBoot.container with the image of the kernel, or remove kernelBoot.kernelArgs.",
	Check:  firmwareKernelArguments,
}

func firmwareKernelArguments(s *Subject, found *Errors) {
	f := s.Spec.Domain.Firmware
	if f == nil || f.KernelBoot == nil || f.KernelBoot.Container != nil || f.KernelBoot.KernelArgs == "" {
		return
	}
	found.Add(field.Invalid(s.firmware().Child("kernelBoot", "kernelArgs"), field.OmitValueType{}, // they may hold passwords
		"kernelBoot.container is not set, and only its kernel gets these arguments"))
}

// kernelContainer is the container with the kernel to boot, and its path; nil if there is none.
func kernelContainer(s *Subject) (*v1.KernelBootContainer, *field.Path) {
	f := s.Spec.Domain.Firmware
	if f == nil || f.KernelBoot == nil {
		return nil, nil
	}
	return f.KernelBoot.Container, s.firmware().Child("kernelBoot", "container")
}

var firmwareKernelImageRule = Rule{
	ID:     "firmware-kernel-image",
	Title:  "The container of a kernel names its image",
	Remedy: "Set kernelBoot.container.image.",
	Check:  firmwareKernelImage,
}

func firmwareKernelImage(s *Subject, found *Errors) {
	container, at := kernelContainer(s)
	if container == nil || container.Image != "" {
		return
	}
	found.Add(field.Required(at.Child("image"), "the image that the kernel is in"))
}

var firmwareKernelFilesRule = Rule{
	ID:     "firmware-kernel-files",
	Title:  "The container of a kernel names a kernel or an initial RAM disk",
	Remedy: "Set kernelBoot.container.kernelPath, initrdPath or both.",
	Check:  firmwareKernelFiles,
}

func firmwareKernelFiles(s *Subject, found *Errors) {
	container, at := kernelContainer(s)
	if container == nil || container.KernelPath != "" || container.InitrdPath != "" {
		return
	}
	found.Add(field.Required(at, "neither kernelPath nor initrdPath is set"))
}

var firmwareKernelPathsRule = Rule{
	ID:       "firmware-kernel-path",
	Title:    "The paths of the kernel and the initial RAM disk are absolute and plain",
	Remedy:   "Write the path of a file from the root of the image, without \".\", \"..\" and doubled slashes.",
	Security: true,
	Check:    firmwareKernelPaths,
}

func firmwareKernelPaths(s *Subject, found *Errors) {
	container, at := kernelContainer(s)
	if container == nil {
		return
	}

	for _, file := range []struct{ name, path string }{
		{"kernelPath", container.KernelPath},
		{"initrdPath", container.InitrdPath},
	} {
		if wrong := notAPlainPath(file.path); wrong != "" {
			found.Add(field.Invalid(at.Child(file.name), file.path, wrong))
		}
	}
}

// notAPlainPath says what is wrong with the path of a file in an image. No path is not wrong, and one slash at
// the end does no harm.
func notAPlainPath(file string) string {
	switch clean := path.Join("/", file); {
	case file == "":
		return ""
	case file == "/":
		return "is the root directory, not a file"
	case clean != strings.TrimSuffix(file, "/"):
		return fmt.Sprintf("is not a plain absolute path, such as %s", clean)
	}
	return ""
}
