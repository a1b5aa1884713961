package rego

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/virtward/virtward/test/build"
)

// TestValueOf: the value is that of OPA's own decoder.
func TestValueOf(t *testing.T) {
	for name, document := range map[string]any{
		"a virtual machine": build.VMOf(build.Typical("db").Label("team", "blue")).Obj(),
		"scalars":           []any{nil, true, false, 0, -1, 7, 1234567890123, 0.5, 1e21, -2.5e-9, "", "a"},
		"escapes":           map[string]any{"<&>": "\u2028 \"quoted\" \\ \t\n\x01 \xff é \U0001F600", "a\"b": "c\\"},
		"nothing":           []any{map[string]any{}, []any{}},
		"null":              nil,
		"members twice":     json.RawMessage(`{"a":1,"b":{"c":1,"c":2},"a":[2]}`),
		"spaces":            json.RawMessage(` { "a" : [ 1 , 2 ] } `),
		"many members":      members(100),
	} {
		t.Run(name, func(t *testing.T) {
			data, err := json.Marshal(document)
			if err != nil {
				t.Fatal(err)
			}
			sameValue(t, string(data))
		})
	}
	t.Run("many members twice", func(t *testing.T) {
		data, err := json.Marshal(members(100))
		if err != nil {
			t.Fatal(err)
		}
		sameValue(t, string(data[:len(data)-1])+","+string(data[1:]))
	})
	for _, text := range []string{"", "{", "[1", `{"a"}`, `{"a":}`, `[1,]`, `"a`, `"\x"`, "nul", "-", "1.", "1e", "{} {}", "[1 2]"} {
		sameValue(t, text)
	}
}

func members(count int) map[string]any {
	all := map[string]any{}
	for i := range count {
		all[fmt.Sprintf("member-%d", i)] = i
	}
	return all
}

// sameValue compares with OPA's decoder, which ignores what comes after a value.
func sameValue(t *testing.T, text string) {
	t.Helper()
	want, failed := ast.ValueFromReader(strings.NewReader(text))
	got, err := valueOf(text, nil, newHashedTexts())
	if (err == nil) != (failed == nil) {
		t.Fatalf("%.60s: %v, want %v", text, err, failed)
	}
	if err == nil && (got.Compare(want) != 0 || got.String() != want.String() || got.Hash() != want.Hash()) {
		t.Errorf("%.60s: %s, want %s", text, got, want)
	}
}

// FuzzValueOf compares the value of any JSON with that of OPA's own decoder.
func FuzzValueOf(f *testing.F) {
	f.Add(`{"a":[1,"\u0061",null,{"b":1e3,"b":true}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var compact bytes.Buffer
		if json.Compact(&compact, []byte(text)) == nil {
			sameValue(t, compact.String())
		}
	})
}
