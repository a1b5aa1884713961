package virtualimages

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Sources are the places that images may be imported from. The zero value permits all public addresses.
type Sources struct {
	// Hosts are the permitted hosts: example.com, or *.example.com for all hosts below it. Without any, all are permitted.
	Hosts []string
	// Networks are permitted although their addresses are not public, such as that of a mirror in the data center.
	Networks []netip.Prefix
}

// internal are networks that netip does not call private, loopback, link-local or multicast, but whose addresses are not
// those of public servers (the registries of IANA for special purposes), or contain an IPv4 address.
var internal = prefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "fec0::/10",
)

func prefixes(list ...string) []netip.Prefix {
	parsed := make([]netip.Prefix, len(list))
	for i, p := range list {
		parsed[i] = netip.MustParsePrefix(p)
	}
	return parsed
}

// Errors of sources. They name no address: a user must not learn what a name means in the network of the cluster.
var (
	ErrAddress = errors.New("the host has an address that is not public: an admin can permit its network with virtualImages.sources.networks")
	ErrHost    = errors.New("the host is not one of virtualImages.sources.hosts, which an admin sets")
)

// CheckURL says why a URL cannot be a source; nil if it can be, as far as its text goes. The address of its host is checked
// when it is connected to.
func (s *Sources) CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("the URL cannot be parsed")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("the scheme %q is not http or https", u.Scheme)
	}
	if u.User != nil {
		return errors.New("the URL contains credentials")
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if host == "" {
		return errors.New("the URL has no host")
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if err := s.CheckAddress(addr); err != nil {
			return err
		}
	} else if !isName(host) {
		return errors.New("the host is neither an IP address nor a name of letters, digits, dots and hyphens: names of other languages have a form in ASCII, such as xn--bcher-kva.example")
	}
	if len(s.Hosts) > 0 && !slices.ContainsFunc(s.Hosts, func(permitted string) bool { return matches(permitted, host) }) {
		return ErrHost
	}
	return nil
}

// isName reports whether a host is a name. Programs read one whose last part is a number, such as 0x7f000001 or 127.1, as an
// address.
func isName(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	number, hex := strings.CutPrefix(last, "0x")
	digits := "0123456789"
	if hex {
		digits += "abcdef"
	}
	return strings.Trim(number, digits) != "" && strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}

func matches(permitted, host string) bool {
	permitted = strings.ToLower(permitted)
	if below, ok := strings.CutPrefix(permitted, "*"); ok {
		return strings.HasPrefix(below, ".") && len(host) > len(below) && strings.HasSuffix(host, below)
	}
	return permitted == host
}

// ParseNetworks parses networks such as 10.1.0.0/16.
func ParseNetworks(texts []string) ([]netip.Prefix, error) {
	list := make([]netip.Prefix, 0, len(texts))
	for i, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("networks[%d]: %q is not a network such as 10.1.0.0/16", i, text)
		}
		list = append(list, p.Masked())
	}
	return list, nil
}

// CheckAddress says why an address cannot be connected to.
func (s *Sources) CheckAddress(addr netip.Addr) error {
	addr = addr.Unmap().WithZone("")
	in := func(list []netip.Prefix) bool {
		return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(addr) })
	}
	if in(s.Networks) || addr.IsGlobalUnicast() && !addr.IsPrivate() && !in(internal) {
		return nil
	}
	return ErrAddress
}
