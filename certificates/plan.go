package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
)

// Keys of the Secret. The certificates and their keys have the names that cert-manager gives them.
const (
	AuthorityKey         = "ca.crt"
	AuthorityPrivateKey  = "ca.key"
	PreviousAuthorityKey = "ca-previous.crt"
	CertificateKey       = "tls.crt"
	PrivateKey           = "tls.key"
	TokenKey             = "path-token"
	PreviousTokenKey     = "path-token-previous" //nolint:gosec // the name of a key; present and empty: the paths carried none
)

// ChangedAnnotation is when the data of the Secret was last changed by a rotation, as RFC 3339.
const ChangedAnnotation = "virtward.io/rotated-at"

// AuthorityName is the common name of the CA.
const AuthorityName = "virtward-ca"

// Times of certificates.
const (
	// Lookahead is how long before its end a certificate is replaced.
	Lookahead = 90 * 24 * time.Hour
	// AuthorityLifetime and PairLifetime are how long new ones last.
	AuthorityLifetime = 10 * 365 * 24 * time.Hour
	PairLifetime      = 365 * 24 * time.Hour
	// Backdate is how long before now a certificate begins, for clocks that are slow.
	Backdate = time.Hour
)

// State is what a plan is made from.
type State struct {
	// Data is that of the Secret, Changed when a rotation last changed it; zero if none did.
	Data    map[string][]byte
	Changed time.Time
	Now     time.Time
	// Settle is how long after a change everyone has taken notice of it: the replicas of the Secret, the API servers of
	// the webhook configurations.
	Settle time.Duration
	// DNSName is that of the Service.
	DNSName string
	// Configured is the time since which all webhook configurations are known to contain the bundle and the paths of
	// Data; zero if one does not. The controller does not know what an earlier process saw, so it counts from its start.
	Configured time.Time
}

// Plan is what to do next.
type Plan struct {
	// NewAuthority, NewPair and NewToken are to be made, and written at once.
	NewAuthority, NewPair, NewToken bool
	// KeepAuthority keeps the present CA trusted beside the new one, KeepPrevious the one before it: that of the serving
	// pair. At most one of them is set.
	KeepAuthority, KeepPrevious bool
	// DropPrevious removes the CA and the token that were replaced.
	DropPrevious bool
	// Wait is when to plan again; zero if nothing is pending.
	Wait time.Duration
}

// Writes reports whether the Secret is to be changed.
func (p Plan) Writes() bool { return p.NewAuthority || p.NewPair || p.NewToken || p.DropPrevious }

// Next plans the next step.
func Next(s State) Plan {
	authority, previous := s.Data[AuthorityKey], s.Data[PreviousAuthorityKey]
	_, replacing := s.Data[PreviousTokenKey]
	announced := !s.serves(authority, s.Now) && s.serves(previous, s.Now)
	var p Plan
	switch {
	case s.serves(authority, s.Now) && s.serves(authority, s.Now.Add(Lookahead)) && (len(previous) > 0 || replacing):
		// The rotation under way ends before another begins.
		p.Wait = max(s.remaining(s.Changed, 2*s.Settle), s.remaining(s.Configured, s.Settle))
		p.DropPrevious = p.Wait == 0 && !s.Configured.IsZero()
		if first := s.remaining(s.Changed, s.Settle); first > 0 {
			p.Wait = first
		}
	case !s.issues(s.Now) || !s.issues(s.Now.Add(Lookahead)):
		p.NewAuthority, p.KeepAuthority, p.KeepPrevious = true, lasts(authority, s.Now) && !announced, announced
		p.NewPair = !announced && !s.serves(authority, s.Now)
	case s.serves(authority, s.Now) && s.serves(authority, s.Now.Add(Lookahead)):
	case announced, len(previous) > 0 && len(s.Data[CertificateKey]) == 0:
		// The pair follows when every API server trusts both CAs. If somebody has removed the old pair, replicas still
		// serve it.
		p.Wait = max(s.remaining(s.Changed, s.Settle), s.remaining(s.Configured, s.Settle))
		p.NewPair = p.Wait == 0 && !s.Configured.IsZero()
	default:
		p.NewPair = true
	}
	p.NewToken = len(s.Data[TokenKey]) == 0 || p.NewPair && !replacing
	return p
}

// issues reports whether the CA and its key are valid at a time.
func (s State) issues(at time.Time) bool {
	authority := s.Data[AuthorityKey]
	return valid(authority, authority, s.Data[AuthorityPrivateKey], AuthorityName, nil, at)
}

// lasts reports whether a CA has not ended.
func lasts(authority []byte, now time.Time) bool {
	block, _ := pem.Decode(authority)
	if block == nil {
		return false
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	return err == nil && parsed.NotAfter.After(now)
}

// serves reports whether the serving pair is valid under a CA at a time.
func (s State) serves(authority []byte, at time.Time) bool {
	return valid(authority, s.Data[CertificateKey], s.Data[PrivateKey], s.DNSName, &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, at)
}

// valid reports whether a pair is valid under a CA at a time, and not only from later on.
func valid(authority, certificate, key []byte, name string, usages *[]x509.ExtKeyUsage, at time.Time) bool {
	ok, err := rotator.ValidCert(authority, certificate, key, name, usages, at)
	return ok && err == nil
}

// remaining is what is left of a time since a moment; nothing if the moment is zero. A moment in the future comes from
// a clock that was set back: if it is near, it counts as now, and otherwise as long ago.
func (s State) remaining(since time.Time, of time.Duration) time.Duration {
	if since.IsZero() || since.After(s.Now.Add(of)) {
		return 0
	}
	return max(0, min(of, since.Add(of).Sub(s.Now)))
}

// Bundle is the CA that the webhook configurations must trust, in PEM, and the one before it while it is kept.
func Bundle(data map[string][]byte) []byte {
	var all []byte
	for _, key := range []string{AuthorityKey, PreviousAuthorityKey} {
		if pemOf := certificate(data[key]); pemOf != nil {
			all = append(all, pemOf...)
		}
	}
	return all
}

// certificate is PEM of the first certificate in a text; nil if there is none.
func certificate(text []byte) []byte {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})
}

// Path is what the path of a webhook must be. At present is what it is now: while a rotation settles, a path with the
// token before stays, so that no replica is called with one that it does not know yet.
func (s State) Path(webhook, present string) string {
	previous, replacing := s.Data[PreviousTokenKey]
	if replacing && s.remaining(s.Changed, s.Settle) > 0 && present == path(webhook, string(previous)) {
		return present
	}
	return path(webhook, string(s.Data[TokenKey]))
}

func path(webhook, token string) string {
	if token == "" {
		return webhook
	}
	return webhook + "/" + token
}

// Tokens are those that a server accepts: the present one, and the one before while it is kept. A Secret without a
// token is one from before there were any.
func Tokens(data map[string][]byte) []string {
	tokens := []string{string(bytes.TrimSpace(data[TokenKey]))}
	if previous, kept := data[PreviousTokenKey]; kept {
		tokens = append(tokens, string(previous))
	}
	return tokens
}
