// Package serving holds the HTTP servers of the webhook process: the webhooks themselves, the probes and the metrics.
//
// What enters: connections of anyone who reaches the port. What leaves: requests for paths that exist, each handed to
// its handler. A server holds a fixed number of connections. A connection that has not yet called a valid path is
// unproven: it has little time, and the oldest unproven connection makes room for a new one. Addresses do not count,
// as many API servers may share one. The package never reads a body, and knows nothing of admission.
package serving
