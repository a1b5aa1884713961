package launcher

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/platform"
)

// Injected reports whether a webhook of the network operator adds the device resources of networks to the pod, and not KubeVirt.
func Injected(facts *platform.Facts) bool { return facts.GateEnabled("ExternalNetResourceInjection") }

// networkResources are the device resources of the networks, one for each network, empty for none. Where a webhook of the
// network operator adds them to the pod, KubeVirt does not.
func (s *subject) networkResources() ([]string, error) {
	if Injected(s.Facts) {
		return nil, nil
	}
	var resources []string
	for i := range s.spec.Networks {
		multus := s.spec.Networks[i].Multus
		if multus == nil {
			continue
		}
		namespace, name := s.attachment(multus.NetworkName)
		if s.Cluster.NetworkResources == nil {
			s.assume("the NetworkAttachmentDefinition " + namespace + "/" + name + " has no device resource")
			continue
		}
		resource, ok := s.Cluster.NetworkResources[namespace+"/"+name]
		if !ok {
			return nil, fmt.Errorf("there is no NetworkAttachmentDefinition %s/%s", namespace, name)
		}
		resources = append(resources, resource)
	}
	return resources, nil
}

// Attachment is a NetworkAttachmentDefinition that an instance names.
type Attachment struct {
	Namespace, Name string
	// Field of the instance that names it.
	Field string
}

// String is NAMESPACE/NAME.
func (a *Attachment) String() string { return a.Namespace + "/" + a.Name }

// Attachments are the NetworkAttachmentDefinitions that the networks of an instance name, and not those of network bindings.
func Attachments(vmi *v1.VirtualMachineInstance) []Attachment {
	var all []Attachment
	for i := range vmi.Spec.Networks {
		if multus := vmi.Spec.Networks[i].Multus; multus != nil {
			namespace, name := attachmentOf(vmi, multus.NetworkName)
			all = append(all, Attachment{namespace, name, fmt.Sprintf("spec.networks[%d].multus.networkName", i)})
		}
	}
	return all
}

// attachments are those of the networks, and those of the bindings of the interfaces.
func (s *subject) attachments() []Attachment {
	all := Attachments(s.VMI)
	interfaces := s.spec.Domain.Devices.Interfaces
	for i := range interfaces {
		if interfaces[i].Binding == nil {
			continue
		}
		if definition := s.bindings()[interfaces[i].Binding.Name].NetworkAttachmentDefinition; definition != "" {
			namespace, name := s.attachment(definition)
			all = append(all, Attachment{namespace, name, fmt.Sprintf("spec.domain.devices.interfaces[%d].binding.name", i)})
		}
	}
	return all
}

// attachmentOf is the namespace and the name of a NetworkAttachmentDefinition.
func attachmentOf(vmi *v1.VirtualMachineInstance, reference string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(reference, "/"); ok {
		return namespace, name
	}
	return vmi.Namespace, reference
}

func (s *subject) attachment(reference string) (namespace, name string) {
	return attachmentOf(s.VMI, reference)
}

// selection is a network that Multus attaches to the pod. The order of the fields is that of Multus' type.
type selection struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace,omitempty"`
	MAC       string            `json:"mac,omitempty"`
	Interface string            `json:"interface,omitempty"`
	CNIArgs   map[string]string `json:"cni-args,omitempty"`
}

// networkAnnotations are those for Multus and for Istio.
func (s *subject) networkAnnotations(annotations map[string]string) error {
	var selected []selection
	interfaces := s.spec.Domain.Devices.Interfaces
	for i := range interfaces {
		nic := &interfaces[i]
		if nic.Masquerade != nil {
			annotations["istio.io/reroute-virtual-interfaces"] = "k6t-eth0"
			annotations["traffic.sidecar.istio.io/kubevirtInterfaces"] = "k6t-eth0"
		}
		network := s.network(nic.Name)
		if nic.State == v1.InterfaceStateAbsent || network == nil {
			continue
		}
		if network.Multus != nil && !network.Multus.Default {
			namespace, name := s.attachment(network.Multus.NetworkName)
			selected = append(selected, selection{Name: name, Namespace: namespace, MAC: nic.MacAddress, Interface: podInterface(nic.Name)})
		}
		if nic.Binding == nil {
			continue
		}
		if definition := s.bindings()[nic.Binding.Name].NetworkAttachmentDefinition; definition != "" {
			namespace, name := s.attachment(definition)
			selected = append(selected, selection{Name: name, Namespace: namespace, CNIArgs: map[string]string{"logicNetworkName": nic.Name}})
		}
	}
	for i := range s.spec.Networks {
		if multus := s.spec.Networks[i].Multus; multus != nil && multus.Default {
			annotations["v1.multus-cni.io/default-network"] = multus.NetworkName
			break
		}
	}
	if len(selected) == 0 {
		return nil
	}
	text, err := json.Marshal(selected)
	if err != nil {
		return fmt.Errorf("encoding the networks of the pod: %w", err)
	}
	annotations["k8s.v1.cni.cncf.io/networks"] = string(text)
	return nil
}

// network is the network of an interface; nil if there is none. Of two with one name, KubeVirt takes the last.
func (s *subject) network(name string) *v1.Network {
	for i := len(s.spec.Networks) - 1; i >= 0; i-- {
		if s.spec.Networks[i].Name == name {
			return &s.spec.Networks[i]
		}
	}
	return nil
}

// podInterface is the name of a network's interface in the pod: as much of a hash as a name can have.
func podInterface(network string) string {
	const length = 11
	hash := sha256.Sum256([]byte(network))
	return "pod" + hex.EncodeToString(hash[:])[:length]
}
