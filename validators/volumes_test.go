package validators

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

func oneVolume(source string) string { return `{"volumes":[{"name":"v",` + source + `}]}` }

// shownVolume is a spec with a filesystem for its volume.
func shownVolume(source string) string {
	return `{"domain":{"devices":{"filesystems":[{"name":"v","virtiofs":{}}]}},"volumes":[{"name":"v",` + source + `}]}`
}

func gatesOn(names ...string) string {
	return `{"developerConfiguration":{"featureGates":["` + strings.Join(names, `","`) + `"]}}`
}

func TestVolumes(t *testing.T) {
	const volume = "spec.volumes[0]"
	onSpec := slices.DeleteFunc(volumeRules(), func(r Rule) bool { return r.Scope&OnSpec == 0 })
	runCases(t, onSpec, OnSpec, []ruleCase{
		{name: "none", spec: `{}`},
		{name: "claim", spec: oneVolume(`"persistentVolumeClaim":{"claimName":""}`)},
		{name: "names", spec: `{"volumes":[{"name":"a","dataVolume":{"name":"d"}},{"name":"b","configMap":{"name":"c"}},{"name":"c","secret":{"secretName":"s"}},{"name":"d","serviceAccount":{"serviceAccountName":"s"}}]}`},
		{name: "path in an image", spec: oneVolume(`"containerDisk":{"image":"i","path":"/disk/"}`)},
		{name: "host disk", configuration: gatesOn("HostDisk"), spec: oneVolume(`"hostDisk":{"path":"/d","type":"DiskOrCreate","capacity":"1Gi"}`)},
		{name: "metrics", configuration: gatesOn("DownwardMetrics"), spec: oneVolume(`"downwardMetrics":{}`)},
		{name: "container path", configuration: gatesOn("ContainerPathVolumes"), spec: shownVolume(`"containerPath":{"path":"/var/run/secrets/token"}`)},
		{name: "filesystem of a ConfigMap", spec: shownVolume(`"configMap":{"name":"c"}`)},
		{name: "filesystem without a volume", spec: `{"domain":{"devices":{"filesystems":[{"name":"ghost","virtiofs":{}}]}}}`},
		{name: "filesystem of a claim", configuration: gatesOn("EnableVirtioFsStorageVolumes"), spec: shownVolume(`"dataVolume":{"name":"d"}`)},
		{name: "empty utility volumes", spec: `{"utilityVolumes":[]}`},
		{name: "ServiceAccount", spec: `{"serviceAccountName":"my.sa","volumes":[{"name":"v","serviceAccount":{"serviceAccountName":"my.sa"}}]}`},
		{
			name: "name taken",
			spec: `{"volumes":[{"name":"v","emptyDisk":{}},{"name":"v","emptyDisk":{}}]}`,
			want: []string{`volume-names-unique: spec.volumes[1].name: Invalid value: "v": volumes[0] already has this name`},
		},
		{
			name: "no source",
			spec: `{"volumes":[{"name":"v"}]}`,
			want: []string{`volume-one-source: ` + volume + `: Invalid value: "v": the volume has no source, such as persistentVolumeClaim or containerDisk`},
		},
		{
			name: "three sources",
			spec: oneVolume(`"containerDisk":{"image":"i"},"emptyDisk":{},"configMap":{"name":"c"}`),
			want: []string{`volume-one-source: ` + volume + `: Invalid value: "v": the volume has 3 sources (containerDisk, emptyDisk, configMap)`},
		},
		{
			name: "nothing is named",
			spec: `{"volumes":[{"name":"a","dataVolume":{"name":""}},{"name":"b","configMap":{}},{"name":"c","secret":{}},{"name":"d","serviceAccount":{}}]}`,
			want: []string{
				`volume-data-volume-name: spec.volumes[0].dataVolume.name: Required value: the volume must name its DataVolume`,
				`volume-config-map-name: spec.volumes[1].configMap.name: Invalid value: "": the volume must name its ConfigMap`,
				`volume-secret-name: spec.volumes[2].secret.secretName: Invalid value: "": the volume must name its Secret`,
				`volume-service-account-name: spec.volumes[3].serviceAccount.serviceAccountName: Invalid value: "": the volume must name its ServiceAccount`,
			},
		},
		{
			name:          "two of what there may be one of",
			configuration: gatesOn("DownwardMetrics"),
			spec: `{"volumes":[{"name":"a","serviceAccount":{"serviceAccountName":"s"}},{"name":"b","serviceAccount":{"serviceAccountName":"s"}},` +
				`{"name":"c","downwardMetrics":{}},{"name":"d","downwardMetrics":{}},` +
				`{"name":"e","memoryDump":{"claimName":"x"}},{"name":"f","memoryDump":{"claimName":"y"}}]}`,
			want: []string{
				`volume-one-downward-metrics: spec.volumes: Invalid value: "c, d": 2 volumes have the source downwardMetrics`,
				`volume-one-memory-dump: spec.volumes: Invalid value: "e, f": 2 volumes have the source memoryDump`,
				`volume-one-service-account: spec.volumes: Invalid value: "a, b": 2 volumes have the source serviceAccount`,
			},
		},
		{
			name: "metrics without the gate",
			spec: oneVolume(`"downwardMetrics":{}`),
			want: []string{`volume-downward-metrics-gate: ` + volume + `: Invalid value: "v": downwardMetrics needs KubeVirt's feature gate DownwardMetrics, which is off in this cluster`},
		},
		{
			name: "root of an image",
			spec: oneVolume(`"containerDisk":{"image":"i","path":"/"}`),
			want: []string{`volume-container-disk-path: ` + volume + `.containerDisk: Invalid value: "/": path must be that of a file, not the root directory`},
		},
		{
			name: "out of an image",
			spec: oneVolume(`"containerDisk":{"image":"i","path":"/disk/../../etc/passwd"}`),
			want: []string{`volume-container-disk-path: ` + volume + `.containerDisk: Invalid value: "/disk/../../etc/passwd": path must be absolute, without '.', '..' and doubled slashes`},
		},
		{
			name: "host disk, everything wrong",
			spec: oneVolume(`"hostDisk":{"path":"","type":"x","capacity":"1Gi"}`),
			want: []string{
				`volume-host-disk-gate: ` + volume + `: Invalid value: "v": hostDisk needs KubeVirt's feature gate HostDisk, which is off in this cluster`,
				`volume-host-disk-path: ` + volume + `.hostDisk.path: Not found: "": the volume has no path on the node`,
				`volume-host-disk-type: ` + volume + `.hostDisk.type: Invalid value: "x": the type is unknown: supported values: "Disk", "DiskOrCreate"`,
			},
		},
		{
			name:          "capacity of a host disk that exists",
			configuration: gatesOn("HostDisk"),
			spec:          oneVolume(`"hostDisk":{"path":"/d","type":"Disk","capacity":"1Gi"}`),
			want:          []string{`volume-host-disk-capacity: ` + volume + `.hostDisk.capacity: Invalid value: "1Gi": a disk of the type Disk already exists`},
		},
		{
			name: "container path without the gate and a filesystem, in a reserved place",
			spec: oneVolume(`"containerPath":{"path":"/var/run/x/../kubevirt-private"}`),
			want: []string{
				`volume-container-path-device: ` + volume + `: Invalid value: "v": a containerPath volume needs a filesystem with its name`,
				`volume-container-path-gate: ` + volume + `: Invalid value: "v": containerPath needs KubeVirt's feature gate ContainerPathVolumes, which is off in this cluster`,
				`volume-container-path-reserved: ` + volume + `.containerPath.path: Invalid value: "/var/run/x/../kubevirt-private": /var/run/kubevirt is reserved for KubeVirt`,
			},
		},
		{
			name:          "container path as a disk",
			configuration: gatesOn("ContainerPathVolumes"),
			spec:          `{"domain":{"devices":{"disks":[{"name":"v"}],"filesystems":[{"name":"v","virtiofs":{}}]}},"volumes":[{"name":"v","containerPath":{"path":"/x"}}]}`,
			want:          []string{`volume-container-path-device: ` + volume + `: Invalid value: "v": a containerPath volume is attached as a filesystem, never as a disk`},
		},
		{
			name: "filesystem of a claim without the gate",
			spec: shownVolume(`"persistentVolumeClaim":{"claimName":"c"}`),
			want: []string{`filesystem-storage-gate: spec.domain.devices.filesystems: Invalid value: "v": a filesystem on a persistentVolumeClaim or dataVolume needs KubeVirt's feature gate EnableVirtioFsStorageVolumes, which is off in this cluster`},
		},
		{
			name: "utility volumes from the start",
			spec: `{"utilityVolumes":[{"name":"u","claimName":"c"}]}`,
			want: []string{`utility-volumes-later: spec.utilityVolumes: Invalid value: 1: a VM cannot start with utility volumes`},
		},
		{
			name: "name of no ServiceAccount",
			spec: `{"serviceAccountName":"My"}`,
			want: []string{`service-account-name: spec.serviceAccountName: Invalid value: "My": no ServiceAccount can have this name`},
		},
		{
			name: "two ServiceAccounts",
			spec: `{"serviceAccountName":"mine","volumes":[{"name":"v","serviceAccount":{"serviceAccountName":"other"}}]}`,
			want: []string{`service-account-volume: spec.serviceAccountName: Invalid value: "mine": volumes[0] names the ServiceAccount "other"`},
		},
		{
			name: "too many, and nothing else is said of them",
			spec: `{"volumes":[` + strings.Repeat(`{"name":"?"},`, 256) + `{"name":"?"}]}`,
			want: []string{`volume-count: spec.volumes: Invalid value: 257: a VM may have at most 256 volumes`},
		},
	})
}

func TestVolumeIsShown(t *testing.T) {
	s := &Subject{Path: field.NewPath("spec"), Spec: &v1.VirtualMachineInstanceSpec{
		Domain: v1.DomainSpec{Devices: v1.Devices{
			Disks:       []v1.Disk{{Name: "disk"}},
			Filesystems: []v1.Filesystem{{Name: "filesystem"}},
		}},
		Volumes: []v1.Volume{
			{Name: "disk"},
			{Name: "filesystem"},
			{Name: "dump", VolumeSource: v1.VolumeSource{MemoryDump: &v1.MemoryDumpVolumeSource{}}},
			{Name: "forgotten"},
		},
	}}
	const want = `spec.volumes[3].name: Invalid value: "forgotten": there is neither a disk nor a filesystem with this name`
	if errs := all(func(found *Errors) { volumeIsShown(s, found) }); len(errs) != 1 || errs[0].Error() != want {
		t.Errorf("got %v, want %s", errs, want)
	}
}
