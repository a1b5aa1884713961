package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/virtward/virtward/sources"
)

// The reasons of errors.
const (
	ReasonNotPermitted      = "SourceNotPermitted"
	ReasonUnreachable       = "SourceUnreachable"
	ReasonNotFound          = "SourceNotFound"
	ReasonUnauthorized      = "SourceUnauthorized"
	ReasonServerError       = "SourceServerError"
	ReasonRedirects         = "SourceRedirects"
	ReasonCertificate       = "SourceCertificateInvalid"
	ReasonChanged           = "SourceChanged"
	ReasonTruncated         = "SourceTruncated"
	ReasonStalled           = "SourceStalled"
	ReasonTooLarge          = "SourceTooLarge"
	ReasonNoRanges          = "SourceWithoutRanges"
	ReasonChecksumMismatch  = "ChecksumMismatch"
	ReasonFormatMismatch    = "FormatMismatch"
	ReasonInvalidAuthority  = "CertificateAuthorityInvalid"
	ReasonMissingCredential = "CredentialsMissing"
)

// Error is why a source could not be read.
type Error struct {
	Reason, Message string
	// Permanent errors are the same at the next attempt.
	Permanent bool
	// Status is that of the answer, if it is the error; 0 for others.
	Status int
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// HasReason reports whether an error is an Error with a reason.
func HasReason(err error, reason string) bool {
	var known *Error
	return errors.As(err, &known) && known.Reason == reason
}

// Described is the error of a request or a read of one of the sources, for the user. It names no address.
func Described(ctx context.Context, err error, permitted *sources.Sources) *Error {
	var known *Error
	var certificate *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, sources.ErrAddress), errors.As(err, &dns): // the same for both: users must not learn the names of internal hosts
		return &Error{Reason: ReasonUnreachable, Message: permitted.Unresolved()}
	case errors.As(err, &certificate), errors.As(err, &unknown), errors.As(err, &host):
		return &Error{Reason: ReasonCertificate, Message: "the certificate of the server is not valid: certConfigMap can name its authority"}
	case errors.Is(context.Cause(ctx), errStalled):
		return &Error{Reason: ReasonStalled, Message: errStalled.Error()}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{Reason: ReasonTruncated, Message: "the connection ended before the file did"}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &Error{Reason: ReasonUnreachable, Message: "the server does not answer in time"}
	}
	return &Error{Reason: ReasonUnreachable, Message: "the connection to the server failed"}
}

// errStalled ends a stream in which no bytes arrive.
var errStalled = errors.New("the server sends no bytes")

// Answered is the error of a status.
func Answered(code int) *Error {
	e := &Error{Reason: ReasonServerError, Message: fmt.Sprintf("the server answers %d %s", code, http.StatusText(code)), Status: code}
	switch code {
	case http.StatusNotFound, http.StatusGone:
		e.Reason = ReasonNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		e.Reason = ReasonUnauthorized
		e.Message += ": secretRef can name credentials"
	}
	return e
}
