package validators

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Capacity says whether the cluster has room for the pod of a virtual machine. Its functions compute it when a rule first needs it.
type Capacity struct {
	// NoNode reports that no node could ever run the pod, whatever else runs there; nil if the nodes are not known. The field of
	// the instance is empty if there is not one behind it.
	NoNode func() (field string, none bool)
	// OverQuota are the resources of which the quotas of the namespace do not allow what the pod needs; nil if they are not known.
	OverQuota func() []Excess
}

// Excess is a resource of which a quota does not allow what the pod of a virtual machine needs.
type Excess struct {
	// Resource is the name in the quota, such as requests.memory, and Amount what the pod needs.
	Resource, Amount string
	// Field of the instance behind it; empty for none.
	Field string
	// Used reports whether the quota would suffice if nothing else used it.
	Used bool
}

func capacityRules() Table { return Scoped(OnSpec, nodeFitsRule, quotaFitsRule, quotaLeftRule) }

var nodeFitsRule = Rule{
	ID:       "node-fits",
	Title:    "A node of the cluster could run the VM if nothing else ran there",
	Remedy:   "Run kubectl virtward why: it has the reasons of each node, and the nearest change that helps.",
	Severity: Warn,
	Check:    nodeFits,
}

// nodeFits names no node, label or amount: the author may not be permitted to read nodes.
func nodeFits(s *Subject, found *Errors) {
	if s.Capacity == nil || s.Capacity.NoNode == nil || s.ByKubeVirt() {
		return
	}
	if name, none := s.Capacity.NoNode(); none {
		found.Add(&field.Error{Type: field.ErrorTypeForbidden, Field: s.ofInstance(name), Detail: "no node of the cluster could run the virtual machine, even if nothing else ran there"})
	}
}

var quotaFitsRule = Rule{
	ID:       "quota-fits",
	Title:    "The pod of the VM is not larger than a ResourceQuota of the namespace",
	Remedy:   "Request less, or ask an admin to raise the ResourceQuota. The pod is larger than the VM: kubectl virtward explain -o pod shows it.",
	Severity: Warn,
	Check:    quotaFits,
}

func quotaFits(s *Subject, found *Errors) {
	overQuota(s, false, "more than a ResourceQuota of the namespace allows", found)
}

var quotaLeftRule = Rule{
	ID:       "quota-left",
	Title:    "The ResourceQuotas of the namespace have room for the pod of a new VM",
	Remedy:   "Stop another VM, request less, or ask an admin to raise the ResourceQuota.",
	Severity: Warn,
	Check:    quotaLeft,
}

func quotaLeft(s *Subject, found *Errors) {
	overQuota(s, true, "more than a ResourceQuota of the namespace has left now", found)
}

func overQuota(s *Subject, used bool, than string, found *Errors) {
	if s.Capacity == nil || s.Capacity.OverQuota == nil || s.ByKubeVirt() {
		return
	}
	for _, e := range s.Capacity.OverQuota() {
		if e.Used == used {
			found.Add(&field.Error{Type: field.ErrorTypeForbidden, Field: s.ofInstance(e.Field), Detail: "the pod needs " + e.Amount + " of " + e.Resource + ", " + than})
		}
	}
}

// ofInstance is a field of the instance, in the object as written.
func (s *Subject) ofInstance(name string) string {
	return s.Path.String() + strings.TrimPrefix(name, "spec")
}

// DeniesQuotas reports whether severities make a rule about quotas deny. Then they must be known.
func DeniesQuotas(s Severities) bool {
	return s[quotaFitsRule.ID] == Deny || s[quotaLeftRule.ID] == Deny
}
