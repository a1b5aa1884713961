package startup

import (
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Main runs the command of a program until a signal ends it. The program exits with 1 after an error.
func Main(command *cobra.Command) {
	if err := command.ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, command.Name()+":", err)
		os.Exit(1)
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
