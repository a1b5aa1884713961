package certificates

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"

	"github.com/virtward/virtward/certificates"
)

// issuer makes certificates and tokens.
type issuer struct {
	host string
	made *rotator.CertRotator
}

func newIssuer(host string) *issuer {
	return &issuer{host: host, made: &rotator.CertRotator{
		CAName: certificates.AuthorityName, CAOrganization: "virtward",
		DNSName: host, ExtraDNSNames: []string{host + ".cluster.local"},
		ExtKeyUsages: &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}}
}

// apply returns data with what the plan asks for. Called tells that the webhooks are called by paths already.
func (i *issuer) apply(before map[string][]byte, plan certificates.Plan, now time.Time, called bool) (map[string][]byte, error) {
	data := maps.Clone(before)
	if data == nil {
		data = map[string][]byte{}
	}
	if plan.DropPrevious {
		delete(data, certificates.PreviousAuthorityKey)
		delete(data, certificates.PreviousTokenKey)
	}
	if plan.NewAuthority {
		authority, err := i.made.CreateCACert(now.Add(-certificates.Backdate), now.Add(certificates.AuthorityLifetime))
		if err != nil {
			return nil, fmt.Errorf("making a CA: %w", err)
		}
		if !plan.KeepPrevious {
			delete(data, certificates.PreviousAuthorityKey)
		}
		if plan.KeepAuthority {
			data[certificates.PreviousAuthorityKey] = data[certificates.AuthorityKey]
		}
		data[certificates.AuthorityKey], data[certificates.AuthorityPrivateKey] = authority.CertPEM, authority.KeyPEM
	}
	if plan.NewPair {
		authority, err := authorityOf(data)
		if err != nil {
			return nil, err
		}
		pair, key, err := i.made.CreateCertPEM(authority, now.Add(-certificates.Backdate), now.Add(certificates.PairLifetime))
		if err != nil {
			return nil, fmt.Errorf("making a serving certificate: %w", err)
		}
		data[certificates.CertificateKey], data[certificates.PrivateKey] = pair, key
	}
	if plan.NewToken {
		if present, found := data[certificates.TokenKey]; found || called {
			data[certificates.PreviousTokenKey] = present
		}
		data[certificates.TokenKey] = []byte(strings.ToLower(rand.Text()))
	}
	return data, nil
}

// authorityOf reads the CA and its key.
func authorityOf(data map[string][]byte) (*rotator.KeyPairArtifacts, error) {
	text, private := data[certificates.AuthorityKey], data[certificates.AuthorityPrivateKey]
	certificate, _ := pem.Decode(text)
	key, _ := pem.Decode(private)
	if certificate == nil || key == nil {
		return nil, errors.New("the Secret holds no CA")
	}
	parsed, err := x509.ParseCertificate(certificate.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the CA: %w", err)
	}
	signer, err := x509.ParsePKCS1PrivateKey(key.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the key of the CA: %w", err)
	}
	return &rotator.KeyPairArtifacts{Cert: parsed, Key: signer, CertPEM: text, KeyPEM: private}, nil
}
