package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/validators"
)

func registry(t *testing.T) *hypervisors.Registry {
	t.Helper()
	r, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestThePageIsUpToDate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hypervisors.md")
	if err := run(file); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile(filepath.Join("..", "..", "docs", "hypervisors.md"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(committed), string(written)); diff != "" {
		t.Errorf("docs/hypervisors.md is out of date, run make generate (-committed +generated):\n%s", diff)
	}
}

// TestThePageHasEverything: a section for each pair, a row for each line, and links to rules that exist.
func TestThePageHasEverything(t *testing.T) {
	r := registry(t)
	text := page(r)
	for _, key := range r.Keys() {
		hypervisor, architecture, _ := strings.Cut(key, "/")
		_, section, found := strings.Cut(text, "\n## "+key+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		if !found {
			t.Errorf("there is no section of %s", key)
		}
		for _, line := range particular(r.Support(hypervisor, architecture)) {
			if !strings.Contains(section, "| `"+line.Capability.Name+"` | "+string(line.Level)+" |") {
				t.Errorf("the section of %s does not have %s", key, line.Capability.Name)
			}
		}
	}
	ids := map[string]bool{}
	for _, rule := range r.Rules() {
		ids[rule.ID] = true
	}
	links := regexp.MustCompile(`rules/([a-z0-9-]+)\.md`).FindAllStringSubmatch(text, -1)
	if len(links) < 30 {
		t.Errorf("only %d links to rules", len(links))
	}
	for _, link := range links {
		if !ids[link[1]] {
			t.Errorf("the page links to the rule %s, which there is not", link[1])
		}
	}
}

func TestRows(t *testing.T) {
	var b strings.Builder
	table(&b, validators.SupportTable{
		{Capability: validators.Capability{Name: "a", Title: "One | thing"}, Level: validators.Unsupported, Rule: "x-a", Detail: "over\ntwo lines", Source: "a manual"},
		{Capability: validators.Capability{Name: "b", Title: "Another"}, Level: validators.Experimental, Gate: "VSOCK", Source: "VEP 97"},
		{Capability: validators.Capability{Name: "c", Title: "A third"}, Level: validators.Experimental, Gate: "Snapshot", Source: "VEP 97"},
	})
	want := "| Capability | Name | Level | Feature gate | In detail | Rule | Source |\n|---|---|---|---|---|---|---|\n" +
		"| One \\| thing | `a` | unsupported | – | over two lines | [x-a](rules/x-a.md) | a manual |\n" +
		"| Another | `b` | experimental | `VSOCK`, off by default | – | – | VEP 97 |\n" +
		"| A third | `c` | experimental | `Snapshot`, on by default | – | – | VEP 97 |\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
