package platform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/limits/memory"
)

// Bounds of reads, in bytes. Users write the objects that virtual machines refer to. So each object is bounded before it
// is decoded, and all requests together are bounded too.
const (
	// maxSmall bounds the JSON of a referenced object, such as an instancetype. maxLarge bounds that of an object with a
	// virtual machine, and is the API server's limit.
	maxSmall = 256 << 10
	maxLarge = 3 << 20
	// MaxReference bounds the evaluated part of an instancetype, a preference or a preset. The largest one of KubeVirt has
	// a few kilobytes. Larger ones are denied, and so are VMs that refer to them.
	MaxReference = 64 << 10
	// maxList bounds the JSON of a list, and maxListed its objects.
	maxList   = 1 << 20
	maxListed = 100
	// MaxReads bounds the memory of the decoded objects of all requests: maxSmallReads and maxLargeReads. A request reserves
	// reserveSmall of the first for all small objects, and up to reserveLarge of the second once it reads a larger one. A small
	// object has at most maxSmallValues objects and lists, and a large one at most decode.MaxValues, so the decoded object
	// fits into the reservation.
	MaxReads      = maxSmallReads + maxLargeReads
	maxSmallReads = 16 << 20
	maxLargeReads = 24 << 20
	reserveSmall  = 2 << 20
	reserveLarge  = 12 << 20
	// reserveTyped is for a running instance and the spec that it was started with. Both have at most maxTypedValues
	// objects and lists, which need more memory in their Go types.
	reserveTyped = 4 << 20
	// ReserveMachine is for these two and their VM.
	ReserveMachine = 6 << 20
	maxTypedValues = 1_500
	maxSmallValues = 4_000
)

// ErrTooLarge is the error for an object that is too large to be read.
var ErrTooLarge = errors.New("it is too large to be read")

// readShares is the memory of all reads. Small and larger objects have memory of their own: a request that has reserved memory for
// small objects waits for more, and the requests that it waits for do not wait for memory for small objects.
type readShares struct{ small, large *memory.Shares }

func newReadShares() readShares {
	return readShares{small: memory.NewShares(maxSmallReads), large: memory.NewShares(maxLargeReads)}
}

// session is the memory that the reads of one request reserve. Only one goroutine at a time uses it.
type session struct {
	shares    readShares
	namespace string
	small     reservation
	large     reservation
}

// reservation is memory of one of the two, in bytes.
type reservation struct {
	bytes   int64
	release func()
}

// take reserves bytes. It never waits while it has a smaller reservation: what was read with that is garbage by now.
func (r *reservation) take(ctx context.Context, shares *memory.Shares, namespace string, bytes int64) error {
	if bytes <= r.bytes {
		return nil
	}
	r.end()
	release, err := shares.Acquire(ctx, namespace, bytes)
	if err != nil {
		return err
	}
	r.bytes, r.release = bytes, release
	return nil
}

func (r *reservation) end() {
	if r.release != nil {
		r.release()
	}
	*r = reservation{}
}

type sessionKey struct{}

// begin adds a session for a request of a namespace to a context.
func begin(ctx context.Context, shares readShares, namespace string) (context.Context, func()) {
	s := &session{shares: shares, namespace: namespace}
	return context.WithValue(ctx, sessionKey{}, s), s.end
}

// reserve reserves memory for a read, in the session of the context. Without a session, done releases it.
func reserve(ctx context.Context, shares readShares, bytes int64) (done func(), err error) {
	s, ok := ctx.Value(sessionKey{}).(*session)
	done = func() {}
	if !ok {
		s = &session{shares: shares}
		done = s.end
	}
	switch {
	case bytes > reserveSmall:
		err = s.large.take(ctx, s.shares.large, s.namespace, bytes)
	case s.large.bytes == 0:
		err = s.small.take(ctx, s.shares.small, s.namespace, bytes)
	}
	return done, err
}

func (s *session) end() {
	s.small.end()
	s.large.end()
}

// reader reads objects of bounded size from the API server.
type reader struct{ client rest.Interface }

func newReader(config *rest.Config) (*reader, error) {
	config = rest.CopyConfig(config)
	core := schema.GroupVersion{Version: "v1"}
	status := runtime.NewScheme() // only the Status in a response is decoded by it; paths are absolute
	metav1.AddToGroupVersion(status, core)
	config.APIPath, config.GroupVersion = "/api", &core
	config.NegotiatedSerializer = serializer.NewCodecFactory(status).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return &reader{client: client}, nil
}

// onlyMetadata is the media type of objects without their content.
const onlyMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// object reads the evaluated part of one object, or only its metadata. The error is that of the API server, or ErrTooLarge.
func (r *reader) object(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, most, mostEvaluated int64, metadata bool) (*unstructured.Unstructured, int64, error) {
	request := r.request(resource, namespace).Name(name)
	if metadata {
		request = request.SetHeader("Accept", onlyMetadata)
	}
	raw, err := r.raw(ctx, request, most)
	if err != nil {
		return nil, 0, err
	}
	object, err := bounded(raw, mostEvaluated)
	return object, int64(len(raw)), err
}

// list reads the objects of a kind in a namespace. If there are more than limit, the list has a continue token.
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

// raw reads a response of at most most bytes.
func (r *reader) raw(ctx context.Context, request *rest.Request, most int64) ([]byte, error) {
	return r.rawInto(ctx, request, most, &bytes.Buffer{})
}

// rawInto reads a response of at most most bytes into an empty buffer, of which the answer is a part.
func (r *reader) rawInto(ctx context.Context, request *rest.Request, most int64, buffer *bytes.Buffer) ([]byte, error) {
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	if _, err := buffer.ReadFrom(io.LimitReader(body, most+1)); err != nil {
		return nil, fmt.Errorf("reading a response of the API server: %w", err)
	}
	if int64(buffer.Len()) > most {
		return nil, ErrTooLarge
	}
	return buffer.Bytes(), nil
}

// bounded decodes an object. The error is ErrTooLarge if its evaluated part is too large, or has too many values.
func bounded(raw []byte, most int64) (*unstructured.Unstructured, error) {
	evaluated, limit := decode.Evaluated(raw, reflect.TypeFor[any]())
	if limit != nil || int64(len(evaluated)) > most || most <= maxList && decode.Brackets(evaluated) > maxSmallValues {
		return nil, ErrTooLarge
	}
	object := &unstructured.Unstructured{}
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(evaluated, &object.Object); err != nil {
		return nil, fmt.Errorf("decoding a response of the API server: %w", err)
	}
	return object, nil
}

// request returns a request for the objects of a kind. Its client verifies the names of users, which are parts of the path.
func (r *reader) request(resource schema.GroupVersionResource, namespace string) *rest.Request {
	path := "/apis/" + resource.Group + "/" + resource.Version
	if resource.Group == "" {
		path = "/api/" + resource.Version
	}
	request := r.client.Get().AbsPath(path).Resource(resource.Resource).SetHeader("Accept", "application/json")
	if namespace != "" {
		request = request.Namespace(namespace)
	}
	return request
}
