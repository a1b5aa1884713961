package serving

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// Bounds of Permitted.
const (
	// reviewsAtOnce bounds the requests whose users are reviewed by the API server at the same time. So a client without a permission
	// cannot send it many reviews.
	reviewsAtOnce = 2
	// reviewWithin bounds the reviews of a request, with the wait for a turn. It is less than the time of a response.
	reviewWithin = 1500 * time.Millisecond
	// permittedFor is how long a permission counts without another review, as in the servers of Kubernetes.
	permittedFor = time.Minute
	// permittedTokens bounds the tokens whose permission is kept. There are few scrapers.
	permittedTokens = 16
)

// Permitted passes on the requests of users who may get the path: the API server reviews their bearer token and their permission.
// Create it with NewPermitted.
type Permitted struct {
	client  kubernetes.Interface
	handler http.Handler
	clock   clock.PassiveClock
	log     logr.Logger
	turns   chan struct{}

	mu sync.Mutex
	// until has the end of each permission that is kept, by the digest of the token and the path.
	until map[[sha256.Size]byte]time.Time
}

// NewPermitted returns a handler in front of another one. The client must be allowed to create TokenReviews and SubjectAccessReviews.
func NewPermitted(client kubernetes.Interface, handler http.Handler, clock clock.PassiveClock, log logr.Logger) *Permitted {
	return &Permitted{
		client: client, handler: handler, clock: clock, log: log,
		turns: make(chan struct{}, reviewsAtOnce), until: map[[sha256.Size]byte]time.Time{},
	}
}

// ServeHTTP answers 401 without a valid token, 403 without the permission, and 503 if the API server does not review them in time.
func (p *Permitted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found || token == "" {
		reject(w, http.StatusUnauthorized)
		return
	}
	digest := sha256.Sum256([]byte(token + "\n" + r.URL.Path))
	if !p.known(digest) {
		code, err := p.review(r, token)
		if err != nil {
			p.log.Error(err, "reviewing a request", "path", r.URL.Path)
		}
		if code != http.StatusOK {
			reject(w, code)
			return
		}
		p.keep(digest)
	}
	p.handler.ServeHTTP(w, r)
}

// review asks the API server who the user is, and whether this user may get the path.
func (p *Permitted) review(r *http.Request, token string) (code int, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), reviewWithin)
	defer cancel()
	select {
	case p.turns <- struct{}{}:
		defer func() { <-p.turns }()
	case <-ctx.Done():
		return http.StatusServiceUnavailable, nil
	}
	who := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if who, err = p.client.AuthenticationV1().TokenReviews().Create(ctx, who, metav1.CreateOptions{}); err != nil {
		return http.StatusServiceUnavailable, err
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user, extra := who.Status.User, map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	may := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: r.URL.Path, Verb: "get"},
	}}
	if may, err = p.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, may, metav1.CreateOptions{}); err != nil {
		return http.StatusServiceUnavailable, err
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

func (p *Permitted) known(digest [sha256.Size]byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clock.Now().Before(p.until[digest])
}

// keep keeps a permission. With too many others it is reviewed again with the next request.
func (p *Permitted) keep(digest [sha256.Size]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	for one, end := range p.until {
		if !now.Before(end) {
			delete(p.until, one)
		}
	}
	if len(p.until) < permittedTokens {
		p.until[digest] = now.Add(permittedFor)
	}
}
