package copies

import (
	"errors"
	"testing"
	"time"
)

var at = time.Unix(1_800_000_000, 0)

// TestTokens: a token is for one attempt of one image, until its end, and nothing of it can be changed.
func TestTokens(t *testing.T) {
	key, other := []byte("key"), []byte("other")
	g := Grant{Namespace: "team", Name: "fedora", ID: "1234", Expires: at.Add(time.Hour)}
	user, password := g.sign(key)
	for name, test := range map[string]struct {
		keys                                [][]byte
		user, password, namespace, name, id string
		now                                 time.Time
		want                                bool
	}{
		"valid":                   {[][]byte{key}, user, password, "team", "fedora", "1234", at, true},
		"with the key before":     {[][]byte{other, key}, user, password, "team", "fedora", "1234", at, true},
		"last moment":             {[][]byte{key}, user, password, "team", "fedora", "1234", g.Expires.Add(-time.Second), true},
		"expired":                 {[][]byte{key}, user, password, "team", "fedora", "1234", g.Expires, false},
		"extended":                {[][]byte{key}, "1900000000", password, "team", "fedora", "1234", at, false},
		"another namespace":       {[][]byte{key}, user, password, "others", "fedora", "1234", at, false},
		"another image":           {[][]byte{key}, user, password, "team", "debian", "1234", at, false},
		"another attempt":         {[][]byte{key}, user, password, "team", "fedora", "1235", at, false},
		"shifted parts":           {[][]byte{key}, user, password, "team/fedora", "", "1234", at, false},
		"another key":             {[][]byte{other}, user, password, "team", "fedora", "1234", at, false},
		"no key":                  {nil, user, password, "team", "fedora", "1234", at, false},
		"no password":             {[][]byte{key}, user, "", "team", "fedora", "1234", at, false},
		"no user":                 {[][]byte{key}, "", password, "team", "fedora", "1234", at, false},
		"a user that is no time":  {[][]byte{key}, "admin", password, "team", "fedora", "1234", at, false},
		"password with more text": {[][]byte{key}, user, password + "A", "team", "fedora", "1234", at, false},
	} {
		if _, got := verify(test.keys, test.user, test.password, test.namespace, test.name, test.id, test.now); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestKeys: the key follows the private key, and the one before stays valid.
func TestKeys(t *testing.T) {
	private, now := []byte("one"), at
	k := &Keys{Read: func() ([]byte, error) { return private, nil }, Now: func() time.Time { return now }}
	first, err := k.current()
	if err != nil || len(first) != 1 || string(first[0]) == "one" {
		t.Fatalf("%v, %v", first, err)
	}
	private = []byte("two")
	if same, _ := k.current(); string(same[0]) != string(first[0]) {
		t.Error("the key is read with each call")
	}
	now = now.Add(keyAge)
	second, err := k.current()
	if err != nil || len(second) != 2 || string(second[1]) != string(first[0]) || string(second[0]) == string(first[0]) {
		t.Errorf("%v, %v", second, err)
	}
	private, now = nil, now.Add(keyAge)
	if _, err := k.current(); err == nil {
		t.Error("an empty key is accepted")
	}
	k.Read = func() ([]byte, error) { return nil, errors.New("gone") }
	if _, err := k.current(); err == nil {
		t.Error("a missing key is accepted")
	}
}
