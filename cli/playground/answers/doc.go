// Package answers evaluates the documents of the playground.
//
// Its input is texts, and what to assume about a cluster. Its output is what explain, policy lint and policy test print as JSON
// for the same files. It reads no files, no cluster and no environment, so that a browser can run it.
package answers
