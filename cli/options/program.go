package options

import (
	"strings"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// Program is what commands know of the program that they are part of.
type Program struct {
	// Name is what users type to call the program: kubectl virtward, or kubectl-virtward.
	Name string
	// Version is the version of the program, such as v1.2.3.
	Version string
	Streams genericiooptions.IOStreams
}

// Examples replaces PROGRAM in the examples of a command by the program's name.
func (p Program) Examples(text string) string { return strings.ReplaceAll(text, "PROGRAM", p.Name) }
