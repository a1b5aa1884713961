package playground

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/virtward/virtward/cli/playground/answers"
)

// browser sends requests to a server as a browser does.
type browser struct {
	t      *testing.T
	server *server
	url    string
	// headers replace those that a browser sends; an empty value removes one.
	headers map[string]string
	cookie  *http.Cookie
	key     string
}

func open(t *testing.T) *browser {
	t.Helper()
	unnamed := httptest.NewUnstartedServer(nil)
	s := newServer(unnamed.Listener.Addr().String(), answers.NewStart())
	unnamed.Config.Handler = s.handler()
	unnamed.Start()
	t.Cleanup(unnamed.Close)
	return &browser{t: t, server: s, url: unnamed.URL}
}

// send returns the response and its body.
func (b *browser) send(method, path string, body any) reply {
	b.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, bytes.NewReader(data))
	if err != nil {
		b.t.Fatal(err)
	}
	headers := map[string]string{"Sec-Fetch-Site": "same-origin", keyHeader: b.key}
	if method != http.MethodGet {
		headers["Origin"] = b.url
	}
	maps.Copy(headers, b.headers)
	for name, value := range headers {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	if host := headers["Host"]; host != "" {
		r.Host = host
	}
	if b.cookie != nil {
		r.AddCookie(b.cookie)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return reply{status: response.StatusCode, header: response.Header, cookies: response.Cookies(), text: string(text)}
}

// reply is a response that was read.
type reply struct {
	status  int
	header  http.Header
	cookies []*http.Cookie
	text    string
}

// want sends a request, and compares the status and a part of the body.
func (b *browser) want(status int, part, method, path string, body any) {
	b.t.Helper()
	got := b.send(method, path, body)
	if got.status != status || !strings.Contains(got.text, part) {
		b.t.Errorf("%s %s: %d %.300s, want %d with %q", method, path, got.status, got.text, status, part)
	}
}

// begin exchanges the token.
func (b *browser) begin() {
	b.t.Helper()
	got := b.send(http.MethodPost, "/session", map[string]string{"token": b.server.session.token})
	var opened struct{ Key string }
	if err := json.Unmarshal([]byte(got.text), &opened); err != nil || got.status != http.StatusOK || opened.Key == "" || len(got.cookies) != 1 {
		b.t.Fatalf("%d %s", got.status, got.text)
	}
	b.cookie, b.key = got.cookies[0], opened.Key
}

func question() answers.Question {
	return answers.Question{Files: answers.NewStart().Files, Platforms: []answers.Platform{{}}}
}

// Browsers send cookies to all ports of a host, and keep one of each name: the page of another command has a cookie of its own.
func TestTwoPages(t *testing.T) {
	t.Parallel()
	one, other := open(t), open(t)
	one.begin()
	other.begin()
	if one.cookie.Name == other.cookie.Name {
		t.Errorf("both cookies are named %s", one.cookie.Name)
	}
}

// The token is exchanged once, for a cookie that neither scripts nor other sites get, and a key. Requests need both.
func TestSession(t *testing.T) {
	t.Parallel()
	b := open(t)
	if link := b.server.link(); link != b.url+"/#token="+b.server.session.token || len(b.server.session.token) < 26 {
		t.Errorf("the link is %s", link)
	}
	b.want(http.StatusUnauthorized, "no session", http.MethodGet, "/start", nil)
	b.want(http.StatusUnauthorized, "no session", http.MethodPost, "/answer", question())
	b.want(http.StatusForbidden, "not valid", http.MethodPost, "/session", map[string]string{"token": "guess"})
	b.want(http.StatusForbidden, "not valid", http.MethodPost, "/session", map[string]string{"token": ""})
	b.want(http.StatusBadRequest, "not valid", http.MethodPost, "/session", strings.Repeat("x", 1<<20))
	b.begin()
	if c := b.cookie; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Domain != "" || c.Path != "/" || c.MaxAge != 0 || !c.Expires.IsZero() {
		t.Errorf("the cookie is %v", c)
	}
	b.want(http.StatusForbidden, "works once", http.MethodPost, "/session", map[string]string{"token": b.server.session.token})
	b.want(http.StatusOK, `"examples":`, http.MethodGet, "/start", nil)
	b.want(http.StatusOK, `"tests":`, http.MethodPost, "/answer", question())
	cookie, key := b.cookie, b.key
	b.key = ""
	b.want(http.StatusUnauthorized, "no session", http.MethodGet, "/start", nil)
	b.key, b.cookie = key, nil
	b.want(http.StatusUnauthorized, "no session", http.MethodGet, "/start", nil)
	b.cookie = &http.Cookie{Name: cookie.Name, Value: cookie.Value + "x"} //nolint:gosec // it is sent, and not set
	b.want(http.StatusUnauthorized, "no session", http.MethodGet, "/start", nil)
}

// Requests of other sites, and for other names of this machine, are rejected with and without the session.
func TestOtherSites(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.begin()
	port := b.url[strings.LastIndex(b.url, ":"):]
	for name, headers := range map[string]map[string]string{
		"a name that resolves to this machine": {"Host": "evil.example" + port},
		"localhost":                            {"Host": "localhost" + port},
		"another port":                         {"Host": "127.0.0.1:1"},
		"another site":                         {"Origin": "https://evil.example"},
		"another port of this machine":         {"Origin": "http://127.0.0.1:1"},
		"no origin":                            {"Origin": ""},
		"the origin of a sandboxed frame":      {"Origin": "null"},
		"another scheme":                       {"Origin": "https" + strings.TrimPrefix(b.url, "http")},
		"a form of another site":               {"Sec-Fetch-Site": "cross-site"},
		"a page of another port":               {"Sec-Fetch-Site": "same-site"},
	} {
		b.headers = headers
		b.want(http.StatusForbidden, "must", http.MethodPost, "/answer", question())
		b.want(http.StatusForbidden, "must", http.MethodPost, "/session", map[string]string{"token": b.server.session.token})
		if headers["Origin"] == "" && headers["Host"] == "" && headers["Sec-Fetch-Site"] == "" {
			continue // browsers send no origin with a GET request of the page itself
		}
		if got := b.send(http.MethodGet, "/start", nil); got.status != http.StatusForbidden {
			t.Errorf("%s: %d %.100s", name, got.status, got.text)
		}
	}
	b.headers = map[string]string{"Sec-Fetch-Site": "cross-site"}
	b.want(http.StatusOK, "<title>Virtward playground</title>", http.MethodGet, "/", nil)
	b.want(http.StatusForbidden, "must", http.MethodGet, "/page.js", nil)
}

// All answers have a policy without exceptions. There are no other routes, and no method but GET and POST.
func TestHeaders(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.begin()
	for path, kind := range map[string]string{
		"/": "text/html", "/page.js": "text/javascript", "/style.css": "text/css", "/icon.svg": "image/svg+xml", "/start": "application/json", "/absent": "text/plain",
	} {
		got := b.send(http.MethodGet, path, nil)
		h := got.header
		if sent := h.Get("Content-Type"); !strings.HasPrefix(sent, kind) {
			t.Errorf("%s: the type is %s", path, sent)
		}
		csp := h.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self';", "connect-src 'self'", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(csp, part) {
				t.Errorf("%s: the policy lacks %s: %s", path, part, csp)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") {
			t.Errorf("%s: the policy has an exception: %s", path, csp)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != "no-store" && got.status == http.StatusOK || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", path, h)
		}
	}
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch} {
		b.want(http.StatusMethodNotAllowed, "", method, "/answer", nil)
	}
	b.want(http.StatusNotFound, "", http.MethodGet, "/../server.go", nil)
	b.want(http.StatusMethodNotAllowed, "", http.MethodPost, "/", nil)
}

// Questions have bounds, and the errors name the field.
func TestBounds(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.begin()
	change := func(f func(*answers.Question)) answers.Question {
		q := question()
		f(&q)
		return q
	}
	for part, q := range map[string]any{
		"platforms: must be 1 to 6":           change(func(q *answers.Question) { q.Platforms = make([]answers.Platform, 7) }),
		"platforms[0].hypervisor: unknown":    change(func(q *answers.Question) { q.Platforms[0].Hypervisor = "xen" }),
		"platforms[0].architecture: unknown":  change(func(q *answers.Question) { q.Platforms[0].Architecture = "vax" }),
		"kubeVirtVersion: unknown":            change(func(q *answers.Question) { q.KubeVirtVersion = "0.1" }),
		"files[0].name":                       change(func(q *answers.Question) { q.Files[0].Name = "../vm.yaml" }),
		"files[1].name: vm.yaml is the name":  change(func(q *answers.Question) { q.Files[1].Name = "vm.yaml" }),
		"files[0].text: vm.yaml has 1024 KiB": change(func(q *answers.Question) { q.Files[0].Text = strings.Repeat("#", answers.MaxFile+1) }),
		"files: they have more than 2048 KiB": change(func(q *answers.Question) { q.Files = manyFiles(3, answers.MaxFile) }),
		"files: must be at most 12":           change(func(q *answers.Question) { q.Files = manyFiles(13, 1) }),
		"values[a]: must have":                change(func(q *answers.Question) { q.Values = map[string]string{"a": strings.Repeat("x", 1<<20)} }),
		"unknown field":                       map[string]any{"command": "rm"},
		"cannot unmarshal":                    "text",
		"platforms: must be 1 to 6 \x00"[:25]: map[string]any{},
	} {
		b.want(http.StatusBadRequest, part, http.MethodPost, "/answer", q)
	}
	b.want(http.StatusRequestEntityTooLarge, "12 MiB", http.MethodPost, "/answer", change(func(q *answers.Question) { q.Files[0].Text = strings.Repeat("#", answers.MaxQuestion) }))
}

func manyFiles(n, size int) (all []answers.File) {
	for i := range n {
		all = append(all, answers.File{Name: string(rune('a'+i)) + ".yaml", Text: strings.Repeat("#", size)})
	}
	return all
}

// Only some questions are evaluated at the same time, some wait, and the others are rejected. One that waits too long is too.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.begin()
	b.server.maxTime = 50 * time.Millisecond
	for range maxEvaluations {
		b.server.running <- struct{}{}
		b.server.waiting <- struct{}{}
	}
	b.want(http.StatusServiceUnavailable, "takes more than", http.MethodPost, "/answer", question())
	for range maxWaiting {
		b.server.waiting <- struct{}{}
	}
	b.want(http.StatusTooManyRequests, "too many", http.MethodPost, "/answer", question())
	if len(b.server.running) != maxEvaluations || len(b.server.waiting) != maxEvaluations+maxWaiting {
		t.Error("a rejected question took or gave away a place")
	}
}

// An evaluation that takes too long ends with an error.
func TestTime(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.begin()
	b.server.maxTime = time.Nanosecond
	b.want(http.StatusServiceUnavailable, "takes more than 1ns", http.MethodPost, "/answer", question())
	if len(b.server.running)+len(b.server.waiting) != 0 {
		t.Error("the place is not free again")
	}
}
