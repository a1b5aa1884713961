package images

import (
	"crypto/x509"
	"encoding/pem"
	"testing"
)

// TestAuthorities: the images have the authorities of public servers, at the path where Go programs read them.
func TestAuthorities(t *testing.T) {
	for _, file := range base {
		if file.header.Name != "etc/ssl/certs/ca-certificates.crt" {
			continue
		}
		found := 0
		for block, rest := pem.Decode([]byte(file.content)); block != nil; block, rest = pem.Decode(rest) {
			if certificate, err := x509.ParseCertificate(block.Bytes); err != nil || !certificate.IsCA {
				t.Errorf("certificate %d: %v", found, err)
			}
			found++
		}
		if found < 100 {
			t.Errorf("%d authorities", found)
		}
		return
	}
	t.Error("the image has no authorities")
}
