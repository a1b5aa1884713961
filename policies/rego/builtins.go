package rego

import (
	"slices"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
)

// The reasons why a built-in function is missing.
const (
	talks       = "it talks to the network"
	environment = "it depends on the process that it runs in"
	changes     = "its result differs from one call to the next"
	clock       = "it reads a clock, or keys and certificates that a clock makes invalid"
	unbounded   = "what it takes has no bound"
	elsewhere   = "it serves another purpose than evaluating a virtual machine"
	deprecated  = "Rego v1 no longer has this function"
)

// rejected are the others, with the reason. Every built-in function of OPA is either here or in pure: a test
// fails for a new one that is in neither.
func rejected() map[string]string {
	return map[string]string{
		"http.send": talks, "net.lookup_ip_addr": talks,
		"json.match_schema": talks, "json.verify_schema": talks, // for the schemas that a schema refers to
		"net.cidr_contains": elsewhere, "net.cidr_contains_matches": elsewhere, "net.cidr_intersects": elsewhere,
		"net.cidr_is_valid": elsewhere, "net.cidr_merge": elsewhere, "net.cidr_expand": unbounded,
		"opa.runtime": environment,
		"rand.intn":   changes, "uuid.rfc4122": changes, "uuid.parse": elsewhere,
		"time.now_ns": clock,
		"crypto.x509.parse_and_verify_certificates":              clock,
		"crypto.x509.parse_and_verify_certificates_with_options": clock,
		"crypto.x509.parse_certificate_request":                  elsewhere,
		"crypto.x509.parse_certificates":                         elsewhere,
		"crypto.x509.parse_keypair":                              elsewhere,
		"crypto.x509.parse_rsa_private_key":                      elsewhere,
		"crypto.parse_private_keys":                              elsewhere,
		"io.jwt.decode":                                          elsewhere, "io.jwt.decode_verify": clock,
		"io.jwt.encode_sign": changes, "io.jwt.encode_sign_raw": changes,
		"io.jwt.verify_eddsa": clock, "io.jwt.verify_es256": clock, "io.jwt.verify_es384": clock, "io.jwt.verify_es512": clock,
		"io.jwt.verify_hs256": clock, "io.jwt.verify_hs384": clock, "io.jwt.verify_hs512": clock,
		"io.jwt.verify_ps256": clock, "io.jwt.verify_ps384": clock, "io.jwt.verify_ps512": clock,
		"io.jwt.verify_rs256": clock, "io.jwt.verify_rs384": clock, "io.jwt.verify_rs512": clock,
		"providers.aws.sign_req":  elsewhere,
		"graph.reachable_paths":   unbounded,
		"regex.globs_match":       unbounded,
		"strings.render_template": unbounded,
		"graphql.is_valid":        elsewhere, "graphql.parse": elsewhere, "graphql.parse_and_verify": elsewhere,
		"graphql.parse_query": elsewhere, "graphql.parse_schema": elsewhere, "graphql.schema_is_valid": elsewhere,
		"rego.metadata.chain": elsewhere, "rego.metadata.rule": elsewhere, "rego.parse_module": elsewhere,
		"internal.test_case": elsewhere,
		"all":                deprecated, "any": deprecated, "re_match": deprecated, "set_diff": deprecated, "net.cidr_overlap": deprecated,
		"cast_array": deprecated, "cast_boolean": deprecated, "cast_null": deprecated, "cast_object": deprecated,
		"cast_set": deprecated, "cast_string": deprecated,
	}
}

// Builtins are the built-in functions of OPA that modules may not call, with the reason.
func Builtins() (missing map[string]string) { return rejected() }

// writtenFunctions are OPA's own capabilities, without the functions that are not pure and without a network, and with those of Virtward.
var writtenFunctions = sync.OnceValue(func() *ast.Capabilities {
	written := *capabilities()
	written.Builtins = slices.DeleteFunc(slices.Clone(written.Builtins), func(b *ast.Builtin) bool { return strings.HasPrefix(b.Name, guardPrefix) })
	return &written
})

// capabilities are writtenFunctions with the guarded forms, by names that no module can say.
var capabilities = sync.OnceValue(func() *ast.Capabilities {
	all := ast.CapabilitiesForThisVersion(ast.CapabilitiesRegoVersion(ast.RegoV1))
	allowed := pure()
	all.Builtins = slices.DeleteFunc(all.Builtins, func(b *ast.Builtin) bool { return !slices.Contains(allowed, b.Name) })
	for _, b := range guardedBuiltins() {
		all.Builtins = append(all.Builtins, b.Decl)
	}
	all.AllowNet = []string{}
	return all
})
