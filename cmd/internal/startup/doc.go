// Package startup has what the programs do before they start: the signals that end them, the flags and the format of the log, files of
// bounded size, and the memory limit of the Go runtime.
package startup
