// Package servers makes the pods of virtward-import-server and of virtward-export-server, with the objects of each.
//
// Input: what belongs to the request of a user, and keys. Output: objects. All objects of a pod have a name with a random end and belong to
// the pod, so a pod that replaces another one has other objects, and the objects end with their pod. The package is pure.
package servers

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/virtward/virtward/ovf/transfer"
)

// Port is the port of each pod and of its Service.
const Port = 8443

// The keys of the Secret of a pod.
const (
	KeyPlan        = "plan.json"
	KeyCertificate = "tls.crt"
	KeyPrivate     = "tls.key"
	KeyToken       = "token"
)

// hashLength is that of the hash at the end of the name of a pod: 40 bits.
const hashLength = 10

// Program is what a pod needs beside its request.
type Program struct {
	// Image is that of the program.
	Image string
	// PullPolicy is that of the image.
	PullPolicy corev1.PullPolicy
	// User runs the program; 0 for the user of the image.
	User int64
	// Resources are those of the container.
	Resources corev1.ResourceRequirements
}

// Material is what only the pod and its clients have.
type Material struct {
	// Suffix is the end of the names of the objects.
	Suffix string
	// Certificate and Key are in PEM. The certificate signs itself, and is for the Host of a kind.
	Certificate, Key []byte
	Token            string
}

// Object is an object of Kubernetes.
type Object interface {
	metav1.Object
	runtime.Object
}

// Kind is a kind of pods.
type Kind struct {
	// Prefix is that of the names of pods and of their objects. A guard denies to execute commands in pods with this prefix.
	Prefix string
	// Label has the UID of the request.
	Label string
	// Annotation of a pod is the end of the names of its objects.
	Annotation string
	// Folder is that of the Secret in the pod.
	Folder string
}

// PodName is the name of the pod of a request. It depends on the UID, so that another request with the same name has another pod.
func (k *Kind) PodName(uid types.UID) string {
	sum := sha256.Sum256([]byte(uid))
	return k.Prefix + hex.EncodeToString(sum[:])[:hashLength]
}

// Name is that of the objects of a pod: its Secret, its ConfigMap, its Service and its NetworkPolicy.
func (k *Kind) Name(suffix string) string { return k.Prefix + suffix }

// TokenName is the name of the Secret with the token of a pod, for its clients.
func (k *Kind) TokenName(suffix string) string { return k.Prefix + suffix + "-token" }

// Host is the name by which clients reach a pod.
func (k *Kind) Host(namespace, suffix string) string {
	return k.Name(suffix) + "." + namespace + ".svc"
}

// Suffix is the end of the names of the objects of a pod.
func (k *Kind) Suffix(pod *corev1.Pod) string { return pod.Annotations[k.Annotation] }

// Owned is the metadata of an object that belongs to a request.
func (k *Kind) Owned(of metav1.Object, name string, owner *metav1.OwnerReference) metav1.ObjectMeta {
	owner.BlockOwnerDeletion = nil
	return metav1.ObjectMeta{Namespace: of.GetNamespace(), Name: name, Labels: k.Labels(of.GetUID()), OwnerReferences: []metav1.OwnerReference{*owner}}
}

// Labels are those of the objects of a request.
func (k *Kind) Labels(uid types.UID) map[string]string {
	return map[string]string{k.Label: string(uid)}
}

// OfPod is the metadata of an object that belongs to a pod, so it is deleted with it.
func (k *Kind) OfPod(pod *corev1.Pod, name string) metav1.ObjectMeta {
	owner := metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))
	return k.Owned(&metav1.ObjectMeta{Namespace: pod.Namespace, UID: types.UID(pod.Labels[k.Label])}, name, owner)
}

// Pod is a pod that serves. It has no account, and starts when its Secret exists.
func (k *Kind) Pod(of metav1.Object, owner *metav1.OwnerReference, p *Program, suffix string) *corev1.Pod {
	no, yes := false, true
	pod := &corev1.Pod{ObjectMeta: k.Owned(of, k.PodName(of.GetUID()), owner)}
	pod.Annotations = map[string]string{k.Annotation: suffix, "sidecar.istio.io/inject": "false"}
	pod.Spec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyOnFailure, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{
			Name: "server", Image: p.Image, ImagePullPolicy: p.PullPolicy,
			Args:      []string{"--plan=" + k.Folder + "/" + KeyPlan, "--address=:" + strconv.Itoa(Port)},
			Ports:     []corev1.ContainerPort{{Name: "https", ContainerPort: Port, Protocol: corev1.ProtocolTCP}},
			Resources: p.Resources,
			Env:       []corev1.EnvVar{{Name: "MEMORY_LIMIT", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: "server", Resource: "limits.memory"}}}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("https")}}, PeriodSeconds: 2},
		}},
	}
	if p.User > 0 {
		pod.Spec.SecurityContext.RunAsUser = &p.User
	}
	MountSecret(pod, "serving", k.Name(suffix), k.Folder)
	return pod
}

// group is the user and the group of the files and devices of volumes: CDI and QEMU have it.
const group = 107

// RunAsDisks makes a pod run with the group of the files of volumes, and with their user unless it has another one.
func RunAsDisks(pod *corev1.Pod) {
	user, of := int64(group), int64(group)
	pod.Spec.SecurityContext.RunAsGroup = &of
	if pod.Spec.SecurityContext.RunAsUser == nil {
		pod.Spec.SecurityContext.RunAsUser = &user
	}
}

// IsBlock reports whether a claim is a block device.
func IsBlock(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == corev1.PersistentVolumeBlock
}

// VolumeAnnotations are those of a DataVolume for CDI: it begins without a consumer, takes no claim that exists, and keeps the DataVolume
// afterwards.
func VolumeAnnotations() map[string]string {
	return map[string]string{
		"cdi.kubevirt.io/storage.bind.immediate.requested": "true", "cdi.kubevirt.io/allowClaimAdoption": "false", "cdi.kubevirt.io/storage.deleteAfterCompletion": "false",
	}
}

// PeerOf are the pods of a process of Virtward in its namespace.
func PeerOf(namespace, component string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
		PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/component": component}},
	}
}

// MountSecret mounts a Secret, or some of its keys.
func MountSecret(pod *corev1.Pod, name, secret, folder string, keys ...string) {
	source := &corev1.SecretVolumeSource{SecretName: secret}
	for _, key := range keys {
		source.Items = append(source.Items, corev1.KeyToPath{Key: key, Path: key})
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: source}})
	pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: name, MountPath: folder, ReadOnly: true})
}

// Serving names the files of the Secret of a pod for its plan.
func (k *Kind) Serving() transfer.Serving {
	return transfer.Serving{CertificateFile: k.Folder + "/" + KeyCertificate, KeyFile: k.Folder + "/" + KeyPrivate, TokenFile: k.Folder + "/" + KeyToken}
}

// Secret is that of a pod.
func (k *Kind) Secret(pod *corev1.Pod, plan []byte, m *Material) *corev1.Secret {
	immutable := true
	return &corev1.Secret{
		ObjectMeta: k.OfPod(pod, k.Name(m.Suffix)), Immutable: &immutable,
		Data: map[string][]byte{KeyPlan: plan, KeyCertificate: m.Certificate, KeyPrivate: m.Key, KeyToken: []byte(m.Token)},
	}
}

// Token is the Secret for the clients of a pod, with one key.
func (k *Kind) Token(pod *corev1.Pod, m *Material, key, text string) *corev1.Secret {
	immutable := true
	return &corev1.Secret{ObjectMeta: k.OfPod(pod, k.TokenName(m.Suffix)), Immutable: &immutable, Data: map[string][]byte{key: []byte(text)}}
}

// selector selects the pod.
func (k *Kind) selector(pod *corev1.Pod) map[string]string {
	return map[string]string{k.Label: pod.Labels[k.Label]}
}

// Policy is the NetworkPolicy of a pod: only some others connect to it.
func (k *Kind) Policy(pod *corev1.Pod, suffix string, from ...networkingv1.NetworkPolicyPeer) *networkingv1.NetworkPolicy {
	port, tcp := intstr.FromString("https"), corev1.ProtocolTCP
	return &networkingv1.NetworkPolicy{ObjectMeta: k.OfPod(pod, k.Name(suffix)), Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: k.selector(pod)}, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: &port, Protocol: &tcp}}, From: from}},
	}}
}

// Service is that of a pod. It is created after all other objects: a pod without its Service is not complete.
func (k *Kind) Service(pod *corev1.Pod, suffix string) *corev1.Service {
	return &corev1.Service{ObjectMeta: k.OfPod(pod, k.Name(suffix)), Spec: corev1.ServiceSpec{
		Selector: k.selector(pod), Ports: []corev1.ServicePort{{Name: "https", Port: Port, TargetPort: intstr.FromString("https"), Protocol: corev1.ProtocolTCP}},
	}}
}

// Leads reports whether a Service leads to its pod only, as it was created.
func (k *Kind) Leads(service *corev1.Service, pod *corev1.Pod) bool {
	got, want := &service.Spec, &k.Service(pod, "").Spec
	return (got.Type == "" || got.Type == corev1.ServiceTypeClusterIP) && got.ExternalName == "" && maps.Equal(got.Selector, want.Selector) &&
		slices.EqualFunc(got.Ports, want.Ports, func(a, b corev1.ServicePort) bool { return a.Port == b.Port && a.TargetPort == b.TargetPort })
}
