package status

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/cli/killswitch"
)

// endsSoon is the time before its end at which a certificate should have been replaced: the controller does it 90 days before, and
// cert-manager by default after two thirds of the validity.
const endsSoon = 14 * 24 * time.Hour

// certificates reports the CA bundles of the webhooks, and the serving certificates.
func (c *cluster) certificates(ctx context.Context) []Result {
	var results []Result
	roots := x509.NewCertPool()
	for _, kind := range killswitch.Kinds() {
		if !kind.Webhook {
			continue
		}
		objects, err := c.configurations(ctx, kind)
		if err != nil {
			results = append(results, unknown("CA of "+kind.Name, err))
		}
		for i := range objects {
			results = append(results, c.bundle(&objects[i], roots))
		}
	}
	services, err := c.list(ctx, killswitch.APIServices, "", killswitch.PartOf)
	if err == nil {
		for i := range services {
			data, _ := base64.StdEncoding.DecodeString(text(&services[i], "spec", "caBundle")) // an invalid one verifies nothing
			roots.AppendCertsFromPEM(data)
		}
	}
	return append(results, c.serving(ctx, roots, err == nil)...)
}

// bundle reports whether all webhooks of a configuration have a CA bundle, and when it ends.
func (c *cluster) bundle(object *unstructured.Unstructured, roots *x509.CertPool) Result {
	r := Result{Subject: "CA of " + object.GetKind() + " " + object.GetName(), State: OK}
	var first time.Time
	for _, webhook := range killswitch.Conditioned(object) {
		encoded, _, _ := unstructured.NestedString(webhook, "clientConfig", "caBundle")
		data, err := base64.StdEncoding.DecodeString(encoded)
		end, found := endOf(data)
		if err != nil || !found {
			r.State, r.Message = Error, "missing: the API server cannot verify the webhook"
			r.Remedy = "check the log of " + processes.Controller + ", or of cert-manager's cainjector"
			return r
		}
		roots.AppendCertsFromPEM(data)
		if first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return c.ends(r, first)
}

// endOf returns the end of the certificate in PEM that is valid the longest, and whether there is one.
func endOf(data []byte) (end time.Time, found bool) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return end, found
		}
		if one, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			found = true
			if one.NotAfter.After(end) {
				end = one.NotAfter
			}
		}
	}
}

// ends adds the end of a certificate to a result.
func (c *cluster) ends(r Result, end time.Time) Result {
	const remedy = "check the log of " + processes.Controller + ", which replaces it, or of cert-manager"
	left := end.Sub(c.now)
	r.Message = fmt.Sprintf("ends at %s, in %d days", end.UTC().Format(time.RFC3339), int(left.Hours()/24))
	switch {
	case end.IsZero():
		r.State, r.Message = Error, "there is no certificate"
		r.Remedy = remedy
	case left <= 0:
		r.State, r.Message, r.Remedy = Error, "ended at "+end.UTC().Format(time.RFC3339), remedy
	case left <= endsSoon:
		r.State, r.Remedy = worst(r.State, Warning), remedy
	}
	return r
}

// serving reports the certificates in Secrets. complete reports whether all CAs are known.
func (c *cluster) serving(ctx context.Context, roots *x509.CertPool, complete bool) []Result {
	home := c.home(ctx)
	secrets, err := c.list(ctx, corev1.SchemeGroupVersion.WithResource("secrets"), home, killswitch.PartOf)
	if err != nil {
		return []Result{unknown("serving certificates", err)}
	}
	var results []Result
	for i := range secrets {
		encoded, has, _ := unstructured.NestedString(secrets[i].Object, "data", "tls.crt")
		if !has {
			continue
		}
		r := Result{Subject: "Secret " + secrets[i].GetName(), State: OK}
		data, err := base64.StdEncoding.DecodeString(encoded)
		leaf, err := leafOf(data, err)
		if err != nil {
			r.State, r.Message, r.Remedy = Error, err.Error(), "check the log of "+processes.Controller+", or of cert-manager"
			results = append(results, r)
			continue
		}
		r = c.ends(r, leaf.NotAfter)
		options := x509.VerifyOptions{Roots: roots, CurrentTime: c.now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
		if _, err := leaf.Verify(options); complete && err != nil && r.State != Error {
			r.State, r.Message = Error, r.Message+"; no CA bundle verifies it: "+err.Error()
			r.Remedy = "restart " + processes.Controller + ", which corrects the CA bundles"
		}
		results = append(results, r)
	}
	return results
}

// leafOf returns the first certificate in PEM.
func leafOf(data []byte, err error) (*x509.Certificate, error) {
	if err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("there is no certificate")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	return leaf, nil
}
