package main

import (
	"archive/tar"
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"
)

// verifier verifies bundles against a key or an identity.
type verifier struct {
	*verify.Verifier

	policy verify.PolicyOption
}

func verifyCommand(dist, key, identity, issuer string, out io.Writer) error {
	v, err := newVerifier(key, identity, issuer)
	if err != nil {
		return err
	}
	artifacts, statements, err := signed(dist)
	if err != nil {
		return err
	}
	for _, name := range artifacts {
		if err := v.verifyArtifact(filepath.Join(dist, name)); err != nil {
			return fmt.Errorf("verifying %s: %w", name, err)
		}
	}
	for _, name := range statements {
		if err := v.verifyStatement(dist, name); err != nil {
			return fmt.Errorf("verifying %s: %w", name, err)
		}
	}
	covered, err := verifyChecksums(dist)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "verified %d artifacts, %d statements and %d checksums\n", len(artifacts), len(statements), covered)
	return nil
}

func newVerifier(key, identity, issuer string) (*verifier, error) {
	if (key == "") == (identity == "") {
		return nil, errors.New("either -key or -identity is required")
	}
	if identity != "" {
		trusted, err := root.FetchTrustedRoot()
		if err != nil {
			return nil, fmt.Errorf("reading the trusted root of Sigstore: %w", err)
		}
		made, err := verify.NewVerifier(trusted, verify.WithSignedCertificateTimestamps(1), verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1))
		if err != nil {
			return nil, err
		}
		expected, err := verify.NewShortCertificateIdentity(issuer, "", identity, "")
		return &verifier{made, verify.WithCertificateIdentity(expected)}, err
	}
	content, err := os.ReadFile(key)
	if err != nil {
		return nil, fmt.Errorf("reading the public key: %w", err)
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("%s has no key in PEM", key)
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the public key: %w", err)
	}
	loaded, err := signature.LoadVerifier(public, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	always := root.NewExpiringKey(loaded, time.Time{}, time.Time{})
	trusted := root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) { return always, nil })
	made, err := verify.NewVerifier(trusted, verify.WithNoObserverTimestamps())
	return &verifier{made, verify.WithKey()}, err
}

// verifyArtifact verifies the bundle beside a file.
func (v *verifier) verifyArtifact(path string) error {
	entity, err := bundle.LoadJSONFromPath(path + bundleSuffix)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = v.Verify(entity, verify.NewPolicy(verify.WithArtifact(file), v.policy))
	return err
}

// verifyStatement verifies the bundle of a statement, that it has the statement of the file, and that each subject is as it says.
func (v *verifier) verifyStatement(dist, name string) error {
	path := filepath.Join(dist, name)
	entity, err := bundle.LoadJSONFromPath(path + bundleSuffix)
	if err != nil {
		return err
	}
	if _, err := v.Verify(entity, verify.NewPolicy(verify.WithoutArtifactUnsafe(), v.policy)); err != nil { // the subjects are verified below
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(entity.GetDsseEnvelope().GetPayload(), content) {
		return errors.New("another statement is signed")
	}
	var stated struct {
		Subject []struct {
			Name   string
			Digest map[string]string
		}
	}
	if err := json.Unmarshal(content, &stated); err != nil {
		return err
	}
	if len(stated.Subject) == 0 {
		return errors.New("it has no subject")
	}
	for _, subject := range stated.Subject {
		if name != provenanceFile {
			subject.Name = strings.TrimSuffix(name, statementSuffix)
			if err := verifyManifest(filepath.Join(dist, subject.Name), subject.Digest["sha256"]); err != nil {
				return err
			}
			continue
		}
		got, err := digestOf(filepath.Join(dist, subject.Name))
		if errors.Is(err, fs.ErrNotExist) && strings.Contains(subject.Name, "/") { // in a registry: the statement beside its file has the digest
			continue
		}
		if err != nil {
			return err
		}
		if got != subject.Digest["sha256"] {
			return fmt.Errorf("%s has the digest %s, but %s is signed", subject.Name, got, subject.Digest["sha256"])
		}
	}
	return nil
}

// verifyManifest verifies that an OCI layout has an index of a digest. The manifest of a chart is made when it is pushed, and
// the program that pushes compares its digest.
func verifyManifest(path, digest string) error {
	if !strings.HasSuffix(path, ".oci.tar") {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	archive := tar.NewReader(file)
	for {
		header, err := archive.Next()
		if err != nil {
			return fmt.Errorf("%s has no manifest %s: %w", filepath.Base(path), digest, err)
		}
		if header.Name != "blobs/sha256/"+digest {
			continue
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, archive); err != nil { //nolint:gosec // it is hashed
			return err
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != digest {
			return fmt.Errorf("the manifest %s has the digest %s", digest, got)
		}
		return nil
	}
}

// verifyChecksums compares all files that the signed list names, and returns their number. A file that nothing covers is an error.
func verifyChecksums(dist string) (int, error) {
	content, err := os.ReadFile(filepath.Join(dist, checksumsFile))
	if err != nil {
		return 0, err
	}
	covered := []string{checksumsFile, publicKeyFile, provenanceFile}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	for _, line := range lines {
		want, name, found := strings.Cut(line, "  ")
		if !found || name != filepath.Base(name) {
			return 0, fmt.Errorf("%s has the line %q", checksumsFile, line)
		}
		got, err := digestOf(filepath.Join(dist, name))
		if err != nil {
			return 0, err
		}
		if got != want {
			return 0, fmt.Errorf("%s has the digest %s, but %s is signed", name, got, want)
		}
		covered = append(covered, name)
	}
	entries, err := os.ReadDir(dist)
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		if name := entry.Name(); !strings.HasSuffix(name, bundleSuffix) && !slices.Contains(covered, name) {
			return 0, fmt.Errorf("nothing signed names %s", name)
		}
	}
	return len(lines), nil
}

func digestOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return hex.EncodeToString(sum.Sum(nil)), err
}

func isStatement(path string) bool { return strings.HasSuffix(path, statementSuffix) }
