package serving

import (
	"time"

	"github.com/virtward/virtward/limits/memory"
)

// Limits bound the connections of one server.
type Limits struct {
	// Connections bounds those that have called a valid path, Unproven those that have not.
	Connections, Unproven int
	// ProveWithin is the time from the connection to its first valid path. It covers the TLS handshake.
	ProveWithin time.Duration
	// HeaderBytes bounds the headers of a request.
	HeaderBytes int
	// Streams bounds the requests in progress on one HTTP/2 connection; 0 serves HTTP/1.1 only.
	Streams int
	// Single closes a connection after its first response. So a client that does not read its responses keeps one of them,
	// and not a queue.
	Single bool
	// WriteWithin is the time from the end of the headers of a request to the end of its response.
	WriteWithin time.Duration
}

// WebhookLimits returns the limits of the webhooks. An API server calls a webhook that is a Service over HTTP/1.1, so each
// call in progress is a connection. It keeps 25 of them when they are idle.
func WebhookLimits() Limits {
	return Limits{Connections: 512, Unproven: 320, ProveWithin: 5 * time.Second, HeaderBytes: 4 << 10, WriteWithin: requestTimeout}
}

// DeletionLimits returns the limits of the port for deletions.
func DeletionLimits() Limits {
	return Limits{Connections: 128, Unproven: 64, ProveWithin: 5 * time.Second, HeaderBytes: 4 << 10, WriteWithin: requestTimeout}
}

// SideLimits returns the limits of the probes and the metrics, for a kubelet and a few scrapers.
func SideLimits() Limits {
	return Limits{Connections: 16, Unproven: 16, ProveWithin: 5 * time.Second, HeaderBytes: 4 << 10, Single: true, WriteWithin: 2 * time.Second}
}

// CountLimits returns the limits of the counts of policies, for one reader.
func CountLimits() Limits {
	return Limits{Connections: 2, Unproven: 4, ProveWithin: 5 * time.Second, HeaderBytes: 4 << 10, Single: true, WriteWithin: 5 * time.Second}
}

// CopyLimits returns the limits of the server of images. An importer of CDI has a few connections.
func CopyLimits() Limits {
	return Limits{Connections: 64, Unproven: 64, ProveWithin: 5 * time.Second, HeaderBytes: 4 << 10, Streams: 4, WriteWithin: requestTimeout}
}

// ImportLimits returns the limits of the server of the disks of an import. The importers of CDI have a few connections for each disk.
func ImportLimits() Limits {
	return Limits{Connections: 128, Unproven: 32, ProveWithin: 5 * time.Second, HeaderBytes: 8 << 10, WriteWithin: requestTimeout}
}

// ExportLimits returns the limits of the server of an export, for a few downloads and readers of its status.
func ExportLimits() Limits {
	return Limits{Connections: 16, Unproven: 32, ProveWithin: 5 * time.Second, HeaderBytes: 8 << 10, WriteWithin: requestTimeout}
}

// HeadBytes is the size of the beginning of a body that a handler may read without a bound of its own.
const HeadBytes = 16 << 10

// The memory of connections and streams, in bytes, rounded up. HTTP/2 allows at least 64 KiB of unread bodies for a
// connection, and keeps a body in chunks of up to 16 KiB.
const (
	// connectionBytes is the state of TLS with one record in and one out (2 × 17 KiB), the buffers of net/http
	// (2 × 4 KiB) and two stacks (2 × 8 KiB).
	connectionBytes = 58 << 10
	// multiplexBytes is what HTTP/2 needs besides: a frame in and one out (2 × 16 KiB), and the tables of HPACK (2 × 4 KiB).
	multiplexBytes = 40 << 10
	// receiveBytes is the size of the unread bodies of all streams of a connection.
	receiveBytes = 64 << 10
	// streamBytes is a stack, a partly filled chunk of the body and the request itself, without its headers.
	streamBytes = (8 + 16 + 2) << 10
	// frameBytes is the size of the largest accepted frame.
	frameBytes = 16 << 10
	// tableBytes is the table that compresses headers.
	tableBytes = 4 << 10
	// headerOverhead is the number of bytes that net/http adds to the limit of headers.
	headerOverhead = 4 << 10
)

// bytes returns the most memory of the connections at once, in bytes, without the memory of handlers. An unproven
// connection has no body: a wrong path is answered before its body is read.
func (l Limits) bytes() int64 {
	header := int64(l.HeaderBytes + headerOverhead)
	unproven, proven := connectionBytes+header, connectionBytes+header+HeadBytes
	if l.Streams > 0 {
		unproven += multiplexBytes
		proven = connectionBytes + multiplexBytes + receiveBytes + int64(l.Streams)*(streamBytes+header)
	}
	return int64(l.Unproven)*unproven + int64(l.Connections)*proven
}

// WorstCase returns the most memory of the connections to the webhooks and to the counts of policies.
func WorstCase() []memory.Bound {
	return []memory.Bound{{
		Name: "serving/connections", Subject: "connections",
		Bytes:  WebhookLimits().bytes() + DeletionLimits().bytes() + CountLimits().bytes(),
		Reason: "bounded in number and headers, with the first 16 KiB of a body; idle ones need far less",
	}}
}

// WorstCaseOfSides returns the most memory of the connections to the probes and the metrics of a process.
func WorstCaseOfSides() []memory.Bound {
	return []memory.Bound{{
		Name: "serving/sides", Subject: "connections to probes and metrics", Bytes: 2 * SideLimits().bytes(), Reason: "bounded in number and headers, with TLS",
	}}
}

// ImportBound is the most memory of the connections to the server of the disks of an import.
func ImportBound() memory.Bound {
	return memory.Bound{
		Name: "serving/imports", Subject: "connections of importers", Bytes: ImportLimits().bytes(), Reason: "bounded in number and headers, with TLS",
	}
}

// ExportBound is the most memory of the connections to the server of an export.
func ExportBound() memory.Bound {
	return memory.Bound{
		Name: "serving/exports", Subject: "connections of downloads", Bytes: ExportLimits().bytes(), Reason: "bounded in number and headers, with TLS",
	}
}

// Timeouts of a request. A handler may set shorter ones.
const (
	headerTimeout  = 5 * time.Second
	requestTimeout = 10 * time.Second
	// idleTimeout closes a connection without requests. It is longer than the 90 seconds of the API server, which thus closes
	// them itself: a request that is sent while the server closes is a failed call.
	idleTimeout = 100 * time.Second
	// settleTime is how long a connection without a request stays open, so that its last response reaches the client.
	settleTime = 100 * time.Millisecond
	// placeTimeout is how long a request waits for a place among the connections.
	placeTimeout = time.Second
	// pingTimeout closes an HTTP/2 connection whose peer does not answer.
	pingTimeout = 15 * time.Second
)
