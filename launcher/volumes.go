package launcher

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/claims"
)

// Paths of volumes in the launcher.
const (
	configMapDir   = privateDir + "/config-map"
	secretDir      = privateDir + "/secret"
	downwardAPIDir = privateDir + "/downwardapi"
	sysprepDir     = privateDir + "/sysprep"
	claimDir       = privateDir + "/vmi-disks"
	metricsDir     = privateDir + "/downwardmetric-disk"
	imageDir       = "/var/run/kubevirt-image-volume"
	kernelDir      = "/var/run/kubevirt-kernel-boot"

	hookVolume  = "hook-sidecar-sockets"
	stateVolume = "vm-state"
	networkInfo = "network-info-annotation"
)

// Parts of pods that are always the same. They are copied, not changed.
var (
	metricsSize      = resource.MustParse("1Mi")
	networkInfoMount = corev1.VolumeMount{Name: networkInfo, MountPath: "/etc/podinfo"}
)

// storage are the volumes of the pod, and how the compute container uses them.
type storage struct {
	volumes []corev1.Volume
	mounts  []corev1.VolumeMount
	devices []corev1.VolumeDevice
	// shared are paths of file systems that several nodes can mount.
	shared []string
	// reserved are the identities of claims that LUNs have persistent reservations on.
	reserved []string
}

func (st *storage) add(name string, source corev1.VolumeSource) {
	st.volumes = append(st.volumes, corev1.Volume{Name: name, VolumeSource: source})
}

func (st *storage) emptyDir(name string) {
	st.add(name, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
}

func (st *storage) mount(name, at string) {
	st.mounts = append(st.mounts, corev1.VolumeMount{Name: name, MountPath: at})
}

func (st *storage) mountReadOnly(name, at string) {
	st.mounts = append(st.mounts, corev1.VolumeMount{Name: name, MountPath: at, ReadOnly: true})
}

func (st *storage) mountPart(name, at, part string, readOnly bool) {
	st.mounts = append(st.mounts, corev1.VolumeMount{Name: name, MountPath: at, SubPath: part, ReadOnly: readOnly})
}

// volumes are all of the pod.
func (s *subject) volumes(sidecars []sidecar) (*storage, error) {
	st := &storage{volumes: make([]corev1.Volume, 0, len(s.spec.Volumes)+10), mounts: make([]corev1.VolumeMount, 0, len(s.spec.Volumes)+10)}
	s.launcherVolumes(st)
	s.configurationVolumes(st)
	if err := s.diskVolumes(st); err != nil {
		return nil, err
	}
	s.credentialVolumes(st)
	if err := s.stateVolumes(st); err != nil {
		return nil, err
	}
	if s.imageVolumes {
		s.addImageVolumes(st)
	}
	s.optionalVolumes(st, sidecars)
	if err := s.sidecarVolumes(st, sidecars); err != nil {
		return nil, err
	}
	return st, s.reservations(st)
}

// launcherVolumes are those of every launcher.
func (s *subject) launcherVolumes(st *storage) {
	for _, name := range [...]string{"private", "public", "sockets", binaries, "libvirt-runtime", "ephemeral-disks"} {
		st.emptyDir(name)
	}
	st.mount("private", privateDir)
	st.mount("public", shareDir)
	st.mount("ephemeral-disks", ephemeralDir)
	st.mount("libvirt-runtime", "/var/run/libvirt")
	st.mount("sockets", shareDir+"/sockets")
	if !s.imageVolumes {
		st.emptyDir(containerDisks)
		st.mounts = append(st.mounts, propagated(containerDisks, diskDir))
	}
}

func propagated(name, at string) corev1.VolumeMount {
	fromHost := corev1.MountPropagationHostToContainer
	return corev1.VolumeMount{Name: name, MountPath: at, MountPropagation: &fromHost}
}

// configurationVolumes are secrets, config maps and fields of the pod. Only those with a disk are mounted here.
func (s *subject) configurationVolumes(st *storage) {
	mounted := map[string]string{}
	for i := range s.spec.Volumes {
		v := &s.spec.Volumes[i]
		delete(mounted, v.Name) // of two volumes with one name, KubeVirt mounts the last
		if v.Secret != nil {
			st.add(v.Name, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: v.Secret.SecretName, Optional: v.Secret.Optional}})
			mounted[v.Name] = secretDir
		}
		if v.ConfigMap != nil {
			st.add(v.Name, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: v.ConfigMap.LocalObjectReference, Optional: v.ConfigMap.Optional}})
			mounted[v.Name] = configMapDir
		}
		if v.DownwardAPI != nil {
			st.add(v.Name, corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: v.DownwardAPI.Fields}})
			mounted[v.Name] = downwardAPIDir
		}
	}
	disks := s.spec.Domain.Devices.Disks
	for i := range disks {
		if directory, ok := mounted[disks[i].Name]; ok {
			st.mountReadOnly(disks[i].Name, directory+"/"+disks[i].Name)
		}
	}
}

// diskVolumes are those behind disks. Volumes that are attached to the running guest are in another pod.
func (s *subject) diskVolumes(st *storage) error {
	for i := range s.spec.Volumes {
		v := &s.spec.Volumes[i]
		if s.hotplugged(v) {
			continue
		}
		if err := s.claimVolume(st, v); err != nil {
			return err
		}
		if v.HostDisk != nil {
			st.hostDisk(v)
		}
		if v.DownwardMetrics != nil {
			size := metricsSize
			st.add(v.Name, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &size}})
			st.mount(v.Name, metricsDir)
		}
		if c := v.CloudInitNoCloud; c != nil {
			st.cloudInit(v.Name, c.UserDataSecretRef, c.NetworkDataSecretRef)
		}
		if v.Sysprep != nil {
			if err := st.sysprep(v); err != nil {
				return err
			}
		}
		if c := v.CloudInitConfigDrive; c != nil {
			st.cloudInit(v.Name, c.UserDataSecretRef, c.NetworkDataSecretRef)
		}
	}
	return nil
}

func (s *subject) hotplugged(v *v1.Volume) bool {
	if v.DataVolume != nil && v.DataVolume.Hotpluggable || v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.Hotpluggable {
		return true
	}
	for i := range s.VMI.Status.VolumeStatus {
		if status := &s.VMI.Status.VolumeStatus[i]; status.HotplugVolume != nil && status.Name == v.Name {
			return true
		}
	}
	return false
}

// claimVolume is a volume with a claim of the author, of a DataVolume, or below an overlay.
func (s *subject) claimVolume(st *storage, v *v1.Volume) error {
	var source corev1.PersistentVolumeClaimVolumeSource
	switch {
	case v.PersistentVolumeClaim != nil:
		source = v.PersistentVolumeClaim.PersistentVolumeClaimVolumeSource
	case v.Ephemeral != nil:
		if v.Ephemeral.PersistentVolumeClaim == nil {
			return fmt.Errorf("volume %s: ephemeral without a claim", v.Name)
		}
		source = *v.Ephemeral.PersistentVolumeClaim
	case v.DataVolume != nil:
		source.ClaimName = v.DataVolume.Name
	default:
		return nil
	}
	claim, err := s.claim(source.ClaimName)
	if err != nil {
		return err
	}
	if claim.Block {
		st.devices = append(st.devices, corev1.VolumeDevice{Name: v.Name, DevicePath: path.Join("/dev", v.Name)})
	} else {
		at := path.Join(claimDir, v.Name)
		st.mount(v.Name, at)
		if claim.Shared {
			st.shared = append(st.shared, at)
		}
	}
	st.add(v.Name, corev1.VolumeSource{PersistentVolumeClaim: &source})
	return nil
}

// claim is a claim of the namespace. If claims are not known, the status of the instance says what KubeVirt found, and the
// rest is assumed.
func (s *subject) claim(name string) (Claim, error) {
	if s.Cluster.Claims != nil {
		claim, ok := s.Cluster.Claims[name]
		if !ok {
			return claim, fmt.Errorf("there is no PersistentVolumeClaim %s", name)
		}
		return claim, nil
	}
	for i := range s.VMI.Status.VolumeStatus {
		if info := s.VMI.Status.VolumeStatus[i].PersistentVolumeClaimInfo; info != nil && info.ClaimName == name {
			return Claim{
				Block:  info.VolumeMode != nil && *info.VolumeMode == corev1.PersistentVolumeBlock,
				Shared: slices.Contains(info.AccessModes, corev1.ReadWriteMany),
			}, nil
		}
	}
	s.assume("the PersistentVolumeClaim " + name + " exists, with a file system that one node mounts")
	return Claim{}, nil
}

func (st *storage) hostDisk(v *v1.Volume) {
	var kind corev1.HostPathType
	switch v.HostDisk.Type {
	case v1.HostDiskExists:
		kind = corev1.HostPathDirectory
	case v1.HostDiskExistsOrCreate:
		kind = corev1.HostPathDirectoryOrCreate
	}
	st.mount(v.Name, path.Join(claimDir, v.Name))
	st.add(v.Name, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path.Dir(v.HostDisk.Path), Type: &kind}})
}

// cloudInit mounts the secrets with user data and network data. Both spellings of their keys are read.
func (st *storage) cloudInit(volume string, user, network *corev1.LocalObjectReference) {
	for _, data := range []struct {
		secret *corev1.LocalObjectReference
		suffix string
		keys   [2]string
	}{{user, "-udata", [2]string{"userdata", "userData"}}, {network, "-ndata", [2]string{"networkdata", "networkData"}}} {
		if data.secret == nil {
			continue
		}
		name := volume + data.suffix
		st.add(name, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: data.secret.Name}})
		for _, key := range data.keys {
			st.mountPart(name, secretDir+"/"+volume+"/"+key, key, true)
		}
	}
}

func (st *storage) sysprep(v *v1.Volume) error {
	switch {
	case v.Sysprep.Secret != nil:
		st.add(v.Name, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: v.Sysprep.Secret.Name}})
	case v.Sysprep.ConfigMap != nil:
		st.add(v.Name, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: v.Sysprep.ConfigMap.Name}}})
	default:
		return fmt.Errorf("volume %s: sysprep needs a secret or a config map", v.Name)
	}
	st.mountReadOnly(v.Name, sysprepDir+"/"+v.Name)
	return nil
}

// credentialVolumes are the secrets with SSH keys and passwords.
func (s *subject) credentialVolumes(st *storage) {
	for i := range s.spec.AccessCredentials {
		c := &s.spec.AccessCredentials[i]
		secret := ""
		switch {
		case c.SSHPublicKey != nil && c.SSHPublicKey.Source.Secret != nil:
			secret = c.SSHPublicKey.Source.Secret.SecretName
		case c.UserPassword != nil && c.UserPassword.Source.Secret != nil:
			secret = c.UserPassword.Source.Secret.SecretName
		}
		if secret == "" {
			continue
		}
		name := secret + "-access-cred"
		st.add(name, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}})
		st.mountReadOnly(name, secretDir+"/"+name)
	}
}

// stateVolumes mount the claim with the state of the TPM, the firmware and changed blocks.
func (s *subject) stateVolumes(st *storage) error {
	tpm := s.spec.Domain.Devices.TPM
	hasState := hasTPM(s.VMI) && tpm.Persistent != nil && *tpm.Persistent
	blocks := s.VMI.Status.ChangedBlockTracking
	tracked := blocks != nil && (blocks.State == v1.ChangedBlockTrackingEnabled || blocks.State == v1.ChangedBlockTrackingInitializing)
	if !hasState && !s.persistentEFI() && !tracked {
		return nil
	}
	claim := "persistent-state-for-" + s.VMI.Name
	if s.Cluster.StateClaim != nil {
		if claim = *s.Cluster.StateClaim; claim == "" {
			return fmt.Errorf("there is no PersistentVolumeClaim for the persistent state yet")
		}
	} else {
		s.assume("KubeVirt's claim for the persistent state has a random suffix")
	}
	st.add(stateVolume, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}})
	st.mountPart(stateVolume, "/run/kubevirt-private/backend-storage-meta", "meta", false)
	libvirt, local := "/var/lib/libvirt", "/var/lib/swtpm-localca"
	swtpm := libvirt + "/swtpm"
	if s.nonRoot {
		libvirt, local = privateDir+"/libvirt", privateDir+local
		swtpm = libvirt + "/qemu/swtpm"
		st.emptyDir("private-libvirt")
		st.emptyDir("private-libvirt-qemu")
		st.mount("private-libvirt", libvirt)
		st.mount("private-libvirt-qemu", libvirt+"/qemu")
	}
	if hasState {
		st.mountPart(stateVolume, swtpm, "swtpm", false)
		st.mountPart(stateVolume, local, "swtpm-localca", false)
	}
	if s.persistentEFI() {
		st.mountPart(stateVolume, libvirt+"/qemu/nvram", "nvram", false)
	}
	if tracked {
		st.mountPart(stateVolume, libvirt+"/qemu/cbt", "cbt", false)
	}
	return nil
}

func (s *subject) persistentEFI() bool {
	firmware := s.spec.Domain.Firmware
	if firmware == nil || firmware.Bootloader == nil || firmware.Bootloader.EFI == nil {
		return false
	}
	persistent := firmware.Bootloader.EFI.Persistent
	return persistent != nil && *persistent
}

// addImageVolumes mounts the images of container disks.
func (s *subject) addImageVolumes(st *storage) {
	disks := s.disks
	for i := range disks {
		disk := &disks[i]
		st.add(disk.volume, corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: disk.image, PullPolicy: disk.pull}})
		at := imageDir + "/" + disk.mounted
		if disk.mounted == kernelBoot {
			at = kernelDir
		}
		st.mountReadOnly(disk.volume, at)
	}
	if len(disks) > 0 && s.VMI.Annotations[skipDigests] != "true" {
		st.add(launcherVolume, corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: s.image, PullPolicy: s.pullPolicy()}})
	}
}

// optionalVolumes are those of hooks, plugins, huge pages, hotplug, network information and file systems.
func (s *subject) optionalVolumes(st *storage, sidecars []sidecar) {
	if len(sidecars) > 0 {
		st.emptyDir(hookVolume)
		st.mount(hookVolume, hooksDir)
	}
	if s.Facts.GateEnabled("Plugins") {
		st.emptyDir("kubevirt-plugin-sockets")
		st.mount("kubevirt-plugin-sockets", "/var/run/kubevirt-plugin")
	}
	if memory := s.spec.Domain.Memory; memory != nil && memory.Hugepages != nil {
		for _, v := range [...][2]string{{"hugepages", "/dev/hugepages"}, {"hugetblfs-dir", "/dev/hugepages/libvirt/qemu"}} {
			st.add(v[0], corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumHugePages}})
			st.mount(v[0], v[1])
		}
	}
	if !s.spec.Domain.Devices.DisableHotplug {
		st.mounts = append(st.mounts, propagated("hotplug-disks", shareDir+"/hotplug-disks/"))
		st.emptyDir("hotplug-disks")
	}
	if s.readsNetworkInfo() {
		st.mounts = append(st.mounts, networkInfoMount)
		st.add(networkInfo, corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "network-info", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['kubevirt.io/network-info']"}},
		}}})
	}
	if slices.ContainsFunc(s.spec.Domain.Devices.Filesystems, func(f v1.Filesystem) bool { return f.Virtiofs != nil }) {
		st.mount(virtiofsVolume, virtiofsDir)
		st.emptyDir(virtiofsVolume)
	}
}

// readsNetworkInfo reports whether the launcher reads the addresses of devices of networks.
func (s *subject) readsNetworkInfo() bool {
	bindings := s.bindings()
	return slices.ContainsFunc(s.spec.Domain.Devices.Interfaces, func(i v1.Interface) bool {
		return i.SRIOV != nil || i.Binding != nil && bindings[i.Binding.Name].DownwardAPI == v1.DeviceInfo
	})
}

// sidecar is a container that hooks into the making of the domain.
type sidecar struct {
	Image           string            `json:"image"`
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy"`
	Command         []string          `json:"command"`
	Args            []string          `json:"args"`
	ConfigMap       *struct {
		Name     string `json:"name"`
		Key      string `json:"key"`
		HookPath string `json:"hookPath"`
	} `json:"configMap"`
	PVC *struct {
		Name              string `json:"name"`
		VolumePath        string `json:"volumePath"`
		SharedComputePath string `json:"sharedComputePath"`
	} `json:"pvc"`

	plugin     string
	deviceInfo bool
}

// hooksAnnotation has the list of hooks of the author.
const hooksAnnotation = "hooks.kubevirt.io/hookSidecars"

// sidecars are the hooks of the author, and those of network binding plugins.
func (s *subject) sidecars() ([]sidecar, error) {
	var sidecars []sidecar
	if text, ok := s.VMI.Annotations[hooksAnnotation]; ok {
		if err := json.Unmarshal([]byte(text), &sidecars); err != nil {
			return nil, fmt.Errorf("annotation %s: %w", hooksAnnotation, err)
		}
		if len(sidecars) > MaxDevices {
			return nil, fmt.Errorf("%w: %d hooks, at most %d", ErrTooLarge, len(sidecars), MaxDevices)
		}
	}
	for _, name := range pluginNames(s.spec) {
		plugin, ok := s.bindings()[name]
		if !ok {
			return nil, fmt.Errorf("the network binding plugin %q is not registered in the KubeVirt resource", name)
		}
		if plugin.SidecarImage != "" {
			sidecars = append(sidecars, sidecar{
				Image: plugin.SidecarImage, ImagePullPolicy: s.pullPolicy(), plugin: name, deviceInfo: plugin.DownwardAPI == v1.DeviceInfo,
			})
		}
	}
	return sidecars, nil
}

// sidecarVolumes are the scripts and claims of hooks.
func (s *subject) sidecarVolumes(st *storage, sidecars []sidecar) error {
	for i := range sidecars {
		if script := sidecars[i].ConfigMap; script != nil {
			if s.Cluster.ConfigMaps != nil && !slices.Contains(s.Cluster.ConfigMaps, script.Name) {
				return fmt.Errorf("hook %s: there is no ConfigMap %s", strconv.Itoa(i), script.Name)
			}
			mode := int32(0o755)
			st.add(script.Name, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: script.Name}, DefaultMode: &mode}})
		}
		if claim := sidecars[i].PVC; claim != nil {
			st.add(claim.Name, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}})
			if claim.SharedComputePath != "" {
				st.mount(claim.Name, claim.SharedComputePath)
			}
		}
	}
	return nil
}

// reservations finds the claims on which LUNs have persistent reservations.
func (s *subject) reservations(st *storage) error {
	disks := s.spec.Domain.Devices.Disks
	for i := range disks {
		if lun := disks[i].LUN; lun == nil || !lun.Reservation {
			continue
		}
		for j := range s.spec.Volumes {
			v := &s.spec.Volumes[j]
			name := claims.OfVolume(v)
			if v.Name != disks[i].Name || name == "" || s.Cluster.Claims != nil && !s.hasClaim(name) {
				continue
			}
			claim, err := s.claim(name)
			if err != nil {
				return err
			}
			if !slices.Contains(st.reserved, claim.UID) {
				st.reserved = append(st.reserved, claim.UID)
			}
		}
	}
	return nil
}

func (s *subject) hasClaim(name string) bool {
	_, ok := s.Cluster.Claims[name]
	return ok
}
