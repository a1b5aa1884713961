package catalogue

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtward/virtward/cli/catalogue/examples"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/validators"
)

// Entry is a rule with the platforms that have it. Its JSON form is documented, and fields are only ever added
// to it.
type Entry struct {
	// ID is stable. Title says what the rule requires.
	ID    string `json:"id"`
	Title string `json:"title"`
	// Severity is the default severity: Deny or Warn.
	Severity validators.Severity `json:"severity"`
	// AppliesTo names the scopes of the rule.
	AppliesTo []string `json:"appliesTo"`
	// Platforms are the hypervisors and architectures of the rule, such as kvm/amd64.
	Platforms []string `json:"platforms"`
	// SecurityRelevant reports whether users need a permission of its own to weaken the rule.
	SecurityRelevant bool `json:"securityRelevant"`
	// AtStart reports whether KubeVirt itself validates this only when a VM starts.
	AtStart bool `json:"atStart"`
	// Remedy says what to do about a finding.
	Remedy string `json:"remedy"`
	// Example violates the rule, and has a patch that does what Remedy says.
	Example *examples.Example `json:"example,omitempty"`

	// on is a short description of the platforms.
	on string
}

// New lists the rules of a registry, sorted by id.
func New(registry *hypervisors.Registry) ([]Entry, error) {
	all := registry.Keys()
	platforms := map[string][]string{}
	for _, key := range all {
		hypervisor, architecture, _ := strings.Cut(key, "/")
		validator, err := registry.Validator(hypervisor, architecture)
		if err != nil {
			return nil, err
		}
		for _, rule := range validator.Rules() {
			platforms[rule.ID] = append(platforms[rule.ID], key)
		}
	}
	shown, err := examples.All()
	if err != nil {
		return nil, err
	}
	rules := registry.Rules()
	entries := make([]Entry, 0, len(rules))
	for i := range rules {
		r := &rules[i]
		entries = append(entries, Entry{
			ID: r.ID, Title: r.Title, Severity: r.Severity, AppliesTo: r.Scope.Names(), Platforms: platforms[r.ID],
			SecurityRelevant: r.Security, AtStart: r.AtStart, Remedy: r.Remedy, Example: shown[r.ID], on: describe(platforms[r.ID], all),
		})
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.ID, b.ID) })
	return entries, nil
}

// anywhere describes all platforms.
const anywhere = "all"

// describe describes platforms: by their hypervisors or their architectures if that is sufficient.
func describe(platforms, all []string) string {
	hypervisors, architectures := factors(platforms)
	everyHypervisor, everyArchitecture := factors(all)
	switch {
	case len(platforms) == len(all):
		return anywhere
	case len(hypervisors)*len(architectures) != len(platforms):
	case len(hypervisors) == len(everyHypervisor):
		return strings.Join(architectures, ", ")
	case len(architectures) == len(everyArchitecture):
		return strings.Join(hypervisors, ", ")
	}
	return strings.Join(platforms, ", ")
}

// factors returns the hypervisors and the architectures of platforms.
func factors(platforms []string) (hypervisors, architectures []string) {
	h, a := map[string]bool{}, map[string]bool{}
	for _, p := range platforms {
		hypervisor, architecture, _ := strings.Cut(p, "/")
		h[hypervisor], a[architecture] = true, true
	}
	return slices.Sorted(maps.Keys(h)), slices.Sorted(maps.Keys(a))
}

// scopes returns the scopes of the rule.
func (e *Entry) scopes() string {
	if len(e.AppliesTo) == len(validators.ScopeNames()) {
		return "everything"
	}
	return strings.Join(e.AppliesTo, ", ")
}

// Filter selects entries. An empty field selects all.
type Filter struct {
	// Hypervisor and Architecture are of a platform of the rule.
	Hypervisor, Architecture string
	// Scope is one of the Names of scopes.
	Scope string
}

// Select returns the entries that a filter selects, in their order.
func (f Filter) Select(entries []Entry) []Entry {
	chosen := make([]Entry, 0, len(entries))
	for i := range entries {
		if f.chooses(&entries[i]) {
			chosen = append(chosen, entries[i])
		}
	}
	return chosen
}

func (f Filter) chooses(e *Entry) bool {
	onPlatform := slices.ContainsFunc(e.Platforms, func(platform string) bool {
		hypervisor, architecture, _ := strings.Cut(platform, "/")
		return (f.Hypervisor == "" || f.Hypervisor == hypervisor) && (f.Architecture == "" || f.Architecture == architecture)
	})
	return onPlatform && (f.Scope == "" || slices.Contains(e.AppliesTo, f.Scope))
}

// weakened returns the next lower severity, which the examples set.
func (e *Entry) weakened() validators.Severity {
	if e.Severity == validators.Deny {
		return validators.Warn
	}
	return validators.Off
}

// effect describes what the example does, after "To".
func (e *Entry) effect() string {
	if e.weakened() == validators.Warn {
		return fmt.Sprintf("make findings of %s warnings", e.ID)
	}
	return fmt.Sprintf("switch %s off", e.ID)
}
