package imports

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/ovf/servers"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources"
)

// importerLabel and importerValue are the label of the pods of CDI that read sources.
const importerLabel, importerValue = "cdi.kubevirt.io", "importer"

// The keys of a Secret with the token, and of the authorities. CDI reads the certificate of an authority from a key of the name of that of
// a server.
const (
	keyAuthorities = "authorities.pem"
	keyHeader      = "header"
)

// The places in the pod: of credentials, and of a claim with a file system or as a device.
const (
	folderCredentials = "/import/credentials" //nolint:gosec // the name of a folder
	folderVolume      = "/import/volume"
	deviceVolume      = "/import/device"
)

// The keys of a Secret with credentials, as CDI has them.
const (
	keyUser     = "accessKeyId"
	keyPassword = "secretKey"
)

// Origin is the file or the artifact that an import reads.
type Origin struct {
	// URL is that of a file; empty for an artifact, and for a file of a claim.
	URL       string
	Size      int64
	Validator string
	// Repository is that of an artifact, Digest what its reference names, and Signer who signed it; empty if no signature is required.
	Repository, Digest, Signer string
	// File is the name of an OVA that is a layer of the artifact, and Blob the digest of the layer; empty for others.
	File, Blob string
	// Authorities are certificates in PEM; empty for those of the system.
	Authorities []byte
	// Sources are the places that may be connected to.
	Sources *sources.Sources
}

// owner refers to an import.
func owner(of *v1beta1.VirtualMachineTemplateImport) *metav1.OwnerReference {
	return metav1.NewControllerRef(of, v1beta1.GroupVersion.WithKind(apikinds.VirtualMachineTemplateImport))
}

// Pod is a pod of an import: it serves the disks or the archive, or copies the archive. The claim is that of the source, or that of the
// copy, which only the pod that copies writes; nil for another source.
func Pod(of *v1beta1.VirtualMachineTemplateImport, p *servers.Program, suffix string, claim *corev1.PersistentVolumeClaim) *corev1.Pod {
	pod := Servers.Pod(of, owner(of), p, suffix)
	writes := IsStager(suffix)
	if secret, _ := References(of); secret != "" && (claim == nil || writes) {
		servers.MountSecret(pod, "credentials", secret, folderCredentials, keyUser, keyPassword)
	}
	if claim == nil {
		return pod
	}
	servers.RunAsDisks(pod)
	const name = "source"
	container := &pod.Spec.Containers[0]
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{ // read-only, so the kubelet does not change the owners of its files
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name, ReadOnly: !writes},
	}})
	if servers.IsBlock(claim) {
		container.VolumeDevices = append(container.VolumeDevices, corev1.VolumeDevice{Name: name, DevicePath: deviceVolume})
	} else {
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: folderVolume, ReadOnly: !writes})
	}
	return pod
}

// volumeOf is where the claim of an import is in its pod; nil for another source.
func volumeOf(of *v1beta1.VirtualMachineTemplateImport, claim *corev1.PersistentVolumeClaim) *transfer.Volume {
	switch {
	case claim == nil:
		return nil
	case servers.IsBlock(claim):
		return &transfer.Volume{Device: deviceVolume}
	}
	v := &transfer.Volume{Folder: folderVolume}
	if pvc := of.Spec.Source.PVC; pvc != nil {
		v.File = pvc.Path
	}
	return v
}

// Copy is the DataVolume for the copy of the file of an import: CDI creates an empty disk in it.
func Copy(of *v1beta1.VirtualMachineTemplateImport) *cdiv1beta1.DataVolume {
	dv := volume(of, Servers.Owned(of, CopyName(of), owner(of)), of.Spec.Staging.Size.Value(), &cdiv1beta1.DataVolumeSource{Blank: &cdiv1beta1.DataVolumeBlankImage{}})
	mode := corev1.PersistentVolumeFilesystem
	dv.Spec.Storage.VolumeMode = &mode
	dv.Spec.Storage.AccessModes = nil
	return dv
}

// StagerPlan is what the pod copies that writes the copy.
func StagerPlan(of *v1beta1.VirtualMachineTemplateImport, from *Origin, claim *corev1.PersistentVolumeClaim) (*transfer.Plan, error) {
	plan := &transfer.Plan{Serving: Servers.Serving(), Volume: volumeOf(of, claim), Stage: &transfer.Stage{
		URL: from.URL, Compression: of.Status.Staging.Compression, MaxBytes: of.Spec.Staging.Size.Value(),
	}}
	if from.Blob != "" {
		plan.Stage.Blob, plan.Stage.Size = from.Repository+"@"+from.Blob, from.Size
	}
	connect(plan, of, from)
	return plan, valid(plan)
}

// ReaderPlan is what the pod of an import from a claim serves before its disks are known: the archive.
func ReaderPlan(of *v1beta1.VirtualMachineTemplateImport, claim *corev1.PersistentVolumeClaim) *transfer.Plan {
	return &transfer.Plan{Serving: Servers.Serving(), Volume: volumeOf(of, claim)}
}

// References are the Secret with the credentials, and the ConfigMap with the authorities; empty for none.
func References(of *v1beta1.VirtualMachineTemplateImport) (secret, authorities string) {
	switch s := &of.Spec.Source; {
	case s.OCI != nil:
		return s.OCI.SecretRef, s.OCI.CertConfigMap
	case s.HTTP != nil:
		return s.HTTP.SecretRef, s.HTTP.CertConfigMap
	}
	return "", ""
}

// PlanOf is what the pod of an import serves: the disks in their order. The claim is that of Pod.
func PlanOf(of *v1beta1.VirtualMachineTemplateImport, from *Origin, disks []Disk, claim *corev1.PersistentVolumeClaim) (*transfer.Plan, error) {
	plan := &transfer.Plan{Serving: Servers.Serving(), Volume: volumeOf(of, claim)}
	layered := from.Repository != "" && from.Blob == ""
	switch {
	case from.Blob != "":
		plan.Files = []transfer.File{{Blob: from.Repository + "@" + from.Blob, Size: from.Size}}
	case !layered:
		plan.Files = []transfer.File{{URL: from.URL, Volume: claim != nil, Size: from.Size, Validator: from.Validator}}
	}
	if claim == nil {
		connect(plan, of, from)
	}
	for i := range disks {
		f := &disks[i].File
		served := transfer.Disk{Name: f.Href, Compression: f.Compression, Format: f.Format, MaxContent: f.MaxContent, Padded: disks[i].Padded}
		read := readDigests(of, i, len(f.Parts))
		for j, p := range f.Parts {
			part := transfer.Part{Offset: p.Offset, Size: p.Size, Digest: p.Digest}
			switch {
			case layered:
				part.File = len(plan.Files)
				plan.Files = append(plan.Files, transfer.File{Blob: from.Repository + "@" + p.Digest, Size: p.Size})
			case read != nil:
				part.Digest = read[j]
			case of.Spec.Verify == v1beta1.ImportVerifySkip:
				part.Digest = ""
			}
			served.Parts = append(served.Parts, part)
		}
		plan.Disks = append(plan.Disks, served)
	}
	return plan, valid(plan)
}

// connect adds how the places of a plan are connected to.
func connect(plan *transfer.Plan, of *v1beta1.VirtualMachineTemplateImport, from *Origin) {
	if from.Sources != nil {
		plan.Sources = transfer.Sources{Hosts: from.Sources.Hosts, Values: from.Sources.Values}
		for _, n := range from.Sources.Networks {
			plan.Sources.Networks = append(plan.Sources.Networks, n.String())
		}
	}
	if len(from.Authorities) > 0 {
		plan.AuthoritiesFile = Servers.Folder + "/" + keyAuthorities
	}
	if secret, _ := References(of); secret != "" {
		plan.Credentials = &transfer.Credentials{UserFile: folderCredentials + "/" + keyUser, PasswordFile: folderCredentials + "/" + keyPassword}
	}
}

// valid returns why a plan cannot be served, as a *Fault.
func valid(plan *transfer.Plan) error {
	if found := plan.Validate(); len(found) > 0 {
		return fault(v1beta1.ReasonNotImportable, "the disks cannot be served: %s", found.ToAggregate()) //nolint:forbidigo // a text
	}
	return nil
}

// readDigests are the digests of the files of a disk that were computed when the whole appliance was read; nil if it was not.
func readDigests(of *v1beta1.VirtualMachineTemplateImport, disk, parts int) []string {
	if disk >= len(of.Status.Disks) || len(of.Status.Disks[disk].Digests) != parts {
		return nil
	}
	return of.Status.Disks[disk].Digests
}

// component is the label of the pods of the controller.
var component = (&processes.Process{Name: processes.TemplateImports}).Component()

// Objects are those of a pod, in the order of their creation. CDI's importers of the namespace connect to the pod. To that of a claim, also
// the controller does, in the namespace of Virtward, and the pod itself connects to nothing, unless it copies a file.
func Objects(pod *corev1.Pod, plan *transfer.Plan, authorities []byte, m *servers.Material, virtward string) ([]servers.Object, error) {
	data, err := json.Marshal(plan)
	if err != nil {
		return nil, fmt.Errorf("encoding the plan: %w", err)
	}
	serving := Servers.Secret(pod, data, m)
	if len(authorities) > 0 {
		serving.Data[keyAuthorities] = authorities
	}
	immutable := true
	authority := &corev1.ConfigMap{
		ObjectMeta: Servers.OfPod(pod, Servers.Name(m.Suffix)), Immutable: &immutable, Data: map[string]string{servers.KeyCertificate: string(m.Certificate)},
	}
	peers := []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{importerLabel: importerValue}}}}
	if plan.Volume != nil {
		peers = append(peers, servers.PeerOf(virtward, component))
	}
	policy := Servers.Policy(pod, m.Suffix, peers...)
	if plan.Volume != nil && plan.Stage == nil {
		policy.Spec.PolicyTypes = append(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	}
	return []servers.Object{
		serving, Servers.Token(pod, m, keyHeader, transfer.TokenHeader+": "+m.Token), authority, policy, Servers.Service(pod, m.Suffix),
	}, nil
}

// StatusURL is where a pod says how far it is.
func StatusURL(namespace, suffix string) string {
	return fmt.Sprintf("https://%s:%d%s", Servers.Host(namespace, suffix), servers.Port, transfer.PathStatus)
}

// ArchiveURL is where the pod of a claim serves its archive.
func ArchiveURL(namespace, suffix string) string {
	return fmt.Sprintf("https://%s:%d%s", Servers.Host(namespace, suffix), servers.Port, transfer.PathArchive)
}

// DataVolume is that of a disk, which CDI imports from the pod with the end of a name.
func DataVolume(of *v1beta1.VirtualMachineTemplateImport, index int, disk *v1beta1.ImportDisk, suffix string) *cdiv1beta1.DataVolume {
	return volume(of, Servers.Owned(of, disk.Name, owner(of)), disk.Size, &cdiv1beta1.DataVolumeSource{HTTP: &cdiv1beta1.DataVolumeSourceHTTP{
		URL:                fmt.Sprintf("https://%s:%d/disks/%d", Servers.Host(of.Namespace, suffix), servers.Port, index),
		SecretExtraHeaders: []string{Servers.TokenName(suffix)}, CertConfigMap: Servers.Name(suffix),
	}})
}

// Upload is the DataVolume of a disk that a user uploads.
func Upload(of *v1beta1.VirtualMachineTemplateImport, disk *Disk, labels map[string]string) *cdiv1beta1.DataVolume {
	meta := metav1.ObjectMeta{Namespace: of.Namespace, Name: disk.Name, Labels: labels}
	return volume(of, meta, disk.Size, &cdiv1beta1.DataVolumeSource{Upload: &cdiv1beta1.DataVolumeSourceUpload{}})
}

// volume is a DataVolume with the storage of an import.
func volume(of *v1beta1.VirtualMachineTemplateImport, meta metav1.ObjectMeta, size int64, source *cdiv1beta1.DataVolumeSource) *cdiv1beta1.DataVolume {
	dv := &cdiv1beta1.DataVolume{ObjectMeta: meta}
	dv.Annotations = servers.VolumeAnnotations()
	dv.Spec.Source = source
	dv.Spec.ContentType = cdiv1beta1.DataVolumeKubeVirt
	dv.Spec.Storage = &cdiv1beta1.StorageSpec{Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceStorage: *resource.NewQuantity(ovf.VolumeSize(size), resource.BinarySI),
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
	if dv.Spec.Source == nil || dv.Spec.Source.HTTP == nil || len(dv.Spec.Source.HTTP.CertConfigMap) <= len(Servers.Prefix) {
		return ""
	}
	return dv.Spec.Source.HTTP.CertConfigMap[len(Servers.Prefix):]
}

// TemplateOf is the template of an import as it is created.
func TemplateOf(of *v1beta1.VirtualMachineTemplateImport, outcome *Outcome) *v1beta1.VirtualMachineTemplate {
	return &v1beta1.VirtualMachineTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: TemplateName(of), Labels: Servers.Labels(of.UID), Annotations: map[string]string{v1beta1.AnnotationImport: of.Name}},
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
