package liveupdates

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// interfaces plugs interfaces, changes the states of links, and removes those that are unplugged.
func (p *pass) interfaces() *Failure {
	written, running := &p.VM.Spec.Template.Spec, &p.instance.Spec
	for i := range written.Domain.Devices.Interfaces {
		wants := &written.Domain.Devices.Interfaces[i]
		network := networkOf(written.Networks, wants.Name)
		if runs := networkOf(running.Networks, wants.Name); runs != nil && network != nil && p.movesNetwork(runs, network) {
			p.moveNetwork(runs, network)
		}
		runs := interfaceOf(running.Domain.Devices.Interfaces, wants.Name)
		switch {
		case runs == nil && wants.State != kubevirtv1.InterfaceStateAbsent && (wants.Bridge != nil || wants.SRIOV != nil):
			running.Domain.Devices.Interfaces = append(running.Domain.Devices.Interfaces, *wants.DeepCopy())
			if network != nil {
				running.Networks = append(running.Networks, *network.DeepCopy())
			}
		case runs == nil || runs.State == kubevirtv1.InterfaceStateAbsent:
		case wants.State == kubevirtv1.InterfaceStateAbsent && !p.namedByNetwork():
		default:
			runs.State = wants.State
		}
	}
	p.unplug()
	return nil
}

// unplug removes the absent interfaces that the guest does not have any more.
func (p *pass) unplug() {
	running := &p.instance.Spec
	for _, i := range slices.Clone(running.Domain.Devices.Interfaces) {
		if i.State != kubevirtv1.InterfaceStateAbsent || attachedInterface(p.instance, i.Name) != nil {
			continue
		}
		p.unplugged = append(p.unplugged, i.Name)
		running.Domain.Devices.Interfaces = slices.DeleteFunc(running.Domain.Devices.Interfaces, func(o kubevirtv1.Interface) bool { return o.Name == i.Name })
		running.Networks = slices.DeleteFunc(running.Networks, func(n kubevirtv1.Network) bool { return n.Name == i.Name })
	}
}

// movesNetwork reports whether only the NetworkAttachmentDefinition differs, and may change live.
func (p *pass) movesNetwork(runs, wants *kubevirtv1.Network) bool {
	if !p.gate("LiveUpdateNADRef") || runs.Multus == nil || wants.Multus == nil || same(runs, wants) {
		return false
	}
	like := runs.DeepCopy()
	like.Multus.NetworkName = wants.Multus.NetworkName
	return same(like, wants)
}

// movedNetwork is the message of MigrationRequired for another NetworkAttachmentDefinition. The status of an instance does not
// show it, so that the condition stays until the migration.
const movedNetwork = "another NetworkAttachmentDefinition"

func (p *pass) moveNetwork(runs, wants *kubevirtv1.Network) {
	other := qualified(p.VM.Namespace, runs.Multus.NetworkName) != qualified(p.VM.Namespace, wants.Multus.NetworkName)
	*runs = *wants.DeepCopy()
	if other && !wants.Multus.Default {
		SetCondition(p.instance, kubevirtv1.VirtualMachineInstanceCondition{
			Type: kubevirtv1.VirtualMachineInstanceMigrationRequired, Status: corev1.ConditionTrue,
			Reason: "AutoMigrationDueToLiveUpdate", Message: movedNetwork, LastTransitionTime: now(),
		})
	}
}

func qualified(namespace, name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return namespace + "/" + name
}

// namedByNetwork reports whether interfaces in the pod have names that are derived from their networks.
func (p *pass) namedByNetwork() bool {
	return slices.ContainsFunc(p.instance.Status.Interfaces, func(i kubevirtv1.VirtualMachineInstanceNetworkInterface) bool {
		return i.PodInterfaceName == PodInterface(i.Name)
	})
}

// PodInterface is the name of the interface of a secondary network in the pod.
func PodInterface(network string) string {
	sum := sha256.Sum256([]byte(network))
	return "pod" + hex.EncodeToString(sum[:])[:11]
}
