package rego_test

import (
	"strings"
	"testing"

	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/policies/rego"
)

func TestAddresses(t *testing.T) {
	for expression, want := range map[string]string{
		`virtward.image("QUAY.io:443/a/b").canonical`:            "quay.io/a/b:latest",
		`virtward.image("DOCKER://quay.io/a/b:c").name`:          "quay.io/a/b",
		`sprintf("%v", [virtward.image("fedora").qualified])`:    "false",
		`sprintf("%d", [virtward.image("a.example:80/b").port])`: "80",
		`virtward.url("HTTPS://A.example./b/../c").canonical`:    "https://a.example/c",
		`sprintf("%v", [virtward.isImage("a b")])`:               "false",
		`sprintf("%v", [virtward.isURL("http://127.1/")])`:       "false",
		`sprintf("%v", [virtward.isURL("http://127.0.0.1/")])`:   "true",
	} {
		t.Run(expression, func(t *testing.T) {
			found, err := run(t, "deny contains "+expression, rego.Limits{})
			if err != nil || len(found) != 1 || found[0].Message != want {
				t.Errorf("it found %v, %v, and should find %q", found, err, want)
			}
		})
	}
}

func TestAddressesFail(t *testing.T) {
	for name, c := range map[string]struct{ rule, want string }{
		"no image":   {`deny contains "a" if virtward.image("a b")`, "virtward.image: no reference to an image"},
		"no URL":     {`deny contains "a" if virtward.url(concat("", ["a", "b"]))`, "virtward.url: no URL"},
		"no text":    {`deny contains "a" if virtward.image(input.params.number)`, "virtward.image: the operand must be a string"},
		"very often": {`deny contains "a" if { some i in numbers.range(1, 50000); some j in numbers.range(1, 5); virtward.isImage(sprintf("a/%d", [i + j])) }`, "it takes more than 1048576 bytes of memory"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := run(t, c.rule, rego.Limits{Bytes: 1 << 20}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, and should say %q", err, c.want)
			}
		})
	}
	if _, issues := rego.Compile("types", "package a\n\ndeny contains \"a\" if virtward.image(\"a\").owner"); len(issues) == 0 {
		t.Error("a field that an image does not have compiles")
	}
}

func run(t *testing.T, rule string, limits rego.Limits) ([]diagnostics.Violation, error) {
	t.Helper()
	module, issues := rego.Compile("test", "package test\n\n"+rule)
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	input, err := rego.NewInput(map[string]any{"params": map[string]any{"number": 1}})
	if err != nil {
		t.Fatal(err)
	}
	return module.Eval(input, limits)
}
