package serving

import (
	"crypto/subtle"
	"net/http"
	"strings"
	"sync/atomic"
)

// Tokens are those that the paths of the webhooks carry at present. The zero value has none, and no path is valid.
type Tokens struct{ accepted atomic.Pointer[[]string] }

// Set replaces the tokens. The empty token stands for a path without one.
func (t *Tokens) Set(tokens ...string) { t.accepted.Store(&tokens) }

// Known reports whether there is a token.
func (t *Tokens) Known() bool { return t.accepted.Load() != nil }

// accepts reports whether a token is valid. It takes as long for every wrong token of the same length.
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
