package signatures

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/addresses"
)

// Limits of requirements.
const (
	// MaxRules bounds the rules, MaxRequirements their text in bytes.
	MaxRules        = 50
	MaxRequirements = 1 << 20
)

// Rule requires a signature of each artifact below a prefix: by one of the keys, or by one of the identities.
type Rule struct {
	// Prefix is a registry, a folder of it, or a repository: quay.io, or quay.io/templates.
	Prefix string `json:"prefix"`
	// Keys are public keys in PEM.
	Keys []string `json:"keys,omitempty"`
	// Identities are signers without a key of their own. They need TrustedRoot, the JSON of Sigstore's trusted_root.json.
	Identities  []Identity `json:"identities,omitempty"`
	TrustedRoot string     `json:"trustedRoot,omitempty"`
}

// Requirements say which artifacts must be signed, and by whom. Nil requires no signature. It is safe for concurrent use.
type Requirements struct{ rules []required }

// required is a rule that is ready.
type required struct {
	prefix    string
	authority *Authority
}

// ParseRequirements reads a list of rules in YAML. The error names the first wrong field.
func ParseRequirements(data []byte) (*Requirements, error) {
	if len(data) > MaxRequirements {
		return nil, fmt.Errorf("the rules have more than %d KiB", MaxRequirements>>10)
	}
	var rules []Rule
	if err := yaml.UnmarshalStrict(data, &rules); err != nil {
		return nil, fmt.Errorf("the rules are not valid: %w", err)
	}
	if len(rules) > MaxRules {
		return nil, fmt.Errorf("there are %d rules: at most %d", len(rules), MaxRules)
	}
	r := &Requirements{}
	for i := range rules {
		ready, err := rules[i].ready()
		if err != nil {
			return nil, fmt.Errorf("[%d].%w", i, err)
		}
		if slices.ContainsFunc(r.rules, func(other required) bool { return other.prefix == ready.prefix }) {
			return nil, fmt.Errorf("[%d].prefix: there is another rule for %s", i, ready.prefix)
		}
		r.rules = append(r.rules, ready)
	}
	return r, nil
}

// ready checks a rule.
func (r *Rule) ready() (required, error) {
	const below = "/x/x" // a repository below the prefix
	image, err := addresses.ParseImage(r.Prefix + below)
	if err != nil || !image.Qualified || image.Transport != "" || image.Name+":latest" != image.Canonical || strings.ContainsAny(r.Prefix, "@") {
		return required{}, fmt.Errorf("prefix: %q is neither a registry nor a part of its repositories: use quay.io, or quay.io/templates", r.Prefix)
	}
	made := required{prefix: strings.TrimSuffix(canonical(image.Registry, image.Repository), below)}
	switch {
	case len(r.Keys) > 0 && len(r.Identities) > 0:
		return required{}, errors.New("identities: a rule has either keys or identities")
	case len(r.Keys) > 0:
		keys := make([]Key, len(r.Keys))
		for i, text := range r.Keys {
			keys[i] = Key{Name: fmt.Sprintf("%d of %s", i+1, made.prefix), PEM: []byte(text)}
		}
		made.authority, err = Keys(keys)
		return made, at("keys", err)
	case len(r.Identities) > 0 && r.TrustedRoot == "":
		return required{}, errors.New("trustedRoot: identities need the JSON of trusted_root.json")
	case len(r.Identities) > 0:
		made.authority, err = Identities(r.Identities, []byte(r.TrustedRoot))
		return made, at("identities", err)
	}
	return required{}, errors.New("keys: name a key, or an identity")
}

func at(field string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", field, err)
}

// dockerHub are the names of one registry.
var dockerHub = []string{"docker.io", "index.docker.io", "registry-1.docker.io"}

// canonical is the name of a repository. Each repository of Docker Hub has one.
func canonical(registry, repository string) string {
	if slices.Contains(dockerHub, registry) {
		registry = dockerHub[0]
		if !strings.Contains(repository, "/") {
			repository = "library/" + repository
		}
	}
	return registry + "/" + repository
}

// Of returns who must have signed the artifacts of a repository, by the longest prefix; nil if no signature is required. A prefix without a
// port is that of all ports of the host: a registry can listen on several, and its users choose one.
func (r *Requirements) Of(registry, repository string) *Authority {
	if r == nil {
		return nil
	}
	names := []string{canonical(registry, repository)}
	if colon := strings.LastIndexByte(registry, ':'); colon > strings.LastIndexByte(registry, ']') {
		names = append(names, canonical(registry[:colon], repository))
	}
	var found *required
	for i := range r.rules {
		rule := &r.rules[i]
		below := slices.ContainsFunc(names, func(name string) bool { return name == rule.prefix || strings.HasPrefix(name, rule.prefix+"/") })
		if below && (found == nil || len(rule.prefix) > len(found.prefix)) {
			found = rule
		}
	}
	if found == nil {
		return nil
	}
	return found.authority
}
