package validators

import (
	"fmt"
	"net/netip"

	k8sv1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func dnsRules() Table {
	return Scoped(OnSpec,
		dnsPolicyRule,
		dnsNoneConfigRule,
		dnsNameserversCountRule,
		dnsNameserverAddressRule,
		dnsSearchesCountRule,
		dnsSearchesLengthRule,
		dnsSearchNameRule,
		dnsOptionNameRule,
	)
}

// The bounds of KubeVirt. Those of Kubernetes are wider by now, but KubeVirt rejects what exceeds these.
const (
	maxNameservers  = 3
	maxSearches     = 6
	maxSearchLength = 256
)

// dnsPolicies are those of pods.
var dnsPolicies = []k8sv1.DNSPolicy{k8sv1.DNSClusterFirst, k8sv1.DNSClusterFirstWithHostNet, k8sv1.DNSDefault, k8sv1.DNSNone}

func dnsPath(s *Subject, list string) *field.Path { return s.Path.Child("dnsConfig", list) }

var dnsPolicyRule = Rule{
	ID:     "dns-policy",
	Title:  "The DNS policy is known",
	Remedy: "Use a supported policy, or leave dnsPolicy out for ClusterFirst.",
	Check:  dnsPolicy,
}

func dnsPolicy(s *Subject, found *Errors) {
	switch s.Spec.DNSPolicy {
	case "", k8sv1.DNSClusterFirst, k8sv1.DNSClusterFirstWithHostNet, k8sv1.DNSDefault, k8sv1.DNSNone:
		return
	}
	found.Add(field.NotSupported(s.Path.Child("dnsPolicy"), k8sv1.DNSPolicy(shortened(string(s.Spec.DNSPolicy))), dnsPolicies))
}

var dnsNoneConfigRule = Rule{
	ID:     "dns-none-config",
	Title:  "The DNS policy None needs a configuration",
	Remedy: "Add dnsConfig with at least one nameserver, or use another policy.",
	Check:  dnsNoneConfig,
}

func dnsNoneConfig(s *Subject, found *Errors) {
	switch config := s.Spec.DNSConfig; {
	case s.Spec.DNSPolicy != k8sv1.DNSNone:
	case config == nil:
		found.Add(field.Required(s.Path.Child("dnsConfig"), "dnsPolicy is None, so the guest has no other nameserver"))
	case len(config.Nameservers) == 0:
		found.Add(field.Required(dnsPath(s, "nameservers"), "dnsPolicy is None, so the guest has no other nameserver"))
	}
}

var dnsNameserversCountRule = Rule{
	ID:     "dns-nameservers-count",
	Title:  "There are at most 3 nameservers",
	Remedy: "Keep at most 3 nameservers.",
	Check:  dnsNameserversCount,
}

func dnsNameserversCount(s *Subject, found *Errors) {
	if s.Spec.DNSConfig == nil || len(s.Spec.DNSConfig.Nameservers) <= maxNameservers {
		return
	}
	found.Add(field.Invalid(dnsPath(s, "nameservers"), len(s.Spec.DNSConfig.Nameservers),
		fmt.Sprintf("must have at most %d nameservers", maxNameservers)))
}

var dnsNameserverAddressRule = Rule{
	ID:     "dns-nameserver-address",
	Title:  "A nameserver is an IP address",
	Remedy: "Write the IP address of the nameserver, not its name.",
	Check:  dnsNameserverAddress,
}

func dnsNameserverAddress(s *Subject, found *Errors) {
	if s.Spec.DNSConfig == nil {
		return
	}
	servers := s.Spec.DNSConfig.Nameservers
	for i := range found.Each(len(servers)) {
		server := servers[i]
		// a zone, as in fe80::1%eth0, is of no use in the guest
		if address, err := netip.ParseAddr(server); err != nil || address.Zone() != "" {
			found.Add(field.Invalid(dnsPath(s, "nameservers").Index(i), shortened(server), "is not an IP address"))
		}
	}
}

var dnsSearchesCountRule = Rule{
	ID:     "dns-searches-count",
	Title:  "There are at most 6 search domains",
	Remedy: "Keep at most 6 search domains.",
	Check:  dnsSearchesCount,
}

func dnsSearchesCount(s *Subject, found *Errors) {
	if s.Spec.DNSConfig == nil || len(s.Spec.DNSConfig.Searches) <= maxSearches {
		return
	}
	found.Add(field.Invalid(dnsPath(s, "searches"), len(s.Spec.DNSConfig.Searches),
		fmt.Sprintf("must have at most %d search domains", maxSearches)))
}

var dnsSearchesLengthRule = Rule{
	ID:     "dns-searches-length",
	Title:  "The search domains have at most 256 characters together",
	Remedy: "Remove or shorten search domains.",
	Check:  dnsSearchesLength,
}

func dnsSearchesLength(s *Subject, found *Errors) {
	if s.Spec.DNSConfig == nil {
		return
	}
	length := -1 // one space between two of them
	for _, search := range s.Spec.DNSConfig.Searches {
		length += len(search) + 1
	}
	if length <= maxSearchLength {
		return
	}
	found.Add(field.Invalid(dnsPath(s, "searches"), length,
		fmt.Sprintf("must have at most %d characters together, with a space between two domains", maxSearchLength)))
}

var dnsSearchNameRule = Rule{
	ID:     "dns-search-name",
	Title:  "A search domain is a domain name",
	Remedy: "Write labels of lower-case letters, digits and inner dashes, with one dot between two labels and none at the end.",
	Check:  dnsSearchName,
}

func dnsSearchName(s *Subject, found *Errors) {
	if s.Spec.DNSConfig == nil {
		return
	}
	searches := s.Spec.DNSConfig.Searches
	for i := range found.Each(len(searches)) {
		search := searches[i]
		if len(validation.IsDNS1123Subdomain(search)) > 0 {
			found.Add(field.Invalid(dnsPath(s, "searches").Index(i), shortened(search),
				"is not the name of a domain"))
		}
	}
}

var dnsOptionNameRule = Rule{
	ID:     "dns-option-name",
	Title:  "A resolver option has a name",
	Remedy: "Name the option, or remove it.",
	Check:  dnsOptionName,
}

func dnsOptionName(s *Subject, found *Errors) {
	if s.Spec.DNSConfig == nil {
		return
	}
	options := s.Spec.DNSConfig.Options
	for i := range found.Each(len(options)) {
		if options[i].Name == "" {
			found.Add(field.Invalid(dnsPath(s, "options").Index(i).Child("name"), "", "a resolver option needs a name"))
		}
	}
}
