package addresses_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/addresses"
)

func TestParseURL(t *testing.T) {
	disk := addresses.URL{Canonical: "https://images.example/disks/a.qcow2", Scheme: "https", Authority: "images.example", Host: "images.example", Port: 443, Path: "/disks/a.qcow2"}
	with := func(change func(*addresses.URL)) addresses.URL {
		u := disk
		change(&u)
		return u
	}
	for text, want := range map[string]addresses.URL{
		"https://images.example/disks/a.qcow2":          disk,
		"HTTPS://Images.EXAMPLE/disks/a.qcow2":          disk,
		"https://images.example./disks/a.qcow2":         disk,
		"https://images.example:443/disks/a.qcow2":      disk,
		"https://images.example:/disks/a.qcow2":         disk,
		"https://images.example/disks/./a.qcow2":        disk,
		"https://images.example//disks//a.qcow2":        disk,
		"https://images.example/x/../disks/a.qcow2":     disk,
		"https://images.example/x/%2e%2e/disks/a.qcow2": disk,
		"https://images.example/%64isks/a.qcow2#b":      disk,
		"https://a:b@images.example/disks/a.qcow2":      with(func(u *addresses.URL) { u.UserInfo = true }),
		"https://images.example:8443/disks/a.qcow2": with(func(u *addresses.URL) {
			u.Port, u.Authority, u.Canonical = 8443, "images.example:8443", "https://images.example:8443/disks/a.qcow2"
		}),
		"https://images.example/disks/..%2f..%2fa.qcow2": with(func(u *addresses.URL) { u.Path, u.Canonical = "/a.qcow2", "https://images.example/a.qcow2" }),
		"https://images.example/disks/a.qcow2?v=1":       with(func(u *addresses.URL) { u.Query, u.Canonical = "v=1", "https://images.example/disks/a.qcow2?v=1" }),
		"https://images.example/disks/":                  with(func(u *addresses.URL) { u.Path, u.Canonical = "/disks/", "https://images.example/disks/" }),
		"https://images.example/disks/x/..":              with(func(u *addresses.URL) { u.Path, u.Canonical = "/disks/", "https://images.example/disks/" }),
		"https://images.example":                         with(func(u *addresses.URL) { u.Path, u.Canonical = "/", "https://images.example/" }),
		"http://images.example:80": with(func(u *addresses.URL) {
			u.Scheme, u.Port, u.Path, u.Canonical = "http", 80, "/", "http://images.example/"
		}),
		"gs://bucket/a.img":                                  {Canonical: "gs://bucket/a.img", Scheme: "gs", Authority: "bucket", Host: "bucket", Path: "/a.img"},
		"http://[2001:DB8::0:1]:80/a":                        {Canonical: "http://[2001:db8::1]/a", Scheme: "http", Authority: "[2001:db8::1]", Host: "2001:db8::1", Port: 80, Path: "/a"},
		"http://[::ffff:10.0.0.1]/a":                         {Canonical: "http://10.0.0.1/a", Scheme: "http", Authority: "10.0.0.1", Host: "10.0.0.1", Port: 80, Path: "/a"},
		"https://images.example@evil.example/disks/a.qcow2":  {Canonical: "https://evil.example/disks/a.qcow2", Scheme: "https", Authority: "evil.example", Host: "evil.example", Port: 443, Path: "/disks/a.qcow2", UserInfo: true},
		"https://evil.example#@images.example/disks/a.qcow2": {Canonical: "https://evil.example/", Scheme: "https", Authority: "evil.example", Host: "evil.example", Port: 443, Path: "/"},
		"https://evil.example/?x=//images.example/disks":     {Canonical: "https://evil.example/?x=//images.example/disks", Scheme: "https", Authority: "evil.example", Host: "evil.example", Port: 443, Path: "/", Query: "x=//images.example/disks"},
		"https://images.example.evil.example/disks/a.qcow2":  {Canonical: "https://images.example.evil.example/disks/a.qcow2", Scheme: "https", Authority: "images.example.evil.example", Host: "images.example.evil.example", Port: 443, Path: "/disks/a.qcow2"},
		"https://xn--exmple-4nf.example/a":                   {Canonical: "https://xn--exmple-4nf.example/a", Scheme: "https", Authority: "xn--exmple-4nf.example", Host: "xn--exmple-4nf.example", Port: 443, Path: "/a"},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := addresses.ParseURL(text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoURL(t *testing.T) {
	for _, text := range []string{
		"", "a", "/a/b", "//images.example/a", "http:images.example", "http://", "http:///a", "mailto:a@b.example",
		"https://images.example\\@evil.example/", "https://evil.example\\.images.example/", "https://im ages.example/",
		"https://images.example\n/", "https://im%61ges.example/", "https://im\u0430ges.example/", "https://\uff45vil.example/",
		"https://2130706433/", "https://0x7f000001/", "https://127.1/", "https://0177.0.0.1/", "https://1.2.3.4.5/",
		"https://[fe80::1%25eth0]/", "https://[::1/", "https://images.example:0/", "https://images.example:99999/",
		"https://images.example:80:90/", "https://a..b/", "https://-/", "https://./", "https://" + strings.Repeat("a", addresses.MaxText),
	} {
		t.Run(text, func(t *testing.T) {
			if got, err := addresses.ParseURL(text); err == nil {
				t.Errorf("it is %+v, and should be an error", got)
			}
		})
	}
}

// Whatever has a normal form reaches the host that Go's client reaches, and the normal form of that is itself.
func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{"https://a.example/b", "HTTP://A.example.:080/../b/", "gs://a/b?c#d", "http://[::1]/%2e", "http://a@b/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := addresses.ParseURL(text)
		if err != nil {
			return
		}
		again, err := addresses.ParseURL(u.Canonical)
		if err != nil {
			t.Fatalf("%q is %q, which is no URL: %v", text, u.Canonical, err)
		}
		again.UserInfo = u.UserInfo
		if diff := cmp.Diff(u, again); diff != "" {
			t.Errorf("the canonical form of %q has another one (-first +second):\n%s", text, diff)
		}
		native, err := url.Parse(text)
		if err != nil {
			t.Fatalf("Go does not read %q: %v", text, err)
		}
		if host := strings.TrimSuffix(strings.ToLower(native.Hostname()), "."); host != u.Host && !strings.Contains(host, ":") {
			t.Errorf("Go connects to %q, and not to %q", host, u.Host)
		}
	})
}
