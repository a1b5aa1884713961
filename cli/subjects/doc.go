// Package subjects evaluates the virtual machines of files, each by itself.
//
// Its input is sorted files and an evaluator. Its output is an explanation of each virtual machine, and what cannot be read. It
// reads no files and no cluster: the evaluator has the objects.
package subjects
