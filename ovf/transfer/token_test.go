package transfer_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/virtward/virtward/ovf/transfer"
)

func TestToken(t *testing.T) {
	text := strings.Repeat("a", 16)
	token, err := transfer.NewToken(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.NewToken(text[1:]); err == nil {
		t.Error("a token of 15 bytes is accepted")
	}
	for name, tc := range map[string]struct {
		header http.Header
		want   bool
	}{
		"the header":             {http.Header{transfer.TokenHeader: {text}}, true},
		"a bearer token":         {http.Header{"Authorization": {"Bearer " + text}}, true},
		"the header counts":      {http.Header{transfer.TokenHeader: {"b"}, "Authorization": {"Bearer " + text}}, false},
		"the first value counts": {http.Header{transfer.TokenHeader: {"b", text}}, false},
		"another scheme":         {http.Header{"Authorization": {"Basic " + text}}, false},
		"a longer one":           {http.Header{transfer.TokenHeader: {text + "a"}}, false},
		"nothing":                {http.Header{}, false},
	} {
		if got := token.In(tc.header.Get); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
		if (transfer.Token{}).In(tc.header.Get) {
			t.Errorf("%s: it has the token of no server", name)
		}
	}
}
