// Package serving has the HTTP servers of the webhook process: the webhooks, the probes and the metrics.
//
// Input: connections from any client that reaches the port. Output: requests for valid paths, passed to their handlers.
//
// A server has a fixed number of connections. A connection that has not yet called a valid path is unproven: it must do
// so in a short time, and the server closes the oldest unproven connection for a new one. There is no limit for each
// address, because many API servers may share one. The package never reads a body, and does not depend on admission.
package serving
