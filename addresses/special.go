package addresses

import (
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// specialNetworks is the list of special networks. Its lines are NETWORK,SOURCE,NAME.
//
//go:embed special.csv
var specialNetworks string

// Special is a network whose addresses are not those of public servers.
type Special struct {
	Network netip.Prefix
	// Source is the RFC of its entry in a registry of IANA, or says that it is in none.
	Source string
	// Name is what it is for.
	Name string
}

// SpecialNetworks returns the networks whose addresses are not those of public servers, in the order of their addresses,
// IPv4 first. Golden images, VirtualImages and guards use this list only. No address is in two of them.
func SpecialNetworks() []Special { return slices.Clone(special) }

// special is parsed once. A test verifies each line.
var special, _ = parseSpecial(specialNetworks)

func parseSpecial(text string) ([]Special, error) {
	var list []Special
	var errs []error
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		parts := strings.SplitN(line, ",", 3)
		network, err := netip.ParsePrefix(parts[0])
		if err != nil || len(parts) != 3 || network != network.Masked() {
			errs = append(errs, fmt.Errorf("%q is not NETWORK,SOURCE,NAME", line))
			continue
		}
		list = append(list, Special{Network: network, Source: parts[1], Name: parts[2]})
	}
	return list, errors.Join(errs...)
}

// IsPublic reports whether an address can be that of a public server: an address of the Internet that is in no special network.
// An IPv4 address in the form of IPv6 is the IPv4 address, and a zone does not count.
func IsPublic(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return len(special) > 0 && addr.IsGlobalUnicast() && !slices.ContainsFunc(special, func(s Special) bool { return s.Network.Contains(addr) })
}
