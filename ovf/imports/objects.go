package imports

import (
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources"
)

// Annotations of DataVolumes that CDI reads: the import begins without a consumer, and the DataVolume is kept afterwards.
const (
	bindImmediately = "cdi.kubevirt.io/storage.bind.immediate.requested"
	deleteCompleted = "cdi.kubevirt.io/storage.deleteAfterCompletion"
)

// importerLabel and importerValue are the label of the pods of CDI that read sources.
const importerLabel, importerValue = "cdi.kubevirt.io", "importer"

// Port is the port of the pod and of its Service.
const Port = 8443

// The keys of the Secret of a pod, of its Secret with the token, and of its ConfigMap. CDI reads the certificate of an authority from
// a key of this name.
const (
	keyPlan        = "plan.json"
	keyCertificate = "tls.crt"
	keyPrivate     = "tls.key"
	keyAuthorities = "authorities.pem"
	keyToken       = "token"
	keyHeader      = "header"
)

// The folders of the pod.
const (
	folderServing     = "/import/serving"
	folderCredentials = "/import/credentials" //nolint:gosec // the name of a folder
)

// The keys of a Secret with credentials, as CDI has them.
const (
	keyUser     = "accessKeyId"
	keyPassword = "secretKey"
)

// Server is what a pod needs beside the import.
type Server struct {
	// Image is that of virtward-import-server.
	Image string
	// PullPolicy is that of the image.
	PullPolicy corev1.PullPolicy
	// User runs the program; 0 for the user of the image.
	User int64
	// Resources are those of the container.
	Resources corev1.ResourceRequirements
}

// Material is what only the pod and CDI have.
type Material struct {
	// Suffix is the end of the names of the objects.
	Suffix string
	// Certificate and Key are in PEM. The certificate signs itself, and is for Host.
	Certificate, Key []byte
	Token            string
}

// Origin is the file that an import reads.
type Origin struct {
	URL       string
	Size      int64
	Validator string
	// Authorities are certificates in PEM; empty for those of the system.
	Authorities []byte
	// Sources are the places that may be connected to.
	Sources *sources.Sources
}

// labels are those of the objects of an import.
func labels(of *v1beta1.VirtualMachineTemplateImport) map[string]string {
	return map[string]string{v1beta1.LabelImportUID: string(of.UID)}
}

// owned is the metadata of an object that belongs to an import.
func owned(of *v1beta1.VirtualMachineTemplateImport, name string) metav1.ObjectMeta {
	owner := metav1.NewControllerRef(of, v1beta1.GroupVersion.WithKind(apikinds.VirtualMachineTemplateImport))
	owner.BlockOwnerDeletion = nil
	return metav1.ObjectMeta{Namespace: of.Namespace, Name: name, Labels: labels(of), OwnerReferences: []metav1.OwnerReference{*owner}}
}

// ofPod is the metadata of an object that belongs to a pod, so it is deleted with it.
func ofPod(pod *corev1.Pod, name string) metav1.ObjectMeta {
	owner := metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))
	owner.BlockOwnerDeletion = nil
	label := map[string]string{v1beta1.LabelImportUID: pod.Labels[v1beta1.LabelImportUID]}
	return metav1.ObjectMeta{Namespace: pod.Namespace, Name: name, Labels: label, OwnerReferences: []metav1.OwnerReference{*owner}}
}

// Pod is the pod that serves the disks of an import. It has no account, and starts when its Secret exists.
func Pod(of *v1beta1.VirtualMachineTemplateImport, s *Server, suffix string) *corev1.Pod {
	no, yes := false, true
	pod := &corev1.Pod{ObjectMeta: owned(of, PodName(of))}
	pod.Annotations = map[string]string{AnnotationServer: suffix, "sidecar.istio.io/inject": "false"}
	pod.Spec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyOnFailure, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{
			Name: "server", Image: s.Image, ImagePullPolicy: s.PullPolicy,
			Args:      []string{"--plan=" + folderServing + "/" + keyPlan, "--address=:" + strconv.Itoa(Port)},
			Ports:     []corev1.ContainerPort{{Name: "https", ContainerPort: Port, Protocol: corev1.ProtocolTCP}},
			Resources: s.Resources,
			Env:       []corev1.EnvVar{{Name: "MEMORY_LIMIT", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: "server", Resource: "limits.memory"}}}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("https")}}, PeriodSeconds: 2},
		}},
	}
	if s.User > 0 {
		pod.Spec.SecurityContext.RunAsUser = &s.User
	}
	mount := func(name, secret, folder string, keys ...string) {
		source := &corev1.SecretVolumeSource{SecretName: secret}
		for _, key := range keys {
			source.Items = append(source.Items, corev1.KeyToPath{Key: key, Path: key})
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: source}})
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: name, MountPath: folder, ReadOnly: true})
	}
	mount("serving", ServerName(suffix), folderServing)
	if http := of.Spec.Source.HTTP; http != nil && http.SecretRef != "" {
		mount("credentials", http.SecretRef, folderCredentials, keyUser, keyPassword)
	}
	return pod
}

// PlanOf is what the pod of an import serves: the disks in their order.
func PlanOf(of *v1beta1.VirtualMachineTemplateImport, from *Origin, disks []Disk) (*transfer.Plan, error) {
	plan := &transfer.Plan{
		Files:   []transfer.File{{URL: from.URL, Size: from.Size, Validator: from.Validator}},
		Serving: transfer.Serving{CertificateFile: folderServing + "/" + keyCertificate, KeyFile: folderServing + "/" + keyPrivate, TokenFile: folderServing + "/" + keyToken},
	}
	if from.Sources != nil {
		plan.Sources = transfer.Sources{Hosts: from.Sources.Hosts, Values: from.Sources.Values}
		for _, n := range from.Sources.Networks {
			plan.Sources.Networks = append(plan.Sources.Networks, n.String())
		}
	}
	if len(from.Authorities) > 0 {
		plan.AuthoritiesFile = folderServing + "/" + keyAuthorities
	}
	if of.Spec.Source.HTTP.SecretRef != "" {
		plan.Credentials = &transfer.Credentials{UserFile: folderCredentials + "/" + keyUser, PasswordFile: folderCredentials + "/" + keyPassword}
	}
	for i := range disks {
		f := &disks[i].File
		served := transfer.Disk{Name: f.Href, Compression: f.Compression, Format: f.Format, MaxContent: f.MaxContent}
		for _, p := range f.Parts {
			part := transfer.Part{Offset: p.Offset, Size: p.Size, Digest: p.Digest}
			if of.Spec.Verify == v1beta1.ImportVerifySkip {
				part.Digest = ""
			}
			served.Parts = append(served.Parts, part)
		}
		plan.Disks = append(plan.Disks, served)
	}
	if found := plan.Validate(); len(found) > 0 {
		return nil, fault(v1beta1.ReasonNotImportable, "the disks cannot be served: %s", found.ToAggregate()) //nolint:forbidigo // a text
	}
	return plan, nil
}

// Object is an object of Kubernetes.
type Object interface {
	metav1.Object
	runtime.Object
}

// Objects are those of a pod, in the order of their creation. The Service is the last one: a pod without its Service is not complete.
func Objects(pod *corev1.Pod, plan *transfer.Plan, from *Origin, m *Material) ([]Object, error) {
	data, err := json.Marshal(plan)
	if err != nil {
		return nil, fmt.Errorf("encoding the plan: %w", err)
	}
	immutable := true
	serving := &corev1.Secret{
		ObjectMeta: ofPod(pod, ServerName(m.Suffix)), Immutable: &immutable,
		Data: map[string][]byte{keyPlan: data, keyCertificate: m.Certificate, keyPrivate: m.Key, keyToken: []byte(m.Token)},
	}
	if len(from.Authorities) > 0 {
		serving.Data[keyAuthorities] = from.Authorities
	}
	token := &corev1.Secret{
		ObjectMeta: ofPod(pod, TokenName(m.Suffix)), Immutable: &immutable,
		Data: map[string][]byte{keyHeader: []byte(transfer.TokenHeader + ": " + m.Token)},
	}
	authority := &corev1.ConfigMap{ObjectMeta: ofPod(pod, ServerName(m.Suffix)), Immutable: &immutable, Data: map[string]string{keyCertificate: string(m.Certificate)}}
	selector := map[string]string{v1beta1.LabelImportUID: pod.Labels[v1beta1.LabelImportUID]}
	port := intstr.FromString("https")
	tcp := corev1.ProtocolTCP
	policy := &networkingv1.NetworkPolicy{ObjectMeta: ofPod(pod, ServerName(m.Suffix)), Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: selector}, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{
			Ports: []networkingv1.NetworkPolicyPort{{Port: &port, Protocol: &tcp}},
			From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{importerLabel: importerValue}}}},
		}},
	}}
	service := &corev1.Service{ObjectMeta: ofPod(pod, ServerName(m.Suffix)), Spec: corev1.ServiceSpec{
		Selector: selector, Ports: []corev1.ServicePort{{Name: "https", Port: Port, TargetPort: port, Protocol: tcp}},
	}}
	return []Object{serving, token, authority, policy, service}, nil
}

// DataVolume is that of a disk, which CDI imports from the pod with the end of a name.
func DataVolume(of *v1beta1.VirtualMachineTemplateImport, index int, disk *v1beta1.ImportDisk, suffix string) *cdiv1beta1.DataVolume {
	dv := &cdiv1beta1.DataVolume{ObjectMeta: owned(of, disk.Name)}
	dv.Annotations = map[string]string{bindImmediately: "true", deleteCompleted: "false"}
	dv.Spec.Source = &cdiv1beta1.DataVolumeSource{HTTP: &cdiv1beta1.DataVolumeSourceHTTP{
		URL:                fmt.Sprintf("https://%s:%d/disks/%d", Host(of.Namespace, suffix), Port, index),
		SecretExtraHeaders: []string{TokenName(suffix)}, CertConfigMap: ServerName(suffix),
	}}
	dv.Spec.ContentType = cdiv1beta1.DataVolumeKubeVirt
	dv.Spec.Storage = &cdiv1beta1.StorageSpec{Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceStorage: *resource.NewQuantity(VolumeSize(disk.Size), resource.BinarySI),
	}}}
	if s := of.Spec.Storage; s != nil {
		if s.Class != "" {
			dv.Spec.Storage.StorageClassName = &s.Class
		}
		if s.AccessMode != "" {
			dv.Spec.Storage.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.PersistentVolumeAccessMode(s.AccessMode)}
		}
	}
	return dv
}

// ServedBy is the end of the name of the pod that a DataVolume is imported from; empty for a DataVolume with another source.
func ServedBy(dv *cdiv1beta1.DataVolume) string {
	if dv.Spec.Source == nil || dv.Spec.Source.HTTP == nil || len(dv.Spec.Source.HTTP.CertConfigMap) <= len(Prefix) {
		return ""
	}
	return dv.Spec.Source.HTTP.CertConfigMap[len(Prefix):]
}

// mebibyte is the unit of the sizes of volumes.
const mebibyte = 1 << 20

// VolumeSize is the size of the volume of a disk: whole mebibytes, as storage classes have them.
func VolumeSize(size int64) int64 { return max(1, (size+mebibyte-1)/mebibyte) * mebibyte }

// TemplateOf is the template of an import as it is created.
func TemplateOf(of *v1beta1.VirtualMachineTemplateImport, outcome *Outcome) *v1beta1.VirtualMachineTemplate {
	return &v1beta1.VirtualMachineTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: TemplateName(of), Labels: labels(of)},
		Spec:       outcome.Template.Spec,
	}
}

// StatusDisks are the disks of an outcome for the status.
func StatusDisks(disks []Disk) []v1beta1.ImportDisk {
	var list []v1beta1.ImportDisk
	for i := range disks {
		list = append(list, v1beta1.ImportDisk{Name: disks[i].Name, File: shortened(disks[i].File.Href), Size: disks[i].Size})
	}
	return list
}
