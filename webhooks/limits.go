package webhooks

import (
	"context"
	"runtime"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/limits/memory"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/webhooks/serving"
)

// Bounds of bodies, in bytes. The API server accepts objects of about 3 MB, and the review of an update has two. A body of
// up to serving.HeadBytes needs no memory besides that of its connection. A body of up to largeBody is medium.
const (
	maxReview    = 7 << 20
	maxInFlight  = mediumBodies + largeBodies
	largeBody    = 64 << 10
	mediumBodies = 1 << 20
	largeBodies  = maxReview
)

// The memory of requests, in bytes. A body is kept up to three times: as received, in a buffer that grows, and as the raw
// objects in it, which are parts of it unless it has the form of no API server. A small body is not: its decoded objects count for it.
const (
	// MaxBodies bounds the bodies of all requests.
	MaxBodies = 3 * maxInFlight
	// MaxDecoded bounds the decoded objects of all requests, by an estimate: perByte for each byte of JSON, and perValue
	// for each object and list. A few bytes of JSON can become a struct of a kilobyte, which is copied.
	MaxDecoded = 44 << 20
	perByte    = 3
	perValue   = 2 << 10
	// perTemplate is for the virtual machine that is rendered, at most 1.5 MiB in a buffer that grows, and for its two
	// evaluations, each with at most evaluator.MaxRenderedValues more objects and lists than the template.
	perTemplate = 8 << 20
	// A request is small if its decoded objects take up to smallDecoded. Small ones have smallDecodedMemory of their own.
	smallDecoded       = 1 << 20
	smallDecodedMemory = 12 << 20
)

// EvaluationMemory bounds the memory of all policy evaluations in progress, in bytes. RequestMemory bounds the bodies of
// requests.
const (
	EvaluationMemory = 64 << 20
	RequestMemory    = maxInFlight
)

// An evaluation of an object of some ten kilobytes is small. A part of the memory is reserved for small evaluations, so
// that they do not wait for large ones.
const (
	smallEvaluation = 8 << 20
	smallMemory     = 16 << 20
	largeMemory     = EvaluationMemory - smallMemory
)

// The memory that is reserved for deletions, in bytes, besides their bodies.
const (
	deletionsDecoded    = 8 << 20
	deletionsEvaluation = 16 << 20
	// MaxDeletions bounds the memory of deletions.
	MaxDeletions = 3*mediumBodies + deletionsDecoded + deletionsEvaluation
)

// Limits bound the memory of the requests in progress, for all webhooks that share it, and the cores that they use. Each
// limit is divided fairly among namespaces: see memory.Shares.
type Limits struct {
	// medium and large have the bytes of bodies.
	medium, large *memory.Shares
	// largeTurns are those of requests with large bodies, from the first byte of the body to the answer.
	largeTurns *memory.Shares
	// decoded has the memory of decoded objects, evaluations that of policies.
	decoded, evaluations memory.Lanes
	// turns are those of evaluations of policies: one for each core.
	turns *memory.Shares
	// others are for requests that these limits have no room for; nil for none.
	others *Limits
}

// NewLimits returns the limits of the webhooks.
func NewLimits() *Limits {
	return &Limits{
		medium: memory.NewShares(mediumBodies), large: memory.NewUndividedShares(largeBodies), largeTurns: memory.NewShares(cores()),
		decoded:     memory.Lanes{Small: memory.NewShares(smallDecodedMemory), Large: memory.NewUndividedShares(MaxDecoded - smallDecodedMemory), Threshold: smallDecoded},
		evaluations: memory.Lanes{Small: memory.NewShares(smallMemory), Large: memory.NewUndividedShares(largeMemory), Threshold: smallEvaluation},
		turns:       memory.NewShares(cores()),
	}
}

// NewDeletionLimits returns the limits of deletions, which do not wait for other requests. A large object uses the limits of
// others.
func NewDeletionLimits(others *Limits) *Limits {
	return &Limits{
		medium:      memory.NewShares(mediumBodies),
		decoded:     memory.Lanes{Small: memory.NewShares(deletionsDecoded), Threshold: smallDecoded},
		evaluations: memory.Lanes{Small: memory.NewUndividedShares(deletionsEvaluation), Threshold: deletionsEvaluation},
		turns:       memory.NewShares(cores()),
		others:      others,
	}
}

// cores is the number of cores, or two, so that one namespace does not get all.
func cores() int64 { return int64(max(2, runtime.GOMAXPROCS(0))) }

// of returns the limits for a body of a size.
func (l *Limits) of(body int64) *Limits {
	if body > largeBody && l.others != nil {
		return l.others
	}
	return l
}

// body takes the memory of a body, and the turn of a large one. Call release after the request.
func (l *Limits) body(ctx context.Context, holder string, size int64) (release func(), err error) {
	switch {
	case size <= serving.HeadBytes:
		return func() {}, nil
	case size <= largeBody:
		return l.medium.Acquire(ctx, holder, size)
	}
	return memory.AcquireAll(ctx, holder, memory.Claim{Gate: l.largeTurns, Amount: 1}, memory.Claim{Gate: l.large, Amount: size})
}

// decode takes the memory of decoded objects.
func (l *Limits) decode(ctx context.Context, holder string, size int64) (release func(), err error) {
	if l.others != nil && size > l.decoded.Threshold {
		return l.others.decode(ctx, holder, size)
	}
	return l.decoded.Acquire(ctx, holder, size)
}

// evaluate takes the memory of the policies for an object of a number of bytes, with the pod and the domain that they read.
func (l *Limits) evaluate(ctx context.Context, holder string, object int, previews int64) (bytes int64, release func(), err error) {
	bytes = min(policies.MemoryWith(object, previews), largeMemory)
	if l.others != nil && bytes > l.evaluations.Threshold {
		return l.others.evaluate(ctx, holder, object, previews)
	}
	release, err = l.evaluations.Acquire(ctx, holder, bytes)
	return bytes, release, err
}

// decodedSize returns the most memory that the objects of a review take. An object with too many values is not decoded.
func decodedSize(review []byte, kind string) int64 {
	// The review of an update has two objects.
	total := int64(perByte*len(review) + perValue*min(decode.Brackets(review), 2*decode.MaxValues))
	if kind == apikinds.VirtualMachineTemplate {
		total += perTemplate
	}
	return total
}

// objectSize returns the size of the larger object of a request, in bytes.
func objectSize(request *admissionv1.AdmissionRequest) int {
	return max(len(request.Object.Raw), len(request.OldObject.Raw))
}
