// Package node has what the programs that run on each node share: the servers of their probes and metrics.
//
// Input: addresses, and a function that reports readiness. Output: servers that run until the process ends. The package needs no
// client of the API server.
package node
