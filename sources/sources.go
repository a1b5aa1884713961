package sources

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/virtward/virtward/addresses"
)

// HeadBytes and TailBytes are the sizes of the beginning and the end of a file that are read to recognize its format: the volume
// descriptor of an ISO image is in the beginning, and the header of a VHD of a fixed size at the end.
const (
	HeadBytes = 0x8800
	TailBytes = 512
)

// Sources are the places that images may be imported from. The zero value permits all public addresses.
type Sources struct {
	// Hosts are the permitted hosts: example.com, or *.example.com for all hosts below it. Without any, all are permitted.
	Hosts []string
	// Networks are permitted although their addresses are not public, such as that of a mirror in the data center.
	Networks []netip.Prefix
	// Values are the chart's values with hosts and networks, which messages name; empty for those of VirtualImages.
	Values string
}

// values are the chart's values of VirtualImages with hosts and networks.
const values = "virtualImages.sources"

// hint names a value of the chart.
func (s *Sources) hint(value string) string {
	if s == nil || s.Values == "" {
		return values + "." + value
	}
	return s.Values + "." + value
}

// Errors of sources. Their messages are those of Sources, which name the chart's value. They name no address: a user must not
// learn what a name means in the network of the cluster.
var (
	ErrAddress = errors.New("the address is not public")
	ErrHost    = errors.New("the host is not permitted")
)

// fault is ErrAddress or ErrHost, with a message for the user.
type fault struct {
	error

	message string
}

// Error implements error.
func (f *fault) Error() string { return f.message }

// Unwrap returns ErrAddress or ErrHost.
func (f *fault) Unwrap() error { return f.error }

func (s *Sources) internal() error {
	return &fault{ErrAddress, "the host has an address that is not public: an admin can permit its network with " + s.hint("networks")}
}

// Unresolved is the message about a name without a permitted address, whether it has another one or does not exist.
func (s *Sources) Unresolved() string {
	return "the name of the host does not exist, or its address is not public: an admin can permit its network with " + s.hint("networks")
}

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
		return &fault{ErrHost, "the host is not one of " + s.hint("hosts") + ", which an admin sets"}
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
	plain := addr.Unmap().WithZone("")
	if slices.ContainsFunc(s.Networks, func(p netip.Prefix) bool { return p.Contains(plain) }) || addresses.IsPublic(addr) {
		return nil
	}
	return s.internal()
}
