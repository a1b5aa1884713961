package validators

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

// oneDisk is a spec with a disk named root, on a claim, and the given fields.
func oneDisk(fields string) string {
	return `{"domain":{"devices":{"disks":[{"name":"root",` + fields + `}]}},"volumes":[{"name":"root","persistentVolumeClaim":{"claimName":"c"}}]}`
}

func TestDisks(t *testing.T) {
	const disk = "spec.domain.devices.disks[0]"
	const reservations = `{"persistentReservationConfiguration":{"enabled":true}}`
	runCases(t, diskRules(), OnSpec, []ruleCase{
		{name: "none", spec: `{}`},
		{name: "plain", spec: oneDisk(`"disk":{"bus":"virtio"}`)},
		{name: "no target", spec: oneDisk(`"serial":""`)},
		{name: "LUN on virtio", spec: oneDisk(`"lun":{"bus":"virtio"}`)},
		{name: "CD-ROM on sata", spec: oneDisk(`"cdrom":{"bus":"sata","readonly":false}`)},
		{name: "read-only on virtio", spec: oneDisk(`"disk":{"bus":"virtio","readonly":true}`)},
		{name: "PCI address", spec: oneDisk(`"disk":{"bus":"virtio","pciAddress":"0000:AF:1F.7"}`)},
		{name: "I/O thread", spec: oneDisk(`"disk":{"bus":"virtio"},"dedicatedIOThread":true`)},
		{name: "no I/O thread on sata", spec: oneDisk(`"disk":{"bus":"sata"},"dedicatedIOThread":false`)},
		{name: "serial number of 256 characters", spec: oneDisk(`"serial":"` + strings.Repeat("x", 256) + `"`)},
		{name: "known modes", spec: oneDisk(`"cache":"directsync","io":"native","errorPolicy":"report"`)},
		{name: "block sizes", spec: oneDisk(`"blockSize":{"custom":{"logical":512,"physical":4096,"discardGranularity":1024}}`)},
		{name: "block sizes of the volume", spec: oneDisk(`"blockSize":{"matchVolume":{}}`)},
		{name: "block sizes, not of the volume", spec: oneDisk(`"blockSize":{"custom":{"logical":512,"physical":512},"matchVolume":{"enabled":false}}`)},
		{name: "reservation", configuration: reservations, spec: oneDisk(`"lun":{"bus":"scsi","reservation":true}`)},
		{name: "empty CD-ROM drive", spec: `{"domain":{"devices":{"disks":[{"name":"tray","cdrom":{"bus":"sata"}}]}}}`},
		{name: "metrics", spec: `{"domain":{"devices":{"disks":[{"name":"m","disk":{"bus":"virtio"}}]}},"volumes":[{"name":"m","downwardMetrics":{}}]}`},
		{name: "distinct boot orders", spec: `{"domain":{"devices":{"disks":[{"name":"a","bootOrder":2}],"interfaces":[{"name":"n","bootOrder":1}]}},"volumes":[{"name":"a","containerDisk":{"image":"i"}}]}`},
		{
			name: "name taken",
			spec: `{"domain":{"devices":{"disks":[{"name":"a"},{"name":"b"},{"name":"a"}]}},"volumes":[{"name":"a","containerDisk":{"image":"i"}},{"name":"b","containerDisk":{"image":"i"}}]}`,
			want: []string{`disk-names-unique: spec.domain.devices.disks[2].name: Invalid value: "a": disks[0] already has this name`},
		},
		{
			name: "name no container could have",
			spec: `{"domain":{"devices":{"disks":[{"name":"my.disk"}]}},"volumes":[{"name":"my.disk","containerDisk":{"image":"i"}}]}`,
			want: []string{`disk-name-label: ` + disk + `.name: Invalid value: "my.disk": must be a DNS label, because a container can have this name`},
		},
		{
			name: "no volume",
			spec: `{"domain":{"devices":{"disks":[{"name":"ghost","disk":{"bus":"virtio"}}]}}}`,
			want: []string{`disk-has-volume: ` + disk + `.name: Invalid value: "ghost": there is no volume with this name`},
		},
		{
			name:          "empty CD-ROM drive without the gate",
			configuration: `{"developerConfiguration":{"disabledFeatureGates":["DeclarativeHotplugVolumes"]}}`,
			spec:          `{"domain":{"devices":{"disks":[{"name":"tray","cdrom":{"bus":"sata"}}]}}}`,
			want:          []string{`disk-has-volume: ` + disk + `.name: Invalid value: "tray": there is no volume with this name; an empty CD-ROM drive needs the feature gate DeclarativeHotplugVolumes`},
		},
		{
			name: "two targets",
			spec: oneDisk(`"disk":{"bus":"virtio"},"cdrom":{"bus":"sata"}`),
			want: []string{`disk-one-target: ` + disk + `: Invalid value: "root": 2 of disk, lun and cdrom are set`},
		},
		{
			name: "ide",
			spec: oneDisk(`"cdrom":{"bus":"ide"}`),
			want: []string{`disk-bus-known: ` + disk + `.cdrom.bus: Invalid value: "ide": KubeVirt has no ide bus, but the similar sata`},
		},
		{
			name: "unknown bus",
			spec: oneDisk(`"lun":{"bus":"nvme"}`),
			want: []string{`disk-bus-known: ` + disk + `.lun.bus: Invalid value: "nvme": the bus is unknown: supported values: "virtio", "scsi", "sata", "usb"`},
		},
		{
			name: "CD-ROM on virtio",
			spec: oneDisk(`"cdrom":{"bus":"virtio"}`),
			want: []string{`disk-cdrom-bus: ` + disk + `.cdrom.bus: Invalid value: "virtio": a CD-ROM drive cannot be on the virtio bus`},
		},
		{
			name: "read-only on sata",
			spec: oneDisk(`"disk":{"bus":"sata","readonly":true}`),
			want: []string{`disk-sata-writable: ` + disk + `.disk.bus: Invalid value: "sata": a disk on the sata bus cannot be read-only`},
		},
		{
			name: "wrong PCI address on the wrong bus",
			spec: oneDisk(`"disk":{"bus":"sata","pciAddress":"slot3"}`),
			want: []string{
				`disk-pci-address: ` + disk + `.disk.pciAddress: Invalid value: "slot3": is not a PCI address`,
				`disk-pci-bus: ` + disk + `.disk.pciAddress: Invalid value: "slot3": a PCI address needs the bus virtio, and the bus is "sata"`,
			},
		},
		{
			name: "boot orders of 0",
			spec: `{"domain":{"devices":{"disks":[{"name":"a","bootOrder":0}],"interfaces":[{"name":"n","bootOrder":0}]}},"volumes":[{"name":"a","containerDisk":{"image":"i"}}]}`,
			want: []string{
				`boot-order-positive: ` + disk + `.bootOrder: Invalid value: 0: must be at least 1`,
				`boot-order-positive: spec.domain.devices.interfaces[0].bootOrder: Invalid value: 0: must be at least 1`,
			},
		},
		{
			name: "the same boot order three times",
			spec: `{"domain":{"devices":{"disks":[{"name":"a","bootOrder":1},{"name":"b","bootOrder":1}],"interfaces":[{"name":"n","bootOrder":1}]}},"volumes":[{"name":"a","containerDisk":{"image":"i"}},{"name":"b","containerDisk":{"image":"i"}}]}`,
			want: []string{
				`boot-order-unique: spec.domain.devices.disks[1].bootOrder: Invalid value: 1: disks[0] has the same boot order`,
				`boot-order-unique: spec.domain.devices.interfaces[0].bootOrder: Invalid value: 1: disks[0] has the same boot order`,
			},
		},
		{
			name: "I/O thread on scsi",
			spec: oneDisk(`"lun":{"bus":"scsi"},"dedicatedIOThread":true`),
			want: []string{`disk-iothread-bus: ` + disk + `.dedicatedIOThread: Unsupported value: true: an I/O thread needs the bus virtio, and the bus is "scsi"`},
		},
		{
			name: "odd serial number",
			spec: oneDisk(`"serial":"é"`),
			want: []string{`disk-serial-characters: ` + disk + `.serial: Invalid value: "é": has characters that are not allowed`},
		},
		{
			name: "long serial number",
			spec: oneDisk(`"serial":"` + strings.Repeat("x", 257) + `"`),
			want: []string{`disk-serial-length: ` + disk + `.serial: Invalid value: "` + strings.Repeat("x", 32) + `…": the serial number has 257 characters, more than 256`},
		},
		{
			name: "unknown modes",
			spec: oneDisk(`"cache":"unsafe","io":"io_uring","errorPolicy":""`),
			want: []string{
				`disk-cache-known: ` + disk + `.cache: Invalid value: "unsafe": the cache mode is unknown: supported values: "none", "writethrough", "writeback", "directsync"`,
				`disk-error-policy-known: ` + disk + `.errorPolicy: Invalid value: "": the error policy is unknown: supported values: "stop", "ignore", "report", "enospace"`,
				`disk-io-known: ` + disk + `.io: Unsupported value: "io_uring": supported values: "native", "threads"`,
			},
		},
		{
			name: "block sizes twice",
			spec: oneDisk(`"blockSize":{"custom":{"logical":1,"physical":0},"matchVolume":{"enabled":true}}`),
			want: []string{`disk-block-size-one-source: ` + disk + `.blockSize: Invalid value: "custom and matchVolume": both are set`},
		},
		{
			name: "logical blocks above the physical ones",
			spec: oneDisk(`"blockSize":{"custom":{"logical":512}}`),
			want: []string{`disk-block-size-logical: ` + disk + `.blockSize.custom.logical: Invalid value: 512: the logical block size must not be above the physical one, which is 0`},
		},
		{
			name: "large blocks on sata",
			spec: oneDisk(`"disk":{"bus":"sata"},"blockSize":{"custom":{"logical":4096,"physical":4096}}`),
			want: []string{`disk-block-size-sata: ` + disk + `.blockSize.custom.logical: Invalid value: 4096: on the sata bus the logical block size must be 512`},
		},
		{
			name: "discard granularity beside the blocks",
			spec: oneDisk(`"blockSize":{"custom":{"logical":512,"physical":512,"discardGranularity":1000}}`),
			want: []string{`disk-block-size-discard: ` + disk + `.blockSize.custom.discardGranularity: Invalid value: 1000: the discard granularity must be a multiple of the logical block size, which is 512`},
		},
		{
			name: "block sizes out of range",
			spec: oneDisk(`"blockSize":{"custom":{"logical":513,"physical":4194304,"discardGranularity":0}}`),
			want: []string{
				`disk-block-size-range: ` + disk + `.blockSize.custom.logical: Invalid value: 513: a block size must be a power of two from 512 to 2097152`,
				`disk-block-size-range: ` + disk + `.blockSize.custom.physical: Invalid value: 4194304: a block size must be a power of two from 512 to 2097152`,
			},
		},
		{
			name: "no block size, but a discard granularity",
			spec: oneDisk(`"blockSize":{"custom":{"discardGranularity":512}}`),
			want: []string{
				`disk-block-size-range: ` + disk + `.blockSize.custom.logical: Invalid value: 0: a block size must be a power of two from 512 to 2097152`,
				`disk-block-size-range: ` + disk + `.blockSize.custom.physical: Invalid value: 0: a block size must be a power of two from 512 to 2097152`,
			},
		},
		{
			name: "LUN of an image",
			spec: `{"domain":{"devices":{"disks":[{"name":"a","lun":{"bus":"scsi"}}]}},"volumes":[{"name":"a","containerDisk":{"image":"i"}}]}`,
			want: []string{`disk-lun-source: ` + disk + `.lun: Invalid value: "a": the volume of this name is neither a persistentVolumeClaim nor a dataVolume`},
		},
		{
			name:          "reservation on sata",
			configuration: reservations,
			spec:          oneDisk(`"lun":{"bus":"sata","reservation":true}`),
			want:          []string{`disk-reservation-bus: ` + disk + `.lun.bus: Invalid value: "sata": persistent reservations need the bus scsi`},
		},
		{
			name:          "reservation by the old gate",
			configuration: `{"developerConfiguration":{"featureGates":["PersistentReservation"]}}`,
			spec:          oneDisk(`"lun":{"bus":"scsi","reservation":true}`),
			want:          []string{`disk-reservation-enabled: ` + disk + `.lun.reservation: Invalid value: true: persistent reservations are not enabled in this cluster`},
		},
		{
			name: "metrics on a CD-ROM",
			spec: `{"domain":{"devices":{"disks":[{"name":"m","cdrom":{"bus":"sata"}}]}},"volumes":[{"name":"m","downwardMetrics":{}}]}`,
			want: []string{`disk-downward-metrics: ` + disk + `.disk: Required value: a downwardMetrics volume must be shown as a disk`},
		},
		{
			name: "metrics on sata",
			spec: `{"domain":{"devices":{"disks":[{"name":"m","disk":{"bus":"sata"}}]}},"volumes":[{"name":"m","downwardMetrics":{}}]}`,
			want: []string{`disk-downward-metrics: ` + disk + `.disk.bus: Invalid value: "sata": a downwardMetrics volume must be on the bus virtio`},
		},
		{
			name: "too many, and nothing else is said of them",
			spec: `{"domain":{"devices":{"disks":[` + strings.Repeat(`{"name":"?"},`, 256) + `{"name":"?"}]}}}`,
			want: []string{`disk-count: spec.domain.devices.disks: Invalid value: 257: a VM may have at most 256 disks`},
		},
	})
}

// TestDisksOfATemplate: a VM's disks are found where its author wrote them.
func TestDisksOfATemplate(t *testing.T) {
	s := &Subject{
		Facts: configuredFacts(t, ""), Path: field.NewPath("spec", "template", "spec"),
		Spec: &v1.VirtualMachineInstanceSpec{Domain: v1.DomainSpec{Devices: v1.Devices{Disks: []v1.Disk{{Name: "ghost"}}}}},
	}
	findings := diskRules().Check(s, OnSpec)
	if len(findings) != 1 || findings[0].Error.Field != "spec.template.spec.domain.devices.disks[0].name" {
		t.Errorf("findings: %s", fmt.Sprint(findings))
	}
}
