package launcher

import (
	"crypto/sha1" //nolint:gosec // KubeVirt shortens names with it; it protects nothing
	"encoding/hex"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	v1 "kubevirt.io/api/core/v1"
)

// istioInject is an annotation of the instance, and a label of the pod.
const istioInject = "sidecar.istio.io/inject"

// skippedAnnotations are prefixes of annotations that the pod does not get.
var skippedAnnotations = []string{"kubectl.kubernetes.io", "kubevirt.io/storage-observed-api-version", "kubevirt.io/latest-observed-api-version"}

// annotations of the pod are those of the instance, and KubeVirt's.
func (s *subject) annotations(overhead *Overhead) (map[string]string, error) {
	annotations := make(map[string]string, len(s.VMI.Annotations)+12)
	maps.Copy(annotations, s.VMI.Annotations)
	for name := range s.VMI.Annotations {
		for _, prefix := range skippedAnnotations {
			if strings.HasPrefix(name, prefix) {
				delete(annotations, name)
			}
		}
	}
	if _, ok := s.VMI.Annotations[v1.DomainAnnotation]; !ok {
		annotations[v1.DomainAnnotation] = s.VMI.Name
	}
	annotations["kubectl.kubernetes.io/default-container"] = "compute"
	annotations[v1.MigrationTransportUnixAnnotation] = "true"
	annotations["descheduler.alpha.kubernetes.io/request-evict-only"] = ""
	if err := s.networkAnnotations(annotations); err != nil {
		return nil, err
	}
	s.backupHooks(annotations)
	if s.Facts.GateEnabled("VmiMemoryOverheadReport") {
		annotations[v1.MemoryOverheadAnnotationBytes] = strconv.FormatInt(overhead.Total.Value(), 10)
	}
	return annotations, nil
}

// backupHooks freeze the file systems of the guest for Velero. The instance, or else the KubeVirt resource, can leave them out.
func (s *subject) backupHooks(annotations map[string]string) {
	const skipHooks = "kubevirt.io/skip-backup-hooks"
	text, ok := s.VMI.Annotations[skipHooks]
	if !ok {
		text = s.Facts.Annotations[skipHooks]
	}
	if skip, err := strconv.ParseBool(text); err == nil && skip {
		return
	}
	guest := `", "--name", ` + strconv.Quote(s.VMI.Name) + `, "--namespace", ` + strconv.Quote(s.VMI.Namespace) + `]`
	annotations["pre.hook.backup.velero.io/container"] = "compute"
	annotations["pre.hook.backup.velero.io/command"] = `["/usr/bin/virt-freezer", "--freeze` + guest
	annotations["pre.hook.backup.velero.io/timeout"] = "60s"
	annotations["post.hook.backup.velero.io/container"] = "compute"
	annotations["post.hook.backup.velero.io/command"] = `["/usr/bin/virt-freezer", "--unfreeze` + guest
}

// hostname of the pod, and of the guest.
func (s *subject) hostname() string {
	if s.spec.Hostname != "" {
		return s.spec.Hostname
	}
	name, _, _ := strings.Cut(s.VMI.Name, ".")
	return name[:min(len(name), validation.DNS1123LabelMaxLength)]
}

// instanceID is the name of an instance, shortened to what a label can have.
func instanceID(name string) string {
	const length = 8
	if len(name) <= validation.DNS1035LabelMaxLength {
		return name
	}
	hash := sha1.Sum([]byte(name)) //nolint:gosec // see above
	return name[:validation.DNS1035LabelMaxLength-length-1] + "-" + hex.EncodeToString(hash[:])[:length]
}

// podSpec has the parts that do not depend on others.
func (s *subject) podSpec() corev1.PodSpec {
	noLinks, kill := false, s.gracePeriod()+gracePadding
	automount := false
	spec := corev1.PodSpec{
		Hostname: s.hostname(), Subdomain: s.spec.Subdomain, RestartPolicy: corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: &kill, EnableServiceLinks: &noLinks, AutomountServiceAccountToken: &automount,
		SecurityContext: s.podSecurity(), ImagePullSecrets: s.pullSecrets(),
		DNSConfig: s.spec.DNSConfig, DNSPolicy: s.spec.DNSPolicy,
		ReadinessGates: []corev1.PodReadinessGate{{ConditionType: v1.VirtualMachineUnpaused}},
		SchedulerName:  s.spec.SchedulerName, PriorityClassName: s.spec.PriorityClassName,
		Tolerations: s.spec.Tolerations, TopologySpreadConstraints: s.spec.TopologySpreadConstraints,
		ServiceAccountName: s.spec.ServiceAccountName,
	}
	if class := s.Facts.Configuration.DefaultRuntimeClass; class != "" {
		spec.RuntimeClassName = &class
	}
	for i := range s.spec.Volumes {
		if account := s.spec.Volumes[i].ServiceAccount; account != nil {
			automount = account.ServiceAccountName != ""
			if spec.ServiceAccountName == "" {
				spec.ServiceAccountName = account.ServiceAccountName
			}
			break
		}
	}
	automount = automount || strings.EqualFold(s.VMI.Annotations[istioInject], "true")
	for i := range s.spec.ResourceClaims {
		claim := &s.spec.ResourceClaims[i]
		spec.ResourceClaims = append(spec.ResourceClaims, corev1.PodResourceClaim{
			Name: claim.Name, ResourceClaimName: claim.ResourceClaimName, ResourceClaimTemplateName: claim.ResourceClaimTemplateName,
		})
		if name := claim.ResourceClaimName; name == nil || !s.Cluster.DeviceClaims[*name] {
			s.assume("a node can allocate the devices of the ResourceClaim " + claim.Name + " of spec.resourceClaims")
		}
	}
	return spec
}

// podSecurity is the context of the pod. Volumes are always those of qemu's group.
func (s *subject) podSecurity() *corev1.PodSecurityContext {
	group, user := int64(nonRootUser), int64(0)
	security := &corev1.PodSecurityContext{FSGroup: &group, RunAsUser: &user}
	if s.nonRoot {
		user = nonRootUser
		is := true
		security.RunAsGroup, security.RunAsNonRoot = &user, &is
	}
	seccomp := s.Facts.Configuration.SeccompConfiguration
	if seccomp == nil || seccomp.VirtualMachineInstanceProfile == nil || seccomp.VirtualMachineInstanceProfile.CustomProfile == nil {
		return security
	}
	switch custom := seccomp.VirtualMachineInstanceProfile.CustomProfile; {
	case custom.LocalhostProfile != nil:
		security.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: custom.LocalhostProfile}
	case custom.RuntimeDefaultProfile:
		security.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	return security
}

// selinux sets the type of the cluster, and for Docker the level of all containers but the guest's.
func (s *subject) selinux(spec *corev1.PodSpec) {
	kind := s.Facts.Configuration.SELinuxLauncherType
	if kind != "" {
		spec.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: kind}
	}
	if !s.Facts.GateEnabled("DockerSELinuxMCSWorkaround") {
		return
	}
	for i := range spec.Containers[1:] {
		c := &spec.Containers[1+i]
		if c.SecurityContext == nil {
			c.SecurityContext = &corev1.SecurityContext{}
		}
		c.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: kind, Level: "s0"}
	}
}

// pullSecrets are those of container disks and of the kernel, each once.
func (s *subject) pullSecrets() []corev1.LocalObjectReference {
	var secrets []corev1.LocalObjectReference
	known := map[string]bool{"": true}
	add := func(name string) {
		if !known[name] {
			known[name] = true
			secrets = append(secrets, corev1.LocalObjectReference{Name: name})
		}
	}
	for i := range s.spec.Volumes {
		if disk := s.spec.Volumes[i].ContainerDisk; disk != nil {
			add(disk.ImagePullSecret)
		}
	}
	if kernel := s.kernel(); kernel != nil {
		add(kernel.ImagePullSecret)
	}
	return secrets
}
