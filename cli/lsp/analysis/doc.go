// Package analysis finds what is wrong in a document of an editor.
//
// Its input is a Snapshot of a folder and the name of a file. Its output is the findings of explain and the problems of policy
// lint, with positions, and the fields that layers set. The objects of the other files are those that virtual machines refer
// to, and the configuration. If several files have the same object, the nearest one counts.
//
// It reads no cluster itself: the caller makes the evaluator.
package analysis
