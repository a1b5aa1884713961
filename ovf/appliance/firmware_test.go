package appliance

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/vmdk"
)

// partitioned is the beginning of a disk with a boot sector, and with a GPT if partitions are given.
func partitioned(code bool, mbr byte, partitions ...[]byte) []byte {
	disk := make([]byte, 1<<20)
	copy(disk[510:], []byte{0x55, 0xaa})
	disk[446+4] = mbr
	if code {
		copy(disk, []byte{0xeb, 0x63})
	}
	if partitions == nil {
		return disk
	}
	copy(disk[512:], "EFI PART")
	binary.LittleEndian.PutUint64(disk[512+72:], 2)
	binary.LittleEndian.PutUint32(disk[512+80:], 128)
	binary.LittleEndian.PutUint32(disk[512+84:], 128)
	for i, kind := range partitions {
		copy(disk[1024+128*i:], kind)
	}
	return disk
}

// TestBoots finds how disks boot.
func TestBoots(t *testing.T) {
	other := []byte("another type of.")
	odd := partitioned(true, 0xee, typeESP)
	binary.LittleEndian.PutUint32(odd[512+84:], 256)
	many := partitioned(false, 0xee, typeESP)
	binary.LittleEndian.PutUint32(many[512+80:], 1<<32-1)
	for name, c := range map[string]struct {
		disk []byte
		want boots
	}{
		"nothing":                    {make([]byte, 1<<20), boots{}},
		"too small":                  {partitioned(true, 0x83)[:512], boots{}},
		"a boot sector":              {partitioned(true, 0x83), boots{bios: true}},
		"data":                       {partitioned(false, 0x83), boots{}},
		"an EFI partition of an MBR": {partitioned(false, 0xef), boots{efi: true}},
		"a GPT for EFI":              {partitioned(false, 0xee, other, typeESP), boots{efi: true}},
		"a GPT for BIOS":             {partitioned(false, 0xee, typeBIOS, other), boots{bios: true}},
		"a GPT for both":             {partitioned(true, 0xee, typeBIOS, typeESP), boots{bios: true, efi: true}},
		"a GPT of another size":      {odd, boots{}},
		"a GPT with many partitions": {many, boots{efi: true}},
	} {
		if got := bootsOf(c.disk); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// TestFirmwareMismatch warns of a boot disk for the other firmware, in a VMDK and in a raw disk.
func TestFirmwareMismatch(t *testing.T) {
	efi := strings.Replace(descriptor, "<VirtualHardwareSection>", `<VirtualHardwareSection xmlns:vmw="http://www.vmware.com/schema/ovf"><vmw:Config vmw:key="firmware" vmw:value="efi"/>`, 1)
	if efi == descriptor {
		t.Fatal("the descriptor has no hardware")
	}
	for name, c := range map[string]struct {
		descriptor string
		disk       []byte
		want       string
	}{
		"BIOS with a disk for EFI":  {descriptor, partitioned(false, 0xee, typeESP), "boots only with EFI"},
		"BIOS with a disk for both": {descriptor, partitioned(true, 0xee, typeESP), ""},
		"EFI with a disk for EFI":   {efi, partitioned(false, 0xee, typeESP), ""},
		"EFI with a disk for BIOS":  {efi, partitioned(true, 0x83), "boots only with BIOS"},
		"EFI with an empty disk":    {efi, make([]byte, 1<<20), ""},
	} {
		for _, raw := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				file := string(c.disk)
				if !raw {
					var out bytes.Buffer
					if err := vmdk.Write(&out, bytes.NewReader(c.disk), int64(len(c.disk)), "a.vmdk"); err != nil {
						t.Fatal(err)
					}
					file = out.String()
				}
				found := inspect(t, archive(t, entry{"quay.ovf", c.descriptor, 0}, entry{"a.vmdk", file, 0}), Options{})
				n := slices.IndexFunc(found.Warnings, func(w ovf.Warning) bool { return w.Code == ovf.FirmwareMismatch })
				if (n < 0) != (c.want == "") || n >= 0 && (!strings.Contains(found.Warnings[n].Message, c.want) || found.Warnings[n].Element != "a.vmdk") {
					t.Errorf("got %+v, want %q", found.Warnings, c.want)
				}
			})
		}
	}
}
