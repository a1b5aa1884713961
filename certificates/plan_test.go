package certificates

import (
	"bytes"
	"crypto/x509"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/cert-controller/pkg/rotator"
)

const host = "virtward-webhook.virtward-system.svc"

var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

type material struct {
	issuer *rotator.CertRotator
	ca     *rotator.KeyPairArtifacts
}

// authority is a CA that lasts from one time after now to another.
func authority(t *testing.T, from, to time.Duration) material {
	t.Helper()
	issuer := &rotator.CertRotator{CAName: AuthorityName, CAOrganization: "virtward", DNSName: host, ExtKeyUsages: &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	ca, err := issuer.CreateCACert(now.Add(from), now.Add(to))
	if err != nil {
		t.Fatal(err)
	}
	return material{issuer: issuer, ca: ca}
}

// pair is a serving pair under it.
func (m material) pair(t *testing.T, from, to time.Duration) map[string][]byte {
	t.Helper()
	certificate, key, err := m.issuer.CreateCertPEM(m.ca, now.Add(from), now.Add(to))
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{CertificateKey: certificate, PrivateKey: key}
}

func (m material) data() map[string][]byte {
	return map[string][]byte{AuthorityKey: m.ca.CertPEM, AuthorityPrivateKey: m.ca.KeyPEM}
}

func merged(all ...map[string][]byte) map[string][]byte {
	data := map[string][]byte{}
	for _, one := range all {
		maps.Copy(data, one)
	}
	return data
}

func TestNext(t *testing.T) {
	const year, settle = 365 * 24 * time.Hour, 2 * time.Minute
	young, old, dead := authority(t, -time.Hour, 9*year), authority(t, -9*year, 30*24*time.Hour), authority(t, -9*year, -time.Hour)
	late := authority(t, time.Hour, 9*year)
	token, before := map[string][]byte{TokenKey: []byte("t")}, map[string][]byte{PreviousTokenKey: nil}
	announced := map[string][]byte{PreviousAuthorityKey: old.ca.CertPEM}
	good, ending, ended := young.pair(t, -time.Hour, year), young.pair(t, -time.Hour, 30*24*time.Hour), young.pair(t, -year, -time.Hour)
	future, underOld := young.pair(t, time.Hour, year), old.pair(t, -time.Hour, 20*24*time.Hour)
	for name, c := range map[string]struct {
		data    map[string][]byte
		changed time.Duration // after now
		// configured is when the configurations were last written, after now; pending tells that they are not yet.
		configured time.Duration
		pending    bool
		want       Plan
	}{
		"an empty Secret":                       {data: nil, want: Plan{NewAuthority: true, NewPair: true, NewToken: true}},
		"garbage":                               {data: map[string][]byte{AuthorityKey: []byte("x"), CertificateKey: []byte("y"), TokenKey: []byte("t")}, want: Plan{NewAuthority: true, NewPair: true, NewToken: true}},
		"all is well":                           {data: merged(young.data(), good, token), want: Plan{}},
		"a Secret from before there were paths": {data: merged(young.data(), good), want: Plan{NewToken: true}},
		"a pair that ends":                      {data: merged(young.data(), ending, token), want: Plan{NewPair: true, NewToken: true}},
		"a pair that has ended":                 {data: merged(young.data(), ended, token), want: Plan{NewPair: true, NewToken: true}},
		"no pair":                               {data: merged(young.data(), token), want: Plan{NewPair: true, NewToken: true}},
		"a pair that ends while a token is replaced": {
			data: merged(young.data(), ending, token, before), changed: -time.Second, want: Plan{NewPair: true},
		},
		"a CA that ends":                   {data: merged(old.data(), underOld, token), want: Plan{NewAuthority: true, KeepAuthority: true}},
		"a CA that has ended":              {data: merged(dead.data(), dead.pair(t, -year, -2*time.Hour), token), want: Plan{NewAuthority: true, NewPair: true, NewToken: true}},
		"a CA without its key":             {data: merged(map[string][]byte{AuthorityKey: young.ca.CertPEM}, good, token), want: Plan{NewAuthority: true, KeepAuthority: true}},
		"an announced CA, too early":       {data: merged(young.data(), announced, underOld, token), changed: -time.Minute, want: Plan{Wait: time.Minute}},
		"an announced CA, not yet written": {data: merged(young.data(), announced, underOld, token), changed: -time.Hour, pending: true, want: Plan{}},
		"an announced CA, settled":         {data: merged(young.data(), announced, underOld, token), changed: -time.Hour, want: Plan{NewPair: true, NewToken: true}},
		"a new token, too early":           {data: merged(young.data(), good, token, before), changed: -time.Minute, want: Plan{Wait: time.Minute}},
		"a new token, in use":              {data: merged(young.data(), good, token, before), changed: -3 * time.Minute, want: Plan{Wait: time.Minute}},
		"a new token, settled":             {data: merged(young.data(), good, token, before), changed: -5 * time.Minute, want: Plan{DropPrevious: true}},
		"a new token, not in use":          {data: merged(young.data(), good, token, before), changed: -5 * time.Minute, pending: true, want: Plan{}},
		"an old CA without use":            {data: merged(young.data(), good, token, announced), changed: -5 * time.Minute, want: Plan{DropPrevious: true}},
		// A controller that returns late, or is disturbed by a second request.
		"an announced CA, written late":                     {data: merged(young.data(), announced, underOld, token), changed: -time.Hour, configured: -time.Second, want: Plan{Wait: settle - time.Second}},
		"a new token, written late":                         {data: merged(young.data(), good, token, before), changed: -time.Hour, configured: -time.Second, want: Plan{Wait: settle - time.Second}},
		"an announced CA without its key":                   {data: merged(map[string][]byte{AuthorityKey: young.ca.CertPEM}, announced, underOld, token), changed: -time.Minute, want: Plan{NewAuthority: true, KeepPrevious: true}},
		"an announced CA, without a pair":                   {data: merged(young.data(), announced, token), changed: -time.Minute, want: Plan{Wait: time.Minute}},
		"an announced CA, settled, without a pair":          {data: merged(young.data(), announced, token), changed: -time.Hour, want: Plan{NewPair: true, NewToken: true}},
		"a CA without its key while an old CA is trusted":   {data: merged(map[string][]byte{AuthorityKey: young.ca.CertPEM}, announced, good, token), changed: -time.Minute, want: Plan{Wait: time.Minute}},
		"a CA without its key, and an old CA to be dropped": {data: merged(map[string][]byte{AuthorityKey: young.ca.CertPEM}, announced, good, token), changed: -5 * time.Minute, want: Plan{DropPrevious: true}},
		// Clocks that jump.
		"the clock was put back a little":      {data: merged(young.data(), good, token, before), changed: time.Minute, want: Plan{Wait: settle}},
		"the clock was put back by a year":     {data: merged(young.data(), good, token, before), changed: year, want: Plan{DropPrevious: true}},
		"the pair begins only later":           {data: merged(young.data(), future, token), want: Plan{NewPair: true, NewToken: true}},
		"the CA begins only later":             {data: merged(late.data(), late.pair(t, time.Hour, year), token), want: Plan{NewAuthority: true, KeepAuthority: true, NewPair: true, NewToken: true}},
		"the announced CA, clock a year early": {data: merged(young.data(), announced, underOld, token), changed: year, want: Plan{NewPair: true, NewToken: true}},
	} {
		t.Run(name, func(t *testing.T) {
			state := State{Data: c.data, Now: now, Settle: settle, DNSName: host}
			switch {
			case c.pending:
			case c.configured != 0:
				state.Configured = now.Add(c.configured)
			default:
				state.Configured = now.Add(-time.Hour)
			}
			if c.changed != 0 {
				state.Changed = now.Add(c.changed)
			}
			if diff := cmp.Diff(c.want, Next(state)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTokenless holds that a server without paths gets no token, and that its rotations end all the same.
func TestTokenless(t *testing.T) {
	const year, settle = 365 * 24 * time.Hour, 2 * time.Minute
	young, old := authority(t, -time.Hour, 9*year), authority(t, -9*year, 30*24*time.Hour)
	announced, good := map[string][]byte{PreviousAuthorityKey: old.ca.CertPEM}, young.pair(t, -time.Hour, year)
	for name, c := range map[string]struct {
		data map[string][]byte
		want Plan
	}{
		"an empty Secret":           {nil, Plan{NewAuthority: true, NewPair: true}},
		"all is well":               {merged(young.data(), good), Plan{}},
		"no pair":                   {young.data(), Plan{NewPair: true}},
		"an announced CA, settled":  {merged(young.data(), announced, old.pair(t, -time.Hour, 20*24*time.Hour)), Plan{NewPair: true}},
		"an old CA without any use": {merged(young.data(), announced, good), Plan{DropPrevious: true}},
	} {
		state := State{Tokenless: true, Data: c.data, Now: now, Settle: settle, DNSName: host, Configured: now.Add(-time.Hour), Changed: now.Add(-time.Hour)}
		if diff := cmp.Diff(c.want, Next(state)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPath(t *testing.T) {
	state := State{Data: map[string][]byte{TokenKey: []byte("new"), PreviousTokenKey: []byte("old")}, Now: now, Settle: time.Minute}
	for name, c := range map[string]struct {
		changed       time.Duration
		present, want string
	}{
		"the token before, at first": {-time.Second, "/mutate/old", "/mutate/old"},
		"the token before, settled":  {-time.Minute, "/mutate/old", "/mutate/new"},
		"the present token":          {-time.Second, "/mutate/new", "/mutate/new"},
		"no token":                   {-time.Second, "/mutate", "/mutate/new"},
		"another webhook":            {-time.Second, "/validate/old", "/mutate/new"},
		"a foreign path":             {-time.Second, "/evil", "/mutate/new"},
	} {
		state.Changed = now.Add(c.changed)
		if got := state.Path("/mutate", c.present); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	state.Data, state.Changed = map[string][]byte{TokenKey: []byte("new"), PreviousTokenKey: {}}, now
	if got := state.Path("/mutate", "/mutate"); got != "/mutate" {
		t.Errorf("a path without a token is replaced at once, by %s", got)
	}
}

func TestTokens(t *testing.T) {
	for name, c := range map[string]struct {
		data map[string][]byte
		want []string
	}{
		"from before there were tokens": {nil, []string{""}},
		"one":                           {map[string][]byte{TokenKey: []byte("a")}, []string{"a"}},
		"while one is replaced":         {map[string][]byte{TokenKey: []byte("b"), PreviousTokenKey: []byte("a")}, []string{"b", "a"}},
		"while none is replaced":        {map[string][]byte{TokenKey: []byte("b"), PreviousTokenKey: {}}, []string{"b", ""}},
	} {
		if diff := cmp.Diff(c.want, Tokens(c.data)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestBundle(t *testing.T) {
	one, other := authority(t, 0, time.Hour), authority(t, 0, time.Hour)
	data := merged(one.data(), map[string][]byte{PreviousAuthorityKey: other.ca.CertPEM})
	if want := append(bytes.Clone(one.ca.CertPEM), other.ca.CertPEM...); !bytes.Equal(Bundle(data), want) {
		t.Errorf("bundle %s", Bundle(data))
	}
	data[PreviousAuthorityKey] = []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	if !bytes.Equal(Bundle(data), one.ca.CertPEM) {
		t.Error("what is no certificate is in the bundle, which the API server would reject")
	}
}
