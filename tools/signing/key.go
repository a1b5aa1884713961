package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
)

// keyPair signs with a key of a file, as a sign.Keypair.
type keyPair struct {
	private *ecdsa.PrivateKey
	public  []byte // DER
}

// loadKey reads a private key. If the file does not exist, it makes one that only its owner can read.
func loadKey(path string) (*keyPair, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		content, err = makeKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the private key: %w", err)
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("%s has no key in PEM", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the private key: %w", err)
	}
	private, is := parsed.(*ecdsa.PrivateKey)
	if !is || private.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%s has a key of another type than ECDSA P-256", path)
	}
	public, err := x509.MarshalPKIXPublicKey(private.Public())
	return &keyPair{private, public}, err
}

func makeKey(path string) ([]byte, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	content := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return content, os.WriteFile(path, content, 0o600)
}

func (k *keyPair) GetHashAlgorithm() protocommon.HashAlgorithm {
	return protocommon.HashAlgorithm_SHA2_256
}

func (k *keyPair) GetSigningAlgorithm() protocommon.PublicKeyDetails {
	return protocommon.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256
}

// GetHint is the digest of the public key, as cosign writes it.
func (k *keyPair) GetHint() []byte {
	digest := sha256.Sum256(k.public)
	return []byte(base64.StdEncoding.EncodeToString(digest[:]))
}

func (k *keyPair) GetKeyAlgorithm() string { return "ECDSA" }

func (k *keyPair) GetPublicKey() crypto.PublicKey { return k.private.Public() }

func (k *keyPair) GetPublicKeyPem() (string, error) {
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: k.public})), nil
}

func (k *keyPair) SignData(_ context.Context, data []byte) (signature, digest []byte, err error) {
	sum := sha256.Sum256(data)
	signature, err = ecdsa.SignASN1(rand.Reader, k.private, sum[:])
	return signature, sum[:], err
}
