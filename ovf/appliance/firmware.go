package appliance

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/vmdk"
)

// maxBeginning is how much of a disk says how it boots, in bytes: the boot sector and a GPT with 128 partitions.
const maxBeginning = 34 * 512

// The types of partitions, as a GPT has them.
var (
	typeESP  = []byte{0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0x00, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b}
	typeBIOS = []byte("Hah!IdontNeedEFI")
)

// boots tells how a disk boots. Both are false if that is not known.
type boots struct{ bios, efi bool }

// bootsOf reads the beginning of a disk. A disk boots with BIOS if its boot sector has code or it has a boot partition for BIOS, and with
// EFI if it has an EFI system partition.
func bootsOf(begin []byte) boots {
	if len(begin) < maxBeginning || begin[510] != 0x55 || begin[511] != 0xaa {
		return boots{}
	}
	found := boots{bios: !vmdk.AllZero(begin[:440])}
	for at := 446; at < 510; at += 16 {
		found.efi = found.efi || begin[at+4] == 0xef
	}
	if gpt := begin[512:]; bytes.HasPrefix(gpt, []byte("EFI PART")) {
		const first = 1024
		count, size := binary.LittleEndian.Uint32(gpt[80:]), binary.LittleEndian.Uint32(gpt[84:])
		if binary.LittleEndian.Uint64(gpt[72:]) != first/512 || size != 128 {
			return boots{}
		}
		for i := range min(int(count), (maxBeginning-first)/128) {
			kind := begin[first+128*i:][:16]
			found.efi = found.efi || bytes.Equal(kind, typeESP)
			found.bios = found.bios || bytes.Equal(kind, typeBIOS)
		}
	}
	return found
}

// bootsOfRaw is bootsOf for a raw disk.
func bootsOfRaw(data Data) (boots, error) {
	begin := make([]byte, min(maxBeginning, data.Size()))
	if _, err := io.ReadFull(io.NewSectionReader(data, 0, data.Size()), begin); err != nil {
		return boots{}, err
	}
	return bootsOf(begin), nil
}

// checkFirmware warns of a boot disk that boots only with the other firmware.
func (in *inspection) checkFirmware(s *ovf.System, results map[string]inspected) {
	if len(s.Disks) == 0 {
		return
	}
	d := &s.Disks[0]
	switch b := results[d.Href].boots; {
	case s.Firmware == "bios" && b.efi && !b.bios:
		in.problems.Warn(ovf.FirmwareMismatch, d.Href, "the virtual machine has BIOS, but its first disk boots only with EFI: change the firmware of the template")
	case s.Firmware != "bios" && b.bios && !b.efi:
		in.problems.Warn(ovf.FirmwareMismatch, d.Href, "the virtual machine has EFI, but its first disk boots only with BIOS: change the firmware of the template")
	}
}
