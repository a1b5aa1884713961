package export

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/policies"
	native "github.com/virtward/virtward/policies/export"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/kills"
)

// disturbed is a transport that rejects writes, or lets another client write before the first one.
type disturbed struct {
	inner http.RoundTripper
	// reject is the method of the writes that get the answer 403.
	reject string
	// between, if not nil, is called once before the first write.
	between func()
}

// RoundTrip implements http.RoundTripper.
func (d *disturbed) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && d.between != nil {
		d.between()
		d.between = nil
	}
	if request.Method == d.reject {
		status := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"not now"}`
		return &http.Response{
			StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
			Body: io.NopCloser(strings.NewReader(status)),
		}, nil
	}
	return d.inner.RoundTrip(request)
}

// replica is a reconciler that knows nothing yet and reads only from the API server, with a connection of its own.
func (c *cluster) replica(t *testing.T, connection *kills.Connection, by disturbed, name string) *Reconciler {
	t.Helper()
	config := rest.CopyConfig(c.config)
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		by.inner = inner
		return &by
	})
	live, _ := connection.Connect(t, config, schemeOf(t))
	environment, err := cel.NewEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	active := configcache.Compiled{Object: c.policy(t, name)}
	active.Policy, active.Problems = policies.Compile(environment, active.Object, nil)
	return New(Options{
		Client: live, Live: live, Statuses: live, Namespace: "virtward-system", Clock: clock.RealClock{}, Facts: c.current,
		Policies: func() []configcache.Compiled { return []configcache.Compiled{active} }, Ready: func() error { return nil },
	})
}

// once reconciles a policy once.
func (c *cluster) once(t *testing.T, connection *kills.Connection, by disturbed, name string) (reconcile.Result, error) {
	t.Helper()
	r := c.replica(t, connection, by, name)
	keys := r.keys()
	if len(keys) != 1 || keys[0].Name != name {
		t.Fatalf("keys %v", keys)
	}
	return r.Reconcile(t.Context(), keys[0])
}

// run reconciles a policy as the queue does, until it is not behind the API server. Only the first attempt is disturbed.
func (c *cluster) run(t *testing.T, connection *kills.Connection, by disturbed, name string) error {
	t.Helper()
	var failed error
	await.Until(t, func() error {
		result, err := c.once(t, connection, by, name)
		by = disturbed{}
		if failed = err; err == nil && result.RequeueAfter == behind {
			return errors.New("the reconciler is behind the API server")
		}
		return nil
	})
	return failed
}

// touch writes the status of a native policy, as the API server does: a write of the version that was read before conflicts.
func (c *cluster) touch(t *testing.T, name string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"status":{"observedGeneration":%d}}`, time.Now().UnixNano())
	_, err := c.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Patch(t.Context(), native.Prefix+name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
}

// methods are those of writes.
func methods(writes []string) []string {
	var all []string
	for _, write := range writes {
		method, _, _ := strings.Cut(write, " ")
		all = append(all, method)
	}
	return all
}

// killed kills the reconciler before and after each write, while the API server writes too. Another one completes the work,
// without a duplicate.
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
					conflicting := disturbed{between: func() { c.touch(t, policy) }}
					if s.before != "" {
						c.write(t, policy, s.before)
						if err := c.run(t, &kills.Connection{Left: -1}, disturbed{}, policy); err != nil {
							t.Fatal(err)
						}
					}
					c.write(t, policy, s.spec)
					first := &kills.Connection{Left: at, Lost: lost}
					if err := c.run(t, first, conflicting, policy); !errors.Is(err, kills.Err) && (lost || at < len(s.writes)) {
						t.Fatalf("it was not killed: %v", err)
					}
					if got := methods(first.Accepted()); !slices.Equal(got, s.writes[:at]) {
						t.Errorf("before the kill: %q, want %q", got, s.writes[:at])
					}
					second := &kills.Connection{Left: -1}
					if err := c.run(t, second, conflicting, policy); err != nil {
						t.Fatal(err)
					}
					if got := methods(second.Accepted()); !slices.Equal(got, s.writes[at:]) {
						t.Errorf("after the kill: %q, want %q", got, s.writes[at:])
					}
					third := &kills.Connection{Left: -1}
					if err := c.run(t, third, disturbed{}, policy); err != nil || len(third.Writes()) > 0 {
						t.Errorf("with nothing left to do: %v, %q", err, third.Writes())
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
	if _, err := c.once(t, &kills.Connection{Left: -1}, disturbed{reject: http.MethodPost}, "rejected"); err == nil || !strings.HasSuffix(err.Error(), ": not now") {
		t.Errorf("the error is %v", err)
	}
	is := meta.FindStatusCondition(c.policy(t, "rejected").Status.Conditions, "Exported")
	if is == nil || is.Status != "False" || is.Reason != "Rejected" || is.Message != "creating ValidatingAdmissionPolicy virtward-policy-rejected: not now" {
		t.Errorf("the condition is %+v", is)
	}
	if err := c.run(t, &kills.Connection{Left: -1}, disturbed{}, "rejected"); err != nil {
		t.Error(err)
	}
	c.converged(t, "rejected", true)
}

// behind: a conflicting write is not a failure of the policy. The next attempt
// converges.
func (c *cluster) behind(t *testing.T) {
	by := disturbed{between: func() {
		if err := c.run(t, &kills.Connection{Left: -1}, disturbed{}, "behind"); err != nil {
			t.Error(err)
		}
	}}
	for _, s := range []struct{ name, enforcement, write string }{{"created", "Deny", "POST"}, {"changed", "Warn", "PUT"}} {
		c.write(t, "behind", "enforcement: "+s.enforcement+"\n"+head+never)
		connection := &kills.Connection{Left: -1}
		result, err := c.once(t, connection, by, "behind")
		if got := methods(connection.Writes()); err != nil || result.RequeueAfter != behind || !slices.Equal(got, []string{s.write}) || len(connection.Accepted()) > 0 {
			t.Errorf("%s by another replica: %v, %v, %q", s.name, result, err, got)
		}
	}
	c.converged(t, "behind", true)
}

// versions: a report reaches the current version of its policy, and not one that was created again under the name.
func (c *cluster) versions(t *testing.T) {
	r := c.replica(t, &kills.Connection{Left: -1}, disturbed{}, c.created(t, "versions"))
	report := func(policy *policyv1alpha1.VirtualMachinePolicy) (bool, error) {
		o := &outcome{wanted: true, reason: policyv1alpha1.PolicyReasonNameTaken, message: fmt.Sprint(policy.Generation)}
		return r.report.Write(t.Context(), policy, o.status(&configcache.Compiled{Object: policy}, &policy.Status, time.Now()), nil)
	}
	read := c.policy(t, "versions")
	c.write(t, "versions", "enforcement: Audit\n"+head+never)
	if written, err := report(read); !written || err != nil {
		t.Errorf("of a policy that changed: written %t, %v", written, err)
	}
	read = c.policy(t, "versions")
	if is := meta.FindStatusCondition(read.Status.Conditions, "Exported"); is == nil || is.Message != "1" || read.Generation != 2 {
		t.Errorf("generation %d has %+v", read.Generation, is)
	}
	if err := c.dynamic.Resource(resource).Delete(t.Context(), "versions", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if written, err := report(read); written || err != nil {
		t.Errorf("of a deleted policy: written %t, %v", written, err)
	}
	c.created(t, "versions")
	if written, err := report(read); written || err != nil {
		t.Errorf("of a policy that was created again: written %t, %v", written, err)
	}
	if is := c.policy(t, "versions").Status.Conditions; len(is) > 0 {
		t.Errorf("the conditions are %+v", is)
	}
}

// created creates a policy, and returns its name.
func (c *cluster) created(t *testing.T, name string) string {
	t.Helper()
	c.write(t, name, "enforcement: Deny\n"+head+never)
	return name
}
