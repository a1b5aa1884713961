package signatures_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtward/virtward/sources/signatures"
	sign "github.com/virtward/virtward/sources/signatures/signaturestest"
)

// TestRequirements: the rule with the longest prefix counts, whatever name of a registry a reference has.
func TestRequirements(t *testing.T) {
	key := indented(sign.NewKey(t).PEM(t))
	text := ""
	for _, prefix := range []string{"quay.io", "quay.io/templates", "Registry.example:5000/a/b", "docker.io/team"} {
		text += fmt.Sprintf("- prefix: %s\n  keys:\n  - |\n%s", prefix, key)
	}
	r, err := signatures.ParseRequirements([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"quay.io other/web":                "1 of quay.io",
		"quay.io templates/web":            "1 of quay.io/templates",
		"quay.io templates":                "1 of quay.io/templates",
		"quay.io templatesandmore/web":     "1 of quay.io",
		"quay.io:8443 templates/web":       "1 of quay.io/templates",
		"docker.io:443 team/web":           "1 of docker.io/team",
		"[2001:db8::1] a":                  "",
		"registry.example:5000 a/b":        "1 of registry.example:5000/a/b",
		"registry.example:5000 a/c":        "",
		"registry.example a/b":             "",
		"docker.io team/web":               "1 of docker.io/team",
		"index.docker.io team/web":         "1 of docker.io/team",
		"registry-1.docker.io team/a/b":    "1 of docker.io/team",
		"index.docker.io team":             "",
		"notquay.io templates/web":         "",
		"quay.io.example.com templates/it": "",
	} {
		registry, repository, _ := strings.Cut(name, " ")
		got := ""
		if a := r.Of(registry, repository); a != nil {
			got = strings.TrimPrefix(a.String(), "key ")
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if none := (*signatures.Requirements)(nil).Of("quay.io", "a"); none != nil {
		t.Error("without rules, a signature is required")
	}
}

// TestRequirementsErrors: what is wrong names its field.
func TestRequirementsErrors(t *testing.T) {
	key := indented(sign.NewKey(t).PEM(t))
	root := indented(sign.NewAuthority(t).TrustedRoot(t, false))
	for text, want := range map[string]string{
		"- prefix: quay.io\n  key: a":             "unknown field",
		"- prefix: quay.io":                       "[0].keys: name a key, or an identity",
		"- keys: [a]":                             "[0].prefix: ",
		"- prefix: quay.io/a:1\n  keys: [a]":      "[0].prefix: ",
		"- prefix: templates\n  keys: [a]":        "[0].prefix: ",
		"- prefix: docker://quay.io\n  keys: [a]": "[0].prefix: ",
		"- prefix: quay.io/a@sha256\n  keys: [a]": "[0].prefix: ",
		"- prefix: quay.io\n  keys: [a]":          "[0].keys: 1 of quay.io: it has no public key",
		"- prefix: quay.io\n  keys: [a]\n  identities: [{subject: a, issuer: b}]":         "[0].identities: ",
		"- prefix: quay.io\n  identities: [{subject: a, issuer: b}]":                      "[0].trustedRoot: ",
		"- prefix: quay.io\n  identities: [{}]\n  trustedRoot: |\n" + root:                "[0].identities: ",
		"- prefix: quay.io\n  identities: [{subject: a, issuer: b}]\n  trustedRoot: '{}'": "[0].identities: ",
		strings.Repeat("- prefix: quay.io\n  keys:\n  - |\n"+key, 2):                      "[1].prefix: there is another rule for quay.io",
		strings.Repeat("- {}\n", signatures.MaxRules+1):                                   "51 rules: at most 50",
		strings.Repeat(" ", signatures.MaxRequirements+1):                                 "more than 1024 KiB",
	} {
		if _, err := signatures.ParseRequirements([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: got %v, want %s", text, err, want)
		}
	}
	if _, err := signatures.ParseRequirements([]byte("- prefix: quay.io\n  identities: [{subject: release@example.com, issuer: https://issuer.example.com}]\n  trustedRoot: |\n" + root)); err != nil {
		t.Error(err)
	}
}

// indented is a text as a block of YAML.
func indented(text []byte) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n    ") + "\n"
}
