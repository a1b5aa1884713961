package addresses

import (
	// This package needs digests of both kinds.
	_ "crypto/sha256"
	_ "crypto/sha512"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/distribution/reference"
)

// Bounds of a text, in bytes. The grammar allows 255 of a repository, 128 of a tag, and 136 of a digest; DNS allows
// 253 of a host. Reading a text takes less than 0.2 ms on one core.
const (
	MaxText   = 1 << 10
	maxDomain = 253 + len(":65535")
)

// dockerHub is the registry of an image that names none.
const dockerHub = "docker.io"

// localhost is the only registry whose name may have neither a dot nor a port.
const localhost = "localhost"

// The transports of an image. CDI imports from both; a container names neither.
const (
	TransportDocker     = "docker"
	TransportOCIArchive = "oci-archive"
)

// Image is what a container runtime pulls.
type Image struct {
	// Canonical is NAME@DIGEST, or NAME:TAG without a digest.
	Canonical string `json:"canonical"`
	// Name is REGISTRY/REPOSITORY. A list of allowed places compares this one.
	Name string `json:"name"`
	// Registry is the host in lower case, and the port unless it is 443: quay.io, registry.example:5000. A host without
	// a dot always has its port.
	Registry string `json:"registry"`
	// Host is the registry without its port; an IPv6 address has no brackets.
	Host string `json:"host"`
	// Port is 443 unless the image names another one.
	Port int64 `json:"port"`
	// Repository is the path in the registry: library/fedora.
	Repository string `json:"repository"`
	// Tag is latest if the image names neither a tag nor a digest. It is empty with a digest: the runtime ignores it.
	Tag string `json:"tag"`
	// Digest is ALGORITHM:HEX; empty without one.
	Digest string `json:"digest"`
	// Qualified tells that the text names the registry. containerd takes any other image from docker.io; CRI-O takes
	// it from the registries that registries.conf of the node lists.
	Qualified bool `json:"qualified"`
	// Transport is the part before ://, in lower case; empty if there is none.
	Transport string `json:"transport"`
}

var (
	schemePattern  = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*)://`)
	imageIDPattern = regexp.MustCompile(`^(sha(256|384|512):)?[0-9a-f]{64,128}$`)
)

// ParseImage reads a reference as containerd and the kubelet do, and the URL of a registry as CDI does.
func ParseImage(text string) (Image, error) {
	if len(text) > MaxText {
		return Image{}, fmt.Errorf("the image has %d bytes: at most %d", len(text), MaxText)
	}
	transport, rest, err := cutTransport(text)
	if err != nil {
		return Image{}, err
	}
	if first, _, found := strings.Cut(rest, "/"); found && len(first) > maxDomain {
		return Image{}, fmt.Errorf("the registry has %d bytes: at most %d", len(first), maxDomain)
	}
	if imageIDPattern.MatchString(rest) {
		return Image{}, errors.New("an image ID names an image on the node, from any registry")
	}
	named, err := reference.ParseDockerRef(rest)
	if err != nil {
		return Image{}, fmt.Errorf("no reference to an image: %w", err)
	}
	image := Image{Repository: reference.Path(named), Transport: transport, Qualified: qualified(rest)}
	if err := image.locate(reference.Domain(named)); err != nil {
		return Image{}, err
	}
	image.Name = image.Registry + "/" + image.Repository
	switch ref := named.(type) {
	case reference.Digested:
		image.Digest = ref.Digest().String()
		image.Canonical = image.Name + "@" + image.Digest
	case reference.Tagged:
		image.Tag = ref.Tag()
		image.Canonical = image.Name + ":" + image.Tag
	}
	return image, nil
}

// cutTransport takes the transport off a text. CDI reads the rest in two ways: its importer hands it on as it is, and
// with the pull method node it takes host and path of the URL. Both must be the same.
func cutTransport(text string) (transport, rest string, err error) {
	scheme := schemePattern.FindStringSubmatch(text)
	if scheme == nil {
		return "", text, nil
	}
	transport = strings.ToLower(scheme[1])
	if transport != TransportDocker && transport != TransportOCIArchive {
		return "", "", fmt.Errorf("the transport %s is neither %s nor %s", transport, TransportDocker, TransportOCIArchive)
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return "", "", fmt.Errorf("no URL of a registry: %w", withoutText(err))
	}
	if rest = text[len(scheme[0]):]; rest != parsed.Host+parsed.Path {
		return "", "", errors.New("the URL of a registry has no user, no query, no fragment, and no percent encoding")
	}
	return transport, rest, nil
}

// qualified reports whether the first part of a reference is a registry.
func qualified(text string) bool {
	first, _, found := strings.Cut(text, "/")
	return found && (first == localhost || strings.ContainsAny(first, ".:") || strings.ToLower(first) != first)
}

// locate sets the registry. Without a port, docker.io is another name of a host. With a port, it is the host of
// that name.
func (i *Image) locate(domain string) error {
	host, port, err := splitHost(domain, 443)
	if err != nil {
		return err
	}
	i.Host, i.Port, i.Registry = host, port, joinHost(host, port, 443)
	switch {
	case i.Host == dockerHub && strings.Contains(domain, ":"), !strings.ContainsAny(i.Registry, ".:") && i.Host != localhost:
		// Without its port, this would be another registry, or a part of the repository.
		i.Registry = fmt.Sprintf("%s:%d", host, port)
	case i.Host == dockerHub && domain != dockerHub:
		return fmt.Errorf("the runtime knows %s in lower case only", dockerHub)
	}
	return nil
}

// splitHost is a host in its normal form and its port.
func splitHost(text string, port int64) (host string, number int64, err error) {
	host, number = text, port
	if at := strings.LastIndexByte(text, ':'); at >= 0 && !strings.HasSuffix(text, "]") {
		n, err := strconv.ParseUint(text[at+1:], 10, 16)
		switch {
		case text[at+1:] == "": // as without
		case err != nil || n == 0:
			return "", 0, errors.New("the port is not between 1 and 65535")
		default:
			number = int64(n)
		}
		host = text[:at]
	}
	host, err = normalHost(host)
	return host, number, err
}

// joinHost is a host and its port, which is left out if it is the default.
func joinHost(host string, port, byDefault int64) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port == byDefault {
		return host
	}
	return fmt.Sprintf("%s:%d", host, port)
}

var hostPattern = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$`)

// normalHost is a name in lower case without the dot at its end, or an address in its shortest form. Numbers that
// some clients read as an IPv4 address, and others as a name, are rejected, and so is what is not ASCII.
func normalHost(host string) (string, error) {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		address, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		if err != nil || address.Zone() != "" || !strings.HasSuffix(inner, "]") {
			return "", errors.New("the brackets contain no IPv6 address")
		}
		return address.Unmap().String(), nil
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if !hostPattern.MatchString(host) || len(host) > 253 {
		return "", errors.New("the host is neither a name in ASCII nor an address")
	}
	if last := host[strings.LastIndexByte(host, '.')+1:]; isNumber(last) {
		address, err := netip.ParseAddr(host)
		if err != nil {
			return "", errors.New("the host is a number, but no IPv4 address of four decimal parts")
		}
		return address.String(), nil
	}
	return host, nil
}

// isNumber reports whether a client may read a part of a name as part of an IPv4 address.
func isNumber(part string) bool {
	if digits, ok := strings.CutPrefix(part, "0x"); ok {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return strings.Trim(part, "0123456789") == ""
}

// withoutText is an error of net/url without the text that it is about.
func withoutText(err error) error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
