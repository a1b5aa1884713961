package serving

import (
	"crypto/subtle"
	"net/http"
	"strings"
	"sync/atomic"
)

// Tokens has the current tokens of the webhooks' paths. The zero value has none, so no path is valid.
type Tokens struct{ accepted atomic.Pointer[[]string] }

// Set replaces the tokens. The empty token is for a path without a token.
func (t *Tokens) Set(tokens ...string) { t.accepted.Store(&tokens) }

// Known reports whether tokens have been set.
func (t *Tokens) Known() bool { return t.accepted.Load() != nil }

// accepts reports whether a token is valid. Its duration depends only on the length of the token.
func (t *Tokens) accepts(token string) bool {
	accepted := t.accepted.Load()
	if accepted == nil {
		return false
	}
	valid := 0
	for _, one := range *accepted {
		valid |= subtle.ConstantTimeCompare([]byte(one), []byte(token))
	}
	return valid == 1
}

// ByToken routes POST requests for /NAME/TOKEN to the handler of /NAME.
func ByToken(tokens *Tokens, handlers map[string]http.Handler) func(*http.Request) http.Handler {
	return func(r *http.Request) http.Handler {
		if r.Method != http.MethodPost {
			return nil
		}
		path, token := r.URL.Path, ""
		if at := strings.LastIndexByte(path, '/'); at > 0 {
			path, token = path[:at], path[at+1:]
			if token == "" { // /NAME/ is not /NAME
				return nil
			}
		}
		handler, found := handlers[path]
		if !found || !tokens.accepts(token) {
			return nil
		}
		return handler
	}
}

// ByPath routes GET requests by their exact path.
func ByPath(handlers map[string]http.Handler) func(*http.Request) http.Handler {
	return func(r *http.Request) http.Handler {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return nil
		}
		return handlers[r.URL.Path]
	}
}
