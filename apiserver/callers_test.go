package apiserver

import (
	"context"
	"crypto/x509"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// late has its authorities some time after its controller began to run, as those of a ConfigMap.
type late struct {
	after time.Duration
	runs  atomic.Int32
	ready atomic.Bool
}

func (*late) AddListener(dynamiccertificates.Listener) {}
func (*late) Name() string                             { return "late" }

func (l *late) CurrentCABundleContent() []byte {
	if !l.ready.Load() {
		return nil
	}
	return []byte("authorities")
}
func (*late) VerifyOptions() (x509.VerifyOptions, bool) { return x509.VerifyOptions{}, false }
func (*late) RunOnce(context.Context) error             { return nil }

func (l *late) Run(ctx context.Context, _ int) {
	l.runs.Add(1)
	select {
	case <-time.After(l.after):
		l.ready.Store(true)
	case <-ctx.Done():
	}
}

// TestKnowCallers: the server accepts no connection before it knows the authorities of the aggregator, and their controllers run once.
func TestKnowCallers(t *testing.T) {
	t.Parallel()
	headers := headerrequest.StaticStringSlice{"X-Remote-User"}
	for name, test := range map[string]struct {
		after   time.Duration
		headers headerrequest.StringSliceProvider
		want    string
	}{
		"they are read late":     {after: 50 * time.Millisecond, headers: headers},
		"they are not read":      {after: time.Hour, headers: headers, want: "requestheader-client-ca-file"},
		"no header names a user": {headers: headerrequest.StaticStringSlice{}, want: "requestheader-username-headers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			authorities := &late{after: test.after}
			serving := &genericapiserver.SecureServingInfo{ClientCA: authorities}
			within := time.Second
			if test.want == "" {
				within = time.Minute
			}
			err := knowCallers(t.Context(), serving, &authenticatorfactory.RequestHeaderConfig{CAContentProvider: authorities, UsernameHeaders: test.headers}, within)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if err == nil && authorities.CurrentCABundleContent() == nil {
				t.Error("the server listens before it knows the authorities")
			}
			if _, again := serving.ClientCA.(dynamiccertificates.ControllerRunner); again {
				t.Error("the library runs the controllers a second time")
			}
		})
	}
	if err := knowCallers(t.Context(), &genericapiserver.SecureServingInfo{}, nil, time.Second); err != nil {
		t.Errorf("a server without an aggregator: %v", err)
	}
}
