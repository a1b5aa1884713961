// Package sandbox is a Go module of its own, because Kubernetes can only be built with replace directives that no other
// module may have. It has a main package for each program of a control plane. Package test/controlplane of the main module
// starts them.
package sandbox
