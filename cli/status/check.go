package status

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/virtward/virtward/cli/killswitch"
	"github.com/virtward/virtward/texts"
)

// State is the result of a check.
type State string

// The states, from the best to the worst.
const (
	OK State = "ok"
	// Unknown: the rights of the user do not permit to read it, or it cannot be read now.
	Unknown State = "unknown"
	Warning State = "warning"
	Error   State = "error"
)

// worst returns the worse one of two states.
func worst(a, b State) State {
	order := map[State]int{"": -1, OK: 0, Unknown: 1, Warning: 2, Error: 3}
	if order[b] > order[a] {
		return b
	}
	return a
}

// Result is what a check says of one subject.
type Result struct {
	Check   string `json:"check"`
	Subject string `json:"subject"`
	State   State  `json:"state"`
	Message string `json:"message"`
	// Remedy is what to do; empty if there is nothing to do.
	Remedy string `json:"remedy,omitempty"`
}

// check is one check. It returns results without the name of the check.
type check struct {
	name string
	run  func(*cluster, context.Context) []Result
}

// checks are all checks, in the order of the output.
func checks() []check {
	return []check{
		{"switch", (*cluster).switched},
		{"guards", (*cluster).guards},
		{"answers", (*cluster).answers},
		{"processes", (*cluster).processes},
		{"certificates", (*cluster).certificates},
		{"calls", (*cluster).calls},
		{"apiservices", (*cluster).apiServices},
		{"definitions", (*cluster).definitions},
		{"policies", (*cluster).policies},
		{"denials", (*cluster).denials},
		{"exceptions", (*cluster).exceptions},
		{"network", (*cluster).network},
		{"templates", (*cluster).templates},
		{"versions", (*cluster).versions},
	}
}

// askTimeout bounds one check.
const askTimeout = 30 * time.Second

// cluster is what the checks read.
type cluster struct {
	client dynamic.Interface
	// raw reads a path of the API server that is no object: its metrics, its version, and a port of a pod.
	raw func(ctx context.Context, path string) (io.ReadCloser, error)
	now time.Time
	// program is what users type to run this program.
	program string
}

// results runs all checks, and returns their results in the order of the checks.
func (c *cluster) results(ctx context.Context) []Result {
	all := checks()
	found := make([][]Result, len(all))
	var running sync.WaitGroup
	for i := range all {
		running.Go(func() {
			limited, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			found[i] = all[i].run(c, limited)
		})
	}
	running.Wait()
	var results []Result
	for i := range all {
		for _, r := range bounded(found[i]) {
			r.Check, r.Subject = all[i].name, texts.Shorten(texts.OneLine(r.Subject), maxMessage)
			r.Message, r.Remedy = texts.Shorten(texts.OneLine(r.Message), maxMessage), texts.Shorten(texts.OneLine(r.Remedy), maxMessage)
			results = append(results, r)
		}
	}
	return results
}

// maxResults bounds the results of a check.
const maxResults = 100

// bounded returns the first results of a check, and one for the others.
func bounded(results []Result) []Result {
	if len(results) <= maxResults {
		return results
	}
	others := results[maxResults-1:]
	rest := Result{Subject: "others", Message: texts.Count(len(others), "result is", "results are") + " not shown"}
	for i := range others {
		if rest.State = worst(rest.State, others[i].State); rest.State == others[i].State {
			rest.Remedy = others[i].Remedy
		}
	}
	return append(slices.Clip(results[:maxResults-1]), rest)
}

// installed returns an error if the cluster has no Virtward, as far as the user can see.
func (c *cluster) installed(ctx context.Context) error {
	for _, kind := range killswitch.Kinds() {
		if objects, err := killswitch.List(ctx, c.client, kind); err != nil || len(objects) > 0 {
			return nil //nolint:nilerr // a kind that cannot be read has a result
		}
	}
	return killswitch.NotInstalled()
}

// maxMessage bounds a subject, a message and a remedy, in bytes: they can quote an object.
const maxMessage = 512

// list lists the objects of a resource with labels, in a namespace or in all.
func (c *cluster) list(ctx context.Context, resource schema.GroupVersionResource, namespace, selector string) ([]unstructured.Unstructured, error) {
	var all []unstructured.Unstructured
	options := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
	for {
		page, err := c.client.Resource(resource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return nil, &readError{verb: "list", resource: resource, namespace: namespace, err: err}
		}
		all = append(all, page.Items...)
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return all, nil
		}
		if len(all) >= maxObjects {
			return nil, &readError{verb: "list", resource: resource, namespace: namespace, err: fmt.Errorf("there are more than %d", maxObjects)}
		}
	}
}

// pageSize is the number of objects that are read at once, and maxObjects that of all.
const (
	pageSize   = 500
	maxObjects = 20_000
)

// readError is the error of a request of a check.
type readError struct {
	verb      string
	resource  schema.GroupVersionResource
	namespace string
	err       error
}

// Error implements error.
func (e *readError) Error() string {
	if apierrors.IsForbidden(e.err) || apierrors.IsUnauthorized(e.err) {
		return "not permitted: " + e.what()
	}
	return "cannot " + e.what() + ": " + e.err.Error()
}

func (e *readError) what() string {
	text := e.verb + " " + e.resource.GroupResource().String()
	if e.namespace != "" {
		text += " in the namespace " + e.namespace
	}
	return text
}

func (e *readError) Unwrap() error { return e.err }

// unknown is the result of a check that cannot read something.
func unknown(subject string, err error) Result {
	r := Result{Subject: subject, State: Unknown, Message: err.Error()}
	if apierrors.IsForbidden(err) {
		r.Remedy = "run the command as a user who can read it"
	}
	return r
}

// absent reports whether an error means that the cluster does not serve a kind.
func absent(err error) bool { return apierrors.IsNotFound(err) }

// text reads a field of an object.
func text(o *unstructured.Unstructured, path ...string) string {
	found, _, _ := unstructured.NestedString(o.Object, path...)
	return found
}

// condition returns status, reason and message of a condition of an object.
func condition(o *unstructured.Unstructured, kind string) (status, reason, message string) {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, one := range all {
		if fields, ok := one.(map[string]any); ok && fields["type"] == kind {
			status, _ = fields["status"].(string)
			reason, _ = fields["reason"].(string)
			message, _ = fields["message"].(string)
			return status, reason, message
		}
	}
	return "", "", ""
}
