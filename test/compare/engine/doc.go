// Package engine is what the programs of this comparison share: the policies and requests that all engines get, and the loop
// that measures one engine in a process of its own.
//
// What enters: lines of JSON on standard input, first a Load, then a Run for each measurement. What leaves: a line for each on
// standard output. The module has no requirements, so that each engine is built with exactly the versions that its own go.mod
// requires.
package engine
