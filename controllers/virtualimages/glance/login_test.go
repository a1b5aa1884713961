package glance_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/controllers/virtualimages/glance"
	"github.com/virtward/virtward/test/glances"
	"github.com/virtward/virtward/virtualimages"
)

// loginOf is a login with the cloud test of a file.
func loginOf(file string) glance.Login {
	return glance.Login{Read: func() ([]byte, error) { return []byte(file), nil }, Cloud: "test"}
}

// now is a clock that only tests move.
type now struct {
	mu sync.Mutex
	at time.Time
}

func (n *now) Now() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.at
}

func (n *now) pass(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at = n.at.Add(d)
}

const (
	passwordOf    = `auth: {auth_url: %q, username: virtward, password: "correct horse", project_name: images, user_domain_name: Default, project_domain_name: Default}` //nolint:gosec // of a test
	applicationOf = `auth_type: v3applicationcredential, auth: {auth_url: %q, application_credential_id: app-1, application_credential_secret: "battery staple"}`
)

// keystone is a fake cloud with Keystone.
func keystone(t *testing.T) (*glances.Fake, *glances.Keystone) {
	t.Helper()
	f := glances.NewFake(t)
	k := glances.NewKeystone(t, (*httptest.Server).Start, glances.Endpoint{Region: "one", Interface: "public", URL: f.URL}, glances.Endpoint{Region: "one", Interface: "internal", URL: "http://127.0.0.1:1"})
	f.Permits = k.Permits
	return f, k
}

// observe makes one call.
func observe(t *testing.T, login glance.Login) (virtualimages.Observation, error) {
	t.Helper()
	c := &cloud{web: "http://127.0.0.1:1"}
	b, _ := c.backend(t, func(o *glance.Options) { o.Client = glance.Open(login) })
	return b.Observe(t.Context(), c.image("/disk"))
}

// TestLogin: the forms of clouds.yaml that clouds hand out, and what is wrong with others.
func TestLogin(t *testing.T) {
	f, k := keystone(t)
	many := glances.NewKeystone(t, (*httptest.Server).Start,
		glances.Endpoint{Region: "one", Interface: "public", URL: f.URL + "/v2/"}, glances.Endpoint{Region: "two", Interface: "public", URL: "http://127.0.0.1:1"},
		glances.Endpoint{Region: "three", Interface: "internal", URL: f.URL + "/v2"})
	f.Permits = func(token string) bool { return k.Permits(token) || many.Permits(token) }
	away := httptest.NewServer(http.RedirectHandler(k.URL+"/v3/auth/tokens", http.StatusTemporaryRedirect))
	defer away.Close()
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Subject-Token", "a")
		w.WriteHeader(http.StatusCreated)
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat(`[`, 1<<16)); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	for name, test := range map[string]struct{ file, reason, message string }{
		"password":                     {file: fmt.Sprintf(passwordOf, k.URL+"/v3")},
		"password without version":     {file: fmt.Sprintf(passwordOf, k.URL)},
		"application credential":       {file: fmt.Sprintf(applicationOf, k.URL+"/v3/")},
		"token without scope":          {file: fmt.Sprintf(`auth_type: token, auth: {auth_url: %q, token: %q}`, k.URL+"/v3", k.Token())},
		"region":                       {file: `region_name: one, ` + fmt.Sprintf(passwordOf, many.URL+"/v3")},
		"interface":                    {file: `region_name: three, interface: internal, ` + fmt.Sprintf(passwordOf, many.URL+"/v3")},
		"endpoint of another URL":      {file: `region_name: two, image_endpoint_override: ` + f.URL + `, ` + fmt.Sprintf(passwordOf, many.URL+"/v3")},
		"no region":                    {fmt.Sprintf(passwordOf, many.URL+"/v3"), glance.ReasonMisconfigured, "clouds.yaml needs a region_name: Glance is in the regions one, two"},
		"unknown region":               {`region_name: four, ` + fmt.Sprintf(passwordOf, k.URL+"/v3"), glance.ReasonMisconfigured, "the catalog of the cloud has no Glance with the interface public in the region four"},
		"unknown interface":            {`interface: admin, ` + fmt.Sprintf(passwordOf, k.URL+"/v3"), glance.ReasonMisconfigured, "the catalog of the cloud has no Glance with the interface admin"},
		"wrong password":               {strings.Replace(fmt.Sprintf(passwordOf, k.URL+"/v3"), "correct", "wrong", 1), glance.ReasonRejected, "the cloud rejects the credentials of clouds.yaml"},
		"wrong application credential": {strings.Replace(fmt.Sprintf(applicationOf, k.URL+"/v3"), "battery", "wrong", 1), glance.ReasonRejected, "the cloud rejects the credentials of clouds.yaml"},
		"another server":               {fmt.Sprintf(passwordOf, k.URL+"/identity/v3"), glance.ReasonMisconfigured, "auth_url does not lead to Keystone with the version 3: it answers 404"},
		"redirect":                     {fmt.Sprintf(passwordOf, away.URL+"/v3"), glance.ReasonMisconfigured, "auth_url does not lead to Keystone with the version 3: it answers 307"},
		"endless answer":               {fmt.Sprintf(passwordOf, endless.URL+"/v3"), virtualimages.ReasonUnreachable, "Keystone does not answer"},
		"no server":                    {fmt.Sprintf(passwordOf, "http://127.0.0.1:1/v3"), virtualimages.ReasonUnreachable, "Keystone does not answer"},
		"no auth_url":                  {`auth: {username: a, password: secret}`, glance.ReasonMisconfigured, `the cloud "test" has no auth_url`},
		"no auth":                      {`region_name: one`, glance.ReasonMisconfigured, "clouds.yaml cannot be used: cacert, cert and key must be files in PEM beside it"},
		"profile":                      {`profile: vexxhost, ` + fmt.Sprintf(passwordOf, k.URL), glance.ReasonMisconfigured, `the cloud "test" names a profile, which is not supported: set auth_url`},
		"missing authority":            {`cacert: ca.crt, ` + fmt.Sprintf(passwordOf, k.URL), glance.ReasonMisconfigured, "clouds.yaml cannot be used: cacert, cert and key must be files in PEM beside it"},
		"no endpoint":                  {`auth_type: none`, glance.ReasonMisconfigured, `the cloud "test" needs an image_endpoint_override such as https://glance.example.com:9292`},
		"not a URL":                    {`auth_type: none, image_endpoint_override: "ftp://x"`, glance.ReasonMisconfigured, `the cloud "test" needs an image_endpoint_override such as https://glance.example.com:9292`},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := observe(t, loginOf("clouds: {test: {"+test.file+"}}"))
			expect(t, o, err, test.reason, test.message)
		})
	}
	for file, message := range map[string]string{ //nolint:gosec // no credentials
		`clouds: {}`:                            `clouds.yaml has no cloud "test"`,
		`{`:                                     "clouds.yaml is not YAML, or does not have the form of OpenStack",
		`clouds: {test: {auth_type: [secret]}}`: "clouds.yaml is not YAML, or does not have the form of OpenStack",
		strings.Repeat("#", 1<<19):              "the Secret with clouds.yaml cannot be read, or has more than 256 KiB",
	} {
		o, err := observe(t, loginOf(file))
		expect(t, o, err, glance.ReasonMisconfigured, message)
	}
	if _, err := observe(t, glance.Login{Read: func() ([]byte, error) { return nil, os.ErrNotExist }, Cloud: "test"}); err == nil || strings.Contains(err.Error(), "not exist") {
		t.Errorf("error %v", err)
	}
}

// expect holds that a call succeeded, or failed with a reason and exactly this message, in which there can be no secret.
func expect(t *testing.T, o virtualimages.Observation, err error, reason, message string) {
	t.Helper()
	if reason == "" {
		if err != nil || o.State != virtualimages.Absent {
			t.Errorf("%+v, %v", o, err)
		}
		return
	}
	var fault *backend.Unavailable
	if !errors.As(err, &fault) || fault.Reason != reason || fault.Message != message {
		t.Errorf("%#v, want %s: %s", err, reason, message)
	}
}

// TestCertificates: a cloud with an authority of its own, beside clouds.yaml.
func TestCertificates(t *testing.T) {
	f := glances.NewFake(t)
	k := glances.NewKeystone(t, (*httptest.Server).StartTLS, glances.Endpoint{Region: "one", Interface: "public", URL: f.URL})
	f.Permits = k.Permits
	folder := t.TempDir()
	must(t, os.WriteFile(filepath.Join(folder, "ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.Certificate().Raw}), 0o600))
	must(t, os.WriteFile(filepath.Join(folder, "empty.crt"), nil, 0o600))
	for name, test := range map[string]struct{ options, reason, message string }{
		"authority":        {options: "cacert: ca.crt, "},
		"not verified":     {options: "verify: false, "},
		"no authority":     {"", virtualimages.ReasonUnreachable, "Keystone does not answer"},
		"no certificate":   {"cacert: empty.crt, ", glance.ReasonMisconfigured, "clouds.yaml cannot be used: cacert, cert and key must be files in PEM beside it"},
		"key without cert": {"key: ca.crt, ", glance.ReasonMisconfigured, "clouds.yaml cannot be used: cacert, cert and key must be files in PEM beside it"},
	} {
		t.Run(name, func(t *testing.T) {
			login := loginOf("clouds: {test: {" + test.options + fmt.Sprintf(passwordOf, k.URL+"/v3") + "}}")
			login.Folder = folder
			o, err := observe(t, login)
			expect(t, o, err, test.reason, test.message)
		})
	}
}

// TestTokens: a token that expires is renewed, also between two calls of one import. A file that was begun is not sent again.
func TestTokens(t *testing.T) {
	for name, file := range map[string]string{"password": passwordOf, "application credential": applicationOf} {
		t.Run(name, func(t *testing.T) {
			f, k := keystone(t)
			c := &cloud{endpoint: f.URL + "/", web: files(t)}
			b, _ := c.backend(t, func(o *glance.Options) {
				o.Client = glance.Open(loginOf("clouds: {test: {" + fmt.Sprintf(file, k.URL+"/v3") + "}}"))
			})
			image := c.image("/disk")
			var once atomic.Bool
			f.SetFault(func(_ http.ResponseWriter, r *http.Request, _ int) bool {
				if kindOf(r.Method+" "+r.URL.Path) == "POST images" && !once.Swap(true) {
					k.Expire() // between this call and the next
				}
				return false
			})
			until(t, b, image, virtualimages.Ready)
			if n := len(k.Logins()); n < 2 {
				t.Errorf("%d logins", n)
			}
			k.Expire()
			remove(t, b, image)
		})
	}
}

// TestRevokedWhileStreaming: the token ends after the file was begun. The attempt fails without a second body, and the next
// one has a token of its own.
func TestRevokedWhileStreaming(t *testing.T) {
	f, k := keystone(t)
	c := &cloud{endpoint: f.URL + "/", web: files(t)}
	b, _ := c.backend(t, func(o *glance.Options) {
		o.Client = glance.Open(loginOf("clouds: {test: {" + fmt.Sprintf(passwordOf, k.URL+"/v3") + "}}"))
	})
	bodies := 0
	f.SetFault(func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if r.Method != http.MethodPut || bodies > 0 {
			return false
		}
		bodies++
		_, _ = io.CopyN(io.Discard, r.Body, 1<<20)
		k.Expire()
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	image := c.image("/disk")
	o := until(t, b, image, virtualimages.Failed, virtualimages.Ready)
	if o.State != virtualimages.Failed || o.Permanent || o.Reason != glance.ReasonInterrupted {
		t.Fatalf("%+v", o)
	}
	f.Mu.Lock()
	puts := slices.DeleteFunc(slices.Clone(f.Calls), func(call string) bool { return !strings.HasPrefix(call, "PUT ") })
	f.Mu.Unlock()
	if len(puts) != 1 {
		t.Errorf("bodies: %v", puts)
	}
	remove(t, b, image)
	image.Attempt++
	image.ID = virtualimages.ID(image.Cluster, image.UID, image.Attempt)
	until(t, b, image, virtualimages.Ready)
}

// TestLoginPauses: credentials that are rejected are not sent with each call, and new ones are used at once.
func TestLoginPauses(t *testing.T) {
	_, k := keystone(t)
	clock := &now{at: time.Unix(1_800_000_000, 0)}
	file := strings.Replace(fmt.Sprintf(passwordOf, k.URL+"/v3"), "correct", "wrong", 1)
	c := &cloud{web: "http://127.0.0.1:1"}
	b, _ := c.backend(t, func(o *glance.Options) {
		o.Client = glance.Open(glance.Login{Read: func() ([]byte, error) { return []byte("clouds: {test: {" + file + "}}"), nil }, Cloud: "test", Now: clock.Now})
	})
	image := c.image("/disk")
	for range 600 {
		if _, err := b.Observe(t.Context(), image); err == nil || !strings.Contains(err.Error(), "rejects the credentials") {
			t.Fatalf("error %v", err)
		}
		clock.pass(time.Second)
	}
	if n := len(k.Logins()); n != 10 {
		t.Errorf("%d logins in ten minutes, want 10", n)
	}
	file = fmt.Sprintf(passwordOf, k.URL+"/v3")
	clock.pass(10 * time.Second)
	if o, err := b.Observe(t.Context(), image); err != nil || o.State != virtualimages.Absent {
		t.Errorf("%+v, %v", o, err)
	}
	k.Reject(true)
	k.Expire()
	if _, err := b.Observe(t.Context(), image); err == nil || !strings.Contains(err.Error(), "rejects the credentials") {
		t.Errorf("error %v", err)
	}
	k.Reject(false)
	clock.pass(time.Minute)
	if o, err := b.Observe(t.Context(), image); err != nil || o.State != virtualimages.Absent {
		t.Errorf("after the account works again: %+v, %v", o, err)
	}
}

// TestOutage: while Glance does not answer for ten minutes, few calls are made, and none waits. Afterwards, one call is enough.
func TestOutage(t *testing.T) {
	f := glances.NewFake(t)
	c := &cloud{endpoint: f.URL + "/", web: files(t)}
	clock := &now{at: time.Unix(1_800_000_000, 0)}
	login := loginOf(fmt.Sprintf("clouds: {test: {auth_type: none, image_endpoint_override: %q}}", c.endpoint))
	login.Now = clock.Now
	b, _ := c.backend(t, func(o *glance.Options) { o.Client = glance.Open(login) })
	image := c.image("/disk")
	until(t, b, image, virtualimages.Ready)
	f.Mu.Lock()
	before := len(f.Calls)
	f.Mu.Unlock()
	f.SetFault(func(http.ResponseWriter, *http.Request, int) bool { panic(http.ErrAbortHandler) })
	for range 600 {
		if _, err := b.Observe(t.Context(), image); err == nil {
			t.Fatal("an answer")
		}
		clock.pass(time.Second)
	}
	f.Mu.Lock()
	calls := len(f.Calls) - before
	f.Mu.Unlock()
	if calls < 10 || calls > 40 { // net/http repeats a GET once on a connection that was used before
		t.Errorf("%d calls in ten minutes", calls)
	}
	f.SetFault(nil)
	clock.pass(time.Minute)
	if o, err := b.Observe(t.Context(), image); err != nil || o.State != virtualimages.Ready {
		t.Errorf("%+v, %v", o, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 { // calls that are given up say nothing about Glance
		_, _ = b.Observe(ctx, image)
	}
	if o, err := b.Observe(t.Context(), image); err != nil || o.State != virtualimages.Ready {
		t.Errorf("%+v, %v", o, err)
	}
	t.Logf("%d calls in ten minutes", calls)
}
