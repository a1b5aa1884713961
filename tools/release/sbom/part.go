package sbom

import (
	"cmp"
	"debug/buildinfo"
	"fmt"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
)

// Kinds of parts.
const (
	Program   = "application"
	Module    = "library"
	Container = "container"
	File      = "file"
)

// Part is an artifact, or something in it.
type Part struct {
	Kind, Name, Version string
	// URL is the package URL (purl).
	URL string
	// SHA256 is the digest in hexadecimal digits; empty for modules, whose digest Go computes in another way.
	SHA256 string
	// Sum is Go's digest of a module.
	Sum string
	// Parts are in this one.
	Parts []*Part
}

// ReadProgram returns a program with its modules.
func ReadProgram(name, version, path, sha256 string) (*Part, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the modules of %s: %w", path, err)
	}
	program := &Part{Kind: Program, Name: name, Version: version, URL: moduleURL(info.Path, version), SHA256: sha256}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	program.Parts = append(program.Parts, &Part{Kind: Module, Name: "stdlib", Version: goVersion, URL: moduleURL("stdlib", goVersion)})
	for _, module := range info.Deps {
		program.Parts = append(program.Parts, moduleOf(module))
	}
	slices.SortFunc(program.Parts, func(a, b *Part) int { return cmp.Compare(a.URL, b.URL) })
	return program, nil
}

func moduleOf(module *debug.Module) *Part {
	if module.Replace != nil {
		module = module.Replace
	}
	return &Part{Kind: Module, Name: module.Path, Version: module.Version, URL: moduleURL(module.Path, module.Version), Sum: module.Sum}
}

// moduleURL escapes a module's path, but not its slashes.
func moduleURL(path, version string) string {
	return "pkg:golang/" + strings.ReplaceAll(url.PathEscape(path), "%2F", "/") + "@" + url.QueryEscape(version)
}

// all returns a part and those in it, each URL and digest once.
func all(artifact *Part) []*Part {
	var found []*Part
	seen := map[string]bool{}
	var visit func(*Part)
	visit = func(p *Part) {
		if seen[p.id()] {
			return
		}
		seen[p.id()] = true
		found = append(found, p)
		for _, inner := range p.Parts {
			visit(inner)
		}
	}
	visit(artifact)
	return found
}

// id identifies a part in a document: programs of several architectures have one URL, and digests of their own.
func (p *Part) id() string {
	if p.SHA256 != "" {
		return p.Kind + "-" + p.SHA256[:16] + "-" + letters(p.Name)
	}
	return p.Kind + "-" + letters(p.Name) + "-" + letters(p.Version)
}

// letters replaces what SPDX does not permit in an identifier.
func letters(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, text)
}
