package signatures

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"
)

// Limits of an authority.
const (
	// MaxSigners bounds the keys or identities.
	MaxSigners = 16
	// MaxKey bounds a public key in PEM, MaxTrustedRoot a trusted root, in bytes.
	MaxKey         = 16 << 10
	MaxTrustedRoot = 1 << 20

	minRSA = 2048
)

// Key is a public key.
type Key struct {
	// Name names the key in messages.
	Name string
	// PEM has the key in PKIX format, as cosign writes it.
	PEM []byte
}

// Identity is a signer without a key of its own: Sigstore's certificate authority confirms who signs.
type Identity struct {
	// Subject is the subject alternative name of the certificate: an email address, or the URI of a workflow.
	Subject string
	// Issuer is the URL of the provider that authenticated the subject.
	Issuer string
}

// Authority knows who may sign. Create it with Keys or with Identities. It is safe for concurrent use.
type Authority struct {
	signers []signer
}

// signer is one of those who may sign.
type signer struct {
	name     string
	verifier *verify.Verifier
	policy   verify.PolicyOption
}

// Keys returns an authority of public keys. It requires no transparency log: who has the private key is trusted.
func Keys(keys []Key) (*Authority, error) {
	if err := count(len(keys), "keys"); err != nil {
		return nil, err
	}
	a := &Authority{}
	for _, key := range keys {
		s, err := keySigner(key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key.Name, err)
		}
		a.signers = append(a.signers, s)
	}
	return a, nil
}

func count(n int, what string) error {
	switch {
	case n == 0:
		return fmt.Errorf("no %s are named", what)
	case n > MaxSigners:
		return fmt.Errorf("%d %s are named: at most %d", n, what, MaxSigners)
	}
	return nil
}

func keySigner(key Key) (signer, error) {
	if len(key.PEM) > MaxKey {
		return signer{}, fmt.Errorf("the key has more than %d bytes", MaxKey)
	}
	block, rest := pem.Decode(key.PEM)
	switch {
	case block == nil || block.Type != "PUBLIC KEY":
		return signer{}, errors.New("it has no public key: use PEM with the block PUBLIC KEY, as cosign writes it")
	case strings.TrimSpace(string(rest)) != "":
		return signer{}, errors.New("it has more than one key: name each one in a file of its own")
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return signer{}, fmt.Errorf("the public key is not valid: %w", err)
	}
	switch typed := public.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
	case *rsa.PublicKey:
		if typed.N.BitLen() < minRSA {
			return signer{}, fmt.Errorf("the RSA key has %d bits: use at least %d", typed.N.BitLen(), minRSA)
		}
	default:
		return signer{}, errors.New("the kind of the key is not supported: use ECDSA, Ed25519 or RSA")
	}
	loaded, err := signature.LoadVerifier(public, crypto.SHA256)
	if err != nil {
		return signer{}, fmt.Errorf("the public key is not valid: %w", err)
	}
	always := root.NewExpiringKey(loaded, time.Time{}, time.Time{})
	material := root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) { return always, nil })
	v, err := verify.NewVerifier(material, verify.WithNoObserverTimestamps())
	if err != nil {
		return signer{}, fmt.Errorf("preparing the verification: %w", err)
	}
	return signer{"key " + key.Name, v, verify.WithKey()}, nil
}

// Identities returns an authority of identities. The trusted root is the JSON of Sigstore's trusted_root.json. A signature must have
// an entry in a transparency log of this root and a time, and its certificate must be valid at that time. If the root has logs of
// certificates, one of them must have the certificate.
func Identities(identities []Identity, trustedRoot []byte) (*Authority, error) {
	if err := count(len(identities), "identities"); err != nil {
		return nil, err
	}
	if len(trustedRoot) > MaxTrustedRoot {
		return nil, fmt.Errorf("the trusted root has more than %d bytes", MaxTrustedRoot)
	}
	trusted, err := root.NewTrustedRootFromJSON(trustedRoot)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the trusted root is not valid: %w", err)
	case len(trusted.FulcioCertificateAuthorities()) == 0:
		return nil, errors.New("the trusted root has no certificate authority")
	case len(trusted.RekorLogs()) == 0:
		return nil, errors.New("the trusted root has no transparency log")
	}
	options := []verify.VerifierOption{verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1)}
	if len(trusted.CTLogs()) > 0 {
		options = append(options, verify.WithSignedCertificateTimestamps(1))
	}
	v, err := verify.NewVerifier(trusted, options...)
	if err != nil {
		return nil, fmt.Errorf("preparing the verification: %w", err)
	}
	a := &Authority{}
	for _, identity := range identities {
		if identity.Subject == "" || identity.Issuer == "" {
			return nil, errors.New("an identity needs a subject and an issuer")
		}
		expected, err := verify.NewShortCertificateIdentity(identity.Issuer, "", identity.Subject, "")
		if err != nil {
			return nil, fmt.Errorf("the identity %s is not valid: %w", identity.Subject, err)
		}
		a.signers = append(a.signers, signer{fmt.Sprintf("identity %s of %s", identity.Subject, identity.Issuer), v, verify.WithCertificateIdentity(expected)})
	}
	return a, nil
}

// String names all who may sign.
func (a *Authority) String() string {
	names := make([]string, len(a.signers))
	for i := range a.signers {
		names[i] = a.signers[i].name
	}
	return strings.Join(names, ", ")
}
