package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/texts"
)

// Exit codes of the program.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// Run executes a command line and returns the exit code. The first argument is the name of the program. The version is
// that of the program.
func Run(ctx context.Context, version string, args []string, streams genericiooptions.IOStreams) (code int) {
	defer func() {
		if cause := recover(); cause != nil {
			report(streams.ErrOut, fmt.Errorf("this is a bug in kubectl-virtward: please report it with the input: %v", cause))
			code = exitFailed
		}
	}()
	root := newRoot(args[0], version, streams)
	root.SetArgs(args[1:])
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	report(streams.ErrOut, err)
	if options.IsUsage(err) {
		return exitUsage
	}
	return exitFailed
}

// report writes an error as one line.
func report(w io.Writer, err error) {
	fmt.Fprintln(w, "error: "+texts.OneLine(err.Error()))
}
