package apiserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	goruntime "runtime"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/limits/memory"
)

// The bounds of the memory of all requests in progress, in bytes. docs/memory.md adds them up.
const (
	// MaxSmallBodies and MaxLargeBodies bound what is kept of bodies. Large ones have a pool of their own, so that small ones
	// do not wait for them.
	MaxSmallBodies = 16 << 20
	MaxLargeBodies = 40 << 20
	// MaxTemplates bounds the templates that are being read.
	MaxTemplates = maxReads * templateMemory
	// MaxImports bounds the imports that are being read, of which approvals name the source.
	MaxImports = maxImportReads * templateMemory
	// MaxSmallRenders and MaxLargeRenders bound the VirtualMachines that are rendered, created and answered.
	MaxSmallRenders = 32 << 20
	MaxLargeRenders = 128 << 20
)

const (
	// bodyCopies is how often a body is kept: as it arrived, decoded, and for admission.
	bodyCopies = 4
	// smallBody is the size up to which a body is small, and bodyChunk the part for which memory is reserved at once.
	smallBody = 64 << 10
	bodyChunk = 16 << 10
	// bodyTimeout bounds the time in which a body arrives.
	bodyTimeout = 10 * time.Second
	// templateMemory is for one template that is being read: etcd holds 1.5 MiB of it, which are kept up to four times.
	templateMemory = 6 << 20
	maxReads       = 10
	// maxImportReads is the number of imports that are read at the same time. They are as large as templates.
	maxImportReads = 2
	// memoryTimeout bounds the time for which a request waits for memory.
	memoryTimeout = 5 * time.Second
	// smallRender is the memory up to which a render is small.
	smallRender = 2 << 20
	// maxVirtualMachine is the size of the largest VirtualMachine that a template makes, and maxObjects its objects and
	// lists.
	maxVirtualMachine = 3 << 19
	maxObjects        = 5500
)

// gates bounds the memory and the processor time of requests in progress. A request that gets none is answered with 429. All
// amounts are shared by namespaces, so that the requests of one do not block others.
type gates struct {
	// places are for requests that are authorized.
	places                                   *memory.Parts
	smallBodies, largeBodies                 *memory.Parts
	reads, smallRenders, largeRenders, turns *memory.Shares
	imports                                  *memory.Shares
	// bodies arrive, and requests wait for memory, within these times.
	bodyTimeout, wait time.Duration
}

// newGates returns the bounds of a server that processes a number of requests at the same time. Those that are not authorized
// yet have a quarter of them.
func newGates(inFlight int) *gates {
	return &gates{
		places: memory.NewParts(int64(max(1, inFlight-inFlight/4))), smallBodies: memory.NewParts(MaxSmallBodies), largeBodies: memory.NewParts(MaxLargeBodies),
		reads: memory.NewShares(maxReads), imports: memory.NewShares(maxImportReads), smallRenders: memory.NewShares(MaxSmallRenders), largeRenders: memory.NewShares(MaxLargeRenders),
		turns: memory.NewShares(int64(max(2, goruntime.GOMAXPROCS(0)))), bodyTimeout: bodyTimeout, wait: memoryTimeout,
	}
}

// holderOf returns who shares with others what a request needs: its namespace, or its user.
func holderOf(ctx context.Context) string {
	if info, ok := request.RequestInfoFrom(ctx); ok && info.Namespace != "" {
		return "namespace " + info.Namespace
	}
	if user, ok := request.UserFrom(ctx); ok {
		return "user " + user.GetName()
	}
	return ""
}

// busy is the answer to a request that gets no memory.
func busy() error {
	return apierrors.NewTooManyRequests("too many requests are in progress; try again", 1)
}

// acquire waits for memory. Call release to give it back.
func (m *gates) acquire(ctx context.Context, from memory.Gate, weight int64) (release func(), err error) {
	holder := holderOf(ctx)
	ctx, cancel := context.WithTimeout(ctx, m.wait)
	defer cancel()
	if release, err = from.Acquire(ctx, holder, weight); err != nil {
		return nil, busy()
	}
	return release, nil
}

// compute calls a function that needs processor time, such as that of a render, when it is the request's turn.
func (m *gates) compute(ctx context.Context, f func() error) error {
	release, err := m.acquire(ctx, m.turns, 1)
	if err != nil {
		return err
	}
	defer release()
	return f()
}

type heldKey struct{}

// hold keeps memory until the request of the context is answered. It is returned at once if there is no such request, or if
// the answer was that it took too long.
func hold(ctx context.Context, release func()) {
	if held, ok := ctx.Value(heldKey{}).(*memory.Held); ok {
		held.Keep(release)
		return
	}
	release()
}

// bodies reads the body of a request before the request is processed, so that a client that sends it slowly occupies no
// other memory. Memory is reserved as the body arrives.
func (m *gates) bodies(next http.Handler, codecs runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.Body == nil || r.ContentLength > MaxRequestBody {
			next.ServeHTTP(w, r) // a body that is too large is answered without being read
			return
		}
		holder := holderOf(r.Context())
		leave, err := m.places.Acquire(r.Context(), holder, 1)
		if err != nil {
			responsewriters.ErrorNegotiated(busy(), codecs, subresources.V1Beta1, w, r)
			return
		}
		defer leave()
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Now().Add(m.bodyTimeout)) // without it, the timeout of the request applies
		body, release, err := m.read(r.Context(), r.Body, holder)
		defer release()
		if err != nil {
			if errors.Is(err, memory.ErrBusy) {
				err = busy()
			} else {
				err = apierrors.NewTimeoutError("the body did not arrive in time", 1)
			}
			responsewriters.ErrorNegotiated(err, codecs, subresources.V1Beta1, w, r)
			return
		}
		_ = control.SetReadDeadline(time.Time{})
		r.Body = io.NopCloser(bytes.NewReader(body))
		h := &memory.Held{}
		defer h.Release()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), heldKey{}, h)))
	})
}

// read reads a body up to one byte more than the largest one, which the server rejects.
func (m *gates) read(ctx context.Context, from io.Reader, holder string) (body []byte, release func(), err error) {
	held := &memory.Held{}
	reserve := func(pool memory.Gate, bytes int) error {
		release, err := pool.Acquire(ctx, holder, bodyCopies*int64(bytes))
		if err == nil {
			held.Keep(release)
		}
		return err
	}
	pool := m.smallBodies
	limited := io.LimitReader(from, MaxRequestBody+1)
	for {
		if pool == m.smallBodies && len(body)+bodyChunk > smallBody {
			held.Release()
			held, pool = &memory.Held{}, m.largeBodies
			if err := reserve(pool, len(body)); err != nil {
				return nil, held.Release, err
			}
		}
		if err := reserve(pool, bodyChunk); err != nil {
			return nil, held.Release, err
		}
		start := len(body)
		body = append(body, make([]byte, bodyChunk)...)
		n, err := io.ReadFull(limited, body[start:])
		body = body[:start+n]
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return body, held.Release, nil
		case err != nil:
			return nil, held.Release, err
		}
	}
}

// template reads a template with memory for it, and reserves memory to render it. Call release when the answer is made.
func (m *gates) template(ctx context.Context, read func() (*v1beta1.VirtualMachineTemplate, error), given map[string]string) (template *v1beta1.VirtualMachineTemplate, release func(), err error) {
	done, err := m.acquire(ctx, m.reads, 1)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	if template, err = read(); err != nil {
		return nil, nil, err
	}
	release, err = m.reserve(ctx, &template.Spec, given)
	return template, release, err
}

// reserve reserves the memory to render a template. Call release when it is not needed any more.
func (m *gates) reserve(ctx context.Context, spec *v1beta1.VirtualMachineTemplateSpec, given map[string]string) (release func(), err error) {
	weight, pool := renderMemory(spec, given), m.largeRenders
	if weight <= smallRender {
		pool = m.smallRenders
	}
	return m.acquire(ctx, pool, weight)
}

// The memory of a render, for each byte of the VirtualMachine and for each of its objects and lists. A test measures it.
const (
	memoryOfRender = 256 << 10
	memoryOfByte   = 40
	memoryOfObject = 6 << 10
)

// renderMemory is the memory to render a template, to create the VirtualMachine and to answer.
func renderMemory(spec *v1beta1.VirtualMachineTemplateSpec, given map[string]string) int64 {
	if spec.VirtualMachine == nil {
		return memoryOfRender
	}
	raw := spec.VirtualMachine.Raw
	longest, objects := maxGenerated, bytes.Count(raw, []byte("{"))+bytes.Count(raw, []byte("["))
	for _, value := range given {
		longest = max(longest, len(value))
	}
	for i := range spec.Parameters {
		longest = max(longest, len(spec.Parameters[i].Value))
	}
	references := bytes.Count(raw, []byte("${"))
	size := len(raw) + len(spec.Message)
	if references > 0 {
		size += references * min(longest, maxVirtualMachine)
	}
	return min(memoryOfRender+memoryOfByte*int64(min(size, maxVirtualMachine))+memoryOfObject*int64(min(objects, maxObjects)), MaxLargeRenders)
}

// maxGenerated is the length of the longest generated value.
const maxGenerated = 4096
