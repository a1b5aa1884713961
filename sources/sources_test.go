package sources

import (
	"net/netip"
	"strings"
	"testing"
)

func TestCheckURL(t *testing.T) {
	open := Sources{}
	closed := Sources{Hosts: []string{"example.com", "*.Mirror.example", "10.1.2.3"}, Networks: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
	for text, want := range map[string]struct{ open, closed string }{
		"https://example.com/a.qcow2":      {"", ""},
		"https://EXAMPLE.com.:8443/a":      {"", ""},
		"http://a.mirror.example/b":        {"", ""},
		"http://mirror.example/b":          {"", "not one of virtualImages.sources.hosts"},
		"http://evilmirror.example/b":      {"", "not one of"},
		"http://example.com.evil.org/":     {"", "not one of"},
		"ftp://example.com/a":              {"scheme", "scheme"},
		"https://":                         {"no host", "no host"},
		"https://a:b@example.com/":         {"credentials", "credentials"},
		"https://example.com/%zz":          {"cannot be parsed", "cannot be parsed"},
		"http://127.0.0.1/":                {"not public", "not public"},
		"http://[::1]/":                    {"not public", "not public"},
		"http://169.254.169.254/":          {"not public", "not public"},
		"http://[::ffff:169.254.169.254]":  {"not public", "not public"},
		"http://[fe80::1%25eth0]/":         {"not public", "not public"},
		"http://10.1.2.3/":                 {"not public", ""},
		"http://10.1.2.4/":                 {"not public", "not one of"},
		"http://0177.0.0.1/":               {"neither an IP address nor a name", "neither"},
		"http://0x7f000001/":               {"neither", "neither"},
		"http://0X7F.1/":                   {"neither", "neither"},
		"http://2130706433/":               {"neither", "neither"},
		"http://127.1/":                    {"neither", "neither"},
		"http://0/":                        {"neither", "neither"},
		"http://127.0.0.1./":               {"not public", "not public"},
		"http://\uff11\uff12\uff17.0.0.1/": {"neither", "neither"},
		"http://b\u00fccher.example/":      {"neither", "neither"},
		"http://xn--bcher-kva.example/":    {"", "not one of"},
		"http://MIRROR.EXAMPLE./b":         {"", "not one of"},
		"http://A.Mirror.Example./b":       {"", ""},
		"http://8.8.8.8/":                  {"", "not one of"},
	} {
		for i, s := range []*Sources{&open, &closed} {
			err, want := s.CheckURL(text), []string{want.open, want.closed}[i]
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s with %v: %v, want %q", text, s.Hosts, err, want)
			}
		}
	}
}

func TestCheckAddress(t *testing.T) {
	s := Sources{}
	for _, denied := range []string{
		"0.0.0.0", "0.1.2.3", "127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.100.100.200", "169.254.169.254", "192.0.0.192",
		"224.0.0.1", "255.255.255.255", "198.18.0.1", "::", "::1", "::127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "fd00:ec2::254", "fc00::1", "fe80::1", "ff02::1", "2001:db8::1",
		"5f00::1", "3fff::1", "100:0:0:1::1",
	} {
		if s.CheckAddress(netip.MustParseAddr(denied)) == nil {
			t.Errorf("%s is permitted", denied)
		}
	}
	for _, permitted := range []string{"1.1.1.1", "93.184.215.14", "172.32.0.1", "2606:4700::1111"} {
		if err := s.CheckAddress(netip.MustParseAddr(permitted)); err != nil {
			t.Errorf("%s: %v", permitted, err)
		}
	}
	if s.CheckAddress(netip.Addr{}) == nil {
		t.Error("no address is permitted")
	}
}

func FuzzCheckURL(f *testing.F) {
	f.Add("https://example.com/a", "*.example.com")
	f.Fuzz(func(t *testing.T, text, host string) {
		all, some := Sources{}, Sources{Hosts: []string{host}}
		if some.CheckURL(text) == nil && all.CheckURL(text) != nil {
			t.Errorf("%q is permitted only with hosts %q", text, host)
		}
	})
}
