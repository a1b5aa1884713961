package startup

import (
	"errors"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Exit is an error with the code that the program exits with.
type Exit struct {
	Code int
	Err  error
}

// Error implements error.
func (e *Exit) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Exit) Unwrap() error { return e.Err }

// Main runs the command of a program until a signal ends it. The program exits with 1 after an error, or with the code of an Exit.
func Main(command *cobra.Command) {
	if err := command.ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, command.Name()+":", err)
		code := 1
		if exit := (*Exit)(nil); errors.As(err, &exit) {
			code = exit.Code
		}
		os.Exit(code)
	}
}

// Begin makes the logger that the flags select that of the process, and limits its memory.
func (l *Log) Begin() (logr.Logger, error) {
	log, err := l.Logger()
	if err != nil {
		return log, err
	}
	ctrl.SetLogger(log)
	return log, LimitMemory()
}
