package serving

import "time"

// Limits bound what the connections of one server hold.
type Limits struct {
	// Connections bounds those that have called a valid path, Unproven those that have not.
	Connections, Unproven int
	// ProveWithin is the time from the connection to its first valid path. It covers the TLS handshake.
	ProveWithin time.Duration
	// HeaderBytes bounds the headers of a request.
	HeaderBytes int
	// Streams bounds the requests that one HTTP/2 connection has under way.
	Streams int
}

// WebhookLimits are those of the webhooks. An API server opens another connection when the streams of one are in use.
func WebhookLimits() Limits {
	return Limits{Connections: 64, Unproven: 64, ProveWithin: 5 * time.Second, HeaderBytes: 4 << 10, Streams: 16}
}

// SideLimits are those of the probes and of the metrics: a kubelet and a few scrapers.
func SideLimits() Limits {
	return Limits{Connections: 16, Unproven: 16, ProveWithin: 5 * time.Second, HeaderBytes: 4 << 10, Streams: 4}
}

// What connections and streams cost, in bytes, rounded up. HTTP/2 allows 64 KiB of unread bodies for a connection at
// least, and keeps a body in chunks of up to 16 KiB.
const (
	// connectionBytes is the state of TLS with one record in and one out (2 × 17 KiB), the buffers of net/http
	// (2 × 4 KiB), a frame in and one out (2 × 16 KiB), the tables of HPACK (2 × 4 KiB) and two stacks (2 × 8 KiB).
	connectionBytes = 98 << 10
	// receiveBytes are bodies that nobody has read yet, of all streams of a connection.
	receiveBytes = 64 << 10
	// streamBytes is a stack, a partly filled chunk of the body and the request itself, without its headers.
	streamBytes = (8 + 16 + 2) << 10
	// frameBytes is the largest frame that is read.
	frameBytes = 16 << 10
	// tableBytes is the table that compresses headers.
	tableBytes = 4 << 10
	// headerOverhead is what net/http adds to the bound of the headers.
	headerOverhead = 4 << 10
)

// WorstCase is the most memory that the connections hold at once, in bytes, without what handlers keep. An unproven
// connection holds no streams: a wrong path is answered before its body is read.
func (l Limits) WorstCase() int64 {
	header := int64(l.HeaderBytes + headerOverhead)
	unproven := int64(connectionBytes) + header
	proven := int64(connectionBytes+receiveBytes) + int64(l.Streams)*(streamBytes+header)
	return int64(l.Unproven)*unproven + int64(l.Connections)*proven
}

// WorstCase is the most memory that the connections of all servers of the webhook process hold at once, in bytes.
func WorstCase() int64 { return WebhookLimits().WorstCase() + 2*SideLimits().WorstCase() }

// Times of a request. A handler may set shorter ones.
const (
	headerTimeout  = 5 * time.Second
	requestTimeout = 10 * time.Second
	// idleTimeout ends a connection without requests. The API server keeps connections for 90 seconds.
	idleTimeout = 90 * time.Second
	// pingTimeout ends an HTTP/2 connection whose peer is gone.
	pingTimeout = 15 * time.Second
)
