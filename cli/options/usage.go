package options

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/texts"
)

// usageError is an error of the command line itself.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usagef returns an error about the command line, with which the program exits with 2.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// IsUsage reports whether Usagef made an error, or one that it wraps.
func IsUsage(err error) bool { return errors.As(err, &usageError{}) }

// NoArguments rejects all arguments of a command.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("%s takes no arguments, but got %q: see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return nil
}

// SeeHelp is the end of a usage error, which points to the help of the command.
func SeeHelp(cmd *cobra.Command) string { return ": see " + cmd.CommandPath() + " --help" }

// NamesOrFiles requires names of virtual machines or files, and not both.
func NamesOrFiles(cmd *cobra.Command, names []string, files bool) error {
	switch {
	case len(names) == 0 && !files:
		return Usagef("name a virtual machine, or a file with -f%s", SeeHelp(cmd))
	case len(names) > 0 && files:
		return Usagef("name virtual machines or files, not both%s", SeeHelp(cmd))
	}
	return nil
}

// OnlySubcommands rejects all arguments of a command that only has subcommands.
func OnlySubcommands(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("unknown command %q%s: see %s --help", args[0], meant(cmd, args[0]), cmd.CommandPath())
	}
	return nil
}

// meant suggests a command with a similar name, or those of this name below other commands.
func meant(cmd *cobra.Command, name string) string {
	var names, below []string
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		names = append(names, c.Name())
		for _, sub := range c.Commands() {
			if sub.Name() == name {
				below = append(below, strconv.Quote(c.Name()+" "+name))
			}
		}
	}
	if closest := texts.Closest(name, names); len(below) == 0 && closest != "" {
		below = append(below, strconv.Quote(closest))
	}
	if len(below) == 0 {
		return ""
	}
	return ": did you mean " + strings.Join(below, " or ") + "?"
}

// OneOf rejects a value that is not known. The word says what the value is, such as output.
func OneOf(word, value string, known []string) error {
	if slices.Contains(known, value) {
		return nil
	}
	return Usagef("unknown %s %q: the known ones are %s", word, value, strings.Join(known, ", "))
}

// OptionalOneOf is OneOf, and accepts the empty value too.
func OptionalOneOf(word, value string, known []string) error {
	if value == "" {
		return nil
	}
	return OneOf(word, value, known)
}

// Hypervisor rejects a hypervisor that is not known. An empty name is none.
func Hypervisor(name string) error {
	if name == "" {
		return nil
	}
	if _, err := platform.HypervisorByName(name); err != nil {
		return usageError{err}
	}
	return nil
}
