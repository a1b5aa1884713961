package appliance

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // old signatures have it; they are compared, and not trusted
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"strings"

	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/texts"
)

// maxCertificates bounds the certificates of a package.
const maxCertificates = 10

// signature is what a file with the extension .cert has: the signature of the manifest, and certificates, that of the signer first.
type signature struct {
	digest

	bytes        []byte
	certificates []*x509.Certificate
}

// parseCertificate reads a file with the extension .cert.
func parseCertificate(data []byte) (*signature, error) {
	text, _, _ := strings.Cut(string(data), "-----BEGIN")
	s := &signature{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		match := manifestLine.FindStringSubmatch(line)
		if match == nil || s.algorithm != "" || newHash(match[1]) == nil {
			return nil, errors.New("it does not begin with one line ALGORITHM(MANIFEST)= SIGNATURE")
		}
		s.algorithm, s.file, s.value = strings.ToUpper(match[1]), strings.TrimPrefix(match[2], here), match[3]
	}
	var err error
	if s.bytes, err = hex.DecodeString(s.value); err != nil || len(s.bytes) == 0 {
		return nil, errors.New("the signature is not hexadecimal")
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil || len(s.certificates) == maxCertificates {
			return nil, errors.New("it has something else than at most 10 certificates in PEM")
		}
		s.certificates = append(s.certificates, certificate)
	}
	if len(s.certificates) == 0 {
		return nil, errors.New("it has no certificate in PEM")
	}
	return s, nil
}

// matches says why the signature is not that of a manifest by the first certificate.
func (s *signature) matches(name string, manifest []byte) error {
	if s.file != name {
		return errors.New("the signature is of another file: " + texts.Shorten(s.file, 120))
	}
	sum := newHash(s.algorithm)()
	_, _ = sum.Write(manifest) // a hash returns no error
	digest := sum.Sum(nil)
	kind := map[int]crypto.Hash{sha1.Size: crypto.SHA1, sha256.Size: crypto.SHA256, sha512.Size384: crypto.SHA384, sha512.Size: crypto.SHA512}[len(digest)]
	var valid bool
	switch key := s.certificates[0].PublicKey.(type) {
	case *rsa.PublicKey:
		valid = rsa.VerifyPKCS1v15(key, kind, digest, s.bytes) == nil
	case *ecdsa.PublicKey:
		valid = ecdsa.VerifyASN1(key, digest, s.bytes)
	default:
		return errors.New("the key of the certificate is neither RSA nor ECDSA")
	}
	if !valid {
		return errors.New("the signature is not that of the manifest")
	}
	return nil
}

// trusted says why a signature is not one of the authorities of the user. Its digest must not be SHA1: others can make two files with the
// same one.
func (s *signature) trusted(manifest []digest, trust func(signer *x509.Certificate, others []*x509.Certificate) error) error {
	weak := newHash(s.algorithm)().Size() == sha1.Size
	for i := range manifest {
		weak = weak || len(manifest[i].value) == 2*sha1.Size
	}
	if weak {
		return errors.New("the signature or the manifest has SHA1, which proves nothing")
	}
	return trust(s.certificates[0], s.certificates[1:])
}

// verifyCertificate verifies the signature of the manifest. Without authorities of the user it proves nothing, so what is wrong is a warning.
func (in *inspection) verifyCertificate(certificate *member, name string, manifest []byte) error {
	if certificate == nil {
		if in.options.Trust != nil {
			in.problems.Reject(ovf.ManifestInvalid, name, "the manifest has no signature", "name no certificate authority, or use a signed package")
		}
		return nil
	}
	data, err := in.content(*certificate, maxManifest, "certificate")
	if err != nil {
		return err
	}
	s, err := parseCertificate(data)
	if err == nil {
		in.found.Package.Certificate.Signer = texts.Shorten(s.certificates[0].Subject.String(), 256)
		err = s.matches(name, manifest)
	}
	if err == nil && in.options.Trust != nil {
		if err = s.trusted(in.digests, in.options.Trust); err == nil {
			in.found.Package.Certificate.Verified = true
		}
	}
	switch {
	case err == nil:
	case in.options.Trust != nil:
		in.problems.Reject(ovf.ManifestInvalid, certificate.name, "the signature is not verified: "+err.Error(), "get the package from its vendor, or name the vendor's certificate authority")
	default:
		in.problems.Warn(ovf.SignatureInvalid, certificate.name, "the signature of the manifest is not valid: "+err.Error())
	}
	return nil
}
