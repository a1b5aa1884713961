package addresses_test

import (
	"strings"
	"testing"

	"github.com/distribution/reference"
	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/addresses"
)

const digest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

func TestParseImage(t *testing.T) {
	fedora := addresses.Image{
		Canonical: "quay.io/containerdisks/fedora:42", Name: "quay.io/containerdisks/fedora", Registry: "quay.io",
		Host: "quay.io", Port: 443, Repository: "containerdisks/fedora", Tag: "42", Qualified: true,
	}
	with := func(change func(*addresses.Image)) addresses.Image {
		image := fedora
		change(&image)
		return image
	}
	hub := addresses.Image{
		Canonical: "docker.io/library/fedora:latest", Name: "docker.io/library/fedora", Registry: "docker.io",
		Host: "docker.io", Port: 443, Repository: "library/fedora", Tag: "latest",
	}
	hubNamed := hub
	hubNamed.Qualified = true
	tests := map[string]addresses.Image{
		"quay.io/containerdisks/fedora:42":               fedora,
		"QUAY.io/containerdisks/fedora:42":               fedora,
		"quay.io:443/containerdisks/fedora:42":           fedora,
		"quay.io:00443/containerdisks/fedora:42":         fedora,
		"docker://quay.io/containerdisks/fedora:42":      with(func(i *addresses.Image) { i.Transport = "docker" }),
		"DOCKER://quay.io/containerdisks/fedora:42":      with(func(i *addresses.Image) { i.Transport = "docker" }),
		"OCI-archive://Quay.io/containerdisks/fedora:42": with(func(i *addresses.Image) { i.Transport = "oci-archive" }),
		"quay.io:5000/containerdisks/fedora:42": with(func(i *addresses.Image) {
			i.Registry, i.Port, i.Name, i.Canonical = "quay.io:5000", 5000, "quay.io:5000/containerdisks/fedora", "quay.io:5000/containerdisks/fedora:42"
		}),
		"quay.io/containerdisks/fedora@" + digest: with(func(i *addresses.Image) {
			i.Tag, i.Digest, i.Canonical = "", digest, "quay.io/containerdisks/fedora@"+digest
		}),
		"quay.io/containerdisks/fedora:42@" + digest: with(func(i *addresses.Image) {
			i.Tag, i.Digest, i.Canonical = "", digest, "quay.io/containerdisks/fedora@"+digest
		}),
		"fedora":                          hub,
		"library/fedora":                  hub,
		"docker.io/fedora":                hubNamed,
		"index.docker.io/fedora:latest":   hubNamed,
		"docker.io/library/fedora:latest": hubNamed,
		"docker.io:443/fedora": {
			Canonical: "docker.io:443/fedora:latest", Name: "docker.io:443/fedora", Registry: "docker.io:443",
			Host: "docker.io", Port: 443, Repository: "fedora", Tag: "latest", Qualified: true,
		},
		"localhost/fedora": {
			Canonical: "localhost/fedora:latest", Name: "localhost/fedora", Registry: "localhost",
			Host: "localhost", Port: 443, Repository: "fedora", Tag: "latest", Qualified: true,
		},
		"MyHost/fedora": {
			Canonical: "myhost:443/fedora:latest", Name: "myhost:443/fedora", Registry: "myhost:443",
			Host: "myhost", Port: 443, Repository: "fedora", Tag: "latest", Qualified: true,
		},
		"[2001:DB8:0::1]:5000/fedora": {
			Canonical: "[2001:db8::1]:5000/fedora:latest", Name: "[2001:db8::1]:5000/fedora", Registry: "[2001:db8::1]:5000",
			Host: "2001:db8::1", Port: 5000, Repository: "fedora", Tag: "latest", Qualified: true,
		},
		"evil.example/quay.io/containerdisks/fedora:42": {
			Canonical: "evil.example/quay.io/containerdisks/fedora:42", Name: "evil.example/quay.io/containerdisks/fedora", Registry: "evil.example",
			Host: "evil.example", Port: 443, Repository: "quay.io/containerdisks/fedora", Tag: "42", Qualified: true,
		},
	}
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			got, err := addresses.ParseImage(text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoImage(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "invalid reference format",
		" quay.io/fedora":                        "invalid reference format",
		"quay.io/fedora ":                        "invalid reference format",
		"quay.io/fedora\n":                       "invalid reference format",
		"quay.io./fedora":                        "invalid reference format",
		"quay.io/Fedora":                         "must be lowercase",
		"quay.io//fedora":                        "invalid reference format",
		"quay.io/a/../fedora":                    "invalid reference format",
		"quay.io/%66edora":                       "invalid reference format",
		"qu\u0430y.io/fedora":                    "invalid reference format",
		"evil@quay.io/fedora":                    "invalid reference format",
		"DOCKER.io/fedora":                       "in lower case only",
		"quay.io:0/fedora":                       "port",
		"quay.io:70000/fedora":                   "port",
		"0x7f.1/fedora":                          "no IPv4 address",
		"127.1/fedora":                           "no IPv4 address",
		digest:                                   "an image ID",
		strings.TrimPrefix(digest, "sha256:"):    "an image ID",
		"docker://" + digest:                     "",
		"docker:quay.io/fedora":                  "invalid reference format",
		"docker:///fedora":                       "invalid reference format",
		"docker://evil@quay.io/fedora":           "no user",
		"docker://quay.io/fedora?x=y":            "no query",
		"docker://quay.io/fedora#x":              "no fragment",
		"docker://quay.io/fed%6fra":              "no percent encoding",
		"docker://quay.io%2ffedora":              "no URL of a registry",
		"http://quay.io/fedora":                  "the transport http is neither",
		"docker-archive:///tmp/x.tar":            "the transport docker-archive is neither",
		"oci-archive:///tmp/x.tar":               "invalid reference format",
		strings.Repeat("a", addresses.MaxText+1): "at most",
		strings.Repeat("a/", 200) + "a":          "repository name must not be more than 255",
	} {
		t.Run(text, func(t *testing.T) {
			image, err := addresses.ParseImage(text)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("it is %+v, %v, and should fail with %q", image, err, want)
			}
		})
	}
}

// Whatever has a normal form is a reference to containerd too, and one with the same registry, path, tag and digest.
func FuzzParseImage(f *testing.F) {
	for _, seed := range []string{"fedora", "quay.io/a/b:c", "QUAY.io:443/a@" + digest, "docker://[::1]:80/a", "a.b:1/c", digest} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		image, err := addresses.ParseImage(text)
		if err != nil {
			return
		}
		again, err := addresses.ParseImage(image.Canonical)
		if err != nil {
			t.Fatalf("%q is %q, which is no image: %v", text, image.Canonical, err)
		}
		again.Qualified, again.Transport = image.Qualified, image.Transport
		if diff := cmp.Diff(image, again); diff != "" {
			t.Errorf("the canonical form of %q has another one (-first +second):\n%s", text, diff)
		}
		_, rest, found := strings.Cut(text, "://")
		if !found {
			rest = text
		}
		named, err := reference.ParseDockerRef(rest)
		if err != nil {
			t.Fatalf("containerd does not read %q: %v", rest, err)
		}
		if got := reference.Path(named); got != image.Repository {
			t.Errorf("containerd reads the repository %q of %q, and not %q", got, rest, image.Repository)
		}
	})
}
