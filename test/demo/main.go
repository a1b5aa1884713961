package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctrl.SetLogger(logr.Discard()) // the simulators log into the sandbox's folder
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	options, err := parse(os.Getenv("DEMO"), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(2)
	}
	options.Colour = wantsColour(os.Stdout)
	err = Run(ctx, options)
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

// parse reads the variable DEMO: words between commas. "all" shows everything, a number one chapter with everything, and
// "once" ends the demo after the last chapter. The default is the tour.
func parse(value string, out io.Writer) (Options, error) {
	options := Options{Stay: true, Tour: out}
	last := len(chapters())
	for word := range strings.SplitSeq(value, ",") {
		switch word = strings.TrimSpace(word); word {
		case "":
		case "once":
			options.Stay = false
		case "all":
			options.Tour, options.Full = nil, out
		default:
			number, err := strconv.Atoi(word)
			if err != nil || number < 1 || number > last {
				return Options{}, fmt.Errorf("DEMO=%s: %q is not once, all, or a chapter from 1 to %d", value, word, last)
			}
			options.Tour, options.Full = nil, out
			options.Only = append(options.Only, number)
		}
	}
	return options, nil
}

// wantsColour reports whether the output is a terminal without NO_COLOR (https://no-color.org).
func wantsColour(file *os.File) bool {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
