package startup

import (
	"errors"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Main runs the command of a program until a signal ends it. The program exits with 1 after an error, or with the ExitCode of the error.
func Main(command *cobra.Command) {
	if err := command.ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, command.Name()+":", err)
		code := 1
		if exit := interface{ ExitCode() int }(nil); errors.As(err, &exit) {
			code = exit.ExitCode()
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
