package serving

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"
)

// reviewer is an API server that knows the tokens prometheus, guest and any that begins with "many". Only guest may not get the path.
type reviewer struct {
	mu sync.Mutex
	// reviewed counts TokenReviews, atOnce those in progress, and most is the largest number of them.
	reviewed, atOnce, most int
	// asked is the last SubjectAccessReview.
	asked  authorizationv1.SubjectAccessReviewSpec
	broken bool
	// pause is the duration of a TokenReview.
	pause time.Duration
}

// client returns a client of the reviewer, which runs until the test ends.
func (a *reviewer) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// ServeHTTP implements http.Handler.
func (a *reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/apis/authorization.k8s.io/v1/subjectaccessreviews" {
		review := authorizationv1.SubjectAccessReview{}
		_ = json.NewDecoder(r.Body).Decode(&review)
		a.asked = review.Spec
		review.Status.Allowed = review.Spec.User != "guest"
		_ = json.NewEncoder(w).Encode(review)
		return
	}
	a.reviewed, a.atOnce = a.reviewed+1, a.atOnce+1
	a.most = max(a.most, a.atOnce)
	a.mu.Unlock()
	time.Sleep(a.pause)
	a.mu.Lock()
	a.atOnce--
	if a.broken {
		http.Error(w, "{}", http.StatusInternalServerError)
		return
	}
	review := authenticationv1.TokenReview{}
	_ = json.NewDecoder(r.Body).Decode(&review)
	if token := review.Spec.Token; token == "prometheus" || token == "guest" || strings.HasPrefix(token, "many") {
		review.Status.Authenticated = true
		review.Status.User = authenticationv1.UserInfo{Username: token, UID: "7", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}
	}
	_ = json.NewEncoder(w).Encode(review)
}

// statusFor returns the status of a request with an Authorization header.
func statusFor(h http.Handler, authorization string) int {
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, request)
	return answer.Code
}

func answers() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
}

func TestPermitted(t *testing.T) {
	api, clock := &reviewer{}, testclock.NewFakePassiveClock(time.Unix(0, 0))
	p := NewPermitted(api.client(t), answers(), clock, logr.Discard())
	for _, c := range []struct {
		authorization string
		want          int
		reviewed      int
	}{
		{"", http.StatusUnauthorized, 0},
		{"Basic prometheus", http.StatusUnauthorized, 0},
		{"Bearer ", http.StatusUnauthorized, 0},
		{"Bearer unknown", http.StatusUnauthorized, 1},
		{"Bearer unknown", http.StatusUnauthorized, 2}, // denials are not kept
		{"Bearer guest", http.StatusForbidden, 3},
		{"Bearer prometheus", http.StatusOK, 4},
		{"Bearer prometheus", http.StatusOK, 4}, // kept
	} {
		if got := statusFor(p, c.authorization); got != c.want || api.reviewed != c.reviewed {
			t.Errorf("%q: %d after %d reviews, not %d after %d", c.authorization, got, api.reviewed, c.want, c.reviewed)
		}
	}
	if a := api.asked; a.User != "prometheus" || a.UID != "7" || len(a.Groups) != 1 || len(a.Extra) != 1 || *a.NonResourceAttributes != (authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}) {
		t.Errorf("asked %+v", a)
	}

	api.broken = true
	if got := statusFor(p, "Bearer prometheus"); got != http.StatusOK {
		t.Errorf("a kept permission: %d", got)
	}
	clock.SetTime(time.Unix(60, 0))
	if got := statusFor(p, "Bearer prometheus"); got != http.StatusServiceUnavailable {
		t.Errorf("after a minute, without an API server: %d", got)
	}
}

// TestPermittedIsBounded: what is kept of tokens is bounded, and so is the number of reviews at the same time.
func TestPermittedIsBounded(t *testing.T) {
	api, clock := &reviewer{}, testclock.NewFakePassiveClock(time.Unix(0, 0))
	p := NewPermitted(api.client(t), answers(), clock, logr.Discard())
	for i := range 3 * permittedTokens {
		if got := statusFor(p, fmt.Sprintf("Bearer many-%d", i)); got != http.StatusOK {
			t.Fatalf("token %d: %d", i, got)
		}
	}
	if len(p.until) != permittedTokens {
		t.Errorf("%d tokens are kept", len(p.until))
	}
	clock.SetTime(time.Unix(61, 0))
	statusFor(p, "Bearer prometheus")
	if len(p.until) != 1 {
		t.Errorf("%d tokens are kept after a minute", len(p.until))
	}

	api.pause, api.most = 20*time.Millisecond, 0
	var requests sync.WaitGroup
	for i := range 10 {
		requests.Go(func() {
			if got := statusFor(p, fmt.Sprintf("Bearer many-%d", 100+i)); got != http.StatusOK {
				t.Errorf("a request that waits for its turn: %d", got)
			}
		})
	}
	requests.Wait()
	if api.most != reviewsAtOnce {
		t.Errorf("%d reviews at the same time", api.most)
	}
}
