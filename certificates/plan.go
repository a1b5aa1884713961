package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
)

// Keys of the Secret. The certificates and their private keys have the names that cert-manager uses.
const (
	AuthorityKey         = "ca.crt"
	AuthorityPrivateKey  = "ca.key"
	PreviousAuthorityKey = "ca-previous.crt"
	CertificateKey       = "tls.crt"
	PrivateKey           = "tls.key"
	TokenKey             = "path-token"
	PreviousTokenKey     = "path-token-previous" //nolint:gosec // the name of a key; an empty value means that the paths had no token
)

// ChangedAnnotation has the time of the last change by a rotation, in RFC 3339.
const ChangedAnnotation = "virtward.io/rotated-at"

// AuthorityName is the common name of the CA.
const AuthorityName = "virtward-ca"

// Durations of certificates.
const (
	// Lookahead is the time before its expiry at which a certificate is replaced.
	Lookahead = 90 * 24 * time.Hour
	// AuthorityLifetime and PairLifetime are the validity of new certificates.
	AuthorityLifetime = 10 * 365 * 24 * time.Hour
	PairLifetime      = 365 * 24 * time.Hour
	// Backdate is the time by which a certificate is valid earlier. A certificate that a controller creates whose clock is fast
	// is valid for others, and one whose clock is slow does not replace a certificate of others.
	Backdate = 2 * 365 * 24 * time.Hour
)

// State is the input of a plan.
type State struct {
	// Tokenless: the server has no paths with tokens.
	Tokenless bool
	// Data of the Secret, and the time at which a rotation last changed it; zero if none did.
	Data    map[string][]byte
	Changed time.Time
	Now     time.Time
	// Settle is the time until all replicas use a changed Secret, and until all API servers use changed webhook
	// configurations and APIServices.
	Settle time.Duration
	// DNSName of the Service.
	DNSName string
	// Configured is the time since which all webhook configurations and APIServices have the CA bundle and the paths of Data; zero if one
	// does not. It is not before the start of the controller, which does not know what an earlier process observed.
	Configured time.Time
}

// Plan is the next step.
type Plan struct {
	// NewAuthority, NewPair and NewToken say what to create. All are written in one update.
	NewAuthority, NewPair, NewToken bool
	// KeepAuthority keeps the current CA trusted beside the new one. KeepPrevious keeps the previous CA, which signed the
	// serving certificate. At most one of them is set.
	KeepAuthority, KeepPrevious bool
	// DropPrevious removes the previous CA and the previous token.
	DropPrevious bool
	// Wait is the time until the next plan; zero if there is no next step.
	Wait time.Duration
}

// Writes reports whether the plan changes the Secret.
func (p Plan) Writes() bool { return p.NewAuthority || p.NewPair || p.NewToken || p.DropPrevious }

// Next returns the next step.
func Next(s State) Plan {
	authority, previous := s.Data[AuthorityKey], s.Data[PreviousAuthorityKey]
	_, replacing := s.Data[PreviousTokenKey]
	announced := !s.serves(authority, s.Now) && s.serves(previous, s.Now)
	var p Plan
	switch {
	case s.serves(authority, s.Now) && s.serves(authority, s.Now.Add(Lookahead)) && (len(previous) > 0 || replacing):
		// A rotation is in progress. It ends before another one begins.
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
		// The new certificate is created once every API server trusts both CAs. If the old one was removed from the
		// Secret, replicas still serve it.
		p.Wait = max(s.remaining(s.Changed, s.Settle), s.remaining(s.Configured, s.Settle))
		p.NewPair = p.Wait == 0 && !s.Configured.IsZero()
	default:
		p.NewPair = true
	}
	p.NewToken = s.needsToken(p.NewPair && !replacing)
	return p
}

// needsToken reports whether a token is created: if there is none, or beside a new pair.
func (s State) needsToken(beside bool) bool {
	return !s.Tokenless && (len(s.Data[TokenKey]) == 0 || beside)
}

// issues reports whether the CA and its key are valid at a time.
func (s State) issues(at time.Time) bool {
	authority := s.Data[AuthorityKey]
	return valid(authority, authority, s.Data[AuthorityPrivateKey], AuthorityName, nil, at)
}

// lasts reports whether a CA has not expired.
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

// valid reports whether a pair is valid under a CA at a time.
func valid(authority, certificate, key []byte, name string, usages *[]x509.ExtKeyUsage, at time.Time) bool {
	ok, err := rotator.ValidCert(authority, certificate, key, name, usages, at)
	return ok && err == nil
}

// remaining returns the rest of a duration that began at since; zero if since is zero. If since is in the future, a clock
// was set back: a near time counts as now, and a later one as long ago.
func (s State) remaining(since time.Time, of time.Duration) time.Duration {
	if since.IsZero() || since.After(s.Now.Add(of)) {
		return 0
	}
	return max(0, min(of, since.Add(of).Sub(s.Now)))
}

// Bundle returns the CA that the webhook configurations must trust, and the previous one while it is kept, in PEM.
func Bundle(data map[string][]byte) []byte {
	var all []byte
	for _, key := range []string{AuthorityKey, PreviousAuthorityKey} {
		if pemOf := certificate(data[key]); pemOf != nil {
			all = append(all, pemOf...)
		}
	}
	return all
}

// certificate returns the first certificate of a PEM text, or nil if there is none.
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

// Path returns the path for a webhook, whose current path is present. Until a rotation has settled, a path with the
// previous token stays, so that no replica is called with a token that it does not know yet.
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

// Tokens returns the tokens that a server accepts: the current one, and the previous one while it is kept. The token is
// empty for a Secret of a version of Virtward without tokens.
func Tokens(data map[string][]byte) []string {
	tokens := []string{string(bytes.TrimSpace(data[TokenKey]))}
	if previous, kept := data[PreviousTokenKey]; kept {
		tokens = append(tokens, string(previous))
	}
	return tokens
}
