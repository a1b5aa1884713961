package rego

import (
	"regexp/syntax"
	"testing"
)

// TestRereads holds which expressions may read a text again for each match.
func TestRereads(t *testing.T) {
	for pattern, want := range map[string]bool{
		"a.*b|a": true, "(a.*b)?a": true, "(?:a+b)*": true, `(\s*,)*x`: true, `\[[^\]]*\]|\w`: true, "a.{0,100}b|a": true, "(a.*b){0,3}c": true, `\s+$|^\s+`: true, `(a+\b)?c`: true, "a.*?b|a": true,
		"a": false, "a+": false, `,\s*`: false, "a+|b*": false, `(\w+)=(\w+)`: false, "(a+b*)?": false, "a.{0,3}b|a": false, "[^a-z0-9-]+": false, "(ab)*": false, "a(b|c.*)?d?": false, "x.*y": false, "(a+(b|))?": false,
	} {
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		if got := rereads(parsed, false, false); got != want {
			t.Errorf("%s: %v, want %v", pattern, got, want)
		}
	}
}

// TestZoneNames holds that a time zone has one name, because OPA remembers all that it has read.
func TestZoneNames(t *testing.T) {
	for name, want := range map[string]bool{"Europe/Berlin": true, "Etc/GMT+5": true, "UTC": true, "": true, "Local": false, "./Europe/Berlin": false, "Europe//Berlin": false, "Europe/./Berlin": false, "é": false} {
		module := mustCompile(t, head+`deny contains "a" if time.clock([0, input.params])[0] < 0`)
		if _, err := module.Eval(input(t, map[string]any{"params": name}), Limits{}); (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
}
