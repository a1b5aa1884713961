package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctrl.SetLogger(logr.Discard()) // the simulators log into the sandbox's folder
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	options := Options{Stay: os.Getenv("DEMO") != "once", Colour: wantsColour(os.Stdout)}
	err := Run(ctx, os.Stdout, options)
	switch {
	case err == nil: // also after Ctrl-C at the end
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "demo: interrupted; the cluster is deleted")
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// wantsColour reports whether the output is a terminal without NO_COLOR (https://no-color.org).
func wantsColour(file *os.File) bool {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
