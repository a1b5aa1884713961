package copies

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// Grant permits to read one image until a time.
type Grant struct {
	Namespace, Name string
	// ID is that of the attempt to import the image.
	ID      string
	Expires time.Time
}

// sign returns the user name and the password of a grant. They are the same for the same grant and key.
func (g Grant) sign(key []byte) (user, password string) {
	user = strconv.FormatInt(g.Expires.Unix(), 10)
	mac := hmac.New(sha256.New, key)
	for _, part := range []string{"virtward image copy", g.Namespace, g.Name, g.ID, user} {
		_, _ = fmt.Fprintf(mac, "%d:%s,", len(part), part) // a hash returns no error
	}
	return user, base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// verify reports whether credentials are those of a grant for an image, with one of the keys, and when the grant expires.
func verify(keys [][]byte, user, password, namespace, name, id string, now time.Time) (expires time.Time, valid bool) {
	seconds, err := strconv.ParseInt(user, 10, 64)
	if expires = time.Unix(seconds, 0); err != nil || !now.Before(expires) {
		return time.Time{}, false
	}
	g := Grant{Namespace: namespace, Name: name, ID: id, Expires: expires}
	for _, key := range keys {
		if _, want := g.sign(key); hmac.Equal([]byte(want), []byte(password)) {
			valid = true
		}
	}
	return expires, valid
}

// keyAge is the age of a key at which it is read again.
const keyAge = 10 * time.Second

// Keys derives the key of tokens from a private key that all replicas have. After a rotation, tokens of the key before stay
// valid until the process ends, or until the next rotation.
type Keys struct {
	// Read returns the private key.
	Read func() ([]byte, error)
	Now  func() time.Time

	mu   sync.Mutex
	read time.Time
	all  [][]byte
}

// current returns the keys; the first one signs.
func (k *Keys) current() ([][]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.Now()
	if age := now.Sub(k.read); len(k.all) > 0 && age >= 0 && age < keyAge {
		return k.all, nil
	}
	private, err := k.Read()
	if err != nil || len(private) == 0 {
		return nil, fmt.Errorf("reading the key of tokens: %w", err)
	}
	mac := hmac.New(sha256.New, private)
	_, _ = mac.Write([]byte("key of virtward image copies")) // a hash returns no error
	key := mac.Sum(nil)
	k.read = now
	switch {
	case len(k.all) == 0:
		k.all = [][]byte{key}
	case !bytes.Equal(k.all[0], key):
		k.all = [][]byte{key, k.all[0]}
	}
	return k.all, nil
}
