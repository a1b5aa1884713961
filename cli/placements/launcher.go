package placements

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"

	volumeclaims "github.com/virtward/virtward/api/claims"
	"github.com/virtward/virtward/launcher"
)

// statePlaceholder is the name of the claim with the persistent state, which KubeVirt makes before the pod.
const statePlaceholder = "persistent-state-that-kubevirt-makes"

// resourceAnnotation of a NetworkAttachmentDefinition names the resource of the nodes that have the network.
const resourceAnnotation = "k8s.v1.cni.cncf.io/resourceName"

// Launcher is what the pod of an instance depends on of its namespace. Claims and networks that are missing do not keep it from being
// rendered: they are reasons of a placement.
func (f *Found) Launcher(vmi *v1.VirtualMachineInstance) launcher.Cluster {
	state := statePlaceholder
	c := launcher.Cluster{DeviceClaims: f.allocated(vmi.Namespace), Claims: map[string]launcher.Claim{}, StateClaim: &state, Quotas: []string{}, NamespaceLabels: map[string]string{}, NetworkResources: f.networkResources(vmi)}
	for i := range vmi.Spec.Volumes {
		if name := volumeclaims.OfVolume(&vmi.Spec.Volumes[i]); name != "" {
			c.Claims[name] = launcher.Claim{}
		}
	}
	for _, claim := range f.Claims {
		if claim.Namespace != vmi.Namespace {
			continue
		}
		c.Claims[claim.Name] = launcher.Claim{
			UID: string(claim.UID), Block: claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == corev1.PersistentVolumeBlock,
			Shared: slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteMany),
		}
		if claim.Labels["persistent-state-for"] == vmi.Name {
			state = claim.Name
		}
	}
	for _, q := range f.Quotas {
		if q.Namespace == vmi.Namespace {
			for _, name := range slices.Sorted(maps.Keys(q.Spec.Hard)) {
				c.Quotas = append(c.Quotas, string(name))
			}
		}
	}
	for _, n := range f.Namespaces {
		if n.Name == vmi.Namespace {
			maps.Copy(c.NamespaceLabels, n.Labels)
		}
	}
	return c
}

// allocated are the ResourceClaims of a namespace that are allocated.
func (f *Found) allocated(namespace string) map[string]bool {
	all := map[string]bool{}
	for _, claim := range f.DeviceClaims {
		if claim.Namespace == namespace && claim.Status.Allocation != nil {
			all[claim.Name] = true
		}
	}
	return all
}

// networkResources are those of the networks that an instance names; nil if networks are not known.
func (f *Found) networkResources(vmi *v1.VirtualMachineInstance) map[string]string {
	if f.Unknown.Networks {
		return nil
	}
	resources := map[string]string{}
	for _, a := range launcher.Attachments(vmi) {
		resources[a.String()] = ""
	}
	for _, n := range f.Networks {
		resources[n.Namespace+"/"+n.Name] = n.Annotations[resourceAnnotation]
	}
	return resources
}

// Missing says what is assumed of claims and networks that an instance names and that do not exist, such as those that are created later.
func (f *Found) Missing(vmi *v1.VirtualMachineInstance) (assumed []string) {
	exists := map[string]bool{}
	for _, claim := range f.Claims {
		exists[claim.Name] = exists[claim.Name] || claim.Namespace == vmi.Namespace
	}
	for i := range vmi.Spec.Volumes {
		if name := volumeclaims.OfVolume(&vmi.Spec.Volumes[i]); name != "" && !exists[name] && !f.Unknown.Claims {
			exists[name] = true
			assumed = append(assumed, "the PersistentVolumeClaim "+name+" does not exist yet; it will have a file system that one node mounts")
		}
	}
	networks := map[string]bool{}
	for _, n := range f.Networks {
		networks[n.Namespace+"/"+n.Name] = true
	}
	for _, a := range launcher.Attachments(vmi) {
		if name := a.String(); !networks[name] && !f.Unknown.Networks && (!f.Unknown.OtherNetworks || a.Namespace == vmi.Namespace) {
			networks[name] = true
			assumed = append(assumed, "the NetworkAttachmentDefinition "+name+" does not exist yet; it will have no device resource")
		}
	}
	return assumed
}

// Inject adds the device resources of the networks of an instance to its pod, as the webhook of the network operator does: to the first
// container. It returns what it assumes; nothing if KubeVirt adds them.
func (f *Found) Inject(p *corev1.Pod, in *launcher.Input) (assumed []string) {
	if !launcher.Injected(in.Facts) || len(p.Spec.Containers) == 0 {
		return nil
	}
	all, one := f.networkResources(in.VMI), resource.MustParse("1")
	first := &p.Spec.Containers[0].Resources
	for _, a := range launcher.Attachments(in.VMI) {
		name := corev1.ResourceName(all[a.String()])
		if name == "" {
			continue
		}
		for _, list := range []*corev1.ResourceList{&first.Requests, &first.Limits} {
			if *list == nil {
				*list = corev1.ResourceList{}
			}
			amount := (*list)[name]
			amount.Add(one)
			(*list)[name] = amount
		}
		assumed = append(assumed, "the webhook of the network operator adds "+string(name)+" to the pod, for the NetworkAttachmentDefinition "+a.String())
	}
	return assumed
}

// nodesAnnotation of a NetworkAttachmentDefinition names the label of the nodes that have the network.
const nodesAnnotation = "k8s.v1.cni.cncf.io/nodeSelector"

// SelectNodes adds the node selectors of the networks of an instance to its pod, as the webhook of the network operator does. It returns
// what it assumes.
func (f *Found) SelectNodes(rendered *launcher.Result, p *corev1.Pod) (assumed []string) {
	if f.Unknown.Networks {
		return nil
	}
	written := map[string]string{}
	for _, n := range f.Networks {
		written[n.Namespace+"/"+n.Name] = n.Annotations[nodesAnnotation]
	}
	for _, a := range rendered.Attachments {
		key, value, _ := strings.Cut(written[a.String()], "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if key == "" || strings.Contains(value, "=") { // the webhook rejects a pod with several labels
			continue
		}
		if p.Spec.NodeSelector == nil {
			p.Spec.NodeSelector = map[string]string{}
		}
		p.Spec.NodeSelector[key] = value
		rendered.Demands = append(slices.DeleteFunc(rendered.Demands, func(d launcher.Demand) bool { return d.Key == key && d.Operator == corev1.NodeSelectorOpIn }), launcher.Demand{
			Key: key, Operator: corev1.NodeSelectorOpIn, Value: value, Field: a.Field, Rule: "the NetworkAttachmentDefinition " + a.String() + " names these nodes",
		})
		assumed = append(assumed, "the webhook of the network operator adds the node selector "+key+"="+value+" to the pod, for the NetworkAttachmentDefinition "+a.String())
	}
	return assumed
}

// Covers reports whether an object that a virtual machine refers to, such as "FIELD: PersistentVolumeClaim data", is of a kind of which
// all objects were read: the placement has a reason if it is missing.
func (f *Found) Covers(reference string) bool {
	return !f.Unknown.Claims && strings.Contains(reference, ": PersistentVolumeClaim ") ||
		!f.Unknown.Networks && !f.Unknown.OtherNetworks && strings.Contains(reference, ": "+networkKind+" ")
}

// WithoutState removes the volume of a claim that KubeVirt has not made yet.
func WithoutState(p *corev1.Pod) {
	p.Spec.Volumes = slices.DeleteFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == statePlaceholder
	})
}
