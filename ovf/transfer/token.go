package transfer

import (
	"crypto/subtle"
	"errors"
	"strings"
)

// minToken is the least number of bytes of a token.
const minToken = 16

// Token is what requests to a server must have. Create it with NewToken: the zero value is in no request.
type Token struct{ text []byte }

// NewToken returns a token that is long enough.
func NewToken(text string) (Token, error) {
	if len(text) < minToken {
		return Token{}, errors.New("the token has less than 16 bytes")
	}
	return Token{[]byte(text)}, nil
}

// In reports whether a request has the token: in TokenHeader, or as a bearer token without that header. The function returns the first
// value of a header.
func (t Token) In(header func(name string) string) bool {
	given := header(TokenHeader)
	if bearer, isBearer := strings.CutPrefix(header("Authorization"), "Bearer "); isBearer && given == "" {
		given = bearer
	}
	return len(t.text) > 0 && subtle.ConstantTimeCompare([]byte(given), t.text) == 1
}
