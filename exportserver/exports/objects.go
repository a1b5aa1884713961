package exports

import (
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/exportserver"
	"github.com/virtward/virtward/ovf/servers"
)

// Servers are the pods that serve OVAs.
var Servers = servers.Kind{
	Prefix: "virtward-ova-", Label: v1beta1.LabelExportUID, Annotation: "template.virtward.io/export-server", Folder: "/export/serving",
}

// AnnotationStatusToken of a pod has the token for its status. Who reads pods can read it, as the status of the export.
const AnnotationStatusToken = "template.virtward.io/export-status-token" //nolint:gosec // the name of an annotation

// KeyToken is the key of the Secret with the token for downloads.
const KeyToken = "token"

// The folders of the pod: of mounted volumes, and of block devices.
const (
	folderDisks   = "/export/disks/"
	folderDevices = "/export/devices/"
	diskImage     = "/disk.img"
)

// owner refers to an export.
func owner(of *v1beta1.VirtualMachineTemplateExport) *metav1.OwnerReference {
	return metav1.NewControllerRef(of, v1beta1.GroupVersion.WithKind(apikinds.VirtualMachineTemplateExport))
}

// CloneName is the name of the DataVolume of a volume. It depends on the UID, so that another export with the same name has other clones.
func CloneName(of *v1beta1.VirtualMachineTemplateExport, index int) string {
	return Servers.PodName(of.UID) + "-" + strconv.Itoa(index)
}

// Clone is the DataVolume that clones the source of a disk.
func Clone(of *v1beta1.VirtualMachineTemplateExport, disk *v1beta1.ExportDisk) *cdiv1beta1.DataVolume {
	dv := &cdiv1beta1.DataVolume{ObjectMeta: Servers.Owned(of, disk.Name, owner(of))}
	dv.Annotations = servers.VolumeAnnotations()
	dv.Spec.Source = &cdiv1beta1.DataVolumeSource{}
	if from := disk.Source; from.Kind == apikinds.PersistentVolumeClaim {
		dv.Spec.Source.PVC = &cdiv1beta1.DataVolumeSourcePVC{Namespace: from.Namespace, Name: from.Name}
	} else {
		dv.Spec.Source.Snapshot = &cdiv1beta1.DataVolumeSourceSnapshot{Namespace: from.Namespace, Name: from.Name}
	}
	dv.Spec.ContentType = cdiv1beta1.DataVolumeKubeVirt
	dv.Spec.Storage = &cdiv1beta1.StorageSpec{} // CDI finds the size
	if class := of.Spec.StorageClass; class != "" {
		dv.Spec.Storage.StorageClassName = &class
	}
	return dv
}

// Pod is the pod that serves the OVA of an export. The claims are those of its disks, in their order.
func Pod(of *v1beta1.VirtualMachineTemplateExport, p *servers.Program, suffix, statusToken string, claims []*corev1.PersistentVolumeClaim) *corev1.Pod {
	pod := Servers.Pod(of, owner(of), p, suffix)
	pod.Annotations[AnnotationStatusToken] = statusToken
	servers.RunAsDisks(pod)
	pod.Spec.SecurityContext.FSGroup = pod.Spec.SecurityContext.RunAsGroup
	container := &pod.Spec.Containers[0]
	for i, claim := range claims {
		name := "disk-" + strconv.Itoa(i)
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}})
		if servers.IsBlock(claim) {
			container.VolumeDevices = append(container.VolumeDevices, corev1.VolumeDevice{Name: name, DevicePath: folderDevices + strconv.Itoa(i)})
		} else {
			container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: folderDisks + strconv.Itoa(i), ReadOnly: true})
		}
	}
	return pod
}

// PlanOf is what the pod of an export serves.
func PlanOf(of *v1beta1.VirtualMachineTemplateExport, template *v1beta1.VirtualMachineTemplate, statusToken string, claims []*corev1.PersistentVolumeClaim) (*exportserver.Plan, error) {
	plan := &exportserver.Plan{Template: served(template), Format: of.Spec.Format, KeepUserData: of.Spec.KeepUserData, Serving: Servers.Serving(), StatusToken: statusToken}
	for i, claim := range claims {
		at := folderDisks + strconv.Itoa(i) + diskImage
		if servers.IsBlock(claim) {
			at = folderDevices + strconv.Itoa(i)
		}
		plan.Disks = append(plan.Disks, exportserver.Disk{Volume: of.Status.Disks[i].Volume, Path: at})
	}
	if found := plan.Validate(); len(found) > 0 {
		return nil, fault(v1beta1.ReasonNotExportable, "the template cannot be served: %s", found.ToAggregate()) //nolint:forbidigo // a text
	}
	return plan, nil
}

// Outside says how clients outside of the cluster reach exports. The zero value is for none.
type Outside struct {
	// Domain is that of the hosts of Ingresses; empty for no Ingress.
	Domain string
	// Class is the class of the Ingresses; empty for the default one.
	Class string
	// Annotations are those of the Ingresses.
	Annotations map[string]string
	// Namespaces are those of the ingress controllers, which connect to the pods.
	Namespaces []string
	// Authority has the certificates in PEM that verify the ingress controllers; empty for those of the systems of clients.
	Authority string
}

// Host is the name of an export for clients outside of the cluster.
func (o *Outside) Host(suffix string) string { return suffix + "." + o.Domain }

// Objects are those of a pod, in the order of their creation. Pods of the namespace, Virtward's controller, in its own namespace, and ingress
// controllers connect to the pod.
func Objects(pod *corev1.Pod, plan *exportserver.Plan, m *servers.Material, virtward string, outside *Outside) ([]servers.Object, error) {
	data, err := json.Marshal(plan)
	if err != nil {
		return nil, fmt.Errorf("encoding the plan: %w", err)
	}
	peers := []networkingv1.NetworkPolicyPeer{
		{PodSelector: &metav1.LabelSelector{}}, servers.PeerOf(virtward, component),
	}
	if outside.Domain != "" && len(outside.Namespaces) > 0 {
		peers = append(peers, networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: outside.Namespaces,
		}}}})
	}
	policy := Servers.Policy(pod, m.Suffix, peers...)
	policy.Spec.PolicyTypes = append(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) // it connects to nothing
	objects := []servers.Object{Servers.Secret(pod, data, m), Servers.Token(pod, m, KeyToken, m.Token), policy}
	if outside.Domain != "" {
		objects = append(objects, ingress(pod, m.Suffix, exportserver.PathOf(plan.Format), outside))
	}
	return append(objects, Servers.Service(pod, m.Suffix)), nil
}

// ingress leads clients outside of the cluster to the Service of a pod. The ingress controller has the certificate.
func ingress(pod *corev1.Pod, suffix, path string, o *Outside) *networkingv1.Ingress {
	whole := networkingv1.PathTypePrefix
	made := &networkingv1.Ingress{ObjectMeta: Servers.OfPod(pod, Servers.Name(suffix))}
	made.Annotations = o.Annotations
	if o.Class != "" {
		made.Spec.IngressClassName = &o.Class
	}
	made.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{o.Host(suffix)}}}
	made.Spec.Rules = []networkingv1.IngressRule{{Host: o.Host(suffix), IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
		Paths: []networkingv1.HTTPIngressPath{{Path: path, PathType: &whole, Backend: networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: Servers.Name(suffix), Port: networkingv1.ServiceBackendPort{Number: servers.Port}},
		}}},
	}}}}
	return made
}

// component is the label of the pods of the controller.
var component = (&processes.Process{Name: processes.TemplateExports}).Component()

// Links are the places of an export.
func Links(namespace string, format v1beta1.ExportFormat, m *servers.Material, outside *Outside) *v1beta1.ExportLinks {
	path := exportserver.PathOf(format)
	links := &v1beta1.ExportLinks{Internal: &v1beta1.ExportLink{
		URL: fmt.Sprintf("https://%s:%d%s", Servers.Host(namespace, m.Suffix), servers.Port, path), Cert: string(m.Certificate),
	}}
	if outside.Domain != "" {
		links.External = &v1beta1.ExportLink{URL: "https://" + outside.Host(m.Suffix) + path, Cert: outside.Authority}
	}
	return links
}
