package validators

import "testing"

func TestDNSRules(t *testing.T) {
	runCases(t, dnsRules(), OnSpec|OnVMI, []ruleCase{
		{
			name: "none",
			spec: `domain: {}`,
		},
		{
			name: "all that is allowed",
			spec: `dnsPolicy: None` + "\n" +
				`dnsConfig: {nameservers: [1.1.1.1, "fd00::1", 1.1.1.3], searches: [a, b, c, d, e, f.g-h], options: [{name: ndots, value: "5"}]}`,
		},
		{
			name: "an unknown policy",
			spec: `dnsPolicy: clusterfirst`,
			want: []string{
				`dns-policy: spec.dnsPolicy: Unsupported value: "clusterfirst": supported values: "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"`,
			},
		},
		{
			name: "policy None without a configuration",
			spec: `dnsPolicy: None`,
			want: []string{
				`dns-none-config: spec.dnsConfig: Required value: dnsPolicy is None, so the guest has no other nameserver`,
			},
		},
		{
			name: "policy None without nameservers",
			spec: `dnsPolicy: None` + "\n" +
				`dnsConfig: {searches: [a.b]}`,
			want: []string{
				`dns-none-config: spec.dnsConfig.nameservers: Required value: dnsPolicy is None, so the guest has no other nameserver`,
			},
		},
		{
			name: "nameservers",
			spec: `dnsConfig: {nameservers: [a, 2.2.2.2, "", "fe80::1%eth0"]}`,
			want: []string{
				`dns-nameservers-count: spec.dnsConfig.nameservers: Invalid value: 4: must have at most 3 nameservers`,
				`dns-nameserver-address: spec.dnsConfig.nameservers[0]: Invalid value: "a": is not an IP address`,
				`dns-nameserver-address: spec.dnsConfig.nameservers[2]: Invalid value: "": is not an IP address`,
				`dns-nameserver-address: spec.dnsConfig.nameservers[3]: Invalid value: "fe80::1%eth0": is not an IP address`,
			},
		},
		{
			name: "too many search domains",
			spec: `dnsConfig: {searches: [a, b, c, d, e, f, g]}`,
			want: []string{
				`dns-searches-count: spec.dnsConfig.searches: Invalid value: 7: must have at most 6 search domains`,
			},
		},
		{
			name: "search domains of 256 characters",
			spec: `dnsConfig: {searches: [a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.aa, a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a]}`,
		},
		{
			name: "search domains of 257 characters",
			spec: `dnsConfig: {searches: [a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a, a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a]}`,
			want: []string{
				`dns-searches-length: spec.dnsConfig.searches: Invalid value: 257: must have at most 256 characters together, with a space between two domains`,
			},
		},
		{
			name: "no search domains",
			spec: `dnsConfig: {searches: [Bad_Domain, "", a.b.]}`,
			want: []string{
				`dns-search-name: spec.dnsConfig.searches[0]: Invalid value: "Bad_Domain": is not the name of a domain`,
				`dns-search-name: spec.dnsConfig.searches[1]: Invalid value: "": is not the name of a domain`,
				`dns-search-name: spec.dnsConfig.searches[2]: Invalid value: "a.b.": is not the name of a domain`,
			},
		},
		{
			name: "an option without a name",
			spec: `dnsConfig: {options: [{name: edns0}, {value: "5"}]}`,
			want: []string{
				`dns-option-name: spec.dnsConfig.options[1].name: Invalid value: "": a resolver option needs a name`,
			},
		},
	})
}
