package glance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/virtward/virtward/controllers/virtualimages/backend"
)

// Login says how to log in to a cloud.
type Login struct {
	// Read returns clouds.yaml. It is called again at intervals, so that new credentials are used without a restart.
	Read func() ([]byte, error)
	// Folder is where relative paths in clouds.yaml begin.
	Folder string
	Cloud  string
	// Now is the time; nil for that of the machine.
	Now func() time.Time
}

// The intervals of a session.
const (
	// reread is the age of clouds.yaml at which it is read again.
	reread = 10 * time.Second
	// firstPause and lastPause are the times between two logins, doubled after each that fails. Credentials that were
	// rejected wait for the longest: a cloud locks accounts after a few failures.
	firstPause, lastPause = 5 * time.Second, time.Minute
	// maxFile bounds clouds.yaml.
	maxFile = 256 << 10
)

// session is a login that is made when it is needed.
type session struct {
	Login

	// gate has one place: only one call logs in. It guards the rest.
	gate    chan struct{}
	state   *breaker
	service *connection
	// sum is that of clouds.yaml, read the time at which it was read.
	sum  [sha256.Size]byte
	read time.Time
	// fault is why the last login failed, until when no other one is tried.
	fault error
	until time.Time
	pause time.Duration
}

// get returns the service. It logs in if that was not done, or if clouds.yaml changed.
func (s *session) get(ctx context.Context) (*connection, error) {
	select {
	case s.gate <- struct{}{}:
	case <-ctx.Done():
		return nil, unreachable("Keystone does not answer")
	}
	defer func() { <-s.gate }()
	now := s.Now()
	file, err := s.file(now)
	switch {
	case s.service != nil:
		return s.service, nil
	case s.fault != nil && now.Before(s.until):
		return nil, s.fault
	case err != nil:
		return nil, err
	}
	service, err := connect(ctx, file, s.Cloud, s.Folder, s.state)
	if err != nil {
		s.failed(err, now)
		return nil, err
	}
	s.service, s.fault, s.pause = service, nil, 0
	return service, nil
}

// file reads clouds.yaml if there is no service, or from time to time. A file that changed ends the session.
func (s *session) file(now time.Time) ([]byte, error) {
	if age := now.Sub(s.read); (s.service != nil || s.fault != nil) && age >= 0 && age < reread {
		if s.service != nil || now.Before(s.until) {
			return nil, nil
		}
	}
	file, err := s.Read()
	if err != nil || len(file) > maxFile {
		return nil, misconfigured("the Secret with clouds.yaml cannot be read, or has more than %d KiB", maxFile>>10)
	}
	s.read = now
	if sum := sha256.Sum256(file); !bytes.Equal(sum[:], s.sum[:]) {
		s.sum, s.service, s.fault, s.pause = sum, nil, nil, 0
	}
	return file, nil
}

func (s *session) failed(err error, now time.Time) {
	s.pause = min(max(2*s.pause, firstPause), lastPause)
	var fault *backend.Unavailable
	if errors.As(err, &fault) && fault.Reason == ReasonRejected {
		s.pause = lastPause
	}
	s.fault, s.until = err, now.Add(s.pause)
}

// rejected ends the session of a service whose token is rejected and cannot be renewed.
func (s *session) rejected(ctx context.Context, service *connection, fault error) {
	select {
	case s.gate <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-s.gate }()
	if s.service == service {
		s.service = nil
		s.failed(fault, s.Now())
	}
}

// tokenError is the error of a call whose token Glance does not accept; nil for every other one.
func tokenError(err error) error {
	var renewal *gophercloud.ErrUnableToReauthenticate
	var again *gophercloud.ErrErrorAfterReauthentication
	switch {
	case errors.As(err, &renewal):
		return loginError(renewal.ErrReauth)
	case errors.As(err, &again) && statusOf(again.ErrOriginal) == http.StatusUnauthorized, statusOf(err) == http.StatusUnauthorized:
		return &backend.Unavailable{Reason: ReasonRejected, Message: "Glance does not accept the token of the cloud"}
	}
	return nil
}
