package playground

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"sync"
)

// keyHeader is the name of the header with the key of a session.
const keyHeader = "Virtward-Playground-Key"

// session permits the requests of one browser. The token of the link is exchanged once: for a cookie that scripts cannot read,
// and a key that only the page knows. Browsers send cookies to all ports of a host, so other programs of this machine could learn
// the cookie; browsers do not give them the key.
type session struct {
	// name is that of the cookie. It has the port, because another page of this machine must not replace the cookie.
	name               string
	token, cookie, key string

	mutex sync.Mutex
	used  bool
}

func newSession(port string) *session {
	return &session{name: "virtward-playground-" + port, token: rand.Text(), cookie: rand.Text(), key: rand.Text()}
}

var (
	errToken = errors.New("the link is not valid: open the link that the command printed")
	errUsed  = errors.New("the link was used before: it works once; start the command again for another one")
)

// exchange accepts the token once.
func (s *session) exchange(token string) error {
	if !equal(token, s.token) {
		return errToken
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.used {
		return errUsed
	}
	s.used = true
	return nil
}

// permits reports whether a request has the cookie and the key.
func (s *session) permits(r *http.Request) bool {
	cookie, err := r.Cookie(s.name)
	return err == nil && equal(cookie.Value, s.cookie) && equal(r.Header.Get(keyHeader), s.key)
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
