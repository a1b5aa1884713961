package addresses

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
)

// URL is where a client connects to, and what it asks for there.
type URL struct {
	// Canonical is the whole: SCHEME://AUTHORITY PATH ?QUERY, without user and fragment.
	Canonical string `json:"canonical"`
	// Scheme is in lower case.
	Scheme string `json:"scheme"`
	// Authority is the host, and the port unless it is the scheme's own.
	Authority string `json:"authority"`
	// Host is in lower case and has no dot at its end; an IPv6 address has no brackets.
	Host string `json:"host"`
	// Port is the scheme's own if the URL names none; 0 if the scheme has none.
	Port int64 `json:"port"`
	// Path is decoded once, and has no . and no .. in it; it is / if the URL has none.
	Path string `json:"path"`
	// Query is the part after the question mark, unchanged.
	Query string `json:"query"`
	// UserInfo reports whether there is a name, or a name and a password, before the host.
	UserInfo bool `json:"userInfo"`
}

// defaultPorts are those that clients connect to if a URL names none.
var defaultPorts = map[string]int64{"http": 80, "https": 443, "docker": 443, "ftp": 21, "ssh": 22, "nfs": 2049}

// ParseURL reads a URL as CDI's importer and Go's client do.
func ParseURL(text string) (URL, error) {
	if len(text) > MaxText {
		return URL{}, fmt.Errorf("the URL has %d bytes: at most %d", len(text), MaxText)
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return URL{}, fmt.Errorf("no URL: %w", withoutText(err))
	}
	switch {
	case parsed.Scheme == "" || parsed.Opaque != "" || parsed.Host == "":
		return URL{}, errors.New("no URL: it is written SCHEME://HOST/PATH")
	case strings.Contains(parsed.Host, "%"):
		return URL{}, errors.New("no URL: the host has percent encoding or a zone")
	case strings.ContainsRune(text, '\\'):
		return URL{}, errors.New("no URL: some clients read a backslash as a slash")
	}
	u := URL{Scheme: strings.ToLower(parsed.Scheme), Query: parsed.RawQuery, UserInfo: parsed.User != nil}
	byDefault := defaultPorts[u.Scheme]
	if u.Host, u.Port, err = splitHost(parsed.Host, byDefault); err != nil {
		return URL{}, fmt.Errorf("no URL: %w", err)
	}
	u.Authority = joinHost(u.Host, u.Port, byDefault)
	u.Path = path.Clean("/" + parsed.Path)
	if last := parsed.Path[strings.LastIndexByte(parsed.Path, '/')+1:]; u.Path != "/" && (last == "" || last == "." || last == "..") && parsed.Path != "" {
		u.Path += "/"
	}
	canonical := url.URL{Scheme: u.Scheme, Host: u.Authority, Path: u.Path, RawQuery: u.Query}
	u.Canonical = canonical.String()
	return u, nil
}
