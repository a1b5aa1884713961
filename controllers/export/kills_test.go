package export

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/policies"
	native "github.com/virtward/virtward/policies/export"
)

// errKilled is the answer to every request of a reconciler that was killed.
var errKilled = errors.New("killed")

// connection ends at a write: before it, or after it with its answer lost. A negative number of writes is never.
type connection struct {
	inner  http.RoundTripper
	left   int
	lost   bool
	writes []string
	// reject is the method of the writes that get the answer 403.
	reject string
	// between, if not nil, is called once before the first write.
	between func()
}

// RoundTrip implements http.RoundTripper.
func (c *connection) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet {
		if c.left == 0 && len(c.writes) > 0 {
			return nil, errKilled
		}
		return c.inner.RoundTrip(request)
	}
	if c.between != nil {
		c.between()
		c.between = nil
	}
	if c.left == 0 {
		return nil, errKilled
	}
	if request.Method == c.reject {
		status := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"not now"}`
		return &http.Response{
			StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
			Body: io.NopCloser(strings.NewReader(status)),
		}, nil
	}
	c.left--
	response, err := c.inner.RoundTrip(request)
	c.writes = append(c.writes, request.Method)
	if c.left == 0 && c.lost && err == nil {
		return nil, errors.Join(errKilled, response.Body.Close())
	}
	return response, err
}

// replica is a reconciler that knows nothing yet and reads only from the API server, with a connection of its own.
func (c *cluster) replica(t *testing.T, connection *connection, name string) *Reconciler {
	t.Helper()
	config := rest.CopyConfig(c.config)
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		connection.inner = inner
		return connection
	})
	live, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	environment, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	active := configcache.Compiled{Object: c.policy(t, name)}
	active.Policy, active.Problems = policies.Compile(environment, active.Object, nil)
	return New(Options{
		Client: live, Live: live, Dynamic: dynamicClient, Namespace: "virtward-system", Clock: clock.RealClock{}, Facts: c.current,
		Policies: func() []configcache.Compiled { return []configcache.Compiled{active} }, Ready: func() error { return nil },
	})
}

// run reconciles a policy once.
func (c *cluster) run(t *testing.T, connection *connection, name string) (reconcile.Result, error) {
	t.Helper()
	r := c.replica(t, connection, name)
	keys := r.keys()
	if len(keys) != 1 || keys[0].Name != name {
		t.Fatalf("keys %v", keys)
	}
	return r.Reconcile(t.Context(), keys[0])
}

// killed kills the reconciler before and after each write. Another one completes the work, without a duplicate.
func (c *cluster) killed(t *testing.T) {
	audit := "enforcement: Audit\n" + head + never
	for name, s := range map[string]struct {
		before, spec string
		writes       []string
		exported     bool
	}{
		"made":      {"", "enforcement: Deny\n" + head + never, []string{"POST", "POST", "PATCH"}, true},
		"changed":   {"enforcement: Deny\n" + head + never, audit, []string{"PUT", "PUT", "PATCH"}, true},
		"withdrawn": {"enforcement: Deny\n" + head + never, "enforcement: Deny\nmatch: {kinds: [VirtualMachine]}\n" + never, []string{"DELETE", "DELETE", "PATCH"}, false},
	} {
		for at := range len(s.writes) + 1 {
			for _, lost := range []bool{false, true} {
				if lost && at == 0 {
					continue
				}
				t.Run(fmt.Sprintf("%s/after write %d/answer lost %v", name, at, lost), func(t *testing.T) {
					policy := strings.ToLower(fmt.Sprintf("kill-%s-%d-%v", name, at, lost))
					if s.before != "" {
						c.write(t, policy, s.before)
						if _, err := c.run(t, &connection{left: -1}, policy); err != nil {
							t.Fatal(err)
						}
					}
					c.write(t, policy, s.spec)
					first := &connection{left: at, lost: lost}
					if _, err := c.run(t, first, policy); !errors.Is(err, errKilled) && (lost || at < len(s.writes)) {
						t.Fatalf("it was not killed: %v", err)
					}
					if !slices.Equal(first.writes, s.writes[:at]) {
						t.Errorf("before the kill: %q, want %q", first.writes, s.writes[:at])
					}
					second := &connection{left: -1}
					if _, err := c.run(t, second, policy); err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(second.writes, s.writes[at:]) {
						t.Errorf("after the kill: %q, want %q", second.writes, s.writes[at:])
					}
					third := &connection{left: -1}
					if _, err := c.run(t, third, policy); err != nil || len(third.writes) > 0 {
						t.Errorf("with nothing left to do: %v, %q", err, third.writes)
					}
					c.converged(t, policy, s.exported)
				})
			}
		}
	}
}

// converged fails the test unless there is one native form of the policy's generation, or none, and the status says so.
func (c *cluster) converged(t *testing.T, name string, exported bool) {
	t.Helper()
	policy := c.policy(t, name)
	is := meta.FindStatusCondition(policy.Status.Conditions, "Exported")
	if !exported {
		_, err := c.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), native.Prefix+name, metav1.GetOptions{})
		_, errToo := c.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(t.Context(), native.Prefix+name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) || !apierrors.IsNotFound(errToo) || is != nil {
			t.Errorf("it is still exported: %v, %v, %+v", err, errToo, is)
		}
		return
	}
	want := fmt.Sprint(policy.Generation)
	got := []string{c.native(t, name).Annotations[AnnotationGeneration], c.binding(t, name).Annotations[AnnotationGeneration]}
	if diff := cmp.Diff([]string{want, want}, got); diff != "" {
		t.Errorf("generations (-want +got):\n%s", diff)
	}
	if is == nil || is.Status != "True" || is.Reason != "Exported" || is.ObservedGeneration != policy.Generation {
		t.Errorf("the condition is %+v", is)
	}
}

// rejected: the status has the error of the API server, and the write is retried.
func (c *cluster) rejected(t *testing.T) {
	c.write(t, "rejected", "enforcement: Deny\n"+head+never)
	rejected := &connection{left: -1, reject: http.MethodPost}
	if _, err := c.run(t, rejected, "rejected"); err == nil || !strings.HasSuffix(err.Error(), ": not now") {
		t.Errorf("the error is %v", err)
	}
	is := meta.FindStatusCondition(c.policy(t, "rejected").Status.Conditions, "Exported")
	if is == nil || is.Status != "False" || is.Reason != "Rejected" || is.Message != "creating ValidatingAdmissionPolicy virtward-policy-rejected: not now" {
		t.Errorf("the condition is %+v", is)
	}
	if _, err := c.run(t, &connection{left: -1}, "rejected"); err != nil {
		t.Error(err)
	}
	c.converged(t, "rejected", true)
}

// behind: a conflicting write is not a failure of the policy. The next attempt
// converges.
func (c *cluster) behind(t *testing.T) {
	c.write(t, "behind", "enforcement: Deny\n"+head+never)
	other := &connection{left: -1}
	created := &connection{left: -1, between: func() {
		if _, err := c.run(t, other, "behind"); err != nil {
			t.Error(err)
		}
	}}
	result, err := c.run(t, created, "behind")
	if err != nil || result.RequeueAfter != behind || !slices.Equal(created.writes, []string{"POST"}) {
		t.Errorf("created by another replica: %v, %v, %q", result, err, created.writes)
	}
	c.write(t, "behind", "enforcement: Warn\n"+head+never)
	changed := &connection{left: -1, between: func() {
		if _, err := c.run(t, other, "behind"); err != nil {
			t.Error(err)
		}
	}}
	result, err = c.run(t, changed, "behind")
	if err != nil || result.RequeueAfter != behind || !slices.Equal(changed.writes, []string{"PUT"}) {
		t.Errorf("changed by another replica: %v, %v, %q", result, err, changed.writes)
	}
	c.converged(t, "behind", true)
}
