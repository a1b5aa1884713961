package playground

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/virtward/virtward/cli/playground/answers"
	"github.com/virtward/virtward/texts"
)

// Bounds of the server.
const (
	// maxEvaluations is the number of questions that are answered at the same time, and maxWaiting the number of those that wait.
	maxEvaluations = 2
	maxWaiting     = 8
	// maxTime bounds an evaluation, with the time that it waits.
	maxTime = 20 * time.Second
)

// policy is the Content-Security-Policy: scripts and styles are those of this server, and scripts never make HTML of texts.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

//go:embed assets
var embedded embed.FS

// server answers the requests of one browser.
type server struct {
	// host is the address and the port, as the browser names them.
	host    string
	session *session
	// start has what the page shows first.
	start answers.Start

	answerer *answers.Answerer
	// running and waiting have an element for each evaluation, and for each one that waits or runs.
	running, waiting chan struct{}
	maxTime          time.Duration
}

func newServer(host string, start answers.Start) *server {
	_, port, _ := strings.Cut(host, ":")
	return &server{
		host: host, session: newSession(port), start: start, answerer: answers.New(time.Now),
		running: make(chan struct{}, maxEvaluations), waiting: make(chan struct{}, maxEvaluations+maxWaiting), maxTime: maxTime,
	}
}

// link is the address of the page with the token.
func (s *server) link() string { return "http://" + s.host + "/#token=" + s.session.token }

// handler returns the routes.
func (s *server) handler() http.Handler {
	assets, err := fs.Sub(embedded, "assets")
	if err != nil {
		panic(err) // the name is a constant
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(assets))
	mux.HandleFunc("POST /session", s.open)
	mux.Handle("GET /start", s.permitted(s.describe))
	mux.Handle("POST /answer", s.permitted(s.answer))
	return s.guarded(mux)
}

// guarded adds the headers of all answers, and rejects requests of other sites.
func (s *server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		for name, value := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "X-Frame-Options": "DENY",
		} {
			header.Set(name, value)
		}
		if r.Host != s.host { // a name of another site that resolves to this machine
			fail(w, http.StatusForbidden, fmt.Errorf("the host must be %s", s.host))
			return
		}
		origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
		own := "http://" + s.host
		safe := r.Method == http.MethodGet || r.Method == http.MethodHead
		// A link to the page may be on another site; the page has nothing secret.
		foreign := r.URL.Path != "/" && site != "" && site != "same-origin" && site != "none"
		if foreign || origin != "" && origin != own || !safe && origin != own {
			fail(w, http.StatusForbidden, fmt.Errorf("requests must come from %s", own))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// permitted rejects requests without the session.
func (s *server) permitted(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.session.permits(r) {
			fail(w, http.StatusUnauthorized, errors.New("this page has no session: open the link that the command printed"))
			return
		}
		next(w, r)
	})
}

// open exchanges the token.
func (s *server) open(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10)).Decode(&request); err != nil {
		fail(w, http.StatusBadRequest, errToken)
		return
	}
	if err := s.session.exchange(request.Token); err != nil {
		fail(w, http.StatusForbidden, err)
		return
	}
	// Not Secure: the page is served without TLS, and not all browsers accept that of 127.0.0.1.
	http.SetCookie(w, &http.Cookie{Name: s.session.name, Value: s.session.cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode}) //nolint:gosec // as above
	write(w, struct {
		Key string `json:"key"`
	}{s.session.key})
}

// describe returns what the page shows first.
func (s *server) describe(w http.ResponseWriter, _ *http.Request) { write(w, s.start) }

// answer answers a question.
func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		fail(w, http.StatusTooManyRequests, errors.New("too many evaluations wait: try again later"))
		return
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), s.maxTime, fmt.Errorf("the evaluation takes more than %s: use fewer virtual machines, cases or platforms", s.maxTime))
	defer cancel()
	select {
	case s.running <- struct{}{}:
		defer func() { <-s.running }()
	case <-ctx.Done():
		fail(w, http.StatusServiceUnavailable, context.Cause(ctx))
		return
	}
	question, err := answers.ReadQuestion(r.Body)
	switch {
	case errors.Is(err, answers.ErrTooLarge):
		fail(w, http.StatusRequestEntityTooLarge, err)
		return
	case err != nil:
		fail(w, http.StatusBadRequest, err)
		return
	}
	answer, err := s.answerer.Answer(ctx, question)
	switch {
	case ctx.Err() != nil:
		fail(w, http.StatusServiceUnavailable, context.Cause(ctx))
	case err != nil:
		fail(w, http.StatusInternalServerError, err)
	default:
		write(w, answer)
	}
}

// write writes a value as JSON.
func write(w http.ResponseWriter, value any) {
	data, err := answers.Encode(value)
	if err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data) // the browser may have gone
}

// fail writes an error as JSON.
func fail(w http.ResponseWriter, status int, err error) {
	data, _ := texts.JSON(map[string]string{"error": strings.ToValidUTF8(err.Error(), "\uFFFD")})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data)
}
