package decode_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/virtward/virtward/limits/decode"
)

// walked decodes JSON with the functions that are tested.
func walked(text []byte, at int, into *any) int {
	for at < len(text) && strings.IndexByte(" \t\r\n", text[at]) >= 0 {
		at++
	}
	if at >= len(text) {
		return at
	}
	switch text[at] {
	case '{':
		object := map[string]any{}
		*into = object
		return decode.Members(text, at, func(name []byte, from int) int {
			var v any
			to := walked(text, from, &v)
			object[string(name)] = v
			return to
		})
	case '[':
		list := []any{}
		to := decode.Elements(text, at, func(index, from int) int {
			if index != len(list) {
				panic("the index is wrong")
			}
			var v any
			to := walked(text, from, &v)
			list = append(list, v)
			return to
		})
		*into = list
		return to
	}
	to := decode.Skip(text, at)
	if err := json.Unmarshal(text[at:to], into); err != nil {
		panic(fmt.Sprintf("%q: %v", text[at:to], err))
	}
	return to
}

func sameWalk(t *testing.T, text string) {
	t.Helper()
	var want, got any
	if json.Unmarshal([]byte(text), &want) != nil {
		return
	}
	walked([]byte(text), 0, &got)
	a, _ := json.Marshal(want)
	b, _ := json.Marshal(got)
	if string(a) != string(b) {
		t.Errorf("%s: %s, want %s", text, b, a)
	}
}

func TestMembers(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, ` { } `, ` [ ] `, `{"a":1,"b":[1,2,{"c":"}\"]"}],"d":null}`, ` { "a" : { "b" : "" } , "\u0063" : [ [ ] , { } ] } `,
		`{"a":{"a":{"a":1}},"a":2}`, `"text"`, `-1.5e3`, `[true,false,null]`, `{"":"","\\":"\\"}`,
	} {
		sameWalk(t, text)
	}
	visits := 0
	if to := decode.Members([]byte(`{"a":1,"b":2}`), 0, func([]byte, int) int { visits++; return -1 }); to != -1 || visits != 1 {
		t.Errorf("ended at %d after %d members", to, visits)
	}
	for _, text := range []string{``, `{`, `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":"b`, `{"a":{"b":[`, `[`, `[1,`, `{"a" 1}`, `{"\x":1`, `}`, `{1}`} {
		to := decode.Members([]byte(text), 0, func(_ []byte, from int) int { return decode.Skip([]byte(text), from) })
		if to > len(text) {
			t.Errorf("%s: the end is at %d", text, to)
		}
		decode.Elements([]byte(text), 0, func(_, from int) int { return decode.Skip([]byte(text), from) })
	}
}

// FuzzMembers: walking is decoding, and ends for any text.
func FuzzMembers(f *testing.F) {
	f.Add(`{"a":[{"b":"}\"]"},null],"\u0063":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		decode.Members([]byte(text), 0, func(_ []byte, from int) int { return decode.Skip([]byte(text), from) })
		sameWalk(t, text)
	})
}
