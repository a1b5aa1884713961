package launcher

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// Names, users and paths that KubeVirt's images rely on.
const (
	nonRootUser         = 107
	defaultVerbosity    = 2
	debugVerbosity      = 5 // more than that logs all of libvirt
	gracePadding        = 15
	probeDelay          = 10 // seconds until libvirt runs
	defaultTimeout      = "240s"
	defaultVerification = 2000 * mebibyte

	privateDir   = "/var/run/kubevirt-private"
	shareDir     = "/var/run/kubevirt"
	ephemeralDir = "/var/run/kubevirt-ephemeral-disks"
	diskDir      = shareDir + "/container-disks"
	hooksDir     = "/var/run/kubevirt-hooks"
	virtiofsDir  = shareDir + "/virtiofs-containers"

	virtiofsVolume = "virtiofs-containers"
	binaries       = "virt-bin-share-dir"
	containerDisks = "container-disks"
	kernelBoot     = "kernel-boot"
)

// computeContainer is the container in which the guest runs.
func (s *subject) computeContainer(storage *storage, resources corev1.ResourceRequirements, sidecars int) (corev1.Container, error) {
	verbosity, environment, err := s.logging()
	if err != nil {
		return corev1.Container{}, err
	}
	s.verbosity = verbosity
	c := corev1.Container{
		Name: "compute", Image: s.image, ImagePullPolicy: s.pullPolicy(), TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		Command: []string{"/usr/bin/virt-launcher-monitor"}, Args: s.arguments(sidecars), Resources: resources,
		VolumeDevices: storage.devices, VolumeMounts: storage.mounts, Ports: s.ports(),
		SecurityContext: s.security(&corev1.Capabilities{Add: []corev1.Capability{"NET_BIND_SERVICE"}}),
		LivenessProbe:   s.probe(s.spec.LivenessProbe), ReadinessProbe: s.probe(s.spec.ReadinessProbe),
	}
	if s.Facts.GateEnabled(gateCrossArchitecture) {
		c.Command = append(c.Command, "--allow-cross-arch-emulation")
	}
	if s.nonRoot {
		c.SecurityContext.Capabilities.Drop = allCapabilities
		c.Env = append(c.Env, desktopDirectories...)
	} else {
		c.SecurityContext.Capabilities.Add = append(c.SecurityContext.Capabilities.Add, "SYS_NICE")
	}
	if len(storage.shared) > 0 {
		c.Env = append(c.Env, corev1.EnvVar{Name: "SHARED_FILESYSTEM_PATHS", Value: strings.Join(storage.shared, ":")})
	}
	c.Env = append(append(c.Env, environment...), podName)
	return c, nil
}

// Parts that are the same in each container. They are not changed.
var (
	allCapabilities    = []corev1.Capability{"ALL"}
	desktopDirectories = []corev1.EnvVar{
		{Name: "XDG_CACHE_HOME", Value: privateDir}, {Name: "XDG_CONFIG_HOME", Value: privateDir}, {Name: "XDG_RUNTIME_DIR", Value: "/var/run"},
	}
	podName = corev1.EnvVar{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}
)

// gateCrossArchitecture lets nodes emulate other architectures.
const gateCrossArchitecture = "CrossArchitectureVirtualization"

func (s *subject) pullPolicy() corev1.PullPolicy {
	if policy := s.Facts.Configuration.ImagePullPolicy; policy != "" {
		return policy
	}
	return corev1.PullIfNotPresent
}

// security is the context of a container that runs as the user of the launcher.
func (s *subject) security(capabilities *corev1.Capabilities) *corev1.SecurityContext {
	user, isNot := int64(0), s.nonRoot
	c := &corev1.SecurityContext{RunAsUser: &user, RunAsNonRoot: &isNot, Capabilities: capabilities}
	if s.nonRoot {
		user = nonRootUser
		c.RunAsGroup, c.AllowPrivilegeEscalation = &user, new(bool)
	}
	return c
}

// unprivileged is the context of containers that never run as root. Pods share it.
var unprivileged = newUnprivileged()

func newUnprivileged() *corev1.SecurityContext {
	user, isNot := int64(nonRootUser), true
	return &corev1.SecurityContext{
		RunAsUser: &user, RunAsNonRoot: &isNot, AllowPrivilegeEscalation: new(bool), Capabilities: &corev1.Capabilities{Drop: allCapabilities},
	}
}

// argument is an argument of the launcher that a gate adds.
type argument struct{ gate, flag string }

var gatedArguments = []argument{
	{"ImageVolume", "--image-volume"},
	{"PodSecondaryInterfaceNamingUpgrade", "--upgrade-ordinal-ifaces"},
	{"VGPULiveMigration", "--vgpu-dedicated-hook"},
	{"VMStatsCollector", "--vm-stats-collector"},
	{"FirmwareAutoSelection", "--firmware-auto-selection"},
}

// arguments are those of the launcher. They name the hypervisor.
func (s *subject) arguments(sidecars int) []string {
	timeout := s.QEMUTimeout
	if timeout == "" {
		timeout = defaultTimeout
		s.assume("--qemu-timeout has its default; KubeVirt adds up to 119 seconds at random")
	}
	args := make([]string, 0, 32)
	args = append(args,
		"--qemu-timeout", timeout,
		"--name", s.VMI.Name,
		"--uid", string(s.VMI.UID),
		"--namespace", s.VMI.Namespace,
		"--kubevirt-share-dir", shareDir,
		"--ephemeral-disk-dir", ephemeralDir,
		"--container-disk-dir", diskDir,
		"--grace-period-seconds", strconv.FormatInt(s.gracePeriod(), 10),
		"--hook-sidecars", strconv.Itoa(sidecars),
		"--ovmf-path", s.Facts.FirmwarePath(s.spec.Architecture),
		"--disk-memory-limit", strconv.FormatInt(s.diskMemoryLimit(), 10),
		"--hypervisor", s.Facts.Hypervisor.ConfiguredName,
	)
	if s.nonRoot {
		args = append(args, "--run-as-nonroot")
	}
	for _, a := range gatedArguments {
		if s.Facts.GateEnabled(a.gate) {
			args = append(args, a.flag)
		}
	}
	if filters, ok := s.VMI.Annotations[v1.CustomLibvirtLogFiltersAnnotation]; ok {
		args = append(args, "--libvirt-log-filters", filters)
	}
	if emulated(s.Facts) {
		args = append(args, "--allow-emulation")
	}
	if s.keptAfterFailure() {
		args = append(args, "--keep-after-failure")
	}
	if _, ok := s.VMI.Annotations[v1.FuncTestLauncherFailFastAnnotation]; ok {
		args = append(args, "--simulate-crash")
	}
	return args
}

// gracePeriod of the guest, in seconds, with what KubeVirt adds.
func (s *subject) gracePeriod() int64 {
	if seconds := s.spec.TerminationGracePeriodSeconds; seconds != nil {
		return *seconds + gracePadding
	}
	return v1.DefaultGracePeriodSeconds + gracePadding
}

func (s *subject) diskMemoryLimit() int64 {
	if verification := s.Facts.Configuration.DeveloperConfiguration.DiskVerification; verification != nil && verification.MemoryLimit != nil {
		return verification.MemoryLimit.Value()
	}
	return defaultVerification
}

// keptAfterFailure reports whether an annotation keeps the launcher after a failure. Its name can have a suffix.
func (s *subject) keptAfterFailure() bool {
	for name, value := range s.VMI.Annotations {
		if strings.HasPrefix(name, v1.KeepLauncherAfterFailureAnnotation) && (value == "" || strings.HasPrefix(value, "true")) {
			return true
		}
	}
	return false
}

// logging is the verbosity of the launcher, and the environment that sets it. A label of the instance overrides the cluster.
func (s *subject) logging() (uint, []corev1.EnvVar, error) {
	verbosity := s.verbosity
	var environment []corev1.EnvVar
	label, labelled := s.VMI.Labels["logVerbosity"]
	if labelled {
		level, err := strconv.Atoi(label)
		if err != nil {
			return 0, nil, fmt.Errorf("label logVerbosity: %q is not a number", label)
		}
		verbosity = uint(level)
	}
	if labelled || verbosity != defaultVerbosity {
		text := label
		if !labelled {
			text = strconv.FormatUint(uint64(verbosity), 10)
		}
		environment = append(environment, corev1.EnvVar{Name: verbosityVariable, Value: text})
	}
	for _, debug := range []struct{ label, variable string }{{"debugLogs", "LIBVIRT_DEBUG_LOGS"}, {"virtiofsdDebugLogs", "VIRTIOFSD_DEBUG_LOGS"}} {
		if strings.EqualFold(s.VMI.Labels[debug.label], "true") || verbosity > debugVerbosity {
			environment = append(environment, corev1.EnvVar{Name: debug.variable, Value: "1"})
		}
	}
	return verbosity, environment, nil
}

const verbosityVariable = "VIRT_LAUNCHER_LOG_VERBOSITY"

func (s *subject) ports() []corev1.ContainerPort {
	var ports []corev1.ContainerPort
	interfaces := s.spec.Domain.Devices.Interfaces
	for i := range interfaces {
		for _, port := range interfaces[i].Ports {
			protocol := corev1.Protocol(port.Protocol)
			if protocol == "" {
				protocol = corev1.ProtocolTCP
			}
			ports = append(ports, corev1.ContainerPort{Name: port.Name, Protocol: protocol, ContainerPort: port.Port})
		}
	}
	return ports
}

// probe is that of the pod: a command runs in the guest, through virt-probe.
func (s *subject) probe(written *v1.Probe) *corev1.Probe {
	if written == nil {
		return nil
	}
	p := &corev1.Probe{
		InitialDelaySeconds: written.InitialDelaySeconds + probeDelay,
		TimeoutSeconds:      max(1, written.TimeoutSeconds),
		PeriodSeconds:       positive(written.PeriodSeconds, 10),
		SuccessThreshold:    max(1, written.SuccessThreshold),
		FailureThreshold:    positive(written.FailureThreshold, 3),
		ProbeHandler:        corev1.ProbeHandler{Exec: written.Exec, HTTPGet: written.HTTPGet, TCPSocket: written.TCPSocket},
	}
	command := []string{"virt-probe", "--domainName", s.VMI.Namespace + "_" + s.VMI.Name, "--timeoutSeconds", strconv.Itoa(int(p.TimeoutSeconds))}
	switch {
	case written.GuestAgentPing != nil:
		command = append(command, "--guestAgentPing")
	case written.Exec != nil && len(written.Exec.Command) > 0 && written.Exec.Command[0] != "virt-probe":
		command = append(append(command, "--command", written.Exec.Command[0], "--"), written.Exec.Command[1:]...)
	default:
		return p
	}
	p.Exec = &corev1.ExecAction{Command: command}
	p.TimeoutSeconds++
	return p
}

// positive is the value, or a default for what is not positive.
func positive(value, otherwise int32) int32 {
	if value < 1 {
		return otherwise
	}
	return value
}

// initContainers are the console log, which runs as long as the pod, and what prepares container disks.
func (s *subject) initContainers() []corev1.Container {
	disks := s.disks
	containers := make([]corev1.Container, 0, len(disks)+2)
	if s.logsConsole() {
		containers = append(containers, s.consoleLog())
	}
	switch {
	case len(disks) == 0:
	case s.imageVolumes:
		if s.VMI.Annotations[skipDigests] == "true" {
			break
		}
		resources := s.diskResources()
		for i := range disks {
			containers = append(containers, digestContainer(&disks[i], resources))
		}
	default:
		containers = append(containers, s.copyContainer())
		resources := s.diskResources()
		for i := range disks {
			containers = append(containers, s.diskContainer(&disks[i], resources, true))
		}
	}
	return containers
}

// skipDigests is the annotation that leaves out the containers which resolve the digests of images.
const skipDigests = "kubevirt.io/image-volume-skip-digest-resolution"

// logsConsole reports whether the serial console is logged. The cluster disables it with an object, whatever is in it.
func (s *subject) logsConsole() bool {
	d := &s.spec.Domain.Devices
	if d.AutoattachSerialConsole != nil && !*d.AutoattachSerialConsole {
		return false
	}
	if d.LogSerialConsole != nil {
		return *d.LogSerialConsole
	}
	options := s.Facts.Configuration.VirtualMachineOptions
	return options == nil || options.DisableSerialConsoleLog == nil
}

func (s *subject) consoleLog() corev1.Container {
	always := corev1.ContainerRestartPolicyAlways
	return corev1.Container{
		Name: "guest-console-log", Image: s.image, ImagePullPolicy: s.pullPolicy(), RestartPolicy: &always,
		Command: []string{"/usr/bin/virt-tail"}, Args: []string{"--logfile", privateDir + "/" + string(s.VMI.UID) + "/virt-serial0-log"},
		Env:             []corev1.EnvVar{{Name: verbosityVariable, Value: strconv.FormatUint(uint64(s.verbosity), 10)}},
		VolumeMounts:    []corev1.VolumeMount{{Name: "private", MountPath: privateDir, ReadOnly: true}},
		Resources:       s.support(v1.GuestConsoleLog, &consoleDefaults),
		SecurityContext: unprivileged,
	}
}

// containerDisk is an image with a disk, or with a kernel.
type containerDisk struct {
	volume, image string
	pull          corev1.PullPolicy
	// mounted is the name of the disk in the launcher.
	mounted string
}

// containerDisks are the images of the instance. The kernel comes last.
func (s *subject) containerDisks() []containerDisk {
	var disks []containerDisk
	for i := range s.spec.Volumes {
		v := &s.spec.Volumes[i]
		if v.ContainerDisk == nil || !s.imageVolumes && v.Name == kernelBoot+"-volume" {
			continue
		}
		disks = append(disks, containerDisk{v.Name, v.ContainerDisk.Image, v.ContainerDisk.ImagePullPolicy, "disk_" + strconv.Itoa(i)})
	}
	if kernel := s.kernel(); kernel != nil {
		disks = append(disks, containerDisk{kernelBoot + "-volume", kernel.Image, kernel.ImagePullPolicy, kernelBoot})
	}
	return disks
}

// kernel is the image that the guest's kernel is in; nil if there is none.
func (s *subject) kernel() *v1.KernelBootContainer {
	firmware := s.spec.Domain.Firmware
	if firmware == nil || firmware.KernelBoot == nil {
		return nil
	}
	return firmware.KernelBoot.Container
}

// digestContainer pulls an image, so that its status has the digest.
func digestContainer(disk *containerDisk, resources corev1.ResourceRequirements) corev1.Container {
	return corev1.Container{
		Name: "volume" + disk.volume, Image: disk.image, ImagePullPolicy: disk.pull,
		Command: digestCommand, Args: noOperation, Resources: resources, SecurityContext: unprivileged, VolumeMounts: digestMounts,
	}
}

// The volume with the image of the launcher, whose binary runs in the images of container disks.
const (
	launcherVolume = "launcher-volume"
	binaryDir      = "/container-disk-binary"
)

// Parts of the containers that pull images. Pods share them.
var (
	digestCommand = []string{binaryDir + "/usr/bin/container-disk"}
	noOperation   = []string{"--no-op"}
	digestMounts  = []corev1.VolumeMount{{Name: launcherVolume, MountPath: binaryDir, ReadOnly: true}}
)

// copyContainer copies the binary that runs in the containers of container disks.
func (s *subject) copyContainer() corev1.Container {
	c := corev1.Container{
		Name: "container-disk-binary", Image: s.image, ImagePullPolicy: s.pullPolicy(), TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		Command: []string{"/usr/bin/cp"}, Args: []string{"--preserve=all", "/usr/bin/container-disk", "/init/usr/bin/container-disk"},
		VolumeMounts: []corev1.VolumeMount{{Name: binaries, MountPath: "/init/usr/bin"}}, Resources: s.copyResources(),
		SecurityContext: s.security(&corev1.Capabilities{Drop: allCapabilities}),
	}
	if s.nonRoot {
		c.Env = desktopDirectories
	}
	return c
}

// diskContainers serve container disks where images are not mounted as volumes.
func (s *subject) diskContainers() []corev1.Container {
	if s.imageVolumes {
		return nil
	}
	disks := s.disks
	containers := make([]corev1.Container, 0, len(disks))
	resources := s.diskResources()
	for i := range disks {
		containers = append(containers, s.diskContainer(&disks[i], resources, false))
	}
	return containers
}

func (s *subject) diskContainer(disk *containerDisk, resources corev1.ResourceRequirements, before bool) corev1.Container {
	directory := diskDir + "/" + string(s.VMI.UID)
	c := corev1.Container{
		Name: "volume" + disk.volume, Image: disk.image, ImagePullPolicy: disk.pull,
		Command: []string{"/usr/bin/container-disk"}, Args: []string{"--copy-path", directory + "/" + disk.mounted},
		VolumeMounts: []corev1.VolumeMount{{Name: containerDisks, MountPath: directory}, {Name: binaries, MountPath: "/usr/bin"}},
		Resources:    resources, SecurityContext: unprivileged,
	}
	if before {
		c.Name, c.Args = c.Name+"-init", noOperation
	}
	return c
}

// virtiofsContainers serve volumes as file systems.
func (s *subject) virtiofsContainers() []corev1.Container {
	filesystems := s.spec.Domain.Devices.Filesystems
	if len(filesystems) == 0 {
		return nil
	}
	served := make(map[string]bool, len(filesystems))
	for i := range filesystems {
		served[filesystems[i].Name] = true
	}
	var containers []corev1.Container
	for i := range s.spec.Volumes {
		if v := &s.spec.Volumes[i]; served[v.Name] && v.ContainerPath == nil {
			containers = append(containers, s.virtiofsContainer(v))
		}
	}
	return containers
}

func (s *subject) virtiofsContainer(v *v1.Volume) corev1.Container {
	path := sharedPath(v)
	context := newUnprivileged()
	context.RunAsGroup = context.RunAsUser
	c := corev1.Container{
		Name: "virtiofs-" + v.Name, Image: s.image, ImagePullPolicy: s.pullPolicy(), Command: []string{"/usr/libexec/virtiofsd"},
		Args: []string{
			"--socket-path=" + virtiofsDir + "/" + v.Name + ".sock", "--shared-dir=" + path, "--sandbox=none", "--cache=auto",
			"--migration-on-error=guest-error", "--migration-mode=find-paths",
		},
		VolumeMounts: []corev1.VolumeMount{{Name: virtiofsVolume, MountPath: virtiofsDir}},
		Resources:    s.support(v1.VirtioFS, &virtiofsDefaults), SecurityContext: context,
	}
	if v.ServiceAccount != nil { // Kubernetes mounts the token
		c.Args = append(c.Args, "--translate-uid=host:"+strconv.Itoa(nonRootUser)+":0:1")
		return c
	}
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: path})
	return c
}

// sharedPath is where the container of a file system finds its volume.
func sharedPath(v *v1.Volume) string {
	switch {
	case v.ConfigMap != nil:
		return configMapDir + "/" + v.Name
	case v.Secret != nil:
		return secretDir + "/" + v.Name
	case v.ServiceAccount != nil:
		return "/var/run/secrets/kubernetes.io/serviceaccount/"
	case v.DownwardAPI != nil:
		return downwardAPIDir + "/" + v.Name
	}
	return "/" + v.Name
}

// sidecarContainers run the hooks of the author and of network binding plugins.
func (s *subject) sidecarContainers(sidecars []sidecar) []corev1.Container {
	containers := make([]corev1.Container, 0, len(sidecars))
	for i := range sidecars {
		hook := &sidecars[i]
		name := "hook-sidecar-" + strconv.Itoa(i)
		c := corev1.Container{
			Name: name, Image: hook.Image, ImagePullPolicy: hook.ImagePullPolicy, TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			Command: hook.Command, Args: hook.Args, Resources: s.sidecarResources(), SecurityContext: s.security(nil),
			VolumeMounts: []corev1.VolumeMount{{Name: hookVolume, MountPath: hooksDir, SubPath: name}},
		}
		if s.nonRoot {
			c.SecurityContext.Capabilities = &corev1.Capabilities{Drop: allCapabilities}
			c.Env = slices.Clone(desktopDirectories)
		}
		c.Env = append(c.Env, corev1.EnvVar{Name: "CONTAINER_NAME", Value: name})
		if hook.plugin != "" {
			c.Env = append(c.Env, corev1.EnvVar{Name: "NETWORK_BINDING_PLUGIN_NAME", Value: hook.plugin})
		}
		if hook.deviceInfo {
			c.VolumeMounts = append(c.VolumeMounts, networkInfoMount)
		}
		if hook.ConfigMap != nil {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: hook.ConfigMap.Name, MountPath: hook.ConfigMap.HookPath, SubPath: hook.ConfigMap.Key})
		}
		if hook.PVC != nil {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: hook.PVC.Name, MountPath: hook.PVC.VolumePath})
		}
		containers = append(containers, c)
	}
	return containers
}

// bindings are the network binding plugins of the cluster.
func (s *subject) bindings() map[string]v1.InterfaceBindingPlugin {
	return s.Facts.Configuration.NetworkConfiguration.Binding
}

// labels of the pod are those of the instance, and KubeVirt's.
func (s *subject) labels() map[string]string {
	labels := make(map[string]string, len(s.VMI.Labels)+4)
	maps.Copy(labels, s.VMI.Labels)
	labels[v1.AppLabel] = "virt-launcher"
	labels[v1.CreatedByLabel] = string(s.VMI.UID)
	labels[v1.DeprecatedVirtualMachineNameLabel] = s.hostname()
	labels[v1.VirtualMachineInstanceIDLabel] = instanceID(s.VMI.Name)
	if inject, ok := s.VMI.Annotations[istioInject]; ok {
		labels[istioInject] = inject
	}
	return labels
}
