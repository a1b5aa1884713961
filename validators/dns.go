package validators

import (
	"fmt"
	"net/netip"

	k8sv1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func dnsRules() Table {
	return Table{
		{
			ID: "dns-policy", Title: "The DNS policy is one of Kubernetes'", Scope: OnSpec,
			Remedy: "Use one of the supported policies, or leave dnsPolicy out for ClusterFirst.",
			Check:  dnsPolicy,
		},
		{
			ID: "dns-none-config", Title: "The DNS policy None needs a configuration", Scope: OnSpec,
			Remedy: "Add dnsConfig with at least one nameserver, or use another policy.",
			Check:  dnsNoneConfig,
		},
		{
			ID: "dns-nameservers-count", Title: "There are at most 3 nameservers", Scope: OnSpec,
			Remedy: "Keep the three nameservers that matter.",
			Check:  dnsNameserversCount,
		},
		{
			ID: "dns-nameserver-address", Title: "A nameserver is an IP address", Scope: OnSpec,
			Remedy: "Write the IP address of the nameserver, not its name.",
			Check:  dnsNameserverAddress,
		},
		{
			ID: "dns-searches-count", Title: "There are at most 6 search domains", Scope: OnSpec,
			Remedy: "Keep the six search domains that matter.",
			Check:  dnsSearchesCount,
		},
		{
			ID: "dns-searches-length", Title: "The search domains have at most 256 characters together", Scope: OnSpec,
			Remedy: "Remove or shorten search domains.",
			Check:  dnsSearchesLength,
		},
		{
			ID: "dns-search-name", Title: "A search domain is the name of a domain", Scope: OnSpec,
			Remedy: "Write labels of lower-case letters, digits and dashes, with dots between them and none at the end.",
			Check:  dnsSearchName,
		},
		{
			ID: "dns-option-name", Title: "A resolver option has a name", Scope: OnSpec,
			Remedy: "Name the option, or remove it.",
			Check:  dnsOptionName,
		},
	}
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

func dnsPolicy(s *Subject) field.ErrorList {
	switch s.Spec.DNSPolicy {
	case "", k8sv1.DNSClusterFirst, k8sv1.DNSClusterFirstWithHostNet, k8sv1.DNSDefault, k8sv1.DNSNone:
		return nil
	}
	return field.ErrorList{field.NotSupported(s.Path.Child("dnsPolicy"), k8sv1.DNSPolicy(shortened(string(s.Spec.DNSPolicy))), dnsPolicies)}
}

func dnsNoneConfig(s *Subject) field.ErrorList {
	switch config := s.Spec.DNSConfig; {
	case s.Spec.DNSPolicy != k8sv1.DNSNone:
		return nil
	case config == nil:
		return field.ErrorList{field.Required(s.Path.Child("dnsConfig"), "dnsPolicy is None, so the guest has no other nameserver")}
	case len(config.Nameservers) == 0:
		return field.ErrorList{field.Required(dnsPath(s, "nameservers"), "dnsPolicy is None, so the guest has no other nameserver")}
	}
	return nil
}

func dnsNameserversCount(s *Subject) field.ErrorList {
	if s.Spec.DNSConfig == nil || len(s.Spec.DNSConfig.Nameservers) <= maxNameservers {
		return nil
	}
	return field.ErrorList{field.Invalid(dnsPath(s, "nameservers"), len(s.Spec.DNSConfig.Nameservers),
		fmt.Sprintf("must have at most %d nameservers", maxNameservers))}
}

func dnsNameserverAddress(s *Subject) (found field.ErrorList) {
	if s.Spec.DNSConfig == nil {
		return nil
	}
	servers := s.Spec.DNSConfig.Nameservers
	for i, server := range servers {
		if enough(found) {
			return cutShort(found, len(servers)-i)
		}
		// a zone, as in fe80::1%eth0, is of no use in the guest
		if address, err := netip.ParseAddr(server); err != nil || address.Zone() != "" {
			found = append(found, field.Invalid(dnsPath(s, "nameservers").Index(i), shortened(server), "is not an IP address"))
		}
	}
	return found
}

func dnsSearchesCount(s *Subject) field.ErrorList {
	if s.Spec.DNSConfig == nil || len(s.Spec.DNSConfig.Searches) <= maxSearches {
		return nil
	}
	return field.ErrorList{field.Invalid(dnsPath(s, "searches"), len(s.Spec.DNSConfig.Searches),
		fmt.Sprintf("must have at most %d search domains", maxSearches))}
}

func dnsSearchesLength(s *Subject) field.ErrorList {
	if s.Spec.DNSConfig == nil {
		return nil
	}
	length := -1 // one space between two of them
	for _, search := range s.Spec.DNSConfig.Searches {
		length += len(search) + 1
	}
	if length <= maxSearchLength {
		return nil
	}
	return field.ErrorList{field.Invalid(dnsPath(s, "searches"), length,
		fmt.Sprintf("must have at most %d characters together, with a space between two domains", maxSearchLength))}
}

func dnsSearchName(s *Subject) (found field.ErrorList) {
	if s.Spec.DNSConfig == nil {
		return nil
	}
	searches := s.Spec.DNSConfig.Searches
	for i, search := range searches {
		if enough(found) {
			return cutShort(found, len(searches)-i)
		}
		if len(validation.IsDNS1123Subdomain(search)) > 0 {
			found = append(found, field.Invalid(dnsPath(s, "searches").Index(i), shortened(search),
				"must be labels of lower-case letters, digits and inner dashes, with a dot between two of them"))
		}
	}
	return found
}

func dnsOptionName(s *Subject) (found field.ErrorList) {
	if s.Spec.DNSConfig == nil {
		return nil
	}
	options := s.Spec.DNSConfig.Options
	for i := range options {
		if enough(found) {
			return cutShort(found, len(options)-i)
		}
		if options[i].Name == "" {
			found = append(found, field.Invalid(dnsPath(s, "options").Index(i).Child("name"), "", "a resolver option needs a name"))
		}
	}
	return found
}
