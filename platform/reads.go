package platform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/decodelimits"
)

// Bounds of what is read live, in bytes. Users write the objects that a virtual machine points at, so each is bounded
// before it is decoded, and so is what all requests hold of them at once.
const (
	// maxSmall bounds the JSON of one object that is pointed at, such as an instancetype, and maxLarge that of one that
	// holds a virtual machine: no object of the API server is larger.
	maxSmall = 256 << 10
	maxLarge = 3 << 20
	// MaxReference bounds what is evaluated of an instancetype, a preference or a preset: the largest that KubeVirt brings
	// along has a few kilobytes. Larger ones are denied, and what refers to them is.
	MaxReference = 64 << 10
	// maxList bounds the JSON of a list, and maxListed its objects.
	maxList   = 1 << 20
	maxListed = 100
	// MaxReads is what all requests may hold at once of the objects that they read, decoded. A request takes heldSmall
	// of it, or heldLarge once it reads a large object. A small one has no more than maxSmallValues objects and lists,
	// and a large one no more than decodelimits.MaxValues, so that what Go makes of it fits.
	MaxReads       = 24 << 20
	heldSmall      = 2 << 20
	heldLarge      = 12 << 20
	maxSmallValues = 4_000
)

// ErrTooLarge says that an object is too large to be read.
var ErrTooLarge = errors.New("it is too large to be read")

// session is what one request holds of the objects that it reads. It belongs to one goroutine at a time.
type session struct {
	shares    *Shares
	namespace string
	held      int64
	giveBack  []func()
}

type sessionKey struct{}

// begin makes a session for a request about a namespace. What the request reads counts until it ends.
func begin(ctx context.Context, shares *Shares, namespace string) (context.Context, func()) {
	s := &session{shares: shares, namespace: namespace}
	return context.WithValue(ctx, sessionKey{}, s), s.end
}

// hold takes room for a read, in the session of the context, or else for as long as the read takes.
func hold(ctx context.Context, shares *Shares, bytes int64) (done func(), err error) {
	s, ok := ctx.Value(sessionKey{}).(*session)
	done = func() {}
	if !ok {
		s = &session{shares: shares}
		done = s.end
	}
	if missing := bytes - s.held; missing > 0 { // what was read before is garbage, or small
		giveBack, err := shares.Take(ctx, s.namespace, missing)
		if err != nil {
			return nil, err
		}
		s.giveBack, s.held = append(s.giveBack, giveBack), bytes
	}
	return done, nil
}

func (s *session) end() {
	for _, giveBack := range s.giveBack {
		giveBack()
	}
	s.giveBack, s.held = nil, 0
}

// reader reads objects from the API server, none of them larger than its bound.
type reader struct{ client rest.Interface }

func newReader(config *rest.Config) (*reader, error) {
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/api", &schema.GroupVersion{Version: "v1"} // of the Status in an answer; paths are absolute
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &reader{client: client}, nil
}

// object reads one object, without what is not evaluated of it. The error is one of the API server, or ErrTooLarge.
func (r *reader) object(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, most, mostEvaluated int64) (*unstructured.Unstructured, int64, error) {
	raw, err := r.raw(ctx, r.request(resource, namespace).Name(name), most)
	if err != nil {
		return nil, 0, err
	}
	object, err := bounded(raw, mostEvaluated)
	return object, int64(len(raw)), err
}

// list reads the objects of a kind in a namespace; more tells that there are more than asked for.
func (r *reader) list(ctx context.Context, resource schema.GroupVersionResource, namespace string, limit int64) (list *unstructured.UnstructuredList, size int64, err error) {
	raw, err := r.raw(ctx, r.request(resource, namespace).Param("limit", strconv.FormatInt(limit, 10)), maxList)
	if err != nil {
		return nil, 0, err
	}
	object, err := bounded(raw, maxList)
	if err != nil {
		return nil, 0, err
	}
	list, err = object.ToList()
	return list, int64(len(raw)), err
}

// raw reads an answer, unless it is larger than most.
func (r *reader) raw(ctx context.Context, request *rest.Request, most int64) ([]byte, error) {
	body, err := request.SetHeader("Accept", "application/json").Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	raw, err := io.ReadAll(io.LimitReader(body, most+1))
	if err != nil {
		return nil, fmt.Errorf("reading an answer of the API server: %w", err)
	}
	if int64(len(raw)) > most {
		return nil, ErrTooLarge
	}
	return raw, nil
}

// bounded decodes an object, unless too much of it is evaluated, or it has too many values.
func bounded(raw []byte, most int64) (*unstructured.Unstructured, error) {
	evaluated, outOfProportion := decodelimits.Evaluated(raw, reflect.TypeFor[any]())
	if outOfProportion != nil || int64(len(evaluated)) > most || most <= maxList && decodelimits.Brackets(evaluated) > maxSmallValues {
		return nil, ErrTooLarge
	}
	object := &unstructured.Unstructured{}
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(evaluated, &object.Object); err != nil {
		return nil, fmt.Errorf("decoding an answer of the API server: %w", err)
	}
	return object, nil
}

// request asks for the objects of a kind. It has an error if a name that a user wrote is none: it is part of a path.
func (r *reader) request(resource schema.GroupVersionResource, namespace string) *rest.Request {
	path := "/apis/" + resource.Group + "/" + resource.Version
	if resource.Group == "" {
		path = "/api/" + resource.Version
	}
	request := r.client.Get().AbsPath(path).Resource(resource.Resource)
	if namespace != "" {
		request = request.Namespace(namespace)
	}
	return request
}
