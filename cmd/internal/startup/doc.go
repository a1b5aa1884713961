// Package startup has what the programs do before they start: the flags and the format of the log, and the memory limit
// of the Go runtime.
package startup
