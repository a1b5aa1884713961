package addresses

import (
	"bytes"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSpecialNetworks(t *testing.T) {
	list, err := parseSpecial(specialNetworks)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 30 || len(SpecialNetworks()) != len(list) {
		t.Errorf("%d networks", len(list))
	}
	if !slices.IsSortedFunc(list, func(a, b Special) int { return a.Network.Addr().Compare(b.Network.Addr()) }) {
		t.Error("the networks are not sorted")
	}
	for i, a := range list {
		if a.Source == "" || a.Name == "" {
			t.Errorf("%s has no source or no name", a.Network)
		}
		for _, b := range list[:i] {
			if a.Network.Overlaps(b.Network) {
				t.Errorf("%s and %s overlap", a.Network, b.Network)
			}
		}
	}
	for _, text := range []string{"10.0.0.1/8,RFC 1918,private use", "10.0.0.0/8,RFC 1918", "10.0.0.0,RFC 1918,private use"} {
		if _, err := parseSpecial(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// TestIsPublic: the first, the last and the neighbors of each network, and addresses in other forms.
func TestIsPublic(t *testing.T) {
	for _, s := range SpecialNetworks() {
		first := s.Network.Addr()
		for _, addr := range []netip.Addr{first, last(s.Network), first.WithZone("eth0")} {
			if IsPublic(addr) {
				t.Errorf("%s of %s is public", addr, s.Network)
			}
		}
	}
	for _, text := range []string{
		"127.0.0.1", "169.254.169.254", "100.100.100.200", "255.255.255.255", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::a00:1", "fd00:ec2::254",
		"5f00::1", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff::1", "3fff:fff:ffff:ffff::1", "100:0:0:1::1", "100::1", "2001:0:1::1", "fe80::1%eth0",
	} {
		if IsPublic(netip.MustParseAddr(text)) {
			t.Errorf("%s is public", text)
		}
	}
	for _, text := range []string{"1.1.1.1", "9.255.255.255", "11.0.0.0", "172.32.0.1", "100.128.0.0", "2606:4700::1111", "2001:200::1", "3fff:1000::1", "3ffe:ffff::1", "5f01::1", "5eff::1", "100:0:0:2::1"} {
		if !IsPublic(netip.MustParseAddr(text)) {
			t.Errorf("%s is not public", text)
		}
	}
	if IsPublic(netip.Addr{}) {
		t.Error("no address is public")
	}
}

// TestOneList: no other file has a list of special networks, or decides by the methods of netip. The guard is generated from the list.
func TestOneList(t *testing.T) {
	files := 0
	tree := os.DirFS("..")
	err := fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "bin" || name == "testdata" || name == ".git" || name == "gen"):
			return filepath.SkipDir
		case name == "virtual-images.yaml" || strings.HasSuffix(name, "_test.go") || filepath.Ext(name) != ".go" && filepath.Ext(name) != ".yaml":
			return nil
		}
		text, err := fs.ReadFile(tree, path)
		files++
		for _, sign := range []string{".IsPrivate()", "100.64.0.0/10", "198.18.0.0/15", "64:ff9b::/96", "2002::/16"} {
			if bytes.Contains(text, []byte(sign)) {
				t.Errorf("%s has %s: use package addresses", path, sign)
			}
		}
		return err
	})
	if err != nil || files < 500 {
		t.Errorf("%v, %d files", err, files)
	}
}

// last is the last address of a network.
func last(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 1 << (7 - bit%8)
	}
	addr, _ := netip.AddrFromSlice(bytes)
	return addr
}
