package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"

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
	streams.Out, streams.ErrOut = options.NewPrintable(streams.Out), options.NewPrintable(streams.ErrOut)
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
	report(streams.ErrOut, withHint(err))
	if options.IsUsage(err) {
		return exitUsage
	}
	return exitFailed
}

// withHint adds what to do to an error of a cluster that cannot be reached.
func withHint(err error) error {
	var of *url.Error
	var network *net.OpError
	var timeout net.Error
	switch {
	case !errors.As(err, &of):
		return err
	case errors.As(of.Err, &network), errors.As(of.Err, &timeout) && timeout.Timeout():
		return fmt.Errorf("%w: the API server does not answer: check the kubeconfig, --context and the network", err)
	}
	return err
}

// maxError bounds an error, in bytes. A cluster or a file can make it longer.
const maxError = 64 << 10

// report writes an error as one line.
func report(w io.Writer, err error) {
	fmt.Fprintln(w, "error: "+texts.OneLine(texts.Shorten(err.Error(), maxError)))
}
