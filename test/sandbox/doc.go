// Package sandbox is a Go module of its own, because Kubernetes itself can only be built with
// replace directives that no other module may carry. It holds one main package for each program
// of a control plane; the launcher that runs them lives in the main module, in test/controlplane.
package sandbox
