package programs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
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

// Main runs a program with the arguments and the streams of the process, and exits. The function gets the version, the arguments and
// the streams, and returns the exit code.
func Main(version string, run func(ctx context.Context, version string, args []string, streams genericiooptions.IOStreams) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program
	os.Exit(run(ctx, version, os.Args, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}))
}

// Run executes a command line and returns the exit code. The first argument is the name of the program. The version is
// that of the program. newRoot builds its root command.
func Run(ctx context.Context, version string, args []string, streams genericiooptions.IOStreams, newRoot func(options.Program) *cobra.Command) (code int) {
	streams.Out, streams.ErrOut = options.NewPrintable(streams.Out), options.NewPrintable(streams.ErrOut)
	defer func() {
		if cause := recover(); cause != nil {
			report(streams.ErrOut, fmt.Errorf("this is a bug in kubectl-virtward: please report it with the input: %v", cause))
			code = exitFailed
		}
	}()
	program := options.Program{Name: displayName(args[0]), Version: version, Streams: streams}
	root := newRoot(program)
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return options.Usagef("%w: see %s --help", err, cmd.CommandPath())
	})
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

// displayName returns what users type to call the program. kubectl finds programs whose names begin with kubectl-.
func displayName(argv0 string) string {
	base := strings.TrimSuffix(filepath.Base(argv0), ".exe")
	if plugin, ok := strings.CutPrefix(base, "kubectl-"); ok && plugin != "" {
		return "kubectl " + strings.ReplaceAll(plugin, "-", " ")
	}
	return base
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
