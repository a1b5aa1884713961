// Package startup has what the programs do before they start: the signals that end them, the flags and the format of the log, and the
// memory limit of the Go runtime.
package startup
