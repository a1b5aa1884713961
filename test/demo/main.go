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
	case err == nil: // Ctrl-C after the story is the way out
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "demo: interrupted, and taken down")
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// wantsColour is true for a terminal whose user did not ask for plain text (https://no-color.org).
func wantsColour(file *os.File) bool {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
