package glances

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// The credentials that Keystone accepts.
const (
	User        = "virtward"
	Password    = "correct horse"
	Application = "app-1"
	Secret      = "battery staple"
	ProjectName = "images"
)

// Endpoint is that of a service in the catalog.
type Endpoint struct {
	Region    string `json:"region"`
	Interface string `json:"interface"`
	URL       string `json:"url"`
}

// Keystone simulates the logins of Keystone. Create it with NewKeystone.
type Keystone struct {
	*httptest.Server

	mu sync.Mutex
	// tokens have the times at which they end.
	tokens   map[string]time.Time
	lifetime time.Duration
	catalog  []Endpoint
	services map[string][]Endpoint
	rejects  bool
	logins   []string
}

// NewKeystone starts a Keystone that ends with the test. Its catalog has the endpoints of Glance. With start, it is started
// with a function of the server, such as StartTLS.
func NewKeystone(t testing.TB, start func(*httptest.Server), catalog ...Endpoint) *Keystone {
	t.Helper()
	k := &Keystone{tokens: map[string]time.Time{}, lifetime: time.Hour, catalog: catalog, services: map[string][]Endpoint{"compute": {{Region: "one", Interface: "public", URL: "http://127.0.0.1:1/"}}}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", k.versions)
	mux.HandleFunc("POST /v3/auth/tokens", k.login)
	mux.HandleFunc("GET /v3/auth/tokens", k.read)
	k.Server = httptest.NewUnstartedServer(mux)
	start(k.Server)
	t.Cleanup(k.Close)
	return k
}

// Offer replaces the endpoints of a service in the catalog by its type, such as compute or volumev3.
func (k *Keystone) Offer(service string, endpoints ...Endpoint) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.services[service] = endpoints
}

// Permits reports whether a token is valid.
func (k *Keystone) Permits(token string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Now().Before(k.tokens[token])
}

// Expire ends all tokens.
func (k *Keystone) Expire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.tokens)
}

// Reject makes all logins fail, or none.
func (k *Keystone) Reject(all bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rejects = all
}

// Logins are the methods of the logins, accepted or not.
func (k *Keystone) Logins() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.logins...)
}

func (k *Keystone) versions(w http.ResponseWriter, _ *http.Request) {
	links := []any{map[string]any{"rel": "self", "href": k.URL + "/v3/"}}
	respond(w, http.StatusMultipleChoices, map[string]any{"versions": map[string]any{"values": []any{map[string]any{"id": "v3.14", "status": "stable", "links": links}}}})
}

// request is a login, as far as it is checked.
type request struct {
	Auth struct {
		Identity struct {
			Methods  []string `json:"methods"`
			Password struct {
				User struct {
					Name     string            `json:"name"`
					Password string            `json:"password"`
					Domain   map[string]string `json:"domain"`
				} `json:"user"`
			} `json:"password"`
			Application struct {
				ID     string `json:"id"`
				Secret string `json:"secret"`
			} `json:"application_credential"`
		} `json:"identity"`
		Scope *struct {
			Project map[string]any `json:"project"`
		} `json:"scope"`
	} `json:"auth"`
}

func (k *Keystone) login(w http.ResponseWriter, r *http.Request) {
	var got request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&got); err != nil || len(got.Auth.Identity.Methods) != 1 {
		respond(w, http.StatusBadRequest, map[string]any{"error": map[string]any{"message": "not a login"}})
		return
	}
	identity := &got.Auth.Identity
	k.mu.Lock()
	defer k.mu.Unlock()
	k.logins = append(k.logins, identity.Methods[0])
	accepted := false
	switch identity.Methods[0] {
	case "password":
		u := identity.Password.User
		accepted = u.Name == User && u.Password == Password && u.Domain["name"] == "Default" && got.Auth.Scope != nil && got.Auth.Scope.Project["name"] == ProjectName
	case "application_credential": // it has the scope of its project
		accepted = identity.Application.ID == Application && identity.Application.Secret == Secret && got.Auth.Scope == nil
	}
	if k.rejects || !accepted { // a bad server quotes the request
		respond(w, http.StatusUnauthorized, map[string]any{"error": map[string]any{"code": 401, "message": "not accepted: " + identity.Password.User.Password + identity.Application.Secret}})
		return
	}
	token := rand.Text()
	k.tokens[token] = time.Now().Add(k.lifetime)
	k.answer(w, http.StatusCreated, token)
}

// Token is a token that was not made with a login.
func (k *Keystone) Token() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	token := rand.Text()
	k.tokens[token] = time.Now().Add(k.lifetime)
	return token
}

// read answers with what a token is.
func (k *Keystone) read(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	token := r.Header.Get("X-Subject-Token")
	if !time.Now().Before(k.tokens[token]) {
		respond(w, http.StatusUnauthorized, nil)
		return
	}
	k.answer(w, http.StatusOK, token)
}

// answer is that to a login. The lock is held.
func (k *Keystone) answer(w http.ResponseWriter, status int, token string) {
	w.Header().Set("X-Subject-Token", token)
	catalog := []any{map[string]any{"type": "image", "name": "glance", "endpoints": k.catalog}}
	for name, endpoints := range k.services {
		catalog = append(catalog, map[string]any{"type": name, "name": name, "endpoints": endpoints})
	}
	respond(w, status, map[string]any{"token": map[string]any{
		"expires_at": k.tokens[token].UTC().Format("2006-01-02T15:04:05.000000Z"), "project": map[string]any{"id": "project-1", "name": ProjectName},
		"catalog": catalog,
	}})
}
