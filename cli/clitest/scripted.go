package clitest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Scripted is an API server that gives the answers of a script, and notes the requests.
type Scripted struct {
	*httptest.Server

	mu sync.Mutex
	// answers are by method and path. The last answer of a list is repeated.
	answers map[string][]Answer
	// Requests are METHOD PATH BODY, with dry before the body of a request that changes nothing.
	Requests []string
}

// Answer is the code and the body of an answer.
type Answer struct {
	Code int
	Body string
}

// NewScripted starts a server with answers by METHOD PATH. Everything else is absent.
func NewScripted(t *testing.T, answers map[string][]Answer) *Scripted {
	t.Helper()
	s := &Scripted{answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		next := s.next(r, string(body))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(next.Code)
		if _, err := io.WriteString(w, next.Body); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *Scripted) next(r *http.Request, body string) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := r.Method + " " + r.URL.Path
	if r.URL.Query().Get("dryRun") != "" {
		key += " dry"
	}
	s.Requests = append(s.Requests, strings.TrimSpace(key+" "+body))
	list := s.answers[key]
	if len(list) == 0 {
		return Answer{http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"not found"}`}
	}
	if len(list) > 1 {
		s.answers[key] = list[1:]
	}
	return list[0]
}
