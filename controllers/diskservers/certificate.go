// Package diskservers has what the controllers of pods that serve disks share: keys of a pod, and what a pod and a DataVolume wait for.
package diskservers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	"github.com/virtward/virtward/ovf/servers"
)

// The sizes of what is random, in bytes.
const (
	suffixBytes = 8
	tokenBytes  = 32
	serialBits  = 120
)

// certificateEarly is how long before now a certificate is valid: clocks differ.
const certificateEarly = time.Hour

// NewSuffix is the end of the names of the objects of a pod.
func NewSuffix() (string, error) { return random(suffixBytes) }

func random(size int) (string, error) {
	text := make([]byte, size)
	if _, err := rand.Read(text); err != nil {
		return "", fmt.Errorf("reading random bytes: %w", err)
	}
	return hex.EncodeToString(text), nil
}

// NewMaterial creates the key, the certificate and the token of a pod of a kind. The certificate is valid for somewhat longer than the
// lifetime.
func NewMaterial(kind *servers.Kind, namespace, suffix string, now time.Time, lifetime time.Duration) (*servers.Material, error) {
	token, err := NewToken()
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("creating a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, fmt.Errorf("creating a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: kind.Name(suffix)}, DNSNames: []string{kind.Host(namespace, suffix)},
		NotBefore: now.Add(-certificateEarly), NotAfter: now.Add(lifetime + certificateEarly),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("creating a certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return &servers.Material{
		Suffix: suffix, Token: token,
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}, nil
}

// NewToken is a token for the requests to a pod.
func NewToken() (string, error) { return random(tokenBytes) }
